//! Gathers a batch, micro-batch by micro-batch.

use std::mem;
use std::sync::Arc;

use backcast_layout::protocol::Words;

use super::Gather;
use super::arena_writer::{ArenaWriter, Scratch};
use super::finder::{RowFinder, RowSource};
use super::inspect::IrregularItems;
use super::micro_batch::MicroBatch;
use super::points::GatherPoints;
use super::request::{BatchRequest, MAX_ATTEMPTS, MissingRows, Stopped};
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::ring::lane_inspection::MAX_RELOCATIONS;
use crate::row_header::{ROW_HEADERS, RowHeader};
use crate::sampler::eligibility::{Candidate, number};
use crate::sampler::plan::{BatchPlan, PrefetchPolicy};
use crate::table::LearnedValues;

/// Draws that a gather took, and the items that it did not find.
#[derive(Debug, Default)]
pub(in crate::sampler) struct Gathered {
    /// Draws of all items together.
    pub(in crate::sampler) attempts: u64,
    /// Items whose rows were not found.
    pub(in crate::sampler) missing: Vec<usize>,
}

/// A batch that is being gathered.
struct Fill<'a, P> {
    finder: RowFinder<'a>,
    writer: ArenaWriter<'a>,
    sums: &'a mut Scratch,
    gathered: Gathered,
    points: &'a mut P,
}

impl Gather {
    /// Fills the arenas of a batch, and calls `points` between the steps.
    pub(in crate::sampler) fn fill(
        &mut self,
        source: RowSource<'_>,
        request: BatchRequest<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        points: &mut impl GatherPoints,
    ) -> Result<Gathered, SampleError> {
        let RowSource { rng, selection, counts } = source;
        let learned = self.learned.as_ref().map(LearnedValues::view);
        for _ in 0..MAX_RELOCATIONS {
            let lanes = Arc::clone(selection.eligibility.lanes());
            let fill = Fill {
                finder: RowFinder {
                    request,
                    lanes: &lanes,
                    plan,
                    rng: &mut *rng,
                    selection: &mut *selection,
                    counts,
                    irregular: IrregularItems::over(&mut self.headers),
                },
                writer: ArenaWriter { plan, gamma: self.gamma, learned },
                sums: &mut self.sums,
                gathered: Gathered::default(),
                points: &mut *points,
            };
            match fill.run(arenas) {
                Ok(gathered) => return Ok(gathered),
                // The next round gathers all items again, with the same random numbers.
                Err(Stopped::Moved) => {}
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
        // A peer keeps claiming that lanes were relocated.
        Err(SampleError::Outrun { attempts: MAX_ATTEMPTS })
    }
}

impl<'a, P: GatherPoints> Fill<'a, P> {
    /// Fills the arenas from the memory that the lanes have now. One micro-batch is prefetched
    /// while the one before it is copied.
    fn run(mut self, arenas: &mut [&mut [u8]]) -> Result<Gathered, Stopped> {
        let plan = self.writer.plan;
        let Some(lane) = self.finder.lanes.first() else {
            return Err(SampleError::Empty { rows: 0 }.into());
        };
        let (batch, size, policy) = (plan.batch(), plan.micro_batch(), plan.prefetch_policy());
        let span = |number: usize| (number * size).min(batch)..((number + 1) * size).min(batch);
        let empty = MicroBatch::new(lane, plan.extent(), plan.segments().list());
        let mut both = [empty.clone(), empty];
        let [mut now, mut next] = both.each_mut();
        self.finder.select_rows(span(0), now, PrefetchPolicy::Eager);
        for number in 0..batch.div_ceil(size) {
            self.finder.select_rows(span(number + 1), next, policy);
            self.fill_micro_batch(now, next, arenas)?;
            mem::swap(&mut now, &mut next);
        }
        Ok(self.gathered)
    }

    /// Fills the items of a micro-batch and prefetches the next one meanwhile.
    fn fill_micro_batch(
        &mut self,
        now: &MicroBatch<'a>,
        next: &MicroBatch<'a>,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), Stopped> {
        let mut regular = self.points.selected(now.regular());
        let rule = self.finder.selection.windows().rule();
        if !rule.is_all() && self.finder.draws() {
            regular &= now.allowed(rule);
        }
        if regular != now.all() {
            // Inspects first, so that the rows of new draws are prefetched while others are copied.
            self.inspect_items(now, now.all() & !regular)?;
        }
        if regular == 0 {
            if let Some(windows) = next.windows_to_prefetch() {
                windows.prefetch_all();
            }
        } else if !self.writer.copy_micro_batch(now, next, self.sums, arenas) {
            // The lanes lack a column of the plan, which happens only if a lane is corrupt.
            // Inspects all items, since each look forgets the items of the last one.
            self.inspect_items(now, now.all())?;
            regular = 0;
        }
        if regular != now.all() {
            self.fill_irregular(arenas)?;
        }
        self.points.copied();
        let overtaken = regular & !now.still_whole();
        if overtaken != 0 {
            self.refill_overtaken(now, overtaken, arenas)?;
        }
        self.gathered.attempts += now.draws(regular & !overtaken);
        Ok(())
    }

    /// Inspects some items of a micro-batch.
    #[inline(never)]
    fn inspect_items(&mut self, micro_batch: &MicroBatch<'a>, some: u32) -> Result<(), Stopped> {
        self.finder.irregular.clear();
        self.prefetch_redraws(micro_batch, some);
        let segments = self.writer.plan.segments();
        for item in items(some) {
            let (Some(index), Some(attempt)) =
                (micro_batch.index().get(item), micro_batch.attempts().get(item))
            else {
                continue;
            };
            let index = RowIndex(*index);
            let drawn = Candidate { attempt: *attempt, lane: index.lane(), seq: index.seq() };
            let item = micro_batch.first() + item;
            let inspected = self.finder.inspect_from(item, drawn);
            if self.is_missing(item, inspected)? {
                continue;
            }
            let found = self.finder.irregular.last();
            if let Some(found) = found.filter(|found| found.index != index) {
                found.prefetch(segments.list());
            }
        }
        Ok(())
    }

    /// Prefetches the headers that the next draws of some items need, if most of these items are
    /// drawn again.
    fn prefetch_redraws(&mut self, micro_batch: &MicroBatch<'_>, some: u32) {
        let RowFinder { request, lanes, plan, rng, selection, .. } = &mut self.finder;
        let BatchRequest::Draws(batch) = *request else { return };
        if !selection.redraws_most() {
            return;
        }
        let extent = plan.extent();
        let rows = usize::try_from(extent.after_first() + 1).unwrap_or(0);
        for item in items(some) {
            let attempt = micro_batch.attempts().get(item).map_or(1, |attempt| attempt + 1);
            let number = number(micro_batch.first() + item);
            let drawn = selection.eligibility.candidate(rng, batch, number, attempt);
            let Some(Candidate { lane, seq, .. }) = drawn else { continue };
            let Some(lane) = lanes.get(lane as usize) else { continue };
            let first = seq.saturating_sub(extent.back) % lane.slots();
            lane.prefetch_address(ROW_HEADERS, first).prefetch(rows * size_of::<RowHeader>());
        }
    }

    /// Copies the inspected items, and draws items again whose rows a writer overwrites meanwhile.
    #[inline(never)]
    fn fill_irregular(&mut self, arenas: &mut [&mut [u8]]) -> Result<(), Stopped> {
        let mut overtaken = Vec::new();
        let Self { finder, writer, sums, gathered, points } = self;
        for item in finder.irregular.items() {
            writer.copy_item(item, finder.irregular.headers_of(item), sums, arenas);
            points.copied();
            if item.is_whole() {
                gathered.attempts += u64::from(item.attempt) + 1;
            } else {
                overtaken.push((item.item, item.attempt));
            }
        }
        for (item, attempt) in overtaken {
            self.refill(item, attempt, arenas)?;
        }
        Ok(())
    }

    /// Draws items again whose rows a writer overwrote.
    #[cold]
    fn refill_overtaken(
        &mut self,
        micro_batch: &MicroBatch<'a>,
        overtaken: u32,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), Stopped> {
        for item in items(overtaken) {
            let attempt = micro_batch.attempts().get(item).copied().unwrap_or(0);
            self.refill(micro_batch.first() + item, attempt, arenas)?;
        }
        Ok(())
    }

    /// Draws an item again, from the attempt after `attempt` on, until its copy is valid.
    fn refill(
        &mut self,
        item: usize,
        mut attempt: u32,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), Stopped> {
        loop {
            self.finder.note_overtaken()?;
            self.finder.irregular.clear();
            let inspected = self.finder.draw_and_inspect(item, attempt + 1);
            if self.is_missing(item, inspected)? {
                return Ok(());
            }
            let irregular = &self.finder.irregular;
            let Some(found) = irregular.items().first() else { return Ok(()) };
            attempt = found.attempt;
            self.writer.copy_item(found, irregular.headers_of(found), self.sums, arenas);
            self.points.copied();
            if found.is_whole() {
                self.gathered.attempts += u64::from(attempt) + 1;
                return Ok(());
            }
        }
    }

    /// Lists an item whose row was not found, if the request allows blank items. Returns whether it
    /// was listed.
    fn is_missing(&mut self, item: usize, inspected: Result<(), Stopped>) -> Result<bool, Stopped> {
        let blank = matches!(self.finder.request, BatchRequest::Rows(_, MissingRows::Blank));
        match inspected {
            Err(Stopped::Failed(
                SampleError::BadIndex { .. }
                | SampleError::Lapped { .. }
                | SampleError::Dropped { .. },
            )) if blank => {
                self.gathered.missing.push(item);
                Ok(true)
            }
            inspected => inspected.map(|()| false),
        }
    }
}

/// Iterates over the items of a bitmask.
#[inline]
fn items(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let item = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(item)
    })
}
