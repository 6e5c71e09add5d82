//! Reports the progress of long calls to a callback, and lets Ctrl-C end them.

use std::ops::ControlFlow;

use backcast_files::Progress;
use pyo3::prelude::*;

use crate::argument::wrong_type;
use crate::error::Failure;

/// Checks signals and calls the caller's callback, until one of them raises.
pub(crate) struct ProgressReporter {
    callback: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl ProgressReporter {
    /// Reads the `progress` argument.
    pub(crate) fn new(progress: Option<&Bound<'_, PyAny>>) -> Result<Self, Failure> {
        if let Some(other) = progress.filter(|progress| !progress.is_callable()) {
            let wanted = "a function of two ints, bytes done and bytes in all";
            return Err(wrong_type(other, "progress", wanted));
        }
        Ok(Self { callback: progress.map(|progress| progress.clone().unbind()), raised: None })
    }

    /// Reports progress. Detached work calls it regularly, and ends on `Break`.
    pub(crate) fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.raised = Python::attach(|py| {
            py.check_signals()?;
            // The total is 0 while the work waits to begin.
            if let Some(callback) = self.callback.as_ref().filter(|_| progress.total_bytes > 0) {
                callback.bind(py).call1((progress.bytes, progress.total_bytes))?;
            }
            Ok(())
        })
        .err();
        if self.raised.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the result of the work, unless an exception ended it.
    pub(crate) fn finish<T, E: Into<Failure>>(self, result: Result<T, E>) -> Result<T, Failure> {
        match self.raised {
            Some(raised) => Err(raised.into()),
            None => result.map_err(Into::into),
        }
    }
}
