//! The form of what is drawn: transitions, sequences, whole episodes, or rollouts.

use super::boundary::Boundary;
use super::columns::{ColumnWindow, ColumnWindows, SelectedColumns};
use super::episodes::WholeEpisodes;
use super::options::SamplerOptions;
use super::rollouts::Rollout;
use super::selector::Selector;
use crate::error::FormError;
use crate::priority::PriorityOptions;

/// Form of the items of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Form {
    /// Single transitions, with the history and the future that were asked for. The default.
    #[default]
    Transitions,
    /// Sequences of consecutive transitions.
    Sequence(Sequence),
    /// Whole episodes.
    Episodes(WholeEpisodes),
    /// Blocks of the new transitions of all lanes.
    Rollout(Rollout),
}

/// Draws of sequences: transition `t` of an episode and the `length - 1` after it, for every `t`
/// that is a multiple of `stride`.
///
/// Columns are `[B, L, ...]`, or `[B, ...]` with [`ColumnWindow::First`], with `next_*` of the
/// observations and `mask` `[B, L]`. Places after the end of an episode have a false mask and are
/// zero, except for one that [`copy`](SamplerOptions::copy) describes. `index` names the start.
///
/// An episode that goes on gives only sequences that are whole. An episode that terminated, was
/// truncated or was cut also gives those that reach beyond its end, so that each of its steps lies
/// in a sequence (Kapturowski et al., "Recurrent experience replay in distributed reinforcement
/// learning", ICLR 2019, section 2.3).
///
/// With [`Boundary::Reject`] only whole sequences are drawn, and the last steps of an episode may
/// lie in none. With [`Boundary::Clamp`] the last start of an episode moves back, so that its
/// sequence ends with the episode; only episodes shorter than a sequence have places that are
/// masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sequence {
    /// Transitions of a sequence, `L`.
    pub length: u32,
    /// Transitions from one start to the next, at most `length`.
    pub stride: u32,
}

impl Sequence {
    /// Returns sequences of `length` transitions, one after the other.
    #[must_use]
    pub fn new(length: u32) -> Self {
        Self { length, stride: length }
    }

    /// Sets the transitions from one start to the next, which lets sequences overlap.
    #[must_use]
    pub fn stride(mut self, stride: u32) -> Self {
        self.stride = stride;
        self
    }

    /// Fails if another option of a sampler does not go with sequences, or if their length or
    /// stride is out of range.
    fn check(self, options: &SamplerOptions, lane_capacity: u64) -> Result<(), FormError> {
        let draws = &options.draws;
        let by_column = options.columns.as_ref();
        let priorities = options.selector.priorities().is_some();
        let refused = [
            ("a history window", draws.history.is_some()),
            ("histories by column", by_column.is_some_and(ColumnWindows::has_history)),
            ("a future window", draws.future > 0),
            ("an n-step return", draws.n_step.is_some()),
            ("a discount", draws.gamma.is_some() || draws.discounts),
            ("hindsight", options.hindsight.is_some()),
        ];
        if let Some((what, _)) = refused.into_iter().find(|(_, given)| *given) {
            return Err(FormError::WithSequence { what });
        }
        if priorities && draws.boundary == Boundary::Clamp {
            return Err(FormError::ClampedPriorities);
        }
        let Self { length, stride } = self;
        // The observation after the last transition takes a row too.
        let limit = lane_capacity.saturating_sub(1);
        if length == 0 || u64::from(length) > limit {
            return Err(FormError::BadLength { asked: length, limit });
        }
        if !(1..=length).contains(&stride) {
            return Err(FormError::BadStride { asked: stride, length });
        }
        Ok(())
    }
}

impl Form {
    /// Returns the [stride](crate::PriorityOptions::stride) of the priorities of items of this
    /// form. A handle that sets priorities for them needs it.
    #[must_use]
    pub fn priority_stride(self) -> u32 {
        match self {
            Self::Transitions | Self::Rollout(_) => 1,
            Self::Sequence(of) => of.stride,
            Self::Episodes(_) => PriorityOptions::EPISODE_STARTS,
        }
    }

    /// Returns the sequences, if they are drawn.
    pub(super) fn sequence(self) -> Option<Sequence> {
        match self {
            Self::Sequence(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the whole episodes, if they are drawn.
    pub(super) fn episodes(self) -> Option<WholeEpisodes> {
        match self {
            Self::Episodes(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the rollouts, if they are drawn.
    pub(super) fn rollout(self) -> Option<Rollout> {
        match self {
            Self::Rollout(of) => Some(of),
            _ => None,
        }
    }
}

/// Fails if another option does not go with the form. `columns` are those that the
/// options select.
pub(super) fn check(
    options: &SamplerOptions,
    columns: &SelectedColumns,
    (lane_capacity, lanes): (u64, u32),
) -> Result<(), FormError> {
    match options.draws.form {
        Form::Transitions => Ok(()),
        Form::Sequence(of) => of.check(options, lane_capacity),
        Form::Episodes(of) => check_episodes(of, options, columns, lane_capacity),
        Form::Rollout(of) => of.check(options, columns, (lane_capacity, lanes)),
    }
}

fn check_episodes(
    of: WholeEpisodes,
    options: &SamplerOptions,
    columns: &SelectedColumns,
    lane_capacity: u64,
) -> Result<(), FormError> {
    let draws = &options.draws;
    let refused = [
        ("a history window", columns.longest().is_some()),
        ("the first row of a window", columns.any(ColumnWindow::First)),
        ("a future window", draws.future > 0),
        ("an n-step return", draws.n_step.is_some()),
        ("a discount", draws.gamma.is_some() || draws.discounts),
        ("another boundary than \"mask\"", draws.boundary != Boundary::Mask),
        ("a stride", draws.stride != 1),
        ("hindsight", options.hindsight.is_some()),
        ("learned columns", options.learned.is_some()),
    ];
    if let Some((what, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(FormError::WithEpisodes { what });
    }
    let refused = match &options.selector {
        Selector::MaxPriority(_) => Some("the order of max_priority"),
        Selector::MinPriority(_) => Some("the order of min_priority"),
        Selector::Recency { .. } => Some("weights by recency"),
        Selector::LaneWeights(_) => Some("weights of lanes"),
        Selector::LaneStrata => Some("lane_strata"),
        Selector::Uniform
        | Selector::Priority(_)
        | Selector::Fifo
        | Selector::Lifo
        | Selector::Table(_) => None,
    };
    if let Some(selector) = refused {
        return Err(FormError::EpisodesBySelector { selector });
    }
    if of.by_length && options.selector != Selector::Uniform {
        return Err(FormError::LengthsBySelector { selector: options.selector.as_str() });
    }
    // An episode of n transitions takes n + 1 rows.
    let limit = lane_capacity.saturating_sub(1);
    match of.max_length {
        Some(asked) if asked == 0 || u64::from(asked) > limit => {
            Err(FormError::BadMaxLength { asked, limit })
        }
        _ => Ok(()),
    }
}
