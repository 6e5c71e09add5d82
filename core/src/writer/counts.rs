//! Counters of a writer that other threads may read while the writer appends.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a writer. Any thread may read them while the writer appends.
#[derive(Debug, Default)]
pub struct WriterCounts {
    /// One more than the rows written, or 0 while no append waits for a lease. An append that does
    /// not wait does not update it: that would slow small appends.
    waits_at: AtomicU64,
    dropped: AtomicU64,
}

impl WriterCounts {
    /// Returns [`Writer::rows_written`](crate::Writer::rows_written) while an append waits for a
    /// lease. Returns `None` at other times.
    #[must_use]
    pub fn rows_written_before_the_wait(&self) -> Option<u64> {
        self.waits_at.load(Relaxed).checked_sub(1)
    }

    /// Returns [`Writer::rows_dropped`](crate::Writer::rows_dropped).
    #[must_use]
    pub fn rows_dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    pub(super) fn wait_begins(&self, rows_written: u64) {
        self.waits_at.store(rows_written.saturating_add(1), Relaxed);
    }

    pub(super) fn wait_ends(&self) {
        self.waits_at.store(0, Relaxed);
    }

    pub(super) fn add_dropped(&self, rows: u64) {
        // Only the writer counts, so a load and a store are enough.
        self.dropped.store(self.dropped.load(Relaxed).wrapping_add(rows), Relaxed);
    }
}
