//! What a Python object holds of the Rust side: closable, shared by threads, void after a fork.

use std::mem;

pub(crate) use backcast_layout::forks;
use parking_lot::{Mutex, MutexGuard};

use crate::error::{Failure, Kind};
use crate::turns::{Signals, wait};

/// A value that its Python object may close, and that a forked child must neither use nor drop.
#[derive(Debug)]
pub(crate) struct Handle<T> {
    /// Handed on, from time to time, to who has waited longest: a thread that asks again at once starves
    /// nobody.
    value: Mutex<Option<T>>,
    /// What to call it in errors: "ring pong".
    label: String,
    /// How to have another one, for errors about a closed one.
    again: &'static str,
    forks: u64,
}

impl<T: Send> Handle<T> {
    pub(crate) fn new(label: String, again: &'static str, value: T) -> Self {
        Self { value: Mutex::new(Some(value)), label, again, forks: forks() }
    }

    /// Run `work` on the value, alone. To be called detached where `work` copies or waits. A thread that
    /// waits for its turn lets go of the interpreter and listens to signals: what a handler raises, such
    /// as the `KeyboardInterrupt` of a Ctrl-C, is the failure then, and nothing was done.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.work(work, Signals::Heard)
    }

    /// The same for what must not be left half done: no signal ends the wait.
    pub(crate) fn with_surely<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.work(work, Signals::Unheard)
    }

    /// As [`with`](Self::with), unless `otherwise` knows the answer while another thread uses the value.
    pub(crate) fn with_or<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
        mut otherwise: impl FnMut() -> Option<R> + Send,
    ) -> Result<R, Failure>
    where
        R: Send,
    {
        self.check_is_ours()?;
        let try_for = |patience| {
            let known = || otherwise().map(Err);
            let now = self.value.try_lock().map(Ok).or_else(known);
            now.or_else(|| self.value.try_lock_for(patience).map(Ok))
        };
        match wait(try_for, Signals::Heard)? {
            Ok(value) => self.work_on(value, work),
            Err(known) => Ok(known),
        }
    }

    fn work<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
        signals: Signals,
    ) -> Result<R, Failure> {
        self.check_is_ours()?;
        self.work_on(self.turn(signals)?, work)
    }

    fn work_on<R>(
        &self,
        mut value: MutexGuard<'_, Option<T>>,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        value.as_mut().map_or_else(|| Err(self.closed()), work)
    }

    /// The value when it is nobody else's.
    fn turn(&self, signals: Signals) -> Result<MutexGuard<'_, Option<T>>, Failure> {
        let wait = || wait(|patience| self.value.try_lock_for(patience), signals);
        self.value.try_lock().map_or_else(wait, Ok)
    }

    #[cold]
    fn closed(&self) -> Failure {
        Failure::new(Kind::Closed, format!("{} is closed; {}", self.label, self.again))
    }

    /// Refuses what is asked of a closed handle or of the parent's. Never waits: for what is known
    /// without the value.
    pub(crate) fn check_is_open(&self) -> Result<(), Failure> {
        self.check_is_ours()?;
        if self.is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    /// Refuses what a forked child asks of its parent's handle.
    pub(crate) fn check_is_ours(&self) -> Result<(), Failure> {
        if !self.is_foreign() {
            return Ok(());
        }
        Err(Failure::new(
            Kind::Base,
            format!(
                "{} belongs to the parent of this forked process; attach by name here, or start processes with the \
                 multiprocessing context \"spawn\"",
                self.label
            ),
        ))
    }

    /// Run `work` on the value if that is possible at once: it is there, ours, and nobody uses it.
    #[inline]
    pub(crate) fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_foreign() {
            return None;
        }
        self.value.try_lock()?.as_mut().map(work)
    }

    /// Let go of the value. The second time does nothing, and so does a forked child. A signal may end the
    /// wait for who uses it, as in [`with`](Self::with).
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.take().map(drop)
    }

    /// Take the value out, which closes the handle; `None` in a forked child. Waits as
    /// [`with`](Self::with) does.
    pub(crate) fn take(&self) -> Result<Option<T>, Failure> {
        self.taken(Signals::Heard)
    }

    /// The same, and no signal ends the wait.
    pub(crate) fn take_surely(&self) -> Option<T> {
        self.taken(Signals::Unheard).ok().flatten()
    }

    fn taken(&self, signals: Signals) -> Result<Option<T>, Failure> {
        // In a child not even asked, because a thread that the fork did not take along may have
        // held the lock.
        if self.is_foreign() {
            return Ok(None);
        }
        Ok(self.turn(signals)?.take())
    }

    /// Whether the value was let go of. Never waits: a value in use is there.
    pub(crate) fn is_closed(&self) -> bool {
        self.value.try_lock().is_some_and(|value| value.is_none())
    }

    /// What a `repr` says of the value, by `describe` where it can be looked at. Never waits.
    pub(crate) fn describe(&self, describe: impl FnOnce(&T) -> String) -> String {
        if self.is_foreign() {
            return "of the parent process".to_owned();
        }
        let Some(value) = self.value.try_lock() else { return "busy".to_owned() };
        value.as_ref().map_or_else(|| "closed".to_owned(), describe)
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    fn is_foreign(&self) -> bool {
        self.forks != forks()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // The kernel's locks belong to the parent's open files, which a forked child shares:
        // dropping the value there would unlock, and perhaps remove, what the parent still uses.
        if self.forks != forks() {
            mem::forget(self.value.get_mut().take());
        }
    }
}
