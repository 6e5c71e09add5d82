//! Models of pins: rows under a lease are read by plain loads, and no interleaving or reordering
//! lets the writer store to them, in whichever order a slot takes and ends its leases; and mutants,
//! each of which must be caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{LaneWriter, oldest, readable};
use loom::thread;

use crate::handle::Handle;
use crate::lane::{self, Mutant};
use crate::{Loom, holds};

type Lane = lane::Lane<Loom>;

const SLOTS: u64 = 2;
/// Involuntary switches per execution with three threads. Every mutant is caught with fewer; two
/// threads have no bound.
const PREEMPTIONS: usize = 2;

#[derive(Default)]
struct Seen {
    executions: Counter,
    leased: Counter,
    refused: Counter,
    stalled: Counter,
    written: Counter,
}

impl Seen {
    /// Fails if one of these events did not occur: the model would prove nothing.
    fn assert_any(&self, what: &str, names: &[&str]) {
        let counters = [
            ("leased", &self.leased),
            ("refused", &self.refused),
            ("stalled", &self.stalled),
            ("written", &self.written),
        ];
        let counts = counters.map(|(name, counter)| (name, counter.load(SeqCst)));
        println!("{what}: {} executions, {counts:?}", self.executions.load(SeqCst));
        for (name, count) in counts {
            assert!(count > 0 || !names.contains(&name), "{what}: never {name}");
        }
    }
}

/// Appends a row unless a pin blocks it; scans up to `scans` times.
fn append(writer: &mut LaneWriter<Lane>, scans: usize, seen: &Seen) {
    let lane = writer.lane().clone();
    let scan = || oldest(&lane).map(|pin| pin.start);
    let early = (lane.mutant() == Mutant::ScanFirst).then(scan);
    let mut free = true;
    if writer.reserve(1) {
        writer.announced_to_pins();
        free = (0..scans).any(|_| {
            let found = early.unwrap_or_else(scan);
            writer.settle(found, 1)
        });
    }
    if free {
        writer.write(0, 0, &lane.row(writer.head()));
        writer.publish(1);
    }
    if free { &seen.written } else { &seen.stalled }.fetch_add(1, SeqCst);
}

/// Action of a slot, with the number of a readable row, the older one being 0.
#[derive(Clone, Copy, Debug)]
enum Step {
    Lease(u64),
    End(u64),
    /// Follow the ring: keep that row instead of the one before.
    Keep(u64),
}
use Step::{End, Keep, Lease};

/// Takes the steps that are granted, with the rows that were readable first.
fn act(lane: &Lane, slot: u32, steps: &[Step], seen: &Seen) {
    let rows = readable(lane, SLOTS);
    let mut handle = Handle::new(lane, slot);
    for step in steps {
        let (Lease(row) | End(row) | Keep(row)) = *step;
        let start = rows.start + row;
        let granted = match step {
            // The slot of a row that was not readable holds another one.
            Lease(_) | Keep(_) if !rows.contains(&start) => false,
            Lease(_) => handle.lease(start),
            Keep(_) => handle.keep(start),
            End(_) => {
                if handle.leased().contains(&start) {
                    handle.end(start);
                }
                continue;
            }
        };
        if granted { &seen.leased } else { &seen.refused }.fetch_add(1, SeqCst);
    }
    while let Some(start) = handle.leased().first().copied() {
        handle.end(start);
    }
}

/// Runs a writer that appends two rows while slots 0, 1, ... take steps, each in a thread.
fn model(mutant: Mutant, slots: &'static [&'static [Step]]) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = (slots.len() > 1).then_some(PREEMPTIONS);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        let lane = Lane::of_cells(&Loom, SLOTS, (slots.len(), 0), mutant);
        let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
        let mut threads = Vec::new();
        let also = Arc::clone(&counters);
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                append(&mut writer, 2, &also);
            }
        }));
        for (slot, steps) in (1..).zip(&slots[1..]) {
            let (lane, also) = (lane.clone(), Arc::clone(&counters));
            threads.push(thread::spawn(move || act(&lane, slot, steps, &also)));
        }
        act(&lane, 0, slots[0], &counters);
        for thread in threads {
            thread.join().unwrap();
        }
    });
    (passed, seen)
}

/// Two leases of one slot. The second is newer, older, or of the same row; either ends first.
const ORDERS: [&[&[Step]]; 5] = [
    &[&[Lease(0), Lease(1), End(0)]],
    &[&[Lease(0), Lease(1), End(1)]],
    &[&[Lease(1), Lease(0), End(0)]],
    &[&[Lease(1), Lease(0), End(1)]],
    &[&[Lease(0), Lease(0), End(0)]],
];
/// Rows that are kept: forward, back, and both.
const KEPT: [&[&[Step]]; 3] =
    [&[&[Keep(0), Keep(1)]], &[&[Keep(1), Keep(0)]], &[&[Keep(1), Keep(0), Keep(1)]]];
/// Two slots, one of which leases older rows than it has.
const HANDLES: &[&[Step]] = &[&[Lease(1), Lease(0)], &[Lease(0), Lease(1)]];
/// Steps of a mutant that needs no other order.
const PLAIN: &[&[Step]] = ORDERS[0];

#[test]
fn no_row_changes_under_its_lease_in_whichever_order_leases_are_taken_and_dropped() {
    for slots in ORDERS {
        let (passed, seen) = model(Mutant::None, slots);
        seen.assert_any(&format!("{slots:?}"), &["leased", "refused", "stalled", "written"]);
        assert!(passed, "a row changed under its lease: {slots:?}");
    }
}

#[test]
fn rows_that_are_kept_do_not_change_whether_they_are_moved_forward_or_back() {
    for slots in KEPT {
        let (passed, seen) = model(Mutant::None, slots);
        seen.assert_any(&format!("{slots:?}"), &["leased", "refused", "stalled", "written"]);
        assert!(passed, "a kept row changed: {slots:?}");
    }
}

#[test]
fn two_slots_lease_in_opposite_orders() {
    let (passed, seen) = model(Mutant::None, HANDLES);
    seen.assert_any("two slots", &["leased", "refused", "stalled", "written"]);
    assert!(passed, "a row changed under its lease");
}

/// Runs a writer that dies after it announced a row that a lease freezes. Its successor scans the
/// pins before it writes that row.
fn adopted(mutant: Mutant) -> bool {
    holds(&loom::model::Builder::new(), move || {
        let lane = Lane::of_cells(&Loom, SLOTS, (1, 0), mutant);
        let mut handle = Handle::new(&lane, 0);
        assert!(handle.lease(0), "nobody writes yet");
        let theirs = lane.clone();
        let thread = thread::spawn(move || {
            let lane = theirs;
            let mut dies = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
            assert!(dies.reserve(1));
            let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
            if mutant == Mutant::AdoptedUnscanned {
                let _ = writer.settle(None, 1);
            }
            append(&mut writer, 2, &Seen::default());
        });
        handle.end(0);
        thread.join().unwrap();
    })
}

#[test]
fn a_successor_scans_the_pins_before_it_writes_what_was_announced() {
    assert!(adopted(Mutant::None), "a row changed under its lease");
    assert!(!adopted(Mutant::AdoptedUnscanned), "a scan that is left out was not caught");
}

fn dies_in(mutant: Mutant, slots: &'static [&'static [Step]]) {
    let (passed, seen) = model(mutant, slots);
    println!("{mutant:?}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{mutant:?} was not caught");
}

#[test]
fn a_fence_that_does_not_order_the_scan_lets_the_writer_miss_a_pin() {
    dies_in(Mutant::ReleaseBeforeScan, PLAIN);
}

#[test]
fn without_the_readers_fence_it_misses_the_announcement() {
    dies_in(Mutant::NoPinnedFence, PLAIN);
}

#[test]
fn without_a_second_look_rows_that_are_being_overwritten_are_leased() {
    dies_in(Mutant::NoSecondLook, PLAIN);
}

#[test]
fn a_relaxed_scan_overwrites_rows_that_are_still_read() {
    dies_in(Mutant::RelaxedScan, PLAIN);
}

#[test]
fn a_relaxed_thaw_lets_the_writer_into_the_last_read() {
    dies_in(Mutant::RelaxedThaw, PLAIN);
}

#[test]
fn a_scan_before_the_announcement_misses_a_pin() {
    dies_in(Mutant::ScanFirst, PLAIN);
}

#[test]
fn a_second_lease_that_moves_the_pin_up_uncovers_the_first() {
    dies_in(Mutant::SecondLeaseMovesUp, ORDERS[1]);
}

#[test]
fn an_older_lease_that_does_not_move_the_pin_down_is_not_covered() {
    dies_in(Mutant::OlderLeaseNotPinned, ORDERS[3]);
}

#[test]
fn a_pin_on_overwritten_rows_that_is_ignored_uncovers_the_slots_other_lease() {
    dies_in(Mutant::PinBehindIgnored, ORDERS[2]);
    dies_in(Mutant::PinBehindIgnored, KEPT[1]);
    dies_in(Mutant::PinBehindIgnored, HANDLES);
}

#[test]
fn a_refused_lease_that_takes_the_pin_along_uncovers_the_slots_other_lease() {
    dies_in(Mutant::RefusedTakesAll, ORDERS[2]);
    dies_in(Mutant::RefusedTakesAll, KEPT[1]);
}

#[test]
fn the_end_of_a_lease_that_takes_the_pin_along_uncovers_the_slots_other_lease() {
    dies_in(Mutant::EndTakesAll, ORDERS[0]);
    dies_in(Mutant::EndTakesAll, ORDERS[2]);
    dies_in(Mutant::EndTakesAll, ORDERS[4]);
}
