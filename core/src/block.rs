//! Some items of a batch that are looked at, copied and validated together.
//!
//! Draws are random, so every column of every item is a cache miss. A batch is made in blocks, and
//! while the rows of one are copied, column by column, those of the next are on their way into the
//! cache.

use backcast_layout::{Found, Lane};

use crate::index::RowIndex;
use crate::mark::Mark;
use crate::plan::Stretch;
use crate::window::{Marks, Reach, Window};

/// Most items of a block; a power of two.
pub(crate) const MOST: usize = 8;
/// Bytes of rows that a block has, unless one item has more: what is asked for ahead has to be in the
/// nearest cache still when its turn comes.
const BYTES: usize = 12 << 10;

/// A drawn row. All that there is to know of it where nothing happens in its window, which is so of most:
/// it is whole, and no row in it has a flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) lane: &'a Lane,
    /// Of the window's first row, kept: a division per column costs as much as a small column.
    pub(crate) slot: u64,
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
        self.lane.slot_after(self.slot, rows)
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
    /// Of every item, or of none: nothing happens in any window.
    details: Vec<Detail>,
    /// Of every stretch of the plan, where each item has it, if all were found.
    found: Vec<Found<'a, MOST>>,
    all_found: bool,
    /// So many for each item.
    stride: usize,
    marks: Vec<Mark>,
    whole: bool,
}

impl<'a> Block<'a> {
    /// Items of a block where each has so many bytes of rows.
    pub(crate) fn size(bytes: usize) -> usize {
        (BYTES / bytes.max(1)).clamp(1, MOST)
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
        if !self.is_quiet() {
            self.details.push(Detail::quiet(item.index.seq(), self.reach));
        }
        self.items.push(item);
    }

    /// Adds an item, whose marks are in their room.
    pub(crate) fn push_detailed(&mut self, item: Item<'a>, detail: Detail) {
        if self.is_quiet() {
            let quiet = |item: &Item<'_>| Detail::quiet(item.index.seq(), self.reach);
            self.details.extend(self.items.iter().map(quiet));
        }
        self.whole &= detail.whole;
        self.items.push(item);
        self.details.push(detail);
    }

    /// Whether nothing happens in any window.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.details.is_empty()
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
        let places = here.chunks_exact_mut(bytes).zip(&self.items);
        if self.is_quiet() {
            for (place, item) in places {
                let detail = Detail::quiet(item.index.seq(), self.reach);
                give(place, item, &detail, Marks { first: 0, rows: &[] });
            }
            return;
        }
        let details = self.details.iter().zip(self.marks.chunks_exact(self.stride));
        for ((place, item), (detail, rows)) in places.zip(details) {
            let (first, count) = detail.marks;
            give(place, item, detail, Marks { first, rows: rows.get(..count).unwrap_or(rows) });
        }
    }

    /// First row of an item's window: what validation must protect.
    #[inline]
    pub(crate) fn first_row(&self, number: usize, item: &Item<'_>) -> u64 {
        let quiet = || item.index.seq() - self.reach.back;
        self.details.get(number).map_or_else(quiet, |detail| detail.window.first())
    }

    /// Finds what is to be copied of each item, and asks for what is short. `stretches`: those that the block
    /// was made for.
    pub(crate) fn find(&mut self, stretches: &[Stretch]) {
        let Self { items, details, found, .. } = self;
        let mut all_found = self.whole;
        for (stretch, found) in stretches.iter().zip(&mut *found) {
            all_found &= if details.is_empty() {
                found.find(items.iter().map(|item| (item.lane, item.slot_after(stretch.lead))))
            } else {
                let each = items.iter().zip(&*details);
                found.find(each.map(|(item, of)| (item.lane, item.slot_after(of.lead(stretch)))))
            };
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
