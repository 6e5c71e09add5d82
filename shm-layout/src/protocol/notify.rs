//! Notifiers: a process sleeps until another has published something. Publishing makes no system
//! call while no process sleeps.
//!
//! A notifier is two words. A sleeper reads `seq`, sets `listening` ([`listen`]), passes
//! [`NotifyFence::Listening`], looks once more for what it waits for, and sleeps while `seq` is
//! what it was. A publisher passes [`NotifyFence::Notified`] and looks at `listening`. Only if it
//! is set does it clear it, count `seq` up and wake all sleepers ([`notify`]).
//!
//! Why no wake-up is lost: the two fences order each side's store before its load, so either the
//! sleeper's last look finds what was published, or the publisher finds it listening. In the second
//! case `seq` is counted up after the sleeper read it, and the kernel refuses the sleep or ends it.
//!
//! `listening` is a flag and not a count. A sleeper that is killed leaves it set, which costs the
//! next publisher one system call and is then cleared.

use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep of a process that publishers may not notice.
const BLIND_SLEEP: Duration = Duration::from_millis(1);

/// Places of the two fences. Each orders stores before later loads, against the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyFence {
    /// Publisher, between publishing and looking for sleepers.
    Notified,
    /// Sleeper, between setting `listening` and looking for what it waits for.
    Listening,
}

/// Memory of a notifier, and the kernel's part in it.
pub trait Notifier {
    /// Loads the count of notifications.
    fn load_seq(&self, order: Ordering) -> u32;
    /// Counts one notification.
    fn count_seq(&self, order: Ordering);
    /// Whether a process may be asleep.
    fn load_listening(&self, order: Ordering) -> bool;
    /// Sets or clears the flag.
    fn store_listening(&self, listening: bool, order: Ordering);
    /// Passes the fence at one of the two places. Returns whether it is ordered against all who
    /// pass the other.
    fn fence(&self, at: NotifyFence) -> bool;
    /// Sleeps while `seq` is `expected`, for `limit` at most; may end early.
    fn sleep(&self, expected: u32, limit: Duration);
    /// Wakes all sleepers.
    fn wake_all(&self);
}

/// Count that [`listen`] saw, for the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    seq: u32,
    /// Whether the fence reached all publishers.
    reached: bool,
}

impl Ticket {
    /// Sleeps for `limit` at most, unless the count has changed since; may end early.
    pub fn sleep<B: Notifier>(self, notifier: &B, limit: Duration) {
        let limit = if self.reached { limit } else { limit.min(BLIND_SLEEP) };
        notifier.sleep(self.seq, limit);
    }
}

/// Announces a sleeper. The caller must look once more for what it waits for after this.
#[must_use]
pub fn listen<B: Notifier>(notifier: &B) -> Ticket {
    // ORDERING: acquire, so that the flag is not set before the count was read: a notification in
    // between clears the flag and must be seen by its count.
    let seq = notifier.load_seq(Ordering::Acquire);
    notifier.store_listening(true, Ordering::Relaxed);
    let reached = notifier.fence(NotifyFence::Listening);
    Ticket { seq, reached }
}

/// Wakes all sleepers. Called after publishing; no system call if none listens.
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
