//! What a panel holds, in numbers, as dicts.

use backcast_market::{Coverage, PanelSummary};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(super) fn described<'py>(
    py: Python<'py>,
    summary: PanelSummary,
    name: Option<&str>,
    path: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("name", name)?;
    result.set_item("path", path)?;
    result.set_item("days", summary.days)?;
    result.set_item("first_date", summary.first_date)?;
    result.set_item("last_date", summary.last_date)?;
    result.set_item("tickers", summary.tickers)?;
    result.set_item("macro_tickers", summary.macro_tickers)?;
    result.set_item("columns", summary.columns)?;
    result.set_item("indicators", summary.indicators)?;
    result.set_item("rows", summary.rows)?;
    result.set_item("masked_rows", summary.masked_rows)?;
    result.set_item("inconsistent_rows", summary.inconsistent_rows)?;
    result.set_item("data_bytes", summary.data_bytes)?;
    result.set_item("min_price", summary.min_price)?;
    result.set_item("max_price", summary.max_price)?;
    result.set_item("fingerprint", summary.fingerprint)?;
    let coverage = summary.coverage.into_iter().map(|ticker| covered(py, ticker));
    result.set_item("coverage", coverage.collect::<PyResult<Vec<_>>>()?)?;
    Ok(result)
}

fn covered(py: Python<'_>, ticker: Coverage) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("ticker", ticker.ticker)?;
    result.set_item("is_macro", ticker.is_macro)?;
    result.set_item("rows", ticker.rows)?;
    result.set_item("first_day", ticker.first_day)?;
    result.set_item("last_day", ticker.last_day)?;
    result.set_item("first_date", ticker.first_date)?;
    result.set_item("last_date", ticker.last_date)?;
    result.set_item("missing_days", ticker.missing_days)?;
    result.set_item("min_price", ticker.min_price)?;
    result.set_item("max_price", ticker.max_price)?;
    Ok(result)
}
