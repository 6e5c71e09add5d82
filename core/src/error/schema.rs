//! Errors of a schema.

use backcast_layout::ColumnError;
use thiserror::Error;

use crate::batch_key::reserved;

/// Error of columns that do not form a schema.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// A column is invalid.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// A schema without columns.
    #[error("the schema has no column; give at least one, such as `obs`")]
    Empty,
    /// More columns than a ring can have.
    #[error("the schema has {asked} columns, the limit is {limit}; merge some into one array")]
    TooManyColumns { asked: usize, limit: usize },
    /// The name is reserved for batches, or for the row headers.
    #[error(
        "column name `{name}` is reserved: batches use {} and all names that begin with next_ or \
         n_next; choose another name",
        reserved()
    )]
    Reserved { name: String },
    /// A column `policy_version` that is not one whole number of a step.
    #[error(
        "column `{name}` is {found}, and batches compute `policy_age` from `policy_version`, one \
         whole number a row with the role \"step\"; make it `policy_version` of u4 or i8, or \
         choose another name"
    )]
    BadPolicyVersion { name: String, found: String },
    /// Two columns of one name, or one inside the other.
    #[error(
        "columns `{name}` and `{other}` collide: a name is used once, and is either an array or a \
         group of arrays; rename one"
    )]
    Conflict { name: String, other: String },
    /// The file of a ring lacks the built-in columns.
    #[error("the built-in columns are missing: this is not a ring of Backcast")]
    NotOurs,
}
