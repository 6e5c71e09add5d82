//! Draws of whole episodes: which episodes are complete, and batches of them.
//!
//! A draw picks an episode uniformly among the complete ones of the index, and gathers its rows by
//! name with the one gather engine. An episode that a writer overwrites meanwhile is drawn again.

mod draw;
mod index;
mod pieces;

use std::sync::Arc;

use self::index::EpisodeIndex;
use super::columns::{ColumnWindow, SelectedColumns};
use super::options::Boundary;
use super::pool::ArenaPool;
use super::{SamplerSpec, Selector};
use crate::error::EpisodesError;

/// Arrangement of the episodes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpisodeLayout {
    /// Arrays `[B, L, ...]`, with `mask` `[B, L]` and `length` `[B]`; zero beyond the end of each
    /// episode, but for its final observation in `obs` of batches without `copy`.
    Padded,
    /// Arrays `[N, ...]`, one episode after the other, with `offsets` `[B + 1]`; `N` is the sum of
    /// the lengths.
    Ragged,
}

impl EpisodeLayout {
    /// Returns `"padded"` or `"ragged"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EpisodeLayout::Padded => "padded",
            EpisodeLayout::Ragged => "ragged",
        }
    }

    /// Returns the layout of a word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Padded, Self::Ragged].into_iter().find(|layout| layout.as_str() == word)
    }
}

/// Draws of whole episodes instead of transitions, uniform over the complete ones.
///
/// An episode is complete if it terminated or was truncated, its FINAL row is published, and its
/// first row is within capacity. One that began after a GAP, as the first one of every writer does,
/// counts only while the ring still holds the end of the episode before it: otherwise its rows may
/// continue an episode that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WholeEpisodes {
    /// Arrangement of the arrays.
    pub layout: EpisodeLayout,
    /// Transitions of the longest episode that is drawn. Padded arrays then have exactly as many
    /// places; otherwise those of the longest episode of the batch.
    pub max_length: Option<u32>,
}

impl WholeEpisodes {
    /// Returns draws into padded arrays, `[B, L, ...]`.
    #[must_use]
    pub fn padded() -> Self {
        Self { layout: EpisodeLayout::Padded, max_length: None }
    }

    /// Returns draws into concatenated arrays, `[N, ...]`.
    #[must_use]
    pub fn ragged() -> Self {
        Self { layout: EpisodeLayout::Ragged, max_length: None }
    }

    /// Leaves out episodes of more than `transitions`.
    #[must_use]
    pub fn max_length(mut self, transitions: u32) -> Self {
        self.max_length = Some(transitions);
        self
    }

    /// Returns the places of every item, if all batches of one size need equal memory.
    pub(super) fn fixed_length(self) -> Option<u32> {
        self.max_length.filter(|_| self.layout == EpisodeLayout::Padded)
    }

    /// Fails if another option of a sampler does not go with whole episodes, or if no lane can hold
    /// `max_length` transitions.
    fn check(
        self,
        spec: &SamplerSpec,
        columns: &SelectedColumns,
        lane_capacity: u64,
    ) -> Result<(), EpisodesError> {
        let options = &spec.options;
        let refused = [
            ("a history window", columns.longest().is_some()),
            ("the first row of a window", columns.any(ColumnWindow::First)),
            ("a future window", options.future > 0),
            ("an n-step return", options.n_step.is_some()),
            ("a discount", options.gamma.is_some() || options.discounts),
            ("another boundary than \"mask\"", options.boundary != Boundary::Mask),
            ("a stride", options.stride != 1),
            ("hindsight", spec.hindsight.is_some()),
            ("learned columns", spec.learned.is_some()),
            ("draws by priority", spec.selector.priorities().is_some()),
            ("another selector than \"uniform\"", spec.selector != Selector::Uniform),
        ];
        if let Some((what, _)) = refused.into_iter().find(|(_, given)| *given) {
            return Err(EpisodesError::Combined { what });
        }
        // An episode of n transitions takes n + 1 rows.
        let limit = lane_capacity.saturating_sub(1);
        match self.max_length {
            Some(asked) if asked == 0 || u64::from(asked) > limit => {
                Err(EpisodesError::BadMaxLength { asked, limit })
            }
            _ => Ok(()),
        }
    }
}

/// State of a sampler that draws whole episodes.
#[derive(Debug)]
pub(super) struct EpisodeDraws {
    options: WholeEpisodes,
    index: EpisodeIndex,
    /// Memory of batches whose size is known only when their episodes are drawn.
    pool: Arc<ArenaPool>,
}

impl EpisodeDraws {
    /// Returns the state of a sampler that was asked for whole episodes.
    pub(super) fn open(
        spec: &SamplerSpec,
        columns: &SelectedColumns,
        lane_capacity: u64,
    ) -> Result<Option<Box<Self>>, EpisodesError> {
        let Some(options) = spec.options.episodes else { return Ok(None) };
        options.check(spec, columns, lane_capacity)?;
        let index = EpisodeIndex::new(options.max_length.map_or(u64::MAX, u64::from));
        Ok(Some(Box::new(Self { options, index, pool: Arc::default() })))
    }

    pub(super) fn options(&self) -> WholeEpisodes {
        self.options
    }
}

#[cfg(test)]
mod tests;
