//! Hand-offs: a thread gives another one work, and goes on when it is done or was not begun.
//!
//! The only protocol here between threads of one process. What is handed over stands beside a word that says whose
//! it is. The caller writes it while the word is [`IDLE`](State::Idle), and [`call`]s; the helper that [`take`]s it up
//! reads it until it says that it is [`done`]. A caller that has nothing left to do does not wait for a helper that has
//! not begun, who may not have woken up yet: it takes the work [`back`].

use std::sync::atomic::Ordering;

/// What a helper is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing: its caller may give it work.
    Idle,
    /// It was given work, and has not begun.
    Called,
    /// It works.
    Busy,
    /// It is to end.
    Dismissed,
}

/// The word between a caller and its helper.
pub trait Post {
    /// What the helper is at.
    fn load(&self, order: Ordering) -> State;
    /// Says what the helper is at.
    fn store(&self, state: State, order: Ordering);
    /// Says that it is at something else now, if it is at `from` still; whether it was.
    fn change(&self, from: State, to: State, order: Ordering) -> bool;
}

/// Caller: the work stands there.
pub fn call<P: Post>(post: &P) {
    // ORDERING: release, so that who takes the work up finds all of it.
    post.store(State::Called, Ordering::Release);
}

/// Helper: takes up work that it was called for; `false` if the caller took it back.
#[must_use]
pub fn take<P: Post>(post: &P) -> bool {
    // ORDERING: acquire, of what the caller wrote before its call.
    post.change(State::Called, State::Busy, Ordering::Acquire)
}

/// Helper: does not touch the work any more.
pub fn done<P: Post>(post: &P) {
    // ORDERING: release, so that the caller finds what was done, and writes new work after the old was last read.
    post.store(State::Idle, Ordering::Release);
}

/// Caller: takes work back that the helper has not begun; whether it had not.
pub fn back<P: Post>(post: &P) -> bool {
    // ORDERING: none is needed, as the helper did nothing. One step, as it may begin right now.
    post.change(State::Called, State::Idle, Ordering::Relaxed)
}

/// Caller: whether the helper has let go of the work.
#[must_use]
pub fn is_over<P: Post>(post: &P) -> bool {
    // ORDERING: acquire, of what the helper did.
    post.load(Ordering::Acquire) == State::Idle
}
