//! Errors of a step, and of a lease or a removal that stops it.

use backcast_layout::DType;
use thiserror::Error;

use super::limiter::LimitError;
use crate::autoreset::AutoresetMode;

/// Error of appending steps. Except for [`After`](Self::After), no row was appended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// Steps of one call were appended before one of them failed.
    #[error("{appended} of {asked} steps were appended, and then: {source}")]
    After { appended: usize, asked: usize, source: Box<AppendError> },
    /// A column of the schema is not in the step.
    #[error("column `{name}` is missing from the step; give every column of the schema")]
    MissingColumn { name: String },
    /// The step has a column that the schema lacks.
    #[error("the schema has no column `{name}`; the step takes {}", known.join(", "))]
    UnknownColumn {
        name: String,
        /// Columns that the step may have.
        known: Vec<String>,
    },
    /// The step was made for another schema than the ring's.
    #[error(
        "the step was made for another schema: its column {at} is {step}, that of the ring is \
         {ring}; make the step with the schema of the writer"
    )]
    OtherSchema { at: usize, step: String, ring: String },
    /// The step has another number of columns than the schema.
    #[error("the step has {got} columns, the schema has {expected}; give each once, in order")]
    WrongColumnCount { got: usize, expected: usize },
    /// An observation has another number of columns than the schema has of role obs.
    #[error(
        "`{name}` has {got} columns, the schema has {expected} of role obs; give each of those \
         once, in order"
    )]
    WrongObsCount { name: &'static str, got: usize, expected: usize },
    /// A column of another element type. Python's writer converts, or refuses, before it gets here.
    #[error("column `{name}` holds {expected}, the step gives {got}; convert it first")]
    WrongDType { name: String, expected: DType, got: DType },
    /// A row reserved by a writer of several lanes.
    #[error(
        "a row is reserved by a writer of 1 lane, this one has {lanes}; make a writer of 1 lane, \
         or append"
    )]
    NotReservable { lanes: usize },
    /// A column of the reserved row was not written.
    #[error("column `{name}` of the reserved row was not written; write every column, or append")]
    NotWritten { name: String },
    /// Values that do not fit a column of the reserved row.
    #[error(
        "{values} elements from element {at} on do not fit a column of {items}; write fewer, or \
         begin earlier"
    )]
    BeyondColumn { at: usize, values: usize, items: usize },
    /// A column of another size.
    #[error(
        "column `{name}` needs {expected} bytes ({}{lanes} lanes × {width} bytes a row), the step \
         gives {got}; the leading axis is the writer's lanes",
        steps_before(*steps, " steps × ")
    )]
    WrongSize {
        name: String,
        expected: usize,
        got: usize,
        /// Steps of the call.
        steps: usize,
        lanes: usize,
        width: usize,
    },
    /// A flag array of another length.
    #[error(
        "`{name}` has {got} flags, the writer has {}{lanes} lane(s); give one per lane",
        steps_before(*steps, " steps of ")
    )]
    WrongFlags {
        name: &'static str,
        got: usize,
        /// Steps of the call.
        steps: usize,
        lanes: usize,
    },
    /// A lane ended and its final observation is missing.
    #[error("lane {lane} ended, but {}", missing_final(*mode))]
    MissingFinalObs {
        lane: usize,
        /// The writer's mode.
        mode: AutoresetMode,
    },
    /// A final observation in next-step mode.
    #[error(
        "`final_obs` was given, but in autoreset_mode \"next_step\" the append after an end brings \
         the final observation; leave it out, or make the writer with autoreset_mode \"same_step\""
    )]
    UnexpectedFinalObs,
    /// The lane has too few sequence numbers left: the limit is 2^48 rows.
    #[error("lane {lane} has had {rows} rows, the limit; create a new ring")]
    LaneWornOut { lane: usize, rows: u64 },
    /// A lease blocks the row, and the ring's lane policy is to fail.
    #[error(
        "lane {lane} cannot take a row: reader slot {slot} (process {pid}) has leased its rows \
         from {start} on, and lane_policy is \"fail\"; close the lease, or create the ring with \
         lane_policy \"block\""
    )]
    Leased { lane: u32, slot: u32, pid: u64, start: u64 },
    /// The ring was removed or replaced, and its handle refuses further use.
    #[error(
        "ring `{ring}` was removed or replaced: a process that attaches by name would not see \
         these rows, and none was appended; attach again and create another writer, or attach with \
         on_unlinked \"warn\""
    )]
    Unlinked { ring: String },
    /// Error of the rate limiter.
    #[error(transparent)]
    Limited(#[from] LimitError),
    /// The caller interrupted the wait for a lease.
    #[error("the append was interrupted while it waited {waited_ms} ms for a lease; append again")]
    Interrupted { waited_ms: u128 },
    /// The call would have to wait, for a lease or the rate limiter.
    #[error(
        "a lease or the rate limiter holds the call back; try again, or make the call that waits: \
         `append` in place of `try_append`, `restart` in place of `try_restart`"
    )]
    WouldWait,
}

/// Names the missing observation of an end, and both remedies.
fn missing_final(mode: AutoresetMode) -> &'static str {
    if mode == AutoresetMode::SameStep {
        "`final_obs` is missing, which autoreset_mode \"same_step\" needs at an end: give \
         `final_obs`, since `next_obs` is the reset's observation there; or, if `next_obs` holds \
         the final observation, as in SB3, make the writer with autoreset_mode \"disabled\""
    } else {
        "`next_obs` and `final_obs` are missing, of which autoreset_mode \"disabled\" needs one at \
         an end: give `next_obs`, the observation that the step led to, at every append; or, if \
         the environment resets itself, make the writer with autoreset_mode \"same_step\" or \
         \"next_step\""
    }
}

/// Returns the number of steps of a call followed by `words`, or nothing for one step.
fn steps_before(steps: usize, words: &str) -> String {
    if steps == 1 { String::new() } else { format!("{steps}{words}") }
}
