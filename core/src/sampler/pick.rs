//! Which rows a batch looks at first: its draws, where their windows are, and their marks on the way.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::Words;
use backcast_layout::{FoundRow, Lane};

use super::job::{Job, Wanted};
use super::{BLIND, Sampler};
use crate::block::MOST;
use crate::index::RowIndex;
use crate::mark::{FoundMark, Mark};
use crate::spans::Spans;

const PICKS: usize = 2 * MOST;

/// A row that an attempt drew for an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) attempt: u32,
    pub(super) lane: u32,
    pub(super) seq: u64,
}

/// The first draw of an item that may fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick<'a> {
    pub(super) drawn: Drawn,
    /// `None` where not all of its window can be read.
    pub(super) window: Option<Place<'a>>,
}

/// Where the window of a draw is, if nothing happens in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) lane: &'a Lane,
    /// Of the window's first row.
    pub(super) slot: u64,
    /// Rows published after the drawn one.
    pub(super) age: u64,
    /// Of its first and its last row.
    pub(super) marks: [FoundMark<'a>; 2],
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
            Some(Place { lane, slot, age: newer + after - back, marks })
        };
        Self { drawn, window: window() }
    }
}

/// An item's number, as draws count.
pub(super) fn number(item: usize) -> u32 {
    u32::try_from(item).unwrap_or(u32::MAX)
}

/// The picks of two blocks, by item number.
#[derive(Default)]
pub(super) struct Picks<'a>([Option<Pick<'a>>; PICKS]);

impl<'a> Picks<'a> {
    #[inline]
    pub(super) fn of(&self, item: usize) -> Option<&Pick<'a>> {
        self.0[item % PICKS].as_ref()
    }

    #[inline]
    fn keep(&mut self, item: usize, pick: Option<Pick<'a>>) {
        self.0[item % PICKS] = pick;
    }
}

impl Sampler {
    /// Draws some items for the first time, and asks for the memory of their marks.
    pub(super) fn draw<'a>(&mut self, job: Job<'a>, items: Range<usize>, picks: &mut Picks<'a>) {
        let (back, after) = (self.reach.back, self.reach.after_first());
        let place = |spans: &Spans, drawn| Pick::of(drawn, job.lanes, spans, back, after);
        match job.wanted {
            Wanted::Draws(batch) if !self.indexed => {
                // Nothing but the draws changes meanwhile, which a loop over `pick` could not know.
                let Self { draws, spans, .. } = self;
                for (item, number) in items.clone().zip(number(items.start)..) {
                    let n = draws.first_below(spans.total(), batch, number);
                    let row = n.and_then(|n| spans.candidate(n));
                    let drawn = row.map(|(lane, seq)| Drawn { attempt: 0, lane, seq });
                    picks.keep(item, drawn.map(|drawn| place(spans, drawn)));
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
                    picks.keep(item, drawn.map(|drawn| place(&self.spans, drawn)));
                }
            }
        }
        // Close together, so that the processor waits for many at once.
        for item in items {
            if let Some(Pick { window: Some(window), .. }) = picks.of(item) {
                window.marks.into_iter().for_each(FoundRow::ask_at_once);
            }
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
