//! An agent that trades against a recorded day.

use std::sync::Arc;

use backcast_pybind_macros::exact_arguments;
use backcast_sim::{
    HistoryPrice, MessageKind, OrderKind, Replay as CoreReplay, ReplayReject, ReplayRules, Side,
};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use super::{History, depth, history_of, levels_of, nanos_of, seconds};
use crate::argument::{Argument, count_in, required};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

/// Largest fee on a share, 100 dollars.
const MOST_FEE: i128 = 1_000_000;

/// One agent that trades against a recorded day of an order book.
///
/// The replay is passive: history submits, cancels and trades as it did, whatever the agent does.
/// An order joins the end of the recorded queue at its price. It is filled once history's
/// executions have consumed the shares in front of it, when they trade beyond its price, or when a
/// recorded order arrives that it would have traded with; never with more shares than history
/// traded or submitted there. An order that crosses the recorded book trades with what rests, and
/// takes no share twice.
///
/// Parameters
/// ----------
/// history : History
///     The recorded day.
/// maker_fee, taker_fee : int, default 0
///     Fee on a share of a resting order, and of one that trades on arrival, in 1/10,000 dollars;
///     negative for a rebate.
/// latency : float, default 0
///     Seconds from the call to the arrival of an order or cancel.
/// max_position : int, default 1000
///     Maximum position in shares, long or short, with all open orders counted.
/// max_orders : int, default 16
///     Maximum number of open orders.
///
/// Raises
/// ------
/// SimError
///     If an argument is out of range.
///
/// Examples
/// --------
/// >>> import pathlib, tempfile
/// >>> from backcast import sim
/// >>> lines = ["1,1,7,100,1000000,1", "1,1,9,50,1000100,-1", "2,4,7,60,1000000,1"]
/// >>> lines += ["3,1,8,50,1000000,1", "4,4,7,40,1000000,1", "5,4,8,30,1000000,1"]
/// >>> with tempfile.TemporaryDirectory() as folder:
/// ...     path = pathlib.Path(folder, "messages.csv")
/// ...     size = path.write_text("\n".join(lines))
/// ...     replay = sim.Replay(sim.History.read(path))
/// >>> replay.run_until(1)
/// >>> bid = replay.order("buy", 20, 1_000_000)
/// >>> replay.run_until(3)
/// >>> replay.orders()["ahead"]
/// array([40])
/// >>> replay.run_until(5)
/// >>> replay.fills()["shares"], replay.position
/// (array([20]), 20)
#[pyclass(module = "backcast.sim", name = "Replay", frozen)]
pub(crate) struct Replay {
    core: Handle<CoreReplay>,
    history: History,
}

#[exact_arguments]
#[pymethods]
impl Replay {
    #[new]
    #[pyo3(signature = (
        history=None, *, maker_fee=0_i64.into(), taker_fee=0_i64.into(), latency=0.0.into(),
        max_position=1_000_i64.into(), max_orders=16_i64.into()
    ))]
    #[pyo3(text_signature = "(history, *, maker_fee=0, taker_fee=0, latency=0.0, \
                          max_position=1000, max_orders=16)")]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn new(
        history: Option<&Bound<'_, PyAny>>,
        maker_fee: Argument<i128>,
        taker_fee: Argument<i128>,
        latency: Argument<f64>,
        max_position: Argument<i128>,
        max_orders: Argument<i128>,
    ) -> Result<Self, Failure> {
        let history = history_of(required(history, "history", "a backcast.sim.History")?)?;
        let most = i32::MAX.unsigned_abs();
        let rules = ReplayRules {
            maker_fee: fee_of(maker_fee, "maker_fee")?,
            taker_fee: fee_of(taker_fee, "taker_fee")?,
            latency: nanos_of(latency, "latency")?,
            max_position: count_in(max_position, "max_position", 1..=most, ErrorClass::Sim)?.into(),
            max_orders: count_in(max_orders, "max_orders", 1..=1_024, ErrorClass::Sim)? as usize,
        };
        let replay = CoreReplay::new(Arc::clone(&history.core), rules).map_err(refused)?;
        Ok(Self::around(replay, history))
    }

    /// Begin anew without orders, cash or shares, behind the messages at or before a time.
    ///
    /// Parameters
    /// ----------
    /// time : float, optional
    ///     Seconds after midnight; None for the start of the history.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the time is out of range.
    #[pyo3(signature = (time=None), text_signature = "($self, time=None)")]
    fn start(&self, py: Python<'_>, time: Option<Argument<f64>>) -> Result<(), Failure> {
        let time = time.map_or(Ok(0), |time| nanos_of(time, "time"))?;
        self.change(py, |replay| {
            replay.start(time);
            Ok(())
        })
    }

    /// Send an order, which arrives after the latency and is checked then.
    ///
    /// Parameters
    /// ----------
    /// side : {"buy", "sell"}
    ///     Side.
    /// shares : int
    ///     Shares.
    /// price : int, optional
    ///     Limit in 1/10,000 dollars. What does not trade on arrival rests. None trades at any
    ///     price, and drops the rest.
    /// post_only : bool, default False
    ///     Refuse the order if any part would trade on arrival.
    ///
    /// Returns
    /// -------
    /// int
    ///     Id of the order.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If an argument is out of range, or too many requests are on their way. What is refused
    ///     on arrival raises no error: :meth:`refused` tells it.
    #[pyo3(signature = (
        side=Argument::Missing, shares=Argument::Missing, price=None, *, post_only=false.into()
    ))]
    #[pyo3(text_signature = "($self, side, shares, price=None, *, post_only=False)")]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn order(
        &self,
        py: Python<'_>,
        side: Argument<String>,
        shares: Argument<i128>,
        price: Option<Argument<i128>>,
        post_only: Argument<bool>,
    ) -> Result<u64, Failure> {
        let words = "\"buy\" or \"sell\"";
        let side = match side.get("side", words)?.as_str() {
            "buy" => Side::Buy,
            "sell" => Side::Sell,
            other => {
                let message = format!("side is \"{other}\"; write {words}");
                return Err(Failure::new(ErrorClass::Sim, message));
            }
        };
        let post_only = post_only.get("post_only", "True or False")?;
        let shares = bounded(shares.get("shares", "a whole number from 1 up")?);
        let price = price.map(|price| price.get("price", "1/10,000 dollars from 1 up, or None"));
        let price = price.transpose()?.map(bounded);
        if price.is_none() && post_only {
            let message = "post_only is True, but the order has no price to rest at; give a price";
            return Err(Failure::new(ErrorClass::Sim, message));
        }
        let kind = if post_only { OrderKind::PostOnly } else { OrderKind::Limit };
        self.change(py, |replay| {
            match price {
                Some(price) => replay.order(side, kind, HistoryPrice(price), shares),
                None => replay.market(side, shares),
            }
            .map_err(refused)
        })
    }

    /// Cancel an open order, or all of them, after the latency.
    ///
    /// Parameters
    /// ----------
    /// order : int, optional
    ///     Id of the order; None for all that are open when the cancel arrives.
    ///
    /// Returns
    /// -------
    /// int
    ///     Id of the request.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If too many requests are on their way.
    #[pyo3(signature = (order=None), text_signature = "($self, order=None)")]
    fn cancel(&self, py: Python<'_>, order: Option<Argument<i128>>) -> Result<u64, Failure> {
        let wanted = "the id of an order, or None for all";
        let order =
            order.map(|order| crate::argument::whole(order, "order", wanted, ErrorClass::Sim));
        let order = order.transpose()?;
        self.change(py, |replay| {
            match order {
                Some(order) => replay.cancel(order),
                None => replay.cancel_all(),
            }
            .map_err(refused)
        })
    }

    /// Run history to a time: all messages at or before it, and requests as they arrive.
    ///
    /// Parameters
    /// ----------
    /// time : float
    ///     Seconds after midnight. A time before :attr:`time` runs only the requests that are due.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the time is out of range.
    #[pyo3(signature = (time=Argument::Missing), text_signature = "($self, time)")]
    fn run_until(&self, py: Python<'_>, time: Argument<f64>) -> Result<(), Failure> {
        let time = nanos_of(time, "time")?;
        self.change(py, |replay| {
            replay.run_until(time);
            Ok(())
        })
    }

    /// The recorded day.
    #[getter]
    fn history(&self) -> History {
        self.history.again()
    }

    /// Time in seconds after midnight.
    #[getter]
    fn time(&self) -> Result<f64, Failure> {
        self.look(|replay| seconds(replay.now()))
    }

    /// Number of messages that have been applied.
    #[getter]
    fn messages(&self) -> Result<usize, Failure> {
        self.look(CoreReplay::messages)
    }

    /// Whether all messages have been applied.
    #[getter]
    fn at_end(&self) -> Result<bool, Failure> {
        self.look(CoreReplay::at_end)
    }

    /// Number of requests on their way, at most 1024.
    #[getter]
    fn pending(&self) -> Result<usize, Failure> {
        self.look(CoreReplay::pending)
    }

    /// Whether trading is halted.
    #[getter]
    fn halted(&self) -> Result<bool, Failure> {
        self.look(|replay| replay.book().halted())
    }

    /// Mid-price in 1/10,000 dollars after the last message.
    ///
    /// While a side is empty it is the last one, or the price of a later execution. Before any it
    /// is 0, and orders are refused.
    #[getter]
    fn mid_price(&self) -> Result<f64, Failure> {
        self.look(|replay| 0.5 * replay.mid2() as f64)
    }

    /// Shares held; negative if short.
    #[getter]
    fn position(&self) -> Result<i64, Failure> {
        self.look(|replay| replay.account().position)
    }

    /// Profit since the start in dollars: cash, and the position at the mid-price.
    #[getter]
    fn profit(&self) -> Result<f64, Failure> {
        let unit = 0.5 / HistoryPrice::PER_DOLLAR as f64;
        self.look(|replay| replay.profit2() as f64 * unit)
    }

    /// Return the account.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``cash`` since the start and ``fees`` in 1/10,000 dollars, ``position``, and ``traded``
    ///     shares, all int.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn account<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let account = self.look(|replay| *replay.account())?;
        let found = PyDict::new(py);
        found.set_item("cash", account.cash)?;
        found.set_item("position", account.position)?;
        found.set_item("fees", account.fees)?;
        found.set_item("traded", account.traded)?;
        Ok(found)
    }

    /// Return the recorded book, without the agent's orders.
    ///
    /// Parameters
    /// ----------
    /// levels : int, optional
    ///     Price levels of each side, as in :meth:`History.book`.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     int64 ``[levels, 4]``, as :meth:`History.book` returns it.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the number is out of range.
    #[pyo3(signature = (*, levels=None), text_signature = "($self, *, levels=None)")]
    fn book<'py>(
        &self,
        py: Python<'py>,
        levels: Option<Argument<i128>>,
    ) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
        let levels = levels_of(levels, &self.history.core)?;
        self.look(|replay| depth(py, replay.book(), levels))?
    }

    /// Return the agent's open orders: buys from the highest price, then sells from the lowest.
    ///
    /// Returns
    /// -------
    /// dict
    ///     int64 arrays of one length: ``id``, ``side`` (1 buy, -1 sell), ``price``, ``shares``
    ///     left, and ``ahead``, the recorded shares in front of it at its price.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn orders<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let orders = self.look(|replay| {
            let row = |order: &backcast_sim::OwnOrder| {
                let side = i64::from(order.side.sign());
                [order.id as i64, side, order.price.0, order.shares, order.ahead(replay.book())]
            };
            replay.orders().iter().map(row).collect::<Vec<_>>()
        })?;
        columns(py, ["id", "side", "price", "shares", "ahead"], &orders)
    }

    /// Return the agent's fills in the last run, in sequence.
    ///
    /// Returns
    /// -------
    /// dict
    ///     int64 arrays of one length: ``time`` (nanoseconds after midnight), ``id`` of the order,
    ///     ``side`` (1 bought, -1 sold), ``price``, ``shares``, ``maker`` (1 for a resting order)
    ///     and ``fee`` in 1/10,000 dollars.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn fills<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let fills = self.look(|replay| {
            let row = |fill: &backcast_sim::OwnFill| {
                let (time, side) = (fill.time as i64, i64::from(fill.side.sign()));
                [time, fill.id as i64, side, fill.price.0, fill.shares, fill.maker.into(), fill.fee]
            };
            replay.fills().iter().map(row).collect::<Vec<_>>()
        })?;
        columns(py, ["time", "id", "side", "price", "shares", "maker", "fee"], &fills)
    }

    /// Return the requests that were refused on arrival in the last run.
    ///
    /// Returns
    /// -------
    /// list of (int, str)
    ///     Id of the request, and the reason.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn refused(&self) -> Result<Vec<(u64, String)>, Failure> {
        self.look(|replay| {
            let refused = replay.refused().iter();
            refused.map(|(id, reject)| (*id, reject.to_string())).collect()
        })
    }

    /// Return the recorded volume between two numbers of messages.
    ///
    /// Parameters
    /// ----------
    /// since : int
    ///     Number of messages before, at most :attr:`messages`; the volume is that of the messages
    ///     between.
    ///
    /// Returns
    /// -------
    /// (int, int)
    ///     Shares of visible orders that buyers took, and that sellers did.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If the number is out of range.
    #[pyo3(signature = (since=Argument::Missing), text_signature = "($self, since)")]
    fn volume(&self, since: Argument<i128>) -> Result<(i64, i64), Failure> {
        let most = self.look(CoreReplay::messages)? as u32;
        let since = count_in(since, "since", 0..=most, ErrorClass::Sim)? as usize;
        self.look(|replay| {
            let messages = &replay.history().messages()[..replay.messages()];
            let mut volume = (0, 0);
            for message in messages.get(since..).unwrap_or_default() {
                match (message.kind, message.side) {
                    (MessageKind::Execute, Side::Sell) => volume.0 += message.shares,
                    (MessageKind::Execute, Side::Buy) => volume.1 += message.shares,
                    _ => {}
                }
            }
            volume
        })
    }

    /// Return an independent copy in the same state; the history is shared.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let copy = self.change(py, |replay| Ok(replay.clone()))?;
        Ok(Self::around(copy, self.history.again()))
    }

    fn __repr__(&self) -> String {
        let state = self.core.describe(|replay| {
            let (time, orders) = (seconds(replay.now()), replay.orders().len());
            format!("{time} s, position {}, {orders} orders", replay.account().position)
        });
        format!("<backcast.sim.Replay: {state}>")
    }
}

impl Replay {
    fn around(replay: CoreReplay, history: History) -> Self {
        let core = Handle::of_any_process("the replay".to_owned(), "make a new one", replay);
        Self { core, history }
    }

    fn look<R>(&self, look: impl FnOnce(&CoreReplay) -> R) -> Result<R, Failure> {
        self.core.with(|replay| Ok(look(replay)))
    }

    fn change<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut CoreReplay) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        py.detach(|| self.core.with(work))
    }
}

fn fee_of(given: Argument<i128>, what: &str) -> Result<i64, Failure> {
    let wanted = format!("1/10,000 dollars from -{MOST_FEE} to {MOST_FEE}");
    let fee = given.get(what, &wanted)?;
    if fee.abs() > MOST_FEE {
        return Err(Failure::new(ErrorClass::Sim, format!("{what} is {fee}; give {wanted}")));
    }
    Ok(fee as i64)
}

/// Returns a number that the replay refuses if it does not fit 64 bits.
fn bounded(number: i128) -> i64 {
    number.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn refused(reject: ReplayReject) -> Failure {
    Failure::new(ErrorClass::Sim, reject)
}

/// Returns rows as a dict of columns.
fn columns<'py, const N: usize>(
    py: Python<'py>,
    names: [&str; N],
    rows: &[[i64; N]],
) -> Result<Bound<'py, PyDict>, Failure> {
    let found = PyDict::new(py);
    for (at, name) in names.iter().enumerate() {
        found.set_item(name, PyArray1::from_iter(py, rows.iter().map(|row| row[at])))?;
    }
    Ok(found)
}
