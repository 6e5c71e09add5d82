//! Models of hand-offs: a caller assigns work to a worker twice, and revokes what a sleeping worker
//! has not begun; and mutants, each of which must be caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::handoff::{self, HandoffWord, WorkerState};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::holds;

const CALLS: u64 = 2;

/// A single change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    RelaxedCall,
    RelaxedTake,
    RelaxedDone,
    RelaxedEnd,
    /// The caller revokes work that the worker may have begun.
    BlindBack,
    /// The worker accepts work that the caller may have revoked.
    BlindTake,
    /// The worker is not woken when it is stopped.
    NoWake,
}

struct WorkerSlot {
    state: AtomicU32,
    work: UnsafeCell<u64>,
    answer: UnsafeCell<u64>,
    /// Whether the worker sleeps first and never polls. (In loom a wake-up orders all that the
    /// caller did before it, so polling is needed to test the orderings.)
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

impl WorkerSlot {
    /// Returns `order`, or `Relaxed` if the mutant drops it.
    fn order(&self, order: Ordering, none: Mutant) -> Ordering {
        if self.mutant == none { Ordering::Relaxed } else { order }
    }
}

impl HandoffWord for WorkerSlot {
    fn load(&self, order: Ordering) -> WorkerState {
        let state = self.state.load(self.order(order, Mutant::RelaxedEnd));
        let all =
            [WorkerState::Idle, WorkerState::Assigned, WorkerState::Busy, WorkerState::Stopping];
        all.into_iter().find(|one| *one as u32 == state).expect("one of them")
    }

    fn store(&self, state: WorkerState, order: Ordering) {
        let none =
            if state == WorkerState::Assigned { Mutant::RelaxedCall } else { Mutant::RelaxedDone };
        self.state.store(state as u32, self.order(order, none));
    }

    fn change(&self, from: WorkerState, to: WorkerState, order: Ordering) -> bool {
        let (order, blind) = match to {
            WorkerState::Busy => (self.order(order, Mutant::RelaxedTake), Mutant::BlindTake),
            _ => (order, Mutant::BlindBack),
        };
        if self.mutant == blind {
            // Mutant: the old state is loaded first and changed in a second step.
            let was = self.state.load(order) == from as u32;
            if was {
                self.state.store(to as u32, Ordering::Relaxed);
            }
            return was;
        }
        self.state.compare_exchange(from as u32, to as u32, order, Ordering::Relaxed).is_ok()
    }
}

/// Sets the value of a cell. Loom checks the access.
#[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
fn set(cell: &UnsafeCell<u64>, value: u64) {
    // SAFETY: under test.
    cell.with_mut(|place| unsafe { *place = value });
}

#[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
fn get(cell: &UnsafeCell<u64>) -> u64 {
    // SAFETY: under test.
    cell.with(|place| unsafe { *place })
}

fn serve(slot: &WorkerSlot, seen: &Seen) {
    loop {
        match slot.load(Ordering::Relaxed) {
            WorkerState::Stopping => return,
            WorkerState::Assigned => {
                if handoff::accept(slot) {
                    seen.taken.fetch_add(1, SeqCst);
                    set(&slot.answer, get(&slot.work) + 1);
                    handoff::complete(slot);
                }
            }
            _ if slot.sleeps => {
                seen.sleeps.fetch_add(1, SeqCst);
                thread::park();
            }
            _ => thread::yield_now(),
        }
    }
}

/// Assigns work to a worker for each number, and stops it.
fn model(sleeps: bool, mutant: Mutant) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let passed = holds(&loom::model::Builder::new(), move || {
        counters.executions.fetch_add(1, SeqCst);
        #[expect(clippy::arc_with_non_send_sync, reason = "loom's threads are no threads")]
        let slot = Arc::new(WorkerSlot {
            state: AtomicU32::new(WorkerState::Idle as u32),
            work: UnsafeCell::new(0),
            answer: UnsafeCell::new(0),
            sleeps,
            mutant,
        });
        let (its, counted) = (Arc::clone(&slot), Arc::clone(&counters));
        let worker = thread::spawn(move || serve(&its, &counted));
        for number in 0..CALLS {
            set(&slot.work, 10 * number);
            handoff::assign(&*slot);
            if sleeps {
                worker.thread().unpark();
            }
            if handoff::revoke(&*slot) {
                counters.back.fetch_add(1, SeqCst);
                continue;
            }
            while !handoff::is_complete(&*slot) {
                thread::yield_now();
            }
            assert!(get(&slot.answer) == 10 * number + 1, "work was lost");
        }
        slot.store(WorkerState::Stopping, Ordering::Relaxed);
        if sleeps && mutant != Mutant::NoWake {
            worker.thread().unpark();
        }
        worker.join().unwrap();
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
