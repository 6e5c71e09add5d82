//! The built-in columns of a row: 24 bytes that stand together, so that a row's is one cache line
//! and not four.

use backcast_layout::protocol::Words;
use backcast_layout::{Column, ColumnError, DType, FoundRow, Lane, Role, RowFinder};
use bytemuck::{Pod, Zeroable};

use crate::episode::{FINAL, GAP, TERMINATED, TRUNCATED};

/// Column number of the marks in a lane's file.
pub(crate) const MARKS: usize = 0;
/// The marks' column in the file. Nobody else may call a column so.
pub(crate) const NAME: &str = "seq.episode.t.flags";

/// What a row says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Mark {
    /// The row's own sequence number: a tripwire for lying peers.
    pub(crate) seq: u64,
    /// Counted per lane.
    pub(crate) episode: u64,
    /// Step in the episode.
    pub(crate) t: u32,
    pub(crate) flags: u32,
}

/// The mark of a row, to be asked for and copied.
pub(crate) type FoundMark<'a> = FoundRow<'a, WORDS>;
/// Finds marks.
pub(crate) type MarkFinder<'a> = RowFinder<'a, WORDS>;

/// Of a mark, of eight bytes.
pub(crate) const WORDS: usize = size_of::<Mark>() / size_of::<u64>();

/// A built-in column, as readers see it: a part of every mark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) dtype: DType,
    /// First byte in the mark.
    pub(crate) offset: usize,
}

/// The parts, in order; without gaps.
pub(crate) const PARTS: [Part; 4] = [
    Part { name: "seq", dtype: DType::U64, offset: 0 },
    Part { name: "episode", dtype: DType::U64, offset: 8 },
    Part { name: "t", dtype: DType::U32, offset: 16 },
    Part { name: "flags", dtype: DType::U32, offset: 20 },
];

impl Mark {
    /// The column of the file.
    pub(crate) fn column() -> Result<Column, ColumnError> {
        Column::new(NAME, DType::U64, &[3], Role::Step)
    }

    /// Whether it may be the mark of the row after one: it goes on with the episode, or begins one.
    ///
    /// What readers ask the last mark of a window rests on it: a row at step `t` has as many rows of its episode
    /// before it, and those but the first have no flag.
    pub(crate) fn may_follow(&self, before: &Self) -> bool {
        let ended = before.flags & (TERMINATED | TRUNCATED) != 0;
        self.t == 0
            || (self.episode == before.episode
                && self.t == before.t.saturating_add(1)
                && self.flags & GAP == 0
                && before.flags & FINAL == 0
                && (!ended || self.flags & FINAL != 0))
    }

    /// The mark as it stands in memory, in registers.
    #[inline]
    pub(crate) fn words(self) -> [u64; 3] {
        let Self { seq, episode, t, flags } = self;
        let [t, flags] = [t, flags].map(u64::from);
        // The lower half stands first.
        [
            seq,
            episode,
            if cfg!(target_endian = "little") { flags << 32 | t } else { t << 32 | flags },
        ]
    }

    /// The mark whose [`words`](Self::words) these are.
    #[inline]
    pub(crate) fn of_words([seq, episode, last]: [u64; 3]) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (low, high) = (last as u32, (last >> 32) as u32);
        let (t, flags) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        Self { seq, episode, t, flags }
    }

    /// Copies the marks of as many rows as `out` has places. To be validated like any copy.
    #[inline]
    pub(crate) fn read_into(lane: &impl Words, slot: u64, out: &mut [Mark]) {
        let rows = out.len() as u64;
        lane.copy_out(MARKS, slot, rows, bytemuck::cast_slice_mut(out));
    }

    /// Finds marks in a lane, and in those that share the list of its columns.
    pub(crate) fn finder(lane: &Lane) -> MarkFinder<'_> {
        RowFinder::of(lane, MARKS)
    }

    /// A copy of what was found. To be validated like any copy.
    #[inline]
    pub(crate) fn of(found: FoundMark<'_>) -> Self {
        Self::of_words(found.words())
    }

    /// A copy of the mark of row `seq`, whatever stands in its slot.
    pub(crate) fn read(lane: &impl Words, seq: u64) -> Mark {
        let mut mark = [Mark::default()];
        Self::read_into(lane, seq % lane.slots(), &mut mark);
        mark[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_fields() {
        let mark = Mark { seq: 1, episode: 2, t: 3, flags: 4 };
        let bytes = bytemuck::bytes_of(&mark);
        let mut end = 0;
        for (value, part) in (1..).zip(PARTS) {
            assert_eq!(part.offset, end, "{}", part.name);
            end += part.dtype.size();
            let mut found = [0; 8];
            found[..part.dtype.size()].copy_from_slice(&bytes[part.offset..end]);
            assert_eq!(u64::from_ne_bytes(found), value, "{}", part.name);
        }
        assert_eq!(mark.words(), bytemuck::cast::<_, [u64; 3]>(mark));
        assert_eq!(Mark::of_words(mark.words()), mark);
        assert_eq!((end, Mark::column().unwrap().width()), (size_of::<Mark>(), end));
    }
}
