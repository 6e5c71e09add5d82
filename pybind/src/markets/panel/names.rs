//! Reads tickers by name, and words errors about unknown ones.

use backcast_core::plumbing::closest_name;
use backcast_market::Panel as CorePanel;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::argument::read;
use crate::error::{ErrorClass, Failure};

pub(super) const NAMES: &str = "a sequence of names, such as [\"AAPL\", \"MSFT\"]";

/// Reads a sequence of names. Refuses a single string.
pub(super) fn names_of(given: &Bound<'_, PyAny>, what: &str) -> Result<Vec<String>, Failure> {
    read(given, what, NAMES)
}

pub(super) fn unknown_ticker(panel: &CorePanel, name: &str) -> Failure {
    let hint = closest_name(name, panel.tickers().iter().map(String::as_str))
        .map_or_else(|| "tickers lists them".to_owned(), |near| format!("did you mean {near:?}?"));
    let count = panel.tickers().len();
    Failure::new(
        ErrorClass::Panel,
        format!("the panel has no ticker {name:?} among its {count}; {hint}"),
    )
}
