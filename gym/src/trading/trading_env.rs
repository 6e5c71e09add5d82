//! The single trading environment.

use std::sync::Arc;

use backcast_core::AutoresetMode;
use backcast_sim::{ConservationError, Market, SlotFill};

use super::{
    actions::{ActionScheme, TradingAction},
    commands::StepOrders,
    config::{TradingEnvConfig, TradingResetOptions},
    episode::{EpisodeState, StepInfo, StepResult},
    error::TradingError,
    footprint::{check_num_envs, no_room},
    runner::EpisodeRunner,
    setup::TradingSetup,
};
use crate::contract::{EpisodeMetrics, Episodes, SplitMix, StepOutcome, check_length, zeros};

/// One agent that trades in a simulated market.
///
/// # One step
///
/// 1. The action becomes order requests of the agent's account. They arrive at the start of the
///    next tick, or `latency_ticks` later, and meet the orders of all other agents in the book.
/// 2. The market runs `frame_skip` ticks, fewer at the end of the episode.
/// 3. Observation, reward and information all describe the market after the last of these ticks.
///
/// # Episodes
///
/// A reset copies a warm snapshot, which the episode seed draws, and seeds its random streams. With
/// `warm_snapshots` 0 it seeds a fresh market and runs `warmup_ticks`. Nothing of the warm-up is
/// returned or counted. Equal episode seeds give equal episodes in environments of equal settings.
/// An episode is terminated by bankruptcy or a margin call, and truncated after `max_ticks` ticks;
/// both can be true.
///
/// [`step_into`](Self::step_into) and [`reset_into`](Self::reset_into) allocate nothing. A copy
/// continues as the original would.
#[derive(Clone, Debug)]
pub struct TradingEnv {
    pub(super) setup: Arc<TradingSetup>,
    runner: EpisodeRunner,
    episodes: Episodes,
}

impl TradingEnv {
    /// Builds an environment; reset it before the first step.
    ///
    /// # Errors
    /// [`TradingError`] for a setting that cannot be used, before anything runs.
    pub fn new(config: TradingEnvConfig) -> Result<Self, TradingError> {
        check_num_envs(&config, 1)?;
        let setup = Arc::new(TradingSetup::new(config)?);
        let seed = setup.config.seed.unwrap_or_else(rand::random);
        let runner = EpisodeRunner::new(&setup, seed)?;
        let episodes = Episodes::new(1).ok_or_else(|| no_room(&setup.config, 1, 0))?;
        Ok(Self { setup, runner, episodes })
    }

    /// Begins an episode and returns its first observation.
    ///
    /// `seed` restarts the stream of episode seeds; `None` continues it.
    pub fn reset(&mut self, seed: Option<u64>) -> Result<(Vec<f32>, StepInfo), TradingError> {
        let mut observation = vec![0.0; self.observation_size()];
        self.reset_into(seed, TradingResetOptions::default(), &mut observation)?;
        Ok((observation, *self.info()))
    }

    /// Begins an episode and writes its first observation, without allocating.
    pub fn reset_into(
        &mut self,
        seed: Option<u64>,
        options: TradingResetOptions,
        observation: &mut [f32],
    ) -> Result<(), TradingError> {
        check_length("observation", self.observation_size(), Some(observation.len()))?;
        self.setup.check_options(&options)?;
        if let Some(seed) = seed {
            self.runner.stream = SplitMix::new(seed);
        }
        self.episodes.start_call();
        self.runner.begin(&options).inspect_err(|_| self.setup.recover(&mut self.episodes))?;
        self.episodes.begin(0);
        self.episodes.clear_outcome(0);
        self.runner.observe(0, observation)
    }

    /// Takes one decision in a market of one symbol: an action, or the number of a choice. With
    /// more symbols it is an error: use [`step_into`](Self::step_into).
    pub fn step(&mut self, action: impl Into<TradingAction>) -> Result<StepResult, TradingError> {
        let (numbers, len) = action.into().numbers(self.setup.scheme())?;
        let mut observation = vec![0.0; self.observation_size()];
        let outcome = if matches!(self.setup.scheme(), ActionScheme::LimitOrders) {
            let mut all = vec![0.0; self.config().agent.numbers()];
            all[..len].copy_from_slice(&numbers[..len]);
            self.step_into(&all, &mut observation)?
        } else {
            self.step_into(&numbers[..len], &mut observation)?
        };
        let StepOutcome { reward, terminated, truncated } = outcome;
        Ok(StepResult { observation, reward, terminated, truncated, info: *self.info() })
    }

    /// Takes one decision, without allocating. `action` has the numbers of every symbol,
    /// [`action_len`](Self::action_len) in all.
    ///
    /// # Errors
    /// [`TradingError`] before anything changes: a wrong length, a number outside the bounds of the
    /// scheme, no reset before, or an episode that has ended.
    pub fn step_into<A: Copy + Into<f64>>(
        &mut self,
        action: &[A],
        observation: &mut [f32],
    ) -> Result<StepOutcome, TradingError> {
        check_length("action", self.action_len(), Some(action.len()))?;
        check_length("observation", self.observation_size(), Some(observation.len()))?;
        self.episodes.next_step(0, AutoresetMode::Disabled, false)?;
        self.setup.config.agent.check_action(0, action)?;
        self.episodes.start_call();
        let mut result = StepOutcome::default();
        self.runner.step(action, |_, seat, outcome| {
            self.episodes.enter(0, outcome, || seat.metrics());
            result = outcome;
        });
        self.runner.observe(0, observation)?;
        Ok(result)
    }

    /// Returns the number of choices of an action for one symbol, or the count of its numbers for a
    /// continuous scheme.
    #[must_use]
    pub fn action_size(&self) -> usize {
        let scheme = self.setup.scheme();
        scheme.choices().unwrap_or(self.setup.config.agent.numbers())
    }

    /// Returns how many numbers an action has, all symbols together.
    #[must_use]
    pub fn action_len(&self) -> usize {
        self.setup.action_len()
    }

    /// Returns a mask of the choices of a discrete scheme, symbol by symbol: false for a choice
    /// that limits, cash or open orders rule out now. It is empty for a continuous scheme.
    #[must_use]
    pub fn action_mask(&self) -> Vec<bool> {
        let choices = self.setup.scheme().choices().unwrap_or(0);
        let mut mask = zeros(usize::from(self.setup.market.symbols) * choices).unwrap_or_default();
        self.runner.mask(0, &mut mask);
        mask
    }

    /// Returns the details of the last reset or step.
    #[must_use]
    pub fn info(&self) -> &StepInfo {
        self.runner.seat().info()
    }

    /// Returns all fills of the last step, in sequence.
    #[must_use]
    pub fn fills(&self) -> &[SlotFill] {
        self.runner.seat().fills()
    }

    /// Returns the orders of the last step, with
    /// [`ActionScheme::LimitOrders`](super::ActionScheme::LimitOrders).
    #[must_use]
    pub fn orders(&self) -> &StepOrders {
        self.runner.seat().orders()
    }

    /// Returns the state of the episode.
    #[must_use]
    pub fn state(&self) -> &EpisodeState {
        self.runner.seat().state()
    }

    /// Returns the metrics of the running or last episode.
    #[must_use]
    pub fn metrics(&self) -> EpisodeMetrics {
        self.runner.seat().metrics()
    }

    /// Returns the market.
    #[must_use]
    pub fn market(&self) -> &Market {
        self.runner.market()
    }

    /// Checks that cash, shares and open orders of the market add up exactly.
    ///
    /// # Errors
    /// [`ConservationError`] if they do not, which is a defect of the market.
    pub fn check(&self) -> Result<(), ConservationError> {
        self.runner.market().check()
    }
}
