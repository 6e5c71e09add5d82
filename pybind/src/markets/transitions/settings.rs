//! Settings of a ring of transitions, read from Python.

use backcast_core::plumbing::closest_name;
use backcast_market::{PriceColumn, TransitionLayout, TransitionSelection};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::argument::{Argument, axes_of, count_in, wrong_type};
use crate::error::{ErrorClass, Failure};
use crate::markets::transitions::batch::{BatchNames, ticker_names};

pub(super) fn position(panel: &backcast_market::Panel, name: &str) -> Result<u32, Failure> {
    let token = panel.token(name).and_then(|token| token.checked_sub(1));
    token.ok_or_else(|| {
        let near = closest_name(name, panel.tickers().iter().map(String::as_str));
        let hint = near.map_or_else(
            || "tickers lists them".to_owned(),
            |near| format!("did you mean '{near}'?"),
        );
        Failure::new(ErrorClass::Panel, format!("the panel has no ticker '{name}'; {hint}"))
    })
}

pub(super) fn names(
    py: Python<'_>,
    panel: &backcast_market::Panel,
    macro_tickers: &[String],
    indicators: Option<Vec<String>>,
) -> Result<BatchNames, Failure> {
    let macros = macro_tickers.iter().map(|name| position(panel, name));
    let macros = macros.collect::<Result<Vec<_>, _>>()?;
    let indicators = indicators.unwrap_or_else(|| panel.indicators().to_vec());
    let columns = if indicators == panel.indicators() {
        None
    } else {
        let mut columns: Vec<usize> = (0..PriceColumn::ALL.len()).collect();
        for name in &indicators {
            let at = panel.indicators().iter().position(|known| known == name);
            let at = at.ok_or_else(|| {
                let message = format!("the panel has no indicator '{name}'; indicators lists them");
                Failure::new(ErrorClass::Panel, message)
            })?;
            columns.push(PriceColumn::ALL.len() + at);
        }
        Some(columns)
    };
    let selection = TransitionSelection { macros, columns };
    Ok(BatchNames { selection, indicators, tickers: ticker_names(py, panel)? })
}

pub(super) fn action_shape_of(given: &Bound<'_, PyAny>) -> Result<Vec<usize>, Failure> {
    const WANTED: &str = "a tuple of whole numbers from 1 up, such as (10, 2)";
    let axes = axes_of(given)?.filter(|axes| !axes.contains(&0));
    axes.ok_or_else(|| wrong_type(given, "action_shape", WANTED))
}

/// Reads a seed. -1 asks for a random one.
pub(super) fn seed_of(py: Python<'_>, given: Argument<i128>) -> Result<u64, Failure> {
    const WANTED: &str = "a whole number from 0 up, or -1 for a random one";
    let seed = given.get("seed", WANTED)?;
    if seed == -1 {
        let random = py.import("secrets")?.call_method1(intern!(py, "randbits"), (64,))?;
        return Ok(random.extract()?);
    }
    u64::try_from(seed)
        .map_err(|_| Failure::new(ErrorClass::Argument, format!("seed is {seed}; give {WANTED}")))
}

pub(super) fn threads_of(given: Argument<i128>) -> Result<usize, Failure> {
    Ok(count_in(given, "threads", 1..=256, ErrorClass::Argument)? as usize)
}

pub(super) fn layout_of(given: Argument<String>) -> Result<TransitionLayout, Failure> {
    const CHOICE: &str = "\"ticker\" or \"batched\"";
    match given.get("layout", CHOICE)?.as_str() {
        "ticker" => Ok(TransitionLayout::Ticker),
        "batched" => Ok(TransitionLayout::Batched),
        other => {
            let message = format!("layout is '{other}'; give {CHOICE}");
            Err(Failure::new(ErrorClass::Argument, message))
        }
    }
}
