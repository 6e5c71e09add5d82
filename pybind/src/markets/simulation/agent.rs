//! Agents written in Python. They act within a tick of the market, with the interpreter attached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backcast_pybind_macros::exact_arguments;
use backcast_sim::{Agent, Floor as CoreFloor, OrderKind, RandomStream, Side};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::argument::{Argument, count_in, no_constructor, whole};
use crate::error::{ErrorClass, Failure};
use crate::markets::callback::{CallbackObject, FirstException};

/// An agent written in Python. After an exception no Python agent acts any more, and the running
/// call raises the exception after the tick.
#[derive(Debug)]
pub(crate) struct PythonAgent {
    object: CallbackObject,
    /// Object that a reset copies, so that nothing of an earlier episode is left. `None` resets the
    /// object itself, which its user may look at.
    original: Option<Arc<Py<PyAny>>>,
}

/// Effect of a market's reset on the objects of its agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentResets {
    /// Keeps their objects and calls `reset`.
    InPlace,
    /// Replaces them by copies of the given objects, then calls `reset`.
    Copies,
}

impl PythonAgent {
    pub(crate) fn new(object: Py<PyAny>, resets: AgentResets, raised: &FirstException) -> Self {
        let copied = resets == AgentResets::Copies;
        let original = copied.then(|| Arc::new(Python::attach(|py| object.clone_ref(py))));
        Self { object: CallbackObject::new(object, raised), original }
    }
}

impl Clone for PythonAgent {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), original: self.original.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        let Self { object, original } = source;
        self.object.clone_from(object);
        self.original.clone_from(original);
    }
}

/// Calls `act` of an agent, submits its orders, and returns the ticks until its next turn.
fn take_turn(agent: &Bound<'_, PyAny>, market: &mut CoreFloor<'_>) -> Result<u64, Failure> {
    let py = agent.py();
    let floor = Bound::new(py, Floor(Mutex::new(Turn::of(market))))?;
    let answer = agent.call_method1(intern!(py, "act"), (&floor,));
    // The floor is void now, even if the agent kept it.
    let turn = std::mem::take(&mut *floor.get().lock());
    let answer = answer?;
    *market.random() = turn.stream;
    for (symbol, order) in turn.orders {
        match order {
            Order::Submit { side, kind, price, quantity } => {
                // Refused orders are dropped. The agent sees its position at its next turn.
                let _refused = market.submit(symbol, side, kind, price, quantity).is_err();
            }
            Order::CancelAll => {
                let _unknown = market.cancel_all(symbol).is_err();
            }
        }
    }
    if answer.is_none() {
        return Ok(1);
    }
    let Ok(ticks) = answer.extract::<Argument<i128>>();
    let wanted = "the ticks until its next turn, a whole number from 0 up, or None; 0 and None \
                  count as 1";
    whole(ticks, "what act() returned", wanted, ErrorClass::Sim)
}

impl Agent for PythonAgent {
    fn reset(&mut self) {
        if let Some(original) = &self.original {
            self.object.restore(original);
        }
        self.object.reset(());
    }

    fn act(&mut self, floor: &mut CoreFloor<'_>) -> u64 {
        if self.object.has_failed() {
            return u64::MAX;
        }
        self.object.call(|agent| take_turn(agent, floor)).unwrap_or(u64::MAX)
    }
}

/// Prices and position of one symbol, as an agent sees them.
#[derive(Clone, Copy, Debug)]
struct Quote {
    mid: f64,
    bid: Option<i32>,
    ask: Option<i32>,
    position: i32,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Submit { side: Side, kind: OrderKind, price: i32, quantity: i32 },
    CancelAll,
}

/// One turn: the market at its beginning, and the orders so far.
#[derive(Debug, Default)]
struct Turn {
    now: u64,
    cash: i64,
    quotes: Vec<Quote>,
    stream: RandomStream,
    orders: Vec<(u16, Order)>,
}

impl Turn {
    fn of(market: &mut CoreFloor<'_>) -> Self {
        let quote = |symbol| Quote {
            mid: market.mid(symbol).unwrap_or_default(),
            bid: market.best_bid(symbol),
            ask: market.best_ask(symbol),
            position: market.position(symbol),
        };
        let quotes = (0..market.symbols()).map(quote).collect();
        let (now, cash) = (market.now(), market.cash());
        Self { now, cash, quotes, stream: *market.random(), orders: Vec::new() }
    }
}

/// The market in the turn of an agent written in Python.
///
/// It shows the market as it was when the turn began. Orders are submitted in sequence after
/// ``act`` has returned, before any other agent acts. Prices are in price ticks, cash in cash
/// units.
#[pyclass(module = "backcast.sim", name = "Floor", frozen)]
pub(crate) struct Floor(Mutex<Turn>);

impl Floor {
    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quote(&self, symbol: Argument<i128>) -> Result<(u16, Quote), Failure> {
        let quotes = &self.lock().quotes;
        let most = quotes.len().max(1) as u32 - 1;
        let symbol = count_in(symbol, "symbol", 0..=most, ErrorClass::Sim)?;
        let Some(quote) = quotes.get(symbol as usize) else {
            let message = "the turn is over; use the floor inside act() only";
            return Err(Failure::new(ErrorClass::Closed, message));
        };
        Ok((symbol as u16, *quote))
    }

    fn order(
        &self,
        side: Side,
        quantity: Argument<i128>,
        price: Option<Argument<i128>>,
        symbol: Argument<i128>,
    ) -> Result<(), Failure> {
        let most = i32::MAX.unsigned_abs();
        let quantity = count_in(quantity, "quantity", 1..=most, ErrorClass::Sim)? as i32;
        let (kind, price) = match price {
            Some(price) => {
                let price = count_in(price, "price", 1..=most, ErrorClass::Sim)?;
                (OrderKind::Limit, price as i32)
            }
            None => (OrderKind::Marketable, if side == Side::Buy { i32::MAX } else { 1 }),
        };
        let (symbol, _) = self.quote(symbol)?;
        self.lock().orders.push((symbol, Order::Submit { side, kind, price, quantity }));
        Ok(())
    }
}

#[exact_arguments]
#[pymethods]
impl Floor {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn of_nothing(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("Floor", "a market gives one to the act() of its agents"))
    }

    /// Current tick.
    #[getter]
    fn now(&self) -> u64 {
        self.lock().now
    }

    /// Number of symbols.
    #[getter]
    fn symbols(&self) -> usize {
        self.lock().quotes.len()
    }

    /// Cash of the agent, in cash units.
    #[getter]
    fn cash(&self) -> i64 {
        self.lock().cash
    }

    /// Return the mid-price at the end of the last tick, in price ticks.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Returns
    /// -------
    /// float
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such symbol.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (symbol=0_i64.into()), text_signature = "($self, symbol=0)")]
    fn mid(&self, symbol: Argument<i128>) -> Result<f64, Failure> {
        Ok(self.quote(symbol)?.1.mid)
    }

    /// Return the highest bid, in price ticks.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Returns
    /// -------
    /// int or None
    ///     None without a bid.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such symbol.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (symbol=0_i64.into()), text_signature = "($self, symbol=0)")]
    fn best_bid(&self, symbol: Argument<i128>) -> Result<Option<i32>, Failure> {
        Ok(self.quote(symbol)?.1.bid)
    }

    /// Return the lowest ask, in price ticks.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Returns
    /// -------
    /// int or None
    ///     None without an ask.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such symbol.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (symbol=0_i64.into()), text_signature = "($self, symbol=0)")]
    fn best_ask(&self, symbol: Argument<i128>) -> Result<Option<i32>, Failure> {
        Ok(self.quote(symbol)?.1.ask)
    }

    /// Return the position of the agent in shares; negative is short.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Returns
    /// -------
    /// int
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such symbol.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (symbol=0_i64.into()), text_signature = "($self, symbol=0)")]
    fn position(&self, symbol: Argument<i128>) -> Result<i32, Failure> {
        Ok(self.quote(symbol)?.1.position)
    }

    /// Draw a number from (0, 1) of the agent's own random stream, which depends on the seed.
    ///
    /// Returns
    /// -------
    /// float
    #[pyo3(signature = (), text_signature = "($self)")]
    fn uniform(&self) -> Result<f64, Failure> {
        Ok(self.lock().stream.unit())
    }

    /// Buy shares with a market order or a limit order.
    ///
    /// The order reaches the market after ``act`` has returned. The market drops an order that it
    /// refuses, without an error: for example if the account cannot pay for it, its limits do not
    /// allow it, it has too many open orders, or the price is outside the window of the book.
    ///
    /// Parameters
    /// ----------
    /// quantity : int
    ///     Shares.
    /// price : int, optional
    ///     Limit in price ticks; what does not trade on arrival rests in the book. None buys at any
    ///     price, and the rest is dropped.
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If a number is out of range.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (quantity=Argument::Missing, price=None, symbol=0_i64.into()))]
    #[pyo3(text_signature = "($self, quantity, price=None, symbol=0)")]
    fn buy(
        &self,
        quantity: Argument<i128>,
        price: Option<Argument<i128>>,
        symbol: Argument<i128>,
    ) -> Result<(), Failure> {
        self.order(Side::Buy, quantity, price, symbol)
    }

    /// Sell shares with a market order or a limit order.
    ///
    /// The order reaches the market after ``act`` has returned. The market drops an order that it
    /// refuses, without an error: for example if the account cannot pay for it, its limits do not
    /// allow it, it has too many open orders, or the price is outside the window of the book.
    ///
    /// Parameters
    /// ----------
    /// quantity : int
    ///     Shares.
    /// price : int, optional
    ///     Limit in price ticks; what does not trade on arrival rests in the book. None sells at
    ///     any price, and the rest is dropped.
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If a number is out of range.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (quantity=Argument::Missing, price=None, symbol=0_i64.into()))]
    #[pyo3(text_signature = "($self, quantity, price=None, symbol=0)")]
    fn sell(
        &self,
        quantity: Argument<i128>,
        price: Option<Argument<i128>>,
        symbol: Argument<i128>,
    ) -> Result<(), Failure> {
        self.order(Side::Sell, quantity, price, symbol)
    }

    /// Cancel all open orders of the agent in one symbol.
    ///
    /// Parameters
    /// ----------
    /// symbol : int, default 0
    ///     Symbol.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If there is no such symbol.
    /// ClosedError
    ///     If the turn is over.
    #[pyo3(signature = (symbol=0_i64.into()), text_signature = "($self, symbol=0)")]
    fn cancel_all(&self, symbol: Argument<i128>) -> Result<(), Failure> {
        let (symbol, _) = self.quote(symbol)?;
        self.lock().orders.push((symbol, Order::CancelAll));
        Ok(())
    }
}
