//! Row headers: the built-in columns of a row, 24 bytes side by side, so that reading them touches
//! one or two cache lines and not four.

use backcast_layout::protocol::Words;
use backcast_layout::{Column, ColumnError, DType, Role};
use bytemuck::{Pod, Zeroable};

use crate::row_flags::{FINAL, GAP, TERMINATED, TRUNCATED, transition_starts};

/// Number of the headers' column in a lane's file.
pub(crate) const ROW_HEADERS: usize = 0;
/// Name of the headers' column in the file. No other column may have it.
pub(crate) const NAME: &str = "seq.episode.t.flags";

/// Sequence number, episode, step and flags of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RowHeader {
    /// Sequence number of the row; detects headers that were overwritten or are corrupt.
    pub(crate) seq: u64,
    /// Number of the episode in its lane.
    pub(crate) episode: u64,
    /// Step in the episode.
    pub(crate) t: u32,
    pub(crate) flags: u32,
}

/// Words of eight bytes in a header.
pub(crate) const WORDS: usize = size_of::<RowHeader>() / size_of::<u64>();

/// A built-in column, stored as a part of every row header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) dtype: DType,
    /// First byte in the header.
    pub(crate) offset: usize,
}

/// The parts, in order and without gaps.
pub(crate) const PARTS: [Part; 4] = [
    Part { name: "seq", dtype: DType::U64, offset: 0 },
    Part { name: "episode", dtype: DType::U64, offset: 8 },
    Part { name: "t", dtype: DType::U32, offset: 16 },
    Part { name: "flags", dtype: DType::U32, offset: 20 },
];

/// Returns whether a transition starts at row `seq`, by its header and the next one's. Returns
/// `false` for rows that were overwritten meanwhile.
pub(crate) fn starts_transition(pair: &[RowHeader], seq: u64) -> bool {
    let [row, next] = pair else { return false };
    (row.seq, next.seq) == (seq, seq + 1) && transition_starts(row.flags, next.flags)
}

impl RowHeader {
    /// Returns the column that stores the headers in a lane's file.
    pub(crate) fn column() -> Result<Column, ColumnError> {
        Column::new(NAME, DType::U64, &[3], Role::Step)
    }

    /// Returns whether this may be the header of the row after `before`: it continues the episode,
    /// or begins one.
    ///
    /// `Window::is_interior` of the sampler relies on this. A row without flags at step `t` has `t`
    /// rows of its episode before it, and only the first of those may have a flag.
    pub(crate) fn may_follow(&self, before: &Self) -> bool {
        let ended = before.flags & (TERMINATED | TRUNCATED) != 0;
        self.t == 0
            || (self.episode == before.episode
                && self.t == before.t.saturating_add(1)
                && self.flags & GAP == 0
                && before.flags & FINAL == 0
                && (!ended || self.flags & FINAL != 0))
    }

    /// Returns the header as the words that lie in memory.
    #[inline]
    pub(crate) fn words(self) -> [u64; 3] {
        let Self { seq, episode, t, flags } = self;
        let [t, flags] = [t, flags].map(u64::from);
        // `t` comes first in memory.
        [
            seq,
            episode,
            if cfg!(target_endian = "little") { flags << 32 | t } else { t << 32 | flags },
        ]
    }

    /// Returns the header with these [`words`](Self::words).
    #[inline]
    pub(crate) fn of_words([seq, episode, last]: [u64; 3]) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (low, high) = (last as u32, (last >> 32) as u32);
        let (t, flags) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        Self { seq, episode, t, flags }
    }

    /// Copies the headers of `out.len()` rows. The caller validates the copy.
    #[inline]
    pub(crate) fn read_into(lane: &impl Words, slot: u64, out: &mut [RowHeader]) {
        let rows = out.len() as u64;
        lane.copy_out(ROW_HEADERS, slot, rows, bytemuck::cast_slice_mut(out));
    }

    /// Copies the header in the slot of row `seq`, which may be another row's.
    pub(crate) fn read(lane: &impl Words, seq: u64) -> RowHeader {
        let mut header = [RowHeader::default()];
        Self::read_into(lane, seq % lane.slots(), &mut header);
        header[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_fields() {
        let header = RowHeader { seq: 1, episode: 2, t: 3, flags: 4 };
        let bytes = bytemuck::bytes_of(&header);
        let mut end = 0;
        for (value, part) in (1..).zip(PARTS) {
            assert_eq!(part.offset, end, "{}", part.name);
            end += part.dtype.size();
            let mut found = [0; 8];
            found[..part.dtype.size()].copy_from_slice(&bytes[part.offset..end]);
            assert_eq!(u64::from_ne_bytes(found), value, "{}", part.name);
        }
        assert_eq!(header.words(), bytemuck::cast::<_, [u64; 3]>(header));
        assert_eq!(RowHeader::of_words(header.words()), header);
        assert_eq!((end, RowHeader::column().unwrap().width()), (size_of::<RowHeader>(), end));
    }

    /// Returns two headers with flags, of which the second one goes on with the episode.
    fn pair(flags: u32, next: u32) -> [RowHeader; 2] {
        let row = RowHeader { seq: 8, episode: 2, t: 5, flags };
        [row, RowHeader { seq: 9, t: 6, flags: next, ..row }]
    }

    #[test]
    fn a_row_may_follow_one_whose_episode_it_continues_or_begin_an_episode() {
        for (before, flags) in (0..16).flat_map(|row| (0..16).map(move |next| (row, next))) {
            let [row, next] = pair(before, flags);
            let ended = before & TERMINATED != 0 || before & TRUNCATED != 0;
            let continues = if flags & GAP != 0 || before & FINAL != 0 {
                false
            } else if ended {
                flags & FINAL != 0
            } else {
                true
            };
            assert_eq!(next.may_follow(&row), continues, "{before} {flags}");
            for (episode, t) in [(2, 4), (2, 5), (2, 7), (1, 6), (3, 6)] {
                let other = RowHeader { episode, t, ..next };
                assert!(!other.may_follow(&row), "{before} {other:?}");
            }
            for episode in 1..4 {
                assert!(RowHeader { episode, t: 0, ..next }.may_follow(&row), "{before} {flags}");
            }
        }
    }

    #[test]
    fn a_transition_starts_at_a_row_that_is_not_final_and_whose_next_row_goes_on() {
        for (flags, next) in (0..16).flat_map(|flags| (0..16).map(move |next| (flags, next))) {
            let rows = pair(flags, next);
            let starts = flags & FINAL == 0 && next & GAP == 0;
            assert_eq!(starts_transition(&rows, 8), starts, "{flags} {next}");
            assert!(!starts_transition(&rows, 7) && !starts_transition(&rows, 9));
            assert!(!starts_transition(&rows[..1], 8));
            let newer = [rows[0], RowHeader { seq: 10, ..rows[1] }];
            assert!(!starts_transition(&newer, 8), "the next row was overwritten");
        }
    }
}
