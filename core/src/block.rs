//! Some items of a batch that are looked at, copied and validated together.
//!
//! Draws are random, so every column of every item is a cache miss. A batch is made in blocks, and
//! while the rows of one are copied, column by column, those of the next are on their way into the
//! cache.

use backcast_layout::Lane;

use crate::index::RowIndex;
use crate::mark::Mark;
use crate::window::{Marks, Reach, Window};

/// Most items of a block.
pub(crate) const MOST: usize = 4;
/// Bytes of rows that a block has, unless one item has more: what is asked for ahead has to be in the
/// nearest cache still when its turn comes.
const BYTES: usize = 12 << 10;

/// A drawn row whose window is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) index: RowIndex,
    /// Rows published after it when it was drawn.
    pub(crate) age: u64,
    /// Of the drawn row, and of all rows around it together.
    pub(crate) flags: u32,
    pub(crate) all_flags: u32,
    pub(crate) window: Window,
    /// Whether nothing of the window is missing.
    pub(crate) whole: bool,
    /// Transitions that are missing in front.
    pub(crate) missing: u64,
    /// Of the window's first row, kept: a division per column costs as much as a small column.
    pub(crate) slot: u64,
    /// The draw that found it, counted from 0.
    pub(crate) attempt: u32,
    /// First row whose mark was copied, and how many were.
    pub(crate) marks: (u64, usize),
}

impl<'a> Item<'a> {
    /// A row whose window is to be found. Nothing happens in it so far, and it is whole.
    #[inline]
    pub(crate) fn new(lane: &'a Lane, index: RowIndex, age: u64, attempt: u32) -> Self {
        let window = Window { seq: index.seq(), back: 0, ahead: 0, run: 0 };
        Self {
            lane,
            index,
            age,
            flags: 0,
            all_flags: 0,
            window,
            whole: true,
            missing: 0,
            slot: 0,
            attempt,
            marks: (0, 0),
        }
    }

    /// The same with its window, whose first row is in `slot`.
    #[inline]
    pub(crate) fn with_window(self, window: Window, slot: u64) -> Self {
        Self { window, slot, ..self }
    }
}

/// Consecutive items of a batch, and the marks of their windows.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    first: usize,
    items: Vec<Item<'a>>,
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

    /// A block in memory that an earlier one had, if any.
    pub(crate) fn over(mut marks: Vec<Mark>, items: usize, reach: Reach) -> Self {
        let stride = reach.most_rows();
        marks.resize(items * stride, Mark::default());
        Self { first: 0, items: Vec::with_capacity(items), stride, marks, whole: true }
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
    }

    /// Where the marks of the next item go.
    #[inline]
    pub(crate) fn room(&mut self, rows: usize) -> &mut [Mark] {
        let at = self.items.len() * self.stride;
        &mut self.marks[at..at + rows]
    }

    /// Adds an item, whose marks are in their room.
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'a>) {
        self.whole &= item.whole;
        self.items.push(item);
    }

    /// Whether every window is.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Number of the first item in the batch.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    pub(crate) fn items(&self) -> &[Item<'a>] {
        &self.items
    }

    /// The items and their marks.
    #[inline]
    pub(crate) fn marked(&self) -> impl Iterator<Item = (&Item<'a>, Marks<'_>)> {
        self.items.iter().zip(self.marks.chunks_exact(self.stride)).map(|(item, rows)| {
            let (first, count) = item.marks;
            (item, Marks { first, rows: rows.get(..count).unwrap_or(rows) })
        })
    }
}
