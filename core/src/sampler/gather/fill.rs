//! Gathers a batch, micro-batch by micro-batch.

use std::mem;
use std::sync::Arc;

use backcast_layout::protocol::{Words, still_whole};

use super::arena_writer::{ArenaWriter, Scratch};
use super::inspect::{IrregularItem, IrregularItems};
use super::micro_batch::MicroBatch;
use super::request::{BatchRequest, FillContext, MAX_ATTEMPTS, MissingRows, Stopped};
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::ring::lane_inspection::MAX_RELOCATIONS;
use crate::row_header::{ROW_HEADERS, RowHeader};
use crate::sampler::Sampler;
use crate::sampler::eligibility::{Candidate, number};
use crate::sampler::options::Boundary;
use crate::sampler::plan::{BatchPlan, PrefetchPolicy};

/// Counts of the work that gathering a batch took.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Draws of all items together.
    pub(crate) attempts: u64,
    /// Items whose rows were not found.
    pub(crate) missing: Vec<usize>,
}

impl Sampler {
    /// Fills the arenas of a batch.
    pub(crate) fn fill(
        &mut self,
        request: BatchRequest<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Gathered, SampleError> {
        let learned = self.learned.as_ref().map(|(_, values)| values.view().clone());
        for _ in 0..MAX_RELOCATIONS {
            let lanes = Arc::clone(self.eligibility.lanes());
            let gamma = self.options.gamma.unwrap_or(0.0);
            let writer = ArenaWriter { plan, gamma, learned: learned.as_ref() };
            let context = FillContext { request, lanes: &lanes, writer };
            match self.fill_micro_batches(context, arenas) {
                Ok(gathered) => return Ok(gathered),
                // The draws of the next round are the same: they do not depend on the memory of the
                // lanes.
                Err(Stopped::Moved) => {}
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
        // A peer keeps claiming that lanes were relocated.
        Err(SampleError::Outrun { attempts: MAX_ATTEMPTS })
    }

    /// Fills the arenas from the memory that the lanes have now. One micro-batch is prefetched
    /// while the one before it is copied.
    fn fill_micro_batches(
        &mut self,
        context: FillContext<'_>,
        arenas: &mut [&mut [u8]],
    ) -> Result<Gathered, Stopped> {
        let plan = context.writer.plan;
        let Some(lane) = context.lanes.first() else {
            return Err(SampleError::Empty { rows: 0 }.into());
        };
        let (batch, size, policy) = (plan.batch(), plan.micro_batch(), plan.prefetch_policy());
        let span = |number: usize| (number * size).min(batch)..((number + 1) * size).min(batch);
        let empty = MicroBatch::new(lane, self.extent, plan.segments().list());
        let mut both = [empty.clone(), empty];
        let [mut now, mut next] = both.each_mut();
        let mut irregular = IrregularItems::over(mem::take(&mut self.scratch));
        let mut gathered = Gathered::default();
        self.select_rows(context, span(0), now, PrefetchPolicy::Eager);
        for number in 0..batch.div_ceil(size) {
            self.select_rows(context, span(number + 1), next, policy);
            self.fill_micro_batch(context, (now, next), &mut irregular, arenas, &mut gathered)?;
            mem::swap(&mut now, &mut next);
        }
        // After an error the memory is allocated again.
        self.scratch = irregular.into_memory();
        Ok(gathered)
    }

    /// Fills the items of a micro-batch and prefetches the next one meanwhile.
    fn fill_micro_batch<'a>(
        &mut self,
        context: FillContext<'a>,
        (now, next): (&MicroBatch<'a>, &MicroBatch<'a>),
        irregular: &mut IrregularItems<'a>,
        arenas: &mut [&mut [u8]],
        gathered: &mut Gathered,
    ) -> Result<(), Stopped> {
        let mut regular = regular_items(now);
        if !self.rule.is_all() && matches!(context.request, BatchRequest::Draws(_)) {
            regular &= now.allowed(self.rule);
        }
        if regular != now.all() {
            // Inspects first, so that the rows of new draws are prefetched while others are copied.
            self.inspect_items(context, now, now.all() & !regular, irregular, gathered)?;
        }
        if regular == 0 {
            if let Some(windows) = next.windows_to_prefetch() {
                windows.prefetch_all();
            }
        } else if !copy_regular(context.writer, now, next, &mut self.sums, arenas) {
            // The lanes lack a column of the plan, which only a corrupt lane does.
            self.inspect_items(context, now, regular, irregular, gathered)?;
            regular = 0;
        }
        if regular != now.all() {
            self.fill_irregular(context, irregular, arenas, gathered)?;
        }
        let overtaken = regular & !now.still_whole();
        if overtaken != 0 {
            self.refill_overtaken(context, now, overtaken, irregular, arenas, gathered)?;
        }
        gathered.attempts += now.draws(regular & !overtaken);
        Ok(())
    }

    /// Inspects some items of a micro-batch.
    #[inline(never)]
    fn inspect_items<'a>(
        &mut self,
        context: FillContext<'a>,
        micro_batch: &MicroBatch<'a>,
        some: u32,
        irregular: &mut IrregularItems<'a>,
        gathered: &mut Gathered,
    ) -> Result<(), Stopped> {
        irregular.clear();
        self.prefetch_redraws(context, micro_batch, some);
        let segments = context.writer.plan.segments();
        for item in items(some) {
            let (Some(index), Some(attempt)) =
                (micro_batch.index().get(item), micro_batch.attempts().get(item))
            else {
                continue;
            };
            let index = RowIndex(*index);
            let drawn = Candidate { attempt: *attempt, lane: index.lane(), seq: index.seq() };
            let item = micro_batch.first() + item;
            let inspected = self.inspect_from(context, item, drawn, irregular);
            if is_missing(context, item, inspected, gathered)? {
                continue;
            }
            if let Some(found) = irregular.last().filter(|found| found.index != index) {
                found.prefetch(segments.list());
            }
        }
        Ok(())
    }

    /// Prefetches the headers that the next draws of some items need, if most of these items are
    /// drawn again: those of windows that are not whole, where `Boundary::Reject` asks for it.
    fn prefetch_redraws(
        &mut self,
        context: FillContext<'_>,
        micro_batch: &MicroBatch<'_>,
        some: u32,
    ) {
        let BatchRequest::Draws(batch) = context.request else { return };
        if self.options.boundary != Boundary::Reject || self.chosen.is_some() {
            return;
        }
        let Self { eligibility, rng, extent, .. } = self;
        let rows = usize::try_from(extent.after_first() + 1).unwrap_or(0);
        for item in items(some) {
            let attempt = micro_batch.attempts().get(item).map_or(1, |attempt| attempt + 1);
            let number = number(micro_batch.first() + item);
            let drawn = eligibility.candidate(rng, batch, number, attempt);
            let Some(Candidate { lane, seq, .. }) = drawn else { continue };
            let Some(lane) = context.lanes.get(lane as usize) else { continue };
            let first = seq.saturating_sub(extent.back) % lane.slots();
            lane.prefetch_address(ROW_HEADERS, first).prefetch(rows * size_of::<RowHeader>());
        }
    }

    /// Copies the inspected items, and draws items again whose rows a writer overwrites meanwhile.
    #[inline(never)]
    fn fill_irregular<'a>(
        &mut self,
        context: FillContext<'a>,
        irregular: &mut IrregularItems<'a>,
        arenas: &mut [&mut [u8]],
        gathered: &mut Gathered,
    ) -> Result<(), Stopped> {
        let mut overtaken = Vec::new();
        for item in irregular.items() {
            if self.copy_irregular(context.writer, item, irregular, arenas) {
                gathered.attempts += u64::from(item.attempt) + 1;
            } else {
                overtaken.push((item.item, item.attempt));
            }
        }
        for (item, attempt) in overtaken {
            self.refill(context, item, attempt, irregular, arenas, gathered)?;
        }
        Ok(())
    }

    /// Draws items again whose rows a writer overwrote.
    #[cold]
    fn refill_overtaken<'a>(
        &mut self,
        context: FillContext<'a>,
        micro_batch: &MicroBatch<'a>,
        overtaken: u32,
        irregular: &mut IrregularItems<'a>,
        arenas: &mut [&mut [u8]],
        gathered: &mut Gathered,
    ) -> Result<(), Stopped> {
        for item in items(overtaken) {
            let attempt = micro_batch.attempts().get(item).copied().unwrap_or(0);
            let item = micro_batch.first() + item;
            self.refill(context, item, attempt, irregular, arenas, gathered)?;
        }
        Ok(())
    }

    /// Draws an item again, from the attempt after `attempt` on, until its copy is valid.
    fn refill<'a>(
        &mut self,
        context: FillContext<'a>,
        item: usize,
        mut attempt: u32,
        irregular: &mut IrregularItems<'a>,
        arenas: &mut [&mut [u8]],
        gathered: &mut Gathered,
    ) -> Result<(), Stopped> {
        loop {
            self.note_overtaken(context)?;
            irregular.clear();
            let inspected = self.draw_and_inspect(context, item, attempt + 1, irregular);
            if is_missing(context, item, inspected, gathered)? {
                return Ok(());
            }
            let Some(found) = irregular.items().first() else { return Ok(()) };
            attempt = found.attempt;
            if self.copy_irregular(context.writer, found, irregular, arenas) {
                gathered.attempts += u64::from(attempt) + 1;
                return Ok(());
            }
        }
    }

    /// Copies an item. Returns `false` if a writer overwrote its rows meanwhile.
    fn copy_irregular(
        &mut self,
        writer: ArenaWriter<'_>,
        item: &IrregularItem<'_>,
        irregular: &IrregularItems<'_>,
        arenas: &mut [&mut [u8]],
    ) -> bool {
        writer.copy_item(item, irregular.headers_of(item), &mut self.sums, arenas);
        still_whole(item.lane, item.window.first())
    }
}

/// Lists an item whose row was not found, if the request allows blank items. Returns whether it
/// was listed.
fn is_missing(
    context: FillContext<'_>,
    item: usize,
    inspected: Result<(), Stopped>,
    gathered: &mut Gathered,
) -> Result<bool, Stopped> {
    let blank = matches!(context.request, BatchRequest::Rows(_, MissingRows::Blank));
    match inspected {
        Err(Stopped::Failed(
            SampleError::BadIndex { .. } | SampleError::Lapped { .. } | SampleError::Dropped { .. },
        )) if blank => {
            gathered.missing.push(item);
            Ok(true)
        }
        inspected => inspected.map(|()| false),
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

#[cfg(not(test))]
use copy_regular_items as copy_regular;
#[cfg(test)]
use tests::{copy_late as copy_regular, regular_unless_disabled as regular_items};

/// Returns a bitmask of the items that are copied together.
#[cfg(not(test))]
#[inline]
fn regular_items(now: &MicroBatch<'_>) -> u32 {
    now.regular()
}

/// Copies the regular items of a micro-batch. Returns `false` if the lanes have no such columns.
#[inline]
fn copy_regular_items(
    writer: ArenaWriter<'_>,
    now: &MicroBatch<'_>,
    next: &MicroBatch<'_>,
    scratch: &mut Scratch,
    arenas: &mut [&mut [u8]],
) -> bool {
    writer.copy_micro_batch(now, next, scratch, arenas)
}

#[cfg(test)]
pub(in crate::sampler) mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::{
        Boundary, DType, LanePolicy, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
        WriterOptions,
    };

    thread_local! {
        /// Runs once, between the selection of a micro-batch and its copy.
        static BEFORE_THE_COPY: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
        /// Whether every item takes the scalar path.
        pub(in crate::sampler) static ALL_SCALAR: Cell<bool> = const { Cell::new(false) };
        /// Number of items copied on the fast path.
        pub(in crate::sampler) static REGULAR: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn regular_unless_disabled(now: &MicroBatch<'_>) -> u32 {
        let regular = if ALL_SCALAR.get() { 0 } else { now.regular() };
        REGULAR.set(REGULAR.get().wrapping_add(regular.count_ones()));
        regular
    }

    pub(super) fn copy_late(
        writer: ArenaWriter<'_>,
        now: &MicroBatch<'_>,
        next: &MicroBatch<'_>,
        scratch: &mut Scratch,
        arenas: &mut [&mut [u8]],
    ) -> bool {
        if let Some(work) = BEFORE_THE_COPY.take() {
            work();
        }
        copy_regular_items(writer, now, next, scratch, arenas)
    }

    #[test]
    fn items_whose_rows_are_overwritten_before_the_copy_are_drawn_again() {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let options = RingOptions::with_capacity(200).lane_policy(LanePolicy::Overwrite);
        let ring = Ring::heap(&schema, options).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut append = move |rows: std::ops::Range<u64>| {
            for row in rows {
                let obs = [row];
                let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
        };
        let slots = ring.slots();
        append(0..slots);
        let options = SamplerOptions::seeded(5).boundary(Boundary::Mask);
        let mut sampler = ring.sampler(options).unwrap();
        // One and a half laps: every slot holds a later row than the one that was drawn.
        BEFORE_THE_COPY.set(Some(Box::new(move || append(slots..2 * slots + slots / 2))));
        let batch = sampler.sample(64).unwrap();
        assert!(BEFORE_THE_COPY.take().is_none(), "no item was regular");
        assert!(sampler.lapped() > 0);
        let rows = batch.column::<u64>("obs").unwrap().iter().copied().collect::<Vec<_>>();
        let index = batch.column::<i64>("index").unwrap();
        let drawn = index.iter().map(|index| RowIndex(*index).seq()).collect::<Vec<_>>();
        assert_eq!(rows, drawn);
    }
}
