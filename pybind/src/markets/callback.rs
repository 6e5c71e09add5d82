//! Objects of Python that Rust calls back, with a state of their own: agents of a market, rewards
//! of an environment.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::error::{ErrorClass, Failure};
use crate::markets::calling_handle::within_call;

/// First exception that a called object raised. The running call from Python raises it at its end.
#[derive(Clone, Default)]
pub(crate) struct FirstException(Arc<Mutex<Option<PyErr>>>);

thread_local! {
    /// Place for exceptions of the owner that this thread copies, and that of its copy.
    static COPYING: RefCell<Option<(FirstException, FirstException)>> =
        const { RefCell::new(None) };
}

impl FirstException {
    /// Runs `copy`, which clones the owner of this place on this thread. Returns its result and the
    /// place to which the cloned objects report.
    pub(crate) fn separated<R>(&self, copy: impl FnOnce() -> R) -> (R, Self) {
        let own = Self::default();
        let outer = COPYING.replace(Some((self.clone(), own.clone())));
        let copied = copy();
        COPYING.set(outer);
        (copied, own)
    }

    /// Returns the place to which the clone of an object that reports here reports.
    fn of_clone(&self) -> Self {
        COPYING.with_borrow(|copying| match copying {
            Some((owner, copy)) if Arc::ptr_eq(&owner.0, &self.0) => copy.clone(),
            _ => self.clone(),
        })
    }

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
/// fails, the clone keeps the exception and shares the object. `clone_from` replaces the object
/// alone: exceptions still go to the same place.
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
        Python::attach(|py| match within_call(|| call(self.object.bind(py))) {
            Ok(answer) => Some(answer),
            Err(failure) => {
                self.raised.keep(failure.into());
                None
            }
        })
    }

    /// Replaces the object by a deep copy of `original`. If the copy fails, keeps the exception and
    /// the object.
    pub(crate) fn restore(&mut self, original: &Py<PyAny>) {
        let copied = self.call(|object| deep_copy(original.bind(object.py())));
        if let Some(copied) = copied {
            self.object = copied;
        }
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
        let object = Python::attach(|py| self.object.clone_ref(py));
        let mut copy = Self { object, raised: self.raised.of_clone() };
        copy.restore(&self.object);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        self.restore(&source.object);
    }
}

#[pyfunction]
pub(crate) fn _deep_copy(object: &Bound<'_, PyAny>) -> Result<Py<PyAny>, Failure> {
    deep_copy(object)
}

/// Copies an agent or a reward. Refuses what Python cannot copy, and names its class.
fn deep_copy(object: &Bound<'_, PyAny>) -> Result<Py<PyAny>, Failure> {
    let py = object.py();
    let copied = py.import(intern!(py, "copy"))?.call_method1(intern!(py, "deepcopy"), (object,));
    match copied {
        Ok(copy) => Ok(copy.unbind()),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            let (class, error) = (object.get_type().qualname()?, error.value(py));
            let message = format!(
                "each market has a copy of every agent and reward, and a {class} cannot be copied: \
                 {error}; let it keep numbers and arrays, or give it a `__deepcopy__`"
            );
            Err(Failure::new(ErrorClass::ArgumentType, message))
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a step of an environment whose market is void, since an agent of the user raised in it.
pub(crate) fn refuse_void(failed: bool) -> Result<(), Failure> {
    if failed {
        let message = "an agent of yours raised an exception in an earlier call, after which none \
                       of them acted; reset the environment first, all of it";
        return Err(Failure::new(ErrorClass::Env, message));
    }
    Ok(())
}
