//! The `capacity` argument, and a warning about rings that take over twice the memory of their
//! rows.

use backcast_core::{Capacity, Ring};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

use crate::argument::{Argument, required};
use crate::error::{Failure, bad_argument};
use crate::warning::warn_as;

/// Accepted values of `capacity`.
const WANTED: &str = "rows as an int (1_000_000) or bytes as text (\"8GiB\")";
/// Largest size, in bytes, of a ring that never gets the warning.
const WORTH_A_WARNING: u64 = 64 << 20;

/// Warns if column sizes force more than twice the memory that the rows need. Does not warn about
/// rings of at most [`WORTH_A_WARNING`] bytes.
pub(crate) fn warn_if_wasteful(py: Python<'_>, ring: &Ring, label: &str) -> Result<(), Failure> {
    let stats = ring.stats();
    let (asked, allocated) = (stats.bytes_asked, stats.bytes_allocated);
    if allocated / 2 <= asked || allocated <= WORTH_A_WARNING {
        return Ok(());
    }
    let text = format!(
        "{label} takes {allocated} bytes for the {asked} that its rows need; choose column sizes \
         that divide the page size, or fewer lanes"
    );
    Ok(warn_as(&py.get_type::<PyUserWarning>(), &text, 1)?)
}

/// Reads rows from an int, and bytes or rows from a string.
pub(crate) fn from_python(value: Option<&Bound<'_, PyAny>>) -> Result<Capacity, Failure> {
    let value = required(value, "capacity", WANTED)?;
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str()?.parse::<Capacity>().map_err(bad_argument);
    }
    let Ok(rows) = value.extract::<Argument<i128>>();
    let rows = rows.get("capacity", WANTED)?;
    match u64::try_from(rows) {
        Ok(rows) if rows > 0 => Ok(Capacity::Rows(rows)),
        _ if rows > 0 => {
            Err(bad_argument(format!("capacity is {rows}; give at most {}", u64::MAX)))
        }
        _ => Err(bad_argument(format!("capacity is {rows}; give {WANTED}, at least 1"))),
    }
}
