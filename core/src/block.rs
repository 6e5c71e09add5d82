//! Some items of a batch that are looked at, copied and validated together.
//!
//! Draws are random, so every column of every item is a cache miss. A batch is made in blocks, and
//! while the rows of one are copied, column by column, those of the next are on their way into the
//! cache.

use backcast_layout::protocol::still_whole;
use backcast_layout::{Found, Run};

use crate::index::RowIndex;
use crate::mark::Mark;
use crate::plan::Stretch;
use crate::window::{Marks, Reach, Window};

/// Most items of a block; a power of two.
pub(crate) const MOST: usize = 16;
/// Bytes of rows that so many items have at most. With more of them half as many are as fast, or faster.
const MOST_BYTES: usize = 8 << 10;
/// Bytes of rows that a block has, unless one item has more: what is asked for ahead has to be in the
/// nearest cache still when its turn comes.
const BYTES: usize = 12 << 10;

/// A drawn row. All that there is to know of it where nothing happens in its window, which is so of most:
/// it is whole, and no row in it has a flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    /// From the window's first row on. Its slot is kept: a division per column costs as much as a small column.
    pub(crate) run: Run<'a>,
    pub(crate) index: RowIndex,
    /// Rows published after it when it was drawn.
    pub(crate) age: u64,
    /// The draw that found it, counted from 0.
    pub(crate) attempt: u32,
}

impl Item<'_> {
    /// The slot so many rows after the window's first.
    #[inline]
    pub(crate) fn slot_after(&self, rows: u64) -> u64 {
        self.run.lane().slot_after(self.run.slot(), rows)
    }
}

/// What else there is to know where something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub(crate) window: Window,
    /// Of the drawn row, and of all rows around it together.
    pub(crate) flags: u32,
    pub(crate) all_flags: u32,
    /// Whether nothing of the window is missing.
    pub(crate) whole: bool,
    /// Transitions that are missing in front.
    pub(crate) missing: u64,
    /// First row whose mark was copied, and how many were.
    pub(crate) marks: (u64, usize),
}

/// What there is to know of the item of this number in its block.
type Noted = (usize, Detail);

impl Detail {
    /// Nothing happens.
    fn quiet(seq: u64, reach: Reach) -> Self {
        let window = Window::whole(seq, reach);
        Self { window, flags: 0, all_flags: 0, whole: true, missing: 0, marks: (0, 0) }
    }

    /// Rows from the first of this window to a stretch of it; about so many if it is not whole.
    pub(crate) fn lead(&self, stretch: &Stretch) -> u64 {
        let Window { back, run, .. } = self.window;
        if stretch.after_run { back + run } else { stretch.lead.saturating_sub(self.missing) }
    }
}

/// Consecutive items of a batch, and the marks of their windows.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    first: usize,
    reach: Reach,
    items: Vec<Item<'a>>,
    /// Of those items in whose window something happens, in order.
    details: Vec<Noted>,
    /// Of every stretch of the plan, where each item has it, if all were found.
    found: Vec<Found<'a, MOST>>,
    all_found: bool,
    /// So many for each item.
    stride: usize,
    marks: Vec<Mark>,
    /// Whether nothing is missing of any window.
    whole: bool,
}

impl<'a> Block<'a> {
    /// Items of a block where each has so many bytes of rows.
    pub(crate) fn size(bytes: usize) -> usize {
        let most = if bytes <= MOST_BYTES / MOST { MOST } else { MOST / 2 };
        (BYTES / bytes.max(1)).clamp(1, most)
    }

    /// A block of at most so many items, in memory that an earlier one had, if any.
    pub(crate) fn over(
        mut marks: Vec<Mark>,
        items: usize,
        reach: Reach,
        stretches: &[Stretch],
    ) -> Self {
        let stride = reach.most_rows();
        marks.resize(items * stride, Mark::default());
        let found = stretches.iter().map(|of| Found::new(of.column, of.rows, of.width));
        let (details, found) = (Vec::new(), found.collect());
        let items = Vec::with_capacity(items);
        let (whole, all_found) = (true, false);
        Self { first: 0, reach, items, details, found, all_found, stride, marks, whole }
    }

    /// The memory, for another block.
    pub(crate) fn into_memory(self) -> Vec<Mark> {
        self.marks
    }

    /// Empties it for the items of a batch from `first` on.
    pub(crate) fn begin(&mut self, first: usize) {
        self.first = first;
        self.whole = true;
        self.items.clear();
        self.details.clear();
    }

    /// Where the marks of the next item go.
    #[inline]
    pub(crate) fn room(&mut self, rows: usize) -> &mut [Mark] {
        let at = self.items.len() * self.stride;
        &mut self.marks[at..at + rows]
    }

    /// Adds an item in whose window nothing happens.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'a>) {
        self.items.push(item);
    }

    /// Adds an item, whose marks are in their room.
    pub(crate) fn push_detailed(&mut self, item: Item<'a>, detail: Detail) {
        self.whole &= detail.whole;
        self.details.push((self.items.len(), detail));
        self.items.push(item);
    }

    /// Whether nothing happens in any window.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.details.is_empty()
    }

    /// In how many windows something happens.
    #[inline]
    pub(crate) fn events(&self) -> usize {
        self.details.len()
    }

    /// Whether nothing is missing of any window.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Gives each item's place of so many bytes, what there is to know of the item, and the marks of its
    /// window where something happens in it.
    #[inline]
    pub(crate) fn each(
        &self,
        here: &mut [u8],
        bytes: usize,
        mut give: impl FnMut(&mut [u8], &Item<'a>, &Detail, Marks<'_>),
    ) {
        let mut details = self.details.iter().peekable();
        for (number, (place, item)) in here.chunks_exact_mut(bytes).zip(&self.items).enumerate() {
            if let Some((_, detail)) = details.next_if(|(noted, _)| *noted == number) {
                give(place, item, detail, self.marks_of(number, detail));
            } else {
                let detail = Detail::quiet(item.index.seq(), self.reach);
                give(place, item, &detail, Marks { first: 0, rows: &[] });
            }
        }
    }

    /// As [`each`](Self::each), for those items alone in whose window something happens.
    pub(crate) fn each_noted(
        &self,
        here: &mut [u8],
        bytes: usize,
        mut give: impl FnMut(&mut [u8], &Detail, Marks<'_>),
    ) {
        for (number, detail) in &self.details {
            if let Some(place) = here.chunks_exact_mut(bytes).nth(*number) {
                give(place, detail, self.marks_of(*number, detail));
            }
        }
    }

    fn marks_of(&self, number: usize, detail: &Detail) -> Marks<'_> {
        let (first, count) = detail.marks;
        let rows = self.marks.get(number * self.stride..).unwrap_or_default();
        Marks { first, rows: rows.get(..count).unwrap_or(rows) }
    }

    /// First row of an item's window: what validation must protect.
    pub(crate) fn first_row(&self, number: usize, item: &Item<'_>) -> u64 {
        let noted = self.details.iter().find(|(noted, _)| *noted == number);
        let whole = || item.index.seq() - self.reach.back;
        noted.map_or_else(whole, |(_, detail)| detail.window.first())
    }

    /// Whether nobody overwrote any window meanwhile.
    pub(crate) fn is_still_whole(&self) -> bool {
        let (items, back) = (&self.items, self.reach.back);
        if self.whole {
            return items.iter().all(|item| still_whole(item.run.lane(), item.index.seq() - back));
        }
        let mut items = items.iter().enumerate();
        items.all(|(number, item)| still_whole(item.run.lane(), self.first_row(number, item)))
    }

    /// Draws that its items took.
    pub(crate) fn attempts(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.attempt) + 1).sum()
    }

    /// Finds what is to be copied of each item, and asks for what is short. `stretches`: those that the block
    /// was made for.
    pub(crate) fn find(&mut self, stretches: &[Stretch]) {
        let Self { items, details, found, .. } = self;
        let mut all_found = self.whole;
        for (stretch, found) in stretches.iter().zip(&mut *found) {
            let alike = self.whole && (details.is_empty() || !stretch.after_run);
            all_found &= alike && found.find_in(stretch.lead, items.iter().map(|item| item.run))
                || find_each(stretch, found, items, details);
        }
        self.all_found = all_found;
        // One request right after the other, so that their pages are looked up side by side: the processor
        // does not go on far from a request whose page it does not know yet.
        for found in found.iter().filter(|found| !found.is_long()) {
            found.ask();
        }
    }

    /// Asks for what [`find`](Self::find) found and did not ask for.
    pub(crate) fn ask_for_long(&self) {
        for found in self.found.iter().filter(|found| found.is_long()) {
            found.ask();
        }
    }

    /// Where those items have the stretch of a number that have it in one place.
    #[inline]
    pub(crate) fn found_of_some(&self, stretch: usize) -> Option<&Found<'a, MOST>> {
        self.found.get(stretch)
    }

    /// Where all items have the stretch of a number; `None` where not all of any stands in one place.
    #[inline]
    pub(crate) fn found(&self, stretch: usize) -> Option<&Found<'a, MOST>> {
        self.found.get(stretch).filter(|_| self.all_found)
    }

    /// Number of the first item in the batch.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    pub(crate) fn items(&self) -> &[Item<'a>] {
        &self.items
    }
}

/// Finds a stretch of items that do not have it at the same place of their windows, or one of whose windows runs over
/// the end of its lane.
#[inline(never)]
fn find_each<'a>(
    stretch: &Stretch,
    found: &mut Found<'a, MOST>,
    items: &[Item<'a>],
    details: &[Noted],
) -> bool {
    let mut details = details.iter().peekable();
    found.find(items.iter().enumerate().map(|(number, item)| {
        let noted = details.next_if(|(noted, _)| *noted == number);
        let lead = noted.map_or(stretch.lead, |(_, detail)| detail.lead(stretch));
        (item.run.lane(), item.slot_after(lead))
    }))
}
