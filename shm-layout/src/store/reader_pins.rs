//! Pins of one handle: a reader slot, and the multiset of rows that its pins freeze.
//!
//! A slot has one pin per lane. A handle with several leases on a lane pins the oldest of their
//! rows, which covers all, and moves the pin up as they end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::error::SegmentError;
use crate::layout::lane::Lane;
use crate::protocol::{HeldRows, PinError, has_relocated, notify};
use crate::store::ring_store::{ClaimedReader, RingStore};

/// Maximum pinned ranges of one handle at a time.
pub const MAX_PINNED_RANGES: usize = 1024;

/// A reader slot and the pins it holds.
#[derive(Debug)]
pub struct ReaderPins {
    // Dropped before the store: the claim holds the object too, and the store removes the object
    // only as its last holder.
    reader: ClaimedReader,
    store: Arc<RingStore>,
    held: Mutex<Held>,
    /// A forked child has a copy of everything here, and must not release its parent's pins.
    pid: u32,
}

#[derive(Debug, Default)]
struct Held {
    lanes: BTreeMap<u32, HeldLane>,
    total: usize,
}

/// Pins of a lane, and the stalls that each of them caused.
#[derive(Debug, Default)]
struct HeldLane {
    rows: HeldRows,
    /// Stalls by the first row of a pin, up to `since`.
    caused: BTreeMap<u64, u64>,
    /// Counts when the oldest pin was last charged with stalls.
    since: StallCounts,
}

impl HeldLane {
    /// Charges the oldest pin with the stalls since the last call: no other pin blocked a writer.
    fn charge(&mut self, now: StallCounts) {
        let more = now.more_than(&self.since);
        self.since = now;
        if let Some(oldest) = self.rows.oldest() {
            *self.caused.entry(oldest).or_default() += more;
        }
    }

    /// Returns the stalls that pins from `start` on have caused, as of the last charge.
    fn caused(&self, start: u64) -> u64 {
        self.caused.get(&start).copied().unwrap_or_default()
    }
}

/// Counts of stalls from which those of a handle's pins on one lane are derived.
#[derive(Clone, Copy, Debug, Default)]
struct StallCounts {
    /// Stalls by pins of the handle, on any lane.
    slot: u64,
    /// Stalls of the lane's writers, by any handle. `None` if the lane was relocated and is not
    /// mapped again.
    lane: Option<u64>,
}

impl StallCounts {
    /// Returns the stalls since `earlier` by pins of the handle on the lane. A stall of another
    /// handle on the lane counts only if this handle stalls another lane meanwhile.
    fn more_than(&self, earlier: &Self) -> u64 {
        let of_slot = self.slot.saturating_sub(earlier.slot);
        let of_lane = self.lane.zip(earlier.lane).map(|(now, then)| now.saturating_sub(then));
        of_lane.map_or(of_slot, |of_lane| of_slot.min(of_lane))
    }
}

/// Error of freezing rows.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum ReaderPinsError {
    /// The handle holds too many leases.
    #[error("this handle holds {held} leases, the limit is {limit}; close some first")]
    TooMany { held: usize, limit: usize },
    /// The rows were overwritten first, or their lane was relocated.
    #[error(transparent)]
    Lapped(#[from] PinError),
}

impl ReaderPins {
    /// Claims a reader slot. Returns `None` if all are taken.
    pub fn open(store: &Arc<RingStore>) -> Result<Option<Arc<Self>>, SegmentError> {
        let Some(reader) = store.claim_reader()? else { return Ok(None) };
        let (store, pid) = (Arc::clone(store), std::process::id());
        Ok(Some(Arc::new(Self { reader, store, held: Mutex::default(), pid })))
    }

    /// Returns the number of the reader slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.reader.slot()
    }

    /// Freezes a lane's rows from `start` on, in `memory`, until the result is dropped.
    ///
    /// The rows must have been readable there just before. Fails and freezes nothing if they were
    /// overwritten meanwhile, the lane was relocated, or this handle has [`MAX_PINNED_RANGES`]
    /// ranges.
    pub fn hold(
        self: &Arc<Self>,
        lane: u32,
        memory: &Arc<Lane>,
        start: u64,
    ) -> Result<PinnedRows, ReaderPinsError> {
        let mut held = self.held();
        if held.total >= MAX_PINNED_RANGES {
            return Err(ReaderPinsError::TooMany { held: held.total, limit: MAX_PINNED_RANGES });
        }
        let pinned = held.lanes.entry(lane).or_default();
        pinned.charge(self.stall_counts(lane));
        let granted = pinned.rows.hold(&**memory, &self.store.pins(lane), self.slot(), start);
        if let Err(refused) = granted {
            drop(held);
            // The pin may have stopped a writer before it was reset.
            notify(&self.store.released());
            return Err(refused.into());
        }
        held.total += 1;
        // Counted under the lock: the counter has one writer at a time.
        self.store.count_lease(self.slot());
        drop(held);
        let (memory, book) = (Arc::clone(memory), Arc::clone(self));
        Ok(PinnedRows { memory, book, lane, start })
    }

    /// Returns how often pins of this handle on a lane, from `start` on, made a writer wait, drop
    /// or fail. Returns 0 in a forked child.
    fn caused(&self, lane: u32, start: u64) -> u64 {
        if self.pid != std::process::id() {
            return 0;
        }
        let mut held = self.held();
        let Some(pinned) = held.lanes.get_mut(&lane) else { return 0 };
        pinned.charge(self.stall_counts(lane));
        pinned.caused(start)
    }

    fn stall_counts(&self, lane: u32) -> StallCounts {
        let mapped = self.store.lane(lane).filter(|lane| !has_relocated(&**lane));
        StallCounts {
            slot: self.store.stalls_by(self.slot()),
            lane: mapped.map(|lane| lane.stalls()),
        }
    }

    fn release(&self, lane: u32, start: u64) {
        if self.pid != std::process::id() {
            return;
        }
        let mut held = self.held();
        let (pins, slot) = (self.store.pins(lane), self.slot());
        let moves = held.lanes.get_mut(&lane).is_some_and(|pinned| {
            pinned.charge(self.stall_counts(lane));
            let moves = pinned.rows.release(&pins, slot, start);
            if !pinned.rows.holds(start) {
                pinned.caused.remove(&start);
            }
            moves
        });
        held.total -= 1;
        if moves {
            drop(held);
            notify(&self.store.released());
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows that no writer overwrites while this lives.
#[derive(Debug)]
pub struct PinnedRows {
    memory: Arc<Lane>,
    book: Arc<ReaderPins>,
    lane: u32,
    start: u64,
}

impl PinnedRows {
    /// Returns the first row frozen.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the lane's memory.
    #[must_use]
    pub fn memory(&self) -> &Lane {
        &self.memory
    }

    /// Returns the pins of the handle.
    #[must_use]
    pub fn book(&self) -> &ReaderPins {
        &self.book
    }

    /// Returns how often a writer had to wait, drop or fail because of these rows. A pin that an
    /// older one of the handle covers on its lane blocks no writer. Returns 0 in a forked child.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.book.caused(self.lane, self.start)
    }
}

impl Drop for PinnedRows {
    fn drop(&mut self) {
        self.book.release(self.lane, self.start);
    }
}
