//! Objects of Python that Rust calls back, with a state of their own: agents of a market, rewards
//! of an environment.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use crate::error::Failure;

/// First exception that a called object raised. The running call from Python raises it at its end.
#[derive(Clone, Default)]
pub(crate) struct FirstException(Arc<Mutex<Option<PyErr>>>);

impl FirstException {
    fn lock(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an exception, unless there is an earlier one.
    fn keep(&self, raised: PyErr) {
        self.lock().get_or_insert(raised);
    }

    /// Returns whether an exception is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.lock().is_some()
    }

    /// Drops the exception.
    pub(crate) fn forget(&self) {
        let _forgotten = self.lock().take();
    }

    /// Removes the exception, and returns it as an error if there is one.
    pub(crate) fn raise(&self) -> Result<(), Failure> {
        let raised = self.lock().take();
        raised.map_or(Ok(()), |raised| Err(raised.into()))
    }
}

/// A Python object that Rust calls back. A clone calls a deep copy of the object. If the copy
/// fails, the clone keeps the exception and shares the object.
pub(crate) struct CallbackObject {
    object: Py<PyAny>,
    raised: FirstException,
}

impl CallbackObject {
    pub(crate) fn new(object: Py<PyAny>, raised: &FirstException) -> Self {
        Self { object, raised: raised.clone() }
    }

    /// Returns whether this object or one that shares its exceptions raised.
    pub(crate) fn has_failed(&self) -> bool {
        self.raised.is_kept()
    }

    /// Calls the object. Keeps an exception that it raises, and returns `None` then.
    pub(crate) fn call<R>(
        &self,
        call: impl FnOnce(&Bound<'_, PyAny>) -> Result<R, Failure>,
    ) -> Option<R> {
        Python::attach(|py| match call(self.object.bind(py)) {
            Ok(answer) => Some(answer),
            Err(failure) => {
                self.raised.keep(failure.into());
                None
            }
        })
    }

    /// Calls the method `reset` of the object, if it has one.
    pub(crate) fn reset<A>(&self, arguments: A)
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        self.call(|object| {
            if let Some(reset) = object.getattr_opt(intern!(object.py(), "reset"))? {
                reset.call1(arguments)?;
            }
            Ok(())
        });
    }
}

impl fmt::Debug for CallbackObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackObject").finish_non_exhaustive()
    }
}

impl Clone for CallbackObject {
    fn clone(&self) -> Self {
        let copied = self.call(|object| {
            let copy = object.py().import("copy")?;
            Ok(copy.call_method1("deepcopy", (object,))?.unbind())
        });
        let shared = || Python::attach(|py| self.object.clone_ref(py));
        Self { object: copied.unwrap_or_else(shared), raised: self.raised.clone() }
    }
}
