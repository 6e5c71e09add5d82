//! A batch on its way: drawn, looked at, copied and validated, block by block.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{FoundRow, Lane, Lanes};

use super::{BLIND, Sampler};
use crate::block::{Block, Detail, Item, MOST};
use crate::error::SampleError;
use crate::fill::Filler;
use crate::index::RowIndex;
use crate::mark::{FoundMark, Mark};
use crate::plan::BatchPlan;
use crate::reader::MOVES;
use crate::sampler_options::Boundary;
use crate::spans::Spans;
use crate::window::{Marks, Window};

/// Draws for one item are given up after so many: writers overwrite each of them.
const MAX_ATTEMPTS: u32 = 10_000;
/// A gather of one row is given up after the writer has lapped it so many times.
const GATHER_ATTEMPTS: u32 = 64;
/// Draws that are kept: two blocks' worth.
const PICKS: usize = 2 * MOST;

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
pub(super) enum Wanted<'a> {
    /// The draws of the batch of this number.
    Draws(u64),
    Rows(&'a [i64]),
}

/// A row that an attempt drew for an item.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    attempt: u32,
    lane: u32,
    seq: u64,
}

/// The first draw of an item that may fit.
#[derive(Clone, Copy, Debug)]
struct Pick<'a> {
    drawn: Drawn,
    /// `None` where not all of its window can be read.
    window: Option<Picked<'a>>,
}

/// Where the window of a draw is, if nothing happens in it.
#[derive(Clone, Copy, Debug)]
struct Picked<'a> {
    lane: &'a Lane,
    /// Of the window's first row.
    slot: u64,
    /// Rows published after the drawn one.
    age: u64,
    /// Of its first and its last row.
    marks: [FoundMark<'a>; 2],
}

impl<'a> Pick<'a> {
    /// A drawn row; its window begins `back` rows before it, and ends `after` rows after that.
    #[inline]
    fn of(drawn: Drawn, lanes: &'a [Arc<Lane>], spans: &Spans, back: u64, after: u64) -> Self {
        let window = || {
            let (lane, span) = (&**lanes.get(drawn.lane as usize)?, spans.get(drawn.lane)?);
            let first = drawn.seq.checked_sub(back)?;
            let newer = span.rows().end.checked_sub(first + after + 1)?;
            let slot = span.slot(first, lane.slots())?;
            let marks = [Mark::find(lane, slot)?, Mark::find(lane, lane.slot_after(slot, after))?];
            Some(Picked { lane, slot, age: newer + after - back, marks })
        };
        Self { drawn, window: window() }
    }
}

/// An item's number, as draws count.
fn number(item: usize) -> u32 {
    u32::try_from(item).unwrap_or(u32::MAX)
}

/// By item number, modulo their count: two blocks ahead at most.
type Picks<'a> = [Option<Pick<'a>>; PICKS];

/// Why a batch is not made.
enum Stopped {
    /// Lanes are elsewhere now: the batch begins anew.
    Moved,
    Failed(SampleError),
}

impl From<SampleError> for Stopped {
    fn from(error: SampleError) -> Self {
        Self::Failed(error)
    }
}

/// A batch on its way: what does not change while it is made.
#[derive(Clone, Copy)]
struct Job<'a> {
    wanted: Wanted<'a>,
    lanes: &'a [Arc<Lane>],
    /// Where these are.
    mapped: &'a Arc<Lanes>,
    filler: Filler<'a>,
}

impl Sampler {
    /// Fills a batch. How many draws it took.
    pub(super) fn fill(
        &mut self,
        wanted: Wanted<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, SampleError> {
        for _ in 0..MOVES {
            match self.fill_blocks(wanted, plan, arenas) {
                Ok(attempts) => return Ok(attempts),
                // What was drawn stays drawn: which rows a batch has does not depend on where they are.
                Err(Stopped::Moved) => {}
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
        // A peer says again and again that lanes moved.
        Err(SampleError::Outrun { attempts: MAX_ATTEMPTS })
    }

    /// The same, block by block, from the memory that the lanes have now.
    fn fill_blocks(
        &mut self,
        wanted: Wanted<'_>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, Stopped> {
        let lanes = Arc::clone(&self.lanes);
        let (reach, size, batch) = (self.reach, Block::size(plan.row_bytes()), plan.batch());
        let filler = Filler { plan, gamma: self.options.gamma.unwrap_or(0.0) };
        let job = Job { wanted, lanes: &lanes, mapped: &lanes, filler };
        let span = |number: usize| (number * size).min(batch)..((number + 1) * size).min(batch);
        // Put back at the end: after an error they are made anew.
        let scratch = mem::take(&mut self.scratch);
        let mut blocks = scratch.map(|memory| Block::over(memory, size, reach, plan.stretches()));
        let [mut now, mut next] = blocks.each_mut();
        let (mut picks, mut attempts) = ([None; PICKS], 0);
        self.draw(job, span(0), &mut picks);
        self.draw(job, span(1), &mut picks);
        self.look_at(job, span(0), &picks, now)?;
        now.find(plan.stretches());
        now.ask_for_long();
        for number in 0..batch.div_ceil(size) {
            self.draw(job, span(number + 2), &mut picks);
            self.look_at(job, span(number + 1), &picks, next)?;
            next.find(plan.stretches());
            filler.fill(now, Some(next), arenas);
            for (i, item) in now.items().iter().enumerate() {
                let mut attempt = item.attempt;
                if !still_whole(item.lane, now.first_row(i, item)) {
                    attempt = self.fill_again(job, now.first() + i, attempt, arenas)?;
                }
                attempts += u64::from(attempt) + 1;
            }
            mem::swap(&mut now, &mut next);
        }
        self.scratch = blocks.map(Block::into_memory);
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
    ) -> Result<u32, Stopped> {
        let mut again = Block::over(Vec::new(), 1, self.reach, job.filler.plan.stretches());
        loop {
            self.note_lap(job)?;
            again.begin(item);
            self.look(job, item, attempt + 1, &mut again)?;
            again.find(job.filler.plan.stretches());
            job.filler.fill(&again, None, arenas);
            let Some(found) = again.items().first() else { return Ok(attempt) };
            attempt = found.attempt;
            if still_whole(found.lane, again.first_row(0, found)) {
                return Ok(attempt);
            }
        }
    }

    /// A writer came by: looks at what there is now.
    fn note_lap(&mut self, job: Job<'_>) -> Result<(), Stopped> {
        match job.wanted {
            Wanted::Draws(_) => self.refresh(),
            // Perhaps only rows of the history are gone: with a shorter one it may do.
            Wanted::Rows(_) => self.lanes = self.spans.refresh(&self.ring),
        }
        if !Arc::ptr_eq(&self.lanes, job.mapped) {
            return Err(Stopped::Moved);
        }
        if let Wanted::Draws(_) = job.wanted {
            self.counters.lapped.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Draws some items for the first time, and asks for the memory of their marks.
    fn draw<'a>(&mut self, job: Job<'a>, items: Range<usize>, picks: &mut Picks<'a>) {
        let after = self.reach.most_rows() as u64 - 1;
        match job.wanted {
            Wanted::Draws(batch) if !self.indexed => {
                // Nothing but the draws changes meanwhile, which a loop over `pick` could not know.
                let Self { draws, spans, reach, .. } = self;
                for (item, number) in items.clone().zip(number(items.start)..) {
                    let n = draws.first_below(spans.total(), batch, number);
                    let row = n.and_then(|n| spans.candidate(n));
                    let drawn = row.map(|(lane, seq)| Drawn { attempt: 0, lane, seq });
                    let pick =
                        drawn.map(|drawn| Pick::of(drawn, job.lanes, spans, reach.back, after));
                    picks[item % PICKS] = pick;
                }
            }
            wanted => {
                for item in items.clone() {
                    let drawn = match wanted {
                        Wanted::Draws(batch) => self.pick_indexed(batch, number(item)),
                        Wanted::Rows(index) => index.get(item).map(|index| {
                            let index = RowIndex(*index);
                            Drawn { attempt: 0, lane: index.lane(), seq: index.seq() }
                        }),
                    };
                    let (spans, back) = (&self.spans, self.reach.back);
                    let pick = drawn.map(|drawn| Pick::of(drawn, job.lanes, spans, back, after));
                    picks[item % PICKS] = pick;
                }
            }
        }
        // Close together, so that the processor waits for many at once.
        for item in items {
            if let Some(Pick { window: Some(window), .. }) = &picks[item % PICKS] {
                window.marks.into_iter().for_each(FoundRow::ask_at_once);
            }
        }
    }

    /// Looks at the first rows of some items that fit.
    fn look_at<'a>(
        &mut self,
        job: Job<'a>,
        items: Range<usize>,
        picks: &Picks<'a>,
        block: &mut Block<'a>,
    ) -> Result<(), Stopped> {
        block.begin(items.start);
        let after = self.reach.most_rows() as u64 - 1;
        for item in items {
            let pick = &picks[item % PICKS];
            if let Some(pick) = pick
                && (self.look_at_pick(pick, after, block)
                    || matches!(self.look_at_row(job.lanes, pick.drawn, block), Look::Found))
            {
                continue;
            }
            // Earlier attempts do not fit, as the index says.
            let attempt = pick.as_ref().map_or(0, |pick| pick.drawn.attempt);
            self.look(job, item, attempt, block)?;
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
    ) -> Result<(), Stopped> {
        match job.wanted {
            Wanted::Draws(batch) => self.look_for_draw(job, (batch, item), attempt, block),
            Wanted::Rows(index) => {
                let index = index.get(item).copied().unwrap_or(RowIndex::NONE.0);
                self.look_for_row(job, (index, item), attempt, block)
            }
        }
    }

    fn look_for_draw<'a>(
        &mut self,
        job: Job<'a>,
        (batch, item): (u64, usize),
        first: u32,
        block: &mut Block<'a>,
    ) -> Result<(), Stopped> {
        let number = number(item);
        for attempt in first..MAX_ATTEMPTS {
            if attempt == BLIND && !self.indexed {
                self.indexed = true;
                if !self.starts.refresh(job.mapped, &self.spans) {
                    self.refresh();
                    return Err(Stopped::Moved);
                }
            }
            if self.spans.total() == 0 || (attempt >= BLIND && self.starts.total() == 0) {
                return Err(self.nothing().into());
            }
            let Some(drawn) = self.pick(batch, number, attempt) else { continue };
            match self.look_at_row(job.lanes, drawn, block) {
                Look::Found => return Ok(()),
                Look::NoTransition | Look::Cut => {}
                Look::Lapped => self.note_lap(job)?,
            }
        }
        Err(SampleError::Outrun { attempts: MAX_ATTEMPTS }.into())
    }

    fn look_for_row<'a>(
        &mut self,
        job: Job<'a>,
        (index, position): (i64, usize),
        first: u32,
        block: &mut Block<'a>,
    ) -> Result<(), Stopped> {
        let (lane, seq) = (RowIndex(index).lane(), RowIndex(index).seq());
        let bad =
            |reason| Stopped::Failed(SampleError::BadIndex { position, index, lane, seq, reason });
        let mut oldest = 0;
        for attempt in first..GATHER_ATTEMPTS {
            let span = self.spans.get(lane).ok_or_else(|| bad("the ring has fewer lanes"))?;
            let range = span.rows();
            oldest = range.start;
            if seq >= range.end {
                return Err(bad("the row is not published yet"));
            }
            if seq < range.start {
                break;
            }
            match self.look_at_row(job.lanes, Drawn { attempt, lane, seq }, block) {
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
                Look::Lapped => self.note_lap(job)?,
            }
        }
        Err(SampleError::Lapped { position, index, lane, seq, oldest }.into())
    }

    /// What an attempt draws for an item, if it fits. The index, once it is there, says at once what a
    /// look at the row would say.
    #[expect(clippy::inline_always, reason = "most are the first attempt of a blind draw")]
    #[inline(always)]
    fn pick(&mut self, batch: u64, item: u32, attempt: u32) -> Option<Drawn> {
        let blind = attempt < BLIND;
        let total = if blind { self.spans.total() } else { self.starts.total() };
        if total == 0 {
            return None;
        }
        // A draw that does not fit is drawn again, which keeps the others exactly uniform.
        let n = match attempt {
            0 => self.draws.first_below(total, batch, item)?,
            _ => self.draws.below(total, batch, item, attempt)?,
        };
        let (lane, seq) = if blind { self.spans.candidate(n)? } else { self.starts.nth(n)? };
        let fits = !blind || !self.indexed || self.starts.contains(lane, seq);
        fits.then_some(Drawn { attempt, lane, seq })
    }

    /// The first draw of an item that fits, as the index says.
    #[inline(never)]
    fn pick_indexed(&mut self, batch: u64, item: u32) -> Option<Drawn> {
        (0..=BLIND).find_map(|attempt| self.pick(batch, item, attempt))
    }

    /// Enters a drawn row into the block if nothing happens in its window, as in most. `false`: it is to be
    /// looked at once more.
    #[inline]
    fn look_at_pick<'a>(&self, pick: &Pick<'a>, after: u64, block: &mut Block<'a>) -> bool {
        let Pick { drawn: Drawn { attempt, lane: number, seq }, window: Some(window) } = pick
        else {
            return false;
        };
        let Picked { lane, slot, age, marks } = *window;
        let [first, last] = marks.map(Mark::of);
        // A writer that came by meanwhile left other rows there.
        let quiet = Window::is_quiet(&first, &last, seq - self.reach.back, after);
        if quiet {
            let (index, attempt) = (RowIndex::new(*number, *seq), *attempt);
            block.push(Item { lane, slot, index, age, attempt });
        }
        quiet
    }

    /// Reads the marks around a row, and enters it into the block if a transition starts there.
    #[inline]
    fn look_at_row<'a>(&self, lanes: &'a [Arc<Lane>], drawn: Drawn, block: &mut Block<'a>) -> Look {
        let Drawn { attempt, lane: number, seq } = drawn;
        let (Some(lane), Some(span)) = (lanes.get(number as usize), self.spans.get(number)) else {
            return Look::NoTransition;
        };
        let (lane, range) = (&**lane, span.rows());
        // The index was made of earlier ranges; it holds no other rows unless a peer lied.
        if !range.contains(&seq) {
            return Look::Lapped;
        }
        let rows = self.reach.rows(seq, range);
        let Some(slot) = span.slot(rows.start, lane.slots()) else { return Look::Lapped };
        let (index, age) = (RowIndex::new(number, seq), range.end - seq - 1);
        self.look_closely(Item { lane, slot, index, age, attempt }, rows, block)
    }

    /// Reads the marks of some rows, and enters the item into the block if a transition starts there.
    fn look_closely<'a>(
        &self,
        mut item: Item<'a>,
        rows: Range<u64>,
        block: &mut Block<'a>,
    ) -> Look {
        let (lane, seq, first) = (item.lane, item.index.seq(), rows.start);
        let room = block.room(usize::try_from(rows.end - first).unwrap_or(0));
        Mark::read_into(lane, item.slot, room);
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
        let detail = Detail {
            window,
            flags: marks.flags(seq).unwrap_or(0),
            all_flags,
            whole: window.is_whole(self.reach),
            missing: self.reach.back - window.back,
            marks: (first, marks.rows.len()),
        };
        item.slot = lane.slot_after(item.slot, window.first() - first);
        block.push_detailed(item, detail);
        Look::Found
    }

    /// Whether the boundary lets this window be drawn.
    fn suits(&self, window: Window) -> bool {
        self.options.boundary != Boundary::Reject || window.is_whole(self.reach)
    }
}
