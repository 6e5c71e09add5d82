//! Hindsight: transitions whose goal is replaced by one that their episode achieved later.

mod episode_rows;
mod relabel;

use backcast_layout::{Column, DType, Role};

pub(crate) use self::relabel::{GoalDraws, rewards_of};
use super::columns::{ColumnWindow, SelectedColumns};
use super::plan::RELABELLED;
use crate::error::HindsightError;
use crate::schema::{Schema, USER};

/// Rows of an episode that a new goal is drawn from, uniformly.
///
/// The newest published row of an episode that still runs counts as its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GoalStrategy {
    /// Goals that the drawn transition or a later one of its episode achieved.
    #[default]
    Future,
    /// The goal that the last transition of the episode achieved.
    Final,
    /// Goals that any transition of the episode achieved, if its row is in the ring.
    Episode,
}

impl GoalStrategy {
    /// Returns `"future"`, `"final"` or `"episode"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GoalStrategy::Future => "future",
            GoalStrategy::Final => "final",
            GoalStrategy::Episode => "episode",
        }
    }

    /// Returns the strategy of a word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        [Self::Future, Self::Final, Self::Episode].into_iter().find(|of| of.as_str() == word)
    }
}

/// Relabels goals in hindsight (Andrychowicz et al., "Hindsight experience replay", NIPS 2017,
/// section 3.3 and appendix).
///
/// Each drawn transition is relabelled with probability `ratio`, independently: its desired goal,
/// in all of its windows, becomes one that a row of its episode achieved, as the strategy says.
/// The paper stores `k` relabelled copies of each transition; a ratio of `k / (k + 1)` draws the
/// same mixture. `relabelled`, `bool [B]`, marks these transitions. Ends keep their flags.
///
/// Goals are drawn by the sampler's seed, and gathered after the transitions. A transition that a
/// writer overwrote in between keeps its goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Hindsight {
    /// Rows that new goals are drawn from.
    pub strategy: GoalStrategy,
    /// Share of the transitions that are relabelled, within `0..=1`.
    pub ratio: f64,
    /// Observation column of the goals that were achieved.
    pub achieved: String,
    /// Observation column of the goals that were desired, of the same dtype and shape.
    pub desired: String,
}

impl Hindsight {
    /// Returns hindsight of a strategy, with four relabelled transitions for each other one, and
    /// the columns `obs/achieved_goal` and `obs/desired_goal` of Gymnasium's goal environments.
    #[must_use]
    pub fn new(strategy: GoalStrategy) -> Self {
        let (achieved, desired) = ("obs/achieved_goal".to_owned(), "obs/desired_goal".to_owned());
        Self { strategy, ratio: 0.8, achieved, desired }
    }

    /// Relabels `k` transitions for each one that keeps its goal.
    #[must_use]
    pub fn k(self, k: u32) -> Self {
        let k = f64::from(k);
        self.ratio(k / (k + 1.0))
    }

    /// Sets the share of relabelled transitions, within `0..=1`.
    #[must_use]
    pub fn ratio(self, ratio: f64) -> Self {
        Self { ratio, ..self }
    }

    /// Sets the columns of achieved and desired goals.
    #[must_use]
    pub fn columns(self, achieved: &str, desired: &str) -> Self {
        Self { achieved: achieved.to_owned(), desired: desired.to_owned(), ..self }
    }

    /// Returns the columns of the goals and of the rewards, or why they cannot be relabelled.
    pub(crate) fn check(
        &self,
        schema: &Schema,
        selection: &SelectedColumns,
        n_step: Option<u32>,
    ) -> Result<GoalColumns, HindsightError> {
        if !(0.0..=1.0).contains(&self.ratio) {
            return Err(HindsightError::BadRatio { ratio: self.ratio });
        }
        if let Some(n_step) = n_step {
            return Err(HindsightError::WithNStep { n_step });
        }
        let columns = schema.columns();
        if columns.iter().any(|column| column.name() == RELABELLED) {
            return Err(HindsightError::FlagColumn);
        }
        let find = |what, name: &str| {
            let at = columns.iter().position(|column| column.name() == name);
            let found = at.and_then(|at| Some((at, columns.get(at)?)));
            let Some((at, column)) = found else {
                let known = columns.iter().map(|column| column.name().to_owned()).collect();
                return Err(HindsightError::NoColumn { what, name: name.to_owned(), known });
            };
            if column.role() != Role::Obs {
                return Err(HindsightError::NotObserved { what, name: name.to_owned() });
            }
            Ok((at, column))
        };
        let (achieved, from) = find("achieved", &self.achieved)?;
        let (desired, to) = find("desired", &self.desired)?;
        if (from.dtype(), from.shape()) != (to.dtype(), to.shape()) {
            let describe = |column: &Column| format!("{}{:?}", column.dtype(), column.shape());
            return Err(HindsightError::Differ {
                achieved: self.achieved.clone(),
                achieved_type: describe(from),
                desired: self.desired.clone(),
                desired_type: describe(to),
            });
        }
        let reward = columns.iter().position(|column| column.name() == "reward");
        let bad = |found| HindsightError::BadReward { found };
        let Some(at) = reward else { return Err(bad(format!("there is none among {schema}"))) };
        let of = columns.get(at).filter(|column| {
            column.shape().is_empty() && matches!(column.dtype(), DType::F32 | DType::F64)
        });
        let Some(reward) = of else { return Err(bad("here it is of another type".to_owned())) };
        for (name, column) in [(&self.achieved, achieved), (&self.desired, desired)] {
            let window = selection.window(column);
            let usable = !matches!(window, None | Some(ColumnWindow::First));
            if !usable || window != selection.window(at) {
                return Err(HindsightError::OtherWindow { name: name.clone() });
            }
        }
        let reward = reward.dtype();
        Ok(GoalColumns { achieved, desired: USER + desired, width: from.width(), reward })
    }
}

/// Columns that relabelling reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoalColumns {
    /// Number among the schema's columns.
    achieved: usize,
    /// Number among the stored columns.
    desired: usize,
    /// Bytes of a goal.
    width: usize,
    /// Element type of the rewards.
    reward: DType,
}
