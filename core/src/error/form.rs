//! Errors of drawing sequences, whole episodes or rollouts.

use thiserror::Error;

/// Error of drawing sequences, whole episodes or rollouts.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormError {
    /// An option that does not go with sequences.
    #[error("sequences do not go with {what}; leave it out, or leave the form out")]
    WithSequence { what: &'static str },
    /// Sequences by priority whose starts move.
    #[error(
        "sequences do not go with priorities and boundary \"clamp\" together, which moves starts \
         to transitions that have no priority; leave boundary \"clamp\" out, or the priorities"
    )]
    ClampedPriorities,
    /// A selector that does not go with whole episodes.
    #[error(
        "whole episodes do not go with {selector}; choose uniform, priority, fifo, lifo, epoch or \
         consume, or draw sequences as long as the longest episode"
    )]
    EpisodesBySelector { selector: &'static str },
    /// A selector that chooses whole episodes otherwise than by their lengths.
    #[error(
        "whole episodes by length do not go with {selector}, which chooses them otherwise; leave \
         by_length out, or the selector"
    )]
    LengthsBySelector { selector: &'static str },
    /// An option that does not go with whole episodes.
    #[error("whole episodes do not go with {what}; leave it out, or leave the form out")]
    WithEpisodes { what: &'static str },
    /// A length of 0, or one that no lane can hold.
    #[error(
        "a sequence has {asked} transitions; give 1 to {limit}: a lane keeps {limit} transitions \
         and the observation after them"
    )]
    BadLength { asked: u32, limit: u64 },
    /// A stride of 0, or one that leaves transitions out.
    #[error(
        "the stride of sequences is {asked}; give 1 to their length, {length}: a larger one leaves \
         transitions out"
    )]
    BadStride { asked: u32, length: u32 },
    /// No sequence may be drawn.
    #[error(
        "no sequence of {length} transitions can be drawn: {}, and the longest run of transitions \
         in the ring has {longest} now; wait for writers, or ask for shorter sequences{}",
        if *.whole {
            "boundary \"reject\" asks for whole ones"
        } else {
            "an episode that goes on has only whole ones"
        },
        if *.whole { ", or for boundary \"mask\"" } else { "" }
    )]
    NoSequence { length: u32, whole: bool, longest: u64 },
    /// A length of 0, or one that no lane can hold.
    #[error(
        "max_length is {asked}; give 1 to {limit}: a lane keeps {limit} transitions of an episode \
         and its final observation"
    )]
    BadMaxLength { asked: u32, limit: u64 },
    /// No episode is complete.
    #[error(
        "the {rows} rows of the ring hold no whole episode{}; an episode is whole when it \
         terminated or was truncated and its first row is still kept; wait for writers, let \
         the rate limiter, if there is one, admit a whole episode{}, or create the ring with a \
         larger capacity",
        .max_length.map_or_else(String::new, |most| format!(" of at most {most} transitions")),
        if .max_length.is_some() { ", raise max_length" } else { "" }
    )]
    NoneComplete { max_length: Option<u32>, rows: u64 },
    /// Memory was asked for before the lengths of the episodes are known.
    #[error(
        "whole episodes without a fixed length vary in size, and iterators of any prefetch, as \
         well as `out`, fill memory of one size; draw them with `sample` into a new batch, or draw \
         padded ones with a `max_length`"
    )]
    VaryingSize,
    /// Rows were named by index.
    #[error(
        "a sampler of whole episodes or rollouts gathers no index; make another one without the \
         form"
    )]
    NamedRows,
    /// An option that does not go with rollouts.
    #[error("rollouts do not go with {what}; leave it out, or leave the form out")]
    WithRollout { what: &'static str },
    /// A selector that does not go with rollouts.
    #[error(
        "rollouts do not go with {selector}: each new transition is in one block; choose consume, \
         or draw sequences"
    )]
    RolloutBySelector { selector: &'static str },
    /// A length of 0, or one that a lane may not be able to hold.
    #[error(
        "a rollout has {asked} transitions; give 1 to {limit}: a lane keeps {limit} in any case, \
         since a transition that ends its episode takes two rows; create the ring with a larger \
         capacity for more"
    )]
    BadRolloutLength { asked: u32, limit: u64 },
    /// More lanes than the ring has, or none.
    #[error("a block of rollouts waits for {asked} lanes; give 1 to {limit}, those of the ring")]
    BadRolloutLanes { asked: u32, limit: u32 },
    /// Memory was asked for before the lanes of a block are known.
    #[error(
        "blocks of rollouts are drawn into new memory: there is none to fill, nor to draw ahead \
         into; draw them with `sample`, without `out`"
    )]
    BlockMemory,
    /// The episodes of a batch have more transitions than a batch can hold.
    #[error(
        "{episodes} episodes have {transitions} transitions together, and a batch at most {limit}; \
         draw fewer at a time, or give max_length"
    )]
    TooManyTransitions { episodes: usize, transitions: u64, limit: usize },
}
