//! Bells: sleeping until another process has published something, without a system call on the
//! publishing side while nobody sleeps.
//!
//! A bell is two words. A sleeper reads `seq`, sets `listening` ([`listen`]), passes
//! [`BellFence::Listening`], looks once more for what it waits for, and sleeps while `seq` is what
//! it was. Whoever publishes passes [`BellFence::Rung`] and looks at `listening`; only if it is set
//! does it clear it, count `seq` up and wake all sleepers ([`ring`]).
//!
//! Why no wake-up is lost. The two fences order each side's store before its load, so either the
//! sleeper's last look finds what was published, or the publisher finds it listening. In the
//! second case `seq` is counted up after the sleeper read it, and the kernel refuses the sleep or
//! ends it.
//!
//! `listening` is a flag and not a count: a sleeper that is killed leaves it set, which costs the
//! next publisher one system call and is then forgotten.

use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep of somebody whom publishers may not notice.
const BLIND_SLEEP: Duration = Duration::from_millis(1);

/// The two places where a fence stands. Either of them orders stores before later loads, against
/// the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BellFence {
    /// Publisher, between publishing and looking for sleepers.
    Rung,
    /// Sleeper, between saying that it listens and looking for what it waits for.
    Listening,
}

/// A bell's memory, and the kernel's part in it.
pub trait Bell {
    /// How often it was rung.
    fn load_seq(&self, order: Ordering) -> u32;
    /// Counts one up.
    fn count_seq(&self, order: Ordering);
    /// Whether anybody may be asleep.
    fn load_listening(&self, order: Ordering) -> bool;
    /// Sets or clears the flag.
    fn store_listening(&self, listening: bool, order: Ordering);
    /// The fence at one of the protocol's two places; whether it is one against all who pass the other.
    fn fence(&self, at: BellFence) -> bool;
    /// Sleeps while `seq` is `expected`, for `limit` at most; may end early.
    fn sleep(&self, expected: u32, limit: Duration);
    /// Ends the sleep of all who sleep.
    fn wake_all(&self);
}

/// What [`listen`] saw; what the sleep must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    seq: u32,
    /// Whether the fence reached all publishers.
    reached: bool,
}

impl Ticket {
    /// Sleeps unless the bell was rung since, for `limit` at most; may end early.
    pub fn sleep<B: Bell>(self, bell: &B, limit: Duration) {
        let limit = if self.reached { limit } else { limit.min(BLIND_SLEEP) };
        bell.sleep(self.seq, limit);
    }
}

/// Says that somebody is about to sleep. What it waits for must be looked at once more after this.
#[must_use]
pub fn listen<B: Bell>(bell: &B) -> Ticket {
    // ORDERING: acquire, so that the flag is not set before the count was read: a bell rung in
    // between clears the flag and must be seen by its count.
    let seq = bell.load_seq(Ordering::Acquire);
    bell.store_listening(true, Ordering::Relaxed);
    let reached = bell.fence(BellFence::Listening);
    Ticket { seq, reached }
}

/// Wakes whoever sleeps. To be called after publishing; no system call when nobody listens.
#[inline]
pub fn ring<B: Bell>(bell: &B) {
    bell.fence(BellFence::Rung);
    if bell.load_listening(Ordering::Relaxed) {
        wake(bell);
    }
}

#[cold]
fn wake<B: Bell>(bell: &B) {
    bell.store_listening(false, Ordering::Relaxed);
    // ORDERING: release, so that the flag is cleared before the count goes up: a sleeper that
    // reads the new count sets the flag after this.
    bell.count_seq(Ordering::Release);
    bell.wake_all();
}
