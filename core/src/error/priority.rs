//! Errors of priorities.

use backcast_layout::{SegmentError, ShownNumber};
use thiserror::Error;

use super::index::BadRowIndex;
use super::lock::LockError;

/// Error of using or setting priorities.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PriorityError {
    /// A setting out of range.
    #[error("{what} is {}; give {wanted}", ShownNumber(*value))]
    BadOption {
        what: &'static str,
        /// Value of the setting.
        value: f64,
        wanted: &'static str,
    },
    /// The sampler draws by no priorities.
    #[error("this sampler does not draw by priority; make it with priorities")]
    NotPrioritised,
    /// A largest value from outside for a table whose exponent can change.
    #[error(
        "the alpha of table `{table}` can change, and a largest value from outside would be of \
         another alpha; make the tables of all shards with one number as alpha"
    )]
    ChangingAlpha { table: String },
    /// A largest value from outside for a table whose rows are drawn by rank.
    #[error(
        "table `{table}` draws by the ranks of one ring's priorities, and a largest value from \
         outside would be of other ranks; make the tables of all shards by priority"
    )]
    RankedLargest { table: String },
    /// An exponent of the table, where samplers have their own.
    #[error(
        "samplers of table `{table}` draw by rank, and each has its own alpha: a number or (first, \
         last, batches); the table has none to follow or to set"
    )]
    RankAlpha { table: String },
    /// The caller's function has not given the exponent of the importance weights yet.
    #[error(
        "beta is a function of the caller, and it has given no number yet; call \
         `Sampler::set_beta` before the draw"
    )]
    NoBeta,
    /// The number of priorities differs from the number of indices.
    #[error("{priorities} priorities for {indices} indices; give one for each index")]
    WrongCount { indices: usize, priorities: usize },
    /// A priority for a row in the middle of an episode, in a table of whole episodes.
    #[error(
        "index[{position}] is of step {step} of an episode, and here an episode has one priority, \
         with the index of its step 0; give one for each episode, such as its largest TD error"
    )]
    InsideEpisode {
        position: usize,
        /// Step in the episode.
        step: u32,
    },
    /// A priority that is negative, infinite or not a number.
    #[error(
        "priority[{position}] is {}; give finite numbers from 0 up, such as absolute TD errors",
        ShownNumber(*value)
    )]
    BadPriority {
        position: usize,
        /// The priority.
        value: f64,
    },
    /// A TD error of a window that is negative, infinite or not a number.
    #[error(
        "priority[{window}, {place}] is {}; give finite numbers from 0 up, such as absolute TD \
         errors; places where the mask is false are not read",
        ShownNumber(*value)
    )]
    BadPlace {
        window: usize,
        place: usize,
        /// The TD error.
        value: f64,
    },
    /// A priority whose leaf could make the sum of all leaves overflow.
    #[error(
        "priority[{position}] is {}, the limit of this table is {}; divide or clip priorities, or \
         use a smaller exponent",
        ShownNumber(*value),
        ShownNumber(*limit)
    )]
    TooLarge {
        position: usize,
        /// The priority.
        value: f64,
        /// Largest priority.
        limit: f64,
    },
    /// A change of the exponent of a table that keeps no priorities.
    #[error(
        "the alpha of the table `{table}` is fixed at {alpha}; use a table whose alpha can change"
    )]
    FixedAlpha {
        table: String,
        /// Its exponent.
        alpha: f64,
    },
    /// An exponent whose powers of a priority could make the sum of all leaves overflow.
    #[error(
        "with alpha {} the largest priority is {}, and here {} is one, or is given to new \
         transitions; use a smaller alpha, or smaller priorities in a new table",
        ShownNumber(*alpha),
        ShownNumber(*limit),
        ShownNumber(*value)
    )]
    AlphaTooLarge {
        /// The exponent.
        alpha: f64,
        /// The largest priority of the table.
        value: f64,
        /// Largest priority with the exponent.
        limit: f64,
    },
    /// An index that no batch of the ring can contain.
    #[error(transparent)]
    BadIndex(#[from] BadRowIndex),
    /// TD errors that cannot be split into windows.
    #[error(
        "{places} TD errors at {steps} places a window, with a mask of {mask}, are no windows; \
         give td and mask of one shape, [B, H]"
    )]
    BadSequences { places: usize, steps: usize, mask: usize },
    /// Error of a wait for the table's lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Error of the table's file.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}
