//! How a file is read, and where the panel that comes of it goes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use backcast_core::{Base, Exist};
use backcast_market::{NanPolicy, PanelData, PanelError, PanelOptions};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use super::Panel;
use super::names::names_of;
use crate::error::{Failure, bad_argument};
use crate::given::{Given, read};
use crate::place::{exist, name_of, persistence, place};

/// Where a loaded panel goes.
pub(super) struct Share {
    name: Option<String>,
    base: Base,
    exist: Exist,
    persistent: bool,
}

impl Share {
    pub(super) fn of(
        name: Option<Given<String>>,
        exist: Given<String>,
        persistent: Given<bool>,
        dir: Option<Given<PathBuf>>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            persistent: persistence(persistent, name.is_some(), "panel")?,
            name: name.map(name_of).transpose()?,
            exist: self::exist(exist)?,
            base: place(dir)?,
        })
    }

    /// Load and share with the interpreter released.
    pub(super) fn make(
        self,
        py: Python<'_>,
        load: impl Send + FnOnce() -> Result<PanelData, PanelError>,
    ) -> Result<Panel, Failure> {
        let panel = py.detach(move || {
            let data = load()?;
            match self.name {
                Some(name) => data.share(&name, &self.base, self.exist, self.persistent),
                None => Ok(data.into_heap()),
            }
        })?;
        Ok(Panel::of(panel))
    }
}

pub(super) fn options(
    macro_tickers: Option<&Bound<'_, PyAny>>,
    columns: Option<&Bound<'_, PyAny>>,
    nan: Given<String>,
) -> Result<PanelOptions, Failure> {
    let tickers = macro_tickers.map(|given| names_of(given, "macro")).transpose()?;
    let policy: NanPolicy =
        nan.get("nan", "\"refuse\" or \"mask\"")?.parse().map_err(bad_argument)?;
    let columns = columns.map(renames).transpose()?;
    let columns = columns.into_iter().flatten();
    let columns = columns.map(|(theirs, ours)| (theirs, ours.unwrap_or_default()));
    Ok(PanelOptions::default()
        .macro_tickers(tickers.unwrap_or_default())
        .columns(columns)
        .nan(policy))
}

/// The `columns` argument: None for a column that is left out.
fn renames(given: &Bound<'_, PyAny>) -> Result<BTreeMap<String, Option<String>>, Failure> {
    let wanted = "a dict of the file's names to the panel's, such as {\"Date\": \"date\"}";
    read(given, "columns", wanted)
}
