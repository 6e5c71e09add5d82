//! Background agents: five archetypes in one flat array, each with a random stream of its own.

mod executor;
mod factory;
mod maker;
mod noise;
mod signal;
mod user;
mod value;

pub use factory::AgentFactory;
pub use user::{Agent, CloneAgent, Floor};

use crate::{
    config::{Archetype, Population},
    rng::{RandomStream, StreamRole, mix},
    tape::Tape,
    venue::AgentDesk,
    wheel::Wheel,
};
use executor::Executor;
use signal::Signal;
use value::ValueTrader;

/// State of one archetype.
#[derive(Clone, Copy, Debug)]
enum Mind {
    Maker,
    Noise,
    Value(ValueTrader),
    Signal(Signal),
    Executor(Executor),
}

#[derive(Clone, Copy, Debug)]
struct Background {
    stream: RandomStream,
    /// Hash of its identity, which decides its turn within a tick.
    identity: u64,
    archetype: Archetype,
    symbol: u16,
    ordinal: u16,
    account: u16,
    mind: Mind,
}

/// Background agents of one symbol.
#[derive(Debug)]
pub(crate) struct Agents {
    population: Population,
    list: Vec<Background>,
}

impl Clone for Agents {
    fn clone(&self) -> Self {
        Self { population: self.population, list: self.list.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.population = source.population;
        self.list.clone_from(&source.list);
    }
}

impl Background {
    /// Returns the key of its stream, which does not depend on the other agents.
    const fn index(&self) -> u64 {
        (self.archetype as u64) << 48 | (self.symbol as u64) << 32 | self.ordinal as u64
    }
}

impl Agents {
    pub(crate) const fn new(population: &Population) -> Self {
        Self { population: *population, list: Vec::new() }
    }

    pub(crate) fn add(&mut self, archetype: Archetype, ordinal: u16, symbol: u16, account: u16) {
        let mut agent = Background {
            stream: RandomStream::default(),
            identity: 0,
            archetype,
            symbol,
            ordinal,
            account,
            mind: Mind::Maker,
        };
        agent.identity = mix(agent.index() ^ 0x5851_F42D_4C95_7F2D);
        self.list.push(agent);
    }

    pub(crate) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Draws every agent anew and schedules its first action after `now`.
    pub(crate) fn reset(&mut self, seed: u64, now: u64, wheel: &mut Wheel) {
        wheel.clear();
        let Self { population, list } = self;
        for (at, agent) in list.iter_mut().enumerate() {
            agent.stream = RandomStream::new(seed, StreamRole::Agent, agent.index());
            let stream = &mut agent.stream;
            let (mind, wait) = match agent.archetype {
                Archetype::Maker => (Mind::Maker, population.maker.wait),
                Archetype::Noise => (Mind::Noise, population.noise.wait),
                Archetype::Value => (
                    Mind::Value(ValueTrader::draw(&population.value, stream)),
                    population.value.wait,
                ),
                Archetype::Signal => {
                    (Mind::Signal(Signal::draw(&population.signal, stream)), population.signal.wait)
                }
                Archetype::Executor => {
                    (Mind::Executor(Executor::draw(population.shares)), population.executor.idle)
                }
            };
            agent.mind = mind;
            wheel.schedule(at as u16, now + agent.stream.wait(wait));
        }
    }

    /// Replaces every stream and keeps the rest.
    pub(crate) fn reseed(&mut self, seed: u64) {
        for agent in &mut self.list {
            agent.stream = RandomStream::new(seed, StreamRole::Agent, agent.index());
        }
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = u16> {
        self.list.iter().map(|agent| agent.account)
    }

    /// Returns the accounts of one archetype.
    pub(crate) fn accounts_of(&self, archetype: Archetype) -> impl Iterator<Item = u16> {
        let list = self.list.iter().filter(move |agent| agent.archetype == archetype);
        list.map(|agent| agent.account)
    }

    /// Returns the archetype of the agent that owns `account`.
    pub(crate) fn archetype_of(&self, account: u16) -> Option<Archetype> {
        let agent = self.list.iter().find(|agent| agent.account == account);
        agent.map(|agent| agent.archetype)
    }

    /// Returns the sort key of an agent's turn: a hash of the tick and the agent's identity, with
    /// the agent's number in the low 16 bits.
    #[inline]
    pub(crate) fn turn(&self, agent: u16, tick: u64) -> u64 {
        let hash = mix(tick ^ self.list[usize::from(agent)].identity);
        hash & !0xFFFF | u64::from(agent)
    }

    #[inline]
    pub(crate) fn account(&self, agent: u16) -> u16 {
        self.list[usize::from(agent)].account
    }

    /// Lets one agent act, and returns the ticks until its next action.
    #[inline]
    pub(crate) fn act(&mut self, agent: u16, desk: &mut AgentDesk<'_>) -> u64 {
        let Self { population, list } = self;
        let agent = &mut list[usize::from(agent)];
        let stream = &mut agent.stream;
        let wait = match &mut agent.mind {
            Mind::Maker => maker::act(&population.maker, population.shares, stream, desk),
            Mind::Noise => noise::act(&population.noise, stream, desk),
            Mind::Value(value) => value.act(&population.value, stream, desk),
            Mind::Signal(signal) => signal.act(&population.signal, stream, desk),
            Mind::Executor(executor) => executor.act(&population.executor, stream, desk),
        };
        stream.wait(paced(wait, desk.tape()))
    }

    pub(crate) fn digest(&self, wheel: &Wheel, mut word: impl FnMut(u64)) {
        for (at, agent) in self.list.iter().enumerate() {
            word(agent.stream.state());
            word(wheel.wake(at as u16));
            word(match &agent.mind {
                Mind::Maker | Mind::Noise => 0,
                Mind::Value(value) => value.digest(),
                Mind::Signal(signal) => signal.digest(),
                Mind::Executor(executor) => executor.digest(),
            });
        }
    }
}

/// Divides a mean wait by the market's arousal. The result is at least one tick.
#[inline]
fn paced(wait: f64, tape: &Tape) -> f64 {
    (wait / tape.arousal).max(1.0)
}

/// Rounds a drawn size to shares, at least 1 and at most `limit`.
#[inline]
fn shares(size: f64, limit: i32) -> i32 {
    size.round().clamp(1.0, f64::from(limit)) as i32
}
