//! The leases of one handle: a reader slot, and the multiset of what its pins freeze.
//!
//! A slot has one pin per lane. A handle with several leases on a lane pins the oldest of their
//! rows, which covers them all, and moves the pin up as they end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::error::SegmentError;
use crate::protocol::{PinError, freeze, ring, thaw};
use crate::ring::{ClaimedReader, RingStore};
use crate::sys::lane::Lane;

/// Most leases of one handle at a time.
pub const MAX_HOLDS: usize = 1024;

/// A reader slot and the pins it holds.
#[derive(Debug)]
pub struct LeaseBook {
    // Before the store: the claim holds the object too, and the store asks whether it was the last.
    reader: ClaimedReader,
    store: Arc<RingStore>,
    held: Mutex<Held>,
    /// A forked child has a copy of everything here, and must not let go of its parent's pins.
    pid: u32,
}

#[derive(Debug, Default)]
struct Held {
    /// First rows frozen, and how often, per lane.
    lanes: BTreeMap<u32, BTreeMap<u64, usize>>,
    total: usize,
}

impl Held {
    fn oldest(&self, lane: u32) -> Option<u64> {
        self.lanes.get(&lane)?.first_key_value().map(|(start, _)| *start)
    }
}

/// Why rows could not be frozen.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldError {
    /// The handle holds too many.
    #[error("this handle holds {held} leases, the limit is {limit}; let go of some first")]
    TooMany {
        /// Leases held.
        held: usize,
        /// Most leases of a handle.
        limit: usize,
    },
    /// The writer was faster.
    #[error(transparent)]
    Lapped(#[from] PinError),
}

impl LeaseBook {
    /// Claims a reader slot; `None` when all are taken, or when the ring has lost its name.
    pub fn open(store: &Arc<RingStore>) -> Result<Option<Arc<Self>>, SegmentError> {
        let Some(reader) = store.claim_reader()? else { return Ok(None) };
        let (store, pid) = (Arc::clone(store), std::process::id());
        Ok(Some(Arc::new(Self { reader, store, held: Mutex::default(), pid })))
    }

    /// Number of the reader slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.reader.slot()
    }

    /// How often a writer had to wait, drop or fail because of a lease of this slot.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.store.reader(self.slot()).map_or(0, |record| record.stalls)
    }

    /// Freezes a lane's rows from `start` on, in `memory`, until the hold is dropped.
    ///
    /// The rows must have been readable there just before; if they were overwritten meanwhile, or the
    /// lane moved, that is the error, and nothing is frozen.
    pub fn hold(
        self: &Arc<Self>,
        lane: u32,
        memory: &Arc<Lane>,
        start: u64,
    ) -> Result<Hold, HoldError> {
        let mut held = self.held();
        if held.total >= MAX_HOLDS {
            return Err(HoldError::TooMany { held: held.total, limit: MAX_HOLDS });
        }
        freeze(&**memory, &self.store.pins(lane), self.slot(), start, held.oldest(lane))?;
        *held.lanes.entry(lane).or_default().entry(start).or_default() += 1;
        held.total += 1;
        drop(held);
        self.store.count_lease(self.slot());
        Ok(Hold { memory: Arc::clone(memory), book: Arc::clone(self), lane, start })
    }

    fn release(&self, lane: u32, start: u64) {
        if self.pid != std::process::id() {
            return;
        }
        let mut held = self.held();
        let before = held.oldest(lane);
        if let Some(starts) = held.lanes.get_mut(&lane)
            && let Some(count) = starts.get_mut(&start)
        {
            *count -= 1;
            if *count == 0 {
                starts.remove(&start);
            }
            held.total -= 1;
        }
        let left = held.oldest(lane);
        if left != before {
            thaw(&self.store.pins(lane), self.slot(), left);
            drop(held);
            ring(&self.store.released());
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows that no writer overwrites while this lives.
#[derive(Debug)]
pub struct Hold {
    memory: Arc<Lane>,
    book: Arc<LeaseBook>,
    lane: u32,
    start: u64,
}

impl Hold {
    /// First row frozen.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The lane's memory.
    #[must_use]
    pub fn memory(&self) -> &Lane {
        &self.memory
    }

    /// The handle's leases.
    #[must_use]
    pub fn book(&self) -> &LeaseBook {
        &self.book
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.book.release(self.lane, self.start);
    }
}
