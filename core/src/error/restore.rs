//! Errors of a ring that is created with rows in it.

use backcast_layout::{ObjectKind, SegmentError};
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
    Taken { kind: ObjectKind, name: String, state: &'static str },
    /// A lane that the ring lacks.
    #[error("there is no lane {lane}: the ring has {lanes}; make it with as many as the rows have")]
    NoSuchLane { lane: u32, lanes: u32 },
    /// More rows than a lane keeps, or a range that no lane can have.
    #[error(
        "lane {lane} cannot have the rows {from}..{to}: it keeps {limit} rows; give its newest \
         ones, in ascending order and below 2^48, or make the ring larger"
    )]
    BadRange { lane: u32, from: u64, to: u64, limit: u64 },
    /// A lane that was begun before.
    #[error("lane {lane} was begun twice; it is still to get the rows {from}..{to}")]
    BegunTwice { lane: u32, from: u64, to: u64 },
    /// Rows of a lane whose range is not known.
    #[error("lane {lane} has no range yet; begin it before its rows are given")]
    NotBegun { lane: u32 },
    /// More rows than the range of the lane has.
    #[error("{rows} rows are more than lane {lane} lacks, which is {from}..{to}")]
    TooManyRows { lane: u32, rows: u64, from: u64, to: u64 },
    /// Fewer rows than the range of a lane has.
    #[error("lane {lane} still lacks the rows {from}..{to}; the ring was not made")]
    Incomplete { lane: u32, from: u64, to: u64 },
    /// A row whose sequence number is not the next one.
    #[error("row {found} of lane {lane} is not the next one, which is {expected}")]
    OutOfOrder { lane: u32, expected: u64, found: u64 },
    /// A row that continues an episode at a step that does not follow the row before it.
    #[error(
        "row {row} of lane {lane} is step {t} of episode {episode}, and the row before it is not \
         the step before; let an episode whose beginning is missing begin with step 0 and the flag \
         GAP"
    )]
    BrokenEpisode { lane: u32, row: u64, episode: u64, t: u32 },
    /// A state of a table that the ring cannot have.
    #[error("table `{table}` cannot be restored: {problem}; pass a state of this ring's rows")]
    BadTable { table: String, problem: String },
    /// Another number of buffers than columns.
    #[error("{got} buffers given for {expected} columns, the four built-in ones included")]
    WrongColumnCount { got: usize, expected: usize },
    /// A buffer of another size than the rows'.
    #[error("column `{name}` has {got} bytes, not {rows} rows of {width}")]
    WrongSize { name: String, rows: u64, width: usize, got: usize },
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
