//! Models of pins: readers lease rows of a full lane, older and newer than those they have, and one
//! follows the lane. Its writer wraps around meanwhile, under each of the policies.

use backcast_layout::protocol::{LaneWriter, oldest, readable};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::handle::Handle;
use crate::lane::{Lane, Mutant};
use crate::machine::Weak;
use crate::{Seen, dies, holds};

const SLOTS: u64 = 4;
const READERS: u32 = 3;
/// Slot of the reader that follows the lane.
const FOLLOWER: u32 = 2;
/// Steps of each reader.
const ACTIONS: usize = 6;
/// Maximum simultaneous leases of a reader.
const MOST: usize = 3;
const ROWS: usize = 10;
const SEEN: [&str; 14] = [
    "leased",
    "leased_older",
    "leased_same",
    "leased_newer",
    "refused",
    "refused_older",
    "kept",
    "kept_older",
    "not_kept",
    "not_kept_older",
    "waited",
    "dropped",
    "failed",
    "written",
];

/// Behaviour of a writer when a lease stops it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Scans again a few times, then drops the row.
    Block,
    /// Drops the row.
    DropNew,
    /// Gives up.
    Fail,
}

fn write(lane: &Lane<Weak>, policy: Policy, seen: &Seen) {
    let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
    for _ in 0..ROWS {
        let scan = || oldest(lane).map(|pin| pin.start);
        let early = (lane.mutant() == Mutant::ScanFirst).then(scan);
        let mut free = true;
        if writer.reserve(1) {
            writer.announced_to_pins();
            let looks = if policy == Policy::Block { 3 } else { 1 };
            free = (0..looks).any(|look| {
                if look > 0 {
                    seen.count("waited");
                    thread::yield_now();
                }
                let found = early.unwrap_or_else(scan);
                writer.settle(found, 1)
            });
        }
        if free {
            writer.write(0, 0, &lane.row(writer.head()));
            writer.publish(1);
            seen.count("written");
        } else if policy == Policy::Fail {
            return seen.count("failed");
        } else {
            seen.count("dropped");
        }
    }
}

/// Leases rows, older and newer than those it has, and ends leases, in any order. The rows were
/// readable at its last check of the lane, which it repeats at random.
fn lease(lane: &Lane<Weak>, slot: u32, seen: &Seen) {
    let mut handle = Handle::new(lane, slot);
    let mut rows = readable(lane, SLOTS);
    for _ in 0..ACTIONS {
        if thread_rng().gen_bool(0.3) {
            rows = readable(lane, SLOTS);
        }
        let ends = handle.leased().len() == MOST || thread_rng().gen_bool(0.3);
        if ends && !handle.leased().is_empty() {
            let at = thread_rng().gen_range(0..handle.leased().len());
            handle.end(handle.leased()[at]);
            continue;
        }
        if rows.is_empty() {
            continue;
        }
        let start = thread_rng().gen_range(rows.clone());
        let oldest = handle.leased().iter().min().copied();
        let name = match (handle.lease(start), oldest) {
            (true, None) => "leased",
            (true, Some(held)) if start < held => "leased_older",
            (true, Some(held)) if start == held => "leased_same",
            (true, Some(_)) => "leased_newer",
            (false, None) => "refused",
            (false, Some(_)) => "refused_older",
        };
        seen.count(name);
    }
    while let Some(start) = handle.leased().first().copied() {
        handle.end(start);
    }
}

/// Follows the lane like a process that copies it: keeps rows from a random one on, and moves the
/// pin, mostly forward.
fn follow(lane: &Lane<Weak>, slot: u32, seen: &Seen) {
    let mut handle = Handle::new(lane, slot);
    let mut rows = readable(lane, SLOTS);
    for _ in 0..ACTIONS {
        if thread_rng().gen_bool(0.5) {
            rows = readable(lane, SLOTS);
        }
        if rows.is_empty() {
            continue;
        }
        let start = thread_rng().gen_range(rows.clone());
        let back = handle.leased().first().is_some_and(|kept| start < *kept);
        let kept = handle.keep(start);
        seen.count(match (kept, back) {
            (true, true) => "kept_older",
            (true, false) => "kept",
            (false, true) => "not_kept_older",
            (false, false) => "not_kept",
        });
    }
    if let Some(start) = handle.leased().first().copied() {
        handle.end(start);
    }
}

fn model(mutant: Mutant, seen: &Seen) {
    let machine = Weak::new();
    let lane = Lane::of_cells(&machine, SLOTS, (READERS as usize, 0), mutant);
    let policy = [Policy::Block, Policy::DropNew, Policy::Fail][thread_rng().gen_range(0..3)];
    let writer = {
        let (lane, seen) = (lane.clone(), seen.clone());
        machine.spawn(move || write(&lane, policy, &seen))
    };
    let readers: Vec<_> = (0..READERS)
        .map(|slot| {
            let (lane, seen) = (lane.clone(), seen.clone());
            let read = if slot == FOLLOWER { follow } else { lease };
            machine.spawn(move || read(&lane, slot, &seen))
        })
        .collect();
    writer.join();
    for reader in readers {
        reader.join();
    }
}

#[test]
fn no_row_changes_under_its_lease_whatever_the_policy() {
    holds("pins", &SEEN, |seen| model(Mutant::None, seen));
}

fn caught(mutant: Mutant) {
    dies(&format!("{mutant:?}"), &SEEN, move |seen| model(mutant, seen));
}

#[test]
fn a_fence_that_does_not_order_the_scan_lets_the_writer_miss_a_pin() {
    caught(Mutant::ReleaseBeforeScan);
}

#[test]
fn without_the_readers_fence_it_misses_the_announcement() {
    caught(Mutant::NoPinnedFence);
}

#[test]
fn without_a_second_look_rows_that_are_being_overwritten_are_leased() {
    caught(Mutant::NoSecondLook);
}

#[test]
fn a_relaxed_scan_overwrites_rows_that_are_still_read() {
    caught(Mutant::RelaxedScan);
}

#[test]
fn a_relaxed_thaw_lets_the_writer_into_the_last_read() {
    caught(Mutant::RelaxedThaw);
}

#[test]
fn a_relaxed_pin_hides_that_the_slots_last_lease_was_let_go_of() {
    caught(Mutant::RelaxedPin);
}

#[test]
fn a_scan_before_the_announcement_misses_a_pin() {
    caught(Mutant::ScanFirst);
}

#[test]
fn a_second_lease_that_moves_the_pin_up_uncovers_the_first() {
    caught(Mutant::SecondLeaseMovesUp);
}

#[test]
fn an_older_lease_that_does_not_move_the_pin_down_is_not_covered() {
    caught(Mutant::OlderLeaseNotPinned);
}

#[test]
fn a_pin_on_overwritten_rows_that_is_ignored_uncovers_the_slots_other_lease() {
    caught(Mutant::PinBehindIgnored);
}

#[test]
fn a_refused_lease_that_takes_the_pin_along_uncovers_the_slots_other_lease() {
    caught(Mutant::RefusedTakesAll);
}

#[test]
fn the_end_of_a_lease_that_takes_the_pin_along_uncovers_the_slots_other_lease() {
    caught(Mutant::EndTakesAll);
}
