//! Handles of values that call Python objects, which must not call the handle back.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

thread_local! {
    /// Number of calls of Python objects that this thread is in.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Runs a call of a Python object, during which this thread may not use the value that called it.
pub(crate) fn within_call<R>(call: impl FnOnce() -> R) -> R {
    struct Call;
    impl Drop for Call {
        fn drop(&mut self) {
            CALLS.set(CALLS.get() - 1);
        }
    }
    CALLS.set(CALLS.get() + 1);
    let _call = Call;
    call()
}

/// Handle of a value that calls Python objects. A call from within such a call is an error, where a
/// plain handle would wait for itself.
pub(crate) struct CallingHandle<T> {
    handle: Handle<T>,
    busy: AtomicBool,
}

impl<T: Send> CallingHandle<T> {
    /// Returns the handle of an environment in private memory.
    pub(crate) fn of_environment(value: T) -> Self {
        let label = "the trading environment".to_owned();
        let handle = Handle::of_any_process(label, "make a new one", value);
        Self { handle, busy: AtomicBool::new(false) }
    }

    /// Runs `work` on the value: see [`Handle::with`].
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.refuse_calls()?;
        self.handle.with(|value| {
            self.busy.store(true, Relaxed);
            let done = work(value);
            self.busy.store(false, Relaxed);
            done
        })
    }

    /// Takes and drops the value: see [`Handle::close`].
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.refuse_calls()?;
        self.handle.close()
    }

    pub(crate) fn describe(&self, describe: impl FnOnce(&T) -> String) -> String {
        self.handle.describe(describe)
    }

    fn refuse_calls(&self) -> Result<(), Failure> {
        if CALLS.get() == 0 || !self.busy.load(Relaxed) {
            return Ok(());
        }
        let message = "the environment is in the middle of a call; an agent uses the floor that \
                       act() is given, and a reward its argument";
        Err(Failure::new(ErrorClass::Env, message))
    }
}
