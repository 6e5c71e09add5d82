//! Models of pins: rows under a lease are read by plain loads, and no interleaving or reordering
//! lets the writer touch them; and mutants, each of which must be caught.

use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{LaneWriter, freeze, oldest, readable, thaw};
use loom::thread;

use crate::lane::{self, Mutant};
use crate::{Loom, holds};

type Lane = lane::Lane<Loom>;

const SLOTS: u64 = 2;

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
    let early = (lane.mutant() == Mutant::ScanFirst).then(|| scan(writer.head()));
    let mut free = true;
    if writer.reserve(1) {
        writer.announced_to_pins();
        free = (0..scans).any(|_| {
            let found = early.unwrap_or_else(|| scan(writer.head()));
            writer.settle(found, 1)
        });
    }
    if free {
        writer.write(0, 0, &lane.row(writer.head()));
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
    let before = (lane.mutant() != Mutant::SecondLeaseMovesUp).then_some(rows.start);
    freeze(lane, lane, 0, second, before).unwrap();
    for seq in rows.clone() {
        lane.read_in_place(seq);
    }
    thaw(lane, 0, Some(second));
    lane.read_in_place(second);
    thaw(lane, 0, None);
}

fn model(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let passed = holds(&loom::model::Builder::new(), move || {
        counters.executions.fetch_add(1, SeqCst);
        let lane = Lane::of_cells(&Loom, SLOTS, (1, 0), mutant);
        let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
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
    (passed, seen)
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
