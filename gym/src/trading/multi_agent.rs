//! Several agents from outside in one market.

use std::sync::Arc;

use backcast_core::AutoresetMode;
use backcast_sim::{ConservationError, Market, SlotFill};

use super::{
    commands::StepOrders,
    config::{TradingEnvConfig, TradingResetOptions},
    episode::{EpisodeState, StepInfo},
    error::TradingError,
    external_agent::{ExternalAgent, ExternalAgentConfig},
    footprint::{check_agents, no_room},
    runner::EpisodeRunner,
    seat::AgentSeat,
    setup::TradingSetup,
};
use crate::contract::{EpisodeError, EpisodeMetrics, Episodes, SplitMix, check_length};

/// `K` agents that trade with each other and with the background agents of one market.
///
/// All agents decide simultaneously, as in the parallel API of `PettingZoo`. Their requests arrive
/// in the next tick, or `latency_ticks` later, before the background agents. They arrive agent by
/// agent, in an order that is drawn anew for every tick. That order depends on the episode seed,
/// the tick and the agents' numbers alone. So none has an advantage, and adding an agent does not
/// change which of two others is first.
///
/// Each agent has an account, an action scheme, observations and rewards of its own. An agent that
/// goes bankrupt or gets a margin call is terminated. Its open orders are cancelled in the next
/// step, its position stays, and the others go on. The episode ends for all at the time limit.
///
/// With one agent everything equals a [`TradingEnv`](super::TradingEnv) of the same seed, bit for
/// bit. An agent that sends nothing changes neither prices nor the random draws of others. Steps
/// and resets allocate nothing. A copy continues as the original would.
///
/// ```
/// use backcast_gym::{
///     ExternalAgentConfig, MultiAgentTradingEnv, TradingEnvConfig, TradingResetOptions,
/// };
///
/// let agents = vec![ExternalAgentConfig::default(); 2];
/// let mut env = MultiAgentTradingEnv::new(TradingEnvConfig::default(), agents)?;
/// let mut observations = vec![0.0; 2 * env.observation_size()];
/// env.reset_into(Some(42), TradingResetOptions::default(), &mut observations)?;
/// env.step_into(&[2, 0], &mut observations)?; // the first buys, the second sells
/// assert_eq!((env.info(0).position, env.info(1).position), (100, -100));
/// assert_eq!(env.rewards().len(), 2);
/// # Ok::<(), backcast_gym::TradingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiAgentTradingEnv {
    pub(super) setup: Arc<TradingSetup>,
    runner: EpisodeRunner,
    /// Phase, reward and flags of each agent.
    episodes: Episodes,
}

impl MultiAgentTradingEnv {
    /// Maximum number of agents.
    pub const MOST_AGENTS: usize = 4_096;

    /// Builds an environment; reset it before the first step.
    ///
    /// `agents` take the place of `config.agent`, which is not read. `config.reward` builds one
    /// reward function for each.
    ///
    /// # Errors
    /// [`TradingError`] for a setting that cannot be used, before anything runs.
    pub fn new(
        config: TradingEnvConfig,
        agents: Vec<ExternalAgentConfig>,
    ) -> Result<Self, TradingError> {
        let count = agents.len();
        if !(1..=Self::MOST_AGENTS).contains(&count) {
            return Err(TradingError::BadAgentCount { agents: count, limit: Self::MOST_AGENTS });
        }
        check_agents(&config, count)?;
        let setup = Arc::new(TradingSetup::with_agents(config, agents)?);
        let seed = setup.config.seed.unwrap_or_else(rand::random);
        let episodes = Episodes::new(count).ok_or_else(|| no_room(&setup.config, 1, 0))?;
        Ok(Self { runner: EpisodeRunner::new(&setup, seed)?, episodes, setup })
    }

    /// Begins an episode of all agents and writes their observations, `[K, F]`.
    ///
    /// `seed` restarts the stream of episode seeds; `None` continues it. `options` hold for every
    /// agent.
    pub fn reset_into(
        &mut self,
        seed: Option<u64>,
        options: TradingResetOptions,
        observations: &mut [f32],
    ) -> Result<(), TradingError> {
        self.check_observations(observations)?;
        self.setup.check_options(&options)?;
        if let Some(seed) = seed {
            self.runner.stream = SplitMix::new(seed);
        }
        self.runner.begin(&options).inspect_err(|_| self.setup.recover(&mut self.episodes))?;
        self.episodes.start_call();
        for agent in 0..self.agents() {
            self.episodes.begin(agent);
            self.episodes.clear_outcome(agent);
        }
        self.observe(observations)
    }

    /// Takes one decision of every active agent and writes the observations of all, `[K, F]`.
    ///
    /// `actions`: the numbers of all agents, one agent after the other. A terminated agent has
    /// numbers too, which are not read. [`action_range`](Self::action_range) is the range of one
    /// agent's numbers.
    ///
    /// # Errors
    /// [`TradingError`] before anything changes: a wrong length, a number outside the bounds of an
    /// agent's scheme, no reset before, or an episode that has ended for all.
    pub fn step_into<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        observations: &mut [f32],
    ) -> Result<(), TradingError> {
        check_length("actions", self.actions_len(), Some(actions.len()))?;
        self.check_observations(observations)?;
        if !self.active().contains(&true) {
            self.episodes.next_step(0, AutoresetMode::Disabled, false)?;
        }
        let mut rest = actions;
        for (agent, (seat, active)) in self.runner.seats().iter().zip(self.active()).enumerate() {
            let (numbers, later) = rest.split_at(seat.action_len());
            rest = later;
            if *active {
                let checked = seat.agent().config().check_action(0, numbers);
                checked.map_err(|error| error.of_agent(agent))?;
            }
        }
        self.episodes.start_call();
        for agent in 0..self.agents() {
            self.episodes.clear_outcome(agent);
        }
        self.runner.step(actions, |agent, seat, outcome| {
            self.episodes.enter(agent, outcome, || seat.metrics());
        });
        self.observe(observations)
    }

    fn check_observations(&self, observations: &[f32]) -> Result<(), TradingError> {
        let expected = self.agents() * self.observation_size();
        Ok(check_length("observations", expected, Some(observations.len()))?)
    }

    fn observe(&self, observations: &mut [f32]) -> Result<(), TradingError> {
        for (agent, out) in observations.chunks_exact_mut(self.observation_size()).enumerate() {
            self.runner.observe(agent, out)?;
        }
        Ok(())
    }

    fn seat(&self, agent: usize) -> &AgentSeat {
        &self.runner.seats()[agent]
    }

    /// Returns the number of agents, `K`.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.runner.seats().len()
    }

    /// Returns one agent.
    ///
    /// # Panics
    ///
    /// If there is no such agent, as with any slice; this holds for every readout by agent.
    #[must_use]
    pub fn agent(&self, agent: usize) -> &ExternalAgent {
        self.seat(agent).agent()
    }

    /// Writes the current observations of all agents, `[K, F]`, without allocating.
    ///
    /// # Errors
    /// [`TradingError`] before the first reset, or for a slice of another length.
    pub fn observe_into(&self, observations: &mut [f32]) -> Result<(), TradingError> {
        self.check_observations(observations)?;
        if !self.episodes.has_begun(0) {
            return Err(EpisodeError::NotReset { env: 0 }.into());
        }
        self.observe(observations)
    }

    /// Returns the position of one agent's numbers among those of all agents.
    #[must_use]
    pub fn action_range(&self, agent: usize) -> std::ops::Range<usize> {
        let start = self.runner.seats()[..agent].iter().map(AgentSeat::action_len).sum();
        start..start + self.seat(agent).action_len()
    }

    /// Returns how many numbers the actions of all agents have together.
    #[must_use]
    pub fn actions_len(&self) -> usize {
        self.runner.seats().iter().map(AgentSeat::action_len).sum()
    }

    /// Returns a mask of the choices of one agent's discrete scheme, symbol by symbol: false for a
    /// choice that limits, cash or open orders rule out now. It is empty for a continuous scheme.
    #[must_use]
    pub fn action_mask(&self, agent: usize) -> Vec<bool> {
        let choices = self.seat(agent).agent().config().actions.choices().unwrap_or(0);
        let mut mask = vec![false; usize::from(self.setup.market.symbols) * choices];
        self.runner.mask(agent, &mut mask);
        mask
    }

    /// Returns which agents act in the next step, `[K]`.
    #[must_use]
    pub fn active(&self) -> &[bool] {
        self.runner.active()
    }

    /// Returns the rewards of the last step, `[K]`; 0 for agents that did not act.
    #[must_use]
    pub fn rewards(&self) -> &[f64] {
        self.episodes.rewards()
    }

    /// Returns which agents the last step terminated, `[K]`.
    #[must_use]
    pub fn terminated(&self) -> &[bool] {
        self.episodes.terminated()
    }

    /// Returns which agents reached the time limit in the last step, `[K]`.
    #[must_use]
    pub fn truncated(&self) -> &[bool] {
        self.episodes.truncated()
    }

    /// Returns the details of the last step in which one agent acted, or of the reset if it has not
    /// acted since.
    #[must_use]
    pub fn info(&self, agent: usize) -> &StepInfo {
        self.seat(agent).info()
    }

    /// Returns all fills of the last step in which one agent acted, in sequence.
    #[must_use]
    pub fn fills(&self, agent: usize) -> &[SlotFill] {
        self.seat(agent).fills()
    }

    /// Returns the orders of the last step in which one agent acted, with
    /// [`ActionScheme::LimitOrders`](super::ActionScheme::LimitOrders).
    #[must_use]
    pub fn orders(&self, agent: usize) -> &StepOrders {
        self.seat(agent).orders()
    }

    /// Returns the state of one agent's episode after its last step.
    #[must_use]
    pub fn state(&self, agent: usize) -> &EpisodeState {
        self.seat(agent).state()
    }

    /// Returns the metrics of one agent's running or last episode.
    #[must_use]
    pub fn metrics(&self, agent: usize) -> EpisodeMetrics {
        self.seat(agent).metrics()
    }

    /// Returns the metrics of one agent's running or last episode; `None` before the first reset.
    #[must_use]
    pub fn metrics_so_far(&self, agent: usize) -> Option<EpisodeMetrics> {
        self.episodes.has_begun(0).then(|| self.metrics(agent))
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
        self.market().check()
    }
}
