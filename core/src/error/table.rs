//! Errors of tables of claims, and of removing a table of any kind.

use backcast_layout::SegmentError;
use thiserror::Error;

use super::lock::LockError;

/// Error of using a table of claims, or of removing a table.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// `max_times_sampled` is out of range for the selector.
    #[error(
        "max_times_sampled is {times}{}",
        if *.selector == "epoch" {
            " for the selector epoch, whose passes never end; leave it out"
        } else {
            "; give 1 or more"
        }
    )]
    BadTimes { selector: &'static str, times: u32 },
    /// Error of a wait for the table's lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Error of the table's file.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}
