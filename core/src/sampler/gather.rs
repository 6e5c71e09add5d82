//! The gather engine: from drawn or named rows to the arenas of a batch.
//!
//! A batch is gathered in micro-batches. Each is selected, prefetched, inspected, copied and
//! validated, and the one after it is prefetched meanwhile:
//!
//! - [`finder`]: finds the rows of the items, in the steps of [`select`] and [`inspect`];
//! - [`select`]: chooses the rows of the items and locates their windows;
//! - [`micro_batch`]: rows and windows of a micro-batch as a structure of arrays, and a bitmask of
//!   the irregular items (over the lane's end, at an episode boundary, or overtaken by a writer);
//! - [`arena_writer`]: fills the arenas with all regular items of a micro-batch, one field after
//!   the other: copies rows, computes n-step returns, and sets masks and flags;
//! - [`inspect`]: reads the row headers around an irregular item, and draws it again if no
//!   transition starts there;
//! - [`irregular_item`]: copies one irregular item, with its masks and repeated observations;
//! - [`fill`]: takes micro-batches through these steps, and draws items again whose rows a writer
//!   overwrites meanwhile;
//! - [`learned`]: joins the values that learners attached to the rows;
//! - [`points`]: the points between these steps at which tests change the ring;
//! - [`rows`]: gathers single rows, regardless of episodes, with the same copies.

mod arena_writer;
mod fill;
mod finder;
mod inspect;
mod irregular_item;
mod learned;
mod micro_batch;
mod points;
mod request;
mod rows;
mod select;

use self::arena_writer::Scratch;
pub(super) use self::arena_writer::{read_real, write_real};
pub(super) use self::fill::Gathered;
pub(super) use self::finder::RowSource;
pub(super) use self::request::{BatchRequest, MAX_ATTEMPTS, MissingRows};
pub use self::rows::GatherTarget;
use super::plans::BatchPlans;
use crate::error::SampleError;
use crate::row_header::RowHeader;
use crate::table::LearnedValues;

/// Gather engine of a sampler: the plans of its batches, what they show besides the rows, and the
/// memory that it uses again.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) plans: BatchPlans,
    /// Constant discount of n-step returns; 0 if there is none.
    gamma: f64,
    /// Values of the learned columns that batches show.
    learned: Option<LearnedValues>,
    /// Memory for the headers of irregular items, and for the rewards and discounts of n-step
    /// returns.
    headers: Vec<RowHeader>,
    sums: Scratch,
}

impl Gather {
    pub(super) fn new(
        plans: BatchPlans,
        gamma: Option<f64>,
        learned: Option<LearnedValues>,
    ) -> Self {
        let (headers, sums) = (Vec::new(), Scratch::default());
        Self { plans, gamma: gamma.unwrap_or(0.0), learned, headers, sums }
    }

    /// Fails if the table of the learned columns was removed since it was opened.
    pub(super) fn check_not_removed(&self) -> Result<(), SampleError> {
        self.learned.as_ref().map_or(Ok(()), |values| Ok(values.check_not_removed()?))
    }
}

#[cfg(test)]
mod tests;
