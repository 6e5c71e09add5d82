//! Errors of a ring that is created with rows in it.

use backcast_layout::{Kind, SegmentError};
use thiserror::Error;

use super::ring::RingError;

/// Error of creating a ring with rows in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Error of the ring itself.
    #[error(transparent)]
    Ring(RingError),
    /// The name is taken, and restored rows cannot be added to an existing ring.
    #[error(
        "a {kind} named `{name}` already exists ({state}); choose another name, use \
         exist \"replace\" to start over, or `backcast rm {name}`"
    )]
    Taken {
        /// Ring or panel.
        kind: Kind,
        /// Requested name.
        name: String,
        /// Reason why the name is taken, as in [`SegmentError::AlreadyExists`].
        state: &'static str,
    },
    /// A lane that the ring lacks.
    #[error("there is no lane {lane}: the ring has {lanes}; make it with as many as the rows have")]
    NoSuchLane {
        /// Lane given.
        lane: u32,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// More rows than a lane keeps, or a range that no lane can have.
    #[error(
        "lane {lane} cannot have the rows {from}..{to}: it keeps {limit} rows; give its newest \
         ones, in ascending order and below 2^48, or make the ring larger"
    )]
    BadRange {
        /// Lane.
        lane: u32,
        /// First row.
        from: u64,
        /// One past the last row.
        to: u64,
        /// Rows a lane keeps.
        limit: u64,
    },
    /// A lane that was begun before.
    #[error("lane {lane} was begun twice; it is still to get the rows {from}..{to}")]
    BegunTwice {
        /// Lane.
        lane: u32,
        /// First row missing.
        from: u64,
        /// One past the last row missing.
        to: u64,
    },
    /// Rows of a lane whose range is not known.
    #[error("lane {lane} has no range yet; begin it before its rows are given")]
    NotBegun {
        /// Lane.
        lane: u32,
    },
    /// More rows than the range of the lane has.
    #[error("{rows} rows are more than lane {lane} lacks, which is {from}..{to}")]
    TooManyRows {
        /// Lane.
        lane: u32,
        /// Rows given.
        rows: u64,
        /// First row missing.
        from: u64,
        /// One past the last row missing.
        to: u64,
    },
    /// Fewer rows than the range of a lane has.
    #[error("lane {lane} still lacks the rows {from}..{to}; the ring was not made")]
    Incomplete {
        /// Lane.
        lane: u32,
        /// First row missing.
        from: u64,
        /// One past the last row missing.
        to: u64,
    },
    /// A row whose sequence number is not the next one.
    #[error("row {found} of lane {lane} is not the next one, which is {expected}")]
    OutOfOrder {
        /// Lane.
        lane: u32,
        /// Number of the next row.
        expected: u64,
        /// Number found.
        found: u64,
    },
    /// A row that continues an episode at a step that does not follow the row before it.
    #[error(
        "row {row} of lane {lane} is step {t} of episode {episode}, and the row before it is not \
         the step before; let an episode whose beginning is missing begin with step 0 and the flag \
         GAP"
    )]
    BrokenEpisode {
        /// Lane.
        lane: u32,
        /// Number of the row.
        row: u64,
        /// Episode of the row.
        episode: u64,
        /// Step of the row in its episode.
        t: u32,
    },
    /// A state of a table that the ring cannot have.
    #[error("table `{table}` cannot be restored: {problem}; pass a state of this ring's rows")]
    BadTable {
        /// Name of the table.
        table: String,
        /// Problem of the state.
        problem: String,
    },
    /// Another number of buffers than columns.
    #[error("{got} buffers given for {expected} columns, the four built-in ones included")]
    WrongColumnCount {
        /// Buffers given.
        got: usize,
        /// Columns of the ring.
        expected: usize,
    },
    /// A buffer of another size than the rows'.
    #[error("column `{name}` has {got} bytes, not {rows} rows of {width}")]
    WrongSize {
        /// Column.
        name: String,
        /// Rows given.
        rows: u64,
        /// Bytes of a row.
        width: usize,
        /// Bytes given.
        got: usize,
    },
}

impl From<RingError> for RestoreError {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Segment(SegmentError::AlreadyExists { kind, name, state }) => {
                Self::Taken { kind, name, state }
            }
            error => Self::Ring(error),
        }
    }
}

impl From<SegmentError> for RestoreError {
    fn from(error: SegmentError) -> Self {
        RingError::from(error).into()
    }
}
