//! The request for a batch and the reasons for which it stops, shared by selection, inspection and
//! copies.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use backcast_layout::Lanes;

use super::arena_writer::ArenaWriter;
use crate::error::SampleError;
use crate::sampler::Sampler;

/// Maximum draws for one item whose rows writers overwrite. The batch fails after them.
pub(crate) const MAX_ATTEMPTS: u32 = 10_000;

/// Source of the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchRequest<'a> {
    /// The draws of batch number `.0`.
    Draws(u64),
    /// The rows that an index names.
    Rows(&'a [i64], MissingRows),
}

/// Treatment of rows that the ring does not hold, or at which no transition starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingRows {
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

/// State that does not change while a batch is gathered.
#[derive(Clone, Copy)]
pub(super) struct FillContext<'a> {
    pub(super) request: BatchRequest<'a>,
    /// Memory of the lanes.
    pub(super) lanes: &'a Arc<Lanes>,
    pub(super) writer: ArenaWriter<'a>,
}

impl Sampler {
    /// Reads the ranges of readable rows again, after a writer overwrote a row. Fails with
    /// [`Stopped::Moved`] if a lane was relocated.
    pub(super) fn note_overtaken(&mut self, context: FillContext<'_>) -> Result<(), Stopped> {
        match context.request {
            BatchRequest::Draws(_) => self.eligibility.refresh(),
            // If only rows of the history were overwritten, a shorter history may be accepted.
            BatchRequest::Rows(..) => self.eligibility.refresh_ranges(),
        }
        if !Arc::ptr_eq(self.eligibility.lanes(), context.lanes) {
            return Err(Stopped::Moved);
        }
        if let BatchRequest::Draws(_) = context.request {
            self.counters.lapped.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
