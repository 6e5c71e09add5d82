//! Waiting for one's turn with what another thread uses, so that Ctrl-C ends it.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::Failure;

/// The first sleep is without a look at the interpreter, which takes longer to come by than most
/// turns are long.
const FIRST: Duration = Duration::from_millis(1);
/// Between two looks at signals.
const SLICE: Duration = Duration::from_millis(20);

/// Whether a signal may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signals {
    /// What its Python handler raises does.
    Heard,
    /// It waits: for what must not be left half done.
    Unheard,
}

/// Those who wait while another thread uses a value.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    waiting: AtomicU32,
    /// How often the value was passed on while somebody waited.
    passed: Mutex<u64>,
    again: Condvar,
}

impl Turns {
    /// To be called when the value is free again. One load where nobody waits.
    #[inline]
    pub(crate) fn pass_on(&self) {
        // ORDERING: after the lock was released, as far as the processor has it so; one who begins to wait at
        // this very moment may be missed, and sleeps for a slice.
        if self.waiting.load(SeqCst) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed = passed.wrapping_add(1);
        self.again.notify_one();
    }

    /// Tries until the value is free. Sleeps meanwhile, and never with the interpreter, which whoever
    /// uses the value may need.
    #[cold]
    pub(crate) fn wait<T>(
        &self,
        mut try_now: impl FnMut() -> Option<T>,
        signals: Signals,
    ) -> Result<T, Failure> {
        let _waiting = Waiting::at(self);
        let mut first = true;
        loop {
            let before = self.count();
            if let Some(turn) = try_now() {
                return Ok(turn);
            }
            if std::mem::take(&mut first) {
                self.sleep(before, FIRST);
                continue;
            }
            let slept = Python::try_attach(|py| {
                if signals == Signals::Heard {
                    py.check_signals()?;
                }
                py.detach(|| self.sleep(before, SLICE));
                Ok(())
            });
            match slept {
                Some(heard) => heard.map_err(Failure::Python)?,
                // The interpreter is going.
                None => self.sleep(before, SLICE),
            }
        }
    }

    fn count(&self) -> u64 {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the value is passed on, for so long at most.
    fn sleep(&self, before: u64, most: Duration) {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.again.wait_timeout_while(passed, most, |passed| *passed == before);
    }
}

/// One who waits.
struct Waiting<'a>(&'a Turns);

impl<'a> Waiting<'a> {
    fn at(turns: &'a Turns) -> Self {
        turns.waiting.fetch_add(1, SeqCst);
        Self(turns)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}
