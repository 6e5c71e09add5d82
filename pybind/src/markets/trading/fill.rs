//! Fills of an agent's orders, as Python sees them.

use backcast_sim::{MarketConfig, Side, SlotFill};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyTuple};

/// Tick, symbol, signed shares, price and fee in currency units, whether the order was resting, and
/// its number.
type FillRow = (u64, u16, i32, f64, f64, bool, u64);

/// Fills of one step of one agent, in sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Fills(Vec<FillRow>);

impl Fills {
    pub(super) fn of(fills: &[SlotFill], market: &MarketConfig) -> Self {
        let unit = market.cash_unit();
        let row = |fill: &SlotFill| {
            let sign = if fill.side == Side::Buy { 1 } else { -1 };
            let (price, fee) = (market.price(fill.price), fill.fee as f64 * unit);
            (fill.tick, fill.symbol, sign * fill.quantity, price, fee, fill.maker, fill.order)
        };
        Self(fills.iter().map(row).collect())
    }

    /// Returns a tuple of objects of `backcast.envs.Fill`.
    pub(super) fn tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        static FILL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if self.0.is_empty() {
            return Ok(PyTuple::empty(py));
        }
        let class = FILL.import(py, "backcast.envs._fill", "Fill")?;
        let fills = self.0.iter().map(|row| class.call1(*row)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, fills)
    }
}
