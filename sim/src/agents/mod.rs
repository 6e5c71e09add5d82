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
    clone_in_place::clone_in_place,
    config::{Archetype, MarketConfig, Population},
    rng::{RandomStream, StreamRole, mix},
    venue::AgentDesk,
    wheel::Wheel,
};
use executor::Executor;
use maker::Maker;
use noise::NoiseTrader;
use signal::Signal;
use value::ValueTrader;

/// State of one agent, by archetype.
#[derive(Clone, Copy, Debug)]
enum Mind {
    Maker(Maker),
    Noise(NoiseTrader),
    Value(ValueTrader),
    Signal(Signal),
    Executor(Executor),
}

impl Mind {
    const fn archetype(&self) -> Archetype {
        match self {
            Self::Maker(_) => Archetype::Maker,
            Self::Noise(_) => Archetype::Noise,
            Self::Value(_) => Archetype::Value,
            Self::Signal(_) => Archetype::Signal,
            Self::Executor(_) => Archetype::Executor,
        }
    }
}

/// One agent; half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Background {
    stream: RandomStream,
    /// Hash of the agent's identity, which decides its turn within a tick.
    identity: u64,
    mind: Mind,
}

const _: () = assert!(size_of::<Background>() == 32);

/// Background agents of one symbol, in the order of [`Population::counts`].
#[derive(Debug)]
pub(crate) struct Agents {
    symbol: u16,
    /// Account of the first agent. The others have the next ones.
    first_account: u16,
    list: Vec<Background>,
}

clone_in_place! {
    Agents { symbol, first_account, list }
}

/// Returns the archetype of every agent of a symbol with the key of its stream, which does not
/// depend on the other agents.
fn identities(population: &Population, symbol: u16) -> impl Iterator<Item = (Archetype, u64)> {
    population.counts().into_iter().flat_map(move |(archetype, count)| {
        (0..count).map(move |ordinal| {
            let key = (archetype as u64) << 48 | u64::from(symbol) << 32 | u64::from(ordinal);
            (archetype, key)
        })
    })
}

impl Agents {
    /// Returns the agents of one symbol, which own the accounts from `first_account` on.
    /// [`reset`](Self::reset) draws them.
    pub(crate) fn new(population: &Population, symbol: u16, first_account: u16) -> Self {
        let list = identities(population, symbol).map(|(_, key)| Background {
            stream: RandomStream::default(),
            identity: mix(key ^ 0x5851_F42D_4C95_7F2D),
            mind: Mind::Maker(Maker::new()),
        });
        Self { symbol, first_account, list: list.collect() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Draws every agent anew. Schedules first actions after `now`, except those of makers that
    /// quote around the latent price.
    pub(crate) fn reset(&mut self, config: &MarketConfig, seed: u64, now: u64, wheel: &mut Wheel) {
        let population = &config.population;
        wheel.clear();
        let identities = identities(population, self.symbol);
        for (at, (agent, (archetype, key))) in self.list.iter_mut().zip(identities).enumerate() {
            agent.stream = RandomStream::new(seed, StreamRole::Agent, key);
            let stream = &mut agent.stream;
            let (mind, wait) = match archetype {
                Archetype::Maker => (Mind::Maker(Maker::new()), population.maker.wait),
                Archetype::Noise => (Mind::Noise(NoiseTrader::new(now)), population.noise.wait),
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
            // Makers that quote around the latent price act at the end of every tick.
            if archetype != Archetype::Maker || !config.latent.is_on() {
                wheel.schedule(at as u16, now + agent.stream.wait(wait));
            }
        }
    }

    /// Replaces every stream and keeps the rest.
    pub(crate) fn reseed(&mut self, population: &Population, seed: u64) {
        for (agent, (_, key)) in self.list.iter_mut().zip(identities(population, self.symbol)) {
            agent.stream = RandomStream::new(seed, StreamRole::Agent, key);
        }
    }

    /// Loads one number of each cache line of the agents, which brings the lines into the caches.
    /// The result has no meaning.
    pub(crate) fn read_ahead(&self) -> u64 {
        let agents = self.list.iter().step_by(64 / size_of::<Background>());
        agents.fold(0, |sum, agent| sum ^ agent.identity)
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = u16> + use<> {
        (self.first_account..).take(self.list.len())
    }

    /// Returns the accounts of one archetype.
    pub(crate) fn accounts_of(&self, archetype: Archetype) -> impl Iterator<Item = u16> {
        let agents = self.accounts().zip(&self.list);
        agents.filter(move |(_, agent)| agent.mind.archetype() == archetype).map(|agent| agent.0)
    }

    /// Returns the archetype of the agent that owns `account`; `None` for other accounts.
    pub(crate) fn archetype_of(&self, account: u16) -> Option<Archetype> {
        let at = account.checked_sub(self.first_account)?;
        self.list.get(usize::from(at)).map(|agent| agent.mind.archetype())
    }

    /// Returns the sort key of an agent's turn: a hash of the tick and the agent's identity, with
    /// the agent's number in the low 16 bits.
    #[inline]
    pub(crate) fn turn(&self, agent: u16, tick: u64) -> u64 {
        let hash = mix(tick ^ self.list[usize::from(agent)].identity);
        hash & !0xFFFF | u64::from(agent)
    }

    #[inline]
    pub(crate) const fn account(&self, agent: u16) -> u16 {
        self.first_account + agent
    }

    /// Lets one agent act, and returns the ticks until its next action.
    #[inline]
    pub(crate) fn act(
        &mut self,
        population: &Population,
        agent: u16,
        desk: &mut AgentDesk<'_>,
    ) -> u64 {
        let agent = &mut self.list[usize::from(agent)];
        let stream = &mut agent.stream;
        let wait = match &mut agent.mind {
            Mind::Maker(_) => maker::act(&population.maker, population.shares, stream, desk),
            Mind::Noise(noise) => noise.act(&population.noise, stream, desk),
            Mind::Value(value) => value.act(&population.value, stream, desk),
            Mind::Signal(signal) => signal.act(&population.signal, stream, desk),
            Mind::Executor(executor) => executor.act(&population.executor, stream, desk),
        };
        stream.wait(paced(wait, desk.tape().arousal * desk.activity))
    }

    /// Lets all makers quote around the latent price. First every maker with stale quotes cancels
    /// them, then each places new ones, from maker `first` on; no maker meets the stale quotes of
    /// another.
    #[inline]
    pub(crate) fn requote(
        &mut self,
        population: &Population,
        first: u16,
        desk: &mut AgentDesk<'_>,
    ) {
        // Makers are the first agents.
        let count = population.maker.count;
        for number in 0..count {
            let Mind::Maker(maker) = &mut self.list[usize::from(number)].mind else { continue };
            let offset = (f64::from(number) + 0.5) / f64::from(count) - 0.5;
            desk.account = self.first_account + number;
            maker.withdraw(&population.maker, population.shares, offset, desk);
        }
        for turn in 0..count {
            let number = (first % count + turn) % count;
            let Mind::Maker(maker) = &mut self.list[usize::from(number)].mind else { continue };
            desk.account = self.first_account + number;
            maker.quote(&population.maker, desk);
        }
    }

    pub(crate) fn digest(&self, wheel: &Wheel, mut word: impl FnMut(u64)) {
        for (at, agent) in self.list.iter().enumerate() {
            word(agent.stream.state());
            word(wheel.wake(at as u16));
            word(match &agent.mind {
                Mind::Maker(maker) => maker.digest(),
                Mind::Noise(_) => 0,
                Mind::Value(value) => value.digest(),
                Mind::Signal(signal) => signal.digest(),
                Mind::Executor(executor) => executor.digest(),
            });
        }
    }
}

/// Divides a mean wait by a factor on wake rates. The result is at least one tick.
#[inline]
fn paced(wait: f64, rate: f64) -> f64 {
    (wait / rate).max(1.0)
}

/// Rounds a drawn size to shares, at least 1 and at most `limit`.
#[inline]
fn shares(size: f64, limit: i32) -> i32 {
    // From 1 on, adding 0.5 and truncating equals `f64::round`, which compiles to a call in most
    // builds.
    (size.max(1.0) + 0.5).min(f64::from(limit)) as i32
}
