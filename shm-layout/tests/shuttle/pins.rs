//! Pins: three readers lease rows of a full lane, again and again, while its writer goes round it under
//! each of the policies.

use backcast_layout::protocol::{LaneWriter, freeze, oldest, readable, thaw};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::lane::{Lane, Mutant};
use crate::machine::Weak;
use crate::{Seen, dies, holds};

const SLOTS: u64 = 4;
const READERS: u32 = 3;
const LEASES: usize = 2;
const ROWS: usize = 10;
const SEEN: [&str; 6] = ["leased", "refused", "waited", "dropped", "failed", "written"];

/// What a writer does about a lease in its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Looks again a few times, then leaves the row out.
    Block,
    /// Leaves the row out.
    DropNew,
    /// Gives up.
    Fail,
}

fn write(lane: &Lane<Weak>, policy: Policy, seen: &Seen) {
    let mut writer = LaneWriter::adopt(lane.for_writer(), 1).unwrap();
    for _ in 0..ROWS {
        let scan = |head| oldest(lane, head, SLOTS).map(|pin| pin.start);
        let early = (lane.mutant() == Mutant::ScanFirst).then(|| scan(writer.head()));
        let mut free = true;
        if writer.reserve(1) {
            writer.announced_to_pins();
            let looks = if policy == Policy::Block { 3 } else { 1 };
            free = (0..looks).any(|look| {
                if look > 0 {
                    seen.count("waited");
                    thread::yield_now();
                }
                let found = early.unwrap_or_else(|| scan(writer.head()));
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

/// Leases some of the readable rows, and more of them within the lease, and reads them by plain loads.
fn lease(lane: &Lane<Weak>, slot: u32, seen: &Seen) {
    let rows = readable(lane, SLOTS);
    if rows.is_empty() {
        return;
    }
    let start = thread_rng().gen_range(rows.clone());
    if freeze(lane, lane, slot, start, None).is_err() {
        return seen.count("refused");
    }
    seen.count("leased");
    let second = thread_rng().gen_range(start..rows.end);
    // A handle pins the oldest row of all its leases.
    let before = (lane.mutant() != Mutant::SecondLeaseMovesUp).then_some(start);
    freeze(lane, lane, slot, second, before).unwrap();
    for seq in start..rows.end {
        lane.read_in_place(seq);
    }
    thaw(lane, slot, Some(second));
    for seq in second..rows.end {
        lane.read_in_place(seq);
    }
    thaw(lane, slot, None);
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
            machine.spawn(move || (0..LEASES).for_each(|_| lease(&lane, slot, &seen)))
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
