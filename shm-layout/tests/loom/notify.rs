//! Models of notifiers: a thread that sleeps until something is published wakes up, in every
//! interleaving and reordering; and mutants, each of which must sleep for ever (loom calls that a
//! deadlock).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};
use std::time::Duration;

use backcast_layout::protocol::{Notifier, NotifyFence, listen, notify};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread::{self, Thread};

use crate::holds;

/// A single change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    NoNotifiedFence,
    NoListeningFence,
    /// The sleeper does not look again after it set `listening`.
    NoSecondLook,
    /// `seq` is not counted up: a sleep that begins too late is not refused.
    NoCount,
    /// The flag is cleared after `seq` was counted up.
    ClearedLate,
    /// The flag is set before the count is read.
    ListensEarly,
}

struct Shared {
    seq: AtomicU32,
    listening: AtomicU32,
    published: AtomicU32,
    /// Queue of the kernel: it compares and goes to sleep in one step. (No condition variable: its
    /// guard would be dropped while loom unwinds from a deadlock, and that panics once more.)
    queue: Mutex<Option<Thread>>,
    mutant: Mutant,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    sleeps: Counter,
    refused: Counter,
    wakes: Counter,
    silent: Counter,
}

impl Notifier for Shared {
    fn load_seq(&self, order: Ordering) -> u32 {
        if self.mutant == Mutant::ListensEarly {
            self.listening.store(1, Ordering::Relaxed);
        }
        self.seq.load(order)
    }

    fn count_seq(&self, order: Ordering) {
        if self.mutant != Mutant::NoCount {
            self.seq.fetch_add(1, order);
        }
        if self.mutant == Mutant::ClearedLate {
            self.listening.store(0, Ordering::Relaxed);
        }
    }

    fn load_listening(&self, order: Ordering) -> bool {
        let listening = self.listening.load(order) != 0;
        let counter = if listening { &self.seen.wakes } else { &self.seen.silent };
        counter.fetch_add(1, SeqCst);
        listening
    }

    fn store_listening(&self, listening: bool, order: Ordering) {
        let skip = if listening { Mutant::ListensEarly } else { Mutant::ClearedLate };
        if self.mutant != skip {
            self.listening.store(listening.into(), order);
        }
    }

    fn fence(&self, at: NotifyFence) -> bool {
        let dropped = match self.mutant {
            Mutant::NoNotifiedFence => Some(NotifyFence::Notified),
            Mutant::NoListeningFence => Some(NotifyFence::Listening),
            _ => None,
        };
        // A barrier in the sleeper and a compiler fence in the publisher together amount to this
        // fence.
        if dropped != Some(at) {
            fence(Ordering::SeqCst);
        }
        true
    }

    fn sleep(&self, expected: u32, _: Duration) {
        let mut queue = self.queue.lock().unwrap();
        if self.seq.load(Ordering::Relaxed) != expected {
            self.seen.refused.fetch_add(1, SeqCst);
            return;
        }
        self.seen.sleeps.fetch_add(1, SeqCst);
        *queue = Some(thread::current());
        drop(queue);
        thread::park();
    }

    fn wake_all(&self) {
        let sleeper = self.queue.lock().unwrap().take();
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        }
    }
}

fn sleep_until(shared: &Shared, want: u32) {
    while shared.published.load(Ordering::Acquire) < want {
        let ticket = listen(shared);
        let there = shared.published.load(Ordering::Acquire) >= want;
        if there && shared.mutant != Mutant::NoSecondLook {
            return;
        }
        ticket.sleep(shared, Duration::MAX);
    }
}

/// Runs `publishers` that publish once each; this thread sleeps until all have.
fn model(publishers: u32, mutant: Mutant) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    // Two publishers and a sleeper have too many interleavings to see all; nearly all bugs need
    // fewer involuntary switches than this.
    builder.preemption_bound = (publishers > 1).then_some(3);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        let word = || AtomicU32::new(0);
        let shared = Arc::new(Shared {
            seq: word(),
            listening: word(),
            published: word(),
            queue: Mutex::new(None),
            mutant,
            seen: Arc::clone(&counters),
        });
        let threads: Vec<_> = (0..publishers)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    if publishers == 1 {
                        // A release store, like the head's: only the fences order it before later
                        // loads.
                        shared.published.store(1, Ordering::Release);
                    } else {
                        shared.published.fetch_add(1, Ordering::Release);
                    }
                    notify(&*shared);
                })
            })
            .collect();
        sleep_until(&shared, publishers);
        for thread in threads {
            thread.join().unwrap();
        }
    });
    (passed, seen)
}

fn passes(publishers: u32) {
    let (passed, seen) = model(publishers, Mutant::None);
    let [executions, sleeps, refused, wakes, silent] =
        [&seen.executions, &seen.sleeps, &seen.refused, &seen.wakes, &seen.silent]
            .map(|counter| counter.load(SeqCst));
    println!(
        "{publishers} publishers: {executions} executions, {sleeps} sleeps, {refused} refused, \
         {wakes} wakes, {silent} without"
    );
    assert!(passed, "a wake-up was lost");
    for counter in [sleeps, refused, wakes, silent] {
        assert!(counter > 0, "the model proves nothing");
    }
}

fn dies(publishers: u32, mutant: Mutant) {
    let (passed, seen) = model(publishers, mutant);
    println!("{mutant:?}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{mutant:?} was not caught");
}

#[test]
fn no_wake_up_is_lost_in_any_interleaving() {
    passes(1);
}

#[test]
fn no_wake_up_is_lost_between_two_publishers() {
    passes(2);
}

#[test]
fn without_the_publishers_fence_a_wake_up_is_lost() {
    dies(1, Mutant::NoNotifiedFence);
}

#[test]
fn without_the_sleepers_fence_a_wake_up_is_lost() {
    dies(1, Mutant::NoListeningFence);
}

#[test]
fn without_a_second_look_the_sleeper_misses_what_came_before() {
    dies(1, Mutant::NoSecondLook);
}

#[test]
fn without_the_count_a_late_sleep_is_not_refused() {
    dies(1, Mutant::NoCount);
}

#[test]
fn a_flag_cleared_late_hides_the_next_sleeper() {
    dies(2, Mutant::ClearedLate);
}

#[test]
fn a_sleeper_that_listens_too_early_can_be_forgotten() {
    dies(2, Mutant::ListensEarly);
}
