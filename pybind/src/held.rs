//! A lease as Python holds it, which tells its holder once that it made writers wait, drop or fail.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use backcast_core::{Lease, Ring};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyType};

use crate::error::let_go;
use crate::handle::forks;

/// All that were granted and may live. Locked with the interpreter held, and by nobody who lets go of it
/// meanwhile: so no fork finds it locked.
static GRANTED: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

/// A lease that tells: when it is closed, else when the last of it is let go of, else when the
/// interpreter ends.
#[derive(Debug)]
pub(crate) struct Held {
    // Before the farewell: when that is said, writers go on already.
    lease: Lease,
    farewell: Farewell,
    label: String,
    told: AtomicBool,
    forks: u64,
}

/// What is said of a lease once it has ended.
#[derive(Debug)]
struct Farewell(Option<String>);

impl Held {
    pub(crate) fn new(label: String, lease: Lease) -> Arc<Self> {
        let (farewell, told) = (Farewell(None), AtomicBool::new(false));
        let held = Arc::new(Self { lease, farewell, label, told, forks: forks() });
        let mut granted = GRANTED.lock().unwrap_or_else(PoisonError::into_inner);
        granted.retain(|held| held.strong_count() > 0);
        granted.push(Arc::downgrade(&held));
        held
    }

    /// What there is to warn of, once.
    pub(crate) fn news(&self) -> Option<String> {
        let stalls = self.lease.stalls();
        // A copy in a forked child says nothing: its parent does.
        // ORDERING: relaxed; a flag beside no data.
        if stalls == 0 || self.forks != forks() || self.told.swap(true, Relaxed) {
            return None;
        }
        Some(format!(
            "{} made writers wait, drop rows or fail {stalls} times; lease fewer or newer rows, \
             let go of them sooner, or copy them with rows()",
            self.label
        ))
    }
}

impl Deref for Held {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.farewell.0 = self.news();
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(message) = self.0.take() {
            let_go(|py| warn_or_show(py, &message));
        }
    }
}

/// Have the interpreter, when it ends, tell of leases that nobody let go of until then.
pub(crate) fn tell_at_exit(py: Python<'_>) -> PyResult<()> {
    let tell = PyCFunction::new_closure(py, None, None, |arguments, _| {
        let granted = GRANTED.lock().unwrap_or_else(PoisonError::into_inner);
        let living: Vec<_> = granted.iter().filter_map(Weak::upgrade).collect();
        // Filters and handlers of warnings are Python code, which may lease rows.
        drop(granted);
        for message in living.iter().filter_map(|held| held.news()) {
            warn_or_show(arguments.py(), &message);
        }
    })?;
    py.import("atexit")?.call_method1("register", (tell,))?;
    Ok(())
}

/// A `LeaseWarning` where nobody can catch an exception: one that is made of it is shown.
fn warn_or_show(py: Python<'_>, message: &str) {
    if let Err(raised) = warn(py, message) {
        raised.write_unraisable(py, None);
    }
}

/// A `LeaseWarning` at the caller's line.
pub(crate) fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    warn_as(CLASS.import(py, "backcast._errors", "LeaseWarning")?, message)
}

/// An `UnlinkedWarning` at the caller's line, if a ring was found to have lost its name and the caller
/// was not told yet.
pub(crate) fn warn_if_unlinked(py: Python<'_>, ring: &Ring) -> PyResult<()> {
    if ring.take_unlinked() { warn_unlinked(py, ring) } else { Ok(()) }
}

/// An `UnlinkedWarning` at the caller's line.
#[cold]
pub(crate) fn warn_unlinked(py: Python<'_>, ring: &Ring) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let name = ring.name().unwrap_or_default();
    let message = format!(
        "ring '{name}' was removed or replaced while this process uses it: whoever attaches by name now \
         does not see the rows of this one; attach again to go on with what has the name, or attach with \
         on_unlinked=\"error\" to be stopped here"
    );
    warn_as(CLASS.import(py, "backcast._errors", "UnlinkedWarning")?, &message)
}

fn warn_as(class: &Bound<'_, PyType>, message: &str) -> PyResult<()> {
    let message = std::ffi::CString::new(message)?;
    PyErr::warn(class.py(), class.as_any(), &message, 1)
}
