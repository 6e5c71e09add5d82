//! Ends waits in Rust when a Python signal handler raises, and warns of long waits.

use std::cell::RefCell;

use backcast_core::{Interrupt, WaitReport};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::Failure;
use crate::warning::warn_as;

thread_local! {
    /// Failure that ended a wait of this thread, until the wait's error is converted.
    static FAILED: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Returns an interrupt that runs signal handlers, and raises a `WaitWarning` in a long wait. It
/// ends the wait if a handler raises, or if the warning is an error.
pub(crate) fn interrupt() -> Interrupt {
    interrupt_or(|_| Ok(()))
}

/// Returns an interrupt like [`interrupt`], which also ends waits when `check` fails.
pub(crate) fn interrupt_or(
    check: impl Fn(Python<'_>) -> Result<(), Failure> + Send + Sync + 'static,
) -> Interrupt {
    Interrupt::told(move |report| {
        // Reports of a lost name are ignored: `check` warns of it if the handle has a ring.
        let long = match report {
            Some(WaitReport::Long(text)) => Some(text),
            _ => None,
        };
        // There is no interpreter while it shuts down.
        let failed = Python::try_attach(|py| {
            listen(py, long).map_err(Failure::from).and_then(|()| check(py)).err()
        });
        let failed = failed.flatten();
        let ends = failed.is_some();
        FAILED.with_borrow_mut(|kept| *kept = failed);
        ends
    })
}

/// Raises a `WaitWarning` at the caller's line if there is a report, and runs signal handlers.
pub(crate) fn listen(py: Python<'_>, report: Option<&str>) -> PyResult<()> {
    if let Some(text) = report {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        warn_as(CLASS.import(py, "backcast.errors", "WaitWarning")?, text, 1)?;
    }
    py.check_signals()
}

/// Takes the failure that ended the last wait of this thread.
pub(super) fn take() -> Option<Failure> {
    FAILED.with_borrow_mut(Option::take)
}
