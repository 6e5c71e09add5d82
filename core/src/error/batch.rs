//! Errors of a key of a batch.

use backcast_layout::DType;
use thiserror::Error;

/// Error of reading a column of a batch.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The batch has no column of that key.
    #[error("the batch has no column `{key}`; it has {}", known.join(", "))]
    UnknownKey {
        key: String,
        /// Keys of the batch.
        known: Vec<String>,
    },
    /// The column has another element type.
    #[error("column `{key}` holds {holds}, not {asked}; ask for {holds} and convert it")]
    WrongDType { key: String, holds: DType, asked: DType },
}
