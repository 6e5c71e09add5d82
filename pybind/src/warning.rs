//! Warnings of the package, raised at the line of the caller.

use std::ffi::CString;

use backcast_core::Ring;
use backcast_core::plumbing::printable;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Raises a `LeaseWarning` at the caller's line.
pub(crate) fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    warn_as(CLASS.import(py, "backcast.errors", "LeaseWarning")?, message, 1)
}

/// Raises an `UnlinkedWarning` at the caller's line, the first time that a ring is found to have
/// lost its name.
pub(crate) fn warn_if_unlinked(py: Python<'_>, ring: &Ring) -> PyResult<()> {
    if ring.take_unlinked() { warn_unlinked(py, ring) } else { Ok(()) }
}

/// Raises an `UnlinkedWarning` at the caller's line.
#[cold]
pub(crate) fn warn_unlinked(py: Python<'_>, ring: &Ring) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let name = ring.name().unwrap_or_default();
    let message = format!(
        "ring '{name}' was removed or replaced while this process uses it: processes that \
         attach by name now do not see its rows; attach again to use the ring of that name, or \
         attach with on_unlinked=\"error\" to get an error here"
    );
    warn_as(CLASS.import(py, "backcast.errors", "UnlinkedWarning")?, &message, 1)
}

/// Raises a warning of a class at the line `level` frames up. Replaces control characters, which
/// quoted names may contain.
pub(crate) fn warn_as(class: &Bound<'_, PyType>, message: &str, level: i32) -> PyResult<()> {
    let message = CString::new(printable(message))?;
    PyErr::warn(class.py(), class.as_any(), &message, level)
}
