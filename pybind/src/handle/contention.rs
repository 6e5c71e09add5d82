//! Contention backoff: waiting for a value that another thread uses, interruptible by Ctrl-C.

use std::time::Duration;

use backcast_core::{Interrupt, Wait};
use pyo3::prelude::*;

use crate::error::{Failure, signals};

/// Duration of the first attempt, which does not attach to the interpreter. Attaching takes about
/// as long, and the thread that has the value may need the interpreter.
const FIRST_TRY: Duration = Duration::from_millis(1);
/// Maximum duration of each further attempt.
const LATER_TRY: Duration = Duration::from_millis(20);

/// Whether a signal may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// An exception of its Python handler ends the wait.
    Allowed,
    /// Signals wait, so that an operation is not left half done.
    Deferred,
}

/// Calls `try_for` until it succeeds. After the first attempt, releases the interpreter, and checks
/// for signals between attempts if `signals` allows an interruption.
#[cold]
pub(crate) fn wait<T: Send>(
    mut try_for: impl FnMut(Duration) -> Option<T> + Send,
    signals: Interruption,
) -> Result<T, Failure> {
    if let Some(value) = try_for(FIRST_TRY) {
        return Ok(value);
    }
    let interrupt = match signals {
        Interruption::Allowed => signals::interrupt(),
        Interruption::Deferred => Interrupt::never(),
    };
    let mut acquire = || {
        // This wait is not reported: the thread that has the value reports its own wait.
        let mut wait = Wait::new(None, &interrupt).report_after(Duration::MAX);
        loop {
            let time = wait.check(LATER_TRY, String::new);
            let time = time.map_err(|_| Failure::interrupted("a wait was interrupted"))?;
            if let Some(value) = try_for(time) {
                return Ok(value);
            }
        }
    };
    let acquired = Python::try_attach(|py| py.detach(&mut acquire));
    // Attaching fails while the interpreter shuts down.
    acquired.unwrap_or_else(acquire)
}
