//! Handles of Python objects to Rust values: closable, shared by threads, void after a fork.

pub(crate) mod contention;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use backcast_core::{Interrupt, Ring};
pub(crate) use backcast_layout::forks;
use parking_lot::{Mutex, MutexGuard};

use crate::error::{ErrorClass, Failure, signals};
use crate::handle::contention::{Interruption, wait};
use crate::warning::warn_if_unlinked;

/// Value that its Python object may close. A forked child must neither use nor drop it, unless
/// [`of_any_process`](Self::of_any_process) made the handle.
#[derive(Debug)]
pub(crate) struct Handle<T> {
    /// An eventually fair lock, so that a thread that retries immediately starves no other.
    value: Mutex<Option<T>>,
    /// Advice in errors about a closed handle.
    reopen: &'static str,
    /// Number of forks when it was made; `None` for a value that a forked child may use and drop.
    forks: Option<u64>,
    closing: Closing,
}

/// Tells the waits of a handle's value that the handle is being closed.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    state: Arc<AtomicU8>,
    /// Name of the handle in errors, such as `ring 'pong'`.
    label: Arc<str>,
}

/// The handle is open.
const OPEN: u8 = 0;
/// The handle is being closed, or is closed: its value's waits end.
const CLOSING: u8 = 1;
/// The caller that closed the handle has its value, and may wait with it.
const TAKEN: u8 = 2;

impl Closing {
    /// Returns the state of a handle that is yet to be made.
    pub(crate) fn of(label: String) -> Self {
        Self { state: Arc::default(), label: label.into() }
    }

    /// Returns an interrupt that ends waits when a signal handler raises, and when the handle is
    /// closed.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let closing = self.clone();
        signals::interrupt_or(move |_| closing.check())
    }

    /// Returns an interrupt like [`interrupt`](Self::interrupt), which also warns once if `ring`
    /// has lost its name.
    pub(crate) fn interrupt_on(&self, ring: &Ring) -> Interrupt {
        let (closing, ring) = (self.clone(), ring.clone());
        signals::interrupt_or(move |py| {
            warn_if_unlinked(py, &ring)?;
            closing.check()
        })
    }

    /// Fails once the handle is being closed. After [`Handle::take`] it succeeds again, since the
    /// caller may wait with the value.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.state.load(Relaxed) != CLOSING {
            return Ok(());
        }
        let message = format!("{} was closed while this call waited; make another", self.label);
        Err(Failure::new(ErrorClass::Closed, message))
    }

    fn change(&self, from: u8, to: u8) {
        // Another close may have changed the state.
        let _ = self.state.compare_exchange(from, to, Relaxed, Relaxed);
    }
}

impl<T: Send> Handle<T> {
    pub(crate) fn new(label: String, reopen: &'static str, value: T) -> Self {
        Self::closed_by(Closing::of(label), reopen, value)
    }

    /// Returns the handle of a value whose waits were given `closing`.
    pub(crate) fn closed_by(closing: Closing, reopen: &'static str, value: T) -> Self {
        Self { value: Mutex::new(Some(value)), reopen, forks: Some(forks()), closing }
    }

    /// Returns the handle of a value in private memory. A forked child has a copy of the value.
    pub(crate) fn of_any_process(label: String, reopen: &'static str, value: T) -> Self {
        let closing = Closing::of(label);
        Self { value: Mutex::new(Some(value)), reopen, forks: None, closing }
    }

    /// Runs `work` on the value, exclusively. Call it detached if `work` copies or waits. A waiting
    /// thread releases the interpreter and listens to signals. If a signal handler raises, such as
    /// a `KeyboardInterrupt`, the call fails with that and `work` does not run.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.work(work, Interruption::Allowed)
    }

    /// Runs `work` like [`with`](Self::with), but no signal ends the wait.
    pub(crate) fn with_uninterrupted<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.work(work, Interruption::Deferred)
    }

    /// Runs `work` like [`with`](Self::with), unless `otherwise` has an answer while another thread
    /// uses the value.
    pub(crate) fn with_or<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
        mut otherwise: impl FnMut() -> Option<R> + Send,
    ) -> Result<R, Failure>
    where
        R: Send,
    {
        self.check_process()?;
        let try_for = |patience| {
            let known = || otherwise().map(Err);
            let now = self.value.try_lock().map(Ok).or_else(known);
            now.or_else(|| self.value.try_lock_for(patience).map(Ok))
        };
        match wait(try_for, Interruption::Allowed)? {
            Ok(value) => self.work_on(value, work),
            Err(known) => Ok(known),
        }
    }

    fn work<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
        signals: Interruption,
    ) -> Result<R, Failure> {
        self.check_process()?;
        self.work_on(self.acquire(signals)?, work)
    }

    fn work_on<R>(
        &self,
        mut value: MutexGuard<'_, Option<T>>,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        value.as_mut().map_or_else(|| Err(self.closed()), work)
    }

    /// Locks the value, waiting for the thread that uses it.
    fn acquire(&self, signals: Interruption) -> Result<MutexGuard<'_, Option<T>>, Failure> {
        let wait = || wait(|patience| self.value.try_lock_for(patience), signals);
        self.value.try_lock().map_or_else(wait, Ok)
    }

    #[cold]
    fn closed(&self) -> Failure {
        Failure::new(ErrorClass::Closed, format!("{} is closed; {}", self.label(), self.reopen))
    }

    /// Fails if the handle is closed or belongs to the parent process. Never waits.
    pub(crate) fn check_is_open(&self) -> Result<(), Failure> {
        self.check_process()?;
        if self.is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    /// Fails in a forked child, where the handle belongs to the parent.
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        if !self.is_forked() {
            return Ok(());
        }
        Err(Failure::new(
            ErrorClass::Base,
            format!(
                "{} belongs to the parent of this forked process; attach by name here (create it \
                 with a name if it has none), or start processes with the multiprocessing context \
                 \"spawn\"",
                self.label()
            ),
        ))
    }

    /// Runs `work` on the value if it is open, of this process and not in use. Returns `None`
    /// otherwise.
    #[inline]
    pub(crate) fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_forked() {
            return None;
        }
        self.value.try_lock()?.as_mut().map(work)
    }

    /// Drops the value. Does nothing if the handle is closed already, or in a forked child. A
    /// signal may end the wait, as in [`with`](Self::with).
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.taken(Interruption::Allowed).map(drop)
    }

    /// Takes the value out, which closes the handle. Returns `None` if it is closed already, or in
    /// a forked child. Waits as [`with`](Self::with) does. The close ends the waits of other
    /// threads. It does not end waits that the caller then begins with the value.
    pub(crate) fn take(&self) -> Result<Option<T>, Failure> {
        self.taken(Interruption::Allowed).map(|value| self.hand_over(value))
    }

    /// Takes the value out like [`take`](Self::take), but no signal ends the wait.
    pub(crate) fn take_uninterrupted(&self) -> Option<T> {
        let value = self.taken(Interruption::Deferred).ok().flatten();
        self.hand_over(value)
    }

    fn hand_over(&self, value: Option<T>) -> Option<T> {
        if value.is_some() {
            self.closing.change(CLOSING, TAKEN);
        }
        value
    }

    fn taken(&self, signals: Interruption) -> Result<Option<T>, Failure> {
        // A child must not touch the lock: a thread that the fork did not copy may have held it.
        if self.is_forked() {
            return Ok(None);
        }
        // Set before locking: a waiting call holds the lock, and this state ends its wait.
        self.closing.change(OPEN, CLOSING);
        let value = self.acquire(signals).inspect_err(|_| self.closing.change(CLOSING, OPEN));
        Ok(value?.take())
    }

    /// Returns whether the handle is closed. Never waits: a value that is in use counts as open.
    pub(crate) fn is_closed(&self) -> bool {
        self.value.try_lock().is_some_and(|value| value.is_none())
    }

    /// Returns the text of a `repr`: that of `describe` if the handle is open, of this process and
    /// not in use. Never waits.
    pub(crate) fn describe(&self, describe: impl FnOnce(&T) -> String) -> String {
        if self.is_forked() {
            return "of the parent process".to_owned();
        }
        let Some(value) = self.value.try_lock() else { return "busy".to_owned() };
        value.as_ref().map_or_else(|| "closed".to_owned(), describe)
    }

    /// Returns the object that tells waits that this handle is being closed.
    pub(crate) fn closing(&self) -> Closing {
        self.closing.clone()
    }

    pub(crate) fn label(&self) -> &str {
        &self.closing.label
    }

    fn is_forked(&self) -> bool {
        is_foreign(self.forks)
    }
}

/// Returns whether a handle that was made after `made_after` forks belongs to the parent process.
fn is_foreign(made_after: Option<u64>) -> bool {
    made_after.is_some_and(|made_after| made_after != forks())
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // A forked child shares the parent's open files and their kernel locks. Dropping the value
        // there would unlock, and perhaps remove, what the parent still uses.
        if is_foreign(self.forks) {
            mem::forget(self.value.get_mut().take());
        }
    }
}
