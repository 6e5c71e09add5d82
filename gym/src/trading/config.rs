//! Settings of the trading environment.

use std::sync::Arc;

use backcast_core::Interrupt;
use backcast_sim::{
    AccountConfig, Agent, Book, CASH_PER_TICK, ConfigError, MarketConfig, Preset, SlotConfig,
    facts::WARM_UP_TICKS,
};

use super::{
    episode::{EpisodeLimits, MarkPrice},
    error::TradingError,
    external_agent::ExternalAgentConfig,
    reward::RewardFactory,
};
use crate::contract::choice;

/// Maximum number of warm snapshots.
const MOST_SNAPSHOTS: u32 = 1_024;
/// Maximum ticks of a warm-up or an episode.
const MOST_TICKS: u64 = 1 << 40;

choice!(
    /// Features that an observation has for each symbol.
    FeatureChoice, "features", {
        /// 40 features that do not depend on the price level:
        /// [`NormalisedFeatures`](backcast_sim::NormalisedFeatures). The default.
        #[default]
        Normalised = "normalised",
        /// 55 features in currency and per cent: [`FullFeatures`](backcast_sim::FullFeatures).
        Full = "full",
    }
);

choice!(
    /// Episode seeds to draw from. The two sets are disjoint.
    SeedSpace, "seed_space", {
        /// Even episode seeds. The default.
        #[default]
        Train = "train",
        /// Odd episode seeds.
        Test = "test",
    }
);

/// Market and user agents of every episode.
///
/// The environment's agents replace the first slots of the market. Further slots stay silent.
#[derive(Clone, Debug)]
pub struct SimulationConfig {
    /// Settings of the market.
    pub market: MarketConfig,
    /// Agents of the user, each with its account.
    pub agents: Vec<(AccountConfig, Box<dyn Agent>)>,
    /// Interrupt of warm-ups, which is looked at every 4,096 ticks. Then the constructor, the reset
    /// or the step fails with [`TradingError::Interrupted`].
    pub interrupt: Interrupt,
}

impl SimulationConfig {
    /// Returns the market of a preset, by name.
    ///
    /// # Errors
    /// [`ConfigError::UnknownPreset`].
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        name.parse::<Preset>().map(Self::from)
    }
}

impl From<Preset> for SimulationConfig {
    fn from(preset: Preset) -> Self {
        preset.config().into()
    }
}

impl From<MarketConfig> for SimulationConfig {
    fn from(market: MarketConfig) -> Self {
        Self { market, agents: Vec::new(), interrupt: Interrupt::never() }
    }
}

impl Default for SimulationConfig {
    /// Returns [`Preset::Normal`].
    fn default() -> Self {
        Preset::Normal.into()
    }
}

/// Settings of a trading environment, checked when it is built.
#[derive(Clone, Debug)]
pub struct TradingEnvConfig {
    /// Market and background agents.
    pub simulation: SimulationConfig,
    /// The agent from outside.
    pub agent: ExternalAgentConfig,
    /// Ticks of an episode after its warm-up, 1 to 2^40. The episode is truncated after them.
    pub max_ticks: u64,
    /// Ticks of a market before an episode, at most 2^40. The agent sends nothing during them.
    pub warmup_ticks: u64,
    /// Ticks of one step, 1 to 1,000,000.
    pub frame_skip: u32,
    /// Seed of the first reset, if that has none: it is as if it had this one. `None` draws one.
    /// In a vector, sub-environment `i` gets `seed + i`.
    pub seed: Option<u64>,
    /// Set of episode seeds.
    pub seed_space: SeedSpace,
    /// Builder of the reward function.
    pub reward: RewardFactory,
    /// Features of each symbol.
    pub features: FeatureChoice,
    /// Whether observations end with the agent's own state. Without it the task is not Markov.
    pub private_features: bool,
    /// Price at which positions are valued.
    pub mark: MarkPrice,
    /// Equity in currency units at or below which an episode is terminated.
    pub bankruptcy_equity: f64,
    /// Equity that positions and open orders need at least, as a fraction of their value, in
    /// `[0, 1]`: [`Market::margin_room`](backcast_sim::Market::margin_room). Orders are clipped to
    /// it, and refused on arrival above it. 0 asks for none; else it is at least
    /// `maintenance_margin`. The default of 0.5 is that of Regulation T (12 CFR 220.12).
    pub initial_margin: f64,
    /// Equity as a fraction of the gross value of the positions, in `[0, 1)`. Below it an episode
    /// is terminated and valued at liquidation. With 0 only a negative equity is below it. The
    /// default of 0.3 is that of FINRA rule 4210(c)(3) for short positions.
    pub maintenance_margin: f64,
    /// Number of warm snapshots, at most 1,024; 0 warms up every episode.
    ///
    /// A snapshot is a market that ran `warmup_ticks` when the environment was built: book, price,
    /// hidden value, and positions of all background agents. An episode copies the snapshot that
    /// its seed draws, and goes on with random streams of its own. The agents from outside start
    /// with their endowment. The two seed spaces have different snapshots.
    pub warm_snapshots: u32,
}

impl Default for TradingEnvConfig {
    /// Returns episodes of 10,000 ticks with one decision a tick. They begin from 16 snapshots that
    /// were warmed up for an hour, after which volatility and volume have settled.
    fn default() -> Self {
        Self {
            simulation: SimulationConfig::default(),
            agent: ExternalAgentConfig::default(),
            max_ticks: 10_000,
            warmup_ticks: WARM_UP_TICKS,
            frame_skip: 1,
            seed: None,
            seed_space: SeedSpace::default(),
            reward: RewardFactory::default(),
            features: FeatureChoice::default(),
            private_features: true,
            mark: MarkPrice::default(),
            bankruptcy_equity: 0.0,
            initial_margin: 0.5,
            maintenance_margin: 0.3,
            warm_snapshots: 16,
        }
    }
}

impl TradingEnvConfig {
    /// Checks every setting and returns the market with the slots of `agents`.
    pub(super) fn check(
        &self,
        agents: &[ExternalAgentConfig],
    ) -> Result<Arc<MarketConfig>, TradingError> {
        let refuse = |option, value, rule| Err(TradingError::BadOption { option, value, rule });
        if !(1..=MOST_TICKS).contains(&self.max_ticks) {
            return refuse("max_ticks", self.max_ticks as f64, "1 to 2^40 ticks");
        }
        if self.warmup_ticks > MOST_TICKS {
            return refuse("warmup_ticks", self.warmup_ticks as f64, "0 to 2^40 ticks");
        }
        if !(1..=1_000_000).contains(&self.frame_skip) {
            return refuse("frame_skip", self.frame_skip.into(), "1 to 1000000 ticks");
        }
        if !self.bankruptcy_equity.is_finite() {
            let rule = "a finite amount of currency units";
            return refuse("bankruptcy_equity", self.bankruptcy_equity, rule);
        }
        if !(0.0..1.0).contains(&self.maintenance_margin) {
            let rule = "a fraction in [0, 1); 0 calls below an equity of 0";
            return refuse("maintenance_margin", self.maintenance_margin, rule);
        }
        let asked = self.maintenance_margin..=1.0;
        if self.initial_margin != 0.0 && !asked.contains(&self.initial_margin) {
            let rule = "0, or a fraction from `maintenance_margin` to 1; change one of the two";
            return refuse("initial_margin", self.initial_margin, rule);
        }
        if self.warm_snapshots > MOST_SNAPSHOTS {
            return refuse("warm_snapshots", self.warm_snapshots.into(), "0 to 1024");
        }
        let mut market = self.simulation.market.clone();
        // Not 0, which asks for no margin, unless `initial_margin` is 0.
        let least = i32::from(self.initial_margin > 0.0);
        let initial_margin_ppm = ((self.initial_margin * 1e6).round() as i32).max(least);
        let about = |slot, error: TradingError| {
            if agents.len() == 1 { error } else { error.of_agent(slot) }
        };
        for (slot, agent) in agents.iter().enumerate() {
            agent.slot().account.check().map_err(|error| about(slot, error.into()))?;
            let asked = SlotConfig { initial_margin_ppm, ..agent.slot() };
            match market.slots.get_mut(slot) {
                Some(given) => *given = asked,
                None => market.slots.push(asked),
            }
        }
        let users = self.simulation.agents.len();
        // A book has room for the orders of all agents.
        let needed = market.open_orders(users).min(Book::MAX_ORDERS as u64);
        market.book_orders = market.book_orders.max(needed as usize);
        market.check(users)?;
        for (slot, agent) in agents.iter().enumerate() {
            self.check_agent(agent, &market).map_err(|error| about(slot, error))?;
        }
        Ok(Arc::new(market))
    }

    /// Checks the settings of one agent of a checked market.
    fn check_agent(
        &self,
        agent: &ExternalAgentConfig,
        market: &MarketConfig,
    ) -> Result<(), TradingError> {
        agent.check(self.frame_skip, market.symbols)?;
        let AccountConfig { cash, shares, .. } = agent.slot().account;
        let price = f64::from(market.initial_price) * CASH_PER_TICK as f64;
        let start = cash as f64 + f64::from(shares) * f64::from(market.symbols) * price;
        if self.bankruptcy_equity >= start * market.tick_size / CASH_PER_TICK as f64 {
            return Err(TradingError::BadOption {
                option: "bankruptcy_equity",
                value: self.bankruptcy_equity,
                rule: "below the equity at the start, or every episode ends after one step",
            });
        }
        self.check_endowment(cash, shares, market)
    }

    /// Refuses an endowment whose equity is below the maintenance margin at the initial price.
    pub(super) fn check_endowment(
        &self,
        cash: i64,
        shares: i32,
        market: &MarketConfig,
    ) -> Result<(), TradingError> {
        let held = f64::from(shares) * f64::from(market.symbols);
        let value = held * market.price(market.initial_price);
        let equity = cash as f64 * market.cash_unit() + value;
        let margin = self.maintenance_margin * value.abs();
        if equity < margin {
            return Err(TradingError::EndowmentBelowMargin { shares, equity, margin });
        }
        Ok(())
    }

    pub(super) fn limits(&self) -> EpisodeLimits {
        EpisodeLimits {
            max_ticks: self.max_ticks,
            bankruptcy_equity: self.bankruptcy_equity,
            maintenance_margin: self.maintenance_margin,
        }
    }
}

/// Choices of one reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct TradingResetOptions {
    /// Seed of the episode; `None` draws one. In a vector, sub-environment `i` gets stream `i` of
    /// it.
    pub episode_seed: Option<u64>,
    /// Shares of every symbol at the start: of the episode with warm snapshots, else of the
    /// market. `None` keeps the configured endowment.
    pub shares: Option<i32>,
    /// Cash at the same moment, in cash units; `None` keeps the configured endowment.
    pub cash: Option<i64>,
}
