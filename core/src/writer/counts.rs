//! What a writer has done so far, for those who ask while it is busy.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters beside a writer, which anybody may read while it appends.
#[derive(Debug, Default)]
pub struct WriterCounts {
    /// Rows written, and 1 more; 0 while no append waits for a lease. Kept so, and not for each append: it would
    /// cost the small ones.
    waits_at: AtomicU64,
    dropped: AtomicU64,
}

impl WriterCounts {
    /// What [`Writer::rows_written`](crate::Writer::rows_written) says, while an append waits for a lease. At
    /// other times whoever has the writer is soon done.
    #[must_use]
    pub fn rows_written_before_the_wait(&self) -> Option<u64> {
        self.waits_at.load(Relaxed).checked_sub(1)
    }

    /// As [`Writer::rows_dropped`](crate::Writer::rows_dropped).
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
        // The writer alone counts, so a load and a store do.
        self.dropped.store(self.dropped.load(Relaxed).wrapping_add(rows), Relaxed);
    }
}
