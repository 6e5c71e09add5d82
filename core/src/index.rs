//! The index of a row: lane and sequence number in one integer.

use std::fmt;
use std::ops::Range;

use backcast_layout::protocol::MAX_SEQ;
use bytemuck::{NoUninit, Pod, Zeroable};

/// Index of a row: `lane << 48 | seq`, which is never negative. [`NONE`](Self::NONE) stands for no
/// row. A `seq` is never reused, so an index names the same row for ever. Arrays, such as the
/// column `index` of a batch, hold its number.
///
/// ```
/// use backcast_core::RowIndex;
/// let index = RowIndex::new(3, 1_000);
/// assert_eq!((index.lane(), index.seq()), (3, 1_000));
/// assert_eq!(RowIndex::from(i64::from(index)), index);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct RowIndex(pub i64);

/// Index of a row as an argument: a [`RowIndex`], or its number as arrays hold it.
pub trait AsRowIndex: NoUninit + sealed::Sealed {}

impl AsRowIndex for RowIndex {}
impl AsRowIndex for i64 {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::RowIndex {}
    impl Sealed for i64 {}
}

/// Returns the numbers of indices. No copy.
pub(crate) fn numbers(index: &[impl AsRowIndex]) -> &[i64] {
    bytemuck::cast_slice(index)
}

impl From<i64> for RowIndex {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

impl From<RowIndex> for i64 {
    fn from(index: RowIndex) -> Self {
        index.0
    }
}

impl PartialEq<i64> for RowIndex {
    fn eq(&self, number: &i64) -> bool {
        self.0 == *number
    }
}

impl fmt::Display for RowIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RowIndex {
    /// Index that an append returns for a lane on which it wrote no row. Negative, unlike every
    /// row's index.
    pub const NONE: Self = Self(-1);

    /// Returns the index of row `seq` of `lane`. Truncates `lane` to 15 bits and `seq` to 48 bits.
    #[must_use]
    pub fn new(lane: u32, seq: u64) -> Self {
        Self(i64::from(lane & 0x7fff) << 48 | (seq & (MAX_SEQ - 1)).cast_signed())
    }

    /// Returns the lane.
    #[must_use]
    pub fn lane(self) -> u32 {
        (self.0.cast_unsigned() >> 48) as u32
    }

    /// Returns the sequence number.
    #[must_use]
    pub fn seq(self) -> u64 {
        self.0.cast_unsigned() & (MAX_SEQ - 1)
    }

    /// Returns the numbers of indices, as arrays hold them. No copy.
    #[must_use]
    pub fn numbers(index: &[Self]) -> &[i64] {
        numbers(index)
    }

    /// Returns why no batch of a ring can have had the index. `rows` are the readable rows of every
    /// lane. A row that was dropped or overwritten, and [`NONE`](Self::NONE), are no problem.
    pub(crate) fn problem_in(self, rows: &[Range<u64>]) -> Option<&'static str> {
        if self == Self::NONE {
            return None;
        }
        match rows.get(self.lane() as usize) {
            None => Some("the ring has fewer lanes"),
            Some(rows) if self.seq() >= rows.end => Some("the row is not published yet"),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_its_lane_and_row_and_is_above_those_of_lanes_before() {
        let last_row = (1 << 48) - 1;
        let mut before = RowIndex::NONE;
        for lane in [0, 1, 2, 4_095, 0x7fff] {
            for seq in [0, 1, 1 << 20, (1 << 47) + 3, last_row] {
                let index = RowIndex::new(lane, seq);
                assert_eq!((index.lane(), index.seq()), (lane, seq));
                let number = i64::from(lane) * (1 << 48) + i64::try_from(seq).unwrap();
                assert!(index == number && i64::from(index) == number && index.0 == number);
                assert_eq!(RowIndex::from(number), index);
                assert_eq!(index.to_string(), number.to_string());
                assert!(index > before && index != before.0, "{index}");
                before = index;
            }
        }
        assert_eq!(RowIndex::new(0x8003, 5), RowIndex::new(3, 5), "15 bits of a lane");
        assert_eq!(RowIndex::new(3, (1 << 48) + 5), RowIndex::new(3, 5), "48 bits of a row");
        let indices = [RowIndex(7), RowIndex::NONE];
        assert_eq!(RowIndex::numbers(&indices), [7, -1]);
    }
}
