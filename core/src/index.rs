//! The index of a row: lane and sequence number in one integer.

use backcast_layout::protocol::MAX_SEQ;

/// `lane << 48 | seq`, always positive. A `seq` is never reused, so an index names one row for
/// ever: it is its own generation.
///
/// ```
/// use backcast_core::RowIndex;
/// let index = RowIndex::new(3, 1_000);
/// assert_eq!((index.lane(), index.seq()), (3, 1_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowIndex(pub i64);

impl RowIndex {
    /// What an append returns for a lane on which it wrote no row; negative, and no row's index.
    pub const NONE: Self = Self(-1);

    /// The index of row `seq` of `lane`; both are cut to their bits.
    #[must_use]
    pub fn new(lane: u32, seq: u64) -> Self {
        Self(i64::from(lane & 0x7fff) << 48 | (seq & (MAX_SEQ - 1)).cast_signed())
    }

    /// The lane.
    #[must_use]
    pub fn lane(self) -> u32 {
        (self.0.cast_unsigned() >> 48) as u32
    }

    /// The sequence number.
    #[must_use]
    pub fn seq(self) -> u64 {
        self.0.cast_unsigned() & (MAX_SEQ - 1)
    }
}
