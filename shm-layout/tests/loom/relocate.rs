//! Models of relocation: a lane is relocated while it is written and read, and no reader loses a
//! row that it saw; and mutants, each of which must lose or tear one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{
    LaneWriter, RELOCATED, Relocator, WordsMut, has_relocated, readable, still_whole,
};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::lane::{self, Mutant};
use crate::{Loom, holds};

type Lane = lane::Lane<Loom>;

const SLOTS: u64 = 2;
/// Bytes of a row.
const WIDTHS: [usize; 1] = [8];

/// Events over all executions: a model that never relocates, or never reads afterwards, proves
/// nothing.
#[derive(Default)]
struct Seen {
    executions: Counter,
    before: Counter,
    after: Counter,
    told: Counter,
}

fn append(writer: &mut LaneWriter<Lane>) {
    if writer.reserve(1) {
        writer.announced();
        assert!(writer.settle(None, 1), "nothing is pinned");
    }
    writer.write(0, 0, &writer.lane().row(writer.head()));
    writer.publish(1);
}

/// Marks the old lane as relocated, with the ordering of the mutant.
fn move_over(old: &Lane, new: &Lane) {
    if old.mutant() == Mutant::MovedEarly {
        let rows = readable(old, SLOTS);
        old.store_reserved(RELOCATED, Ordering::Release);
        for seq in rows {
            new.copy_in(0, seq % (2 * SLOTS), &new.row(seq));
            new.store_head(seq + 1, Ordering::Release);
        }
        return;
    }
    assert!(Relocator::new(old, new, &WIDTHS, 1).finish(), "the counters are right");
}

/// Reads once, like a reader that has the old memory mapped and has seen row 0.
fn look(old: &Lane, new: &Lane, seen: &Seen) {
    let moved = has_relocated(old);
    let lane = if moved { new } else { old };
    let rows = readable(lane, 2 * SLOTS);
    assert!(rows.end >= 1, "lost: a row was there, now there is none");
    if rows.is_empty() {
        // The lane was relocated right after the check.
        return;
    }
    let torn = lane.copy(rows.start, rows.end);
    if still_whole(lane, rows.start) {
        if moved { &seen.after } else { &seen.before }.fetch_add(1, SeqCst);
        assert_eq!(torn, None, "a copy was accepted");
    }
}

fn run(model: impl Fn(&Arc<Seen>) + Send + Sync + 'static) -> (bool, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counters = Arc::clone(&seen);
    let passed = holds(&loom::model::Builder::new(), move || {
        counters.executions.fetch_add(1, SeqCst);
        model(&counters);
    });
    (passed, seen)
}

/// Returns the writer of a lane with one row, the lane, and the lane to which it is relocated.
fn stage(mutant: Mutant) -> (LaneWriter<Lane>, Lane, Lane) {
    let old = Lane::of_words(&Loom, SLOTS, 1, mutant);
    let new = Lane::of_words(&Loom, 2 * SLOTS, 1, mutant);
    let mut writer = LaneWriter::adopt(old.for_writer(), 1).unwrap();
    append(&mut writer);
    (writer, old, new)
}

/// Runs a writer that relocates its lane and continues while a reader reads.
fn moves(mutant: Mutant) -> (bool, Arc<Seen>) {
    run(move |seen| {
        let (mut writer, old, new) = stage(mutant);
        let thread = thread::spawn({
            let (old, new) = (old.for_writer(), new.for_writer());
            move || {
                move_over(&old, &new);
                if mutant != Mutant::LeftBehind {
                    writer = writer.relocated(|_| new);
                }
                append(&mut writer);
            }
        });
        look(&old, &new, seen);
        thread.join().unwrap();
        assert_eq!(readable(&new, 2 * SLOTS).end, 2, "lost: what was appended is not there");
    })
}

/// Runs a resizer that copies the rows and notifies the writer, while a reader reads.
fn copied_ahead(mutant: Mutant) -> (bool, Arc<Seen>) {
    run(move |seen| {
        let (writer, old, new) = stage(mutant);
        let news = Arc::new(AtomicU64::new(0));
        let resizer = thread::spawn({
            // No thread writes the old lane now, so its counters need no load that loom tracks,
            // which would hide the reader's.
            let (old, new, news) = (old.for_writer(), new.for_writer(), Arc::clone(&news));
            move || {
                let copied = Relocator::new(&old, &new, &WIDTHS, 1).catch_up();
                assert_eq!(copied, 1, "the only row");
                let relaxed = mutant == Mutant::RelaxedNews;
                news.store(1, if relaxed { Ordering::Relaxed } else { Ordering::Release });
            }
        });
        let thread = thread::spawn({
            let (new, seen) = (new.for_writer(), Arc::clone(seen));
            move || {
                if news.load(Ordering::Relaxed) == 1 {
                    seen.told.fetch_add(1, SeqCst);
                    move_over(writer.lane(), &new);
                }
            }
        });
        look(&old, &new, seen);
        resizer.join().unwrap();
        thread.join().unwrap();
    })
}

fn passes(name: &str, (passed, seen): (bool, Arc<Seen>)) -> Arc<Seen> {
    let counts = [&seen.executions, &seen.before, &seen.after, &seen.told];
    let [executions, before, after, told] = counts.map(|counter| counter.load(SeqCst));
    println!("{name}: {executions} executions, {before} looks before, {after} after, {told} told");
    assert!(passed, "{name} lost or tore a row");
    assert!(before > 0 && after > 0, "{name} proves nothing");
    seen
}

fn dies(name: &str, (passed, seen): (bool, Arc<Seen>)) {
    println!("{name}: caught after {} executions", seen.executions.load(SeqCst));
    assert!(!passed, "{name} was not caught");
}

#[test]
fn seen_rows_are_not_missed_after_a_relocation() {
    passes("move", moves(Mutant::None));
}

#[test]
fn rows_copied_beside_the_writer_are_there_after_a_move() {
    let seen = passes("copied ahead", copied_ahead(Mutant::None));
    assert!(seen.told.load(SeqCst) > 0, "the writer never moved");
}

#[test]
fn with_a_relaxed_move_a_row_is_lost() {
    dies("relaxed move", moves(Mutant::RelaxedMove));
}

#[test]
fn without_the_readers_fence_after_a_move_a_row_is_lost() {
    dies("no moved fence", moves(Mutant::NoMovedFence));
}

#[test]
fn a_move_that_is_told_before_the_last_row_was_copied_loses_it() {
    dies("moved early", moves(Mutant::MovedEarly));
}

#[test]
fn a_writer_that_stays_behind_loses_what_it_appends() {
    dies("left behind", moves(Mutant::LeftBehind));
}

#[test]
fn news_of_a_resize_that_come_before_the_copies_lose_them() {
    dies("relaxed news", copied_ahead(Mutant::RelaxedNews));
}
