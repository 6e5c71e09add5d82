//! Tables of claims: in each pass a row goes to one of the samplers that name the table. Tables of
//! learned columns: values that learners attach to rows.

mod claims;
mod learned;
mod options;
pub(crate) mod permutation;
pub(crate) mod row_order;
mod state;
mod times;

pub use self::claims::Table;
pub(crate) use self::claims::{ClaimPlace, Claims, new_rows};
pub use self::learned::{LaneValues, LearnedOptions, LearnedState, LearnedValues};
pub(crate) use self::learned::{SET, element};
pub use self::options::TableOptions;
pub use self::times::TimesBin;
