//! Single transitions, and the market around them in double precision.

use std::ops::Range;

use backcast_market::{Panel, PriceColumn, TransitionBatch};
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};

use super::settings::position;
use crate::error::Failure;
use crate::markets::transitions::batch::BatchNames;

/// Returns the one transition of `batch` as keywords of `VecStoredTransition`.
pub(super) fn stored<'py>(
    py: Python<'py>,
    batch: &TransitionBatch,
    names: &BatchNames,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let width = batch.tokens.len();
    let halves = |all: &[i32]| (all[..width].to_vec(), all[width..].to_vec());
    let (shares, next_shares) = halves(&batch.shares);
    let tickers = batch.tokens.iter().map(|token| &names.tickers[usize::from(*token) - 1]);
    dict.set_item("env_id", batch.env_id(0))?;
    dict.set_item("state_day", batch.days[0])?;
    dict.set_item("next_state_day", batch.days[1])?;
    dict.set_item("tickers", PyList::new(py, tickers)?)?;
    dict.set_item("state_cash", batch.cash[0])?;
    dict.set_item("next_state_cash", batch.cash[1])?;
    dict.set_item("state_shares", shares)?;
    dict.set_item("next_state_shares", next_shares)?;
    dict.set_item("state_avg_buy_price", &batch.avg_buy_prices[..width])?;
    dict.set_item("next_state_avg_buy_price", &batch.avg_buy_prices[width..])?;
    dict.set_item("action", &batch.actions)?;
    dict.set_item("rewards", &batch.rewards)?;
    let outcome = batch.outcome(0);
    dict.set_item("done", outcome.done)?;
    dict.set_item("terminal", outcome.truncated)?;
    dict.set_item("terminated", outcome.terminated)?;
    dict.set_item("truncated", outcome.truncated)?;
    Ok(dict)
}

/// Returns the rows of tickers on some days: float64 `[T, days, 5]` and `[T, days, K]`, int32 `[T,
/// days]`.
pub(super) fn rows_of<'py>(
    py: Python<'py>,
    panel: &Panel,
    names: &BatchNames,
    tickers: &[String],
    days: Range<i64>,
) -> Result<Bound<'py, PyAny>, Failure> {
    let all: Vec<usize> = (0..panel.columns().len()).collect();
    let columns = names.selection.columns.as_deref().unwrap_or(&all);
    let indicators = &columns[PriceColumn::ALL.len()..];
    let (mut ohlcv, mut shown, mut mask) = (Vec::new(), Vec::new(), Vec::new());
    for ticker in tickers {
        let ticker = position(panel, ticker)?;
        let rows = panel.exact_rows(ticker as usize, days.clone(), indicators);
        ohlcv.extend(rows.ohlcv);
        shown.extend(rows.indicators);
        mask.extend(rows.mask);
    }
    let (n, days) = (tickers.len(), usize::try_from(days.end - days.start).unwrap_or(0));
    let ohlcv = PyArray1::from_vec(py, ohlcv).reshape([n, days, PriceColumn::ALL.len()])?;
    let shown = PyArray1::from_vec(py, shown).reshape([n, days, indicators.len()])?;
    let mask = PyArray1::from_vec(py, mask).reshape([n, days])?;
    Ok((ohlcv, shown, mask).into_bound_py_any(py)?)
}
