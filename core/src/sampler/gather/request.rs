//! The request for a batch, and the reasons for which its gather stops.

use crate::error::SampleError;

/// Maximum draws for one item: a draw may be rejected, or a writer may overwrite its rows. The
/// batch fails after them.
pub(in crate::sampler) const MAX_ATTEMPTS: u32 = 10_000;

/// Source of the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::sampler) enum BatchRequest<'a> {
    /// The draws of batch number `.0`.
    Draws(u64),
    /// The rows that an index names.
    Rows(&'a [i64], MissingRows),
}

/// Treatment of rows that the ring does not hold, or at which no transition starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sampler) enum MissingRows {
    /// The first such row is an error.
    Refuse,
    /// Their items are zeroed and listed.
    Blank,
}

/// Reason why a batch is not finished.
pub(super) enum Stopped {
    /// Lanes were relocated: the batch is gathered again.
    Moved,
    Failed(SampleError),
}

impl From<SampleError> for Stopped {
    fn from(error: SampleError) -> Self {
        Self::Failed(error)
    }
}
