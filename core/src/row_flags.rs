//! Flags of a row, one bit each.
//!
//! [`FINAL`] rows make a second copy of every observation unnecessary. An episode of n transitions
//! takes n + 1 rows, and the last row holds the observation after the last step. The writer adds it
//! (`writer/rows`); no transition starts at it.

/// Flag: the action of this row ended the episode.
pub const TERMINATED: u32 = 1;
/// Flag: something outside the episode ended it after this row.
pub const TRUNCATED: u32 = 2;
/// Flag: this row holds the final observation of an episode; its step columns are zero. No
/// transition starts at it.
pub const FINAL: u32 = 4;
/// Flag: this row does not continue the row before it.
pub const GAP: u32 = 8;

/// Returns whether a transition starts at a row with these flags, if the next row has the flags
/// `next`.
#[inline]
pub(crate) fn transition_starts(flags: u32, next: u32) -> bool {
    flags & FINAL == 0 && next & GAP == 0
}
