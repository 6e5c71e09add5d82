//! Uniform draws over the transitions of a ring, and the one gather that fills a batch.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{ClaimedReader, DType, Lane};

use crate::batch::Batch;
use crate::draw::Draws;
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::options::SamplerOptions;
use crate::plan::{BatchPlan, Fill, Source};
use crate::reader::clean_bools;
use crate::ring::Ring;
use crate::window::{Marks, Reach, Window};

/// Draws for one item are given up after so many; a healthy ring needs one or two.
const MAX_ATTEMPTS: u32 = 10_000;
/// Items whose memory is asked for ahead of their copy.
const PREFETCH: usize = 8;
/// A gather of one row is given up after the writer has lapped it so many times.
const GATHER_ATTEMPTS: u32 = 64;
/// Largest batch: items are counted in 32 bits.
const MAX_BATCH: usize = 1 << 24;

/// Draws batches of transitions, uniform over the ring's transitions and not over its lanes.
///
/// The same seed on the same data gives the same batches, in any process and language.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    options: SamplerOptions,
    draws: Draws,
    reach: Reach,
    batches: u64,
    spans: Spans,
    marks: Marks,
    plan: Option<Arc<BatchPlan>>,
    slot: Option<ClaimedReader>,
    sampled: u64,
    lapped: u64,
}

/// Readable rows per lane, and how many draws each lane is good for.
#[derive(Debug, Default)]
struct Spans {
    ranges: Vec<Range<u64>>,
    /// Candidates in this lane and all before it. The newest row has no successor yet.
    ends: Vec<u64>,
}

impl Spans {
    fn refresh(&mut self, ring: &Ring) {
        self.ranges.clear();
        self.ends.clear();
        let mut total = 0;
        for lane in ring.store().lanes() {
            let range = ring.readable(lane);
            total += (range.end - range.start).saturating_sub(1);
            self.ranges.push(range);
            self.ends.push(total);
        }
    }

    fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The lane and row of the n-th candidate.
    fn candidate(&self, n: u64) -> Option<(u32, u64)> {
        let lane = self.ends.partition_point(|end| *end <= n);
        let before = lane.checked_sub(1).and_then(|l| self.ends.get(l)).copied().unwrap_or(0);
        let first = self.ranges.get(lane)?.start;
        Some((u32::try_from(lane).ok()?, first + (n - before)))
    }
}

/// What became of one attempt to fill an item.
enum Outcome {
    Filled,
    NoTransition,
    Lapped,
}

impl Sampler {
    pub(crate) fn new(ring: &Ring, options: SamplerOptions) -> Result<Self, SampleError> {
        let (history, future) = (options.history.unwrap_or(1), options.future);
        let rows = u64::from(history) + u64::from(future) + 1;
        if history == 0 || rows > ring.lane_capacity() {
            let limit = ring.lane_capacity();
            return Err(SampleError::BadWindow { history, future, rows, limit });
        }
        Ok(Self {
            slot: ring.store().claim_reader()?,
            ring: ring.clone(),
            options,
            draws: Draws::seeded(options.seed),
            reach: Reach { back: u64::from(history) - 1, ahead: future.into() },
            batches: 0,
            spans: Spans::default(),
            marks: Marks::default(),
            plan: None,
            sampled: 0,
            lapped: 0,
        })
    }

    /// Draws `batch` transitions, with replacement, into new memory.
    pub fn sample(&mut self, batch: usize) -> Result<Batch, SampleError> {
        let plan = self.plan(batch)?;
        let mut drawn = Batch::zeroed(Arc::clone(&plan))?;
        self.sample_into(&plan, &mut drawn.buffers())?;
        Ok(drawn)
    }

    /// Copies the transitions that `index` names into new memory.
    pub fn gather(&mut self, index: &[i64]) -> Result<Batch, SampleError> {
        let plan = self.plan(index.len())?;
        let mut drawn = Batch::zeroed(Arc::clone(&plan))?;
        self.gather_into(index, &plan, &mut drawn.buffers())?;
        Ok(drawn)
    }

    /// The memory that a batch of this size needs. Kept: the next batch of the same size costs
    /// nothing here.
    pub fn plan(&mut self, batch: usize) -> Result<Arc<BatchPlan>, SampleError> {
        if let Some(plan) = self.plan.as_ref().filter(|plan| plan.batch() == batch) {
            return Ok(Arc::clone(plan));
        }
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(SampleError::BadBatchSize { asked: batch, limit: MAX_BATCH });
        }
        let SamplerOptions { history, future, copy, .. } = self.options;
        let plan = BatchPlan::new(self.ring.schema(), batch, history, future, copy);
        Ok(Arc::clone(self.plan.insert(Arc::new(plan))))
    }

    /// Draws into memory of the caller's, one slice per arena of the plan. Never stops a writer;
    /// rows that a writer overwrote meanwhile are drawn again.
    pub fn sample_into(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        check_arenas(plan, arenas)?;
        let lapped_before = self.lapped;
        self.spans.refresh(&self.ring);
        let batch = self.batches;
        (0..PREFETCH.min(plan.batch())).for_each(|item| self.prefetch(batch, item));
        for item in 0..plan.batch() {
            if item + PREFETCH < plan.batch() {
                self.prefetch(batch, item + PREFETCH);
            }
            self.draw_item(plan, arenas, batch, item)?;
        }
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
        check_arenas(plan, arenas)?;
        if index.len() != plan.batch() {
            return Err(SampleError::BadBatchSize { asked: index.len(), limit: plan.batch() });
        }
        self.spans.refresh(&self.ring);
        for (position, index) in index.iter().copied().enumerate() {
            self.gather_item(plan, arenas, position, index)?;
        }
        self.count(plan.batch(), self.lapped);
        Ok(())
    }

    fn gather_item(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        position: usize,
        index: i64,
    ) -> Result<(), SampleError> {
        let (lane, seq) = (RowIndex(index).lane(), RowIndex(index).seq());
        let bad = |reason| SampleError::BadIndex { position, index, lane, seq, reason };
        let mut oldest = 0;
        for _ in 0..GATHER_ATTEMPTS {
            let range = self.spans.ranges.get(lane as usize);
            let range = range.ok_or_else(|| bad("the ring has fewer lanes"))?;
            oldest = range.start;
            if seq >= range.end {
                return Err(bad("the row is not published yet"));
            }
            if seq < range.start {
                break;
            }
            match self.fill_item(plan, arenas, position, lane, seq) {
                Outcome::Filled => return Ok(()),
                Outcome::NoTransition => {
                    return Err(bad(
                        "no transition starts there (a FINAL row, or the last before \
                                    a gap, or its successor is not published yet)",
                    ));
                }
                // Perhaps only rows of the history are gone: with a shorter one it may do.
                Outcome::Lapped => self.spans.refresh(&self.ring),
            }
        }
        Err(SampleError::Lapped { position, index, lane, seq, oldest })
    }

    fn count(&mut self, rows: usize, lapped_before: u64) {
        self.sampled += rows as u64;
        if let Some(slot) = &self.slot {
            slot.count(rows as u64, 1, self.lapped - lapped_before);
        }
    }

    /// Asks for the memory of an item's first draw, while others are still being copied: draws
    /// are random, so every column of every item is a cache miss. The draw is made again, from
    /// the same counter, when its turn comes.
    fn prefetch(&self, batch: u64, item: usize) {
        let Reach { back, ahead } = self.reach;
        let drawn = u32::try_from(item).ok().filter(|_| self.spans.total() > 0);
        let n = drawn.and_then(|item| self.draws.below(self.spans.total(), batch, item, 0));
        let Some((number, seq)) = n.and_then(|n| self.spans.candidate(n)) else { return };
        let Some(lane) = self.ring.store().lane(number) else { return };
        let slot = seq.saturating_sub(back) % lane.slots();
        for column in 0..self.ring.schema().all().len() {
            lane.prefetch(column, slot, back + ahead + 2);
        }
    }

    fn draw_item(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        batch: u64,
        item: usize,
    ) -> Result<(), SampleError> {
        let number = u32::try_from(item).unwrap_or(u32::MAX);
        let mut lapped = false;
        for attempt in 0..MAX_ATTEMPTS {
            let total = self.spans.total();
            if total == 0 {
                break;
            }
            // A draw that does not fit is drawn again, which keeps the others exactly uniform.
            let Some(n) = self.draws.below(total, batch, number, attempt) else { continue };
            let Some((lane, seq)) = self.spans.candidate(n) else { continue };
            match self.fill_item(plan, arenas, item, lane, seq) {
                Outcome::Filled => return Ok(()),
                Outcome::NoTransition => {}
                Outcome::Lapped => {
                    lapped = true;
                    self.lapped += 1;
                    self.spans.refresh(&self.ring);
                }
            }
        }
        if lapped {
            return Err(SampleError::Outrun { attempts: MAX_ATTEMPTS });
        }
        Err(SampleError::Empty { rows: self.spans.ranges.iter().map(|r| r.end).sum() })
    }

    /// Copies the window around a row into item `item`, if a transition starts there and nobody
    /// overwrote it meanwhile.
    fn fill_item(
        &mut self,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        item: usize,
        lane: u32,
        seq: u64,
    ) -> Outcome {
        let (Some(memory), Some(range)) =
            (self.ring.store().lane(lane), self.spans.ranges.get(lane as usize))
        else {
            return Outcome::NoTransition;
        };
        self.marks.read(memory, range, seq, self.reach);
        if !self.marks.seqs_match() {
            return Outcome::Lapped;
        }
        let Some(window) = self.marks.window(seq, self.reach) else {
            // The flags may be those of a newer row.
            let believed = still_whole(&**memory, seq);
            return if believed { Outcome::NoTransition } else { Outcome::Lapped };
        };
        let slot = window.first() % memory.slots();
        let source = Filler {
            lane: memory,
            number: lane,
            head: range.end,
            marks: &self.marks,
            window,
            slot,
        };
        for ((fill, arena), buffer) in plan.fills().iter().zip(plan.arenas()).zip(arenas) {
            let bytes = fill.rows * fill.width;
            if let Some(place) = buffer.get_mut(item * bytes..(item + 1) * bytes) {
                source.fill(fill, arena.dtype(), place);
            }
        }
        if still_whole(&**memory, window.first()) { Outcome::Filled } else { Outcome::Lapped }
    }

    /// Rows returned so far.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.sampled
    }

    /// Draws thrown away so far because a writer overwrote the rows meanwhile.
    #[must_use]
    pub fn lapped(&self) -> u64 {
        self.lapped
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

/// One item's window, on its way into the arenas.
struct Filler<'a> {
    lane: &'a Lane,
    number: u32,
    head: u64,
    marks: &'a Marks,
    window: Window,
    /// Of the window's first row, kept: a division per column costs as much as a small column.
    slot: u64,
}

impl Filler<'_> {
    /// Fills the places that have a row and zeroes the others.
    fn fill(&self, fill: &Fill, dtype: DType, place: &mut [u8]) {
        let Window { seq, back, ahead } = self.window;
        let last = fill.first + signed(fill.rows as u64) - 1;
        let from = (fill.shift.0 - signed(back)).max(fill.first);
        let to = (fill.shift.1 + signed(ahead)).min(last);
        let width = fill.width;
        let before = usize::try_from(from - fill.first).unwrap_or(0).min(fill.rows) * width;
        let rows = u64::try_from(to - from + 1).unwrap_or(0);
        let (zeros, rest) = place.split_at_mut(before);
        zeros.fill(0);
        let there = usize::try_from(rows).unwrap_or(0) * width;
        let (filled, zeros) = rest.split_at_mut(there.min(rest.len()));
        zeros.fill(0);
        if rows == 0 {
            return;
        }
        let first = seq.wrapping_add_signed(from);
        match fill.source {
            Source::Column(at) => {
                let slots = self.lane.slots();
                let slot = self.slot + (first - self.window.first());
                let slot = if slot < slots { slot } else { slot - slots };
                self.lane.copy_out(at, slot, rows, filled);
                clean_bools(dtype, filled);
            }
            Source::Flag(flag) => {
                for (byte, row) in filled.iter_mut().zip(first..) {
                    let set = self.marks.flags(row).is_some_and(|flags| flags & flag != 0);
                    *byte = u8::from(set);
                }
            }
            Source::Mask => filled.fill(1),
            Source::Index => {
                filled.copy_from_slice(&RowIndex::new(self.number, seq).0.to_ne_bytes());
            }
            Source::Age => {
                filled.copy_from_slice(&self.head.saturating_sub(seq + 1).to_ne_bytes());
            }
        }
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
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
