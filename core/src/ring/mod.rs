//! A ring: created once, attached by name from any process.

pub(crate) mod ages;
pub(crate) mod claim_stats;
pub(crate) mod copy_rows;
pub(crate) mod create;
pub(crate) mod drop_rows;
pub(crate) mod lane_inspection;
pub(crate) mod notices;
pub(crate) mod observed;
pub(crate) mod options;
pub(crate) mod reason;
pub(crate) mod resize;
pub(crate) mod restore;
pub(crate) mod stats;
pub(crate) mod tables;
pub(crate) mod unlinked;
pub(crate) mod wait;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use backcast_layout::protocol::Words;
use backcast_layout::{LanePolicy, ReaderPins, RingStore, SegmentError};

use self::notices::Notices;
use self::options::{Capacity, RingOptions};
use self::unlinked::NameWatch;
use crate::error::RingError;
use crate::limiter::{self, Limiter};
use crate::schema::Schema;
use crate::wait::Interrupt;

/// A handle on a ring. Cloning shares it; the last handle of a non-persistent ring removes it.
#[derive(Clone, Debug)]
pub struct Ring {
    inner: Arc<Inner>,
    interrupt: Interrupt,
}

#[derive(Debug)]
struct Inner {
    store: Arc<RingStore>,
    schema: Schema,
    /// Pins of the leases of this handle. Created with the first lease and dropped with the last.
    leases: Mutex<Weak<ReaderPins>>,
    name_watch: NameWatch,
    notices: Arc<Notices>,
}

impl Ring {
    pub(crate) fn of(store: RingStore) -> Result<Self, RingError> {
        let schema = Schema::from_columns(&store.spec().columns)?;
        Ok(Self {
            inner: Arc::new(Inner {
                store: Arc::new(store),
                schema,
                leases: Mutex::default(),
                name_watch: NameWatch::default(),
                notices: Arc::default(),
            }),
            interrupt: Interrupt::never(),
        })
    }

    /// Sets what ends the waits of this handle, and of the clones, writers, samplers and tables
    /// made from it afterwards.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Returns what ends the waits of this handle.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    pub(crate) fn store(&self) -> &Arc<RingStore> {
        &self.inner.store
    }

    pub(crate) fn name_watch(&self) -> &NameWatch {
        &self.inner.name_watch
    }

    pub(crate) fn notice_log(&self) -> &Arc<Notices> {
        &self.inner.notices
    }

    /// Returns the pins of this handle. `None` if every reader slot is taken.
    pub(crate) fn leases(&self) -> Result<Option<Arc<ReaderPins>>, SegmentError> {
        let mut known = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(book) = known.upgrade() {
            return Ok(Some(book));
        }
        let opened = ReaderPins::open(self.store())?;
        if let Some(book) = &opened {
            *known = Arc::downgrade(book);
        }
        Ok(opened)
    }

    /// Returns the columns of a row.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// Returns the name; `None` on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.store().name()
    }

    /// Returns the directory; `None` on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.store().path()
    }

    /// Returns the random id of the ring: another ring of the same name has another one.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.store().uuid()
    }

    /// Returns whether it is a snapshot, which no process writes.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.store().spec().snapshot
    }

    /// Returns the source of a snapshot, as set by its creator ([`RingOptions::snapshot_of`]).
    /// Empty if none was set.
    #[must_use]
    pub fn snapshot_of(&self) -> &str {
        &self.store().spec().snapshot_of
    }

    /// Returns options for a ring like this one, in the standard base directory, without a rate
    /// limiter and without the source of a snapshot.
    #[must_use]
    pub fn options(&self) -> RingOptions {
        let spec = self.store().spec();
        let capacity = match self.store().asked() {
            (rows, 0) => Capacity::Rows(rows),
            (_, bytes) => Capacity::Bytes(bytes),
        };
        RingOptions::with_capacity(capacity)
            .lanes(spec.lanes)
            .persistent(self.store().persistent())
            .reader_slots(spec.reader_slots)
            .lane_policy(spec.policy)
            .huge_pages(spec.huge_pages)
            .memfd(spec.memfd)
            .snapshot(spec.snapshot)
    }

    /// Returns the number of single-writer lanes.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.store().spec().lanes
    }

    /// Returns the rows that a lane keeps for readers. During a resize, those of the smallest lane.
    /// O(lanes).
    #[must_use]
    pub fn lane_capacity(&self) -> u64 {
        (0..self.lanes()).filter_map(|lane| self.lane_capacity_of(lane)).min().unwrap_or(0)
    }

    /// Returns the rows that one lane keeps for readers. During a resize, relocated lanes keep more
    /// than others. `None` if the ring lacks the lane.
    #[must_use]
    pub fn lane_capacity_of(&self, lane: u32) -> Option<u64> {
        self.inspect_lane(lane).map(|lane| lane.memory.capacity())
    }

    /// Returns the rate limiter; `None` if the ring was created without one
    /// ([`RingOptions::limiter`]).
    #[must_use]
    pub fn limiter(&self) -> Option<Limiter> {
        let ring = self.clone();
        Limiter::of(self.store(), move || ring.len())
    }

    /// Returns how many readers can hold leases at the same time.
    #[must_use]
    pub fn reader_slots(&self) -> u32 {
        self.store().spec().reader_slots
    }

    /// Returns the policy of writers when a lease stops them.
    #[must_use]
    pub fn lane_policy(&self) -> LanePolicy {
        self.store().spec().policy
    }

    /// Returns the physical rows of a lane. During a resize, those of the smallest lane.
    #[must_use]
    pub fn slots(&self) -> u64 {
        let slots = |lane| self.inspect_lane(lane).map(|lane| lane.memory.slots());
        (0..self.lanes()).filter_map(slots).min().unwrap_or(0)
    }

    /// Returns the rows that all lanes keep together. During a resize, counts every lane like the
    /// smallest.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.lane_capacity() * u64::from(self.lanes())
    }

    /// Returns the transitions that can be drawn. The newest row of an episode that goes on counts
    /// once its successor is appended. O(lanes).
    #[must_use]
    pub fn len(&self) -> u64 {
        (0..self.lanes()).map(|lane| self.transitions(lane)).sum()
    }

    /// Returns the number of transitions that the ring can hold: the newest row of each lane has no
    /// successor. Episodes that end leave room for fewer.
    pub(crate) fn max_len(&self) -> u64 {
        limiter::most_transitions(self.store())
    }

    /// Returns whether no transition can be drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sequence numbers of a lane that can be read now. `None` if the ring lacks the
    /// lane.
    #[must_use]
    pub fn lane_span(&self, lane: u32) -> Option<Range<u64>> {
        self.inspect_lane(lane).map(|lane| lane.rows)
    }

    /// Removes the name. Every handle, in any process, keeps its memory.
    pub fn unlink(&self) -> Result<(), RingError> {
        self.expect_unlink();
        self.store().unlink()?;
        // Wake processes that wait: each finds the name lost, and does what its handle is set to
        // do.
        limiter::wake_all(self.store());
        Ok(())
    }
}
