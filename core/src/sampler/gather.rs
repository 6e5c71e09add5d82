//! The gather engine: from drawn or named rows to the arenas of a batch.
//!
//! A batch is gathered in micro-batches. Each is selected, prefetched, inspected, copied and
//! validated, and the one after it is prefetched meanwhile:
//!
//! - [`select`]: chooses the rows of the items and locates their windows;
//! - [`micro_batch`]: rows and windows of a micro-batch as a structure of arrays, and a bitmask of
//!   the irregular items (over the lane's end, at an episode boundary, or overtaken by a writer);
//! - [`arena_writer`]: copies a field of all regular items in one loop, then the passes that
//!   compute (n-step returns) or fill (masks, flags);
//! - [`inspect`]: reads the row headers around an irregular item, and draws it again if no
//!   transition starts there;
//! - [`scalar`]: copies one irregular item;
//! - [`learned`]: joins the values that learners attached to the rows;
//! - [`rows`]: gathers single rows, regardless of episodes, with the same copies.

mod arena_writer;
mod fill;
mod inspect;
mod learned;
mod micro_batch;
mod request;
mod rows;
mod scalar;
mod select;

pub(crate) use self::arena_writer::{Scratch, write_real};
pub(crate) use self::request::{BatchRequest, MAX_ATTEMPTS, MissingRows};
pub use self::rows::GatherTarget;

#[cfg(test)]
pub(super) use self::fill::tests;
