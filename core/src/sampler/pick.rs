//! Which rows a batch looks at first: its draws, where their windows are, and their marks on the way.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::Words;
use backcast_layout::{Lane, Run};

use super::job::{Job, Wanted};
use super::{BLIND, Sampler};
use crate::block::{Item, MOST};
use crate::draw::TOGETHER;
use crate::index::RowIndex;
use crate::mark::{FoundMark, Mark, MarkFinder};
use crate::spans::Span;
use crate::window::Reach;

const PICKS: usize = 2 * MOST;
/// Of no lane.
pub(super) const NO_DRAW: (usize, u64) = (usize::MAX, 0);

/// A row that an attempt drew for an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) attempt: u32,
    pub(super) lane: u32,
    pub(super) seq: u64,
}

impl Drawn {
    /// The first that was drawn for an item.
    pub(super) fn first(index: RowIndex) -> Self {
        Self { attempt: 0, lane: index.lane(), seq: index.seq() }
    }
}

/// The first draw of an item that may fit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick<'a> {
    /// Its window cannot be read whole.
    Row(Drawn),
    /// What a batch has of it if nothing happens in its window, and the mark of the window's last row.
    Window(Item<'a>, FoundMark<'a>),
}

impl Default for Pick<'_> {
    /// None fits: one of no lane.
    fn default() -> Self {
        Self::Row(Drawn { attempt: 0, lane: u32::MAX, seq: 0 })
    }
}

/// Where windows are looked for: so many rows before the drawn one, and so many after it.
#[derive(Clone, Copy, Debug)]
struct Reached<'a> {
    back: u64,
    ahead: u64,
    /// In the first lane, with which most share the list of their columns.
    marks: Option<MarkFinder<'a>>,
}

impl<'a> Reached<'a> {
    fn of(reach: Reach, lanes: &'a [Arc<Lane>]) -> Self {
        let (back, ahead) = (reach.back, reach.after_first() - reach.back);
        Self { back, ahead, marks: lanes.first().map(|lane| Mark::finder(lane)) }
    }

    /// The readable row of a lane which so many are older than, if its window is a run of rows.
    #[inline]
    fn pick(&self, lane: &'a Lane, span: &Span, older: u64, attempt: u32) -> Option<Pick<'a>> {
        let (index, age) = (span.index_of(older), span.newer(older));
        if older < self.back || age < self.ahead {
            return None;
        }
        let slot = span.slot_of(older - self.back, lane.slots());
        let run = Run::of(lane, slot, self.back + self.ahead + 1);
        let mark = self.marks.as_ref()?.last(&run)?;
        // Many are asked for before the first is read.
        mark.ask_at_once();
        Some(Pick::Window(Item { run, index, age, attempt }, mark))
    }

    /// The same where it is none, or its lane has a list of its own.
    #[cold]
    fn pick_otherwise(&self, lane: &'a Lane, span: &Span, older: u64, attempt: u32) -> Pick<'a> {
        let (index, age) = (span.index_of(older), span.newer(older));
        let row = Pick::Row(Drawn { attempt, lane: index.lane(), seq: index.seq() });
        if older < self.back || age < self.ahead {
            return row;
        }
        let slot = span.slot_of(older - self.back, lane.slots());
        let run = Run::of(lane, slot, self.back + self.ahead + 1);
        let last = lane.slot_after(slot, self.back + self.ahead);
        let mark = Mark::finder(lane).last(&Run::of(lane, last, 1));
        mark.map_or(row, |mark| Pick::Window(Item { run, index, age, attempt }, mark))
    }
}

/// An item's number, as draws count.
pub(super) fn number(item: usize) -> u32 {
    u32::try_from(item).unwrap_or(u32::MAX)
}

/// The picks of two blocks, by item number.
pub(super) struct Picks<'a> {
    picks: [Pick<'a>; PICKS],
    reached: Reached<'a>,
}

impl<'a> Picks<'a> {
    /// None yet, of windows that reach so far.
    pub(super) fn new(reach: Reach, lanes: &'a [Arc<Lane>]) -> Self {
        Self { picks: [Pick::default(); PICKS], reached: Reached::of(reach, lanes) }
    }

    #[inline]
    pub(super) fn of(&self, item: usize) -> &Pick<'a> {
        &self.picks[item % PICKS]
    }

    #[inline]
    fn place(&mut self, item: usize) -> &mut Pick<'a> {
        &mut self.picks[item % PICKS]
    }
}

impl Sampler {
    /// Draws some items for the first time, and asks for the memory of their marks.
    pub(super) fn draw<'a>(&mut self, job: Job<'a>, items: Range<usize>, picks: &mut Picks<'a>) {
        if let Wanted::Draws(batch) = job.wanted
            && !self.indexed
        {
            return self.draw_blind(job.lanes, batch, items, picks);
        }
        for item in items {
            let drawn = match job.wanted {
                Wanted::Draws(batch) => self.pick_indexed(batch, number(item)),
                Wanted::Rows(index) => index.get(item).map(|index| {
                    let index = RowIndex(*index);
                    Drawn { attempt: 0, lane: index.lane(), seq: index.seq() }
                }),
            };
            let pick = drawn.map_or_else(Pick::default, |drawn| {
                let Drawn { attempt, lane, seq } = drawn;
                let (lane, span) = (job.lanes.get(lane as usize), self.spans.get(lane as usize));
                match (lane, span) {
                    (Some(lane), Some(span)) if span.rows().contains(&seq) => {
                        let older = seq - span.rows().start;
                        let found = picks.reached.pick(lane, span, older, attempt);
                        found.unwrap_or_else(|| {
                            picks.reached.pick_otherwise(lane, span, older, attempt)
                        })
                    }
                    _ => Pick::Row(drawn),
                }
            });
            *picks.place(item) = pick;
        }
    }

    /// The first draws, as they come.
    fn draw_blind<'a>(
        &mut self,
        lanes: &'a [Arc<Lane>],
        batch: u64,
        items: Range<usize>,
        picks: &mut Picks<'a>,
    ) {
        // Two short loops need fewer registers than a long one.
        let mut drawn = [NO_DRAW; MOST];
        self.first_draws(batch, items.clone(), &mut drawn);
        let spans = &self.spans;
        let reached = picks.reached;
        for (item, (number, older)) in items.zip(&drawn) {
            let place = picks.place(item);
            let (Some(lane), Some(span)) = (lanes.get(*number), spans.get(*number)) else {
                *place = Pick::default();
                continue;
            };
            if let Some(pick) = reached.pick(lane, span, *older, 0) {
                *place = pick;
            } else {
                *place = reached.pick_otherwise(lane, span, *older, 0);
            }
        }
    }

    /// Makes the first draws of some items: a lane, and how many of its readable rows are older; no lane for a draw that has to
    /// be made again.
    #[inline]
    pub(super) fn first_draws(
        &mut self,
        batch: u64,
        items: Range<usize>,
        drawn: &mut [(usize, u64); MOST],
    ) {
        // Nothing but the draws changes meanwhile, which a loop over `pick` could not know.
        let Self { draws, spans, .. } = self;
        let total = spans.total();
        let numbers = number(items.start)..number(items.end);
        let mut first = draws.first_of(batch, numbers.start);
        for (drawn, number) in drawn.iter_mut().zip(numbers) {
            if number.is_multiple_of(TOGETHER) {
                first = draws.first_of(batch, number);
            }
            let found = first.below(total, number).and_then(|n| spans.find(n));
            *drawn = found.unwrap_or(NO_DRAW);
        }
    }

    /// What an attempt draws for an item, if it fits. The index, once it is there, says at once what a
    /// look at the row would say.
    #[inline]
    pub(super) fn pick(&mut self, batch: u64, item: u32, attempt: u32) -> Option<Drawn> {
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
}
