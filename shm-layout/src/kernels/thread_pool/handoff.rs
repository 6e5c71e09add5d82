//! Hands work from a caller to a worker thread of the same process.
//!
//! The work is stored beside a word that names the thread that owns it. The caller writes the work
//! while the word is [`Idle`](WorkerState::Idle), and calls [`assign`]. The worker that [`accept`]s
//! it reads it until it calls [`complete`]. A caller that has nothing left to do does not wait for
//! a worker that has not begun: it [`revoke`]s the work. That worker may still be asleep.

use std::sync::atomic::Ordering;

/// State of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkerState {
    /// No work: the caller may assign some.
    Idle,
    /// Work was assigned and not begun.
    Assigned,
    /// The worker runs the work.
    Busy,
    /// The worker is to end.
    Stopping,
}

/// Word between a caller and its worker.
pub trait HandoffWord {
    /// Loads the state.
    fn load(&self, order: Ordering) -> WorkerState;
    /// Stores the state.
    fn store(&self, state: WorkerState, order: Ordering);
    /// Changes the state from `from` to `to`. Returns whether it was `from`.
    fn change(&self, from: WorkerState, to: WorkerState, order: Ordering) -> bool;
}

/// Caller: assigns the work beside the word.
pub fn assign<P: HandoffWord>(word: &P) {
    // ORDERING: release, so that the worker that accepts the work finds all of it.
    word.store(WorkerState::Assigned, Ordering::Release);
}

/// Worker: accepts assigned work. Returns `false` if the caller revoked it.
#[must_use]
pub fn accept<P: HandoffWord>(word: &P) -> bool {
    // ORDERING: acquire: the worker sees the caller's writes from before the assignment.
    word.change(WorkerState::Assigned, WorkerState::Busy, Ordering::Acquire)
}

/// Worker: completes the work, and does not access it again.
pub fn complete<P: HandoffWord>(word: &P) {
    // ORDERING: release, so that the caller finds the results, and writes new work after the old
    // was last read.
    word.store(WorkerState::Idle, Ordering::Release);
}

/// Caller: revokes work that the worker has not begun. Returns whether it was revoked.
pub fn revoke<P: HandoffWord>(word: &P) -> bool {
    // ORDERING: relaxed, as the worker did nothing. The change is atomic, as the worker may begin
    // at this moment.
    word.change(WorkerState::Assigned, WorkerState::Idle, Ordering::Relaxed)
}

/// Caller: returns whether the worker has completed the work.
#[must_use]
pub fn is_complete<P: HandoffWord>(word: &P) -> bool {
    // ORDERING: acquire: the caller sees the worker's writes.
    word.load(Ordering::Acquire) == WorkerState::Idle
}
