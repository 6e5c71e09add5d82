//! Stores the last transitions of writers that threads still have when the interpreter exits.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::prelude::*;
use pyo3::types::PyCFunction;

use super::state::WriterState;
use crate::handle::Handle;

/// Writers that may be open. Locked only with the interpreter held and kept, so that no fork finds
/// it locked.
static OPEN: Mutex<Vec<Weak<Handle<WriterState>>>> = Mutex::new(Vec::new());

/// Adds a writer. `_py` proves that the interpreter is held while the list is locked.
pub(super) fn watch(_py: Python<'_>, writer: &Arc<Handle<WriterState>>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|writer| writer.strong_count() > 0);
    open.push(Arc::downgrade(writer));
}

/// Registers a function that restarts all lanes of open writers: a `next_obs` that waits becomes
/// the FINAL row. Writers stay open, since their threads may go on for a moment. The function never
/// waits: it skips a writer that a thread is using, that has a reserved row, or that a lease
/// blocks.
pub(crate) fn finish_at_exit(py: Python<'_>) -> PyResult<()> {
    let finish = PyCFunction::new_closure(py, None, None, |_, _| {
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        for writer in open.iter().filter_map(Weak::upgrade) {
            writer.try_with(|state| {
                let _ = state.free().map(|writer| {
                    let all = vec![true; writer.lanes().len()];
                    writer.try_restart(&all)
                });
            });
        }
    })?;
    py.import("atexit")?.call_method1("register", (finish,))?;
    Ok(())
}
