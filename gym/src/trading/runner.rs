//! One sub-environment: a market, its agents from outside, and the running episode.
//!
//! The single, the vector and the multi-agent environment all step runners, so that they are equal
//! bit for bit.

use std::sync::Arc;

use backcast_core::plumbing::prefetch_l2;
use backcast_sim::{Market, MemoryVisitor};

use super::{
    config::TradingResetOptions, error::TradingError, seat::AgentSeat, setup::TradingSetup,
};
use crate::contract::{SplitMix, StepOutcome};

/// One sub-environment: its market, its agents and its stream of episode seeds.
#[derive(Clone, Debug)]
pub(super) struct EpisodeRunner {
    setup: Arc<TradingSetup>,
    market: Market,
    /// Agents, in the order of their slots.
    seats: Vec<AgentSeat>,
    /// Whether each agent acts in the next step.
    active: Vec<bool>,
    pub(super) stream: SplitMix,
    /// Tick of the market at which the warm-up ended.
    start_tick: u64,
}

/// Prefetches the memory that it visits.
struct Prefetch;

impl MemoryVisitor for Prefetch {
    #[inline]
    fn visit<V>(&mut self, memory: &[V]) {
        prefetch_l2(memory);
    }
}

impl EpisodeRunner {
    /// Builds a sub-environment whose market was never warmed up.
    pub(super) fn new(setup: &Arc<TradingSetup>, seed: u64) -> Result<Self, TradingError> {
        let symbols = setup.market.symbols;
        let agents = setup.agents.iter().enumerate();
        let seats: Vec<_> = agents
            .map(|(slot, agent)| AgentSeat::new(&setup.config, *agent, slot, symbols))
            .collect();
        Ok(Self {
            market: setup.build_market(0)?,
            active: vec![false; seats.len()],
            seats,
            stream: SplitMix::new(seed),
            start_tick: 0,
            setup: Arc::clone(setup),
        })
    }

    /// Begins an episode. Checked `options` may set its endowment and seed. By default the
    /// endowment is the configured one, and the seed is drawn.
    pub(super) fn begin(&mut self, options: &TradingResetOptions) -> Result<(), TradingError> {
        let Self { setup, market, seats, active, stream, start_tick } = self;
        // An interrupt may end the warm-up.
        active.fill(false);
        *start_tick = 0;
        let (seed, snapshot) = setup.begin(market, stream, options)?;
        *start_tick = market.now();
        for seat in seats {
            seat.begin(market, &setup.config, seed, snapshot);
        }
        active.fill(true);
        Ok(())
    }

    /// Takes one decision of every active agent, runs the ticks of the step, and calls `arrived`
    /// with the result of each of these agents.
    ///
    /// `actions`: checked numbers of all agents, one agent after the other. Those of agents that
    /// are not active are not read.
    #[inline]
    pub(super) fn step<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        mut arrived: impl FnMut(usize, &AgentSeat, StepOutcome),
    ) {
        let Self { setup, market, seats, active, start_tick, .. } = self;
        let mut rest = actions;
        for (seat, active) in seats.iter_mut().zip(&*active) {
            let (numbers, later) = rest.split_at(seat.action_len());
            rest = later;
            if *active {
                seat.decide(market, numbers);
            } else {
                seat.leave(market);
            }
        }
        let end = *start_tick + setup.limits.max_ticks;
        let ticks = u64::from(setup.config.frame_skip).min(end - market.now());
        for _ in 0..ticks {
            market.tick();
            for (seat, _) in seats.iter_mut().zip(&*active).filter(|(_, active)| **active) {
                seat.watch(market);
            }
        }
        let truncated = market.now() >= end;
        for (agent, (seat, active)) in seats.iter_mut().zip(active).enumerate() {
            if *active {
                let outcome = seat.arrive(market, &setup.config, &setup.limits, truncated);
                *active = !outcome.ends();
                arrived(agent, seat, outcome);
            }
        }
    }

    /// Prefetches the fixed parts of a runner that is stepped soon.
    #[inline]
    fn prefetch_parts(&self) {
        prefetch_l2(&self.seats);
        prefetch_l2(&self.active);
        self.market.visit_parts(&mut Prefetch);
    }

    /// Brings the rest of a runner that is stepped next into the caches. Its fixed parts were
    /// prefetched before.
    #[inline]
    fn read_ahead(&self) {
        self.seats.iter().for_each(AgentSeat::prefetch);
        self.market.read_ahead();
    }

    /// Writes the observation of one agent.
    pub(super) fn observe(&self, agent: usize, out: &mut [f32]) -> Result<(), TradingError> {
        self.setup.observe(&self.market, agent, self.start_tick, out)
    }

    /// Writes a mask of the choices of one agent's discrete scheme: false for a choice that limits,
    /// cash or open orders rule out now.
    pub(super) fn mask(&self, agent: usize, out: &mut [bool]) {
        self.seats[agent].mask(&self.market, out);
    }

    pub(super) fn market(&self) -> &Market {
        &self.market
    }

    pub(super) fn seats(&self) -> &[AgentSeat] {
        &self.seats
    }

    /// Returns the first agent, the only one outside multi-agent environments.
    pub(super) fn seat(&self) -> &AgentSeat {
        &self.seats[0]
    }

    pub(super) fn seat_mut(&mut self) -> &mut AgentSeat {
        &mut self.seats[0]
    }

    pub(super) fn active(&self) -> &[bool] {
        &self.active
    }
}

/// Brings the memory of the runners that a thread steps next into its caches, each in three stages:
/// a stage reads the pointers that the stage before has prefetched.
#[inline]
pub(super) fn read_ahead(next: &[EpisodeRunner]) {
    if let Some(runner) = next.get(2..3) {
        prefetch_l2(runner);
    }
    if let Some(runner) = next.get(1) {
        runner.prefetch_parts();
    }
    if let Some(runner) = next.first() {
        runner.read_ahead();
    }
}
