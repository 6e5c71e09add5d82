//! Models of reader slots: a holder died and left a pin; a writer that is stopped by the pin clears
//! it while a new reader claims the slot and leases rows; and mutants, each of which must be
//! caught.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{
    LaneWriter, ReaderSlots, claim, freeze, oldest, readable, reap, thaw,
};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::lane::{self, Mutant};
use crate::{Loom, holds};

const ROWS: u64 = 2;
/// Involuntary switches between the two threads, per execution. Every mutant is caught with fewer;
/// without a bound the model takes a minute and finds nothing either.
const PREEMPTIONS: usize = 5;

/// A lane of two rows, one reader slot and its lock, which a death has freed.
#[derive(Clone)]
struct Shared {
    lane: lane::Lane<Loom>,
    held: Arc<AtomicBool>,
}

struct Held(Shared);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

impl Shared {
    /// Returns a lane in which rows 0 and 1 are published, and a dead reader's pin freezes row 0.
    fn new() -> Self {
        let lane = lane::Lane::of_cells(&Loom, ROWS, (1, 1), Mutant::None);
        Self { lane, held: Arc::new(AtomicBool::new(false)) }
    }
}

impl ReaderSlots for Shared {
    type Claim = Held;
    type Error = Infallible;

    fn is_held(&self, _: u32) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    fn try_claim(&self, _: u32) -> Result<Option<Held>, Infallible> {
        // Like the kernel's lock: taking it sees what was done before it was released.
        let taken = self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        Ok(taken.is_ok().then(|| Held(self.clone())))
    }

    fn clear_pins(&self, slot: u32) {
        thaw(&self.lane, slot, None);
    }
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    reaped: Counter,
    kept: Counter,
    leased: Counter,
    refused: Counter,
    written: Counter,
}

/// Handles a pin that stops the writer. Returns `true` if its holder is dead.
fn take_away(shared: &Shared, mutant: Mutant) -> bool {
    match mutant {
        Mutant::NoLock => {
            shared.clear_pins(0);
            true
        }
        Mutant::LookOnly => {
            let free = !shared.is_held(0);
            if free {
                shared.clear_pins(0);
            }
            free
        }
        Mutant::LockLetGoEarly => {
            let claimed = shared.try_claim(0).unwrap().is_some();
            if claimed {
                shared.clear_pins(0);
            }
            claimed
        }
        _ => reap(shared, 0).unwrap(),
    }
}

/// Appends rows 2 and 3, over rows 0 and 1, unless the pin of a living holder stops the writer.
fn append(shared: &Shared, mutant: Mutant, seen: &Seen) {
    let mut writer = LaneWriter::adopt(shared.lane.for_writer(), 1).unwrap();
    for _ in 0..2 {
        let head = writer.head();
        let scan = || oldest(&shared.lane).map(|pin| pin.start);
        if writer.reserve(1) {
            writer.announced_to_pins();
            if !writer.settle(scan(), 1) {
                let reaped = take_away(shared, mutant);
                if reaped { &seen.reaped } else { &seen.kept }.fetch_add(1, SeqCst);
                if !writer.settle(scan(), 1) {
                    return;
                }
            }
        }
        writer.write(0, 0, &shared.lane.row(head));
        writer.publish(1);
        seen.written.fetch_add(1, SeqCst);
    }
}

/// Claims the slot of the dead holder, leases the readable rows and reads them by plain loads.
fn lease(shared: &Shared, mutant: Mutant, seen: &Seen) {
    let late = mutant == Mutant::ClearedLate;
    let claimed = if late { shared.try_claim(0) } else { claim(shared, 0) };
    let Some(_claim) = claimed.unwrap() else { return };
    let rows = readable(&shared.lane, ROWS);
    let granted =
        !rows.is_empty() && freeze(&shared.lane, &shared.lane, 0, rows.start, None).is_ok();
    if late {
        shared.clear_pins(0);
    }
    if !granted {
        seen.refused.fetch_add(1, SeqCst);
        return;
    }
    seen.leased.fetch_add(1, SeqCst);
    for seq in rows {
        shared.lane.read_in_place(seq);
    }
    thaw(&shared.lane, 0, None);
}

fn model(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        let shared = Shared::new();
        let (theirs, also) = (shared.clone(), std::sync::Arc::clone(&counters));
        let thread = thread::spawn(move || append(&theirs, mutant, &also));
        lease(&shared, mutant, &counters);
        thread.join().unwrap();
    });
    (passed, seen)
}

#[test]
fn a_dead_readers_pin_goes_and_a_living_ones_stays() {
    let (passed, seen) = model(Mutant::None);
    let counters =
        [&seen.executions, &seen.reaped, &seen.kept, &seen.leased, &seen.refused, &seen.written];
    let [executions, reaped, kept, leased, refused, written] =
        counters.map(|counter| counter.load(SeqCst));
    println!(
        "slots: {executions} executions, {reaped} reaped, {kept} kept, {leased} leases, \
         {refused} refused, {written} rows written"
    );
    assert!(passed, "a row changed under its lease");
    for counter in [reaped, kept, leased, refused, written] {
        assert!(counter > 0, "the model proves nothing");
    }
}

fn dies(mutant: Mutant) {
    let (passed, seen) = model(mutant);
    println!("{mutant:?}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{mutant:?} was not caught");
}

#[test]
fn a_reaper_without_the_lock_takes_a_living_readers_pin() {
    dies(Mutant::NoLock);
}

#[test]
fn a_reaper_that_only_looks_at_the_lock_takes_a_living_readers_pin() {
    dies(Mutant::LookOnly);
}

#[test]
fn a_reaper_that_lets_go_of_the_lock_first_takes_a_living_readers_pin() {
    dies(Mutant::LockLetGoEarly);
}

#[test]
fn a_holder_that_clears_the_slot_late_clears_its_own_pin() {
    dies(Mutant::ClearedLate);
}
