//! Values and names as errors show them.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

/// Describes a value for an error: its `repr` if that is short, and its type.
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

/// Returns the known name that `name` probably means: of similar spelling, or with a common prefix.
pub(crate) fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let begins = |long: &str, short: &str| short.len() > 2 && long.starts_with(short);
    known
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .filter(|(edits, known)| {
            let few = *edits <= 2.max(known.len() / 3) && *edits < known.len();
            few || begins(name, known) || begins(known, name)
        })
        .min()
        .map(|(_, known)| known)
}
