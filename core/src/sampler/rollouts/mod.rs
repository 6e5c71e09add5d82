//! Rollouts: the new transitions of every lane, in blocks for on-policy learners.
//!
//! A pass of the table of claims is one block: the sampler that begins it chooses the lanes and the
//! rows, and one sampler claims all of it. The gather engine gathers the rows by index.

mod draw;
mod news;

pub(super) use self::news::{BlockSize, NewTransitions};
use super::MAX_BATCH;
use super::boundary::Boundary;
use super::columns::{ColumnWindow, SelectedColumns};
use super::options::SamplerOptions;
use super::selector::Selector;
use crate::error::FormError;

/// Draws of blocks of new transitions, `[T, N]`: `T` of each of `N` lanes, oldest first. For
/// on-policy learners, which use each transition once.
///
/// Needs [`Selector::Table`] with [`TableOptions::consume`](crate::TableOptions::consume). Each
/// transition is in one block of all samplers that share the table, in any process.
/// [`Sampler::sample_new`](crate::Sampler::sample_new) returns a block of the lanes that have `T`
/// new transitions: one column for each `T` of them. [`Sampler::sample`](crate::Sampler::sample)
/// returns a block of exactly `N` columns.
///
/// A column goes on across the ends of episodes. There `next_*` is the final observation, and
/// `terminated` or `truncated` is set. The last transition before a cut counts as truncated, so
/// that no return passes over it, and so does that of a short column. Places with a false `mask`
/// hold no transition. They are zero, with an `index` of
/// [`RowIndex::NONE`](crate::RowIndex::NONE). Only short columns have some, at their end. A column
/// is short if its lane has no writer any more, or if a writer overwrote its first rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Rollout {
    /// Transitions of a column, `T`.
    pub length: u32,
    /// Lanes for which a block waits. With `None` it waits for every lane that has a writer, unless
    /// all new rows of the lane are too old.
    pub lanes: Option<u32>,
}

impl Rollout {
    /// Returns blocks of `length` transitions of every lane that has a writer.
    #[must_use]
    pub fn new(length: u32) -> Self {
        Self { length, lanes: None }
    }

    /// Waits for `lanes` lanes only, and for no fewer while others can still get there: lanes with
    /// a writer, and lanes that no writer has used yet.
    #[must_use]
    pub fn lanes(mut self, lanes: u32) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Returns the largest number of columns of a block.
    pub(super) fn most_columns(self) -> usize {
        (MAX_BATCH / self.length.max(1) as usize).max(1)
    }

    /// Fails if another option of a sampler does not go with rollouts, or if a number is out of
    /// range. `columns` are those that the options select.
    pub(super) fn check(
        self,
        options: &SamplerOptions,
        columns: &SelectedColumns,
        (lane_capacity, lanes): (u64, u32),
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
        ];
        if let Some((what, _)) = refused.into_iter().find(|(_, given)| *given) {
            return Err(FormError::WithRollout { what });
        }
        let refused = match &options.selector {
            Selector::Table(of) if of.settings().renewed => Some("epoch"),
            Selector::Table(of) if of.settings().shuffled => Some("a shuffled consume"),
            Selector::Table(_) => None,
            other => Some(other.as_str()),
        };
        if let Some(selector) = refused {
            return Err(FormError::RolloutBySelector { selector });
        }
        // A transition takes two rows if its episode ends with it.
        let limit = (lane_capacity.saturating_sub(1) / 2).min(MAX_BATCH as u64);
        if self.length == 0 || u64::from(self.length) > limit {
            return Err(FormError::BadRolloutLength { asked: self.length, limit });
        }
        match self.lanes {
            Some(asked) if asked == 0 || asked > lanes => {
                Err(FormError::BadRolloutLanes { asked, limit: lanes })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
