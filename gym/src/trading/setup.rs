//! Checked settings and warm markets that all sub-environments share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use backcast_sim::{Market, MarketConfig};

use super::{
    actions::ActionScheme,
    config::{SeedSpace, TradingEnvConfig, TradingResetOptions},
    episode::EpisodeLimits,
    error::TradingError,
    external_agent::ExternalAgentConfig,
    observation::ObservationLayout,
};
use crate::contract::{Episodes, SplitMix};

/// Seed of the first warm snapshot of the training episodes. The next seed is that of the first
/// snapshot of the test episodes, and so on in turn.
const SNAPSHOT_SEED: u64 = 0x0057_A125_0000_0000;

/// Ticks of a warm-up between two looks at its interrupt: some milliseconds.
const TICKS_A_LOOK: u64 = 4_096;

/// Checked settings and warm markets.
#[derive(Debug)]
pub(super) struct TradingSetup {
    pub(super) config: TradingEnvConfig,
    pub(super) market: Arc<MarketConfig>,
    pub(super) layout: ObservationLayout,
    pub(super) limits: EpisodeLimits,
    /// Agents from outside, in the order of their slots.
    pub(super) agents: Vec<ExternalAgentConfig>,
    snapshots: Vec<Market>,
    /// Whether a warm-up was interrupted, so that those of other threads end too.
    stopped: AtomicBool,
}

impl TradingSetup {
    /// Checks the settings of environments with one agent, and warms up the snapshots.
    pub(super) fn new(config: TradingEnvConfig) -> Result<Self, TradingError> {
        let agents = vec![config.agent];
        Self::with_agents(config, agents)
    }

    /// Checks the settings of environments with several agents, and warms up the snapshots.
    pub(super) fn with_agents(
        config: TradingEnvConfig,
        agents: Vec<ExternalAgentConfig>,
    ) -> Result<Self, TradingError> {
        let market = config.check(&agents)?;
        let (features, private) = (config.features, config.private_features);
        let layout = ObservationLayout::new(features, private, market.symbols);
        let limits = config.limits();
        let (snapshots, stopped) = (Vec::new(), AtomicBool::new(false));
        let mut setup = Self { config, market, layout, limits, agents, snapshots, stopped };
        let odd = setup.parity();
        for number in 0..u64::from(setup.config.warm_snapshots) {
            let mut market = setup.build_market(SNAPSHOT_SEED + 2 * number + odd)?;
            setup.warm_up(&mut market)?;
            setup.snapshots.push(market);
        }
        Ok(setup)
    }

    pub(super) fn build_market(&self, seed: u64) -> Result<Market, TradingError> {
        let agents = self.config.simulation.agents.clone();
        Ok(Market::with_agents(Arc::clone(&self.market), seed, agents)?)
    }

    /// Runs the ticks of a warm-up.
    fn warm_up(&self, market: &mut Market) -> Result<(), TradingError> {
        let mut left = self.config.warmup_ticks;
        while left > 0 {
            let ticks = left.min(TICKS_A_LOOK);
            market.run(ticks);
            left -= ticks;
            let is_ended = || self.config.simulation.interrupt.is_ended_by(None);
            if left > 0 && (self.stopped.load(Relaxed) || is_ended()) {
                self.stopped.store(true, Relaxed);
                return Err(TradingError::Interrupted { left });
            }
        }
        Ok(())
    }

    /// Forgets all episodes after a call that failed between them. Later warm-ups run again.
    pub(super) fn recover(&self, episodes: &mut Episodes) {
        episodes.forget();
        self.stopped.store(false, Relaxed);
    }

    /// Returns how many numbers one action of a single agent has, all symbols together.
    pub(super) fn action_len(&self) -> usize {
        usize::from(self.market.symbols) * self.config.agent.numbers()
    }

    /// Returns the scheme of a single agent.
    pub(super) fn scheme(&self) -> ActionScheme {
        self.config.agent.actions
    }

    /// Returns the lowest bit of the seeds of the environment's seed space.
    fn parity(&self) -> u64 {
        u64::from(self.config.seed_space == SeedSpace::Test)
    }

    /// Checks the endowment that a reset chooses.
    pub(super) fn check_options(&self, options: &TradingResetOptions) -> Result<(), TradingError> {
        if options.shares.is_none() && options.cash.is_none() {
            return Ok(());
        }
        for (slot, agent) in self.agents.iter().enumerate() {
            let mut account = agent.slot().account;
            account.shares = options.shares.unwrap_or(account.shares);
            account.cash = options.cash.unwrap_or(account.cash);
            let checked = account.check().map_err(TradingError::from).and_then(|()| {
                self.config.check_endowment(account.cash, account.shares, &self.market)
            });
            checked.map_err(|error| self.about(slot, error))?;
        }
        Ok(())
    }

    /// Adds the number of an agent, if there are several, to an error about it.
    fn about(&self, slot: usize, error: TradingError) -> TradingError {
        if self.agents.len() == 1 { error } else { error.of_agent(slot) }
    }

    /// Brings `market` to the end of the warm-up of a new episode. Returns the episode's seed, from
    /// checked `options` or from `stream`, and the number of its warm snapshot.
    pub(super) fn begin(
        &self,
        market: &mut Market,
        stream: &mut SplitMix,
        options: &TradingResetOptions,
    ) -> Result<(u64, Option<u32>), TradingError> {
        let seed =
            options.episode_seed.unwrap_or_else(|| stream.below(1 << 63) << 1 | self.parity());
        let snapshot = self.snapshot_of(seed);
        if let Some(number) = snapshot {
            market.clone_from(&self.snapshots[number]);
            market.reseed(seed);
            self.endow(market, options)?;
            for slot in 0..self.agents.len() {
                market.restart_slot(slot)?;
            }
        } else {
            self.endow(market, options)?;
            market.reset(seed);
            self.warm_up(market)?;
        }
        Ok((seed, snapshot.map(|number| number as u32)))
    }

    /// Draws the number of the snapshot that episode `seed` begins from, each with the same
    /// probability; `None` without snapshots.
    fn snapshot_of(&self, seed: u64) -> Option<usize> {
        let count = self.snapshots.len() as u64;
        (count > 0).then(|| SplitMix::new(seed ^ SNAPSHOT_SEED).below(count) as usize)
    }

    /// Sets the endowments of the agents, with what a reset chooses.
    fn endow(
        &self,
        market: &mut Market,
        options: &TradingResetOptions,
    ) -> Result<(), TradingError> {
        for (slot, agent) in self.agents.iter().enumerate() {
            let account = agent.slot().account;
            let cash = options.cash.unwrap_or(account.cash);
            let shares = options.shares.unwrap_or(account.shares);
            market.set_endowment(slot, cash, shares)?;
        }
        Ok(())
    }

    /// Writes the observation of the agent of one slot in an episode that began at `start_tick`.
    pub(super) fn observe(
        &self,
        market: &Market,
        slot: usize,
        start_tick: u64,
        out: &mut [f32],
    ) -> Result<(), TradingError> {
        let left = 1.0 - (market.now() - start_tick) as f64 / self.limits.max_ticks as f64;
        self.layout.write(market, slot, left, out)
    }
}
