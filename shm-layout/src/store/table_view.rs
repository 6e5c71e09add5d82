//! Words of a table of priorities, read without its lock.

use std::sync::Arc;

use crate::layout::priority_table::{TableCounters, TableHeader, TableMemory, TableSettings};
use crate::protocol::extremes::{Extreme, extremes};
use crate::protocol::sum_tree::{self, Descent, TreeWords};

/// Words of a table, to be read without a lock while other processes change them.
#[derive(Debug)]
pub struct TableView {
    pub(super) memory: Arc<TableMemory>,
}

impl TableView {
    /// Returns the settings, with the present exponent.
    #[must_use]
    pub fn settings(&self) -> TableSettings {
        settings_of(&self.memory)
    }

    /// Returns the number of lanes.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.memory.shape.lanes
    }

    /// Returns the number of leaves of a lane. Row `seq` has leaf `seq % lane_leaves` of its lane.
    #[must_use]
    pub fn lane_leaves(&self) -> u64 {
        self.memory.shape.lane_leaves
    }

    /// Returns the largest value that a leaf may have.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.memory.shape.most()
    }

    /// Returns the leaf of a row.
    #[inline]
    #[must_use]
    pub fn leaf_of(&self, lane: u32, seq: u64) -> usize {
        let leaves = self.lane_leaves();
        let leaf = u64::from(lane).wrapping_mul(leaves).wrapping_add(seq % leaves.max(1));
        usize::try_from(leaf).unwrap_or(usize::MAX)
    }

    /// Returns the lane and the newest row that entered with this leaf.
    #[inline]
    #[must_use]
    pub fn row_of(&self, leaf: usize) -> (u32, u64) {
        let leaves = self.lane_leaves().max(1);
        let (lane, place) = (leaf as u64 / leaves, leaf as u64 % leaves);
        let lane = u32::try_from(lane).unwrap_or(u32::MAX);
        let (entered, _) = self.lane(lane);
        // The largest number below `entered` that has this leaf. If `entered` is corrupt, it is
        // some number.
        let newest = entered.wrapping_sub(1);
        (lane, newest.wrapping_sub(newest.wrapping_sub(place) % leaves))
    }

    /// Returns the range of a lane's rows that have leaves, the end first: one past the newest row,
    /// then the oldest row. `(0, 0)` for a lane that the table lacks.
    #[inline]
    #[must_use]
    pub fn lane(&self, lane: u32) -> (u64, u64) {
        if lane < self.memory.shape.lanes { self.memory.lane(lane) } else { (0, 0) }
    }

    /// Returns the value of a leaf; 0 for a leaf that the table lacks.
    #[inline]
    #[must_use]
    pub fn leaf(&self, leaf: usize) -> u64 {
        sum_tree::leaf(&*self.memory, &self.memory.shape.tree, leaf)
    }

    /// Returns the word that changes give a leaf: its priority if priorities are kept, as the bits
    /// of an f64, else its value. 0 for a leaf that the table lacks.
    #[inline]
    #[must_use]
    pub fn given(&self, leaf: usize) -> u64 {
        sum_tree::given(&*self.memory, &self.memory.shape.tree, leaf)
    }

    /// Returns the value of a leaf that is given this word.
    #[must_use]
    pub fn value_of(&self, given: u64) -> u64 {
        let mut value = [given];
        if self.memory.keeps_priorities() {
            self.memory.replace_kept(&mut value);
        }
        value[0]
    }

    /// Returns the value that a leaf has by another exponent, if priorities are kept.
    #[must_use]
    pub fn value_by(&self, exponent: f64, leaf: usize) -> u64 {
        let mut value = [self.given(leaf)];
        if self.memory.keeps_priorities() {
            self.memory.leaf_values(exponent).replace(&mut value);
        }
        value[0]
    }

    /// Returns whether the table keeps priorities, so that its exponent can change.
    #[inline]
    #[must_use]
    pub fn keeps_priorities(&self) -> bool {
        self.memory.keeps_priorities()
    }

    /// Returns the present exponent of a table that keeps priorities, `None` for another table.
    #[inline]
    #[must_use]
    pub fn exponent(&self) -> Option<f64> {
        self.memory.keeps_priorities().then(|| self.memory.exponent())
    }

    /// Prefetches a leaf that is going to be read or changed.
    #[inline]
    pub fn prefetch_leaf(&self, leaf: usize) {
        sum_tree::prefetch_leaf(&*self.memory, &self.memory.shape.tree, leaf);
    }

    /// Returns the sum of all leaves.
    #[inline]
    #[must_use]
    pub fn total(&self) -> u64 {
        sum_tree::total(&*self.memory, &self.memory.shape.tree)
    }

    /// Returns the smallest leaf that is not 0, or 0.
    #[must_use]
    pub fn least(&self) -> u64 {
        sum_tree::least(&*self.memory, &self.memory.shape.tree)
    }

    /// Returns the largest leaf of the table, or priority if they are kept. `None` if the table
    /// does not track it.
    #[must_use]
    pub fn largest_held(&self) -> Option<u64> {
        sum_tree::largest(&*self.memory, &self.memory.shape.tree)
    }

    /// Returns the largest leaf of other rings that was set last, or 0.
    #[must_use]
    pub fn largest_of_others(&self) -> u64 {
        self.memory.largest_of_others()
    }

    /// Returns the largest leaf value given so far, or priority if they are kept.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.memory.largest()
    }

    /// Returns whether a change is under way, or was when its process was killed.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        sum_tree::is_journal_used(&*self.memory, &self.memory.shape.tree)
    }

    /// Returns the count of changes, or `None` while a change is under way.
    #[inline]
    #[must_use]
    pub fn observe(&self) -> Option<u64> {
        sum_tree::observe(&*self.memory, &self.memory.shape.tree)
    }

    /// Returns whether no change was made since [`observe`](Self::observe) returned `changes`.
    #[inline]
    #[must_use]
    pub fn is_unchanged(&self, changes: u64) -> bool {
        sum_tree::is_unchanged(&*self.memory, &self.memory.shape.tree, changes)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> TableCounters {
        self.memory.counters()
    }

    /// Returns up to `want` leaves that `accepts` takes, the largest or the smallest first; see
    /// [`extremes`](fn@extremes).
    pub fn extremes(
        &self,
        extreme: Extreme,
        want: usize,
        accepts: impl FnMut(usize) -> bool,
    ) -> Vec<usize> {
        extremes(&*self.memory, &self.memory.shape.tree, extreme, want, accepts)
    }

    /// Returns whether the table counts its leaves by bucket, so that rows are drawn by rank.
    #[inline]
    #[must_use]
    pub fn counts_ranks(&self) -> bool {
        !self.memory.shape.tree.ranks.is_empty()
    }

    /// Counts the leaves of every bucket of ranks into `counts`, the smallest leaves first.
    pub fn rank_counts(&self, counts: &mut Vec<u64>) {
        sum_tree::rank_counts(&*self.memory, &self.memory.shape.tree, counts);
    }

    /// Returns a leaf of a bucket by its number among them, in the order of the leaves.
    #[must_use]
    pub fn nth_in_bucket(&self, bucket: usize, number: u64) -> Option<usize> {
        sum_tree::nth_in_bucket(&*self.memory, &self.memory.shape.tree, bucket, number)
    }

    /// Moves draws down to their leaves.
    pub fn descend(&self, draws: &mut [Descent]) {
        sum_tree::descend(&*self.memory, &self.memory.shape.tree, draws);
    }
}

/// Returns the settings in the header of mapped memory, which was checked when it was opened, with
/// the present exponent.
pub(super) fn settings_of(memory: &TableMemory) -> TableSettings {
    let header = memory.map.copy(0, size_of::<TableHeader>());
    let header: TableHeader = bytemuck::pod_read_unaligned(&header);
    let mut settings = header.settings();
    if memory.keeps_priorities() {
        settings.exponent = memory.exponent();
    }
    settings
}
