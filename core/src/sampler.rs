//! Uniform draws over the transitions of a ring.

mod batch;
mod columns;
mod eligibility;
mod gather;
mod open;
mod options;
mod plan;
mod pool;
mod prefetcher;
mod rng;
mod state;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_layout::{ClaimedReader, DType, Kind, Role, SegmentError};

pub use self::batch::{Batch, Memory};
use self::columns::SelectedColumns;
pub use self::columns::{ColumnWindow, ColumnWindows, SamplerSpec};
use self::eligibility::{Eligibility, StartIndex};
pub use self::gather::GatherTarget;
use self::gather::{BatchRequest, MissingRows, Scratch};
pub use self::options::{BadBoundary, Boundary, SamplerOptions};
pub use self::plan::{Arena, Axis, BatchPlan, View};
use self::plan::{NStep, Source, Summed};
pub use self::pool::{Block, Pool};
pub use self::prefetcher::{Batches, BatchesOptions};
pub use self::rng::{CounterRng, philox4x32};
pub use self::state::SamplerState;
use self::window::WindowExtent;
use crate::error::SampleError;
use crate::ring::Ring;
use crate::row_header::RowHeader;
use crate::schema::Schema;

/// The index is kept up to date while the last batch needed more draws an item than this.
const FREQUENT: u64 = 3;
/// Batches after which the ring's name is looked up: files that were deleted by hand leave no notice.
const NAME_CHECKS: u32 = 1024;
/// Largest batch: items are counted in 32 bits.
const MAX_BATCH: usize = 1 << 24;

/// Draws batches of transitions, uniform over the ring's transitions and not over its lanes.
///
/// The same seed on the same data gives the same batches, in any process and language. A batch
/// that is dropped leaves its memory to the next one of the same size: a loop that draws, learns
/// and drops touches no new memory. At most two batches' worth is kept, until the sampler goes.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    options: SamplerOptions,
    columns: Option<ColumnWindows>,
    selection: SelectedColumns,
    rng: CounterRng,
    extent: WindowExtent,
    n_step: Option<NStep>,
    batches: u64,
    eligibility: Eligibility,
    /// Memory for the headers of irregular items, and for the sums of n-step returns.
    scratch: Vec<RowHeader>,
    sums: Scratch,
    plan: Option<(Arc<BatchPlan>, Arc<Pool>)>,
    slot: Option<ClaimedReader>,
    counters: Arc<Counters>,
    /// Notices that were heeded, and batches until the ring's name is looked up without one.
    notices: u32,
    name_check: u32,
}

/// Totals of a sampler; read while its thread draws ahead.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sampled: AtomicU64,
    pub(crate) lapped: AtomicU64,
}

impl Sampler {
    pub(crate) fn new(ring: &Ring, spec: SamplerSpec) -> Result<Self, SampleError> {
        let selection = SelectedColumns::of(&spec, ring.schema())?;
        let SamplerSpec { options, columns } = spec;
        let empty = selection.has_empty_window();
        let longest = selection.longest().unwrap_or(1);
        let (history, future) = (if empty { 0 } else { longest }, options.future);
        let n_step = options.n_step.unwrap_or(1);
        let after = u64::from(future).max(u64::from(n_step).saturating_sub(1));
        let rows = u64::from(history) + after + 1;
        if history == 0 || n_step == 0 || rows > ring.lane_capacity() {
            let limit = ring.lane_capacity();
            return Err(SampleError::BadWindow { history, future, n_step, rows, limit });
        }
        let SamplerOptions { gamma, discounts, n_step, boundary, .. } = options;
        let usable = gamma.is_none_or(|gamma| (0.0..=1.0).contains(&gamma));
        let given = u32::from(gamma.is_some()) + u32::from(discounts);
        if given != u32::from(n_step.is_some()) || !usable {
            return Err(SampleError::BadGamma { gamma, discounts, n_step });
        }
        let steps = n_step.unwrap_or(0).into();
        let extent = WindowExtent { back: u64::from(history) - 1, ahead: future.into(), steps };
        let n_step = n_step.map(|_| summed(ring.schema(), discounts, extent)).transpose()?;
        let starts = match boundary {
            Boundary::Reject => StartIndex::new(extent.back, extent.ahead),
            Boundary::Clamp => StartIndex::of_known_history(extent.back),
            Boundary::Mask => StartIndex::new(0, 0),
        };
        Ok(Self {
            slot: ring.store().claim_reader()?,
            rng: CounterRng::seeded(options.seed),
            eligibility: Eligibility::new(ring, starts),
            ring: ring.clone(),
            options,
            columns,
            selection,
            extent,
            n_step,
            batches: options.batches,
            scratch: Vec::new(),
            sums: Scratch::default(),
            plan: None,
            counters: Arc::default(),
            notices: 0,
            name_check: NAME_CHECKS,
        })
    }

    /// Fails if the ring has lost its name and its handle says so. One relaxed load, most of the time.
    fn heed_notices(&mut self) -> Result<(), SampleError> {
        self.name_check = self.name_check.saturating_sub(1);
        if self.ring.store().notices() == self.notices && self.name_check > 0 {
            return Ok(());
        }
        let notices = self.ring.store().notices();
        if self.ring.refuses_as_unlinked() {
            let name = self.ring.name().unwrap_or_default().to_owned();
            return Err(SegmentError::Unlinked { kind: Kind::Ring, name }.into());
        }
        (self.notices, self.name_check) = (notices, NAME_CHECKS);
        Ok(())
    }

    /// Draws `batch` transitions, with replacement, into memory of its own.
    pub fn sample(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let mut drawn = self.blank(batch)?;
        self.sample_over(&mut drawn)?;
        Ok(drawn)
    }

    /// Draws as many transitions as an earlier batch has, over what it holds.
    ///
    /// The batch may be one of another sampler with the same windows over the same columns. After
    /// an error it holds a mixture.
    pub fn sample_over(&mut self, batch: &mut Batch) -> Result<(), SampleError> {
        let plan = Arc::clone(batch.plan());
        self.sample_into(&plan, &mut batch.buffers())
    }

    /// Copies the transitions that `index` names into memory of their own.
    pub fn gather(&mut self, index: &[i64]) -> Result<Batch, SampleError> {
        self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        self.gather_over(index, &mut drawn)?;
        Ok(drawn)
    }

    /// Copies the transitions that `index` names over what an earlier batch of as many holds; see
    /// [`sample_over`](Self::sample_over).
    pub fn gather_over(&mut self, index: &[i64], batch: &mut Batch) -> Result<(), SampleError> {
        let plan = Arc::clone(batch.plan());
        self.gather_into(index, &plan, &mut batch.buffers())
    }

    /// Draws batches of one size in a thread, ahead of the caller: the same batches in the same
    /// order as repeated [`sample`](Self::sample) would draw from the same data.
    ///
    /// The thread starts when the first batch is asked for. See [`Batches`].
    pub fn batches(
        self,
        batch: usize,
        options: BatchesOptions,
    ) -> Result<Batches<Batch>, SampleError> {
        Batches::new(self, batch, options)
    }

    /// As [`batches`](Self::batches), into the caller's memory in turn, of which one is in the
    /// caller's hands and all others are ahead; the options' own prefetch is not used. Give each
    /// back with [`Batches::refill`].
    pub fn batches_over<M: Memory>(
        self,
        batch: usize,
        memory: Vec<M>,
        options: BatchesOptions,
    ) -> Result<Batches<M>, SampleError> {
        Batches::over(self, batch, memory, options)
    }

    /// Memory for a batch, with nothing drawn into it yet: zeros, or what was there before.
    pub fn blank(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let (plan, pool) = self.prepared(batch)?;
        Batch::of(plan, &pool)
    }

    /// The memory that a batch of this size needs. Kept: the next batch of the same size costs
    /// nothing here.
    pub fn plan(&mut self, batch: usize) -> Result<Arc<BatchPlan>, SampleError> {
        Ok(self.prepared(batch)?.0)
    }

    /// As [`plan`](Self::plan), for the transitions that `index` names; errors speak of it.
    pub fn plan_of(&mut self, index: &[i64]) -> Result<Arc<BatchPlan>, SampleError> {
        self.plan(index.len()).map_err(|error| match error {
            SampleError::BadBatchSize { asked: given, limit } => {
                SampleError::BadIndexCount { given, limit }
            }
            error => error,
        })
    }

    fn prepared(&mut self, batch: usize) -> Result<(Arc<BatchPlan>, Arc<Pool>), SampleError> {
        if let Some(prepared) = self.plan.as_ref().filter(|(plan, _)| plan.batch() == batch) {
            return Ok(prepared.clone());
        }
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        let plan = BatchPlan::new(
            self.ring.schema(),
            batch,
            &self.options,
            &self.selection,
            self.extent,
            self.n_step,
        );
        Ok(self.plan.insert((Arc::new(plan), Arc::default())).clone())
    }

    /// Returns the plan to fill by, for memory that was allocated by another one.
    fn own_plan(&mut self, theirs: &BatchPlan) -> Result<Arc<BatchPlan>, SampleError> {
        let ours = self.plan(theirs.batch())?;
        if !std::ptr::eq(&raw const *ours, theirs) {
            ours.check_memory(theirs)?;
        }
        Ok(ours)
    }

    /// Draws into memory of the caller's, one slice per arena of the plan. Never stops a writer;
    /// rows that a writer overwrote meanwhile are drawn again.
    pub fn sample_into(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        self.heed_notices()?;
        let lapped_before = self.lapped();
        self.eligibility.refresh();
        let gathered = self.fill(BatchRequest::Draws(self.batches), &plan, arenas)?;
        self.eligibility.use_index(gathered.attempts > FREQUENT * plan.batch() as u64);
        self.batches = self.batches.wrapping_add(1);
        self.count(plan.batch(), lapped_before);
        Ok(())
    }

    /// Copies the transitions that `index` names into memory of the caller's.
    pub fn gather_into(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let plan = self.plan_of_rows(index, plan, arenas)?;
        self.gather_named(BatchRequest::Rows(index, MissingRows::Refuse), &plan, arenas)?;
        Ok(())
    }

    /// Copies those of the transitions that `index` names which the ring holds, into memory of their
    /// own, and returns which were there. Everything of the others is zero, but `index`, which is as it
    /// was given.
    ///
    /// Missing are rows that were overwritten, dropped, or not published yet, those that begin no
    /// transition, and those whose window the boundary refuses.
    pub fn gather_present(&mut self, index: &[i64]) -> Result<(Batch, Vec<bool>), SampleError> {
        let plan = self.plan_of(index)?;
        let mut drawn = self.blank(index.len())?;
        let found = self.gather_present_into(index, &plan, &mut drawn.buffers())?;
        Ok((drawn, found))
    }

    /// Gathers as [`gather_present`](Self::gather_present) does, into the caller's memory.
    pub fn gather_present_into(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<bool>, SampleError> {
        let plan = self.plan_of_rows(index, plan, arenas)?;
        let request = BatchRequest::Rows(index, MissingRows::Blank);
        let missing = self.gather_named(request, &plan, arenas)?;
        let mut found = vec![true; index.len()];
        for item in missing {
            blank(item, index, &plan, arenas);
            if let Some(found) = found.get_mut(item) {
                *found = false;
            }
        }
        Ok(found)
    }

    /// Returns the plan to gather named rows by, for memory that was allocated by another one.
    fn plan_of_rows(
        &mut self,
        index: &[i64],
        plan: &BatchPlan,
        arenas: &[&mut [u8]],
    ) -> Result<Arc<BatchPlan>, SampleError> {
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        if index.len() != plan.batch() {
            let (got, expected) = (index.len(), plan.batch());
            return Err(SampleError::WrongIndexCount { got, expected });
        }
        Ok(plan)
    }

    /// Gathers named rows, and returns the items that are missing.
    fn gather_named(
        &mut self,
        request: BatchRequest<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<Vec<usize>, SampleError> {
        self.heed_notices()?;
        let lapped_before = self.lapped();
        self.eligibility.refresh_ranges();
        let gathered = self.fill(request, plan, arenas)?;
        self.count(plan.batch(), lapped_before);
        Ok(gathered.missing)
    }

    fn count(&mut self, rows: usize, lapped_before: u64) {
        self.counters.sampled.fetch_add(rows as u64, Relaxed);
        if let Some(slot) = &self.slot {
            slot.count(rows as u64, 1, self.lapped() - lapped_before);
        }
    }

    /// Returns why nothing can be drawn. O(rows).
    fn nothing(&self) -> SampleError {
        let longest = self.eligibility.longest_run();
        // Where windows need not be whole, what this finds was published just now.
        let (history, future) = (self.selection.longest().unwrap_or(1), self.options.future);
        if longest > 0 && self.options.boundary == Boundary::Clamp {
            return SampleError::NoHistory { history, longest };
        }
        if longest == 0 || self.options.boundary != Boundary::Reject {
            return SampleError::Empty { rows: self.eligibility.ranges().published() };
        }
        let needed = u64::from(history) + u64::from(future);
        SampleError::NoWindow { history, future, needed, longest }
    }

    /// Goes back to an earlier batch: what was drawn since will be drawn again.
    pub(crate) fn rewind(&mut self, batch: u64) {
        self.batches = batch;
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Where it is: a sampler made of this goes on with the very draws of this one.
    #[must_use]
    pub fn state(&self) -> SamplerState {
        let spec = SamplerSpec { options: self.options, columns: self.columns.clone() };
        SamplerState::of(&spec, self.batches)
    }

    /// Rows drawn so far, those drawn ahead by a thread included.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.counters.sampled.load(Relaxed)
    }

    /// Draws thrown away so far because a writer overwrote the rows meanwhile.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.counters.lapped.load(Relaxed)
    }

    /// The ring drawn from.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The seed of the draws.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.options.seed
    }
}

/// Returns what n-step returns sum.
fn summed(schema: &Schema, discounts: bool, extent: WindowExtent) -> Result<NStep, SampleError> {
    let reward =
        float_column(schema, "reward").map_err(|found| SampleError::BadReward { found })?;
    let discount = discounts
        .then(|| float_column(schema, "discount"))
        .transpose()
        .map_err(|found| SampleError::BadDiscount { found })?;
    Ok(NStep { reward, discount, run: extent.run() })
}

/// Returns the step column of this name if it is one float a row, or what there is in its place.
fn float_column(schema: &Schema, name: &str) -> Result<Summed, String> {
    let place = schema.stored().iter().position(|column| column.name() == name);
    let Some((at, column)) = place.and_then(|at| Some((at, schema.stored().get(at)?))) else {
        return Err(format!("there is none among {schema}"));
    };
    let (dtype, shape) = (column.dtype(), column.shape());
    let real = matches!(dtype, DType::F32 | DType::F64);
    if real && shape.is_empty() && column.role() == Role::Step {
        return Ok(Summed { column: at, dtype });
    }
    let of = if column.role() == Role::Obs { " of the observation" } else { "" };
    Err(format!("here it is {dtype}{shape:?}{of}"))
}

/// Zeroes the places of a missing item, and sets its index to the one that was given.
fn blank(item: usize, index: &[i64], plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
    for (arena, field) in arenas.iter_mut().zip(plan.fields()) {
        let bytes = field.rows * field.width;
        let Some(place) = arena.get_mut(item * bytes..(item + 1) * bytes) else { continue };
        match (field.source, index.get(item)) {
            (Source::Index, Some(index)) => place.copy_from_slice(&index.to_ne_bytes()),
            _ => place.fill(0),
        }
    }
}

fn check_arenas(plan: &BatchPlan, arenas: &[&mut [u8]]) -> Result<(), SampleError> {
    if arenas.len() != plan.arenas().len() {
        let (arena, got, expected) = (arenas.len(), arenas.len(), plan.arenas().len());
        return Err(SampleError::BadArena { arena, got, expected });
    }
    for (arena, (given, needed)) in arenas.iter().zip(plan.arenas()).enumerate() {
        if given.len() != needed.bytes() {
            let (got, expected) = (given.len(), needed.bytes());
            return Err(SampleError::BadArena { arena, got, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::eligibility::ReadableRanges;
    use super::*;
    use crate::{AutoresetMode, RingOptions, StepColumns, WriterOptions};

    /// Episodes of one to `longest` transitions, one row each lane and step.
    fn ring(longest: usize) -> Ring {
        ring_of(longest, 1)
    }

    /// Returns such a ring with `numbers` numbers a row, which tell their step and their place.
    fn ring_of(longest: usize, numbers: u16) -> Ring {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[numbers.into()])
            .column("reward", DType::F32, &[])
            .build()
            .unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(600).lanes(2)).unwrap();
        let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
        let mut writer = ring.writer(options).unwrap();
        let mut left = 1;
        for step in 0..500_usize {
            left -= 1;
            let ends = [left == 0; 2];
            if left == 0 {
                left = 1 + (step * step / 3) % longest;
            }
            let first = u16::try_from(step).unwrap();
            let obs: Vec<f32> = (first..first + 2 * numbers).map(f32::from).collect();
            let reward = [f32::from(first), -f32::from(first)];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
            let columns = columns.with("reward", &reward).unwrap();
            let mut columns = columns.with_final("obs", &obs).unwrap();
            writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
        }
        ring
    }

    #[test]
    fn the_index_changes_what_a_draw_costs_and_not_what_it_draws() {
        for (longest, boundary) in [(1, Boundary::Mask), (7, Boundary::Reject)] {
            let ring = ring(longest);
            let options = SamplerOptions::seeded(3).history(4).future(2).boundary(boundary);
            let [mut never, mut always, mut free] =
                [(); 3].map(|()| ring.sampler(options).unwrap());
            let mut indexed = 0;
            for _ in 0..20 {
                never.eligibility.use_index(false);
                always.eligibility.use_index(true);
                let expected = always.sample(300).unwrap().index();
                assert_eq!(never.sample(300).unwrap().index(), expected);
                assert_eq!(free.sample(300).unwrap().index(), expected);
                indexed += u32::from(free.eligibility.is_indexed());
            }
            assert_eq!(indexed, if boundary == Boundary::Reject { 20 } else { 0 });
        }
    }

    #[test]
    fn the_scalar_path_fills_what_the_fast_path_fills() {
        use super::gather::tests::{ALL_SCALAR, REGULAR};
        let single = SamplerOptions::seeded(11);
        let windows = single.history(4).future(2);
        let returns = |options: SamplerOptions| options.n_step(3).gamma(0.9);
        let options = [
            single,
            windows,
            windows.boundary(Boundary::Reject),
            windows.boundary(Boundary::Clamp),
            windows.copy(true),
            returns(single),
            returns(windows),
        ];
        // Rows of a few bytes, of some, of so many that others are prefetched between their lines, and of so
        // many that items are copied one by one.
        let rings = [
            (1, 1),
            (3, 1),
            (20, 1),
            (100, 1),
            (400, 1),
            (20, 36),
            (400, 36),
            (20, 260),
            (100, 2_100),
        ];
        REGULAR.set(0);
        for ((longest, numbers), options) in
            rings.into_iter().flat_map(|of| options.map(|options| (of, options)))
        {
            let ring = ring_of(longest, numbers);
            let [mut fast, mut scalar] = [(); 2].map(|()| ring.sampler(options).unwrap());
            let filled = |sampler: &mut Sampler, all_scalar: bool, index: Option<&[i64]>| {
                let plan = sampler.plan(300).unwrap();
                let mut memory: Vec<_> = plan.arenas().iter().map(|a| vec![7; a.bytes()]).collect();
                let mut arenas: Vec<_> = memory.iter_mut().map(Vec::as_mut_slice).collect();
                ALL_SCALAR.set(all_scalar);
                let done = match index {
                    None => sampler.sample_into(&plan, &mut arenas),
                    Some(index) => sampler.gather_into(index, &plan, &mut arenas),
                };
                ALL_SCALAR.set(false);
                done.map(|()| memory).map_err(|error| error.to_string())
            };
            for _ in 0..5 {
                let expected = filled(&mut scalar, true, None);
                assert_eq!(filled(&mut fast, false, None), expected, "{longest}, {options:?}");
                let Ok(index) = fast.sample(300).map(|batch| batch.index()) else { continue };
                scalar.batches = fast.batches;
                for index in [index.clone(), vec![-1; 300], index.into_iter().rev().collect()] {
                    let expected = filled(&mut scalar, true, Some(&index));
                    let found = filled(&mut fast, false, Some(&index));
                    assert_eq!(found, expected, "{longest}, {options:?}");
                }
            }
        }
        assert!(REGULAR.get() > 0, "the test proves nothing");
    }

    #[test]
    fn what_is_drawn_does_not_depend_on_how_long_rows_are() {
        let drawn = |numbers: u32| {
            let schema = Schema::builder().column("obs", DType::F32, &[numbers]).build().unwrap();
            let ring = Ring::heap(&schema, RingOptions::with_capacity(600).lanes(2)).unwrap();
            let mut writer =
                ring.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
            let obs = vec![0.5_f32; 2 * numbers as usize];
            for _ in 0..500 {
                let mut columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                writer.append(&columns.step(&[false; 2], &[false; 2]).unwrap()).unwrap();
            }
            ring.sampler(SamplerOptions::seeded(5)).unwrap().sample(300).unwrap().index()
        };
        let first = drawn(1);
        for numbers in [16, 80, 210, 300, 500, 2_000] {
            assert_eq!(drawn(numbers), first, "{numbers} numbers a row");
        }
    }

    #[test]
    fn a_head_that_goes_down_empties_the_index() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let options = RingOptions::with_capacity(600).base(crate::Base::at(dir.path()));
        let ring = Ring::create("liar", &schema, options).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        // No window fits into the first episodes, so those that remain are drawn from the index.
        for step in 0..500 {
            let mut columns = StepColumns::of(&schema).with("obs", &[1.0_f32]).unwrap();
            let ends = [step < 100];
            let step = columns.step(&ends, &[false]);
            writer.append(&step.unwrap()).unwrap();
        }
        let options = SamplerOptions::seeded(1).history(3).boundary(Boundary::Reject);
        let mut sampler = ring.sampler(options).unwrap();
        sampler.eligibility.use_index(true);
        sampler.sample(16).unwrap();
        let lane = ring.path().unwrap().join("lane-0000.dat");
        let file = std::fs::File::options().write(true).open(lane).unwrap();
        let head = std::mem::offset_of!(backcast_layout::LaneHeader, head) as u64;
        for rows in [90_u64, 40, 0] {
            file.write_all_at(&rows.to_ne_bytes(), head).unwrap();
            sampler.eligibility.use_index(true);
            let drawn = sampler.sample(64).map(|batch| batch.index());
            assert!(drawn.is_err(), "{rows} rows hold no window: {drawn:?}");
        }
    }

    #[test]
    fn the_index_follows_a_writer_that_laps_it() {
        let ring = ring(7);
        let mut starts = StartIndex::new(2, 1);
        let mut ranges = ReadableRanges::default();
        let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
        let mut writer = ring.writer(options).unwrap();
        for (round, steps) in [0, 1, 5, 40, 299, 300, 301, 2_000].into_iter().enumerate() {
            for step in 0..steps {
                let obs = [1.0_f32, 2.0];
                let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
                let columns = columns.with("reward", &obs).unwrap();
                let mut columns = columns.with_final("obs", &obs).unwrap();
                let ends = [step % 5 == 4, step % (6 + round) == 5];
                writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
            }
            let lanes = ranges.refresh(&ring);
            starts.refresh(&lanes, &ranges);
            let mut fresh = StartIndex::new(2, 1);
            fresh.refresh(&lanes, &ranges);
            let list = |starts: &StartIndex| -> Vec<_> {
                (0..starts.total()).map(|n| starts.nth(n).unwrap()).collect()
            };
            assert_eq!(list(&starts), list(&fresh));
            assert!(list(&starts).iter().all(|(lane, row)| starts.contains(*lane, *row)));
            let rows = ranges.iter().zip(0..).flat_map(|(r, l)| r.clone().map(move |s| (l, s)));
            let held = rows.filter(|(lane, row)| starts.contains(*lane, *row)).count();
            assert_eq!(held as u64, starts.total());
        }
    }
}
