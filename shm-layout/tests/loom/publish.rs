//! Models of publish and validate; and mutants, each of which must accept a torn row.

use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{LaneWriter, Words, WordsMut, readable, still_whole};
use loom::sync::atomic::Ordering;
use loom::thread;

use crate::lane::{self, Mutant};
use crate::{Loom, holds};

type Lane = lane::Lane<Loom>;

const SLOTS: u64 = 2;
const ROWS: u64 = 4;

/// A lane of one word a row.
fn lane(mutant: Mutant) -> Lane {
    Lane::of_words(&Loom, SLOTS, 1, mutant)
}

/// Events over all executions of a model. A model that never accepts or never rejects proves
/// nothing.
#[derive(Default)]
struct Seen {
    executions: Counter,
    accepted: Counter,
    lapped: Counter,
}

fn append(writer: &mut LaneWriter<Lane>, publish: bool) {
    if writer.reserve(1) {
        writer.announced();
        assert!(writer.settle(None, 1), "nothing is pinned");
    }
    writer.write(0, 0, &writer.lane().row(writer.head()));
    if publish {
        writer.publish(1);
    }
}

/// Reads every readable row, and fails on one that is not the requested row.
fn read_all(lane: &Lane, seen: &Seen) {
    let rows = readable(lane, SLOTS);
    if rows.is_empty() {
        return;
    }
    let torn = lane.copy(rows.start, rows.end);
    if !still_whole(lane, rows.start) {
        seen.lapped.fetch_add(1, SeqCst);
        return;
    }
    seen.accepted.fetch_add(1, SeqCst);
    assert_eq!(torn, None, "a copy was accepted");
}

fn run(model: impl Fn(&Seen) + Send + Sync + 'static) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let passed = holds(&loom::model::Builder::new(), move || {
        counters.executions.fetch_add(1, SeqCst);
        model(&counters);
    });
    (passed, seen)
}

/// A writer fills the lane twice over while a reader copies.
fn publish_and_validate(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(move |seen| {
        let lane = lane(mutant);
        let mine = lane.for_writer();
        let writer = thread::spawn(move || {
            let mut writer = LaneWriter::adopt(mine, 1).unwrap();
            for _ in 0..ROWS {
                append(&mut writer, true);
            }
        });
        read_all(&lane, seen);
        writer.join().unwrap();
    })
}

/// A writer dies in the middle of a row; its successor continues while a reader copies.
fn recovery(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(move |seen| {
        let lane = lane(mutant);
        let mine = lane.for_writer();
        let writer = thread::spawn(move || {
            let mut first = LaneWriter::adopt(mine.clone(), 1).unwrap();
            append(&mut first, true);
            append(&mut first, true);
            append(&mut first, false);
            // The writer is dead. The lane's lock orders the successor after it.
            drop(first);
            if mine.mutant() == Mutant::LoweredReserved {
                mine.store_reserved(mine.load_head(Ordering::Relaxed), Ordering::Relaxed);
            }
            let mut second = LaneWriter::adopt(mine, 1).unwrap();
            append(&mut second, true);
        });
        read_all(&lane, seen);
        writer.join().unwrap();
    })
}

/// A step of two lanes issues one fence, after both announcements (or, as a mutant, between them).
fn two_lanes(fence_first: bool) -> (bool, std::sync::Arc<Seen>) {
    run(move |seen| {
        let lanes = [lane(Mutant::None), lane(Mutant::None)];
        let mine = [lanes[0].for_writer(), lanes[1].for_writer()];
        let writer = thread::spawn(move || {
            let [mut a, mut b] = mine.map(|lane| LaneWriter::adopt(lane, 1).unwrap());
            for _ in 0..3 {
                assert!(a.reserve(1), "one row at a time");
                if fence_first {
                    a.announced();
                }
                assert!(b.reserve(1), "one row at a time");
                if !fence_first {
                    a.announced();
                }
                assert!(a.settle(None, 1) && b.settle(None, 1), "nothing is pinned");
                for lane in [&mut a, &mut b] {
                    lane.write(0, 0, &lane.lane().row(lane.head()));
                }
                a.publish(1);
                b.publish(1);
            }
        });
        read_all(&lanes[1], seen);
        writer.join().unwrap();
    })
}

fn passes(name: &str, (passed, seen): (bool, std::sync::Arc<Seen>)) {
    let [executions, accepted, lapped] =
        [&seen.executions, &seen.accepted, &seen.lapped].map(|c| c.load(SeqCst));
    println!("{name}: {executions} executions, {accepted} accepted, {lapped} lapped");
    assert!(passed, "{name} accepted a torn row");
    assert!(accepted > 0 && lapped > 0, "{name} proves nothing");
}

fn dies(name: &str, (passed, seen): (bool, std::sync::Arc<Seen>)) {
    println!("{name}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{name} was not caught");
}

#[test]
fn an_accepted_row_is_whole_in_every_interleaving() {
    passes("publish and validate", publish_and_validate(Mutant::None));
}

#[test]
fn an_accepted_row_is_whole_when_a_writer_died_in_the_middle_of_one() {
    passes("recovery", recovery(Mutant::None));
}

#[test]
fn one_fence_serves_all_lanes_of_a_step() {
    passes("two lanes", two_lanes(false));
}

#[test]
fn a_fence_before_the_last_announcement_is_too_early() {
    dies("early fence", two_lanes(true));
}

#[test]
fn without_the_writers_fence_a_torn_row_is_accepted() {
    dies("no announced fence", publish_and_validate(Mutant::NoAnnouncedFence));
}

#[test]
fn without_the_readers_first_fence_a_torn_row_is_accepted() {
    dies("no published fence", publish_and_validate(Mutant::NoPublishedFence));
}

#[test]
fn without_the_readers_second_fence_a_torn_row_is_accepted() {
    dies("no copied fence", publish_and_validate(Mutant::NoCopiedFence));
}

#[test]
fn with_a_relaxed_head_a_torn_row_is_accepted() {
    dies("relaxed head", publish_and_validate(Mutant::RelaxedHead));
}

#[test]
fn with_the_announcement_after_the_row_a_torn_row_is_accepted() {
    dies("reserve after write", publish_and_validate(Mutant::ReserveAfterWrite));
}

#[test]
fn writing_a_row_that_was_not_announced_is_caught() {
    dies("unannounced row", publish_and_validate(Mutant::UnannouncedRow));
}

#[test]
fn a_successor_that_lowers_the_announcement_lets_a_torn_row_through() {
    dies("lowered reserved", recovery(Mutant::LoweredReserved));
}
