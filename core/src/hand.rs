//! Short items of a batch that are drawn and copied together, and asked for while those before them are copied.
//!
//! Of rows that are a line or two of the cache, what surrounds the copies takes as long as they do, and of longer ones the
//! requests for their memory. A hand is no more than where its items are: whether something happens in a window is asked of
//! all at once, and if nothing does, no item is looked at on its own. A [`Block`](crate::block::Block) takes what a hand
//! cannot: windows that run over the end of a lane, that an episode cuts, or that a writer came by.

use std::iter;

use backcast_layout::protocol::still_whole;
use backcast_layout::{Lane, RunPart, Runs};

use crate::block::MOST;
use crate::index::RowIndex;
use crate::mark::{MARKS, Mark, WORDS};
use crate::plan::Stretch;
use crate::window::{Reach, Window};

/// When the memory of a hand's items is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// As soon as they are drawn.
    AtOnce,
    /// While the hand before is copied.
    Meanwhile,
}

/// Consecutive items of a batch, as they were drawn.
#[derive(Clone, Debug)]
pub(crate) struct Hand<'a> {
    /// Number of the first in the batch.
    first: usize,
    reach: Reach,
    asked: Asked,
    count: usize,
    index: [i64; MOST],
    /// Rows published after each when it was drawn.
    ages: [u64; MOST],
    /// The windows, in order; those of all items if each is a run.
    runs: Runs<'a, MOST>,
}

impl<'a> Hand<'a> {
    /// For items whose windows reach so far, in lanes like this one.
    pub(crate) fn new(lane: &'a Lane, reach: Reach, stretches: &[Stretch]) -> Self {
        let rows = reach.after_first() + 1;
        // The last, which is all that is looked at.
        let mark = RunPart { column: MARKS, width: size_of::<Mark>(), first: rows - 1, rows: 1 };
        let [short, long] = [false, true].map(|long| {
            let those = stretches.iter().filter(move |of| of.is_long == long);
            those.map(Stretch::part)
        });
        let runs = Runs::new(lane, rows, iter::once(mark).chain(short), long);
        let (index, ages) = ([RowIndex::NONE.0; MOST], [0; MOST]);
        Self { first: 0, reach, asked: Asked::AtOnce, count: 0, index, ages, runs }
    }

    /// Empties it for the items of a batch from `first` on.
    pub(crate) fn begin(&mut self, first: usize, asked: Asked) {
        (self.first, self.count, self.asked) = (first, 0, asked);
        self.runs.clear();
    }

    /// Adds an item: its lane and the slot of its window's first row, if the window is all there.
    #[inline]
    pub(crate) fn push(&mut self, index: RowIndex, age: u64, window: Option<(&'a Lane, u64)>) {
        if let (Some(place), Some(its_age)) =
            (self.index.get_mut(self.count), self.ages.get_mut(self.count))
        {
            (*place, *its_age) = (index.0, age);
            self.count += 1;
        }
        if let Some((lane, slot)) = window
            && self.runs.push(lane, slot)
            && self.asked == Asked::AtOnce
        {
            self.runs.ask_for_last();
        }
    }

    /// Number of the first item in the batch.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// How many items it has.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn index(&self) -> &[i64] {
        &self.index[..self.count]
    }

    pub(crate) fn ages(&self) -> &[u64] {
        &self.ages[..self.count]
    }

    pub(crate) fn runs(&self) -> &Runs<'a, MOST> {
        &self.runs
    }

    /// The windows, if they are yet to be asked for.
    pub(crate) fn unasked(&self) -> Option<&Runs<'a, MOST>> {
        (self.asked == Asked::Meanwhile).then_some(&self.runs)
    }

    /// In the windows of which items nothing happens, as the marks of their last rows say: a bit of each.
    #[inline]
    pub(crate) fn quiet(&self) -> u32 {
        if self.runs.count() != self.count {
            return 0;
        }
        let before = self.reach.after_first();
        let ahead = before - self.reach.back;
        let is_quiet = |item: usize, last: [u64; WORDS]| {
            // A writer that came by meanwhile left another row there.
            let row = RowIndex(self.index[item]).seq().wrapping_add(ahead);
            Window::is_quiet(&Mark::of_words(last), row, before)
        };
        // In most hands in all of them.
        let mut all = true;
        let known = self.runs.each_last(MARKS, |item, last| all &= is_quiet(item, last));
        if all && known {
            return self.all();
        }
        let mut quiet = 0;
        self.runs.each_last(MARKS, |item, last| quiet |= u32::from(is_quiet(item, last)) << item);
        quiet
    }

    /// A bit of each item.
    pub(crate) fn all(&self) -> u32 {
        (1 << self.count) - 1
    }

    /// Whose windows nobody overwrote meanwhile, of items that are runs: a bit of each.
    #[inline]
    pub(crate) fn still_whole(&self) -> u32 {
        let firsts =
            self.index().iter().map(|index| RowIndex(*index).seq().wrapping_sub(self.reach.back));
        let whole =
            iter::zip(self.runs.lanes(), firsts).map(|(lane, first)| still_whole(lane, first));
        if whole.clone().all(|whole| whole) {
            return self.all();
        }
        whole.enumerate().fold(0, |all, (item, whole)| all | u32::from(whole) << item)
    }
}
