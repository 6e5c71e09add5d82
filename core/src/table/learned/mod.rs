//! Learned columns: values that learners attach to rows, in a table that all processes share.

mod options;
mod state;
mod values;

pub use self::options::LearnedOptions;
pub use self::state::{LaneValues, LearnedState};
pub use self::values::LearnedValues;
pub(crate) use self::values::element;

/// Suffix of the key that tells which values were set.
pub(crate) const SET: &str = "_set";
