//! `ring.lim`: the limits between inserted transitions and drawn items, both counts, and marks of
//! the processes that wait.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::Relaxed, fence};

use bytemuck::{Pod, Zeroable};

use crate::layout::origin::header_crc;
use crate::os::mapping::Mapping;

/// Bit of a counter's word that is set while a process may sleep until the count has grown.
pub const WAITED: u64 = 1 << 63;
/// Bits of a counter's word that hold the count.
pub const COUNT: u64 = (1 << 48) - 1;
/// Increment of a counter's word for one generation.
pub const GENERATION: u64 = COUNT + 1;
/// Bits of a counter's word that hold the generation.
pub const GENERATIONS: u64 = !(WAITED | COUNT);
/// Bit of a mark that is set while a sampler waits for rows that fill a batch.
const AWAITS_ROWS: u64 = 1 << 63;
/// First bytes of `ring.lim`.
pub const LIMITER_MAGIC: [u8; 8] = *b"\x89BKQ\r\n\x1a\n";
/// Attempts to read limits that other processes change meanwhile.
const ATTEMPTS: u32 = 64;
/// Number of words of the limits.
const LIMIT_WORDS: usize = size_of::<LimitBytes>() / 8;

/// Stored limits. `backcast-core` checks them on each read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct LimitBytes {
    /// Bits of an f64: samples per insert.
    pub samples_per_insert: u64,
    /// Transitions before the first draw.
    pub min_size: u64,
    /// Bits of an f64: smallest difference between inserts × `samples_per_insert` and samples.
    pub min_diff: u64,
    /// Bits of an f64: largest difference.
    pub max_diff: u64,
    /// Bit 0: whether the limiter is on. Bits 8 to 15: behaviour of writers while no sampler is
    /// alive. Bits 16 to 23: behaviour of samplers while no writer is alive.
    pub switches: u64,
}

/// Header of `ring.lim`, written once by the creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LimiterHeader {
    /// [`LIMITER_MAGIC`].
    pub magic: [u8; 8],
    /// Random id of the ring, as in the superblock.
    pub ring_uuid: [u8; 16],
    /// Lanes, as in the superblock.
    pub lane_count: u32,
    /// Reader slots, as in the superblock.
    pub reader_slots: u32,
    /// Limits at creation.
    pub made: LimitBytes,
    /// Zero.
    pub unused: [u8; 52],
    /// CRC-32 of all bytes before it.
    pub crc32: u32,
}

/// A limit counter. Used for its offsets only: in memory its fields are atomics.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LimitCounterBytes {
    /// Bits 0 to 47: the count. Bits 48 to 62: the generation of the limits, in the counter of
    /// inserts. Bit 63: a process waits.
    pub count: u64,
    /// Count at which sleepers are woken; 2^64 - 1 if none waits.
    pub wake_at: u64,
    /// Count of wake-ups; sleepers sleep on this word.
    pub seq: u32,
    /// Zero.
    pub unused1: u32,
    /// Number of waits for the other counter.
    pub waits: u64,
    /// Total nanoseconds of those waits.
    pub waited_ns: u64,
    /// Zero.
    pub unused2: [u8; 88],
}

/// Limits on their own cache line. Used for their offsets only.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LimitSlotBytes {
    /// The limits.
    pub limits: LimitBytes,
    /// Count of inserts at which writers stop, plus 1; 0 without a ceiling.
    pub ceiling: u64,
    /// Zero.
    pub unused: [u8; 80],
}

/// Counts at the last drop of rows. Used for its offsets only.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct LimitDeletesBytes {
    /// Inserted transitions that could not be drawn any more after the last drop of rows.
    pub deletes: u64,
    /// Inserted transitions at the last drop of rows.
    pub dropped_at: u64,
    /// Count of samples below which no draw gives items back.
    pub least_samples: u64,
    /// Zero.
    pub unused: [u8; 104],
}

/// Mark of a waiting process. Used for its offsets only.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct WaitMarkBytes {
    /// Beginning of the wait in milliseconds since 1970, or 0 while the process does not wait.
    pub since_unix_ms: u64,
    /// Transitions or items that it waits to insert or draw. Bit 63: a sampler waits for rows.
    pub wanted: u64,
}

const INSERTS_AT: usize = size_of::<LimiterHeader>();
const SAMPLES_AT: usize = INSERTS_AT + size_of::<LimitCounterBytes>();
const SLOTS_AT: usize = SAMPLES_AT + size_of::<LimitCounterBytes>();
const DELETES_AT: usize = SLOTS_AT + 2 * size_of::<LimitSlotBytes>();
const MARKS_AT: usize = DELETES_AT + size_of::<LimitDeletesBytes>();

const _: () = {
    assert!(size_of::<LimitBytes>() == 40);
    assert!(size_of::<LimiterHeader>() == 128);
    assert!(size_of::<LimitCounterBytes>() == 128);
    assert!(size_of::<LimitSlotBytes>() == 128);
    assert!(size_of::<LimitDeletesBytes>() == 128);
    assert!(size_of::<WaitMarkBytes>() == 16);
};

impl LimiterHeader {
    pub(crate) fn new(
        ring_uuid: [u8; 16],
        lane_count: u32,
        reader_slots: u32,
        made: LimitBytes,
    ) -> Self {
        let magic = LIMITER_MAGIC;
        let unused = [0; 52];
        let mut header =
            Self { magic, ring_uuid, lane_count, reader_slots, made, unused, crc32: 0 };
        header.crc32 = header_crc(&header);
        header
    }

    /// Returns the first bytes of a new file: nothing is counted, and the limits are those of the
    /// header. All bytes after them are zero.
    pub(crate) fn file(self) -> Vec<u8> {
        let counter = LimitCounterBytes {
            count: 0,
            wake_at: u64::MAX,
            seq: 0,
            unused1: 0,
            waits: 0,
            waited_ns: 0,
            unused2: [0; 88],
        };
        let limits = LimitSlotBytes { limits: self.made, ceiling: 0, unused: [0; 80] };
        let mut bytes = bytemuck::bytes_of(&self).to_vec();
        for part in [counter, counter] {
            bytes.extend_from_slice(bytemuck::bytes_of(&part));
        }
        for part in [limits, limits] {
            bytes.extend_from_slice(bytemuck::bytes_of(&part));
        }
        bytes
    }
}

/// Returns the first byte of the limits of a generation.
fn slot_at(generation: u64) -> usize {
    SLOTS_AT + usize::from(generation & GENERATION != 0) * size_of::<LimitSlotBytes>()
}

/// Returns the stored word of a ceiling.
fn stored_ceiling(ceiling: Option<u64>) -> u64 {
    ceiling.map_or(0, |ceiling| ceiling.min(COUNT) + 1)
}

/// Counts of a limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts {
    /// Inserted transitions.
    pub inserts: u64,
    /// Drawn items.
    pub samples: u64,
    /// Inserted transitions that could not be drawn any more after the last drop of rows.
    pub deletes: u64,
    /// Inserted transitions at the last drop of rows.
    pub dropped_at: u64,
}

/// Side of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitedSide {
    /// Writers, which insert transitions.
    Inserts,
    /// Samplers, which draw items.
    Samples,
}

impl LimitedSide {
    /// Returns the side whose count this side waits for.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Inserts => Self::Samples,
            Self::Samples => Self::Inserts,
        }
    }
}

/// Mark of a waiting process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitMark {
    /// Beginning of the wait in milliseconds since 1970, or 0 while the process does not wait.
    pub since_unix_ms: u64,
    /// Transitions or items that it waits to insert or draw.
    pub wanted: u64,
    /// Whether the process is a sampler that has its batch counted, and waits for rows.
    pub awaits_rows: bool,
}

/// The mapped file `ring.lim`.
#[derive(Debug)]
pub struct LimiterTable {
    map: Mapping,
    made: LimitBytes,
    lanes: u32,
    slots: u32,
}

impl LimiterTable {
    /// Wraps the mapped file. `made` are the limits in its header.
    pub(crate) fn new(map: Mapping, made: LimitBytes, lanes: u32, slots: u32) -> Self {
        Self { map, made, lanes, slots }
    }

    /// Allocates a table on the heap.
    pub(crate) fn heap(made: LimitBytes, lanes: u32, slots: u32) -> io::Result<Self> {
        let len = usize::try_from(Self::bytes(lanes, slots));
        let map = Mapping::heap(len.map_err(|_| io::ErrorKind::OutOfMemory)?)?;
        let table = Self::new(map, made, lanes, slots);
        for side in [LimitedSide::Inserts, LimitedSide::Samples] {
            table.counter(side).wake_at.store(u64::MAX, Relaxed);
        }
        table.store_slot(0, made);
        Ok(table)
    }

    /// Returns the bytes of the file before rounding to pages.
    pub(crate) fn bytes(lanes: u32, slots: u32) -> u64 {
        let marks = u64::from(lanes) + u64::from(slots);
        MARKS_AT as u64 + marks * size_of::<WaitMarkBytes>() as u64
    }

    /// Returns the limits that the ring was created with.
    #[must_use]
    pub fn made(&self) -> LimitBytes {
        self.made
    }

    /// Returns the counter of inserted transitions or of drawn items.
    #[inline]
    #[must_use]
    pub fn counter(&self, side: LimitedSide) -> SharedCounter<'_> {
        static NEVER: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
        static NO_SEQ: AtomicU32 = AtomicU32::new(0);
        let at = match side {
            LimitedSide::Inserts => INSERTS_AT,
            LimitedSide::Samples => SAMPLES_AT,
        };
        // The counters are part of every mapping. The fallback is never used, and avoids a panic.
        let words = self.map.words64(at, 5).and_then(<[_]>::first_chunk).unwrap_or(&NEVER);
        let [count, wake_at, _, waits, waited_ns] = words;
        let seq = self.map.words32(at + offset_of!(LimitCounterBytes, seq), 1);
        let seq = seq.and_then(<[_]>::first).unwrap_or(&NO_SEQ);
        SharedCounter { count, wake_at, seq, waits, waited_ns }
    }

    /// Loads the word of the counter of inserts.
    #[inline]
    #[must_use]
    pub fn load_inserts(&self, order: Ordering) -> u64 {
        self.map.words64(INSERTS_AT, 1).and_then(<[_]>::first).map_or(0, |word| word.load(order))
    }

    /// Returns the transitions that could not be drawn any more after the last drop of rows, and
    /// the inserts at that time.
    #[must_use]
    pub fn deletes(&self) -> (u64, u64) {
        self.deletes_words().map_or((0, 0), |[deletes, dropped_at, _]| {
            // ORDERING: pairs with the release in `count_deletes`.
            (deletes.load(Ordering::Acquire) & COUNT, dropped_at.load(Ordering::Acquire) & COUNT)
        })
    }

    /// Returns the count of samples below which no draw gives items back: the draws that counted as
    /// made when rows were dropped.
    #[must_use]
    pub fn least_samples(&self) -> u64 {
        self.deletes_words().map_or(0, |[_, _, least]| least.load(Relaxed) & COUNT)
    }

    /// Raises the counts of [`deletes`](Self::deletes) and of
    /// [`least_samples`](Self::least_samples).
    pub fn count_deletes(&self, deletes: u64, dropped_at: u64, least_samples: u64) {
        if let Some([deletes_word, dropped_word, least_word]) = self.deletes_words() {
            least_word.fetch_max(least_samples & COUNT, Relaxed);
            dropped_word.fetch_max(dropped_at & COUNT, Ordering::Release);
            deletes_word.fetch_max(deletes & COUNT, Ordering::Release);
        }
    }

    /// Sets all counts before any process uses the table.
    pub(crate) fn set_counts(&self, counts: LimitCounts) {
        self.counter(LimitedSide::Inserts).count.store(counts.inserts & COUNT, Relaxed);
        self.store_other_counts(counts);
    }

    fn store_other_counts(&self, LimitCounts { samples, deletes, dropped_at, .. }: LimitCounts) {
        let counter = self.counter(LimitedSide::Samples);
        // Keep the bit of sleepers.
        counter.count.fetch_and(!COUNT, Relaxed);
        counter.count.fetch_or(samples & COUNT, Relaxed);
        if let Some([deletes_word, dropped_word, least_word]) = self.deletes_words() {
            least_word.store(0, Relaxed);
            deletes_word.store(deletes & COUNT, Relaxed);
            dropped_word.store(dropped_at & COUNT, Relaxed);
        }
    }

    fn deletes_words(&self) -> Option<&[AtomicU64; 3]> {
        self.map.words64(DELETES_AT, 3)?.first_chunk()
    }

    /// Returns the limits and their generation. Returns `None` if they changed during every
    /// attempt, which only a hostile process can cause.
    #[must_use]
    pub fn limits(&self) -> Option<(LimitBytes, u64)> {
        for _ in 0..ATTEMPTS {
            // ORDERING: pairs with the release in `change`: the slot of this generation is
            // complete.
            let generation = self.load_inserts(Ordering::Acquire) & GENERATIONS;
            let limits = self.load_slot(generation);
            // ORDERING: keeps the loads above before the second load of the generation; pairs with
            // the release fence in `change`.
            fence(Ordering::Acquire);
            if self.load_inserts(Relaxed) & GENERATIONS == generation {
                return Some((limits, generation));
            }
        }
        None
    }

    /// Returns the count of inserts at which writers stop under the limits of a generation; `None`
    /// without a ceiling. It may have been raised since the generation began.
    #[must_use]
    pub fn ceiling(&self, generation: u64) -> Option<u64> {
        // ORDERING: pairs with the release in `set_ceiling`.
        let stored = self.ceiling_word(generation)?.load(Ordering::Acquire);
        stored.checked_sub(1).map(|ceiling| ceiling.min(COUNT))
    }

    /// Sets the count of inserts at which writers stop. The caller must hold the lock of the
    /// limits.
    ///
    /// A higher ceiling is stored in place: bounds that writers keep stay valid. A lower one comes
    /// with a new generation, which ends these bounds in the same step.
    pub(crate) fn set_ceiling(&self, ceiling: Option<u64>) {
        let generation = self.load_inserts(Ordering::Acquire) & GENERATIONS;
        let Some(word) = self.ceiling_word(generation) else { return };
        let is_raised = match (self.ceiling(generation), ceiling) {
            (_, None) => true,
            (Some(before), Some(after)) => after >= before,
            (None, Some(_)) => false,
        };
        if is_raised {
            // ORDERING: pairs with the acquire in `ceiling`.
            word.store(stored_ceiling(ceiling), Ordering::Release);
        } else {
            self.change_with(self.load_slot(generation), None, ceiling);
        }
    }

    /// Puts other limits into force, and other counts if they are given. The ceiling stays. The
    /// caller must hold the lock of the limits.
    pub(crate) fn change(&self, limits: LimitBytes, counts: Option<LimitCounts>) {
        let generation = self.load_inserts(Ordering::Acquire) & GENERATIONS;
        self.change_with(limits, counts, self.ceiling(generation));
    }

    fn change_with(&self, limits: LimitBytes, counts: Option<LimitCounts>, ceiling: Option<u64>) {
        if let Some(counts) = counts {
            self.store_other_counts(counts);
        }
        let word = self.load_inserts(Ordering::Acquire);
        let next = word.wrapping_add(GENERATION) & GENERATIONS;
        // ORDERING: a slow reader may still read the earlier limits of this slot. If it loads a
        // word of the new ones, it then finds the generation changed. Pairs with the fence in
        // `limits`.
        fence(Ordering::Release);
        self.store_slot(next, limits);
        if let Some(word) = self.ceiling_word(next) {
            word.store(stored_ceiling(ceiling), Relaxed);
        }
        let counter = self.counter(LimitedSide::Inserts);
        let mut word = word;
        loop {
            let changed = match counts {
                Some(counts) => (word & WAITED) | next | (counts.inserts & COUNT),
                None => (word & !GENERATIONS) | next,
            };
            // ORDERING: release: the slot is complete; pairs with the load in `limits`.
            match counter.count.compare_exchange(word, changed, Ordering::AcqRel, Relaxed) {
                Ok(_) => return,
                Err(there) => word = there,
            }
        }
    }

    fn slot(&self, generation: u64) -> Option<&[AtomicU64; LIMIT_WORDS]> {
        self.map.words64(slot_at(generation), LIMIT_WORDS)?.first_chunk()
    }

    fn ceiling_word(&self, generation: u64) -> Option<&AtomicU64> {
        let at = slot_at(generation) + offset_of!(LimitSlotBytes, ceiling);
        self.map.words64(at, 1)?.first()
    }

    fn load_slot(&self, generation: u64) -> LimitBytes {
        let Some(words) = self.slot(generation) else { return LimitBytes::default() };
        bytemuck::cast(words.each_ref().map(|word| word.load(Relaxed)))
    }

    fn store_slot(&self, generation: u64, limits: LimitBytes) {
        let Some(words) = self.slot(generation) else { return };
        let values: [u64; LIMIT_WORDS] = bytemuck::cast(limits);
        for (word, value) in words.iter().zip(values) {
            word.store(value, Relaxed);
        }
    }

    /// Returns the mark of the writer whose first lane is `lane`.
    #[must_use]
    pub fn writer_mark(&self, lane: u32) -> WaitMark {
        self.mark((lane < self.lanes).then_some(lane.into()))
    }

    /// Sets the mark of a writer. The caller must hold the lane.
    pub fn mark_writer(&self, lane: u32, mark: WaitMark) {
        self.set_mark((lane < self.lanes).then_some(lane.into()), mark);
    }

    /// Returns the mark of the sampler in a reader slot.
    #[must_use]
    pub fn sampler_mark(&self, slot: u32) -> WaitMark {
        self.mark((slot < self.slots).then(|| u64::from(self.lanes) + u64::from(slot)))
    }

    /// Sets the mark of a sampler. The caller must hold the slot.
    pub fn mark_sampler(&self, slot: u32, mark: WaitMark) {
        let number = (slot < self.slots).then(|| u64::from(self.lanes) + u64::from(slot));
        self.set_mark(number, mark);
    }

    fn mark_words(&self, number: Option<u64>) -> Option<&[AtomicU64; 2]> {
        let at = MARKS_AT + usize::try_from(number?).ok()? * size_of::<WaitMarkBytes>();
        self.map.words64(at, 2)?.first_chunk()
    }

    fn mark(&self, number: Option<u64>) -> WaitMark {
        self.mark_words(number).map_or_else(WaitMark::default, |[since, wanted]| WaitMark {
            since_unix_ms: since.load(Relaxed),
            wanted: wanted.load(Relaxed) & !AWAITS_ROWS,
            awaits_rows: wanted.load(Relaxed) & AWAITS_ROWS != 0,
        })
    }

    fn set_mark(&self, number: Option<u64>, mark: WaitMark) {
        if let Some([since, wanted]) = self.mark_words(number) {
            let awaits_rows = if mark.awaits_rows { AWAITS_ROWS } else { 0 };
            wanted.store((mark.wanted & !AWAITS_ROWS) | awaits_rows, Relaxed);
            since.store(mark.since_unix_ms, Relaxed);
        }
    }
}

/// One of the two counters of a limiter.
#[derive(Clone, Copy, Debug)]
pub struct SharedCounter<'a> {
    pub(crate) count: &'a AtomicU64,
    pub(crate) wake_at: &'a AtomicU64,
    pub(crate) seq: &'a AtomicU32,
    waits: &'a AtomicU64,
    waited_ns: &'a AtomicU64,
}

impl SharedCounter<'_> {
    /// Counts the beginning of a wait of this side.
    pub fn count_wait(&self) {
        self.waits.fetch_add(1, Relaxed);
    }

    /// Adds the time of a wait of this side.
    pub fn count_waited(&self, ns: u64) {
        self.waited_ns.fetch_add(ns, Relaxed);
    }

    /// Returns the number of waits of this side, and the total nanoseconds of those that have
    /// ended.
    #[must_use]
    pub fn waits(&self) -> (u64, u64) {
        (self.waits.load(Relaxed), self.waited_ns.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(number: u64) -> LimitBytes {
        LimitBytes {
            samples_per_insert: number,
            min_size: number,
            min_diff: number,
            max_diff: number,
            switches: number,
        }
    }

    #[test]
    fn limits_are_read_whole_while_they_change() {
        let table = LimiterTable::heap(limits(0), 3, 2).unwrap();
        std::thread::scope(|scope| {
            let changer = scope.spawn(|| {
                for number in 1..=20_000 {
                    table.change(limits(number), None);
                }
            });
            let mut last = 0;
            while !changer.is_finished() {
                let Some((found, _)) = table.limits() else { continue };
                assert_eq!(found, limits(found.min_size), "a mixture");
                assert!(found.min_size >= last);
                last = found.min_size;
            }
        });
        assert_eq!(table.limits().unwrap().0, limits(20_000));
    }

    #[test]
    fn a_ceiling_stays_when_limits_change_and_a_lower_one_ends_the_bounds_of_writers() {
        let table = LimiterTable::heap(limits(0), 3, 2).unwrap();
        let generation = || table.load_inserts(Relaxed) & GENERATIONS;
        let ceiling = || table.ceiling(generation());
        assert_eq!(ceiling(), None);
        for (set, is_lower) in [
            (Some(70), true),
            (Some(70), false),
            (Some(90), false),
            (Some(0), true),
            (Some(u64::MAX), false),
            (None, false),
            (Some(5), true),
        ] {
            let before = generation();
            table.set_ceiling(set);
            assert_eq!(ceiling(), set.map(|set| set.min(COUNT)));
            assert_eq!(generation() != before, is_lower, "{set:?}");
        }
        for number in 1..4 {
            table.change(limits(number), None);
            assert_eq!((ceiling(), table.limits().unwrap().0), (Some(5), limits(number)));
        }
        table.ceiling_word(generation()).unwrap().store(u64::MAX, Relaxed);
        assert_eq!(ceiling(), Some(COUNT), "every word is bounded");
    }

    #[test]
    fn marks_of_writers_and_samplers_are_apart() {
        let table = LimiterTable::heap(limits(0), 3, 2).unwrap();
        let mark = |number| WaitMark {
            since_unix_ms: number,
            wanted: number + 1,
            awaits_rows: number % 2 == 1,
        };
        (0..3).for_each(|lane| table.mark_writer(lane, mark(u64::from(lane) + 10)));
        (0..2).for_each(|slot| table.mark_sampler(slot, mark(u64::from(slot) + 20)));
        table.mark_writer(3, mark(1));
        table.mark_sampler(2, mark(1));
        assert_eq!([0, 1, 2].map(|lane| table.writer_mark(lane)), [10, 11, 12].map(mark));
        assert_eq!([0, 1].map(|slot| table.sampler_mark(slot)), [20, 21].map(mark));
        assert_eq!([table.writer_mark(3), table.sampler_mark(2)], [WaitMark::default(); 2]);
    }
}
