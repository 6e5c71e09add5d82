//! Errors of waiting for the lock of a table.

use thiserror::Error;

/// Error of a wait for the lock of a table, which another process holds.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum LockError {
    /// The lock was held for too long.
    #[error(
        "the table `{table}` was locked by {holder} for {waited_s:.1} s, and a change takes \
         microseconds; let that process continue (`kill -CONT PID` if it is stopped), or end it: \
         its change is finished by the next one"
    )]
    Busy { table: String, holder: String, waited_s: f64 },
    /// The caller interrupted the wait.
    #[error(
        "the wait for the table `{table}`, which is locked by {holder}, was interrupted after \
         {waited_s:.1} s; call again"
    )]
    Interrupted { table: String, holder: String, waited_s: f64 },
}
