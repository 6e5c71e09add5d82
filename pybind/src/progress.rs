//! Long work with the interpreter released: Ctrl-C ends it, and a callback hears how far it is.

use std::ops::ControlFlow;

use backcast_files::Progress;
use pyo3::prelude::*;

use crate::error::Failure;
use crate::given::of_another_type;

/// Looks after signals and tells the caller's callback, until one of them raises.
pub(crate) struct Watch {
    callback: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Watch {
    /// With the `progress` argument.
    pub(crate) fn new(progress: Option<&Bound<'_, PyAny>>) -> Result<Self, Failure> {
        if let Some(other) = progress.filter(|progress| !progress.is_callable()) {
            let wanted = "a function of two ints, bytes done and bytes in all";
            return Err(of_another_type(other, "progress", wanted));
        }
        Ok(Self { callback: progress.map(|progress| progress.clone().unbind()), raised: None })
    }

    /// To be called now and then by work that holds no interpreter.
    pub(crate) fn step(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.raised = Python::attach(|py| {
            py.check_signals()?;
            // Work that waits for its turn has not begun.
            if let Some(callback) = self.callback.as_ref().filter(|_| progress.total_bytes > 0) {
                callback.bind(py).call1((progress.bytes, progress.total_bytes))?;
            }
            Ok(())
        })
        .err();
        if self.raised.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// What the work came to, unless it ended because something was raised.
    pub(crate) fn done<T, E: Into<Failure>>(self, result: Result<T, E>) -> Result<T, Failure> {
        match self.raised {
            Some(raised) => Err(raised.into()),
            None => result.map_err(Into::into),
        }
    }
}
