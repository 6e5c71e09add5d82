//! Models of pins: rows under a lease are read by plain loads, and no interleaving or reordering
//! lets the writer touch them; and mutants, each of which must be caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{
    Fence, LaneWriter, Pins, Words, WordsMut, freeze, oldest, readable, thaw,
};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

const SLOTS: u64 = 2;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The writer's fence orders its announcement before its rows, and not before its scan.
    ReleaseBeforeScan,
    NoPinnedFence,
    /// The reader does not look whether the writer was faster.
    NoSecondLook,
    RelaxedScan,
    RelaxedThaw,
    /// The writer scans before it announces.
    ScanFirst,
    /// A second lease moves the pin up although the first one lives.
    SecondLeaseMovesUp,
}

struct Memory {
    head: AtomicU64,
    reserved: AtomicU64,
    pin: AtomicU64,
    /// Plain memory: loom fails a model in which an access to it races with another.
    rows: [UnsafeCell<u64>; 2],
}

#[derive(Clone)]
struct Lane {
    memory: Arc<Memory>,
    mutant: Mutant,
    /// The writer's own counters; see `loom_publish.rs` for why it does not load the shared ones.
    latest: std::sync::Arc<[Counter; 2]>,
    writer: bool,
}

impl Lane {
    fn new(mutant: Mutant) -> Self {
        let word = || AtomicU64::new(0);
        let row = || UnsafeCell::new(0);
        let memory = Memory { head: word(), reserved: word(), pin: word(), rows: [row(), row()] };
        Self { memory: Arc::new(memory), mutant, latest: std::sync::Arc::default(), writer: false }
    }

    fn for_writer(&self) -> Self {
        Self { writer: true, ..self.clone() }
    }

    fn row(&self, slot: u64) -> &UnsafeCell<u64> {
        &self.memory.rows[usize::try_from(slot % SLOTS).unwrap()]
    }

    fn plain_read(&self, seq: u64) -> u64 {
        // SAFETY: what is under test; loom panics if the writer may be writing it.
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        self.row(seq).with(|value| unsafe { *value })
    }
}

impl Words for Lane {
    fn load_head(&self, order: Ordering) -> u64 {
        if self.writer { self.latest[0].load(SeqCst) } else { self.memory.head.load(order) }
    }

    fn load_reserved(&self, order: Ordering) -> u64 {
        if self.writer {
            return self.latest[1].load(SeqCst);
        }
        let reserved = self.memory.reserved.load(order);
        if self.mutant == Mutant::NoSecondLook { 0 } else { reserved }
    }

    fn fence(&self, at: Fence) {
        match (self.mutant, at) {
            (Mutant::ReleaseBeforeScan, Fence::AnnouncedToPins) => fence(Ordering::Release),
            (Mutant::NoPinnedFence, Fence::Pinned) => {}
            _ => fence(at.ordering()),
        }
    }

    fn slots(&self) -> u64 {
        SLOTS
    }

    fn copy_out(&self, _: usize, _: u64, _: u64, _: &mut [u8]) {
        unreachable!("a lease does not copy");
    }
}

impl WordsMut for Lane {
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.latest[1].store(value, SeqCst);
        self.memory.reserved.store(value, order);
    }

    fn store_head(&self, value: u64, order: Ordering) {
        self.latest[0].store(value, SeqCst);
        self.memory.head.store(value, order);
    }

    fn copy_in(&self, _: usize, slot: u64, row: &[u8]) {
        let value = u64::from_ne_bytes(row.try_into().unwrap());
        // SAFETY: what is under test, as in `plain_read`.
        #[expect(unsafe_code, reason = "loom's cell checks the access that real code does not")]
        self.row(slot).with_mut(|word| unsafe { *word = value });
    }
}

impl Pins for Lane {
    fn slots(&self) -> u32 {
        1
    }

    fn load(&self, _: u32, order: Ordering) -> u64 {
        let relaxed = self.mutant == Mutant::RelaxedScan;
        self.memory.pin.load(if relaxed { Ordering::Relaxed } else { order })
    }

    fn store(&self, _: u32, pin: u64, order: Ordering) {
        let relaxed = self.mutant == Mutant::RelaxedThaw;
        self.memory.pin.store(pin, if relaxed { Ordering::Relaxed } else { order });
    }
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    leased: Counter,
    refused: Counter,
    stalled: Counter,
    written: Counter,
}

/// Appends a row unless a pin is in the way; looks `scans` times.
fn append(writer: &mut LaneWriter<Lane>, scans: usize, seen: &Seen) -> bool {
    let lane = writer.lane().clone();
    let scan = |head| oldest(&lane, head, SLOTS).map(|pin| pin.start);
    let early = (lane.mutant == Mutant::ScanFirst).then(|| scan(writer.head()));
    let mut free = true;
    if writer.reserve(1) {
        writer.announced_to_pins();
        free = (0..scans).any(|_| {
            let found = early.unwrap_or_else(|| scan(writer.head()));
            writer.settle(found, 1)
        });
    }
    if free {
        writer.write(0, 0, &(writer.head() + 1).to_ne_bytes());
        writer.publish(1);
    } else {
        seen.stalled.fetch_add(1, SeqCst);
    }
    free
}

/// Leases what is readable and reads it twice, by plain loads.
fn lease(lane: &Lane, seen: &Seen) {
    let rows = readable(lane, SLOTS);
    if rows.is_empty() || freeze(lane, lane, 0, rows.start, None).is_err() {
        seen.refused.fetch_add(1, SeqCst);
        return;
    }
    seen.leased.fetch_add(1, SeqCst);
    let second = rows.end - 1;
    // A lease within the first one; a handle pins the oldest row of all its leases.
    let before = (lane.mutant != Mutant::SecondLeaseMovesUp).then_some(rows.start);
    freeze(lane, lane, 0, second, before).unwrap();
    for seq in rows.clone() {
        assert_eq!(lane.plain_read(seq), seq + 1, "row {seq} changed under its lease");
    }
    thaw(lane, 0, Some(second));
    assert_eq!(lane.plain_read(second), second + 1, "row {second} changed under its lease");
    thaw(lane, 0, None);
}

fn model(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let passed = catch_unwind(AssertUnwindSafe(|| {
        loom::model(move || {
            counters.executions.fetch_add(1, SeqCst);
            let lane = Lane::new(mutant);
            let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
            let nobody = Seen::default();
            assert!((0..SLOTS).all(|_| append(&mut writer, 1, &nobody)), "nothing is pinned");
            let also = std::sync::Arc::clone(&counters);
            let thread = thread::spawn(move || {
                for _ in 0..2 {
                    if append(&mut writer, 2, &also) {
                        also.written.fetch_add(1, SeqCst);
                    }
                }
            });
            lease(&lane, &counters);
            thread.join().unwrap();
        });
    }));
    (passed.is_ok(), seen)
}

#[test]
fn no_row_changes_under_its_lease_in_any_interleaving() {
    let (passed, seen) = model(Mutant::None);
    let [executions, leased, refused, stalled, written] =
        [&seen.executions, &seen.leased, &seen.refused, &seen.stalled, &seen.written]
            .map(|counter| counter.load(SeqCst));
    println!(
        "pins: {executions} executions, {leased} leases, {refused} refused, {stalled} stalls, \
         {written} rows written"
    );
    assert!(passed, "a row changed under its lease");
    for counter in [leased, refused, stalled, written] {
        assert!(counter > 0, "the model proves nothing");
    }
}

fn dies(mutant: Mutant) {
    let (passed, seen) = model(mutant);
    println!("{mutant:?}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{mutant:?} was not caught");
}

#[test]
fn a_fence_that_does_not_order_the_scan_lets_the_writer_miss_a_pin() {
    dies(Mutant::ReleaseBeforeScan);
}

#[test]
fn without_the_readers_fence_it_misses_the_announcement() {
    dies(Mutant::NoPinnedFence);
}

#[test]
fn without_a_second_look_rows_that_are_being_overwritten_are_leased() {
    dies(Mutant::NoSecondLook);
}

#[test]
fn a_relaxed_scan_overwrites_rows_that_are_still_read() {
    dies(Mutant::RelaxedScan);
}

#[test]
fn a_relaxed_thaw_lets_the_writer_into_the_last_read() {
    dies(Mutant::RelaxedThaw);
}

#[test]
fn a_scan_before_the_announcement_misses_a_pin() {
    dies(Mutant::ScanFirst);
}

#[test]
fn a_second_lease_that_moves_the_pin_up_uncovers_the_first() {
    dies(Mutant::SecondLeaseMovesUp);
}
