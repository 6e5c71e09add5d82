//! Tables of claims: each row goes to one of all samplers that name the table, at most a given
//! number of times. Tables of learned columns: values that learners attach to rows.

mod claims;
mod learned;
mod options;
pub(crate) mod permutation;
pub(crate) mod row_order;
mod state;
mod times;

pub use self::claims::Table;
pub(crate) use self::claims::{ClaimPlace, Claims};
pub use self::learned::{LaneValues, LearnedOptions, LearnedState, LearnedValues};
pub(crate) use self::learned::{SET, element};
pub use self::options::TableOptions;
pub use self::times::TimesBin;
