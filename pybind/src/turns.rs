//! Waiting for one's turn with what another thread uses, so that Ctrl-C ends it.

use std::time::Duration;

use pyo3::prelude::*;

use crate::error::Failure;

/// So long it is waited without a look at the interpreter, which takes about as long to come by, and which
/// whoever is waited for may need.
const UNSEEN: Duration = Duration::from_millis(1);
/// So long between two looks, which is also how long Ctrl-C may take.
const UNHEARD: Duration = Duration::from_millis(20);

/// Whether a signal may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signals {
    /// What its Python handler raises does.
    Heard,
    /// It waits: for what must not be left half done.
    Unheard,
}

/// Tries until there is something, each time for so long; all but the first time without the interpreter.
#[cold]
pub(crate) fn wait<T: Send>(
    mut try_for: impl FnMut(Duration) -> Option<T> + Send,
    signals: Signals,
) -> Result<T, Failure> {
    let mut turn = try_for(UNSEEN);
    loop {
        if let Some(turn) = turn {
            return Ok(turn);
        }
        let looked = Python::try_attach(|py| {
            if signals == Signals::Heard {
                py.check_signals()?;
            }
            Ok(py.detach(|| try_for(UNHEARD)))
        });
        // Without one the interpreter is going.
        turn = looked.unwrap_or_else(|| Ok(try_for(UNHEARD))).map_err(Failure::Python)?;
    }
}
