//! Errors that end a wait.

use thiserror::Error;

/// Error of a wait.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The time-out has passed.
    #[error(
        "the ring holds {have} transitions after {waited_ms} ms, waited for {want}: {reason}; \
         `backcast stat` shows the lanes"
    )]
    TimedOut {
        /// Transitions waited for.
        want: u64,
        /// Transitions in the ring.
        have: u64,
        /// Milliseconds waited.
        waited_ms: u128,
        /// Rows that wait for their successors, and the writers.
        reason: String,
    },
    /// The wait is for more transitions than the ring can hold.
    #[error(
        "waiting for {want} transitions, a ring of {capacity} rows holds at most {most} (the \
         newest row of each lane has no successor yet); wait for fewer"
    )]
    Never {
        /// Transitions waited for.
        want: u64,
        /// Capacity of the ring, rows.
        capacity: u64,
        /// Maximum transitions that the ring can hold.
        most: u64,
    },
    /// The time-out has passed before enough rows were published.
    #[error(
        "{have} rows are published after {waited_ms} ms, waited for {want}: {reason}; \
         `backcast stat` shows the lanes"
    )]
    TooFewRows {
        /// Rows waited for.
        want: u64,
        /// Rows published since the ring was made.
        have: u64,
        /// Milliseconds waited.
        waited_ms: u128,
        /// The writers.
        reason: String,
    },
    /// The ring was removed or replaced, and its handle refuses further use.
    #[error(
        "the ring waited for was removed or replaced: writers that attach by name fill another \
         one; attach again, or attach with on_unlinked \"warn\" to keep waiting"
    )]
    Unlinked,
    /// The caller interrupted the wait.
    #[error("the wait was interrupted")]
    Interrupted,
}
