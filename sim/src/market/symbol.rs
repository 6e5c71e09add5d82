//! Hidden value, news and background agents of one symbol.

use crate::{
    agents::{AgentFactory, Agents},
    candles::Candles,
    config::MarketConfig,
    fundamental::{Analyst, Fundamental, Newsroom},
    latent::Consensus,
    ledger::Ledger,
    rng::{RandomStream, StreamRole, key, mix},
    tape::Tape,
    venue::{AgentDesk, Slot, Venue},
    wheel::Wheel,
};

/// Hidden value, news, background agents and candles of one symbol.
#[derive(Debug)]
pub(super) struct SymbolModel {
    pub(super) fundamental: Fundamental,
    pub(super) newsroom: Newsroom,
    pub(super) candles: Candles,
    pub(super) analyst: Analyst,
    pub(super) consensus: Consensus,
    pub(super) agents: Agents,
    pub(super) wheel: Wheel,
    /// Sort keys of the agents due in this tick.
    due: Vec<u64>,
    /// Sort keys in ascending order; later entries are left over from earlier ticks.
    turns: Vec<u64>,
    turn_key: u64,
}

impl Clone for SymbolModel {
    fn clone(&self) -> Self {
        Self {
            agents: self.agents.clone(),
            wheel: self.wheel.clone(),
            due: Vec::with_capacity(self.due.capacity()),
            turns: vec![0; self.turns.len()],
            ..*self
        }
    }

    fn clone_from(&mut self, source: &Self) {
        let Self {
            fundamental,
            newsroom,
            candles,
            analyst,
            consensus,
            agents,
            wheel,
            due: _,
            turns: _,
            turn_key,
        } = source;
        self.fundamental = *fundamental;
        self.newsroom = *newsroom;
        self.candles = *candles;
        self.analyst = *analyst;
        self.consensus = *consensus;
        self.agents.clone_from(agents);
        self.wheel.clone_from(wheel);
        self.turn_key = *turn_key;
    }
}

impl SymbolModel {
    pub(super) fn new(config: &MarketConfig, symbol: u16, ledger: &mut Ledger) -> Self {
        let agents = AgentFactory::new(&config.population).spawn(symbol, ledger);
        Self {
            fundamental: Fundamental::new(),
            newsroom: Newsroom::new(),
            candles: Candles::new(config.initial_price),
            analyst: Analyst::default(),
            consensus: Consensus::default(),
            wheel: Wheel::new(agents.len()),
            due: Vec::with_capacity(agents.len()),
            turns: vec![0; agents.len()],
            agents,
            turn_key: 0,
        }
    }

    pub(super) fn reset(&mut self, config: &MarketConfig, symbol: u16, seed: u64, now: u64) {
        let index = u64::from(symbol);
        let stream = RandomStream::new(seed, StreamRole::Fundamental, index);
        self.fundamental.reset(&config.fundamental, config.initial_price, stream);
        let stream = RandomStream::new(seed, StreamRole::News, index);
        self.newsroom.reset(stream, config.news.symbol_per_day, now);
        self.candles = Candles::new(config.initial_price);
        self.analyst.reset(RandomStream::new(seed, StreamRole::Analyst, index), config);
        let stream = RandomStream::new(seed, StreamRole::Consensus, index);
        self.consensus.reset(stream, &config.latent);
        self.agents.reset(config, seed, now, &mut self.wheel);
        self.turn_key = key(seed, StreamRole::Turn, index);
    }

    /// Replaces every random stream by that of another seed. Keeps the state, except for the time
    /// of the next news.
    pub(super) fn reseed(&mut self, config: &MarketConfig, symbol: u16, seed: u64, now: u64) {
        let index = u64::from(symbol);
        self.fundamental.reseed(RandomStream::new(seed, StreamRole::Fundamental, index));
        let stream = RandomStream::new(seed, StreamRole::News, index);
        self.newsroom.reset(stream, config.news.symbol_per_day, now);
        self.analyst.reseed(RandomStream::new(seed, StreamRole::Analyst, index));
        self.consensus.reseed(RandomStream::new(seed, StreamRole::Consensus, index));
        self.agents.reseed(&config.population, seed);
        self.turn_key = key(seed, StreamRole::Turn, index);
    }

    /// Returns the fair value that features compare the price with, in ticks.
    pub(super) fn shown_value(&self, config: &MarketConfig, tape: &Tape) -> f64 {
        match config.features.reveal_fundamental {
            Some(_) => self.fundamental.value() * self.analyst.error().exp(),
            None => tape.mean_price(),
        }
    }

    /// Lets every due agent act, in an order drawn for this tick. Then lets makers requote around
    /// the latent price, if it is on.
    #[inline]
    pub(super) fn act(
        &mut self,
        config: &MarketConfig,
        (symbol, now, activity): (u16, u64, f64),
        venue: &mut Venue,
        ledger: &mut Ledger,
        slots: &mut [Slot],
    ) {
        let Self { wheel, due, turns, agents, .. } = self;
        due.clear();
        let tick_key = mix(self.turn_key ^ now);
        wheel.expire(now, |agent| due.push(agents.turn(agent, tick_key)));
        sort_turns(due, turns);
        let value = self.fundamental.value();
        let tilt = config.news.sentiment_tilt * self.fundamental.sentiment(now);
        for at in 0..self.due.len() {
            let agent = self.turns[at] as u16;
            let account = self.agents.account(agent);
            let pit = venue.pit(symbol, now, ledger, slots);
            let mut desk = AgentDesk { pit, account, value, tilt, activity };
            let wait = self.agents.act(&config.population, agent, &mut desk);
            self.wheel.schedule(agent, now + wait);
        }
        if config.latent.is_on() {
            self.consensus.step(&config.latent);
            let tape = &mut venue.tape;
            let opinion = self.consensus.of(value);
            tape.reference = opinion + config.latent.displacement(tape.consumed);
            tape.consumed -= tape.consumed / config.latent.recovery_ticks;
            let first = mix(tick_key) as u16;
            let pit = venue.pit(symbol, now, ledger, slots);
            let mut desk = AgentDesk { pit, account: 0, value, tilt, activity };
            self.agents.requote(&config.population, first, &mut desk);
        }
    }

    /// Adds the closed tick of `tape` to the candles, and advances the analyst's error.
    #[inline]
    pub(super) fn end_tick(&mut self, config: &MarketConfig, tape: &Tape) {
        let Tape { high, low, last_price, volume, .. } = *tape;
        self.candles.tick(config.features.candle_ticks, high, low, last_price, volume);
        self.analyst.step(config);
    }
}

/// Writes the keys into `sorted` in ascending order. No two keys may be equal.
///
/// The keys are random, so that a sort by comparisons mispredicts about one branch for each key. A
/// few keys are ranked instead, which needs no branch.
#[inline]
fn sort_turns(keys: &mut [u64], sorted: &mut [u64]) {
    const FEW: usize = 16;
    if keys.len() > FEW {
        keys.sort_unstable();
        sorted[..keys.len()].copy_from_slice(keys);
        return;
    }
    for &key in &*keys {
        let rank = keys.iter().map(|other| usize::from(*other < key)).sum::<usize>();
        sorted[rank] = key;
    }
}
