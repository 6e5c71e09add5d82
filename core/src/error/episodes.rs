//! Errors of drawing whole episodes.

use thiserror::Error;

/// Error of drawing whole episodes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpisodesError {
    /// An option of single transitions and their windows.
    #[error(
        "whole episodes do not go with {what}, which is for single transitions; leave it out, or \
         leave `episodes` out"
    )]
    Combined {
        /// The option.
        what: &'static str,
    },
    /// A length of 0, or one that no lane can hold.
    #[error(
        "max_length is {asked}; give 1 to {limit}: a lane keeps {limit} transitions of an episode \
         and its final observation"
    )]
    BadMaxLength {
        /// Requested transitions.
        asked: u32,
        /// Transitions of the longest episode that a lane can hold.
        limit: u64,
    },
    /// No episode is complete.
    #[error(
        "the {rows} rows of the ring hold no whole episode{}; an episode is whole when it \
         terminated or was truncated and its first row is still kept; wait for writers{}, or \
         create the ring with a larger capacity",
        .max_length.map_or_else(String::new, |most| format!(" of at most {most} transitions")),
        if .max_length.is_some() { ", raise max_length" } else { "" }
    )]
    NoneComplete {
        /// Transitions of the longest episode that is drawn, if there is a limit.
        max_length: Option<u32>,
        /// Rows readable over all lanes.
        rows: u64,
    },
    /// Memory was asked for before the lengths of the episodes are known.
    #[error(
        "batches of whole episodes vary in size, so there is no memory to fill or to draw ahead \
         into; draw them with `sample` into a new batch, or draw padded ones with a `max_length`"
    )]
    VaryingSize,
    /// Rows were named by index.
    #[error("a sampler of whole episodes gathers no index; make another one without `episodes`")]
    NamedRows,
    /// The episodes of a batch have more transitions than a batch can hold.
    #[error(
        "{episodes} episodes have {transitions} transitions together, and a batch at most {limit}; \
         draw fewer at a time, or give max_length"
    )]
    TooManyTransitions {
        /// Requested episodes.
        episodes: usize,
        /// Their transitions.
        transitions: u64,
        /// Largest batch.
        limit: usize,
    },
}
