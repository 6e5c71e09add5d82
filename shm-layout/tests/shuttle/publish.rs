//! Models of publish and validate: three readers copy parts of a lane while writers wrap around it
//! up to four times, each dying at a random point.

use backcast_layout::protocol::{LaneWriter, Words, WordsMut, readable, still_whole};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::Ordering;
use shuttle::thread;

use crate::lane::{Lane, Mutant};
use crate::machine::{Weak, Word};
use crate::{Seen, dies, holds};

const SLOTS: u64 = 3;
/// Words of a row.
const WIDTH: u64 = 2;
const LIVES: u32 = 3;
const READERS: usize = 3;
const LOOKS: usize = 3;
const SEEN: [&str; 4] = ["accepted", "lapped", "half_written", "announced_only"];

/// Waits for the lane's lock, which the kernel releases when a writer dies.
fn adopt(lane: &Lane<Weak>, lock: &Word) -> LaneWriter<Lane<Weak>> {
    while lock.update(Ordering::Acquire, |held| (held == 0).then_some(1)).is_err() {
        thread::yield_now();
    }
    if lane.mutant() == Mutant::LoweredReserved {
        let head = lane.for_writer().load_head(Ordering::Relaxed);
        lane.store_reserved(head, Ordering::Relaxed);
    }
    // A chunk of two: often a row is announced long before it is written.
    LaneWriter::adopt(lane.for_writer(), 2).unwrap()
}

fn append(writer: &mut LaneWriter<Lane<Weak>>) {
    if writer.reserve(1) {
        writer.announced();
        assert!(writer.settle(None, 1), "nothing is pinned");
    }
    writer.write(0, 0, &writer.lane().row(writer.head()));
}

/// Appends some rows and dies: in the middle of a row, after announcing one, or between two.
fn live(lane: &Lane<Weak>, lock: &Word, seen: &Seen) {
    let mut writer = adopt(lane, lock);
    for _ in 0..thread_rng().gen_range(1..=4) {
        append(&mut writer);
        writer.publish(1);
    }
    match thread_rng().gen_range(0..3) {
        0 => {
            lane.cut_next_row();
            append(&mut writer);
            seen.count("half_written");
        }
        1 if writer.reserve(1) => seen.count("announced_only"),
        _ => {}
    }
    lock.store(0, Ordering::Release);
}

/// Copies some of the readable rows, and fails on an accepted one that is not the requested row.
fn look(lane: &Lane<Weak>, seen: &Seen) {
    let rows = readable(lane, SLOTS);
    if rows.is_empty() {
        return;
    }
    let start = thread_rng().gen_range(rows.clone());
    let end = thread_rng().gen_range(start..rows.end) + 1;
    let torn = lane.copy(start, end);
    if !still_whole(lane, start) {
        return seen.count("lapped");
    }
    seen.count("accepted");
    assert_eq!(torn, None, "a copy was accepted");
}

fn one_lane(mutant: Mutant, seen: &Seen) {
    let machine = Weak::new();
    let lane = Lane::of_words(&machine, SLOTS, WIDTH, mutant);
    let lock = machine.word(0);
    let writers = (0..LIVES).map(|_| {
        let (lane, lock, seen) = (lane.clone(), lock.clone(), seen.clone());
        machine.spawn(move || live(&lane, &lock, &seen))
    });
    let mut threads: Vec<_> = writers.collect();
    threads.extend((0..READERS).map(|_| {
        let (lane, seen) = (lane.clone(), seen.clone());
        machine.spawn(move || (0..LOOKS).for_each(|_| look(&lane, &seen)))
    }));
    for thread in threads {
        thread.join();
    }
}

/// A step of three lanes issues one fence, after all announcements (as a mutant, before the last).
fn three_lanes(mutant: Mutant, seen: &Seen) {
    let machine = Weak::new();
    let lanes: Vec<_> =
        (0..3).map(|_| Lane::of_words(&machine, SLOTS, WIDTH, Mutant::None)).collect();
    let mine = lanes.clone();
    let writer = machine.spawn(move || {
        let mut writers: Vec<_> =
            mine.into_iter().map(|lane| LaneWriter::adopt(lane.for_writer(), 1).unwrap()).collect();
        for _ in 0..2 * SLOTS {
            let last = writers.len() - 1;
            for (i, writer) in writers.iter_mut().enumerate() {
                if i == last && mutant == Mutant::EarlyFence {
                    writer.announced();
                }
                assert!(writer.reserve(1), "one row at a time");
            }
            if mutant != Mutant::EarlyFence {
                writers[0].announced();
            }
            // The last lane first: its rows are written long before they are published.
            for writer in writers.iter_mut().rev() {
                assert!(writer.settle(None, 1), "nothing is pinned");
                writer.write(0, 0, &writer.lane().row(writer.head()));
            }
            for writer in &mut writers {
                writer.publish(1);
            }
        }
    });
    // Most readers read the last lane, which a fence that is too early does not cover.
    let readers: Vec<_> = [0, 1, 2, 2, 2]
        .into_iter()
        .map(|lane: usize| {
            let (lane, seen) = (lanes[lane].clone(), seen.clone());
            machine.spawn(move || (0..LOOKS).for_each(|_| look(&lane, &seen)))
        })
        .collect();
    writer.join();
    for reader in readers {
        reader.join();
    }
}

#[test]
fn accepted_rows_are_whole_beside_writers_that_die() {
    holds("publish", &SEEN, |seen| one_lane(Mutant::None, seen));
}

#[test]
fn one_fence_serves_all_lanes_of_a_step() {
    holds("three lanes", &SEEN[..2], |seen| three_lanes(Mutant::None, seen));
}

fn torn(mutant: Mutant) {
    dies(&format!("{mutant:?}"), &SEEN, move |seen| one_lane(mutant, seen));
}

#[test]
fn a_fence_before_the_last_announcement_is_too_early() {
    dies("EarlyFence", &SEEN, |seen| three_lanes(Mutant::EarlyFence, seen));
}

#[test]
fn without_the_writers_fence_a_torn_row_is_accepted() {
    torn(Mutant::NoAnnouncedFence);
}

#[test]
fn without_the_readers_first_fence_a_torn_row_is_accepted() {
    torn(Mutant::NoPublishedFence);
}

#[test]
fn without_the_readers_second_fence_a_torn_row_is_accepted() {
    torn(Mutant::NoCopiedFence);
}

#[test]
fn with_a_relaxed_head_a_torn_row_is_accepted() {
    torn(Mutant::RelaxedHead);
}

#[test]
fn with_the_announcement_after_the_row_a_torn_row_is_accepted() {
    torn(Mutant::ReserveAfterWrite);
}

#[test]
fn writing_a_row_that_was_not_announced_is_caught() {
    torn(Mutant::UnannouncedRow);
}

#[test]
fn a_successor_that_lowers_the_announcement_lets_a_torn_row_through() {
    torn(Mutant::LoweredReserved);
}
