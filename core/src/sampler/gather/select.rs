//! Selection: chooses the rows of a micro-batch and locates their windows.

use std::ops::Range;

use backcast_layout::protocol::Words;

use super::micro_batch::MicroBatch;
use super::request::{BatchRequest, FillContext};
use crate::index::RowIndex;
use crate::sampler::Sampler;
use crate::sampler::eligibility::{Candidate, NO_DRAW, number};
use crate::sampler::plan::{MICRO_BATCH, PrefetchPolicy};

impl Sampler {
    /// Selects the first draw of each item. Whether a transition starts there is not known yet.
    pub(super) fn select_rows<'a>(
        &mut self,
        context: FillContext<'a>,
        items: Range<usize>,
        micro_batch: &mut MicroBatch<'a>,
        policy: PrefetchPolicy,
    ) {
        micro_batch.begin(items.start, policy);
        if items.is_empty() {
            return;
        }
        let (mut drawn, mut attempts) = ([NO_DRAW; MICRO_BATCH], [0; MICRO_BATCH]);
        let Self { eligibility, rng, extent, chosen, .. } = self;
        let ranges = eligibility.ranges();
        let older_than = |lane: usize, seq: u64| {
            let range = ranges.get(lane).filter(|range| range.rows().contains(&seq))?;
            Some((lane, seq - range.rows().start))
        };
        match (context.request, chosen) {
            (BatchRequest::Draws(_), Some(chosen)) => {
                for (drawn, item) in drawn.iter_mut().zip(items.clone()) {
                    let row = chosen.first_draw(item);
                    *drawn = row.and_then(|(lane, seq)| older_than(lane, seq)).unwrap_or(NO_DRAW);
                }
            }
            (BatchRequest::Draws(batch), None) if !eligibility.is_indexed() => {
                eligibility.first_draws(rng, batch, items.clone(), &mut drawn);
            }
            (BatchRequest::Draws(batch), None) => {
                for ((drawn, attempts), item) in
                    drawn.iter_mut().zip(&mut attempts).zip(items.clone())
                {
                    let found = eligibility.indexed_candidate(rng, batch, number(item));
                    let Some(Candidate { attempt, lane, seq }) = found else { continue };
                    *attempts = attempt;
                    *drawn = older_than(lane as usize, seq).unwrap_or(NO_DRAW);
                }
            }
            (BatchRequest::Rows(index, _), _) => {
                let index = index.get(items.clone()).unwrap_or_default();
                for (drawn, index) in drawn.iter_mut().zip(index) {
                    let (lane, seq) = (RowIndex(*index).lane() as usize, RowIndex(*index).seq());
                    *drawn = older_than(lane, seq).unwrap_or(NO_DRAW);
                }
            }
        }
        let back = extent.back;
        let ahead = extent.after_first() - back;
        for ((item, (number, older)), attempt) in items.zip(drawn).zip(attempts) {
            let (Some(lane), Some(range)) = (context.lanes.get(number), ranges.get(number)) else {
                let index = match context.request {
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
