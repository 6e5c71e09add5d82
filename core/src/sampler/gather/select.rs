//! Selection: chooses the rows of a micro-batch and locates their windows.

use std::ops::Range;

use backcast_layout::protocol::Words;

use super::finder::RowFinder;
use super::micro_batch::MicroBatch;
use super::request::BatchRequest;
use crate::index::RowIndex;
use crate::sampler::eligibility::NO_DRAW;
use crate::sampler::plan::{MICRO_BATCH, PrefetchPolicy};

impl<'a> RowFinder<'a> {
    /// Selects the row of each item: its first draw, or the row that the index names. Whether a
    /// transition starts there is not known yet.
    pub(super) fn select_rows(
        &mut self,
        items: Range<usize>,
        micro_batch: &mut MicroBatch<'a>,
        policy: PrefetchPolicy,
    ) {
        micro_batch.begin(items.start, policy);
        if items.is_empty() {
            return;
        }
        let (mut drawn, mut attempts) = ([NO_DRAW; MICRO_BATCH], [0; MICRO_BATCH]);
        let (request, lanes) = (self.request, self.lanes);
        let Self { plan, rng, selection, .. } = self;
        let ranges = selection.eligibility.ranges();
        match request {
            BatchRequest::Draws(batch) => {
                selection.first_draws(rng, batch, items.clone(), &mut drawn, &mut attempts);
            }
            BatchRequest::Rows(index, _) => {
                let index = index.get(items.clone()).unwrap_or_default();
                for (drawn, index) in drawn.iter_mut().zip(index) {
                    let (lane, seq) = (RowIndex(*index).lane() as usize, RowIndex(*index).seq());
                    *drawn = ranges.place_of(lane, seq).unwrap_or(NO_DRAW);
                }
            }
        }
        let extent = plan.extent();
        let back = extent.back;
        let ahead = extent.after_first() - back;
        for ((item, (number, older)), attempt) in items.zip(drawn).zip(attempts) {
            let (Some(lane), Some(range)) = (lanes.get(number), ranges.get(number)) else {
                let index = match request {
                    BatchRequest::Draws(_) => None,
                    BatchRequest::Rows(index, _) => index.get(item),
                };
                let index = index.map_or(RowIndex::NONE, |index| RowIndex(*index));
                micro_batch.push(index, 0, attempt, None);
                continue;
            };
            let age = range.newer(older);
            let readable = older >= back && age >= ahead;
            let slot = range.slot_of(older.saturating_sub(back), lane.slots());
            let window = readable.then_some((&**lane, slot));
            micro_batch.push(range.index_of(older), age, attempt, window);
        }
    }
}
