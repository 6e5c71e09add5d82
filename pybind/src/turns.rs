//! Waiting for one's turn with what another thread uses, so that Ctrl-C ends it.

use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::Failure;

/// First nap between two tries.
const SHORTEST: Duration = Duration::from_micros(20);
/// Longest one, which is also how long Ctrl-C may take.
const LONGEST: Duration = Duration::from_millis(20);
/// Shorter naps are taken without a look at the interpreter, which takes about as long to come by.
const WORTH_A_LOOK: Duration = Duration::from_millis(1);

/// Whether a signal may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signals {
    /// What its Python handler raises does.
    Heard,
    /// It waits: for what must not be left half done.
    Unheard,
}

/// Tries until there is something, and naps in between for a quarter of what it has waited: a wake-up
/// would cost those a look who never have anybody wait for them. Long naps are without the
/// interpreter, which whoever is waited for may need.
#[cold]
pub(crate) fn wait<T>(
    mut try_now: impl FnMut() -> Option<T>,
    signals: Signals,
) -> Result<T, Failure> {
    let since = Instant::now();
    loop {
        if let Some(turn) = try_now() {
            return Ok(turn);
        }
        let nap = (since.elapsed() / 4).clamp(SHORTEST, LONGEST);
        if nap < WORTH_A_LOOK {
            thread::sleep(nap);
            continue;
        }
        let slept = Python::try_attach(|py| {
            if signals == Signals::Heard {
                py.check_signals()?;
            }
            py.detach(|| thread::sleep(nap));
            Ok(())
        });
        match slept {
            Some(heard) => heard.map_err(Failure::Python)?,
            // The interpreter is going.
            None => thread::sleep(nap),
        }
    }
}
