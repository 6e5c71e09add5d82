//! Errors of reading rows, in place or by a copy.

use backcast_layout::{ReaderPinsError, SegmentError, binary_size};
use thiserror::Error;

/// Error of leasing rows. Nothing is pinned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The ring grants no leases: its writers overwrite rows regardless.
    #[error(
        "this ring grants no leases (lane_policy is \"overwrite\"); copy rows with `rows` or \
         `sample`, or create the ring with lane_policy \"block\""
    )]
    Overwrite,
    /// The ring has fewer lanes.
    #[error("there is no lane {lane}; the ring has lanes 0 to {}", lanes.saturating_sub(1))]
    NoSuchLane {
        lane: u64,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// A lease of no row, or of more rows than the limit.
    #[error(
        "a lease of {asked} rows is not possible, the limits are 1 and {limit} (a quarter of the \
         {lane_capacity} rows of a lane); lease fewer rows, or create the ring with a larger \
         capacity"
    )]
    BadLength { asked: u64, limit: u64, lane_capacity: u64 },
    /// Rows that are not published yet, or that were overwritten or dropped.
    #[error(
        "rows {from}..{to} of lane {lane} are not readable: it {}",
        holds(*oldest, *head, "lease")
    )]
    NotReadable {
        lane: u32,
        from: u64,
        to: u64,
        /// Oldest row readable.
        oldest: u64,
        /// One past the newest row readable.
        head: u64,
    },
    /// Rows of a ring in private memory that are not contiguous.
    #[error(
        "rows {from}..{to} of lane {lane} run over the end of a ring in private memory after row \
         {split}; lease up to there, or give the ring a name"
    )]
    Wraps { lane: u32, from: u64, to: u64, split: u64 },
    /// Every reader slot is taken.
    #[error(
        "all {slots} reader slots of the ring are taken; close a sampler or lease in some process, \
         or create the ring with more `reader_slots`"
    )]
    NoSlot { slots: u32 },
    /// The writer overwrote the rows first, or the handle holds too many leases.
    #[error(transparent)]
    Pins(#[from] ReaderPinsError),
    /// The rows are not the requested ones: a faulty process wrote into the lane.
    #[error(
        "row {seq} of lane {lane} is damaged: its sequence number is {found}; create the ring \
         again"
    )]
    Damaged { lane: u32, seq: u64, found: u64 },
    /// Error of the reader's slot.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// Error of reading rows.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// Rows that do not fit in memory.
    #[error(
        "{rows} rows take {}, more than can be allocated; copy fewer at a time, or lease them with \
         `lease`",
        binary_size(*.bytes as u64)
    )]
    TooLarge { rows: usize, bytes: usize },
    /// The ring has fewer lanes.
    #[error("there is no lane {lane}; the ring has lanes 0 to {}", lanes.saturating_sub(1))]
    NoSuchLane {
        lane: u64,
        /// Lanes of the ring.
        lanes: u32,
    },
    /// Rows that are not published yet, or that were overwritten or dropped.
    #[error(
        "rows {from}..{to} of lane {lane} are not readable: it {}",
        holds(*oldest, *head, "ask for")
    )]
    NotReadable {
        lane: u32,
        from: u64,
        to: u64,
        /// Oldest row readable.
        oldest: u64,
        /// One past the newest row readable.
        head: u64,
    },
    /// Another number of buffers than the rows have columns.
    #[error(
        "{got} buffers for rows of {expected} columns; give one per column: seq, episode, t, \
         flags, then those of the schema"
    )]
    BadBufferCount { got: usize, expected: usize },
    /// A buffer of another size than the rows need.
    #[error("the buffer for `{column}` has {got} bytes; give {expected}, as the rows have")]
    BadBuffer { column: String, got: usize, expected: usize },
    /// The writer overwrote the rows during the copy.
    #[error(
        "rows {from}..{to} of lane {lane} were overwritten while they were read; \
         read newer or fewer rows, or create the ring with a larger capacity"
    )]
    Lapped { lane: u32, from: u64, to: u64 },
}

/// Describes the rows of a lane, and the remedy.
pub(super) fn holds(oldest: u64, head: u64, what_to_do: &str) -> String {
    if head == 0 {
        return "holds no row yet; wait for its writer with `wait`".to_owned();
    }
    if oldest == head {
        return format!(
            "holds no row now, as those before row {head} were dropped; wait for newer ones with \
             `wait`"
        );
    }
    format!("holds rows {oldest}..{head} now; {what_to_do} some of those")
}
