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
    TimedOut { want: u64, have: u64, waited_ms: u128, reason: String },
    /// The wait is for more transitions than the ring can hold.
    #[error(
        "waiting for {want} transitions, a ring of {capacity} rows holds at most {most} (the \
         newest row of each lane has no successor yet); wait for fewer"
    )]
    Never { want: u64, capacity: u64, most: u64 },
    /// The time-out has passed before enough rows were published.
    #[error(
        "{have} rows are published after {waited_ms} ms, waited for {want}: {reason}; \
         `backcast stat` shows the lanes"
    )]
    TooFewRows { want: u64, have: u64, waited_ms: u128, reason: String },
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
