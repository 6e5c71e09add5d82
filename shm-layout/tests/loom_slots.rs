//! Models of reader slots: a holder has died with a pin in place; a writer that meets the pin takes
//! it away while a new reader claims the slot and leases rows; and mutants, each of which must be
//! caught.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{
    Fence, LaneWriter, Pins, Slots, Words, WordsMut, claim, freeze, oldest, readable, reap, thaw,
};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

const ROWS: u64 = 2;
/// Switches between the two threads that neither asked for, per execution. Every mutant is caught
/// with fewer; without a bound the model takes a minute and finds nothing either.
const PREEMPTIONS: usize = 5;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The reaper takes pins away without the lock.
    NoLock,
    /// The reaper looks whether the lock is held, and takes pins away if it is not.
    LookOnly,
    /// The reaper takes pins away after it let go of the lock.
    LockLetGoEarly,
    /// The new holder clears the pins that it found after it made its own.
    ClearedLate,
}

/// A lane of two rows, one reader slot and its lock, which a death has left free.
struct Memory {
    head: AtomicU64,
    reserved: AtomicU64,
    pin: AtomicU64,
    held: AtomicBool,
    /// Plain memory: loom fails a model in which an access to it races with another.
    rows: [UnsafeCell<u64>; 2],
}

#[derive(Clone)]
struct Shared(Arc<Memory>);

struct Held(Shared);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.held.store(false, Ordering::Release);
    }
}

impl Shared {
    /// Rows 0 and 1 are published, and a dead reader's pin stands on row 0.
    fn new() -> Self {
        let row = |value| UnsafeCell::new(value);
        Self(Arc::new(Memory {
            head: AtomicU64::new(ROWS),
            reserved: AtomicU64::new(ROWS),
            pin: AtomicU64::new(1),
            held: AtomicBool::new(false),
            rows: [row(1), row(2)],
        }))
    }

    fn row(&self, slot: u64) -> &UnsafeCell<u64> {
        &self.0.rows[usize::try_from(slot % ROWS).unwrap()]
    }

    fn plain_read(&self, seq: u64) -> u64 {
        // SAFETY: what is under test; loom panics if the writer may be writing it.
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        self.row(seq).with(|value| unsafe { *value })
    }
}

impl Words for Shared {
    fn load_head(&self, order: Ordering) -> u64 {
        self.0.head.load(order)
    }

    fn load_reserved(&self, order: Ordering) -> u64 {
        self.0.reserved.load(order)
    }

    fn fence(&self, at: Fence) {
        fence(at.ordering());
    }

    fn slots(&self) -> u64 {
        ROWS
    }

    fn copy_out(&self, _: usize, _: u64, _: u64, _: &mut [u8]) {
        unreachable!("a lease does not copy");
    }
}

impl WordsMut for Shared {
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.0.reserved.store(value, order);
    }

    fn store_head(&self, value: u64, order: Ordering) {
        self.0.head.store(value, order);
    }

    fn copy_in(&self, _: usize, slot: u64, row: &[u8]) {
        let value = u64::from_ne_bytes(row.try_into().unwrap());
        // SAFETY: what is under test, as in `plain_read`.
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        self.row(slot).with_mut(|word| unsafe { *word = value });
    }
}

impl Pins for Shared {
    fn slots(&self) -> u32 {
        1
    }

    fn load(&self, _: u32, order: Ordering) -> u64 {
        self.0.pin.load(order)
    }

    fn store(&self, _: u32, pin: u64, order: Ordering) {
        self.0.pin.store(pin, order);
    }
}

impl Slots for Shared {
    type Claim = Held;
    type Error = Infallible;

    fn is_held(&self, _: u32) -> bool {
        self.0.held.load(Ordering::Relaxed)
    }

    fn try_claim(&self, _: u32) -> Result<Option<Held>, Infallible> {
        // As the kernel's lock: taking it sees what was done before it was let go of.
        let taken = self.0.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        Ok(taken.is_ok().then(|| Held(self.clone())))
    }

    fn clear_pins(&self, slot: u32) {
        thaw(self, slot, None);
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

/// What the writer does about a pin in its way.
fn take_away(shared: &Shared, mutant: Mutant) -> bool {
    match mutant {
        Mutant::None | Mutant::ClearedLate => reap(shared, 0).unwrap(),
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
    }
}

/// Appends rows 2 and 3, over rows 0 and 1, unless the holder of a pin in the way lives.
fn append(shared: &Shared, mutant: Mutant, seen: &Seen) {
    let mut writer = LaneWriter::adopt(shared.clone(), 1).unwrap();
    for _ in 0..2 {
        let head = writer.head();
        let scan = || oldest(shared, head, ROWS).map(|pin| pin.start);
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
        writer.write(0, 0, &(head + 1).to_ne_bytes());
        writer.publish(1);
        seen.written.fetch_add(1, SeqCst);
    }
}

/// Claims the slot of the dead, leases what is readable and reads it by plain loads.
fn lease(shared: &Shared, mutant: Mutant, seen: &Seen) {
    let late = mutant == Mutant::ClearedLate;
    let claimed = if late { shared.try_claim(0) } else { claim(shared, 0) };
    let Some(_claim) = claimed.unwrap() else { return };
    let rows = readable(shared, ROWS);
    let granted = !rows.is_empty() && freeze(shared, shared, 0, rows.start, None).is_ok();
    if late {
        shared.clear_pins(0);
    }
    if !granted {
        seen.refused.fetch_add(1, SeqCst);
        return;
    }
    seen.leased.fetch_add(1, SeqCst);
    for seq in rows {
        assert_eq!(shared.plain_read(seq), seq + 1, "row {seq} changed under its lease");
    }
    thaw(shared, 0, None);
}

fn model(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let passed = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS);
        builder.check(move || {
            counters.executions.fetch_add(1, SeqCst);
            let shared = Shared::new();
            let (theirs, also) = (shared.clone(), std::sync::Arc::clone(&counters));
            let thread = thread::spawn(move || append(&theirs, mutant, &also));
            lease(&shared, mutant, &counters);
            thread.join().unwrap();
        });
    }));
    (passed.is_ok(), seen)
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
