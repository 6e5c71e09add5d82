//! Errors of returns over windows.

use backcast_layout::ShownNumber;
use thiserror::Error;

/// Error of computing returns. Nothing was written.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ReturnsError {
    /// An array that has another number of elements than the rewards.
    #[error(
        "{what} has {got} elements, and the rewards have {expected}; give one for each transition, \
         [B, T] in C order"
    )]
    BadLength {
        /// Name of the array.
        what: &'static str,
        /// Elements of the array.
        got: usize,
        /// Elements of the rewards.
        expected: usize,
    },
    /// Rewards that are not whole windows.
    #[error(
        "{rewards} rewards are not whole windows of {steps} transitions; give B * T rewards, with \
         T at least 1"
    )]
    BadSteps {
        /// Number of rewards.
        rewards: usize,
        /// Transitions of a window, T.
        steps: usize,
    },
    /// A discount, or a lambda, out of range.
    #[error("{what} is {}; give 0 to 1", ShownNumber(*value))]
    BadFactor {
        /// `gamma` or `lambda`.
        what: &'static str,
        /// The number.
        value: f64,
    },
}
