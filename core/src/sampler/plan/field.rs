//! Fields of a plan: what fills each arena.

use backcast_layout::DType;

use super::builder::to_i64;
use super::segments::SegmentSlice;

/// Source of an arena's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Column(usize),
    Flag(u32),
    /// `true` where the place holds a transition.
    Mask,
    Index,
    Age,
    /// The importance weight, which is written when all items are known.
    Weight,
    /// Transitions of an episode, which are written when all items are known.
    Length,
    /// First places of all episodes, which are written when all items are known.
    Offsets,
    /// Whether the goal was relabelled, which is written when all items are known.
    Relabelled,
    /// A column, or a flag, in the first row of the window.
    First(usize),
    FirstFlag(u32),
    /// The n-step return, and the discount after it.
    NReward,
    NDiscount,
    /// A column in the row after the last transition of the n-step return.
    NNext(usize),
    /// Versions between the policy of a row and the newest one, which are computed from the fields
    /// of the column `policy_version` when these are written.
    PolicyAge,
    /// A learned column, and whether its values were set.
    Learned(usize),
    LearnedSet(usize),
}

/// A column that n-step returns sum: one float a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summed {
    pub(crate) column: usize,
    pub(crate) dtype: DType,
}

/// Columns and length of n-step returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NStep {
    pub(crate) reward: Summed,
    /// The column of discounts, unless the discount is a constant.
    pub(crate) discount: Option<Summed>,
    /// Transitions of a return that is not cut short.
    pub(crate) run: u64,
}

impl NStep {
    /// Iterates over the columns that are summed.
    pub(super) fn columns(self) -> impl Iterator<Item = Summed> {
        [Some(self.reward), self.discount].into_iter().flatten()
    }
}

/// Content of an item's part of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaField {
    pub(crate) source: Source,
    pub(crate) dtype: DType,
    /// First row, relative to the drawn one.
    pub(crate) first: i64,
    /// Number of rows of an item in the arena.
    pub(crate) rows: usize,
    /// Bytes of a row.
    pub(crate) width: usize,
    /// A row is filled iff its offset from the drawn one lies in
    /// `-back + shift.0 ..= ahead + shift.1`.
    pub(crate) shift: (i64, i64),
    /// Whether places beyond the window repeat its first and last row.
    pub(crate) repeat: bool,
    /// Rows that are copied, if any are.
    pub(crate) slice: Option<SegmentSlice>,
}

impl ArenaField {
    /// Returns the first place that has a row, relative to the drawn row, and how many have one.
    /// The window has `back` transitions before the drawn one and `ahead` after it.
    pub(crate) fn present(&self, back: i64, ahead: i64) -> (i64, u64) {
        let last = self.first + to_i64(self.rows) - 1;
        let from = (self.shift.0 - back).max(self.first);
        let to = (self.shift.1 + ahead).min(last);
        (from, u64::try_from(to - from + 1).unwrap_or(0))
    }

    /// Returns the bytes of an item.
    pub(super) fn item_bytes(&self) -> usize {
        self.rows.saturating_mul(self.width)
    }
}
