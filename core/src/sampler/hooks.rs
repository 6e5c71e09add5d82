//! Functions of the caller that change a batch after it was gathered.

use std::fmt;

use ndarray::ArrayViewD;

use super::Sampler;
use super::batch::{BatchMut, column};
use super::gate::Gate;
use super::hindsight::{GoalDraws, Hindsight, count_of};
use super::plan::BatchPlan;
use super::points::DrawPoints;
use super::stream::DrawStream;
use crate::batch_key as key;
use crate::element::Element;
use crate::error::{BatchError, HindsightError, SampleError};
use crate::ring::Ring;

/// Function that changes a gathered batch.
type Transform = dyn FnMut(&mut BatchMut<'_, '_>) + Send;
/// Function that computes the rewards of goals.
type Rewards = dyn FnMut(&Goals<'_>, &mut [f64]) + Send;
/// Function that computes where goals end their episodes.
type Terminations = dyn FnMut(&Goals<'_>, &mut [bool]) + Send;

/// Source of the rewards of relabelled transitions.
enum RewardSource {
    Missing,
    /// The caller computes them from the batch.
    Caller,
    Function(Box<Rewards>),
}

/// Changes of a batch after its gather: goals in hindsight, and the functions of the caller.
pub(super) struct Hooks {
    /// Goals to relabel in hindsight, if any.
    goals: Option<Box<GoalDraws>>,
    rewards: RewardSource,
    terminations: Option<Box<Terminations>>,
    transform: Option<Box<Transform>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// Goals of the transitions of a batch, relabelled ones and others.
#[derive(Debug)]
pub struct Goals<'a> {
    plan: &'a BatchPlan,
    arenas: &'a [&'a [u8]],
    options: &'a Hindsight,
    /// `"future/"` for the transitions of the future window.
    prefix: &'static str,
}

impl Goals<'_> {
    /// Returns the goal that each transition achieved, from the observation after the transition.
    /// `[B, ...]`, or `[B, H, ...]` and `[B, F, ...]` for windows.
    pub fn achieved<T: Element>(&self) -> Result<ArrayViewD<'_, T>, BatchError> {
        self.view("next_", &self.options.achieved)
    }

    /// Returns the desired goal of each transition, which is the new one if it was relabelled.
    pub fn desired<T: Element>(&self) -> Result<ArrayViewD<'_, T>, BatchError> {
        self.view("", &self.options.desired)
    }

    /// Returns another column of the same transitions.
    pub fn column<T: Element>(&self, key: &str) -> Result<ArrayViewD<'_, T>, BatchError> {
        self.view("", key)
    }

    fn view<T: Element>(&self, of: &str, key: &str) -> Result<ArrayViewD<'_, T>, BatchError> {
        let key = format!("{}{of}{key}", self.prefix);
        column(self.plan, &key, |arena| self.arenas.get(arena).copied())
    }
}

impl Sampler {
    /// Sets the function that computes the rewards of relabelled goals. It gets the goals of a
    /// batch, and a slice to fill with one reward for each transition, in C order. It is called
    /// once for each drawn batch, and once more for the future window, if there is one. Only the
    /// rewards of relabelled transitions are stored. With [`batches`](Self::batches) the function
    /// runs in the thread that draws ahead, if there is one.
    #[must_use]
    pub fn rewards(
        mut self,
        function: impl FnMut(&Goals<'_>, &mut [f64]) + Send + 'static,
    ) -> Self {
        self.hooks.rewards = RewardSource::Function(Box::new(function));
        self
    }

    /// Sets the function that says where relabelled goals terminate their episode, for
    /// [`Hindsight::terminated`]. It gets the goals of a batch, and a slice of `false` to fill, in
    /// C order; `goals.column::<bool>("terminated")` are the stored flags. It is called after that
    /// of the rewards, as often. Only the flags of relabelled transitions are stored.
    #[must_use]
    pub fn terminations(
        mut self,
        function: impl FnMut(&Goals<'_>, &mut [bool]) + Send + 'static,
    ) -> Self {
        self.hooks.terminations = Some(Box::new(function));
        self
    }

    /// Leaves rewards, terminations and n-step returns of relabelled transitions as they are
    /// stored: the caller computes them from the batch, where `relabelled` is set.
    #[must_use]
    pub fn rewards_by_caller(mut self) -> Self {
        self.hooks.rewards = RewardSource::Caller;
        self
    }

    /// Sets a function that changes every batch after it was gathered, by a draw or by index, such
    /// as a normalisation. With [`batches`](Self::batches) it runs in the thread that draws ahead,
    /// if there is one.
    #[must_use]
    pub fn transform(
        mut self,
        function: impl FnMut(&mut BatchMut<'_, '_>) + Send + 'static,
    ) -> Self {
        self.hooks.transform = Some(Box::new(function));
        self
    }
}

impl Hooks {
    /// Returns the hooks of a sampler without functions of the caller.
    pub(super) fn new(goals: Option<GoalDraws>) -> Self {
        let (goals, rewards) = (goals.map(Box::new), RewardSource::Missing);
        Self { goals, rewards, terminations: None, transform: None }
    }

    /// Fails if goals are to be relabelled and no function computes their rewards, or none their
    /// terminations, or if terminations have a function and are not relabelled.
    pub(super) fn check_rewards(&self) -> Result<(), SampleError> {
        let relabels_ends = self.goals.as_ref().is_some_and(|goals| goals.options().terminated);
        if self.terminations.is_some() && !relabels_ends {
            return Err(HindsightError::UnusedTerminations.into());
        }
        if self.goals.is_none() {
            return Ok(());
        }
        match &self.rewards {
            RewardSource::Missing => Err(HindsightError::NoRewards.into()),
            RewardSource::Function(_) if relabels_ends => {
                let given = self.terminations.as_ref().map(|_| ());
                given.ok_or_else(|| HindsightError::NoTerminations.into())
            }
            RewardSource::Function(_) | RewardSource::Caller => Ok(()),
        }
    }

    /// Relabels goals of the next batch of the stream, and computes their rewards, terminations and
    /// n-step returns. `oldest` has the first row of every lane that is not too old; none if ages
    /// are not limited.
    pub(super) fn relabel(
        &mut self,
        (ring, stream, gate): (&Ring, &DrawStream, &Gate),
        oldest: &[u64],
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        points: &mut DrawPoints,
    ) -> Result<(), SampleError> {
        let Some(goals) = &mut self.goals else { return Ok(()) };
        goals.relabel((ring, oldest), (stream.rng(), stream.number()), plan, arenas, points)?;
        let RewardSource::Function(function) = &mut self.rewards else { return Ok(()) };
        let mut terminations = self.terminations.as_mut();
        for prefix in ["", "future/"] {
            let count = |name: &str| count_of(plan, &format!("{prefix}{name}"));
            let Some(places) = count("reward") else { continue };
            let mut rewards = vec![0.0; places];
            with_goals((gate, plan), arenas, (goals, prefix), |of| function(of, &mut rewards));
            goals.store_rewards(plan, prefix, &rewards, arenas);
            let Some(function) = &mut terminations else { continue };
            let mut ends = vec![false; count(key::TERMINATED).unwrap_or(0)];
            with_goals((gate, plan), arenas, (goals, prefix), |of| function(of, &mut ends));
            goals.store_terminations(plan, prefix, &ends, arenas)?;
        }
        goals.store_returns(plan, arenas);
        Ok(())
    }

    /// Calls the transform of the caller, if there is one. The rate limiter has counted `items` for
    /// the batch.
    pub(super) fn transform(
        &mut self,
        gate: &Gate,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
        items: usize,
    ) {
        if let Some(transform) = &mut self.transform {
            let counted = gate.counted(items);
            transform(&mut BatchMut::new(plan, arenas));
            counted.keep();
        }
    }
}

/// Calls a function of the caller with the goals of a batch.
fn with_goals(
    (gate, plan): (&Gate, &BatchPlan),
    arenas: &[&mut [u8]],
    (goals, prefix): (&GoalDraws, &'static str),
    call: impl FnOnce(&Goals<'_>),
) {
    let arenas: Vec<&[u8]> = arenas.iter().map(|arena| &**arena).collect();
    let counted = gate.counted(plan.batch());
    call(&Goals { plan, arenas: &arenas, options: goals.options(), prefix });
    counted.keep();
}
