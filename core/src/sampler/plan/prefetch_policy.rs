//! Prefetch distance of a gather: one micro-batch, of items or of single rows. The length of an
//! item's copies decides whether prefetches are eager or interleaved with copies.

use super::segments::Segments;

/// Maximum items of a micro-batch: about as many as the cache lines that a core requests at a time.
pub(crate) const MICRO_BATCH: usize = 16;
/// Rows of a micro-batch of single rows, whose columns are all prefetched while the micro-batch
/// before is copied.
pub(crate) const ROW_MICRO_BATCH: usize = 32;
/// Bytes of an item's rows up to which items are copied in full micro-batches: two such
/// micro-batches fit into L2. Longer items are copied one by one.
const SHORT_ITEM: usize = 8 << 10;
/// Maximum bytes of a quick copy, which has too few instructions to hide prefetches.
pub(super) const QUICK: usize = 64;
/// Minimum bytes of a long copy: prefetches are issued between its cache lines and not before it.
pub(super) const LONG: usize = 1 << 10;

/// Time at which the rows of a micro-batch are prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefetchPolicy {
    /// Prefetches item by item, as items are selected.
    Eager,
    /// Prefetches between the copies of the micro-batch before.
    Interleaved,
}

impl PrefetchPolicy {
    /// Returns the policy for copies of some segments. Quick copies alone are too short to hide
    /// prefetches between them.
    pub(super) fn of(segments: &Segments) -> Self {
        if segments.is_slow() { PrefetchPolicy::Interleaved } else { PrefetchPolicy::Eager }
    }
}

/// Returns the number of items of `row_bytes` bytes that are copied together.
pub(super) fn micro_batch(row_bytes: usize) -> usize {
    if row_bytes <= SHORT_ITEM { MICRO_BATCH } else { 1 }
}
