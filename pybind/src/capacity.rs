//! How much a ring should hold, and what it came to take.

use std::ffi::CString;

use backcast_core::{Capacity, Ring};
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

use crate::error::{Failure, bad_argument};

/// Rings smaller than this may take many times what was asked without anybody minding.
const WORTH_A_WARNING: u64 = 64 << 20;

/// Warn when column sizes forced more than twice the memory that was asked for.
pub(crate) fn warn_if_wasteful(py: Python<'_>, ring: &Ring, label: &str) -> Result<(), Failure> {
    let stats = ring.stats();
    let (asked, allocated) = (stats.bytes_asked, stats.bytes_allocated);
    if allocated / 2 <= asked || allocated <= WORTH_A_WARNING {
        return Ok(());
    }
    let text = CString::new(format!(
        "{label} takes {allocated} bytes for the {asked} that its rows need; choose column sizes \
         that divide the page size, or fewer lanes"
    ))
    .map_err(PyErr::from)?;
    Ok(PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?)
}

/// Rows from an int, bytes (or rows) from a string.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> Result<Capacity, Failure> {
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str()?.parse::<Capacity>().map_err(bad_argument);
    }
    let rows: i64 = value.extract().map_err(|_| {
        PyTypeError::new_err("capacity must be an int (transitions) or a string such as \"8GiB\"")
    })?;
    u64::try_from(rows)
        .map(Capacity::Rows)
        .map_err(|_| bad_argument(format!("capacity is {rows}; give at least 1 transition")))
}
