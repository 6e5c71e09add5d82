//! Waits of a draw on behalf of an iterator: their reports, and the pause after which the caller of
//! the iterator gets its turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::wait::{Interrupt, WaitReport};

/// Reports of waits, on their way to the caller of the iterator.
#[derive(Debug, Default)]
pub(super) struct PendingReport {
    long: Mutex<Option<String>>,
    unlinked: Mutex<Option<String>>,
}

impl PendingReport {
    /// Keeps the report that a wait gives its interrupt, if it gives one.
    pub(super) fn put(&self, report: Option<WaitReport<'_>>) {
        match report {
            Some(WaitReport::Long(text)) => *locked(&self.long) = Some(text.to_owned()),
            Some(WaitReport::Unlinked(text)) => *locked(&self.unlinked) = Some(text.to_owned()),
            None => {}
        }
    }

    /// Returns whether there is a report of a long wait that was not taken.
    pub(super) fn is_some(&self) -> bool {
        locked(&self.long).is_some()
    }

    /// Returns the report of a long wait, once.
    pub(super) fn take(&self) -> Option<String> {
        locked(&self.long).take()
    }

    /// Returns the report of a lost name, once.
    pub(super) fn take_unlinked(&self) -> Option<String> {
        locked(&self.unlinked).take()
    }
}

/// Interrupt of draws without a thread, which pause for their caller.
#[derive(Debug)]
pub(super) struct Pause {
    /// Time of the pause; `None` before the first one is set.
    at: Arc<Mutex<Option<Instant>>>,
    interrupt: Interrupt,
}

impl Pause {
    /// Makes an interrupt that puts the reports of waits into `pending`.
    pub(super) fn of(pending: &Arc<PendingReport>) -> Self {
        let (at, pending) = (Arc::<Mutex<Option<Instant>>>::default(), Arc::clone(pending));
        let then = Arc::clone(&at);
        let interrupt = Interrupt::told(move |report| {
            pending.put(report);
            locked(&then).is_some_and(|then| Instant::now() >= then)
        });
        Self { at, interrupt }
    }

    /// Returns the interrupt of a draw that pauses at `at`.
    pub(super) fn at(&self, at: Instant) -> Interrupt {
        *locked(&self.at) = Some(at);
        self.interrupt.clone()
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
