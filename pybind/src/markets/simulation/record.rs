//! Record of a running market: prices tick by tick, trades, candles.

use backcast_sim::{Market, Side};
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::allocation::Allocator;
use crate::error::{ErrorClass, Failure};

const ALLOCATOR: Allocator =
    Allocator { class: ErrorClass::Sim, remedy: "record fewer ticks at once" };

/// Series of a market, tick by tick. `into_dict` returns them symbol by symbol.
pub(super) struct Recorder {
    symbols: usize,
    start: u64,
    ticks: u64,
    mid: Vec<f64>,
    bid: Vec<i32>,
    ask: Vec<i32>,
    last: Vec<i32>,
    volume: Vec<i64>,
    fundamental: Vec<f64>,
    trades: Trades,
    /// Number of closed candles at the last call of `look`.
    closed: u64,
    candles: Candles,
}

#[derive(Default)]
struct Trades {
    tick: Vec<i64>,
    symbol: Vec<i32>,
    side: Vec<i8>,
    quantity: Vec<i32>,
    price: Vec<f64>,
}

#[derive(Default)]
struct Candles {
    tick: Vec<i64>,
    prices: [Vec<i32>; 4],
    volume: Vec<i64>,
}

impl Recorder {
    pub(super) fn new(market: &Market, ticks: u64) -> Result<Self, Failure> {
        let (symbols, rows) = (usize::from(market.symbols()), ticks as usize);
        Ok(Self {
            symbols,
            start: market.now(),
            ticks: 0,
            mid: ALLOCATOR.list(rows, symbols)?,
            bid: ALLOCATOR.list(rows, symbols)?,
            ask: ALLOCATOR.list(rows, symbols)?,
            last: ALLOCATOR.list(rows, symbols)?,
            volume: ALLOCATOR.list(rows, symbols)?,
            fundamental: ALLOCATOR.list(rows, symbols)?,
            trades: Trades::default(),
            closed: market.candles(0).count(),
            candles: Candles::default(),
        })
    }

    /// Records the tick that has just ended.
    pub(super) fn look(&mut self, market: &Market) {
        self.ticks += 1;
        let now = market.now() as i64;
        for symbol in 0..market.symbols() {
            self.mid.push(market.mid(symbol));
            self.bid.push(market.best_bid(symbol).unwrap_or_default());
            self.ask.push(market.best_ask(symbol).unwrap_or_default());
            self.last.push(market.last_price(symbol));
            self.volume.push(market.volume(symbol));
            self.fundamental.push(market.fundamental(symbol));
            for order in market.market_orders(symbol) {
                self.trades.tick.push(now);
                self.trades.symbol.push(symbol.into());
                self.trades.side.push(if order.side == Side::Buy { 1 } else { -1 });
                self.trades.quantity.push(order.quantity);
                self.trades.price.push(order.notional as f64 / f64::from(order.quantity.max(1)));
            }
        }
        let closed = market.candles(0).count();
        if closed > self.closed {
            self.closed = closed;
            self.candles.tick.push(now);
            for symbol in 0..market.symbols() {
                let candle = market.candles(symbol).last();
                let prices = [candle.open, candle.high, candle.low, candle.close];
                for (column, price) in self.candles.prices.iter_mut().zip(prices) {
                    column.push(price);
                }
                self.candles.volume.push(candle.volume);
            }
        }
    }

    pub(super) fn into_dict(self, py: Python<'_>) -> Result<Bound<'_, PyDict>, Failure> {
        let by_symbol = ByRow { py, symbols: self.symbols };
        let ticks = PyDict::new(py);
        let first = self.start as i64 + 1;
        ticks.set_item("tick", PyArray1::from_iter(py, first..first + self.ticks as i64))?;
        ticks.set_item("mid", by_symbol.array(&self.mid)?)?;
        ticks.set_item("bid", by_symbol.array(&self.bid)?)?;
        ticks.set_item("ask", by_symbol.array(&self.ask)?)?;
        ticks.set_item("last", by_symbol.array(&self.last)?)?;
        ticks.set_item("volume", by_symbol.array(&self.volume)?)?;
        ticks.set_item("fundamental", by_symbol.array(&self.fundamental)?)?;
        let trades = PyDict::new(py);
        trades.set_item("tick", PyArray1::from_vec(py, self.trades.tick))?;
        trades.set_item("symbol", PyArray1::from_vec(py, self.trades.symbol))?;
        trades.set_item("side", PyArray1::from_vec(py, self.trades.side))?;
        trades.set_item("quantity", PyArray1::from_vec(py, self.trades.quantity))?;
        trades.set_item("price", PyArray1::from_vec(py, self.trades.price))?;
        let candles = PyDict::new(py);
        candles.set_item("tick", PyArray1::from_vec(py, self.candles.tick))?;
        for (name, column) in ["open", "high", "low", "close"].into_iter().zip(&self.candles.prices)
        {
            candles.set_item(name, by_symbol.array(column)?)?;
        }
        candles.set_item("volume", by_symbol.array(&self.candles.volume)?)?;
        let record = PyDict::new(py);
        record.set_item("ticks", ticks)?;
        record.set_item("trades", trades)?;
        record.set_item("candles", candles)?;
        Ok(record)
    }
}

/// Transposes rows of one number per symbol to an array of one row per symbol.
struct ByRow<'py> {
    py: Python<'py>,
    symbols: usize,
}

impl<'py> ByRow<'py> {
    fn array<V: numpy::Element + Copy>(&self, rows: &[V]) -> PyResult<Bound<'py, PyAny>> {
        let count = rows.len() / self.symbols;
        let numbers = (0..self.symbols)
            .flat_map(|symbol| rows.iter().skip(symbol).step_by(self.symbols).copied());
        let flat = PyArray1::from_iter(self.py, numbers);
        Ok(flat.reshape([self.symbols, count])?.into_any())
    }
}
