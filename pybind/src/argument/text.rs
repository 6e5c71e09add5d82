//! Values and names as errors show them.

use backcast_core::plumbing::closest_name;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

/// Describes a value for an error by its `repr` and its type.
///
/// None and an `int` are shown without the type. A `repr` that is empty or of several lines is left
/// out, and so is a long one of a value that is neither a string nor a float.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    const LONGEST: usize = 60;
    let class = text_of(value.get_type().name()?.as_any())?;
    let text = repr_of(value)?;
    if value.is_none() || value.is_exact_instance_of::<PyInt>() {
        return Ok(text);
    }
    let article = if class.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']) {
        "an"
    } else {
        "a"
    };
    let plain = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyFloat>()
        || text.chars().count() <= LONGEST;
    if text.is_empty() || !plain || text.contains('\n') {
        return Ok(format!("{article} {class}"));
    }
    Ok(format!("{text}, {article} {class}"))
}

/// Returns `repr(value)`, or an empty string if it raises an `Exception`. Passes on a Ctrl-C.
pub(crate) fn repr_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.repr() {
        Ok(text) => Ok(text.to_string_lossy().into_owned()),
        Err(raised) if raised.is_instance_of::<PyException>(value.py()) => Ok(String::new()),
        Err(raised) => Err(raised),
    }
}

/// Returns `str(value)`. Unlike formatting with `{}`, it passes on what `str` raises, such as a
/// Ctrl-C.
pub(crate) fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_string_lossy().into_owned())
}

/// Return the known name that a name probably means; ``None`` if none is similar enough.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "an argument of the Python call")]
pub(crate) fn _closest_name(name: &str, known: Vec<String>) -> Option<String> {
    closest_name(name, known.iter().map(String::as_str)).map(str::to_owned)
}
