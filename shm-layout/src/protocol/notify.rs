//! Notifiers: a process sleeps until another has published something. Publishing makes no system
//! call while no process sleeps.
//!
//! A notifier is two words. A sleeper reads `seq`, sets `listening` ([`listen`]) and issues the
//! fence [`NotifyFence::Listening`]. It checks its condition once more, and sleeps while `seq` is
//! unchanged. A publisher issues the fence [`NotifyFence::Notified`] and loads `listening`. Only if
//! the flag is set does it clear the flag, count `seq` up and wake all sleepers ([`notify`]).
//!
//! No wake-up is lost: the two fences order each side's store before its load. So either the
//! sleeper's last check finds what was published, or the publisher finds the flag set. In the
//! second case `seq` is counted up after the sleeper read it, and the kernel refuses the sleep or
//! ends it.
//!
//! `listening` is a flag and not a count. A sleeper that is killed leaves it set, which costs the
//! next publisher one system call and is then cleared.

use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum sleep if publishers may miss the sleeper.
const BLIND_SLEEP: Duration = Duration::from_millis(1);

/// The two fences of a notifier. Each orders earlier stores before later loads, with respect to the
/// other fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyFence {
    /// Issued by the publisher, between publishing and loading `listening`.
    Notified,
    /// Issued by the sleeper, between setting `listening` and checking its condition.
    Listening,
}

/// Memory of a notifier, and the system calls on it.
pub trait Notifier {
    /// Loads the count of notifications.
    fn load_seq(&self, order: Ordering) -> u32;
    /// Counts one notification.
    fn count_seq(&self, order: Ordering);
    /// Returns whether a process may be asleep.
    fn load_listening(&self, order: Ordering) -> bool;
    /// Sets or clears `listening`: whether a process may be asleep.
    fn store_listening(&self, listening: bool, order: Ordering);
    /// Issues one of the two fences. Returns `false` if the other fence of some process may not be
    /// ordered against it.
    fn fence(&self, at: NotifyFence) -> bool;
    /// Sleeps while `seq` is `expected`, for `limit` at most; may end early.
    fn sleep(&self, expected: u32, limit: Duration);
    /// Wakes all sleepers.
    fn wake_all(&self);
}

/// Count of notifications that [`listen`] loaded, for the sleep that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    seq: u32,
    /// Whether the fence reached all publishers.
    reached: bool,
}

impl Ticket {
    /// Sleeps for `limit` at most, unless the count has changed since; may end early. Sleeps 1 ms
    /// at most if publishers may miss the sleeper.
    pub fn sleep<B: Notifier>(self, notifier: &B, limit: Duration) {
        let limit = if self.reached { limit } else { limit.min(BLIND_SLEEP) };
        notifier.sleep(self.seq, limit);
    }
}

/// Announces a sleeper. Afterwards the caller must check its condition once more.
#[must_use]
pub fn listen<B: Notifier>(notifier: &B) -> Ticket {
    // ORDERING: acquire, so that the flag is set after the count is read. In the other order a
    // notification in between would clear the flag and already be part of the count. Then the next
    // publisher would not wake this sleeper.
    let seq = notifier.load_seq(Ordering::Acquire);
    notifier.store_listening(true, Ordering::Relaxed);
    let reached = notifier.fence(NotifyFence::Listening);
    Ticket { seq, reached }
}

/// Wakes all sleepers. The caller has published before. Makes no system call if no process listens.
#[inline]
pub fn notify<B: Notifier>(notifier: &B) {
    notifier.fence(NotifyFence::Notified);
    if notifier.load_listening(Ordering::Relaxed) {
        wake(notifier);
    }
}

#[cold]
fn wake<B: Notifier>(notifier: &B) {
    notifier.store_listening(false, Ordering::Relaxed);
    // ORDERING: release, so that the flag is cleared before the count goes up: a sleeper that
    // reads the new count sets the flag after this.
    notifier.count_seq(Ordering::Release);
    notifier.wake_all();
}
