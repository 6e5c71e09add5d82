//! Pins of one handle: a reader slot, and the multiset of rows that its pins freeze.
//!
//! A slot has one pin per lane. A handle with several leases on a lane pins the oldest of their
//! rows, which covers all, and moves the pin up as they end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::error::SegmentError;
use crate::layout::lane::Lane;
use crate::protocol::{HeldRows, PinError, notify};
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
    lanes: BTreeMap<u32, HeldRows>,
    total: usize,
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

    /// Returns how often a writer had to wait, drop or fail because of a pin of this slot.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.store.reader(self.slot()).map_or(0, |record| record.stalls)
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
        let rows = held.lanes.entry(lane).or_default();
        let granted = rows.hold(&**memory, &self.store.pins(lane), self.slot(), start);
        if let Err(refused) = granted {
            drop(held);
            // The pin may have stopped a writer before it was reset.
            notify(&self.store.released());
            return Err(refused.into());
        }
        held.total += 1;
        drop(held);
        self.store.count_lease(self.slot());
        Ok(PinnedRows { memory: Arc::clone(memory), book: Arc::clone(self), lane, start })
    }

    fn release(&self, lane: u32, start: u64) {
        if self.pid != std::process::id() {
            return;
        }
        let mut held = self.held();
        let (pins, slot) = (self.store.pins(lane), self.slot());
        let moves = held.lanes.get_mut(&lane).is_some_and(|rows| rows.release(&pins, slot, start));
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
}

impl Drop for PinnedRows {
    fn drop(&mut self) {
        self.book.release(self.lane, self.start);
    }
}
