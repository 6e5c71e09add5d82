//! Interrupts of an append or a draw that waits: signals, warnings that became errors, a close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use backcast_core::LongWait;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::error::{ErrorClass, Failure};
use crate::warning::warn_as;

/// Interrupts of one call that may wait for the rate limiter or a lease.
pub(crate) struct Interrupts<'a> {
    /// Report of a wait for the rate limiter that takes long.
    long: Option<Arc<LongWait>>,
    /// Set by a thread that closes the handle meanwhile.
    closing: &'a AtomicBool,
    raised: Option<PyErr>,
    closed: bool,
}

impl<'a> Interrupts<'a> {
    pub(crate) fn new(long: Option<Arc<LongWait>>, closing: &'a AtomicBool) -> Self {
        Self { long, closing, raised: None, closed: false }
    }

    /// Returns whether to end the wait. Called with the interpreter released.
    pub(crate) fn ask(&mut self) -> bool {
        let text = self.long.as_ref().and_then(|long| long.take());
        self.raised = Python::attach(|py| {
            let warned = text.map_or(Ok(()), |text| warn_long(py, &text));
            warned.and_then(|()| py.check_signals()).err()
        });
        self.closed = self.closing.load(Relaxed);
        self.closed || self.raised.is_some()
    }

    /// Returns the interrupt that ended the wait as an error, if there was one.
    pub(crate) fn finish(self, label: &str) -> Result<(), Failure> {
        match self.raised {
            Some(raised) => Err(raised.into()),
            None if self.closed => Err(Failure::new(
                ErrorClass::Closed,
                format!("{label} was closed while this call waited; make another"),
            )),
            None => Ok(()),
        }
    }
}

/// Raises a `RateLimitWarning` at the caller's line.
pub(crate) fn warn_long(py: Python<'_>, message: &str) -> PyResult<()> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "backcast._errors", "RateLimitWarning")?;
    warn_as(class, message, 1)
}
