//! Checked settings and warm markets that all sub-environments share.

use std::sync::Arc;

use backcast_sim::{Market, MarketConfig};

use super::{
    actions::ActionScheme,
    config::{SeedSpace, TradingEnvConfig, TradingResetOptions},
    episode::EpisodeLimits,
    error::TradingError,
    external_agent::ExternalAgentConfig,
    observation::ObservationLayout,
};
use crate::contract::SplitMix;

/// Seed of the streams of the first warm snapshot. Each further snapshot has the next seed.
const SNAPSHOT_SEED: u64 = 0x0057_A125_0000_0000;

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
        let mut setup = Self { config, market, layout, limits, agents, snapshots: Vec::new() };
        for number in 0..u64::from(setup.config.warm_snapshots) {
            let mut market = setup.build_market(SNAPSHOT_SEED + number)?;
            market.run(setup.config.warmup_ticks);
            setup.snapshots.push(market);
        }
        Ok(setup)
    }

    pub(super) fn build_market(&self, seed: u64) -> Result<Market, TradingError> {
        let agents = self.config.simulation.agents.clone();
        Ok(Market::with_agents(Arc::clone(&self.market), seed, agents)?)
    }

    /// Returns how many numbers one action of a single agent has, all symbols together.
    pub(super) fn action_len(&self) -> usize {
        usize::from(self.market.symbols) * self.scheme().numbers()
    }

    /// Returns the scheme of a single agent.
    pub(super) fn scheme(&self) -> ActionScheme {
        self.config.agent.actions
    }

    /// Checks the endowment that a reset chooses. With warm snapshots, refuses any.
    pub(super) fn check_options(&self, options: &TradingResetOptions) -> Result<(), TradingError> {
        if options.shares.is_none() && options.cash.is_none() {
            return Ok(());
        }
        if !self.snapshots.is_empty() {
            return Err(TradingError::FixedEndowment);
        }
        for (slot, agent) in self.agents.iter().enumerate() {
            let mut account = agent.slot().account;
            account.shares = options.shares.unwrap_or(account.shares);
            account.cash = options.cash.unwrap_or(account.cash);
            account.check(slot)?;
        }
        Ok(())
    }

    /// Brings `market` to the end of the warm-up of a new episode. Returns the episode's seed, from
    /// checked `options` or from `stream`, and the number of its warm snapshot.
    pub(super) fn begin(
        &self,
        market: &mut Market,
        stream: &mut SplitMix,
        options: &TradingResetOptions,
    ) -> Result<(u64, Option<u32>), TradingError> {
        let seed = options.episode_seed.unwrap_or_else(|| {
            let odd = u64::from(self.config.seed_space == SeedSpace::Test);
            stream.below(1 << 63) << 1 | odd
        });
        let snapshot = seed.checked_rem(self.snapshots.len() as u64);
        if let Some(number) = snapshot {
            market.clone_from(&self.snapshots[number as usize]);
            market.reseed(seed);
        } else {
            for (slot, agent) in self.agents.iter().enumerate() {
                let account = agent.slot().account;
                let cash = options.cash.unwrap_or(account.cash);
                let shares = options.shares.unwrap_or(account.shares);
                market.set_endowment(slot, cash, shares)?;
            }
            market.reset(seed);
            market.run(self.config.warmup_ticks);
        }
        Ok((seed, snapshot.map(|number| number as u32)))
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
