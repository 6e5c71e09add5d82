//! One sub-environment: a market, its agent from outside, and the running episode.
//!
//! The single and the vector environment both step runners, so that they are equal bit for bit.

use std::sync::Arc;

use backcast_sim::{DAY_TICKS, Market, MarketConfig, SlotFill};

use super::{
    actions::ActionScheme,
    config::{SeedSpace, TradingEnvConfig, TradingResetOptions},
    episode::{EpisodeLimits, EpisodeState, StepInfo, currency, liquidation_value},
    error::TradingError,
    external_agent::{ExternalAgent, SLOT},
    observation::ObservationLayout,
    reward::{RewardFunction, RewardInput},
};
use crate::contract::{EpisodeMetrics, EpisodeSums, SplitMix, StepOutcome};

/// Fills of one step that a reward function sees.
const FILLS: usize = 64;

/// Trading days of a year, for annualised metrics.
const DAYS_A_YEAR: f64 = 252.0;

/// Seed of the streams of the first warm snapshot; the others count up from it.
const SNAPSHOT_SEED: u64 = 0x0057_A125_0000_0000;

/// Checked settings and warm markets that all sub-environments share.
#[derive(Debug)]
pub(super) struct TradingSetup {
    pub(super) config: TradingEnvConfig,
    pub(super) market: Arc<MarketConfig>,
    pub(super) layout: ObservationLayout,
    limits: EpisodeLimits,
    snapshots: Vec<Market>,
}

impl TradingSetup {
    pub(super) fn new(config: TradingEnvConfig) -> Result<Self, TradingError> {
        let market = config.check()?;
        let (features, private) = (config.features, config.private_features);
        let layout = ObservationLayout::new(features, private, market.symbols);
        let limits = config.limits();
        let mut setup = Self { config, market, layout, limits, snapshots: Vec::new() };
        for number in 0..u64::from(setup.config.warm_snapshots) {
            let mut market = setup.build_market(SNAPSHOT_SEED + number)?;
            market.run(setup.config.warmup_ticks);
            setup.snapshots.push(market);
        }
        Ok(setup)
    }

    fn build_market(&self, seed: u64) -> Result<Market, TradingError> {
        let agents = self.config.simulation.agents.clone();
        Ok(Market::with_agents(Arc::clone(&self.market), seed, agents)?)
    }

    /// Returns the numbers of one action, all symbols together.
    pub(super) fn action_len(&self) -> usize {
        usize::from(self.market.symbols) * self.scheme().numbers()
    }

    pub(super) fn scheme(&self) -> ActionScheme {
        self.config.agent.actions
    }

    /// Checks the choices of a reset.
    pub(super) fn check_options(&self, options: &TradingResetOptions) -> Result<(), TradingError> {
        if options.shares.is_none() && options.cash.is_none() {
            return Ok(());
        }
        if !self.snapshots.is_empty() {
            return Err(TradingError::FixedEndowment);
        }
        let mut account = self.config.agent.slot().account;
        account.shares = options.shares.unwrap_or(account.shares);
        account.cash = options.cash.unwrap_or(account.cash);
        Ok(account.check(SLOT)?)
    }
}

/// One sub-environment.
#[derive(Clone, Debug)]
pub(super) struct EpisodeRunner {
    setup: Arc<TradingSetup>,
    market: Market,
    agent: ExternalAgent,
    reward: Box<dyn RewardFunction>,
    pub(super) stream: SplitMix,
    state: EpisodeState,
    initial_equity: f64,
    /// Tick of the market at which the warm-up ended.
    start_tick: u64,
    /// Fills of the step, at most [`FILLS`].
    fills: Vec<SlotFill>,
    /// Numbers of the action of the step.
    action: Vec<f64>,
    sums: EpisodeSums,
    info: StepInfo,
}

impl EpisodeRunner {
    /// Builds a sub-environment whose market was never warmed up.
    pub(super) fn new(setup: &Arc<TradingSetup>, seed: u64) -> Result<Self, TradingError> {
        Ok(Self {
            market: setup.build_market(0)?,
            agent: ExternalAgent::new(setup.config.agent),
            reward: setup.config.reward.build(),
            stream: SplitMix::new(seed),
            state: EpisodeState::default(),
            initial_equity: 0.0,
            start_tick: 0,
            fills: Vec::with_capacity(FILLS),
            action: vec![0.0; setup.action_len()],
            sums: EpisodeSums::default(),
            info: StepInfo::default(),
            setup: Arc::clone(setup),
        })
    }

    /// Begins an episode. Its endowment and seed come from checked `options` or are the default.
    pub(super) fn begin(&mut self, options: &TradingResetOptions) -> Result<(), TradingError> {
        let setup = Arc::clone(&self.setup);
        let config = &setup.config;
        let seed = options.episode_seed.unwrap_or_else(|| {
            let odd = u64::from(config.seed_space == SeedSpace::Test);
            self.stream.below(1 << 63) << 1 | odd
        });
        let snapshots = setup.snapshots.len() as u64;
        let snapshot = seed.checked_rem(snapshots);
        if let Some(number) = snapshot {
            self.market.clone_from(&setup.snapshots[number as usize]);
            self.market.reseed(seed);
        } else {
            let account = config.agent.slot().account;
            let cash = options.cash.unwrap_or(account.cash);
            let shares = options.shares.unwrap_or(account.shares);
            self.market.set_endowment(SLOT, cash, shares)?;
            self.market.reset(seed);
            self.market.run(config.warmup_ticks);
        }
        self.start_tick = self.market.now();
        self.state = EpisodeState::read(&self.market, config.mark);
        self.initial_equity = self.state.equity;
        self.fills.clear();
        self.reward.reset(&self.state);
        let steps_a_day = DAY_TICKS as f64 / f64::from(config.frame_skip);
        self.sums = EpisodeSums::begin(self.state.equity, DAYS_A_YEAR * steps_a_day);
        self.info = StepInfo {
            tick: self.state.tick,
            equity: self.state.equity,
            realized_pnl: self.state.realized_pnl,
            mid_price: self.state.mid_price,
            position: self.state.position,
            episode_seed: seed,
            snapshot: snapshot.map(|number| number as u32),
            ..StepInfo::default()
        };
        Ok(())
    }

    /// Takes one decision with checked numbers and runs the ticks of the step.
    pub(super) fn step<A: Copy + Into<f64>>(&mut self, action: &[A]) -> StepOutcome {
        let Self { setup, market, agent, fills, .. } = self;
        let config = &setup.config;
        for (number, &given) in self.action.iter_mut().zip(action) {
            *number = given.into();
        }
        let before = market.totals(SLOT).unwrap_or_default();
        let mut masked = 0;
        let numbers = setup.scheme().numbers();
        for (symbol, numbers) in (0..).zip(self.action.chunks_exact(numbers)) {
            masked += agent.act(market, symbol, numbers).masked;
        }
        fills.clear();
        let mut traded = 0_i64;
        let end = self.start_tick + setup.limits.max_ticks;
        let ticks = u64::from(config.frame_skip).min(end - market.now());
        for _ in 0..ticks {
            market.tick();
            for fill in market.fills(SLOT).unwrap_or_default() {
                traded += i64::from(fill.price) * i64::from(fill.quantity);
                if fills.len() < FILLS {
                    fills.push(*fill);
                }
            }
        }
        let prev = self.state;
        let mut state = EpisodeState::read(market, config.mark);
        let margin_call = setup.limits.is_margin_call(&state);
        if margin_call {
            let value = |symbol| {
                let position = market.position(SLOT, symbol).unwrap_or_default();
                liquidation_value(market, symbol, position) as f64 * currency(market)
            };
            state.equity = state.cash + (0..market.symbols()).map(value).sum::<f64>();
        }
        state.decisions = prev.decisions + 1;
        state.peak_equity = prev.peak_equity.max(state.equity);
        state.traded = prev.traded + traded as f64 * market.config().tick_size;
        let terminated = margin_call || setup.limits.is_bankrupt(&state);
        let truncated = market.now() >= end;
        let reward = self.reward.compute(&RewardInput {
            prev: &prev,
            action: &self.action,
            curr: &state,
            fills,
            initial_equity: self.initial_equity,
            terminated,
            truncated,
        });
        self.sums.arrive(state.equity);
        self.sums.traded += state.traded - prev.traded;
        self.sums.costs += state.fees - prev.fees;
        self.sums.orders += (state.fills - prev.fills) as u32;
        let totals = market.totals(SLOT).unwrap_or_default();
        self.info = StepInfo {
            tick: state.tick,
            decisions: state.decisions,
            equity: state.equity,
            pnl: state.equity - prev.equity,
            realized_pnl: state.realized_pnl,
            mid_price: state.mid_price,
            position: state.position,
            fees: state.fees - prev.fees,
            fills: state.fills - prev.fills,
            refused: totals.refused - before.refused,
            masked,
            margin_call,
            episode_seed: self.info.episode_seed,
            snapshot: self.info.snapshot,
        };
        self.state = state;
        StepOutcome { reward, terminated, truncated }
    }

    /// Writes the observation.
    pub(super) fn observe(&self, out: &mut [f32]) -> Result<(), TradingError> {
        let left =
            1.0 - (self.market.now() - self.start_tick) as f64 / self.setup.limits.max_ticks as f64;
        self.setup.layout.write(&self.market, left, out)
    }

    /// Writes which choices of a discrete scheme can have an effect now.
    pub(super) fn mask(&self, out: &mut [bool]) {
        let Some(choices) = self.setup.scheme().choices() else { return };
        for (symbol, out) in (0..).zip(out.chunks_exact_mut(choices)) {
            self.agent.mask(&self.market, symbol, out);
        }
    }

    pub(super) fn market(&self) -> &Market {
        &self.market
    }

    pub(super) fn state(&self) -> &EpisodeState {
        &self.state
    }

    pub(super) fn info(&self) -> &StepInfo {
        &self.info
    }

    pub(super) fn metrics(&self) -> EpisodeMetrics {
        self.sums.metrics()
    }
}
