//! Options of a sampler that are objects: plain data classes of the Python package.

use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::argument::{Argument, FromArgument};

/// Object of a data class. Its fields are read like arguments of a call.
pub(super) struct Fields<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'a, 'py> Fields<'a, 'py> {
    /// Returns the one of `classes` that an object is an instance of, and its fields. Returns
    /// `None` if there is none.
    pub(super) fn of(
        given: &'a Bound<'py, PyAny>,
        module: &str,
        classes: &[&'static str],
    ) -> PyResult<Option<(&'static str, Self)>> {
        let module = given.py().import(module)?;
        for class in classes {
            if given.is_instance(&module.getattr(*class)?)? {
                return Ok(Some((class, Self(given))));
            }
        }
        Ok(None)
    }

    /// Returns a field as it was given.
    pub(super) fn any(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.0.getattr(name)
    }

    /// Returns a field as an argument. [`Argument::get`] refuses a value of another type.
    pub(super) fn get<T: FromArgument>(&self, name: &str) -> PyResult<Argument<T>> {
        let Ok(field) = self.any(name)?.extract::<Argument<T>>();
        Ok(field)
    }
}
