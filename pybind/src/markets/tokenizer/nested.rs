//! Nested lists of names and tokens: flattening and nesting.

use pyo3::prelude::*;
use pyo3::types::{PyList, PySequence, PyString};

use super::NAMES;
use crate::argument::{text_of, wrong_type};
use crate::error::{Failure, bad_argument};

/// Names of a nested list. All lists of an axis have the same length.
#[derive(Default)]
pub(super) struct Nested {
    pub(super) names: Vec<String>,
    pub(super) shape: Vec<usize>,
    /// Number of axes; `None` until the first name is found.
    axes: Option<usize>,
}

impl Nested {
    pub(super) fn read(&mut self, value: &Bound<'_, PyAny>, axis: usize) -> Result<(), Failure> {
        let refuse = |wanted: &str| Err(wrong_type(value, "tics", wanted));
        if let Ok(name) = value.cast::<PyString>() {
            if axis == 0 {
                return refuse("a list of names, or call encode");
            }
            if *self.axes.get_or_insert(axis) != axis {
                return refuse("lists that are all nested alike");
            }
            let name = text_of(name.as_any())?;
            if name.is_empty() {
                return Err(bad_argument("tics holds ''; give the names of tickers"));
            }
            self.names.push(name);
            return Ok(());
        }
        // Arrays of NumPy and columns of pandas become lists.
        let listed = match value.getattr_opt("tolist")? {
            Some(tolist) => tolist.call0()?,
            None => value.clone(),
        };
        let Ok(parts) = listed.cast::<PySequence>() else { return refuse(NAMES) };
        let parts = parts.to_list()?;
        if self.axes.is_some_and(|axes| axis >= axes) {
            return refuse("lists that are all nested alike");
        }
        match self.shape.get(axis) {
            None => self.shape.push(parts.len()),
            Some(len) if *len == parts.len() => {}
            Some(len) => {
                let message = format!(
                    "tics has lists of {len} and of {} names; give lists of one length",
                    parts.len()
                );
                return Err(bad_argument(message));
            }
        }
        parts.iter().try_for_each(|part| self.read(&part, axis + 1))
    }
}

/// Returns values in nested lists of this shape.
pub(super) fn nest<'py>(
    py: Python<'py>,
    values: &[Bound<'py, PyAny>],
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    match shape {
        [] => Ok(values.first().map_or_else(|| py.None().into_bound(py), Clone::clone)),
        [_] => Ok(PyList::new(py, values)?.into_any()),
        [0, ..] => Ok(PyList::empty(py).into_any()),
        [parts, rest @ ..] => {
            let each = values.len() / parts;
            let lists = (0..*parts).map(|at| nest(py, &values[at * each..(at + 1) * each], rest));
            Ok(PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}
