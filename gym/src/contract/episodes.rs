//! Episode state of all sub-environments: phases, rewards, flags, metrics.

use backcast_core::AutoresetMode;

use super::{
    error::{EpisodeError, check_length},
    metrics::EpisodeMetrics,
    zeros,
};

/// Place of a sub-environment in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EpisodePhase {
    /// The sub-environment was never reset. The default.
    #[default]
    New,
    /// An episode is running.
    Running,
    /// The episode has ended and no other has begun.
    Ended,
}

/// Effect of the next step on a sub-environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// The sub-environment acts.
    Act,
    /// The sub-environment begins a new episode and ignores the action.
    Reset,
    /// The sub-environment acts although its episode has ended.
    PlayOn,
}

/// Reward and flags of one step of one sub-environment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepOutcome {
    /// Reward of the step.
    pub reward: f64,
    /// True if the task itself ended the episode.
    pub terminated: bool,
    /// True if a limit from outside the task ended the episode.
    pub truncated: bool,
}

impl StepOutcome {
    /// Returns whether the episode ended.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// Episode state of `N` sub-environments and outcome of the last call, one buffer per field.
#[derive(Clone, Debug)]
pub(crate) struct Episodes {
    phase: Vec<EpisodePhase>,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Whether the last step ended an episode.
    ended: Vec<bool>,
    /// Whether the last reset or step began an episode.
    began: Vec<bool>,
    /// Metrics of the episodes that the last step ended.
    metrics: Vec<EpisodeMetrics>,
}

impl Episodes {
    /// Returns the state before the first reset; `None` where memory does not suffice.
    pub(crate) fn new(num_envs: usize) -> Option<Self> {
        Some(Self {
            phase: zeros(num_envs)?,
            rewards: zeros(num_envs)?,
            terminated: zeros(num_envs)?,
            truncated: zeros(num_envs)?,
            ended: zeros(num_envs)?,
            began: zeros(num_envs)?,
            metrics: zeros(num_envs)?,
        })
    }

    pub(crate) fn num_envs(&self) -> usize {
        self.phase.len()
    }

    /// Refuses a mask of another length, a mask that selects no sub-environment, and one that
    /// leaves out a sub-environment that was never reset.
    pub(crate) fn check_reset(&self, mask: Option<&[bool]>) -> Result<(), EpisodeError> {
        let num_envs = self.num_envs();
        check_length("mask", num_envs, mask.map(<[bool]>::len))?;
        let Some(mask) = mask else { return Ok(()) };
        if !mask.contains(&true) {
            return Err(EpisodeError::EmptyMask { num_envs });
        }
        let new = |env: &usize| !mask[*env] && self.phase[*env] == EpisodePhase::New;
        (0..num_envs).find(new).map_or(Ok(()), |env| Err(EpisodeError::LeftOut { env }))
    }

    /// Returns the effect of the next step on `env`, or an error if `env` must be reset first.
    ///
    /// `play_on` allows steps after the end of an episode with `Disabled`.
    #[inline]
    pub(crate) fn next_step(
        &self,
        env: usize,
        mode: AutoresetMode,
        play_on: bool,
    ) -> Result<StepKind, EpisodeError> {
        match self.phase[env] {
            EpisodePhase::Running => Ok(StepKind::Act),
            EpisodePhase::New => Err(EpisodeError::NotReset { env }),
            EpisodePhase::Ended if mode != AutoresetMode::Disabled => Ok(StepKind::Reset),
            EpisodePhase::Ended if play_on => Ok(StepKind::PlayOn),
            EpisodePhase::Ended => Err(EpisodeError::Finished { env }),
        }
    }

    /// Returns whether the next step resets `env`.
    #[inline]
    pub(crate) fn resets_next(&self, env: usize, mode: AutoresetMode) -> bool {
        self.phase[env] == EpisodePhase::Ended && mode != AutoresetMode::Disabled
    }

    /// Clears the flags that say which episodes the previous call began.
    pub(crate) fn start_call(&mut self) {
        self.began.fill(false);
    }

    /// Forgets all episodes, so that each sub-environment has to be reset.
    pub(crate) fn forget(&mut self) {
        self.phase.fill(EpisodePhase::New);
    }

    /// Begins an episode of `env`; its last outcome stays.
    #[inline]
    pub(crate) fn begin(&mut self, env: usize) {
        self.phase[env] = EpisodePhase::Running;
        self.began[env] = true;
    }

    /// Clears reward and flags of a sub-environment that was reset.
    #[inline]
    pub(crate) fn clear_outcome(&mut self, env: usize) {
        self.rewards[env] = 0.0;
        self.terminated[env] = false;
        self.truncated[env] = false;
        self.ended[env] = false;
    }

    /// Records the outcome of a step of `env`. Calls `metrics` if the episode ended.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        env: usize,
        outcome: StepOutcome,
        metrics: impl FnOnce() -> EpisodeMetrics,
    ) {
        self.rewards[env] = outcome.reward;
        self.terminated[env] = outcome.terminated;
        self.truncated[env] = outcome.truncated;
        self.ended[env] = outcome.ends();
        if outcome.ends() {
            self.phase[env] = EpisodePhase::Ended;
            self.metrics[env] = metrics();
        }
    }

    /// Returns whether `env` was ever reset.
    pub(crate) fn has_begun(&self, env: usize) -> bool {
        self.phase[env] != EpisodePhase::New
    }

    /// Returns the rewards to write, and the flags of terminations and truncations.
    pub(crate) fn outcome_mut(&mut self) -> (&mut [f64], &[bool], &[bool]) {
        (&mut self.rewards, &self.terminated, &self.truncated)
    }

    pub(crate) fn rewards(&self) -> &[f64] {
        &self.rewards
    }

    pub(crate) fn terminated(&self) -> &[bool] {
        &self.terminated
    }

    pub(crate) fn truncated(&self) -> &[bool] {
        &self.truncated
    }

    pub(crate) fn ended(&self) -> &[bool] {
        &self.ended
    }

    pub(crate) fn began(&self) -> &[bool] {
        &self.began
    }

    pub(crate) fn metrics(&self) -> &[EpisodeMetrics] {
        &self.metrics
    }
}
