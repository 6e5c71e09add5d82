//! Contents of a panel: names, values and a summary.

use backcast_market::{Calendar, Coverage, PanelSummary};
use backcast_pybind_macros::exact_arguments;
use numpy::prelude::*;
use numpy::{PyArray1, PyArray2, PyArray3};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Failure;
use crate::markets::panel::Panel;

#[exact_arguments]
#[pymethods]
impl Panel {
    /// Summarise the panel, in two passes over its rows.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``name``, ``path`` (None for a private panel); ``calendar`` ("days" or "bars"); ``days``
    ///     (their number), ``bars_per_year``, ``first_date``, ``last_date`` (YYYY-MM-DD, or a UTC
    ///     timestamp); ``tickers``, ``macro_tickers``, ``columns``, ``indicators`` (lists of
    ///     names); ``rows`` (pairs of ticker and day that have a row), ``masked_rows`` (pairs
    ///     without one: a row is whole or absent), ``inconsistent_rows`` (of tradable tickers,
    ///     whose open or close lies outside low and high); ``data_bytes`` (memory of the numbers,
    ///     held as float64 and, for windows, as float32); ``min_price`` and ``max_price`` (lowest
    ///     low and highest high of the tradable tickers, currency units per share); ``fingerprint``
    ///     (equal panels have equal ones); and ``coverage``, a list with a dict for each ticker:
    ///     ``ticker``, ``is_macro``, ``rows``, ``first_day``, ``last_day`` (positions in
    ///     :attr:`dates`), ``first_date``, ``last_date``, ``missing_days`` (between first and
    ///     last), ``min_price``, ``max_price``.
    ///
    /// Raises
    /// ------
    /// ClosedError
    ///     If the panel was closed.
    #[pyo3(signature = (), text_signature = "($self)")]
    fn describe<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let panel = self.get()?;
        let summary = py.detach(|| panel.describe());
        Ok(described(py, summary, self.name.as_deref(), self.path())?)
    }

    /// Return the first column with "split" in its name by which prices move, and the first day on
    /// which they do; None if there is no such column. Every ticker counts, macro ones too.
    fn _splits_by_name(&self, py: Python<'_>) -> Result<Option<(String, usize)>, Failure> {
        let panel = self.get()?;
        let tickers: Vec<usize> = (0..panel.tickers().len()).collect();
        let found = py.detach(|| panel.splits_by_name(&tickers, 0..panel.days()));
        Ok(found.and_then(|(column, bars)| {
            let (_, day) = bars.first?;
            Some((panel.columns()[column].clone(), day))
        }))
    }

    /// Copy of every number, float64 ``[T, D, C]``; zeros if there is no row.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray3<f64>>, Failure> {
        let panel = self.get()?;
        let shape = [panel.tickers().len(), panel.days(), panel.columns().len()];
        let values = py.detach(|| panel.values());
        Ok(PyArray1::from_vec(py, values).reshape(shape)?)
    }

    /// True where a ticker has a row on a day, bool ``[T, D]``; a copy.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray2<bool>>, Failure> {
        let panel = self.get()?;
        let shape = [panel.tickers().len(), panel.days()];
        let mask = py.detach(|| panel.mask());
        Ok(PyArray1::from_vec(py, mask).reshape(shape)?)
    }

    /// Every ticker, sorted, macro ones included.
    #[getter]
    fn tickers(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.tickers().to_vec())
    }

    /// The tickers that are shown but never traded.
    #[getter]
    fn r#macro(&self) -> Result<Vec<String>, Failure> {
        let panel = self.get()?;
        let tickers = panel.tickers().iter().enumerate();
        Ok(tickers.filter(|(at, _)| panel.is_macro(*at)).map(|(_, name)| name.clone()).collect())
    }

    /// The days as ``YYYY-MM-DD``, or the instants of bars as ``2024-01-02T14:30:00Z``, ascending.
    #[getter]
    fn dates(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.dates().to_vec())
    }

    /// The instants of bars in UTC, ``datetime64[us]``, or the days, ``datetime64[D]``; a copy.
    #[getter]
    fn timestamps<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let panel = self.get()?;
        let micros = PyArray1::from_vec(py, panel.micros());
        let instants = micros.call_method1("view", ("datetime64[us]",))?;
        Ok(match panel.calendar() {
            Calendar::Days => instants.call_method1("astype", ("datetime64[D]",))?,
            _ => instants,
        })
    }

    /// Labels of the rows, ``"days"`` or ``"bars"``.
    #[getter]
    fn calendar(&self) -> Result<String, Failure> {
        Ok(self.get()?.calendar().to_string())
    }

    /// Days or bars of a year, which annualise ratios: as given when loading, or by the calendar.
    ///
    /// A typical week, from the first bar on, tells: its bars times 252/5 if the market closes for
    /// more than a day and a half in most weeks, else times 365/7. Bars of weeks, months, quarters
    /// and years give 52, 12, 4 and 1. Panels of days of less than two weeks have 252, unless a
    /// week of them has no hole. Loading warns of a guess.
    #[getter]
    fn bars_per_year(&self) -> Result<f64, Failure> {
        Ok(self.get()?.bars_per_year())
    }

    /// Open, high, low, close, volume, then the indicators.
    #[getter]
    fn columns(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.columns().to_vec())
    }

    /// The indicators, in the order of the file.
    #[getter]
    fn indicators(&self) -> Result<Vec<String>, Failure> {
        Ok(self.get()?.indicators().to_vec())
    }

    /// Days in the panel, ``D``.
    #[getter]
    fn n_days(&self) -> Result<usize, Failure> {
        Ok(self.get()?.days())
    }

    /// Maximum days of a window before its own day, or after it.
    ///
    /// Days beyond the panel are masked. Longer windows are refused, since they would be mostly
    /// zeros.
    #[getter]
    fn longest_window(&self) -> Result<usize, Failure> {
        Ok(self.get()?.longest_window())
    }

    /// The panel's name; None when it is private to this process.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The panel's directory; None when it is private to this process.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.to_string_lossy().into_owned())
    }
}

pub(super) fn described<'py>(
    py: Python<'py>,
    summary: PanelSummary,
    name: Option<&str>,
    path: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("name", name)?;
    result.set_item("path", path)?;
    result.set_item("calendar", summary.calendar.to_string())?;
    result.set_item("days", summary.days)?;
    result.set_item("bars_per_year", summary.bars_per_year)?;
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
