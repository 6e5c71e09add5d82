//! Models of hand-offs: a caller gives its helper work twice, and does not wait for one that sleeps; and mutants, each of
//! which must be caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::handoff::{self, Post, State};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::holds;

const CALLS: u64 = 2;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    RelaxedCall,
    RelaxedTake,
    RelaxedDone,
    RelaxedEnd,
    /// The caller takes work back that the helper may be at.
    BlindBack,
    /// The helper takes work up that the caller may have taken back.
    BlindTake,
    /// The helper is not woken when it is dismissed.
    NoWake,
}

struct Desk {
    state: AtomicU32,
    work: UnsafeCell<u64>,
    answer: UnsafeCell<u64>,
    /// Whether the helper sleeps at once and never looks. (To be woken tells it, in loom, all that its caller did before:
    /// nothing is left for the orderings to do.)
    sleeps: bool,
    mutant: Mutant,
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    sleeps: Counter,
    taken: Counter,
    back: Counter,
}

impl Desk {
    /// An order, or none where the mutant has none.
    fn order(&self, order: Ordering, none: Mutant) -> Ordering {
        if self.mutant == none { Ordering::Relaxed } else { order }
    }
}

impl Post for Desk {
    fn load(&self, order: Ordering) -> State {
        let state = self.state.load(self.order(order, Mutant::RelaxedEnd));
        let all = [State::Idle, State::Called, State::Busy, State::Dismissed];
        all.into_iter().find(|one| *one as u32 == state).expect("one of them")
    }

    fn store(&self, state: State, order: Ordering) {
        let none = if state == State::Called { Mutant::RelaxedCall } else { Mutant::RelaxedDone };
        self.state.store(state as u32, self.order(order, none));
    }

    fn change(&self, from: State, to: State, order: Ordering) -> bool {
        let (order, blind) = match to {
            State::Busy => (self.order(order, Mutant::RelaxedTake), Mutant::BlindTake),
            _ => (order, Mutant::BlindBack),
        };
        if self.mutant == blind {
            // What it was is looked at, and changed in a second step.
            let was = self.state.load(order) == from as u32;
            if was {
                self.state.store(to as u32, Ordering::Relaxed);
            }
            return was;
        }
        self.state.compare_exchange(from as u32, to as u32, order, Ordering::Relaxed).is_ok()
    }
}

/// A cell's access, which loom checks.
#[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
fn set(cell: &UnsafeCell<u64>, value: u64) {
    // SAFETY: what is under test.
    cell.with_mut(|place| unsafe { *place = value });
}

#[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
fn get(cell: &UnsafeCell<u64>) -> u64 {
    // SAFETY: what is under test.
    cell.with(|place| unsafe { *place })
}

fn serve(desk: &Desk, seen: &Seen) {
    loop {
        match desk.load(Ordering::Relaxed) {
            State::Dismissed => return,
            State::Called => {
                if handoff::take(desk) {
                    seen.taken.fetch_add(1, SeqCst);
                    set(&desk.answer, get(&desk.work) + 1);
                    handoff::done(desk);
                }
            }
            _ if desk.sleeps => {
                seen.sleeps.fetch_add(1, SeqCst);
                thread::park();
            }
            _ => thread::yield_now(),
        }
    }
}

/// Calls a helper for each number, and dismisses it.
fn model(sleeps: bool, mutant: Mutant) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let passed = holds(&loom::model::Builder::new(), move || {
        counters.executions.fetch_add(1, SeqCst);
        #[expect(clippy::arc_with_non_send_sync, reason = "loom's threads are no threads")]
        let desk = Arc::new(Desk {
            state: AtomicU32::new(State::Idle as u32),
            work: UnsafeCell::new(0),
            answer: UnsafeCell::new(0),
            sleeps,
            mutant,
        });
        let (its, counted) = (Arc::clone(&desk), Arc::clone(&counters));
        let helper = thread::spawn(move || serve(&its, &counted));
        for number in 0..CALLS {
            set(&desk.work, 10 * number);
            handoff::call(&*desk);
            if sleeps {
                helper.thread().unpark();
            }
            if handoff::back(&*desk) {
                counters.back.fetch_add(1, SeqCst);
                continue;
            }
            while !handoff::is_over(&*desk) {
                thread::yield_now();
            }
            assert!(get(&desk.answer) == 10 * number + 1, "work was lost");
        }
        desk.store(State::Dismissed, Ordering::Relaxed);
        if sleeps && mutant != Mutant::NoWake {
            helper.thread().unpark();
        }
        helper.join().unwrap();
    });
    (passed, seen)
}

fn dies(mutant: Mutant) {
    let sleeps = matches!(mutant, Mutant::BlindBack | Mutant::BlindTake | Mutant::NoWake);
    let (passed, seen) = model(sleeps, mutant);
    println!("{mutant:?}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{mutant:?} was not caught");
}

#[test]
fn work_is_done_or_taken_back_in_any_interleaving() {
    for sleeps in [false, true] {
        let (passed, seen) = model(sleeps, Mutant::None);
        let [executions, slept, taken, back] =
            [&seen.executions, &seen.sleeps, &seen.taken, &seen.back].map(|n| n.load(SeqCst));
        println!("{executions} executions, {slept} sleeps, {taken} taken up, {back} taken back");
        assert!(passed, "work was lost");
        assert!(taken > 0 && back > 0 && (slept > 0) == sleeps, "the model proves nothing");
    }
}

#[test]
fn with_a_relaxed_call_the_helper_does_not_find_its_work() {
    dies(Mutant::RelaxedCall);
}

#[test]
fn with_a_relaxed_take_the_helper_does_not_find_its_work() {
    dies(Mutant::RelaxedTake);
}

#[test]
fn with_a_relaxed_end_of_the_work_the_caller_does_not_find_what_was_done() {
    dies(Mutant::RelaxedDone);
}

#[test]
fn with_a_relaxed_look_the_caller_does_not_find_what_was_done() {
    dies(Mutant::RelaxedEnd);
}

#[test]
fn work_that_is_taken_back_blindly_is_done_all_the_same() {
    dies(Mutant::BlindBack);
}

#[test]
fn work_that_is_taken_up_blindly_was_taken_back() {
    dies(Mutant::BlindTake);
}

#[test]
fn a_helper_that_is_not_woken_does_not_end() {
    dies(Mutant::NoWake);
}
