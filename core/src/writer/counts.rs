//! What a writer has done so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A writer's counters, to be read by anybody while it appends.
#[derive(Debug, Default)]
pub struct WriterCounts {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl WriterCounts {
    /// As [`Writer::rows_written`](crate::Writer::rows_written).
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// As [`Writer::rows_dropped`](crate::Writer::rows_dropped).
    #[must_use]
    pub fn rows_dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    #[inline]
    pub(super) fn add_written(&self, rows: u64) {
        add(&self.written, rows);
    }

    pub(super) fn add_dropped(&self, rows: u64) {
        add(&self.dropped, rows);
    }
}

/// The writer alone counts, so a load and a store do.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}
