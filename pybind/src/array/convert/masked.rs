//! Finds masked arrays, whose masks NumPy's conversion ignores.

use numpy::PyUntypedArray;
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};

/// Returns whether a value is a masked array, or a list or tuple that holds one. `asarray` ignores
/// masks.
pub(crate) fn is_masked(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    /// Maximum axes of an array of NumPy.
    const MOST_AXES: usize = 64;
    Ok(has_mask(value, MOST_AXES)?.unwrap_or(false))
}

/// Searches lists up to `axes` levels deep. Returns `None` if they are deeper, such as a list that
/// contains itself. NumPy makes no array of such lists.
fn has_mask(value: &Bound<'_, PyAny>, axes: usize) -> PyResult<Option<bool>> {
    static MASKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    if value.get_type().is(PyUntypedArray::type_object(py)) {
        return Ok(Some(false));
    }
    if value.is_instance_of::<PyUntypedArray>() {
        let masked = value.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)?;
        return Ok(Some(masked));
    }
    if !(value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()) {
        return Ok(Some(false));
    }
    let Some(axes) = axes.checked_sub(1) else { return Ok(None) };
    for part in value.try_iter()? {
        let part = part?;
        // A list with a number in front holds no arrays, so long lists are not searched.
        if part.is_instance_of::<PyFloat>() || part.is_instance_of::<PyInt>() {
            return Ok(Some(false));
        }
        let masked = has_mask(&part, axes)?;
        if masked != Some(false) {
            return Ok(masked);
        }
    }
    Ok(Some(false))
}
