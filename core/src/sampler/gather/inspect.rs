//! Inspection of irregular items: reads the headers around a row, and draws again if no transition
//! starts there.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Lane, Lanes};

use super::finder::RowFinder;
use super::request::{BatchRequest, MAX_ATTEMPTS, Stopped};
use crate::error::SampleError;
use crate::index::RowIndex;
use crate::row_flags::FINAL;
use crate::row_header::RowHeader;
use crate::sampler::boundary::Boundary;
use crate::sampler::eligibility::{Candidate, MAX_REJECTIONS};
use crate::sampler::plan::ColumnSegment;
use crate::sampler::selection::ATTEMPTS_A_LOOK;
use crate::sampler::window::{RowHeaders, Window};

/// Maximum attempts to copy a named row that the writer overwrites meanwhile.
const GATHER_ATTEMPTS: u32 = 64;

/// An item that was inspected, and is copied on its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct IrregularItem<'a> {
    /// Number in the batch.
    pub(super) item: usize,
    pub(super) lane: &'a Lane,
    /// Slot of the window's first row.
    pub(super) slot: u64,
    pub(super) index: RowIndex,
    /// Rows that had been published after the drawn row when it was drawn.
    pub(super) age: u64,
    /// The attempt that drew the row, counted from 0.
    pub(super) attempt: u32,
    pub(super) window: Window,
    /// Flags of the drawn row, and of all inspected rows together.
    pub(super) flags: u32,
    pub(super) all_flags: u32,
    /// First row whose header was copied, and position and number of its headers in the list's
    /// memory.
    first_header: u64,
    headers: (usize, usize),
}

impl IrregularItem<'_> {
    /// Returns the slot of the window's row `rows` after its first.
    pub(super) fn slot_after(&self, rows: u64) -> u64 {
        self.lane.slot_after(self.slot, rows)
    }

    /// Returns whether no writer has overwritten the rows of the item.
    pub(super) fn is_whole(&self) -> bool {
        still_whole(self.lane, self.window.first())
    }

    /// Prefetches the rows of the item.
    pub(super) fn prefetch(&self, segments: &[ColumnSegment]) {
        for segment in segments {
            let bytes = usize::try_from(segment.rows).unwrap_or(0).saturating_mul(segment.width);
            let rows = segment.lead.min(self.window.back + self.window.run);
            self.lane.prefetch_address(segment.column, self.slot_after(rows)).prefetch(bytes);
        }
    }
}

/// Items that were inspected, and the headers of their rows.
#[derive(Debug)]
pub(super) struct IrregularItems<'a> {
    items: Vec<IrregularItem<'a>>,
    headers: &'a mut Vec<RowHeader>,
    /// Headers in use.
    used: usize,
}

impl<'a> IrregularItems<'a> {
    /// Returns an empty list, whose headers are copied to memory that outlives it.
    pub(super) fn over(headers: &'a mut Vec<RowHeader>) -> Self {
        Self { items: Vec::new(), headers, used: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.used = 0;
    }

    pub(super) fn items(&self) -> &[IrregularItem<'a>] {
        &self.items
    }

    pub(super) fn last(&self) -> Option<&IrregularItem<'a>> {
        self.items.last()
    }

    /// Returns the headers of an item's rows.
    pub(super) fn headers_of(&self, item: &IrregularItem<'_>) -> RowHeaders<'_> {
        let (at, count) = item.headers;
        let rows = self.headers.get(at..at + count).unwrap_or_default();
        RowHeaders { first: item.first_header, rows }
    }

    /// Returns memory for the headers of the next item.
    fn room(&mut self, rows: usize, batch: usize) -> Result<&mut [RowHeader], SampleError> {
        let end = self.used.saturating_add(rows);
        let more = end.saturating_sub(self.headers.len());
        if self.headers.try_reserve(more).is_err() {
            let bytes = end.saturating_mul(size_of::<RowHeader>());
            return Err(SampleError::TooLarge { batch, bytes });
        }
        if more > 0 {
            self.headers.resize(end, RowHeader::default());
        }
        Ok(self.headers.get_mut(self.used..end).unwrap_or_default())
    }

    /// Adds an item, whose headers were read into [`room`](Self::room).
    fn push(&mut self, item: IrregularItem<'a>) {
        self.used += item.headers.1;
        self.items.push(item);
    }
}

/// Outcome of the inspection of a row.
#[derive(Clone, Copy)]
enum Inspection {
    /// A transition whose window is known.
    Found,
    NoTransition,
    /// A transition whose window the boundary refuses.
    Cut,
    /// A writer overwrote the rows meanwhile.
    Overtaken,
}

/// Returns why a transition's window may not be drawn.
fn why_cut(boundary: Boundary) -> &'static str {
    match boundary {
        Boundary::Clamp => {
            "the beginning of its history was overwritten, and boundary \"clamp\" repeats the \
             first observation of an episode, not one from its middle"
        }
        _ => "its window does not lie whole in its episode, as boundary \"reject\" asks",
    }
}

impl<'a> RowFinder<'a> {
    /// Inspects an item's draw, and later draws until one is eligible.
    pub(super) fn inspect_from(&mut self, item: usize, drawn: Candidate) -> Result<(), Stopped> {
        match self.inspect(item, drawn)? {
            Inspection::Found => return Ok(()),
            Inspection::NoTransition | Inspection::Cut => {}
            Inspection::Overtaken => self.note_overtaken()?,
        }
        self.draw_and_inspect(item, drawn.attempt + 1)
    }

    /// Draws for an item, from `attempt` on, until a draw is eligible.
    #[cold]
    pub(super) fn draw_and_inspect(&mut self, item: usize, attempt: u32) -> Result<(), Stopped> {
        match self.request {
            BatchRequest::Draws(batch) => self.inspect_draws((batch, item), attempt),
            BatchRequest::Rows(index, _) => {
                let index = index.get(item).copied().unwrap_or(RowIndex::NONE.0);
                self.inspect_named_row((index, item), attempt)
            }
        }
    }

    fn inspect_draws(&mut self, (batch, item): (u64, usize), first: u32) -> Result<(), Stopped> {
        let mut outrun = false;
        for attempt in first..MAX_ATTEMPTS {
            if attempt == MAX_REJECTIONS && !self.selection.eligibility.build_index() {
                return Err(Stopped::Moved);
            }
            let empty = self.selection.why_empty(attempt);
            let eligibility = &mut self.selection.eligibility;
            if eligibility.is_empty(attempt) || empty.is_some() {
                if eligibility.is_overtaken() {
                    eligibility.refresh();
                    return Err(Stopped::Moved);
                }
                return Err(empty.unwrap_or_else(|| self.selection.nothing()).into());
            }
            let drawn = self.selection.candidate(self.rng, (batch, item), attempt)?;
            let Some(drawn) = drawn else { continue };
            match self.inspect(item, drawn)? {
                Inspection::Found => return Ok(()),
                Inspection::NoTransition | Inspection::Cut => {}
                Inspection::Overtaken => {
                    outrun = true;
                    self.note_overtaken()?;
                    // Most leaves may be those of rows that are gone.
                    if (attempt + 1).is_multiple_of(ATTEMPTS_A_LOOK) {
                        self.selection.refresh_priorities()?;
                    }
                }
            }
        }
        Err(self.selection.gave_up(outrun).into())
    }

    fn inspect_named_row(
        &mut self,
        (index, position): (i64, usize),
        first: u32,
    ) -> Result<(), Stopped> {
        let (lane, seq) = (RowIndex(index).lane(), RowIndex(index).seq());
        let bad =
            |reason| Stopped::Failed(SampleError::BadIndex { position, index, lane, seq, reason });
        if RowIndex(index) == RowIndex::NONE {
            return Err(bad("-1 stands for a row that was dropped because a lease was in the way"));
        }
        let mut oldest = 0;
        for attempt in first..GATHER_ATTEMPTS {
            let ranges = self.selection.eligibility.ranges();
            let range = ranges.get(lane as usize).ok_or_else(|| bad("the ring has fewer lanes"))?;
            let readable = range.rows();
            oldest = readable.start;
            if seq >= readable.end {
                return Err(bad("the row is not published yet"));
            }
            if seq < readable.start {
                let capacity = self.lanes.get(lane as usize).map_or(0, |lane| lane.capacity());
                if seq >= readable.end.saturating_sub(capacity) {
                    let head = readable.end;
                    return Err(
                        SampleError::Dropped { position, index, lane, seq, oldest, head }.into()
                    );
                }
                break;
            }
            match self.inspect(position, Candidate { attempt, lane, seq })? {
                Inspection::Found => return Ok(()),
                Inspection::NoTransition => return Err(bad(self.why_none(lane, seq))),
                Inspection::Cut => return Err(bad(why_cut(self.selection.windows().boundary()))),
                Inspection::Overtaken => self.note_overtaken()?,
            }
        }
        Err(SampleError::Lapped { position, index, lane, seq, oldest }.into())
    }

    /// Reads the headers around a row, and lists the item if its transition is eligible.
    fn inspect(&mut self, item: usize, candidate: Candidate) -> Result<Inspection, Stopped> {
        let Candidate { attempt, lane: number, seq } = candidate;
        let at = number as usize;
        let (drawn, lanes): (_, &'a Arc<Lanes>) = (self.draws(), self.lanes);
        let Self { plan, selection, irregular, .. } = self;
        let (windows, extent) = (selection.windows(), plan.extent());
        let (Some(lane), Some(range)) = (lanes.get(at), selection.eligibility.ranges().get(at))
        else {
            return Ok(Inspection::NoTransition);
        };
        if drawn && selection.eligibility.is_too_old(at, seq) {
            return Ok(Inspection::NoTransition);
        }
        let (lane, readable) = (&**lane, range.rows());
        // The index was built from earlier ranges, so it may name a row that is gone. Other rows
        // occur only if a peer is faulty.
        if !readable.contains(&seq) {
            return Ok(Inspection::Overtaken);
        }
        let Range { start: first, end } = extent.rows(seq, readable);
        // The row after the window tells whether its episode was cut there.
        let seen =
            if drawn && !windows.rule().is_all() { (end + 1).min(readable.end) } else { end };
        let Some(slot) = range.slot(first, lane.slots()) else { return Ok(Inspection::Overtaken) };
        let rows = usize::try_from(seen - first).unwrap_or(usize::MAX);
        let room = irregular.room(rows, plan.batch())?;
        RowHeader::read_into(lane, slot, room);
        let with_next = RowHeaders { first, rows: room };
        let headers = with_next.before(end);
        let (ours, all_flags) = headers.check();
        let next_is_ours = || room.get(headers.rows.len()).is_none_or(|next| next.seq == end);
        if !ours || !next_is_ours() {
            return Ok(Inspection::Overtaken);
        }
        let may_start =
            |window: &Window| !drawn || windows.rule().accepts(*window, extent, with_next);
        let window = match headers.window(seq, extent, all_flags) {
            Some(window) if may_start(&window) && windows.suits(window, headers, extent) => window,
            refused => {
                // The headers may belong to newer rows.
                let (outcome, from) = match refused {
                    Some(_) => (Inspection::Cut, first),
                    None => (Inspection::NoTransition, seq),
                };
                return Ok(if still_whole(lane, from) { outcome } else { Inspection::Overtaken });
            }
        };
        let (flags, count) = (headers.flags(seq).unwrap_or(0), headers.rows.len());
        irregular.push(IrregularItem {
            item,
            lane,
            slot: lane.slot_after(slot, window.first() - first),
            index: RowIndex::new(number, seq),
            age: readable.end - seq - 1,
            attempt,
            window,
            flags,
            all_flags,
            first_header: first,
            headers: (irregular.used, count),
        });
        Ok(Inspection::Found)
    }

    /// Returns why a readable row is not a transition.
    fn why_none(&self, lane: u32, seq: u64) -> &'static str {
        let header = self.lanes.get(lane as usize).map(|lane| RowHeader::read(&**lane, seq));
        if header.is_some_and(|header| header.flags & FINAL != 0) {
            return "it is a FINAL row, which holds the last observation of an episode";
        }
        let range = self.selection.eligibility.ranges().get(lane as usize);
        if range.is_some_and(|range| seq + 1 >= range.rows().end) {
            return "it is the newest row of its lane, and becomes a transition when the row after \
                    it is appended";
        }
        "its episode was broken off there (the row after it is a GAP), so it has no successor"
    }
}
