//! Lease as Python holds it. Warns its holder once if it made writers wait, drop rows or fail.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use backcast_core::Lease;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;

use crate::error::on_drop;
use crate::handle::forks;
use crate::warning::warn;

/// Leases that may be alive. Locked only with the interpreter held and kept, so that no fork finds
/// it locked.
static LIVE_LEASES: Mutex<Vec<Weak<TrackedLease>>> = Mutex::new(Vec::new());

/// Lease that warns at most once, if it blocked writers: when it is closed, when its last reference
/// is dropped, or at interpreter exit.
#[derive(Debug)]
pub(crate) struct TrackedLease {
    // Dropped before `final_warning`, so that writers continue before the warning runs Python code.
    lease: Lease,
    final_warning: FinalWarning,
    label: String,
    warned: AtomicBool,
    forks: u64,
}

/// Text of a warning, which is raised when this is dropped.
#[derive(Debug)]
struct FinalWarning(Option<String>);

impl TrackedLease {
    pub(crate) fn new(label: String, lease: Lease) -> Arc<Self> {
        let (final_warning, warned) = (FinalWarning(None), AtomicBool::new(false));
        let held = Arc::new(Self { lease, final_warning, label, warned, forks: forks() });
        let mut granted = LIVE_LEASES.lock().unwrap_or_else(PoisonError::into_inner);
        granted.retain(|held| held.strong_count() > 0);
        granted.push(Arc::downgrade(&held));
        held
    }

    /// Returns the text of the warning if writers were blocked. Returns `None` if it was returned
    /// before, and in a forked child.
    pub(crate) fn take_warning(&self) -> Option<String> {
        // A forked child stays silent, because its parent warns.
        let stalls = if self.forks == forks() { self.lease.stalls() } else { 0 };
        // ORDERING: relaxed; the flag guards no other data.
        if stalls == 0 || self.warned.swap(true, Relaxed) {
            return None;
        }
        Some(format!(
            "{} made writers wait, drop rows or fail {stalls} times; lease fewer or newer rows, \
             release them sooner, or copy them with rows()",
            self.label
        ))
    }
}

impl Deref for TrackedLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for TrackedLease {
    fn drop(&mut self) {
        self.final_warning.0 = self.take_warning();
    }
}

impl Drop for FinalWarning {
    fn drop(&mut self) {
        if let Some(message) = self.0.take() {
            on_drop(|py| warn_or_show(py, &message));
        }
    }
}

/// Registers a function that warns of the leases that are still alive at interpreter exit.
pub(crate) fn warn_at_exit(py: Python<'_>) -> PyResult<()> {
    let tell = PyCFunction::new_closure(py, None, None, |arguments, _| {
        let granted = LIVE_LEASES.lock().unwrap_or_else(PoisonError::into_inner);
        let living: Vec<_> = granted.iter().filter_map(Weak::upgrade).collect();
        // A warning may run Python code (`warnings.showwarning`), which may lease rows.
        drop(granted);
        for message in living.iter().filter_map(|held| held.take_warning()) {
            warn_or_show(arguments.py(), &message);
        }
    })?;
    py.import("atexit")?.call_method1("register", (tell,))?;
    Ok(())
}

/// Raises a `LeaseWarning` where no exception can be raised. Prints the error if warnings are
/// errors.
fn warn_or_show(py: Python<'_>, message: &str) {
    if let Err(raised) = warn(py, message) {
        raised.write_unraisable(py, None);
    }
}
