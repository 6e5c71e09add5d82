//! Gymnasium's contract in arrays: seeds and masks of a reset, results of a step, metrics.

pub(crate) mod metrics;
pub(crate) mod reset;
pub(crate) mod results;
