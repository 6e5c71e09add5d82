//! Pool of arrays that calls returned. Later calls fill an array again if nothing else refers to
//! it.

use std::array;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;

use crate::array::view::FreshArray;

/// Largest number of arrays that one call returns.
pub(crate) const MAX_ARRAYS: usize = 9;

/// One value per array of a call, without an allocation.
pub(crate) type PerArray<V> = [Option<V>; MAX_ARRAYS];

pub(crate) fn per_array<V>(values: impl IntoIterator<Item = V>) -> PerArray<V> {
    let mut values = values.into_iter();
    array::from_fn(|_| values.next())
}

/// Number of calls whose arrays are kept. During a call, the caller still holds the arrays of the
/// previous one.
const CALLS: usize = 2;

/// Arrays that the last calls returned, in the same order of dtypes and shapes in each call.
#[derive(Default)]
pub(crate) struct ArrayPool(Mutex<VecDeque<PerArray<Py<PyUntypedArray>>>>);

/// Arrays of one earlier call, which may be unused by now.
#[derive(Default)]
pub(crate) struct PooledArrays(PerArray<Py<PyUntypedArray>>);

impl ArrayPool {
    fn kept(&self) -> MutexGuard<'_, VecDeque<PerArray<Py<PyUntypedArray>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the arrays of the oldest of [`CALLS`] kept calls; none while fewer calls are kept.
    pub(crate) fn take(&self) -> PooledArrays {
        let mut kept = self.kept();
        let oldest = if kept.len() < CALLS { None } else { kept.pop_front() };
        PooledArrays(oldest.unwrap_or_default())
    }

    /// Keeps references to arrays that are about to be returned.
    pub(crate) fn keep<'a, 'py: 'a>(
        &self,
        arrays: impl IntoIterator<Item = &'a Bound<'py, PyUntypedArray>>,
    ) {
        let arrays = per_array(arrays.into_iter().map(|array| array.clone().unbind()));
        let mut kept = self.kept();
        // Concurrent calls may have kept more. Dropping an array may run any code, so the lock is
        // released first.
        let superfluous = if kept.len() < CALLS { None } else { kept.pop_front() };
        kept.push_back(arrays);
        drop(kept);
        drop(superfluous);
    }

    /// Drops all arrays.
    pub(crate) fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept());
        drop(kept);
    }
}

impl PooledArrays {
    /// Returns array `at` if it can be filled again, or else a new one.
    pub(crate) fn take_or_new<'py>(
        &mut self,
        at: usize,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<FreshArray<'py>> {
        let py = dtype.py();
        let spare = self.0.get_mut(at).and_then(Option::take);
        match spare.and_then(|spare| FreshArray::again(&spare.into_bound(py), dtype, shape)) {
            Some(array) => Ok(array),
            None => FreshArray::allocate(py, dtype, shape),
        }
    }
}
