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
    BadLength { what: &'static str, got: usize, expected: usize },
    /// A ratio of probabilities that is negative, infinite or no number.
    #[error(
        "ratios[{at}] is {}; give finite numbers from 0 up: the probability of the action under \
         the policy that learns, divided by its probability under the one that acted",
        ShownNumber(*value)
    )]
    BadRatio {
        at: usize,
        /// The ratio.
        value: f64,
    },
    /// A limit of ratios that is not above 0.
    #[error("{what} is {}; give a number above 0, infinity for no limit", ShownNumber(*value))]
    BadClip {
        what: &'static str,
        /// The limit.
        value: f64,
    },
    /// Rewards that are not whole windows.
    #[error(
        "{rewards} rewards are not whole windows of {steps} transitions; give B * T rewards, with \
         T at least 1"
    )]
    BadSteps { rewards: usize, steps: usize },
    /// A discount, or a lambda, out of range.
    #[error("{what} is {}; give 0 to 1", ShownNumber(*value))]
    BadFactor {
        what: &'static str,
        /// The number.
        value: f64,
    },
}
