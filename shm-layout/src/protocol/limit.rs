//! Limit counters. Each side has a counter, and waits until the counter of the other side has
//! reached the count that it needs.
//!
//! A counter is one word: the count, a generation of the limits in the bits above it, and the bit
//! [`WAITED`]. A process that waits for the count ([`listen`]) reads `seq`, lowers `wake_at` to the
//! count that it needs, and sets the bit. Setting the bit is an atomic change of the counter's
//! word, so its result shows the count at that moment. A process that counts ([`count`], [`take`])
//! sees the bit in the result of its own change. Only if the count has reached `wake_at` does it
//! reset `wake_at`, clear the bit, increment `seq` and wake all sleepers ([`wake`]).
//!
//! No wake-up is lost, since the changes of one word have one order. If the count comes first, the
//! waiting process sees it. If the bit comes first, the counting process sees it. `seq` is
//! incremented after `wake_at` was reset. The kernel refuses the sleep of a process that lowered
//! `wake_at` before the reset, or the process is woken.
//!
//! A process may compute the count that it waits for from other words, such as the other counter.
//! It reads those words again after it set the bit: a process that changed one of them and called
//! [`wake`] before the bit was set woke no sleeper.
//!
//! A killed sleeper leaves the bit and `wake_at`, which cause one unnecessary wake-up. If a process
//! is killed in [`wake`], sleepers sleep until the limit of their sleep.

use std::sync::atomic::Ordering;
use std::time::Duration;

pub use crate::layout::limiter_table::{COUNT, GENERATION, GENERATIONS, WAITED};

/// Memory of a limit counter, and the system calls on it.
pub trait LimitCounter {
    /// Loads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Adds to the word. Returns its previous value.
    fn add(&self, n: u64, order: Ordering) -> u64;
    /// Replaces the word if it is `current`. Otherwise returns the word found as an error.
    fn exchange(&self, current: u64, new: u64, order: Ordering) -> Result<u64, u64>;
    /// Sets [`WAITED`]. Returns the previous word.
    fn set_waited(&self, order: Ordering) -> u64;
    /// Clears [`WAITED`].
    fn clear_waited(&self, order: Ordering);
    /// Loads the count at which sleepers are to be woken.
    fn load_wake_at(&self, order: Ordering) -> u64;
    /// Lowers the count at which sleepers are to be woken to at most `to`.
    fn lower_wake_at(&self, to: u64, order: Ordering);
    /// Resets the count at which sleepers are to be woken: no process waits.
    fn reset_wake_at(&self, order: Ordering);
    /// Loads the count of wake-ups.
    fn load_seq(&self, order: Ordering) -> u32;
    /// Counts one wake-up.
    fn count_seq(&self, order: Ordering);
    /// Sleeps while the count of wake-ups is `expected`, for at most `limit`. May end early.
    fn sleep(&self, expected: u32, limit: Duration);
    /// Wakes all sleepers.
    fn wake_all(&self);
}

/// Permission to sleep, from [`listen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepTicket {
    seq: u32,
}

impl SleepTicket {
    /// Sleeps for at most `limit`, unless the counter was woken since [`listen`]. May end early.
    pub fn sleep<C: LimitCounter>(self, counter: &C, limit: Duration) {
        counter.sleep(self.seq, limit);
    }
}

/// Announces a process that waits until the count is `wake_at`. Returns the word at that moment:
/// the caller must not sleep if the count suffices.
#[must_use]
pub fn listen<C: LimitCounter>(counter: &C, wake_at: u64) -> (SleepTicket, u64) {
    // ORDERING: acquire, so that `wake_at` is lowered after the wake-up that was read: pairs with
    // the release in `wake`, which reset it.
    let seq = counter.load_seq(Ordering::Acquire);
    counter.lower_wake_at(wake_at, Ordering::Relaxed);
    // ORDERING: release, so that a process that sees the bit sees `wake_at`; acquire, so that the
    // counted rows are seen. Pairs with the changes in `count` and `take`.
    let word = counter.set_waited(Ordering::AcqRel);
    (SleepTicket { seq }, word)
}

/// Adds to the count, and wakes the processes that waited for it. Returns the word after the
/// addition. Makes no system call if no process waits.
#[inline]
pub fn count<C: LimitCounter>(counter: &C, n: u64) -> u64 {
    // ORDERING: release, so that a process that sees the count sees the rows that were published
    // before; acquire, so that `wake_at` is seen with the bit.
    let before = counter.add(n, Ordering::AcqRel);
    if before & WAITED != 0 {
        wake_if_reached(counter, (before & COUNT).saturating_add(n));
    }
    before.wrapping_add(n)
}

/// Adds up to `n` to the count, as far as the sum is at most `most`. Returns what was added, and
/// the count after that.
pub fn take<C: LimitCounter>(counter: &C, n: u64, most: u64) -> (u64, u64) {
    let mut word = counter.load(Ordering::Relaxed);
    loop {
        let found = word & COUNT;
        let taken = n.min(most.min(COUNT).saturating_sub(found));
        if taken == 0 {
            return (0, found);
        }
        // ORDERING: as in `count`.
        match counter.exchange(word, word.wrapping_add(taken), Ordering::AcqRel) {
            Ok(_) => {
                if word & WAITED != 0 {
                    wake_if_reached(counter, found + taken);
                }
                return (taken, found + taken);
            }
            Err(there) => word = there,
        }
    }
}

/// Subtracts `n` from the count, down to `least`.
pub fn give_back<C: LimitCounter>(counter: &C, n: u64, least: u64) {
    let mut word = counter.load(Ordering::Relaxed);
    loop {
        let count = word & COUNT;
        let less = count.saturating_sub(n).max(least.min(count)) | (word & !COUNT);
        match counter.exchange(word, less, Ordering::AcqRel) {
            Ok(_) => return,
            Err(there) => word = there,
        }
    }
}

#[cold]
fn wake_if_reached<C: LimitCounter>(counter: &C, count: u64) {
    if count >= counter.load_wake_at(Ordering::Relaxed) {
        wake(counter);
    }
}

/// Wakes all processes that wait for the counter, at any count.
pub fn wake<C: LimitCounter>(counter: &C) {
    counter.reset_wake_at(Ordering::Relaxed);
    counter.clear_waited(Ordering::Relaxed);
    // ORDERING: release, so that both stores come before the increment of `seq`: a process that
    // reads the new `seq` lowers `wake_at` and sets the bit after them.
    counter.count_seq(Ordering::Release);
    counter.wake_all();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::layout::limiter_table::{LimitBytes, LimitedSide, LimiterTable};

    #[test]
    fn a_change_keeps_the_count_and_the_bit_of_sleepers() {
        let table = LimiterTable::heap(LimitBytes::default(), 3, 2).unwrap();
        let counter = table.counter(LimitedSide::Inserts);
        count(&counter, 41);
        let _ = listen(&counter, 100);
        table.change(LimitBytes::default(), None);
        let word = table.load_inserts(Relaxed);
        assert_eq!((word & COUNT, word & WAITED, word & GENERATIONS), (41, WAITED, GENERATION));
        count(&counter, 58);
        assert_ne!(table.load_inserts(Relaxed) & WAITED, 0, "99 wake no process");
        count(&counter, 1);
        assert_eq!(table.load_inserts(Relaxed) & WAITED, 0);
    }
}
