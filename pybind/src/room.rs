//! Memory whose size a caller decides: an error where there is none, never an abort.

use backcast_core::DType;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::coerce::{Tuple, descr};
use crate::error::{Failure, Kind};
use crate::view::FreshArray;

/// What is said where memory does not suffice.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) kind: Kind,
    /// What the caller can do.
    pub(crate) remedy: &'static str,
}

impl Room {
    /// Allocates an array for its caller to fill.
    pub(crate) fn array<'py>(
        self,
        py: Python<'py>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<FreshArray<'py>, Failure> {
        let descr = descr(py, dtype)?;
        FreshArray::for_filling(py, &descr, shape)
            .map_err(|error| self.of_array(py, error, dtype, shape))
    }

    /// Allocates zeros, `len` of them; `None` of the length: it cannot be addressed.
    pub(crate) fn zeros<V: Clone + Default>(self, len: Option<usize>) -> Result<Vec<V>, Failure> {
        let mut zeros = Vec::new();
        match len {
            Some(len) if zeros.try_reserve_exact(len).is_ok() => zeros.resize(len, V::default()),
            _ => return Err(self.none(&format!("{} numbers", Count(len)))),
        }
        Ok(zeros)
    }

    /// Allocates an empty list of `rows * width` places.
    pub(crate) fn list<V>(self, rows: usize, width: usize) -> Result<Vec<V>, Failure> {
        let (mut list, len) = (Vec::new(), rows.checked_mul(width));
        match len {
            Some(len) if list.try_reserve_exact(len).is_ok() => Ok(list),
            _ => Err(self.none(&format!("{} numbers", Count(len)))),
        }
    }

    /// A failed allocation of NumPy in the words of the package.
    pub(crate) fn of_array(
        self,
        py: Python<'_>,
        error: PyErr,
        dtype: DType,
        shape: &[usize],
    ) -> Failure {
        // NumPy says "too big" for what cannot be addressed.
        let too_large = error.is_instance_of::<PyMemoryError>(py)
            || shape
                .iter()
                .try_fold(dtype.size(), |bytes, axis| bytes.checked_mul(*axis))
                .is_none();
        if too_large {
            self.none(&format!("an array {} of {}", Tuple(shape), dtype.code()))
        } else {
            error.into()
        }
    }

    fn none(self, what: &str) -> Failure {
        Failure::new(self.kind, format!("there is no memory for {what}; {}", self.remedy))
    }
}

struct Count(Option<usize>);

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(len) => write!(f, "{len}"),
            None => f.write_str("more than 2^64"),
        }
    }
}
