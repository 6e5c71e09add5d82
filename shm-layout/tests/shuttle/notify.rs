//! Models of notifiers: three sleepers wait for all that two publishers publish. A lost wake-up
//! leaves a sleeper asleep, which shuttle calls a deadlock.

use std::sync::Arc;
use std::time::Duration;

use backcast_layout::protocol::{Notifier, NotifyFence, listen, notify};
use shuttle::sync::atomic::Ordering;
use shuttle::sync::{Condvar, Mutex};

use crate::lane::Machine;
use crate::machine::{Weak, Word};
use crate::{Seen, dies, holds};

const PUBLISHERS: usize = 2;
const SLEEPERS: usize = 3;
const EACH: u64 = 2;
const SEEN: [&str; 4] = ["slept", "sleep_refused", "rung", "nobody_listened"];

/// A single change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    NoNotifiedFence,
    NoListeningFence,
    NoSecondLook,
    NoCount,
    ClearedLate,
    ListensEarly,
}

struct Shared {
    machine: Weak,
    seq: Word,
    listening: Word,
    /// Number of notifications of each publisher, stored with release like heads.
    published: [Word; PUBLISHERS],
    /// Queue of the kernel: the count of wake-ups. It compares and goes to sleep in one step.
    queue: Mutex<u64>,
    queue_order: Word,
    woken: Condvar,
    mutant: Mutant,
    seen: Seen,
}

impl Notifier for Shared {
    fn load_seq(&self, order: Ordering) -> u32 {
        if self.mutant == Mutant::ListensEarly {
            self.listening.store(1, Ordering::Relaxed);
        }
        u32::try_from(self.seq.load(order)).unwrap()
    }

    fn count_seq(&self, order: Ordering) {
        if self.mutant != Mutant::NoCount {
            self.seq.update(order, |seq| Some(seq + 1)).unwrap();
        }
        if self.mutant == Mutant::ClearedLate {
            self.listening.store(0, Ordering::Relaxed);
        }
    }

    fn load_listening(&self, order: Ordering) -> bool {
        let listening = self.listening.load(order) != 0;
        self.seen.count(if listening { "rung" } else { "nobody_listened" });
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
            self.machine.fence(Ordering::SeqCst);
        }
        true
    }

    fn sleep(&self, expected: u32, _: Duration) {
        let mut wakes = self.queue.lock().unwrap();
        self.queue_order.update(Ordering::AcqRel, Some).unwrap();
        if self.seq.load(Ordering::Relaxed) != u64::from(expected) {
            return self.seen.count("sleep_refused");
        }
        self.seen.count("slept");
        let before = *wakes;
        while *wakes == before {
            wakes = self.woken.wait(wakes).unwrap();
        }
    }

    fn wake_all(&self) {
        let mut wakes = self.queue.lock().unwrap();
        self.queue_order.update(Ordering::AcqRel, Some).unwrap();
        *wakes += 1;
        self.woken.notify_all();
    }
}

fn everything(shared: &Shared) -> bool {
    shared.published.iter().all(|published| published.load(Ordering::Acquire) == EACH)
}

fn sleep_until_everything(shared: &Shared) {
    while !everything(shared) {
        let ticket = listen(shared);
        if everything(shared) && shared.mutant != Mutant::NoSecondLook {
            return;
        }
        ticket.sleep(shared, Duration::MAX);
    }
}

fn model(mutant: Mutant, seen: &Seen) {
    let machine = Weak::new();
    let word = || machine.word(0);
    let shared = Arc::new(Shared {
        seq: word(),
        listening: word(),
        published: [word(), word()],
        queue: Mutex::new(0),
        queue_order: word(),
        woken: Condvar::new(),
        machine: machine.clone(),
        mutant,
        seen: seen.clone(),
    });
    let publishers = (0..PUBLISHERS).map(|publisher| {
        let shared = Arc::clone(&shared);
        machine.spawn(move || {
            for count in 1..=EACH {
                shared.published[publisher].store(count, Ordering::Release);
                notify(&*shared);
            }
        })
    });
    let mut threads: Vec<_> = publishers.collect();
    threads.extend((0..SLEEPERS).map(|_| {
        let shared = Arc::clone(&shared);
        machine.spawn(move || sleep_until_everything(&shared))
    }));
    for thread in threads {
        thread.join();
    }
}

#[test]
fn no_wake_up_is_lost_by_any_of_three_sleepers() {
    holds("notify", &SEEN, |seen| model(Mutant::None, seen));
}

fn caught(mutant: Mutant) {
    dies(&format!("{mutant:?}"), &SEEN, move |seen| model(mutant, seen));
}

#[test]
fn without_the_publishers_fence_a_wake_up_is_lost() {
    caught(Mutant::NoNotifiedFence);
}

#[test]
fn without_the_sleepers_fence_a_wake_up_is_lost() {
    caught(Mutant::NoListeningFence);
}

#[test]
fn without_a_second_look_the_sleeper_misses_what_came_before() {
    caught(Mutant::NoSecondLook);
}

#[test]
fn without_the_count_a_late_sleep_is_not_refused() {
    caught(Mutant::NoCount);
}

#[test]
fn a_flag_cleared_late_hides_the_next_sleeper() {
    caught(Mutant::ClearedLate);
}

#[test]
fn a_sleeper_that_listens_too_early_can_be_forgotten() {
    caught(Mutant::ListensEarly);
}
