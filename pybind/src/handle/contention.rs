//! Contention backoff: waiting for a value that another thread uses, interruptible by Ctrl-C.

use std::time::Duration;

use pyo3::prelude::*;

use crate::error::Failure;

/// Duration of the first attempt, which does not attach to the interpreter. Attaching takes about
/// as long, and the thread that has the value may need the interpreter.
const FIRST_TRY: Duration = Duration::from_millis(1);
/// Duration of each further attempt, and so the longest delay of a Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

/// Whether a signal may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// An exception of its Python handler ends the wait.
    Allowed,
    /// Signals wait, so that an operation is not left half done.
    Deferred,
}

/// Calls `try_for` until it succeeds. Further attempts release the interpreter, and check for
/// signals between them.
#[cold]
pub(crate) fn wait<T: Send>(
    mut try_for: impl FnMut(Duration) -> Option<T> + Send,
    signals: Interruption,
) -> Result<T, Failure> {
    let mut value = try_for(FIRST_TRY);
    loop {
        if let Some(value) = value {
            return Ok(value);
        }
        let attempt = Python::try_attach(|py| {
            if signals == Interruption::Allowed {
                py.check_signals()?;
            }
            Ok(py.detach(|| try_for(SIGNAL_INTERVAL)))
        });
        // There is no interpreter while it shuts down.
        value = attempt.unwrap_or_else(|| Ok(try_for(SIGNAL_INTERVAL))).map_err(Failure::Python)?;
    }
}
