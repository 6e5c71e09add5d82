//! Loading of panels from files and frames: options, sharing and warnings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use backcast_core::{Base, Exist};
use backcast_market::{DerivedColumn, NanPolicy, PanelData, PanelError, PanelOptions};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Panel;
use super::names::names_of;
use crate::argument::{Argument, read};
use crate::error::{Failure, bad_argument};
use crate::location::{base_of, exist_of, name_of, persistent_of};
use crate::warning::warn_as;

/// Name and place of a loaded panel.
pub(super) struct PanelTarget {
    name: Option<String>,
    base: Base,
    exist: Exist,
    persistent: bool,
}

impl PanelTarget {
    pub(super) fn of(
        name: Option<Argument<String>>,
        exist: Argument<String>,
        persistent: Argument<bool>,
        dir: Option<Argument<PathBuf>>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            persistent: persistent_of(persistent, name.is_some(), "panel")?,
            name: name.map(name_of).transpose()?,
            exist: exist_of(exist)?,
            base: base_of(dir)?,
        })
    }

    /// Loads and shares a panel with the interpreter released. Warns of what is doubtful.
    pub(super) fn make(
        self,
        py: Python<'_>,
        load: impl Send + FnOnce() -> Result<PanelData, PanelError>,
    ) -> Result<Panel, Failure> {
        let (data, inconsistent, warnings) = py.detach(move || {
            let data = load()?;
            let (inconsistent, warnings) = (data.inconsistent_rows(), data.warnings());
            Ok::<_, PanelError>((data, inconsistent, warnings))
        })?;
        // Warns before sharing, because a warning may be an error.
        warn_of_rows(py, inconsistent)?;
        for warning in warnings {
            warn(py, &warning.to_string())?;
        }
        self.share(py, data)
    }

    /// Loads and shares a panel with the interpreter released, without warnings.
    pub(super) fn make_silently(
        self,
        py: Python<'_>,
        load: impl Send + FnOnce() -> Result<PanelData, PanelError>,
    ) -> Result<Panel, Failure> {
        let data = py.detach(load)?;
        self.share(py, data)
    }

    fn share(self, py: Python<'_>, data: PanelData) -> Result<Panel, Failure> {
        let panel = py.detach(move || match self.name {
            Some(name) => data.share(&name, &self.base, self.exist, self.persistent),
            None => data.try_into_heap(),
        })?;
        Ok(Panel::of(panel))
    }
}

/// Warns of rows whose prices contradict one another. The panel keeps them.
fn warn_of_rows(py: Python<'_>, count: usize) -> PyResult<()> {
    if count == 0 {
        return Ok(());
    }
    let message = format!(
        "{count} row(s) have an open or a close outside their low and high \
         (describe()[\"inconsistent_rows\"]); they are kept as they are: correct them, \
         or declare tickers that are not traded macro"
    );
    warn(py, &message)
}

fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    // Stack level of the first frame outside the package.
    let calls = py.import("backcast._calls")?;
    let level: i32 = calls.call_method0("levels_up")?.extract()?;
    warn_as(&py.get_type::<PyUserWarning>(), message, level.max(1))
}

/// Reads the `separator` argument.
pub(super) fn separator_of(given: Argument<String>) -> Result<u8, Failure> {
    const WANTED: &str = "one ASCII character, such as \";\", but a quote or the end of a line";
    let text = given.get("separator", WANTED)?;
    match *text.as_bytes() {
        [only] if !matches!(only, b'"' | b'\n' | b'\r') => Ok(only),
        _ => Err(bad_argument(format!("separator is {text:?}; give {WANTED}"))),
    }
}

/// Arguments of every call that loads a table.
pub(super) struct TableArguments<'a, 'py> {
    pub(super) macros: Option<&'a Bound<'py, PyAny>>,
    pub(super) columns: Option<&'a Bound<'py, PyAny>>,
    pub(super) nan: Argument<String>,
    pub(super) ticker: Option<Argument<String>>,
    pub(super) derive: Option<&'a Bound<'py, PyAny>>,
    pub(super) zone: Option<Argument<String>>,
    pub(super) unit: Option<Argument<String>>,
    pub(super) bars_per_year: Option<Argument<f64>>,
}

impl TableArguments<'_, '_> {
    pub(super) fn options(self) -> Result<PanelOptions, Failure> {
        let tickers = self.macros.map(|given| names_of(given, "macro")).transpose()?;
        let policy: NanPolicy =
            self.nan.get("nan", "\"refuse\" or \"mask\"")?.parse().map_err(bad_argument)?;
        let columns = self.columns.map(renames).transpose()?;
        let columns = columns.into_iter().flatten();
        let columns = columns.map(|(theirs, ours)| (theirs, ours.unwrap_or_default()));
        let mut options = PanelOptions::default()
            .macro_tickers(tickers.unwrap_or_default())
            .columns(columns)
            .nan(policy)
            .derive(self.derive.map(derived).transpose()?.unwrap_or_default());
        if let Some(ticker) = self.ticker {
            options = options.ticker(ticker.get("ticker", "a name, such as \"AAPL\"")?);
        }
        if let Some(zone) = self.zone {
            options = options.zone(zone.get("zone", "a name, such as \"UTC\"")?);
        }
        if let Some(unit) = self.unit {
            let unit = unit.get("unit", "\"s\", \"ms\", \"us\" or \"ns\"")?;
            options = options.unit(unit.parse().map_err(bad_argument)?);
        }
        if let Some(bars) = self.bars_per_year {
            options = options.bars_per_year(bars.get("bars_per_year", "a number, such as 252")?);
        }
        Ok(options)
    }
}

/// Reads the `derive` argument.
fn derived(given: &Bound<'_, PyAny>) -> Result<Vec<DerivedColumn>, Failure> {
    let wanted = "a sequence of columns, such as [\"volume\"]";
    let words: Vec<String> = read(given, "derive", wanted)?;
    words.iter().map(|word| word.parse().map_err(bad_argument)).collect()
}

/// Reads the `columns` argument. A column to leave out has `None`.
fn renames(given: &Bound<'_, PyAny>) -> Result<BTreeMap<String, Option<String>>, Failure> {
    let wanted = "a dict of the file's names to the panel's, such as {\"Date\": \"date\"}";
    read(given, "columns", wanted)
}
