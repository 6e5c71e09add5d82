//! Models of limit counters: a thread that waits for a count wakes up, two threads that wait for
//! each other's counts end, a writer at a ceiling wakes up when it is raised, and rows published
//! before a count are seen with it. Each mutant must sleep for ever or lose a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};
use std::time::Duration;

use backcast_layout::protocol::limit::{
    COUNT, LimitCounter, WAITED, count, give_back, listen, take, wake,
};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread::{self, Thread};

use crate::holds;

/// A single change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The waiting process ignores the count in the word in which it set its bit.
    NoSecondLook,
    /// `seq` is not incremented: a sleep that begins too late is not refused.
    NoCount,
    /// `wake_at` and the bit are reset after `seq` was incremented.
    ResetLate,
    /// `wake_at` is lowered after the bit was set.
    MarkLate,
    /// The count is loaded and stored instead of one atomic addition.
    SplitAdd,
    /// Counting has no release ordering.
    RelaxedAdd,
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    sleeps: Counter,
    refused: Counter,
    wakes: Counter,
}

struct Shared {
    word: AtomicU64,
    wake_at: AtomicU64,
    seq: AtomicU32,
    /// Queue of the kernel, which compares and starts the sleep in one step.
    queue: Mutex<Vec<Thread>>,
    mutant: Mutant,
    /// Count that a mutant waits for.
    marked: Counter,
    seen: Arc<Seen>,
}

impl Shared {
    fn new(mutant: Mutant, seen: &Arc<Seen>) -> Self {
        Self {
            word: AtomicU64::new(0),
            wake_at: AtomicU64::new(u64::MAX),
            seq: AtomicU32::new(0),
            queue: Mutex::new(Vec::new()),
            mutant,
            marked: Counter::new(u64::MAX),
            seen: Arc::clone(seen),
        }
    }

    fn reset(&self) {
        self.wake_at.store(u64::MAX, Ordering::Relaxed);
        self.word.fetch_and(!WAITED, Ordering::Relaxed);
    }
}

impl LimitCounter for Shared {
    fn load(&self, order: Ordering) -> u64 {
        self.word.load(order)
    }

    fn add(&self, n: u64, order: Ordering) -> u64 {
        match self.mutant {
            Mutant::SplitAdd => {
                let word = self.word.load(Ordering::Acquire);
                self.word.store(word + n, Ordering::Release);
                word
            }
            Mutant::RelaxedAdd => self.word.fetch_add(n, Ordering::Relaxed),
            _ => self.word.fetch_add(n, order),
        }
    }

    fn exchange(&self, current: u64, new: u64, order: Ordering) -> Result<u64, u64> {
        self.word.compare_exchange(current, new, order, Ordering::Relaxed)
    }

    fn set_waited(&self, order: Ordering) -> u64 {
        let word = self.word.fetch_or(WAITED, order);
        if self.mutant == Mutant::MarkLate {
            self.wake_at.fetch_min(self.marked.load(SeqCst), Ordering::Relaxed);
        }
        word
    }

    fn clear_waited(&self, order: Ordering) {
        if self.mutant != Mutant::ResetLate {
            self.word.fetch_and(!WAITED, order);
        }
    }

    fn load_wake_at(&self, order: Ordering) -> u64 {
        self.wake_at.load(order)
    }

    fn lower_wake_at(&self, to: u64, order: Ordering) {
        if self.mutant == Mutant::MarkLate {
            self.marked.store(to, SeqCst);
        } else {
            self.wake_at.fetch_min(to, order);
        }
    }

    fn reset_wake_at(&self, order: Ordering) {
        if self.mutant != Mutant::ResetLate {
            self.wake_at.store(u64::MAX, order);
        }
    }

    fn load_seq(&self, order: Ordering) -> u32 {
        self.seq.load(order)
    }

    fn count_seq(&self, order: Ordering) {
        self.seen.wakes.fetch_add(1, SeqCst);
        if self.mutant != Mutant::NoCount {
            self.seq.fetch_add(1, order);
        }
        if self.mutant == Mutant::ResetLate {
            self.reset();
        }
    }

    fn sleep(&self, expected: u32, _: Duration) {
        let mut queue = self.queue.lock().unwrap();
        if self.seq.load(Ordering::Relaxed) != expected {
            self.seen.refused.fetch_add(1, SeqCst);
            return;
        }
        self.seen.sleeps.fetch_add(1, SeqCst);
        queue.push(thread::current());
        drop(queue);
        thread::park();
    }

    fn wake_all(&self) {
        for sleeper in std::mem::take(&mut *self.queue.lock().unwrap()) {
            sleeper.unpark();
        }
    }
}

/// Waits until the count is `want`.
fn wait_for(counter: &Shared, want: u64) {
    loop {
        let (ticket, word) = listen(counter, want);
        if word & COUNT >= want && counter.mutant != Mutant::NoSecondLook {
            return;
        }
        ticket.sleep(counter, Duration::MAX);
        if counter.load(Ordering::Acquire) & COUNT >= want {
            return;
        }
    }
}

fn run(
    bound: usize,
    mutant: Mutant,
    model: impl Fn(&Arc<Seen>) + Send + Sync + 'static,
) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        model(&counters);
    });
    let [executions, sleeps, refused, wakes] =
        [&seen.executions, &seen.sleeps, &seen.refused, &seen.wakes].map(|c| c.load(SeqCst));
    println!(
        "{mutant:?}: {executions} executions, {sleeps} sleeps, {refused} refused, {wakes} wakes"
    );
    (passed, seen)
}

/// One thread publishes and counts twice; this one waits for the first count and then for the
/// second, and must see the rows published before each.
fn counted_twice(mutant: Mutant) -> (bool, Arc<Seen>) {
    run(3, mutant, move |seen| {
        let counter = Arc::new(Shared::new(mutant, seen));
        let rows = Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (counter, rows) = (Arc::clone(&counter), Arc::clone(&rows));
            move || {
                for row in 1..=2 {
                    rows.store(row, Ordering::Relaxed);
                    count(&*counter, 1);
                }
            }
        });
        for want in 1..=2 {
            wait_for(&counter, want);
            assert!(rows.load(Ordering::Relaxed) >= want, "a row was lost");
        }
        writer.join().unwrap();
    })
}

/// One thread counts twice; two others wait, for the first count and for the second.
fn two_sleepers(mutant: Mutant) -> (bool, Arc<Seen>) {
    run(2, mutant, move |seen| {
        let counter = Arc::new(Shared::new(mutant, seen));
        let threads = [1, 2].map(|want| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || wait_for(&counter, want))
        });
        count(&*counter, 1);
        count(&*counter, 1);
        for thread in threads {
            thread.join().unwrap();
        }
    })
}

/// A writer and a sampler with a queue of one item: each waits for the other's count.
fn queue_of_one(mutant: Mutant) -> (bool, Arc<Seen>) {
    const ITEMS: u64 = 2;
    run(2, mutant, move |seen| {
        let inserts = Arc::new(Shared::new(mutant, seen));
        let samples = Arc::new(Shared::new(mutant, seen));
        let writer = thread::spawn({
            let (inserts, samples) = (Arc::clone(&inserts), Arc::clone(&samples));
            move || {
                for item in 0..ITEMS {
                    if samples.load(Ordering::Acquire) & COUNT < item {
                        wait_for(&samples, item);
                    }
                    count(&*inserts, 1);
                }
            }
        });
        for item in 1..=ITEMS {
            while take(&*samples, 1, inserts.load(Ordering::Acquire) & COUNT).0 == 0 {
                wait_for(&inserts, item);
            }
        }
        writer.join().unwrap();
        assert_eq!(samples.load(Ordering::Relaxed) & COUNT, ITEMS, "an item was lost");
    })
}

/// How a sampler counts the items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    /// Each as it is allowed, and kept until the batch is whole.
    OneByOne,
    /// All of them or none.
    Whole,
    /// Each as it is allowed. What was counted is given back before each sleep.
    GivenBackEarly,
    /// One by one. What another sampler gave back before the bit was set is not looked at.
    NoThirdLook,
}

/// A writer that may be one transition ahead, and a sampler whose batch has two items. Another
/// sampler counts an item and gives it back: its draw failed.
fn batch_beyond_the_queue(how: Batch) -> (bool, Arc<Seen>) {
    const ITEMS: u64 = 2;
    // With two preemptions the three threads take two minutes.
    run(1, Mutant::None, move |seen| {
        let inserts = Arc::new(Shared::new(Mutant::None, seen));
        let samples = Arc::new(Shared::new(Mutant::None, seen));
        let writer = thread::spawn({
            let (inserts, samples) = (Arc::clone(&inserts), Arc::clone(&samples));
            move || {
                for item in 0..ITEMS {
                    while samples.load(Ordering::Acquire) & COUNT < item {
                        let (ticket, word) = listen(&*samples, item);
                        if word & COUNT < item {
                            ticket.sleep(&*samples, Duration::MAX);
                        }
                    }
                    count(&*inserts, 1);
                }
            }
        });
        let failing = thread::spawn({
            let (inserts, samples) = (Arc::clone(&inserts), Arc::clone(&samples));
            move || {
                let most = inserts.load(Ordering::Acquire) & COUNT;
                let (taken, _) = take(&*samples, 1, most);
                if taken > 0 {
                    give_back(&*samples, taken, 0);
                    wake(&*inserts);
                }
            }
        });
        let mut held = 0;
        while held < ITEMS {
            let most = inserts.load(Ordering::Acquire) & COUNT;
            let left = ITEMS - held;
            let (taken, mut there) = match how {
                Batch::Whole if most < ITEMS => (0, samples.load(Ordering::Relaxed) & COUNT),
                _ => take(&*samples, left, most),
            };
            held += taken;
            if held == ITEMS {
                break;
            }
            let needed = if how == Batch::Whole { ITEMS } else { there + 1 };
            if how == Batch::GivenBackEarly {
                give_back(&*samples, held, 0);
                there -= held;
                held = 0;
            }
            let (ticket, word) = listen(&*inserts, needed);
            let fewer = samples.load(Ordering::Relaxed) & COUNT < there;
            if word & COUNT < needed && (!fewer || how == Batch::NoThirdLook) {
                ticket.sleep(&*inserts, Duration::MAX);
            }
        }
        writer.join().unwrap();
        failing.join().unwrap();
        assert_eq!(samples.load(Ordering::Relaxed) & COUNT, ITEMS, "an item was lost");
    })
}

#[test]
fn a_batch_beyond_the_queue_is_counted_one_by_one() {
    passes(batch_beyond_the_queue(Batch::OneByOne));
}

#[test]
fn a_batch_that_waits_to_be_whole_stops_both_sides() {
    dies(batch_beyond_the_queue(Batch::Whole));
}

#[test]
fn a_batch_that_gives_back_before_it_sleeps_stops_both_sides() {
    dies(batch_beyond_the_queue(Batch::GivenBackEarly));
}

#[test]
fn what_was_given_back_before_the_bit_was_set_is_slept_through_without_a_look() {
    dies(batch_beyond_the_queue(Batch::NoThirdLook));
}

/// A writer waits at a ceiling, which another thread raises in place. No count changes.
fn raised_ceiling(mutant: Mutant) -> (bool, Arc<Seen>) {
    run(3, mutant, move |seen| {
        let counter = Arc::new(Shared::new(mutant, seen));
        let ceiling = Arc::new(AtomicU64::new(1));
        let setter = thread::spawn({
            let (counter, ceiling) = (Arc::clone(&counter), Arc::clone(&ceiling));
            move || {
                ceiling.store(2, Ordering::Release);
                wake(&*counter);
            }
        });
        while ceiling.load(Ordering::Acquire) < 2 {
            let (ticket, _) = listen(&*counter, COUNT);
            if mutant == Mutant::NoSecondLook || ceiling.load(Ordering::Acquire) < 2 {
                ticket.sleep(&*counter, Duration::MAX);
            }
        }
        setter.join().unwrap();
    })
}

fn passes((passed, seen): (bool, Arc<Seen>)) {
    assert!(passed, "a wake-up was lost");
    for counter in [&seen.sleeps, &seen.refused, &seen.wakes] {
        assert!(counter.load(SeqCst) > 0, "the model proves nothing");
    }
}

fn dies((passed, _): (bool, Arc<Seen>)) {
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn no_count_is_slept_through_and_no_row_is_lost() {
    passes(counted_twice(Mutant::None));
}

#[test]
fn two_sleepers_with_marks_of_their_own_wake_up() {
    passes(two_sleepers(Mutant::None));
}

#[test]
fn a_writer_and_a_sampler_that_wait_for_each_other_end() {
    passes(queue_of_one(Mutant::None));
}

#[test]
fn a_writer_at_a_ceiling_that_is_raised_wakes_up() {
    passes(raised_ceiling(Mutant::None));
}

#[test]
fn without_a_second_look_at_the_ceiling_its_raise_is_slept_through() {
    dies(raised_ceiling(Mutant::NoSecondLook));
}

#[test]
fn without_the_count_of_wake_ups_the_raise_of_a_ceiling_is_slept_through() {
    dies(raised_ceiling(Mutant::NoCount));
}

#[test]
fn without_a_look_at_the_marked_word_a_count_is_slept_through() {
    dies(counted_twice(Mutant::NoSecondLook));
}

#[test]
fn without_the_count_of_wake_ups_a_late_sleep_is_not_refused() {
    dies(counted_twice(Mutant::NoCount));
}

#[test]
fn a_mark_reset_late_hides_the_next_sleeper() {
    dies(counted_twice(Mutant::ResetLate));
}

#[test]
fn a_mark_lowered_late_is_not_seen_with_the_bit() {
    dies(counted_twice(Mutant::MarkLate));
}

#[test]
fn a_count_that_is_loaded_and_stored_loses_the_bit() {
    dies(counted_twice(Mutant::SplitAdd));
}

#[test]
fn a_relaxed_count_is_seen_without_its_row() {
    dies(counted_twice(Mutant::RelaxedAdd));
}
