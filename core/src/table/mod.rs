//! Tables of claims: each row goes to one of all samplers that name the table, at most a given
//! number of times.

mod claims;
mod options;
pub(crate) mod permutation;
pub(crate) mod row_order;
mod state;

pub(crate) use self::claims::Claims;
pub use self::claims::Table;
pub use self::options::TableOptions;
