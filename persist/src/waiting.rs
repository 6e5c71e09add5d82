//! Decides when a wait of an operation ends: when the progress callback stops the operation, or the
//! follower is told to end.

use std::cell::{Cell, RefCell};

use backcast_files::{OnProgress, Progress};

/// Conditions that end the waits of one operation.
pub(crate) struct Stops<'a, 'p> {
    progress: RefCell<Option<&'a mut OnProgress<'p>>>,
    /// Returns whether waits are to end although the caller has not cancelled the operation.
    hurry: Option<&'a (dyn Fn() -> bool + Sync)>,
    cancelled: Cell<bool>,
}

impl<'a, 'p> Stops<'a, 'p> {
    pub(crate) fn new(progress: Option<&'a mut OnProgress<'p>>) -> Self {
        Self { progress: RefCell::new(progress), hurry: None, cancelled: Cell::new(false) }
    }

    pub(crate) fn hurry(mut self, hurry: Option<&'a (dyn Fn() -> bool + Sync)>) -> Self {
        self.hurry = hurry;
        self
    }

    /// Returns whether to end a wait.
    pub(crate) fn ask(&self) -> bool {
        // The total of 0 tells that the operation waits.
        let idle = Progress::default();
        let mut progress = self.progress.borrow_mut();
        if progress.as_mut().is_some_and(|progress| progress(&idle).is_break()) {
            self.cancelled.set(true);
        }
        self.cancelled.get() || self.hurry.is_some_and(|hurry| hurry())
    }

    /// Returns whether the caller has stopped the operation.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }
}
