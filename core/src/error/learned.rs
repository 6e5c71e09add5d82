//! Errors of learned columns.

use backcast_layout::{DType, MAX_LEARNED_COLUMNS, SegmentError};
use thiserror::Error;

use super::index::BadRowIndex;
use super::lock::LockError;

/// Error of using a table of learned columns.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LearnedError {
    /// A table without columns, or with too many.
    #[error(
        "the table `{table}` is to have {columns} learned columns; give 1 to \
         {MAX_LEARNED_COLUMNS}, such as `value` of f4"
    )]
    BadCount { table: String, columns: usize },
    /// A column that no table can have.
    #[error("the learned column `{column}` cannot be: {problem}")]
    BadColumn { column: String, problem: String },
    /// A column whose key in batches is that of something else.
    #[error(
        "the learned column `{column}` has the keys `{column}` and `{column}_set` in batches, and \
         {taken}; choose another name"
    )]
    Taken { column: String, taken: String },
    /// No such table.
    #[error(
        "the ring has no table `{table}` of learned columns, {}; create it with its columns, such \
         as `value` of f4",
        others(known)
    )]
    NoTable {
        table: String,
        /// Names of the tables of learned columns.
        known: Vec<String>,
    },
    /// No such column.
    #[error("the table `{table}` has no column `{column}`; it has {}", known.join(", "))]
    UnknownColumn {
        table: String,
        column: String,
        /// Names of its columns.
        known: Vec<String>,
    },
    /// Values of another type than the column's.
    #[error(
        "the learned column `{column}` holds {holds}, and the values are {given}; convert them"
    )]
    WrongDType { column: String, holds: DType, given: DType },
    /// The number of values differs from the number of indices.
    #[error("{values} values of `{column}` for {indices} indices; give one for each index")]
    WrongCount { column: String, indices: usize, values: usize },
    /// An index that no batch of the ring can contain.
    #[error(transparent)]
    BadIndex(#[from] BadRowIndex),
    /// Error of a wait for the table's lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Error of the table's file.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

fn others(known: &[String]) -> String {
    if known.is_empty() { "nor any other".to_owned() } else { format!("only {}", known.join(", ")) }
}
