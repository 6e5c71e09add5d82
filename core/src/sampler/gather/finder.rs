//! The finder of the rows of a batch: selects them, and inspects those of irregular items.

use std::sync::Arc;

use backcast_layout::Lanes;

use super::inspect::IrregularItems;
use super::request::{BatchRequest, Stopped};
use crate::sampler::plan::BatchPlan;
use crate::sampler::rng::CounterRng;
use crate::sampler::selection::Selection;
use crate::sampler::stats::DrawCounts;

/// Parts of a sampler that choose the rows of a batch.
pub(in crate::sampler) struct RowSource<'s> {
    pub(in crate::sampler) rng: &'s mut CounterRng,
    pub(in crate::sampler) selection: &'s mut Selection,
    pub(in crate::sampler) counts: &'s DrawCounts,
}

/// Finder of the rows of one batch, in the memory that the lanes had when it began.
pub(super) struct RowFinder<'a> {
    pub(super) request: BatchRequest<'a>,
    /// Memory of the lanes.
    pub(super) lanes: &'a Arc<Lanes>,
    pub(super) plan: &'a BatchPlan,
    pub(super) rng: &'a mut CounterRng,
    pub(super) selection: &'a mut Selection,
    pub(super) counts: &'a DrawCounts,
    /// Items of the current micro-batch that were inspected.
    pub(super) irregular: IrregularItems<'a>,
}

impl RowFinder<'_> {
    /// Returns whether rows are drawn, and not named by an index.
    pub(super) fn draws(&self) -> bool {
        matches!(self.request, BatchRequest::Draws(_))
    }

    /// Reads the ranges of readable rows again after a writer overwrote a row, and counts a lapped
    /// draw if rows are drawn. Fails with [`Stopped::Moved`] if a lane was relocated.
    pub(super) fn note_overtaken(&mut self) -> Result<(), Stopped> {
        let eligibility = &mut self.selection.eligibility;
        match self.request {
            BatchRequest::Draws(_) => eligibility.refresh(),
            // If only rows of the history were overwritten, a shorter history may be accepted.
            BatchRequest::Rows(..) => eligibility.refresh_ranges(),
        }
        if !Arc::ptr_eq(eligibility.lanes(), self.lanes) {
            return Err(Stopped::Moved);
        }
        if self.draws() {
            self.counts.add_lapped(1);
        }
        Ok(())
    }
}
