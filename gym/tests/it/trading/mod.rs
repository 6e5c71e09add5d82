//! The trading environment: one module for each theme.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "small numbers of tests, and results that are equal to the last bit"
)]

mod actions;
mod allocation;
mod forked;
mod interrupts;
mod limit_orders;
mod multi_agent;
mod readouts;
mod resolved;
mod seed_document;
mod snapshots;
mod vector;

use backcast_gym::{RewardFactory, TradingEnv, TradingEnvConfig};
use backcast_sim::{Preset, SlotConfig};

/// Returns settings of short episodes, each in a market that is warmed up for 50 ticks.
fn short() -> TradingEnvConfig {
    let warm = TradingEnvConfig { warmup_ticks: 50, warm_snapshots: 0, ..Default::default() };
    TradingEnvConfig { max_ticks: 60, ..warm }
}

fn with_reward<R: backcast_gym::RewardFunction + 'static>(
    config: TradingEnvConfig,
    build: impl Fn() -> R + Send + Sync + 'static,
) -> TradingEnvConfig {
    TradingEnvConfig { reward: RewardFactory::new(build), ..config }
}

fn env(config: TradingEnvConfig) -> TradingEnv {
    TradingEnv::new(config).unwrap()
}

/// Returns a function that draws pseudo-random numbers below its argument, repeatable by seed.
fn draws(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed.wrapping_mul(2) + 1;
    move |bound| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u64::from((state >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }
}

/// Returns the preset `normal` without fees and borrowing costs.
fn without_costs() -> backcast_sim::MarketConfig {
    let mut market = Preset::Normal.config();
    market.fees.taker_ppm = 0;
    market.fees.borrow_ppm_per_day = 0;
    market
}

/// Builds the market of a configuration directly, without an environment.
fn bare_market(config: &TradingEnvConfig, seed: u64) -> backcast_sim::Market {
    let mut market = config.simulation.market.clone();
    let agent = config.agent;
    let latency_ticks = agent.latency_ticks;
    market.slots =
        vec![SlotConfig { account: agent.account, latency_ticks, ..SlotConfig::default() }];
    backcast_sim::Market::new(&market, seed).unwrap()
}
