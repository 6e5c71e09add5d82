//! Uniform draws over the transitions of a ring, and the one gather that fills a batch.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{ClaimedReader, DType, Lane, Role};

use crate::batch::{Batch, Memory};
use crate::batches::{Batches, BatchesOptions};
use crate::block::{self, Block, Item};
use crate::draw::Draws;
use crate::error::SampleError;
use crate::fill::Filler;
use crate::index::RowIndex;
use crate::mark::{MARKS, Mark};
use crate::plan::BatchPlan;
use crate::pool::Pool;
use crate::ring::Ring;
use crate::sampler_options::{Boundary, SamplerOptions};
use crate::schema::Schema;
use crate::spans::Spans;
use crate::starts::Starts;
use crate::window::{Marks, Reach, Window};

/// Draws for one item are given up after so many: writers overwrite each of them.
const MAX_ATTEMPTS: u32 = 10_000;
/// Draws for one item over all rows, before the index of starts is asked. Whether the index is at
/// hand changes what a draw costs and never its result, so this number is part of what a seed means.
const BLIND: u32 = 32;
/// The index is kept up to date while the last batch needed more than so many draws an item.
const FREQUENT: u64 = 3;
/// Bytes of a window's marks that are asked for before they are looked at; the processor follows a
/// longer read by itself.
const MARK_BYTES: usize = 1024;
/// A gather of one row is given up after the writer has lapped it so many times.
const GATHER_ATTEMPTS: u32 = 64;
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
    draws: Draws,
    reach: Reach,
    /// Column number of `reward`, with n-step returns.
    reward: Option<usize>,
    batches: u64,
    spans: Spans,
    starts: Starts,
    /// Whether `starts` is of the same moment as `spans`.
    indexed: bool,
    /// By item number, modulo their count: two blocks ahead at most.
    picks: Vec<Option<Pick>>,
    /// Memory for the marks of two blocks.
    scratch: [Vec<Mark>; 2],
    plan: Option<(Arc<BatchPlan>, Arc<Pool>)>,
    slot: Option<ClaimedReader>,
    counters: Arc<Counters>,
}

/// What a sampler did so far; read while its thread draws ahead.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sampled: AtomicU64,
    pub(crate) lapped: AtomicU64,
}

/// What a look at a row found.
#[derive(Clone, Copy)]
enum Look {
    /// A transition whose window is known.
    Found,
    NoTransition,
    /// A transition, but its window is not whole, which the boundary asks for.
    Cut,
    Lapped,
}

/// Where the rows of a batch come from.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// The draws of the batch of this number.
    Draws(u64),
    Rows(&'a [i64]),
}

/// The first draw of an item that may fit.
#[derive(Clone, Copy, Debug)]
struct Pick {
    attempt: u32,
    lane: u32,
    seq: u64,
}

/// A batch on its way: what does not change while it is made.
#[derive(Clone, Copy)]
struct Job<'a> {
    wanted: Wanted<'a>,
    lanes: &'a [Arc<Lane>],
    filler: Filler<'a>,
}

impl Sampler {
    pub(crate) fn new(ring: &Ring, options: SamplerOptions) -> Result<Self, SampleError> {
        let (history, future) = (options.history.unwrap_or(1), options.future);
        let n_step = options.n_step.unwrap_or(1);
        let after = u64::from(future).max(u64::from(n_step).saturating_sub(1));
        let rows = u64::from(history) + after + 1;
        if history == 0 || n_step == 0 || rows > ring.lane_capacity() {
            let limit = ring.lane_capacity();
            return Err(SampleError::BadWindow { history, future, n_step, rows, limit });
        }
        let SamplerOptions { gamma, n_step, boundary, .. } = options;
        let usable = gamma.is_none_or(|gamma| (0.0..=1.0).contains(&gamma));
        if gamma.is_some() != n_step.is_some() || !usable {
            return Err(SampleError::BadGamma { gamma, n_step });
        }
        let reward = n_step.map(|_| reward(ring.schema())).transpose()?;
        let steps = n_step.unwrap_or(0).into();
        let reach = Reach { back: u64::from(history) - 1, ahead: future.into(), steps };
        let whole = boundary == Boundary::Reject;
        let starts = if whole { Starts::new(reach.back, reach.ahead) } else { Starts::new(0, 0) };
        Ok(Self {
            slot: ring.store().claim_reader()?,
            draws: Draws::seeded(options.seed),
            ring: ring.clone(),
            options,
            reach,
            reward,
            batches: 0,
            spans: Spans::default(),
            starts,
            indexed: false,
            picks: vec![None; 2 * block::MOST],
            scratch: Default::default(),
            plan: None,
            counters: Arc::default(),
        })
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

    fn prepared(&mut self, batch: usize) -> Result<(Arc<BatchPlan>, Arc<Pool>), SampleError> {
        if let Some(prepared) = self.plan.as_ref().filter(|(plan, _)| plan.batch() == batch) {
            return Ok(prepared.clone());
        }
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        let plan = BatchPlan::new(self.ring.schema(), batch, &self.options, self.reward);
        Ok(self.plan.insert((Arc::new(plan), Arc::default())).clone())
    }

    /// The plan to fill by, for memory that was allocated by another one.
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
        let lapped_before = self.lapped();
        self.refresh();
        let attempts = self.fill(Wanted::Draws(self.batches), &plan, arenas)?;
        self.indexed = attempts > FREQUENT * plan.batch() as u64;
        self.batches += 1;
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
        let plan = self.own_plan(plan)?;
        check_arenas(&plan, arenas)?;
        if index.len() != plan.batch() {
            let (got, expected) = (index.len(), plan.batch());
            return Err(SampleError::WrongIndexCount { got, expected });
        }
        let lapped_before = self.lapped();
        self.spans.refresh(&self.ring);
        self.fill(Wanted::Rows(index), &plan, arenas)?;
        self.count(plan.batch(), lapped_before);
        Ok(())
    }

    /// Fills a batch, block by block. How many draws it took.
    fn fill(
        &mut self,
        wanted: Wanted<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        let ring = self.ring.clone();
        let (reach, size, batch) = (self.reach, Block::size(plan.row_bytes()), plan.batch());
        let filler = Filler { plan, reach, gamma: self.options.gamma.unwrap_or(0.0) };
        let job = Job { wanted, lanes: ring.store().lanes(), filler };
        let span = |number: usize| (number * size).min(batch)..((number + 1) * size).min(batch);
        // Put back at the end: after an error they are made anew.
        let scratch = mem::take(&mut self.scratch);
        let [mut now, mut next] = scratch.map(|memory| Block::over(memory, size, reach));
        let mut attempts = 0;
        self.draw(job, span(0));
        self.draw(job, span(1));
        self.look_at(job, span(0), &mut now)?;
        filler.ask(&now);
        for number in 0..batch.div_ceil(size) {
            self.draw(job, span(number + 2));
            self.look_at(job, span(number + 1), &mut next)?;
            filler.fill(&now, next.items(), arenas);
            for (i, item) in now.items().iter().enumerate() {
                let mut attempt = item.attempt;
                if !is_whole(item) {
                    attempt = self.fill_again(job, now.first() + i, attempt, arenas)?;
                }
                attempts += u64::from(attempt) + 1;
            }
            mem::swap(&mut now, &mut next);
        }
        self.scratch = [now, next].map(Block::into_memory);
        Ok(attempts)
    }

    /// Draws an item anew until nobody overwrites it meanwhile; the draw that did.
    #[cold]
    fn fill_again(
        &mut self,
        job: Job<'_>,
        item: usize,
        mut attempt: u32,
        arenas: &mut [&mut [u8]],
    ) -> Result<u32, SampleError> {
        let mut again = Block::over(Vec::new(), 1, self.reach);
        loop {
            self.note_lap(job.wanted);
            again.begin(item);
            self.look(job, item, attempt + 1, &mut again)?;
            job.filler.fill(&again, &[], arenas);
            let Some(found) = again.items().first() else { return Ok(attempt) };
            attempt = found.attempt;
            if is_whole(found) {
                return Ok(attempt);
            }
        }
    }

    /// A writer came by: looks at what there is now.
    fn note_lap(&mut self, wanted: Wanted<'_>) {
        match wanted {
            Wanted::Draws(_) => {
                self.counters.lapped.fetch_add(1, Relaxed);
                self.refresh();
            }
            // Perhaps only rows of the history are gone: with a shorter one it may do.
            Wanted::Rows(_) => self.spans.refresh(&self.ring),
        }
    }

    /// Draws some items for the first time, and asks for the memory of their marks.
    fn draw(&mut self, job: Job<'_>, items: Range<usize>) {
        let count = self.picks.len();
        let bytes = (self.reach.most_rows() * size_of::<Mark>()).min(MARK_BYTES);
        for item in items {
            let pick = match job.wanted {
                Wanted::Draws(batch) => self.first_pick(batch, item),
                Wanted::Rows(index) => index.get(item).map(|index| {
                    let index = RowIndex(*index);
                    Pick { attempt: 0, lane: index.lane(), seq: index.seq() }
                }),
            };
            self.picks[item % count] = pick;
            let Some(Pick { lane: number, seq, .. }) = pick else { continue };
            let Some(lane) = job.lanes.get(number as usize) else { continue };
            let first = seq.saturating_sub(self.reach.back);
            lane.ahead(MARKS, self.spans.slot(number, first, lane.slots())).ask(bytes);
        }
    }

    /// Looks at the first rows of some items that fit.
    fn look_at<'a>(
        &mut self,
        job: Job<'a>,
        items: Range<usize>,
        block: &mut Block<'a>,
    ) -> Result<(), SampleError> {
        block.begin(items.start);
        for item in items {
            let drawn = self.picks[item % self.picks.len()];
            if let Some(Pick { attempt, lane, seq }) = drawn
                && matches!(self.look_at_row(job.lanes, lane, seq, attempt, block), Look::Found)
            {
                continue;
            }
            // Earlier attempts do not fit, as the index says.
            self.look(job, item, drawn.map_or(0, |drawn| drawn.attempt), block)?;
        }
        Ok(())
    }

    /// Enters an item into a block: the first of its draws, from `attempt` on, that fits.
    #[cold]
    fn look<'a>(
        &mut self,
        job: Job<'a>,
        item: usize,
        attempt: u32,
        block: &mut Block<'a>,
    ) -> Result<(), SampleError> {
        match job.wanted {
            Wanted::Draws(batch) => self.look_for_draw(job.lanes, (batch, item), attempt, block),
            Wanted::Rows(index) => {
                let index = index.get(item).copied().unwrap_or(RowIndex::NONE.0);
                self.look_for_row(job.lanes, (index, item), attempt, block)
            }
        }
    }

    fn look_for_draw<'a>(
        &mut self,
        lanes: &'a [Arc<Lane>],
        (batch, item): (u64, usize),
        first: u32,
        block: &mut Block<'a>,
    ) -> Result<(), SampleError> {
        let number = u32::try_from(item).unwrap_or(u32::MAX);
        for attempt in first..MAX_ATTEMPTS {
            if attempt == BLIND && !self.indexed {
                self.indexed = true;
                self.starts.refresh(&self.ring, &self.spans);
            }
            if self.spans.total() == 0 || (attempt >= BLIND && self.starts.total() == 0) {
                return Err(self.nothing());
            }
            let Some((lane, seq)) = self.pick(batch, number, attempt) else { continue };
            match self.look_at_row(lanes, lane, seq, attempt, block) {
                Look::Found => return Ok(()),
                Look::NoTransition | Look::Cut => {}
                Look::Lapped => self.note_lap(Wanted::Draws(batch)),
            }
        }
        Err(SampleError::Outrun { attempts: MAX_ATTEMPTS })
    }

    fn look_for_row<'a>(
        &mut self,
        lanes: &'a [Arc<Lane>],
        (index, position): (i64, usize),
        first: u32,
        block: &mut Block<'a>,
    ) -> Result<(), SampleError> {
        let (lane, seq) = (RowIndex(index).lane(), RowIndex(index).seq());
        let bad = |reason| SampleError::BadIndex { position, index, lane, seq, reason };
        let mut oldest = 0;
        for attempt in first..GATHER_ATTEMPTS {
            let range = self.spans.range(lane).ok_or_else(|| bad("the ring has fewer lanes"))?;
            oldest = range.start;
            if seq >= range.end {
                return Err(bad("the row is not published yet"));
            }
            if seq < range.start {
                break;
            }
            match self.look_at_row(lanes, lane, seq, attempt, block) {
                Look::Found => return Ok(()),
                Look::NoTransition => {
                    return Err(bad(
                        "no transition starts there (a FINAL row, or the last before \
                                    a gap, or its successor is not published yet)",
                    ));
                }
                Look::Cut => {
                    return Err(bad(
                        "its window does not lie whole in its episode, as boundary=\"reject\" asks",
                    ));
                }
                Look::Lapped => self.note_lap(Wanted::Rows(&[])),
            }
        }
        Err(SampleError::Lapped { position, index, lane, seq, oldest })
    }

    fn count(&mut self, rows: usize, lapped_before: u64) {
        self.counters.sampled.fetch_add(rows as u64, Relaxed);
        if let Some(slot) = &self.slot {
            slot.count(rows as u64, 1, self.lapped() - lapped_before);
        }
    }

    /// Looks at what the ring holds now.
    fn refresh(&mut self) {
        self.spans.refresh(&self.ring);
        if self.indexed {
            self.starts.refresh(&self.ring, &self.spans);
        }
    }

    /// The lane and row of one attempt, if it fits. The index, once it is there, says at once what
    /// a look at the row would say.
    #[inline]
    fn pick(&mut self, batch: u64, item: u32, attempt: u32) -> Option<(u32, u64)> {
        let blind = attempt < BLIND;
        let total = if blind { self.spans.total() } else { self.starts.total() };
        if total == 0 {
            return None;
        }
        // A draw that does not fit is drawn again, which keeps the others exactly uniform.
        let n = self.draws.below(total, batch, item, attempt)?;
        if !blind {
            return self.starts.nth(n);
        }
        let (lane, seq) = self.spans.candidate(n)?;
        (!self.indexed || self.starts.contains(lane, seq)).then_some((lane, seq))
    }

    /// The first draw of an item that may fit. The index, where it is there, knows.
    #[inline]
    fn first_pick(&mut self, batch: u64, item: usize) -> Option<Pick> {
        let number = u32::try_from(item).ok()?;
        let mut attempts = if self.indexed { 0..BLIND + 1 } else { 0..1 };
        attempts.find_map(|attempt| {
            let (lane, seq) = self.pick(batch, number, attempt)?;
            Some(Pick { attempt, lane, seq })
        })
    }

    /// Why nothing can be drawn. O(rows).
    fn nothing(&self) -> SampleError {
        let mut all = Starts::new(0, 0);
        all.refresh(&self.ring, &self.spans);
        let longest = all.longest();
        // Where windows are not wanted whole, what this finds was published just now.
        if longest == 0 || self.options.boundary != Boundary::Reject {
            return SampleError::Empty { rows: self.spans.published() };
        }
        let (history, future) = (self.options.history.unwrap_or(1), self.options.future);
        let needed = u64::from(history) + u64::from(future);
        SampleError::NoWindow { history, future, needed, longest }
    }

    /// Reads the marks around a row, and enters it into the block if a transition starts there.
    #[inline]
    fn look_at_row<'a>(
        &self,
        lanes: &'a [Arc<Lane>],
        number: u32,
        seq: u64,
        attempt: u32,
        block: &mut Block<'a>,
    ) -> Look {
        let (Some(lane), Some(range)) = (lanes.get(number as usize), self.spans.range(number))
        else {
            return Look::NoTransition;
        };
        let lane = &**lane;
        // The index was made of earlier ranges; it holds no other rows unless a peer lied.
        if !range.contains(&seq) {
            return Look::Lapped;
        }
        let rows = self.reach.rows(seq, range);
        let (first, slot) = (rows.start, self.spans.slot(number, rows.start, lane.slots()));
        let room = block.room(usize::try_from(rows.end - first).unwrap_or(0));
        Mark::read_into(lane, slot, room);
        let marks = Marks { first, rows: room };
        let (ours, all_flags) = marks.look();
        if !ours {
            return Look::Lapped;
        }
        let window = match marks.window(seq, self.reach, all_flags) {
            Some(window) if self.suits(window) => window,
            refused => {
                // What was read may be of newer rows.
                let (outcome, from) = match refused {
                    Some(_) => (Look::Cut, first),
                    None => (Look::NoTransition, seq),
                };
                return if still_whole(lane, from) { outcome } else { Look::Lapped };
            }
        };
        let slot = slot + (window.first() - first);
        let slot = if slot < lane.slots() { slot } else { slot - lane.slots() };
        let (flags, count) = (marks.flags(seq).unwrap_or(0), marks.rows.len());
        block.push(Item {
            lane,
            index: RowIndex::new(number, seq),
            age: range.end - seq - 1,
            flags,
            all_flags,
            window,
            whole: window.is_whole(self.reach),
            missing: self.reach.back - window.back,
            slot,
            attempt,
            marks: (first, count),
        });
        Look::Found
    }

    /// Whether the boundary lets this window be drawn.
    fn suits(&self, window: Window) -> bool {
        self.options.boundary != Boundary::Reject || window.is_whole(self.reach)
    }

    /// Goes back to an earlier batch: what was drawn since will be drawn again.
    pub(crate) fn rewind(&mut self, batch: u64) {
        self.batches = batch;
    }

    /// Number of the next batch.
    pub(crate) fn next_batch(&self) -> u64 {
        self.batches
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
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

/// Whether what was copied of an item is what was there before anybody overwrote it.
#[inline]
fn is_whole(item: &Item<'_>) -> bool {
    still_whole(item.lane, item.window.first())
}

/// The column that n-step returns sum.
fn reward(schema: &Schema) -> Result<usize, SampleError> {
    let place = schema.stored().iter().position(|column| column.name() == "reward");
    let Some((at, column)) = place.and_then(|at| Some((at, schema.stored().get(at)?))) else {
        return Err(SampleError::BadReward { found: format!("there is none among {schema}") });
    };
    let real = matches!(column.dtype(), DType::F32 | DType::F64);
    if real && column.shape().is_empty() && column.role() == Role::Step {
        return Ok(at);
    }
    let (dtype, shape) = (column.dtype(), column.shape());
    let of = if column.role() == Role::Obs { " of the observation" } else { "" };
    Err(SampleError::BadReward { found: format!("here it is {dtype}{shape:?}{of}") })
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
    use super::*;
    use crate::{AutoresetMode, RingOptions, StepColumns, WriterOptions};

    /// Episodes of one to `longest` transitions, one row each lane and step.
    fn ring(longest: usize) -> Ring {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
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
            let obs = [1.0_f32, 2.0];
            let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
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
                never.indexed = false;
                always.indexed = true;
                let expected = always.sample(300).unwrap().index();
                assert_eq!(never.sample(300).unwrap().index(), expected);
                assert_eq!(free.sample(300).unwrap().index(), expected);
                indexed += u32::from(free.indexed);
            }
            assert_eq!(indexed, if boundary == Boundary::Reject { 20 } else { 0 });
        }
    }

    #[test]
    fn a_head_that_goes_down_empties_the_index() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let options = RingOptions::with_capacity(600).base(crate::Base::at(dir.path()));
        let ring = Ring::create("liar", &schema, options).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        // No window fits into the first episodes, so those that remain are drawn from the index.
        for step in 0..500 {
            let mut columns = StepColumns::of(&schema).with("obs", &[1.0_f32]).unwrap();
            let ends = [step < 100];
            let step = columns.step(&ends, &[false]);
            writer.append(&step.unwrap()).unwrap();
        }
        let options = SamplerOptions::seeded(1).history(3).boundary(Boundary::Reject);
        let mut sampler = ring.sampler(options).unwrap();
        sampler.indexed = true;
        sampler.sample(16).unwrap();
        let lane = ring.path().unwrap().join("lane-0000.dat");
        let file = std::fs::File::options().write(true).open(lane).unwrap();
        let head = std::mem::offset_of!(backcast_layout::LaneHeader, head) as u64;
        for rows in [90_u64, 40, 0] {
            file.write_all_at(&rows.to_ne_bytes(), head).unwrap();
            sampler.indexed = true;
            let drawn = sampler.sample(64).map(|batch| batch.index());
            assert!(drawn.is_err(), "{rows} rows hold no window: {drawn:?}");
        }
    }

    #[test]
    fn the_index_follows_a_writer_that_laps_it() {
        let ring = ring(7);
        let mut starts = Starts::new(2, 1);
        let mut spans = Spans::default();
        let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
        let mut writer = ring.writer(options).unwrap();
        for (round, steps) in [0, 1, 5, 40, 299, 300, 301, 2_000].into_iter().enumerate() {
            for step in 0..steps {
                let obs = [1.0_f32, 2.0];
                let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
                let mut columns = columns.with_final("obs", &obs).unwrap();
                let ends = [step % 5 == 4, step % (6 + round) == 5];
                writer.append(&columns.step(&ends, &[false; 2]).unwrap()).unwrap();
            }
            spans.refresh(&ring);
            starts.refresh(&ring, &spans);
            let mut fresh = Starts::new(2, 1);
            fresh.refresh(&ring, &spans);
            let list = |starts: &Starts| -> Vec<_> {
                (0..starts.total()).map(|n| starts.nth(n).unwrap()).collect()
            };
            assert_eq!(list(&starts), list(&fresh));
            assert!(list(&starts).iter().all(|(lane, row)| starts.contains(*lane, *row)));
            let rows =
                spans.ranges().iter().zip(0..).flat_map(|(r, l)| r.clone().map(move |s| (l, s)));
            let held = rows.filter(|(lane, row)| starts.contains(*lane, *row)).count();
            assert_eq!(held as u64, starts.total());
        }
    }
}
