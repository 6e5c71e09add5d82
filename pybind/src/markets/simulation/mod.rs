//! `backcast.sim.Market`: a simulated market, its order book, agents of Python, records.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "numbers were checked when they were read, or are bounded by the market's settings"
)]

pub(crate) mod agent;
pub(crate) mod config;
mod fields;
mod inspect;
mod record;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use backcast_pybind_macros::exact_arguments;
use backcast_sim::{AccountConfig, Agent, Market as CoreMarket, OrderKind, Side, SlotRequest};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple, PyType};

use crate::argument::{Argument, count_in, read, whole, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::markets::callback::FirstException;
use crate::markets::simulation::agent::{AgentResets, PythonAgent};
use crate::markets::simulation::config::market_of;
use crate::markets::simulation::fields::NamedField;
use crate::markets::simulation::record::Recorder;

/// Agents of the user, each with its account.
pub(crate) type UserAgents = Vec<(AccountConfig, Box<dyn Agent>)>;

/// Ticks between two checks for a Ctrl-C.
const TICKS_AT_ONCE: u64 = 256;

/// A simulated market with background agents and a limit order book for each symbol.
///
/// One tick is one second. Prices are whole price ticks (``tick_size`` currency units each). Cash
/// is in cash units, 100 to a price tick on one share. Equal seeds of one configuration give equal
/// markets, in every process.
///
/// Parameters
/// ----------
/// config : str, MarketConfig or dict, default "normal"
///     Name of a preset, or settings; a dict may leave some out.
/// seed : int, default 0
///     Seed of every random draw.
/// agents : sequence, optional
///     Agents of your own: objects with ``act(floor)`` and, optionally, ``reset()``. ``act`` gets a
///     :class:`Floor` and returns the ticks until its next turn (0 and None count as 1). A pair
///     ``(agent, account)`` gives the agent another account than the default, a dict such as
///     ``{"cash": 10**9, "shares": 5}``. Its cash is in cash units.
///
/// Raises
/// ------
/// SimError
///     If no market can be built from the configuration; nothing has run then.
///
/// Examples
/// --------
/// >>> from backcast import sim
/// >>> market = sim.Market("normal", seed=7)
/// >>> market.step(300)
/// >>> market.send("buy", 10)
/// 0
/// >>> market.step()
/// >>> market.account()["positions"]
/// array([10], dtype=int32)
#[pyclass(module = "backcast.sim", name = "Market", frozen)]
pub(crate) struct Market {
    core: Handle<CoreMarket>,
    /// First exception of an agent.
    raised: FirstException,
    /// Thread in whose call agents of Python act.
    acting: Mutex<Option<ThreadId>>,
    has_agents: bool,
    symbols: u16,
}

#[exact_arguments]
#[pymethods]
impl Market {
    #[new]
    #[pyo3(signature = (config=None, *, seed=0_i64.into(), agents=None))]
    #[pyo3(text_signature = "(config=\"normal\", *, seed=0, agents=())")]
    fn new(
        py: Python<'_>,
        config: Option<&Bound<'_, PyAny>>,
        seed: Argument<i128>,
        agents: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let config = config.map(market_of).transpose()?.unwrap_or_default();
        let seed = seed_of(seed)?;
        let raised = FirstException::default();
        let read = |agents| agents_of(agents, "agents", AgentResets::InPlace, &raised);
        let agents = agents.map(read).transpose()?;
        let agents = agents.unwrap_or_default();
        let has_agents = !agents.is_empty();
        let market = py.detach(|| CoreMarket::with_agents(Arc::new(config), seed, agents))?;
        let market = Self::around(market, raised, has_agents);
        market.raised.raise()?;
        Ok(market)
    }

    /// Go back to tick 0 of an episode.
    ///
    /// Parameters
    /// ----------
    /// seed : int
    ///     Seed of every random draw. The market then equals a new one of that seed.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the seed is out of range.
    #[pyo3(signature = (seed=Argument::Missing), text_signature = "($self, seed)")]
    fn reset(&self, py: Python<'_>, seed: Argument<i128>) -> Result<(), Failure> {
        let seed = seed_of(seed)?;
        self.raised.forget();
        self.change(py, |market| {
            market.reset(seed);
            Ok(())
        })?;
        self.raised.raise()
    }

    /// Move the market forward.
    ///
    /// Parameters
    /// ----------
    /// ticks : int, default 1
    ///     Number of ticks.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the number is out of range. An exception of an agent is raised after the tick in
    ///     which it occurred.
    #[pyo3(signature = (ticks=1_i64.into()), text_signature = "($self, ticks=1)")]
    fn step(&self, py: Python<'_>, ticks: Argument<i128>) -> Result<(), Failure> {
        let ticks = ticks_of(ticks)?;
        self.run(py, ticks, CoreMarket::tick)
    }

    /// Move the market forward and record it.
    ///
    /// Parameters
    /// ----------
    /// ticks : int
    ///     Number of ticks, ``K``.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``"ticks"``: arrays ``[S, K]`` of ``mid`` (float64), ``bid``, ``ask`` (int32, 0 for an
    ///     empty side), ``last`` (int32), ``volume`` (int64) and ``fundamental`` (float64), and
    ///     ``tick`` int64 ``[K]``. ``"trades"``: an entry for every order that traded on arrival,
    ///     ``tick``, ``symbol``, ``side`` (1 bought, -1 sold), ``quantity``, and ``price``, the
    ///     mean in price ticks. ``"candles"``: arrays ``[S, C]`` of ``open``, ``high``, ``low``,
    ///     ``close`` (int32) and ``volume`` (int64), and ``tick`` int64 ``[C]``, for the candles
    ///     that closed.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the number is out of range, or there is no memory for the record. Exceptions of
    ///     agents are raised as by `step`.
    #[pyo3(signature = (ticks=Argument::Missing), text_signature = "($self, ticks)")]
    fn record<'py>(
        &self,
        py: Python<'py>,
        ticks: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let ticks = ticks_of(ticks)?;
        let mut recorder = self.look(|market| Recorder::new(market, ticks))??;
        self.run(py, ticks, |market| {
            market.tick();
            recorder.look(market);
        })?;
        recorder.into_dict(py)
    }

    /// Send an order of a slot, which arrives after the slot's latency, at the start of a tick.
    ///
    /// Parameters
    /// ----------
    /// side : {"buy", "sell"}
    ///     Side.
    /// quantity : int
    ///     Shares.
    /// price : int, optional
    ///     Limit in price ticks; None trades at any price.
    /// kind : {"limit", "marketable", "post_only"}, optional
    ///     Treatment of the part that does not trade on arrival: it rests ("limit") or is dropped
    ///     ("marketable"). A "post_only" order is refused if any part would trade. Default: "limit"
    ///     with a price, "marketable" without.
    /// symbol : int, default 0
    ///     Symbol.
    /// slot : int, default 0
    ///     Slot.
    ///
    /// Returns
    /// -------
    /// int
    ///     Number of the request, counted in its slot.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If an argument is invalid, too many requests of the slot are on their way, or an agent
    ///     calls it in its turn. An order that the market refuses on arrival raises no error:
    ///     ``account()["refused"]`` counts it.
    #[pyo3(signature = (
        side=Argument::Missing, quantity=Argument::Missing, price=None, *, kind=None,
        symbol=0_i64.into(), slot=0_i64.into()
    ))]
    #[pyo3(text_signature = "($self, side, quantity, price=None, *, kind=None, symbol=0, slot=0)")]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn send(
        &self,
        py: Python<'_>,
        side: Argument<String>,
        quantity: Argument<i128>,
        price: Option<Argument<i128>>,
        kind: Option<Argument<String>>,
        symbol: Argument<i128>,
        slot: Argument<i128>,
    ) -> Result<u64, Failure> {
        let side = word_of(side, "side", &[("buy", Side::Buy), ("sell", Side::Sell)])?;
        let most = i32::MAX.unsigned_abs();
        let quantity = count_in(quantity, "quantity", 1..=most, ErrorClass::Sim)? as i32;
        let kinds = [
            ("limit", OrderKind::Limit),
            ("marketable", OrderKind::Marketable),
            ("post_only", OrderKind::PostOnly),
        ];
        let kind = kind.map(|kind| word_of(kind, "kind", &kinds)).transpose()?;
        let request = match price {
            Some(price) => {
                let price = count_in(price, "price", 1..=most, ErrorClass::Sim)? as i32;
                let kind = kind.unwrap_or(OrderKind::Limit);
                SlotRequest::Submit { side, kind, price, quantity }
            }
            None if matches!(kind, Some(OrderKind::Limit | OrderKind::PostOnly)) => {
                let message = "price is None, but an order that may rest has one; give a price";
                return Err(Failure::new(ErrorClass::Sim, message));
            }
            None => SlotRequest::market(side, quantity),
        };
        self.request(py, slot, symbol, request)
    }

    /// Cancel all open orders of a slot in one symbol, after the slot's latency.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    /// slot : int, default 0
    ///     Slot.
    ///
    /// Returns
    /// -------
    /// int
    ///     Number of the request, counted in its slot.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such slot or symbol, too many requests are on their way, or an agent
    ///     calls it in its turn.
    #[pyo3(signature = (symbol=0_i64.into(), slot=0_i64.into()))]
    #[pyo3(text_signature = "($self, symbol=0, slot=0)")]
    fn cancel_all(
        &self,
        py: Python<'_>,
        symbol: Argument<i128>,
        slot: Argument<i128>,
    ) -> Result<u64, Failure> {
        self.request(py, slot, symbol, SlotRequest::CancelAll)
    }

    /// Check that cash, shares and open orders of all accounts add up exactly.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If they do not, which is a defect of the simulator.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn check(&self) -> Result<(), Failure> {
        self.look(|market| market.check().map_err(|error| Failure::new(ErrorClass::Sim, error)))?
    }

    /// Return an independent copy in the same state, random streams and agents included.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let clone = || self.change(py, |market| Ok(market.clone()));
        let (copy, raised) = self.raised.separated(clone);
        let copy = copy?;
        raised.raise()?;
        Ok(Self::around(copy, raised, self.has_agents))
    }

    fn __repr__(&self) -> String {
        let state = self.core.describe(|market| {
            let agents = market.config().population.total();
            format!("tick {}, seed {}, {agents} agents a symbol", market.now(), market.seed())
        });
        let plural = if self.symbols == 1 { "" } else { "s" };
        format!("<backcast.sim.Market: {} symbol{plural}, {state}>", self.symbols)
    }
}

impl Market {
    fn around(market: CoreMarket, raised: FirstException, has_agents: bool) -> Self {
        let symbols = market.symbols();
        let core = Handle::of_any_process("the market".to_owned(), "make a new one", market);
        Self { core, raised, acting: Mutex::default(), has_agents, symbols }
    }

    /// Runs `look` on the market. Fails if an agent asks during its turn.
    fn look<R>(&self, look: impl FnOnce(&CoreMarket) -> R) -> Result<R, Failure> {
        self.refuse_agents()?;
        self.core.with(|market| Ok(look(market)))
    }

    /// Runs `work` on the market with the interpreter released. Fails if an agent asks during its
    /// turn.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut CoreMarket) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        self.refuse_agents()?;
        py.detach(|| {
            self.core.with(|market| {
                *self.acting() = Some(thread::current().id());
                let done = work(market);
                *self.acting() = None;
                done
            })
        })
    }

    /// Moves the market forward by `ticks` ticks. Stops early if an agent fails or a signal handler
    /// raises.
    fn run(
        &self,
        py: Python<'_>,
        ticks: u64,
        mut tick: impl FnMut(&mut CoreMarket) + Send,
    ) -> Result<(), Failure> {
        let mut left = ticks;
        while left > 0 {
            let batch = left.min(TICKS_AT_ONCE);
            self.change(py, |market| {
                for _ in 0..batch {
                    tick(market);
                    if self.has_agents && self.raised.is_kept() {
                        break;
                    }
                }
                Ok(())
            })?;
            self.raised.raise()?;
            py.check_signals()?;
            left -= batch;
        }
        Ok(())
    }

    fn request(
        &self,
        py: Python<'_>,
        slot: Argument<i128>,
        symbol: Argument<i128>,
        request: SlotRequest,
    ) -> Result<u64, Failure> {
        let symbol = self.symbol_of(symbol)?;
        let slot = count_in(slot, "slot", 0..=u32::MAX, ErrorClass::Sim)? as usize;
        self.change(py, |market| {
            market.send(slot, symbol, request).map_err(|error| Failure::new(ErrorClass::Sim, error))
        })
    }

    fn symbol_of(&self, symbol: Argument<i128>) -> Result<u16, Failure> {
        let most = u32::from(self.symbols) - 1;
        Ok(count_in(symbol, "symbol", 0..=most, ErrorClass::Sim)? as u16)
    }

    fn acting(&self) -> std::sync::MutexGuard<'_, Option<ThreadId>> {
        self.acting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses calls of an agent during its turn: the market is in use by the call that it acts in.
    fn refuse_agents(&self) -> Result<(), Failure> {
        if *self.acting() == Some(thread::current().id()) {
            let message = "the market is in the middle of a tick; an agent uses the floor that \
                           act() is given";
            return Err(Failure::new(ErrorClass::Sim, message));
        }
        Ok(())
    }
}

fn seed_of(seed: Argument<i128>) -> Result<u64, Failure> {
    let wanted = format!("a whole number from 0 to {}", u64::MAX);
    whole(seed, "seed", &wanted, ErrorClass::Sim)
}

fn ticks_of(ticks: Argument<i128>) -> Result<u64, Failure> {
    Ok(count_in(ticks, "ticks", 0..=u32::MAX, ErrorClass::Sim)?.into())
}

fn word_of<V: Copy>(
    given: Argument<String>,
    what: &str,
    words: &[(&str, V)],
) -> Result<V, Failure> {
    let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    let known = known.join(" or ");
    let word = given.get(what, &known)?;
    let found = words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        Failure::new(ErrorClass::Sim, format!("{what} is \"{word}\"; write {known}"))
    })
}

/// Reads agents written in Python. Each may come with an account. `what` names them in errors.
pub(crate) fn agents_of(
    given: &Bound<'_, PyAny>,
    what: &str,
    resets: AgentResets,
    raised: &FirstException,
) -> Result<UserAgents, Failure> {
    let wanted = "a sequence of agents, objects with act(floor), or of pairs (agent, account)";
    let given: Vec<Bound<'_, PyAny>> = read(given, what, wanted)?;
    let mut agents: UserAgents = Vec::with_capacity(given.len());
    for (at, entry) in given.iter().enumerate() {
        let mut account = AccountConfig::default();
        let mut agent = entry.clone();
        if let Ok(pair) = entry.cast::<PyTuple>()
            && pair.len() == 2
        {
            agent = pair.get_item(0)?;
            account.read_from(&pair.get_item(1)?, &format!("{what}[{at}][1]"))?;
            account
                .check()
                .map_err(|error| Failure::new(ErrorClass::Sim, format!("{what}[{at}]: {error}")))?;
        }
        let is_class = agent.is_instance_of::<PyType>();
        if is_class || !agent.getattr_opt("act")?.is_some_and(|act| act.is_callable()) {
            let wanted = "an object with a method act(floor), and not its class";
            return Err(wrong_type(&agent, &format!("{what}[{at}]"), wanted));
        }
        let agent = PythonAgent::new(agent.unbind(), resets, raised);
        agents.push((account, Box::new(agent)));
    }
    Ok(agents)
}
