//! Arrays that calls hand out, filled again by later calls once nobody else has them.

use std::array;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;

use crate::view::FreshArray;

/// Arrays of one call, at most: no call needs memory to speak of them.
pub(crate) const MOST: usize = 9;

/// As many of anything as a call has arrays.
pub(crate) type Few<V> = [Option<V>; MOST];

pub(crate) fn few<V>(values: impl IntoIterator<Item = V>) -> Few<V> {
    let mut values = values.into_iter();
    array::from_fn(|_| values.next())
}

/// Calls whose arrays are kept: while one is on its way, its caller still has those of the one before.
const CALLS: usize = 2;

/// The arrays that the last calls handed out, all in one order of dtypes and shapes.
#[derive(Default)]
pub(crate) struct Spares(Mutex<VecDeque<Few<Py<PyUntypedArray>>>>);

/// Arrays of one call that perhaps nobody has any more; none by default.
#[derive(Default)]
pub(crate) struct Spare(Few<Py<PyUntypedArray>>);

impl Spares {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Few<Py<PyUntypedArray>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of the call that is longest ago.
    pub(crate) fn take(&self) -> Spare {
        let mut kept = self.kept();
        let oldest = if kept.len() < CALLS { None } else { kept.pop_front() };
        Spare(oldest.unwrap_or_default())
    }

    /// Keep what is about to be handed out.
    pub(crate) fn keep<'a, 'py: 'a>(
        &self,
        arrays: impl IntoIterator<Item = &'a Bound<'py, PyUntypedArray>>,
    ) {
        let arrays = few(arrays.into_iter().map(|array| array.clone().unbind()));
        let mut kept = self.kept();
        // Threads that call at once leave more. What dies runs code of others, which must not find a lock.
        let superfluous = if kept.len() < CALLS { None } else { kept.pop_front() };
        kept.push_back(arrays);
        drop(kept);
        drop(superfluous);
    }

    /// Let go of all.
    pub(crate) fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept());
        drop(kept);
    }
}

impl Spare {
    /// Array `at` of those, if nobody else has it, or one that is new.
    pub(crate) fn or_new<'py>(
        &mut self,
        at: usize,
        dtype: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<FreshArray<'py>> {
        let py = dtype.py();
        let spare = self.0.get_mut(at).and_then(Option::take);
        match spare.and_then(|spare| FreshArray::again(&spare.into_bound(py), dtype, shape)) {
            Some(array) => Ok(array),
            None => FreshArray::for_filling(py, dtype, shape),
        }
    }
}
