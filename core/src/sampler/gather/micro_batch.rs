//! Micro-batches: items of a batch that are prefetched, copied and validated together.
//!
//! Draws are random, so every column of every item is a cache miss. The rows of the next
//! micro-batch are prefetched before one is copied, or between its copies.

use std::iter;

use backcast_layout::protocol::still_whole;
use backcast_layout::{Lane, WindowSet, WindowSlice};

use crate::index::RowIndex;
use crate::row_header::{ROW_HEADERS, RowHeader, WORDS};
use crate::sampler::plan::{ColumnSegment, MICRO_BATCH, PrefetchPolicy};
use crate::sampler::window::{StartRule, Window, WindowExtent};

/// Consecutive items of a batch, as a structure of arrays.
#[derive(Clone, Debug)]
pub(super) struct MicroBatch<'a> {
    /// Number of the first item in the batch.
    first: usize,
    extent: WindowExtent,
    policy: PrefetchPolicy,
    count: usize,
    index: [i64; MICRO_BATCH],
    /// For each item, the number of rows that had been published after it when it was drawn.
    ages: [u64; MICRO_BATCH],
    /// Attempt that drew each item, counted from 0.
    attempts: [u32; MICRO_BATCH],
    /// Bitmask of items without a contiguous window.
    irregular: u32,
    /// Windows of the items; placeholders for irregular ones.
    windows: WindowSet<'a, MICRO_BATCH>,
}

impl<'a> MicroBatch<'a> {
    /// Returns an empty micro-batch for windows of `extent`, in lanes with the columns of `lane`.
    pub(super) fn new(lane: &'a Lane, extent: WindowExtent, segments: &[ColumnSegment]) -> Self {
        let rows = extent.after_first() + 1;
        // The last header of a window tells whether it is interior.
        let header = WindowSlice {
            column: ROW_HEADERS,
            width: size_of::<RowHeader>(),
            first: rows - 1,
            rows: 1,
        };
        let [short, long] = [false, true].map(|long| {
            let those = segments.iter().filter(move |segment| segment.is_long == long);
            those.map(ColumnSegment::slice)
        });
        let windows = WindowSet::new(lane, rows, iter::once(header).chain(short), long);
        let (index, ages) = ([RowIndex::NONE.0; MICRO_BATCH], [0; MICRO_BATCH]);
        let (attempts, policy) = ([0; MICRO_BATCH], PrefetchPolicy::Eager);
        let (first, count, irregular) = (0, 0, 0);
        Self { first, extent, policy, count, index, ages, attempts, irregular, windows }
    }

    /// Empties the micro-batch, for the items of a batch from `first` on.
    pub(super) fn begin(&mut self, first: usize, policy: PrefetchPolicy) {
        (self.first, self.count, self.irregular, self.policy) = (first, 0, 0, policy);
        self.windows.clear();
    }

    /// Adds an item. `window` is the lane and the slot of the window's first row, if all its rows
    /// are readable.
    #[inline]
    pub(super) fn push(
        &mut self,
        index: RowIndex,
        age: u64,
        attempt: u32,
        window: Option<(&'a Lane, u64)>,
    ) {
        let at = self.count;
        let (Some(its_index), Some(its_age), Some(its_attempt)) =
            (self.index.get_mut(at), self.ages.get_mut(at), self.attempts.get_mut(at))
        else {
            return;
        };
        (*its_index, *its_age, *its_attempt) = (index.0, age, attempt);
        self.count += 1;
        match window {
            Some((lane, slot)) if self.windows.push(lane, slot) => {
                if self.policy == PrefetchPolicy::Eager {
                    self.windows.prefetch_last();
                }
            }
            Some(_) => self.irregular |= 1 << at,
            None => {
                self.irregular |= 1 << at;
                self.windows.push_placeholder();
            }
        }
    }

    /// Returns the number of the first item in the batch.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Returns the number of items.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of a window's rows before the drawn one.
    pub(super) fn back(&self) -> u64 {
        self.extent.back
    }

    pub(super) fn index(&self) -> &[i64] {
        &self.index[..self.count]
    }

    pub(super) fn ages(&self) -> &[u64] {
        &self.ages[..self.count]
    }

    pub(super) fn attempts(&self) -> &[u32] {
        &self.attempts[..self.count]
    }

    /// Returns the total number of draws of the items in the bitmask `some`.
    #[inline]
    pub(super) fn draws(&self, some: u32) -> u64 {
        let draws = |attempt: &u32| u64::from(*attempt) + 1;
        if some == self.all() {
            return self.attempts().iter().map(draws).sum();
        }
        let attempts = self.attempts().iter().enumerate();
        attempts.filter(|(item, _)| some & 1 << item != 0).map(|(_, attempt)| draws(attempt)).sum()
    }

    pub(super) fn windows(&self) -> &WindowSet<'a, MICRO_BATCH> {
        &self.windows
    }

    /// Returns the windows if they are to be prefetched between the copies of another micro-batch.
    pub(super) fn windows_to_prefetch(&self) -> Option<&WindowSet<'a, MICRO_BATCH>> {
        (self.policy == PrefetchPolicy::Interleaved).then_some(&self.windows)
    }

    /// Returns a bitmask of all items.
    pub(super) fn all(&self) -> u32 {
        (1 << self.count) - 1
    }

    /// Returns a bitmask of the regular items: their windows are contiguous and, by the headers of
    /// their last rows, hold no episode boundary.
    #[inline]
    pub(super) fn regular(&self) -> u32 {
        let before = self.extent.after_first();
        let ahead = before - self.extent.back;
        let mut interior = 0;
        self.windows.each_last(ROW_HEADERS, |item, last: [u64; WORDS]| {
            // If a writer overtook the window, the header is that of another row.
            let row = RowIndex(self.index[item]).seq().wrapping_add(ahead);
            let is_interior = Window::is_interior(&RowHeader::of_words(last), row, before);
            interior |= u32::from(is_interior) << item;
        });
        interior & !self.irregular
    }

    /// Returns a bitmask of the items whose transitions a rule allows if their windows are whole.
    /// The bits of irregular items are meaningless.
    pub(super) fn allowed(&self, rule: StartRule) -> u32 {
        let ahead = self.extent.after_first() - self.extent.back;
        let mut allowed = 0;
        self.windows.each_last(ROW_HEADERS, |item, last: [u64; WORDS]| {
            let step = u64::from(RowHeader::of_words(last).t).wrapping_sub(ahead);
            allowed |= u32::from(rule.allows(step)) << item;
        });
        allowed
    }

    /// Returns a bitmask of items whose windows were not overwritten during the copy. The bits of
    /// irregular items are meaningless.
    #[inline]
    pub(super) fn still_whole(&self) -> u32 {
        let firsts =
            self.index().iter().map(|index| RowIndex(*index).seq().wrapping_sub(self.extent.back));
        let windows = iter::zip(self.windows.lanes(), firsts).enumerate();
        windows.fold(0, |whole, (item, (lane, first))| {
            whole | u32::from(still_whole(lane, first)) << item
        })
    }
}
