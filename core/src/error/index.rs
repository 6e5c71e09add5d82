//! Error of an index that names no row.

use std::ops::Range;

use thiserror::Error;

use crate::index::RowIndex;

/// An index that no batch of the ring can contain.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "index[{position}] = {index} (lane {lane}, row {seq}) is not a row of this ring: {reason}; \
     give what a batch of this ring had as its index"
)]
#[non_exhaustive]
pub struct BadRowIndex {
    /// Position in the caller's array.
    pub position: usize,
    /// The index.
    pub index: i64,
    /// Lane of the index.
    pub lane: u32,
    /// Sequence number of the index.
    pub seq: u64,
    /// Reason.
    pub reason: &'static str,
}

impl BadRowIndex {
    /// Refuses an index that no batch of a ring can have had. `rows` are the readable rows of every
    /// lane. [`RowIndex::NONE`] and the index of a row that was dropped or overwritten pass.
    pub(crate) fn check(position: usize, index: i64, rows: &[Range<u64>]) -> Result<(), Self> {
        let row = RowIndex(index);
        let Some(reason) = row.problem_in(rows) else { return Ok(()) };
        Err(Self { position, index, lane: row.lane(), seq: row.seq(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_refused_with_its_position_lane_row_and_reason() {
        let rows = [5..9, 0..3];
        let index = |lane, seq| RowIndex::new(lane, seq).0;
        for passes in [index(0, 8), index(0, 0), index(1, 2), RowIndex::NONE.0] {
            assert_eq!(BadRowIndex::check(0, passes, &rows), Ok(()), "{passes}");
        }
        let reasons = [(0, 9), (1, 3), (2, 0)].map(|(lane, seq)| {
            let index = index(lane, seq);
            let error = BadRowIndex::check(7, index, &rows).unwrap_err();
            assert_eq!((error.position, error.index, error.lane, error.seq), (7, index, lane, seq));
            let text = error.to_string();
            for value in ["index[7]", &index.to_string(), error.reason] {
                assert!(text.contains(value), "{text} lacks {value}");
            }
            error.reason
        });
        assert_eq!(reasons[0], reasons[1]);
        assert_ne!(reasons[0], reasons[2], "a lane that is not there is another reason");
    }
}
