//! Batches of whole episodes.
//!
//! The selection chooses complete episodes, and the gather engine gathers their rows by index. An
//! episode that a writer overwrites meanwhile is replaced by another draw.

mod draw;
mod pieces;

/// Arrangement of the episodes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum EpisodeLayout {
    /// Arrays `[B, L, ...]`, with `mask` `[B, L]` and `length` `[B]`. Places beyond the end of an
    /// episode are zero, except that `obs` shows its final observation in batches without `copy`.
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

    /// Returns the layout that `word` names, or `None` for another word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Padded, Self::Ragged].into_iter().find(|layout| layout.as_str() == word)
    }
}

/// Draws of whole episodes instead of transitions.
///
/// The selector chooses among the complete ones: uniformly, by priority, oldest or newest first, or
/// by the passes of a table of claims. The priority of an episode is that of its first transition.
/// `index` names that transition for padded episodes; for ragged ones its place is in `offsets`. A
/// table of priorities of whole episodes has the stride
/// [`EPISODE_STARTS`](crate::PriorityOptions::EPISODE_STARTS), and serves no single transitions.
///
/// An episode is complete if it terminated or was truncated, its FINAL row is published, and its
/// first row is within capacity. The first row may be a GAP, such as the first row of a writer that
/// continues a lane. Such an episode counts only if the episode before it ended, and while the ring
/// still holds that end: otherwise its rows may continue an episode that was cut. The first episode
/// of a new ring begins without a GAP, and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WholeEpisodes {
    /// Arrangement of the arrays.
    pub layout: EpisodeLayout,
    /// Maximum transitions of a drawn episode. Padded arrays have exactly as many places. With
    /// `None` they have as many as the longest episode of the batch.
    pub max_length: Option<u32>,
    /// Whether uniform draws choose an episode in proportion to its transitions, so that every
    /// transition of a complete episode is drawn alike. Otherwise every episode is.
    #[cfg_attr(feature = "serde", serde(default))]
    pub by_length: bool,
}

impl WholeEpisodes {
    /// Returns draws into padded arrays, `[B, L, ...]`.
    #[must_use]
    pub fn padded() -> Self {
        Self { layout: EpisodeLayout::Padded, max_length: None, by_length: false }
    }

    /// Returns draws into concatenated arrays, `[N, ...]`.
    #[must_use]
    pub fn ragged() -> Self {
        Self { layout: EpisodeLayout::Ragged, ..Self::padded() }
    }

    /// Leaves out episodes of more than `transitions`.
    #[must_use]
    pub fn max_length(mut self, transitions: u32) -> Self {
        self.max_length = Some(transitions);
        self
    }

    /// Chooses episodes in proportion to their transitions.
    #[must_use]
    pub fn by_length(mut self) -> Self {
        self.by_length = true;
        self
    }

    /// Returns the places of every item, if all batches of one size need equal memory.
    pub(super) fn fixed_length(self) -> Option<u32> {
        self.max_length.filter(|_| self.layout == EpisodeLayout::Padded)
    }
}

#[cfg(test)]
mod tests;
