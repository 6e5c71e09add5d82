//! Nested dicts for names with a `/`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Stores a value under a name such as `obs/image`, and creates the dicts above it.
pub(crate) fn insert<'py>(
    into: &Bound<'py, PyDict>,
    name: &str,
    value: impl IntoPyObject<'py>,
) -> PyResult<()> {
    match name.split_once('/') {
        None => into.set_item(name, value),
        Some((group, rest)) => {
            let inner = into.get_item(group)?.and_then(|inner| inner.cast_into::<PyDict>().ok());
            let inner = if let Some(inner) = inner {
                inner
            } else {
                let inner = PyDict::new(into.py());
                into.set_item(group, &inner)?;
                inner
            };
            insert(&inner, rest, value)
        }
    }
}
