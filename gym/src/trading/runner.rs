//! One sub-environment: a market, its agent from outside, and the running episode.
//!
//! The single and the vector environment both step runners, so that they are equal bit for bit.

use std::sync::Arc;

use backcast_sim::Market;

use super::{
    config::TradingResetOptions,
    episode::{EpisodeState, StepInfo},
    error::TradingError,
    seat::AgentSeat,
    setup::TradingSetup,
};
use crate::contract::{EpisodeMetrics, SplitMix, StepOutcome};

/// One sub-environment.
#[derive(Clone, Debug)]
pub(super) struct EpisodeRunner {
    setup: Arc<TradingSetup>,
    market: Market,
    seat: AgentSeat,
    pub(super) stream: SplitMix,
    /// Tick of the market at which the warm-up ended.
    start_tick: u64,
}

impl EpisodeRunner {
    /// Builds a sub-environment whose market was never warmed up.
    pub(super) fn new(setup: &Arc<TradingSetup>, seed: u64) -> Result<Self, TradingError> {
        let config = &setup.config;
        Ok(Self {
            market: setup.build_market(0)?,
            seat: AgentSeat::new(config, config.agent, 0, setup.market.symbols),
            stream: SplitMix::new(seed),
            start_tick: 0,
            setup: Arc::clone(setup),
        })
    }

    /// Begins an episode. Its endowment and seed come from checked `options` or are the default.
    pub(super) fn begin(&mut self, options: &TradingResetOptions) -> Result<(), TradingError> {
        let Self { setup, market, seat, stream, start_tick } = self;
        let (seed, snapshot) = setup.begin(market, stream, options)?;
        *start_tick = market.now();
        seat.begin(market, &setup.config, seed, snapshot);
        Ok(())
    }

    /// Takes one decision with checked numbers and runs the ticks of the step.
    pub(super) fn step<A: Copy + Into<f64>>(&mut self, action: &[A]) -> StepOutcome {
        let Self { setup, market, seat, start_tick, .. } = self;
        seat.decide(market, action);
        let end = *start_tick + setup.limits.max_ticks;
        let ticks = u64::from(setup.config.frame_skip).min(end - market.now());
        for _ in 0..ticks {
            market.tick();
            seat.watch(market);
        }
        let truncated = market.now() >= end;
        seat.arrive(market, &setup.config, &setup.limits, truncated)
    }

    /// Writes the observation.
    pub(super) fn observe(&self, out: &mut [f32]) -> Result<(), TradingError> {
        self.setup.observe(&self.market, 0, self.start_tick, out)
    }

    /// Writes a mask of the choices of a discrete scheme that can have an effect now.
    pub(super) fn mask(&self, out: &mut [bool]) {
        self.seat.mask(&self.market, out);
    }

    pub(super) fn market(&self) -> &Market {
        &self.market
    }

    pub(super) fn state(&self) -> &EpisodeState {
        self.seat.state()
    }

    pub(super) fn info(&self) -> &StepInfo {
        self.seat.info()
    }

    pub(super) fn metrics(&self) -> EpisodeMetrics {
        self.seat.metrics()
    }
}
