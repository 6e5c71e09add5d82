//! Errors of hindsight relabelling.

use backcast_layout::ShownNumber;
use thiserror::Error;

/// Error of relabelling goals in hindsight.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum HindsightError {
    /// A ratio out of range.
    #[error(
        "the ratio of relabelled transitions is {}; give 0 to 1, 0.8 for a k of 4",
        ShownNumber(*ratio)
    )]
    BadRatio {
        /// Requested ratio.
        ratio: f64,
    },
    /// A goal column that the ring lacks.
    #[error(
        "hindsight needs the {what} column `{name}`, and the ring has {}; name the column that \
         holds it",
        .known.join(", ")
    )]
    NoColumn { what: &'static str, name: String, known: Vec<String> },
    /// A goal column that is no observation, so that it has no value after the transition.
    #[error(
        "the {what} column `{name}` is no observation, so a transition has none after it; create \
         the ring with role \"obs\" for it, or name it `obs/{name}`"
    )]
    NotObserved { what: &'static str, name: String },
    /// Achieved and desired goals of different types.
    #[error(
        "`{achieved}` is {achieved_type} and `{desired}` is {desired_type}; an achieved goal is \
         stored as the desired one, so give both the same dtype and shape"
    )]
    Differ { achieved: String, achieved_type: String, desired: String, desired_type: String },
    /// A column that batches do not show, or with another window than the rewards have.
    #[error(
        "`{name}` is left out of the batch, or has another window than `reward`; hindsight needs \
         the same window of `{name}` and `reward`"
    )]
    OtherWindow { name: String },
    /// The rewards cannot be replaced.
    #[error(
        "hindsight replaces the column `reward`, one f4 or f8 a row; {found}; create the ring with \
         a column `reward` of f4"
    )]
    BadReward { found: String },
    /// n-step returns over more transitions than the batch shows.
    #[error(
        "n_step {n_step} with hindsight sums new rewards over the future window, and future is \
         {future}; give future {} or more",
        .n_step.saturating_sub(1)
    )]
    ShortFuture { n_step: u32, future: u32 },
    /// No function computes the rewards of new goals.
    #[error(
        "the sampler relabels goals in hindsight and has no reward function; give one with \
         `Sampler::rewards`"
    )]
    NoRewards,
    /// No function computes the terminations of new goals.
    #[error(
        "the sampler relabels terminations in hindsight and has no function for them; give one \
         with `Sampler::terminations`"
    )]
    NoTerminations,
    /// A function for terminations that are not relabelled.
    #[error(
        "the sampler has a function for terminations in hindsight and does not relabel them; set \
         `Hindsight::terminated`, or leave `Sampler::terminations` out"
    )]
    UnusedTerminations,
    /// A discount of 0 where a transition is not terminated any more.
    #[error(
        "the new goal does not terminate row {row} of lane {lane}, whose stored discount is 0, so \
         that nothing can be bootstrapped there; store the discount as it would be without the \
         end: `terminated` says that the episode ends"
    )]
    NoDiscount { lane: u32, row: u64 },
}
