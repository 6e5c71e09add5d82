//! Flags of a row.

/// Flag: the action of this row ended the episode.
pub const TERMINATED: u32 = 1;
/// Flag: something outside the episode ended it after this row.
pub const TRUNCATED: u32 = 2;
/// Flag: this row holds the final observation; its step columns are zero.
pub const FINAL: u32 = 4;
/// Flag: this row does not continue the row before it.
pub const GAP: u32 = 8;
