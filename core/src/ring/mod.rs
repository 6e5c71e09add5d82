//! A replay: created once, attached by name from any process.

pub(crate) mod copy_rows;
pub(crate) mod create;
pub(crate) mod lane_inspection;
pub(crate) mod observed;
pub(crate) mod options;
pub(crate) mod resize;
pub(crate) mod restore;
pub(crate) mod stats;
pub(crate) mod unlinked;
pub(crate) mod wait;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use backcast_layout::protocol::Words;
use backcast_layout::{LanePolicy, LeaseBook, RingStore, SegmentError};

use self::options::{Capacity, RingOptions};
use self::unlinked::NameWatch;
use crate::error::RingError;
use crate::schema::Schema;

/// A handle on a ring. Cloning shares it; the last handle of a non-persistent ring removes it.
#[derive(Clone, Debug)]
pub struct Ring {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<RingStore>,
    schema: Schema,
    /// Of the leases held through this handle; made with the first and gone with the last.
    leases: Mutex<Weak<LeaseBook>>,
    name_watch: NameWatch,
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
            }),
        })
    }

    pub(crate) fn store(&self) -> &Arc<RingStore> {
        &self.inner.store
    }

    pub(crate) fn name_watch(&self) -> &NameWatch {
        &self.inner.name_watch
    }

    /// The leases of this handle. `None`: every reader slot is taken, or the name is gone.
    pub(crate) fn leases(&self) -> Result<Option<Arc<LeaseBook>>, SegmentError> {
        let mut known = self.inner.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(book) = known.upgrade() {
            return Ok(Some(book));
        }
        let opened = LeaseBook::open(self.store())?;
        if let Some(book) = &opened {
            *known = Arc::downgrade(book);
        }
        Ok(opened)
    }

    /// The columns of a row.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// Name; `None` on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.store().name()
    }

    /// Directory; `None` on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.store().path()
    }

    /// Random, of this ring alone: one made anew under the same name has another.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.store().uuid()
    }

    /// Whether nobody can write it: it holds what a ring held once.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.store().spec().snapshot
    }

    /// What it is a snapshot of, as its maker said ([`RingOptions::snapshot_of`]).
    #[must_use]
    pub fn snapshot_of(&self) -> &str {
        &self.store().spec().snapshot_of
    }

    /// How to make a ring like this one, in the standard place.
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

    /// Single-writer lanes.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.store().spec().lanes
    }

    /// Rows a lane keeps for readers. While the ring is resized, of the lane that keeps fewest.
    /// O(lanes).
    #[must_use]
    pub fn lane_capacity(&self) -> u64 {
        (0..self.lanes()).filter_map(|lane| self.lane_capacity_of(lane)).min().unwrap_or(0)
    }

    /// Rows that one lane keeps for readers: while the ring is resized, lanes that have moved keep more
    /// than others. `None` for a lane the ring lacks.
    #[must_use]
    pub fn lane_capacity_of(&self, lane: u32) -> Option<u64> {
        self.look(lane).map(|look| look.memory.capacity())
    }

    /// Readers that can hold leases at once.
    #[must_use]
    pub fn reader_slots(&self) -> u32 {
        self.store().spec().reader_slots
    }

    /// What a writer does about a lease in its way.
    #[must_use]
    pub fn lane_policy(&self) -> LanePolicy {
        self.store().spec().policy
    }

    /// Physical rows of a lane.
    #[must_use]
    pub fn slots(&self) -> u64 {
        let slots = |lane| self.look(lane).map(|look| look.memory.slots());
        (0..self.lanes()).filter_map(slots).min().unwrap_or(0)
    }

    /// Rows all lanes keep together.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.lane_capacity() * u64::from(self.lanes())
    }

    /// Transitions that can be drawn. O(lanes).
    #[must_use]
    pub fn len(&self) -> u64 {
        (0..self.lanes()).map(|lane| self.transitions(lane)).sum()
    }

    /// Whether no transition can be drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sequence numbers of a lane that can be read now; `None` for a lane the ring lacks.
    #[must_use]
    pub fn lane_span(&self, lane: u32) -> Option<Range<u64>> {
        self.look(lane).map(|look| look.rows)
    }

    /// Takes the name away. Every handle, in any process, keeps its memory.
    pub fn unlink(&self) -> Result<(), RingError> {
        self.expect_unlink();
        Ok(self.store().unlink()?)
    }
}
