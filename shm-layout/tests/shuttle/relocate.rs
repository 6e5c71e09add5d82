//! Models of relocation: a lane is relocated, after others copied rows ahead and died, while three
//! readers read. No reader loses a row that it saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use backcast_layout::protocol::{
    LaneWriter, RELOCATED, Relocator, Words, WordsMut, has_relocated, readable, still_whole,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::Ordering;

use crate::lane::{Lane, Mutant};
use crate::machine::{Weak, Word};
use crate::{Seen, dies, holds};

const SLOTS: u64 = 3;
/// Not a multiple of the old slots, so rows change their slots.
const NEW_SLOTS: u64 = 5;
/// Words of a row.
const WIDTH: u64 = 2;
const WIDTHS: [usize; 1] = [16];
const READERS: usize = 3;
const LOOKS: usize = 3;
const ROWS: u64 = 8;
const SEEN: [&str; 4] = ["before", "after", "copied_ahead", "moved_later"];

fn append(writer: &mut LaneWriter<Lane<Weak>>) {
    if writer.reserve(1) {
        writer.announced();
        assert!(writer.settle(None, 1), "nothing is pinned");
    }
    writer.write(0, 0, &writer.lane().row(writer.head()));
    writer.publish(1);
}

/// Marks the lane as relocated; as a mutant, before the last rows were copied.
fn move_over(old: &Lane<Weak>, new: &Lane<Weak>) {
    if old.mutant() == Mutant::MovedEarly {
        let reserved = old.load_reserved(Ordering::Relaxed);
        old.store_reserved(RELOCATED, Ordering::Release);
        let head = old.load_head(Ordering::Relaxed);
        for seq in new.load_head(Ordering::Relaxed).max(reserved.saturating_sub(SLOTS))..head {
            new.copy_in(0, seq % NEW_SLOTS, &new.row(seq));
            new.store_head(seq + 1, Ordering::Release);
        }
        return;
    }
    assert!(Relocator::new(old, new, &WIDTHS, 2).finish(), "the counters are right");
}

/// Reads once, like a reader that has the old memory mapped and may find the mark.
fn look(old: &Lane<Weak>, new: &Lane<Weak>, head: &mut u64, seen: &Seen) {
    let moved = has_relocated(old);
    let lane = if moved { new } else { old };
    let rows = readable(lane, NEW_SLOTS);
    assert!(rows.end >= *head, "lost: {head} rows were there, now there are {}", rows.end);
    *head = rows.end;
    if rows.is_empty() {
        return;
    }
    let start = thread_rng().gen_range(rows.clone());
    let torn = lane.copy(start, rows.end);
    if still_whole(lane, start) {
        seen.count(if moved { "after" } else { "before" });
        assert_eq!(torn, None, "a copy was accepted");
    }
}

fn model(mutant: Mutant, seen: &Seen) {
    let machine = Weak::new();
    let old = Lane::of_words(&machine, SLOTS, WIDTH, mutant);
    let new = Lane::of_words(&machine, NEW_SLOTS, WIDTH, mutant);
    let news: Word = machine.word(0);
    let did_move = Arc::new(AtomicBool::new(false));
    let resizer = machine.spawn({
        let (old, new, news, seen) = (old.clone(), new.for_writer(), news.clone(), seen.clone());
        move || {
            for _ in 0..thread_rng().gen_range(0..3) {
                if Relocator::new(&old, &new, &WIDTHS, 2).catch_up() > 0 {
                    seen.count("copied_ahead");
                }
            }
            let relaxed = mutant == Mutant::RelaxedNews;
            news.store(1, if relaxed { Ordering::Relaxed } else { Ordering::Release });
        }
    });
    let writer = machine.spawn({
        let (old, new, seen) = (old.for_writer(), new.for_writer(), seen.clone());
        let did_move = Arc::clone(&did_move);
        move || {
            let mut writer = LaneWriter::adopt(old.clone(), 1).unwrap();
            let mut moved = false;
            for row in 0..ROWS {
                if !moved && news.load(Ordering::Relaxed) == 1 {
                    move_over(&old, &new);
                    moved = true;
                    did_move.store(true, SeqCst);
                    if row > 0 {
                        seen.count("moved_later");
                    }
                    if mutant != Mutant::LeftBehind {
                        writer = writer.relocated(|_| new.clone());
                    }
                }
                append(&mut writer);
            }
        }
    });
    let readers = (0..READERS).map(|_| {
        let (old, new, seen) = (old.clone(), new.clone(), seen.clone());
        machine.spawn(move || {
            let mut head = 0;
            (0..LOOKS).for_each(|_| look(&old, &new, &mut head, &seen));
        })
    });
    let mut threads: Vec<_> = readers.collect();
    threads.extend([resizer, writer]);
    for thread in threads {
        thread.join();
    }
    let last = if did_move.load(SeqCst) { &new } else { &old };
    let end = readable(last, NEW_SLOTS).end;
    assert_eq!(end, ROWS, "lost: what was appended is not there");
}

fn caught(mutant: Mutant) {
    dies(&format!("{mutant:?}"), &SEEN, move |seen| model(mutant, seen));
}

#[test]
fn seen_rows_are_not_missed_after_a_relocation() {
    holds("move", &SEEN, |seen| model(Mutant::None, seen));
}

#[test]
fn with_a_relaxed_move_a_row_is_lost() {
    caught(Mutant::RelaxedMove);
}

#[test]
fn without_the_readers_fence_after_a_move_a_row_is_lost() {
    caught(Mutant::NoMovedFence);
}

#[test]
fn a_move_that_is_told_before_the_last_row_was_copied_loses_it() {
    caught(Mutant::MovedEarly);
}

#[test]
fn news_of_a_resize_that_come_before_the_copies_lose_them() {
    caught(Mutant::RelaxedNews);
}

#[test]
fn a_writer_that_stays_behind_loses_what_it_appends() {
    caught(Mutant::LeftBehind);
}
