//! Allocation of memory whose size the caller decides. A failure is a typed error, never an abort.

use backcast_core::DType;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::array::convert::{ShapeText, descr};
use crate::array::view::FreshArray;
use crate::error::{ErrorClass, Failure};

/// Allocator whose failures are errors of one class.
#[derive(Clone, Copy)]
pub(crate) struct Allocator {
    pub(crate) class: ErrorClass,
    /// Advice that ends the message of a failure.
    pub(crate) remedy: &'static str,
}

impl Allocator {
    /// Allocates an array for its caller to fill.
    pub(crate) fn array<'py>(
        self,
        py: Python<'py>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<FreshArray<'py>, Failure> {
        let descr = descr(py, dtype)?;
        FreshArray::allocate(py, &descr, shape)
            .map_err(|error| self.array_failure(py, error, dtype, shape))
    }

    /// Allocates `len` zeros. `None` is a length that cannot be addressed, and fails.
    pub(crate) fn zeros<V: Clone + Default>(self, len: Option<usize>) -> Result<Vec<V>, Failure> {
        let mut zeros = Vec::new();
        match len {
            Some(len) if zeros.try_reserve_exact(len).is_ok() => zeros.resize(len, V::default()),
            _ => return Err(self.failure(&format!("{} numbers", Count(len)))),
        }
        Ok(zeros)
    }

    /// Allocates an empty list with room for `rows * width` values.
    pub(crate) fn list<V>(self, rows: usize, width: usize) -> Result<Vec<V>, Failure> {
        let (mut list, len) = (Vec::new(), rows.checked_mul(width));
        match len {
            Some(len) if list.try_reserve_exact(len).is_ok() => Ok(list),
            _ => Err(self.failure(&format!("{} numbers", Count(len)))),
        }
    }

    /// Rewords NumPy's error if the array is too large. Returns any other error unchanged.
    pub(crate) fn array_failure(
        self,
        py: Python<'_>,
        error: PyErr,
        dtype: DType,
        shape: &[usize],
    ) -> Failure {
        // For sizes that cannot be addressed, NumPy raises a `ValueError`.
        let too_large = error.is_instance_of::<PyMemoryError>(py)
            || shape
                .iter()
                .try_fold(dtype.size(), |bytes, axis| bytes.checked_mul(*axis))
                .is_none();
        if too_large {
            self.failure(&format!("an array {} of {}", ShapeText(shape), dtype.code()))
        } else {
            error.into()
        }
    }

    fn failure(self, what: &str) -> Failure {
        Failure::new(self.class, format!("there is no memory for {what}; {}", self.remedy))
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
