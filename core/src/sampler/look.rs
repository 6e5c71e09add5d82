//! What drawn rows say of themselves: which of them a batch takes, and what happens in their windows.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Lane, Run};

use super::job::{Job, MAX_ATTEMPTS, Stopped, Wanted};
use super::pick::{Drawn, Pick, Picks, number};
use super::{BLIND, Sampler};
use crate::block::{Block, Detail, Item};
use crate::episode::FINAL;
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::mark::{FoundMark, Mark};
use crate::sampler_options::Boundary;
use crate::window::{Marks, Window};

/// A gather of one row is given up after the writer has lapped it so many times.
const GATHER_ATTEMPTS: u32 = 64;

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

/// Why a transition's window may not be drawn.
fn why_cut(boundary: Boundary) -> &'static str {
    match boundary {
        Boundary::Clamp => {
            "the beginning of its history was overwritten, and boundary=\"clamp\" repeats the first \
             observation of an episode, not one from its middle"
        }
        _ => "its window does not lie whole in its episode, as boundary=\"reject\" asks",
    }
}

impl Sampler {
    /// Looks at the first rows of some items that fit.
    pub(super) fn look_at<'a>(
        &mut self,
        job: Job<'a>,
        items: Range<usize>,
        picks: &Picks<'a>,
        block: &mut Block<'a>,
    ) -> Result<(), Stopped> {
        block.begin(items.start);
        let after = self.reach.after_first();
        for item in items {
            let drawn = match picks.of(item) {
                Pick::Window(found, mark) if self.is_quiet(found.index, *mark, after) => {
                    block.push(*found);
                    continue;
                }
                Pick::Window(Item { index, attempt, .. }, _) => {
                    Drawn { attempt: *attempt, lane: index.lane(), seq: index.seq() }
                }
                Pick::Row(drawn) => *drawn,
            };
            self.look_from(job, item, drawn, block)?;
        }
        Ok(())
    }

    /// Enters an item into a block: what was drawn for it, if that fits, or the first later draw that does.
    pub(super) fn look_from<'a>(
        &mut self,
        job: Job<'a>,
        item: usize,
        drawn: Drawn,
        block: &mut Block<'a>,
    ) -> Result<(), Stopped> {
        // Earlier attempts do not fit, as the index says.
        let next = match self.look_at_row(job.lanes, drawn, block) {
            Look::Found => return Ok(()),
            Look::NoTransition | Look::Cut => drawn.attempt + 1,
            Look::Lapped => drawn.attempt,
        };
        self.look(job, item, next, block)
    }

    /// Enters an item into a block: the first of its draws, from `attempt` on, that fits.
    #[cold]
    pub(super) fn look<'a>(
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
        if RowIndex(index) == RowIndex::NONE {
            return Err(bad("-1 stands for a row that was dropped because a lease was in the way"));
        }
        let mut oldest = 0;
        for attempt in first..GATHER_ATTEMPTS {
            let span =
                self.spans.get(lane as usize).ok_or_else(|| bad("the ring has fewer lanes"))?;
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
                Look::NoTransition => return Err(bad(self.why_none(job.lanes, lane, seq))),
                Look::Cut => return Err(bad(why_cut(self.options.boundary))),
                Look::Lapped => self.note_lap(job)?,
            }
        }
        Err(SampleError::Lapped { position, index, lane, seq, oldest }.into())
    }

    /// Whether the mark of the last row of a drawn row's window, so many after the first, says that nothing happens in
    /// it, as in most.
    #[inline]
    fn is_quiet(&self, index: RowIndex, mark: FoundMark<'_>, after: u64) -> bool {
        // A writer that came by meanwhile left another row there.
        Window::is_quiet(&Mark::of(mark), index.seq() + (after - self.reach.back), after)
    }

    /// Reads the marks around a row, and enters it into the block if a transition starts there.
    #[inline]
    fn look_at_row<'a>(&self, lanes: &'a [Arc<Lane>], drawn: Drawn, block: &mut Block<'a>) -> Look {
        let Drawn { attempt, lane: number, seq } = drawn;
        let (Some(lane), Some(span)) =
            (lanes.get(number as usize), self.spans.get(number as usize))
        else {
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
        self.look_closely(Item { run: Run::of(lane, slot, 0), index, age, attempt }, rows, block)
    }

    /// Reads the marks of some rows, and enters the item into the block if a transition starts there.
    fn look_closely<'a>(
        &self,
        mut item: Item<'a>,
        rows: Range<u64>,
        block: &mut Block<'a>,
    ) -> Look {
        let (lane, slot, seq, first) =
            (item.run.lane(), item.run.slot(), item.index.seq(), rows.start);
        let room = block.room(usize::try_from(rows.end - first).unwrap_or(0));
        Mark::read_into(lane, slot, room);
        let marks = Marks { first, rows: room };
        let (ours, all_flags) = marks.look();
        if !ours {
            return Look::Lapped;
        }
        let window = match marks.window(seq, self.reach, all_flags) {
            Some(window) if self.suits(window, marks) => window,
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
        // Of a window that is cut short not all rows are there.
        let rows = if detail.whole { self.reach.after_first() + 1 } else { 0 };
        item.run = Run::of(lane, lane.slot_after(slot, window.first() - first), rows);
        block.push_detailed(item, detail);
        Look::Found
    }

    /// Whether the boundary lets this window be drawn.
    fn suits(&self, window: Window, marks: Marks<'_>) -> bool {
        match self.options.boundary {
            Boundary::Mask => true,
            Boundary::Reject => window.is_whole(self.reach),
            // A row in mid-episode is not the first one because those before it were overwritten.
            Boundary::Clamp => marks.has_history(window, self.reach.back),
        }
    }

    /// Why a row that can be read is not a transition.
    fn why_none(&self, lanes: &[Arc<Lane>], lane: u32, seq: u64) -> &'static str {
        let mut mark = [Mark::default()];
        if let Some(lane) = lanes.get(lane as usize) {
            Mark::read_into(&**lane, seq % lane.slots(), &mut mark);
        }
        if mark.iter().any(|mark| mark.flags & FINAL != 0) {
            return "it is a FINAL row, which holds the last observation of an episode";
        }
        if self.spans.get(lane as usize).is_some_and(|span| seq + 1 >= span.rows().end) {
            return "it is the newest row of its lane, and becomes a transition when the row after it \
                    is appended";
        }
        "its episode was broken off there (the row after it is a GAP), so it has no successor"
    }
}
