//! Models of publish and validate: every interleaving and every reordering that the memory model
//! allows, over the very code that ships; and mutants of it, each of which must be caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::{Fence, LaneWriter, Words, WordsMut, readable, still_whole};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

const SLOTS: u64 = 2;
const ROWS: u64 = 4;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    NoAnnouncedFence,
    NoPublishedFence,
    NoCopiedFence,
    RelaxedHead,
    /// The announcement is stored only when the row is published.
    ReserveAfterWrite,
    /// A successor takes back what its dead predecessor announced.
    LoweredReserved,
    /// The row is written twice as far round the ring as was announced.
    UnannouncedRow,
}

/// A lane of one column and one word a row; row `seq` holds `seq + 1`, so that 0 is "never".
struct Memory {
    head: AtomicU64,
    reserved: AtomicU64,
    words: [AtomicU64; 2],
}

#[derive(Clone)]
struct Lane {
    memory: Arc<Memory>,
    mutant: Mutant,
    /// `head` and `reserved` as the writers left them, for writers only. The lane's lock orders
    /// them, so a successor's loads can return nothing else; modelled loads by the writer would
    /// hide a reader's load from loom, which tracks only the last access to a location.
    latest: std::sync::Arc<[Counter; 2]>,
    writer: bool,
}

impl Lane {
    fn new(mutant: Mutant) -> Self {
        let word = || AtomicU64::new(0);
        let memory = Memory { head: word(), reserved: word(), words: [word(), word()] };
        Self { memory: Arc::new(memory), mutant, latest: std::sync::Arc::default(), writer: false }
    }

    fn for_writer(&self) -> Self {
        Self { writer: true, ..self.clone() }
    }

    fn word(&self, slot: u64) -> &AtomicU64 {
        &self.memory.words[usize::try_from(slot % SLOTS).unwrap()]
    }
}

impl Words for Lane {
    fn load_head(&self, order: Ordering) -> u64 {
        if self.writer { self.latest[0].load(SeqCst) } else { self.memory.head.load(order) }
    }

    fn load_reserved(&self, order: Ordering) -> u64 {
        if self.writer { self.latest[1].load(SeqCst) } else { self.memory.reserved.load(order) }
    }

    fn fence(&self, at: Fence) {
        let dropped = match self.mutant {
            Mutant::NoAnnouncedFence => Some(Fence::Announced),
            Mutant::NoPublishedFence => Some(Fence::Published),
            Mutant::NoCopiedFence => Some(Fence::Copied),
            _ => None,
        };
        if dropped != Some(at) {
            fence(at.ordering());
        }
    }

    fn slots(&self) -> u64 {
        SLOTS
    }

    fn copy_out(&self, _: usize, slot: u64, rows: u64, out: &mut [u8]) {
        for (row, bytes) in (0..rows).zip(out.chunks_exact_mut(8)) {
            let value = self.word(slot + row).load(Ordering::Relaxed);
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

impl WordsMut for Lane {
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.latest[1].store(value, SeqCst);
        if self.mutant != Mutant::ReserveAfterWrite {
            self.memory.reserved.store(value, order);
        }
    }

    fn store_head(&self, value: u64, order: Ordering) {
        self.latest[0].store(value, SeqCst);
        if self.mutant == Mutant::ReserveAfterWrite {
            self.memory.reserved.store(value, Ordering::Relaxed);
        }
        let relaxed = self.mutant == Mutant::RelaxedHead;
        self.memory.head.store(value, if relaxed { Ordering::Relaxed } else { order });
    }

    fn copy_in(&self, _: usize, slot: u64, row: &[u8]) {
        let value = u64::from_ne_bytes(row.try_into().unwrap());
        self.word(slot).store(value, Ordering::Relaxed);
        if self.mutant == Mutant::UnannouncedRow {
            self.word(slot + 1).store(value + 1, Ordering::Relaxed);
        }
    }
}

/// What happened over all executions of a model: one that never accepts or never rejects proves
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
    writer.write(0, 0, &(writer.head() + 1).to_ne_bytes());
    if publish {
        writer.publish(1);
    }
}

/// Reads every row that is readable, and fails on one that is not the row asked for.
fn read_all(lane: &Lane, seen: &Seen) {
    let rows = readable(lane, SLOTS);
    if rows.is_empty() {
        return;
    }
    let count = rows.end - rows.start;
    let mut bytes = vec![0; usize::try_from(count).unwrap() * 8];
    lane.copy_out(0, rows.start % SLOTS, count, &mut bytes);
    if !still_whole(lane, rows.start) {
        seen.lapped.fetch_add(1, SeqCst);
        return;
    }
    seen.accepted.fetch_add(1, SeqCst);
    for (seq, word) in rows.zip(bytes.chunks_exact(8)) {
        let value = u64::from_ne_bytes(word.try_into().unwrap());
        assert_eq!(value, seq + 1, "torn: row {seq} was accepted with the word of another");
    }
}

fn run(model: impl Fn(&Seen) + Send + Sync + 'static) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let passed = catch_unwind(AssertUnwindSafe(|| {
        loom::model(move || {
            counters.executions.fetch_add(1, SeqCst);
            model(&counters);
        });
    }));
    (passed.is_ok(), seen)
}

/// One writer fills the lane twice over while a reader looks.
fn publish_and_validate(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(move |seen| {
        let lane = Lane::new(mutant);
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

/// A writer dies in the middle of a row; its successor goes on while a reader looks.
fn recovery(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(move |seen| {
        let lane = Lane::new(mutant);
        let mine = lane.for_writer();
        let writer = thread::spawn(move || {
            let mut first = LaneWriter::adopt(mine.clone(), 1).unwrap();
            append(&mut first, true);
            append(&mut first, true);
            append(&mut first, false);
            // Dead. The lane's lock orders the successor after it.
            drop(first);
            if mine.mutant == Mutant::LoweredReserved {
                mine.store_reserved(mine.load_head(Ordering::Relaxed), Ordering::Relaxed);
            }
            let mut second = LaneWriter::adopt(mine, 1).unwrap();
            append(&mut second, true);
        });
        read_all(&lane, seen);
        writer.join().unwrap();
    })
}

/// A step of two lanes pays one fence, after both announcements (or, as a mutant, between them).
fn two_lanes(fence_first: bool) -> (bool, std::sync::Arc<Seen>) {
    run(move |seen| {
        let lanes = [Lane::new(Mutant::None), Lane::new(Mutant::None)];
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
                    lane.write(0, 0, &(lane.head() + 1).to_ne_bytes());
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
