//! A lane of the models: its words are atomics of a machine, its rows atomics too or plain memory.
//! One part of its protocol may be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, Ordering::SeqCst};

use backcast_layout::protocol::{Fence, Pins, Words, WordsMut};

/// Memory that the threads of a model share.
pub(crate) trait Machine: Clone {
    /// A word that is accessed atomically.
    type Word;
    /// Plain memory of one word: two unordered accesses, one of them a write, are an error.
    type Cell;

    fn word(&self, value: u64) -> Self::Word;
    fn cell(&self, value: u64) -> Self::Cell;
    fn load(word: &Self::Word, order: Ordering) -> u64;
    fn store(word: &Self::Word, value: u64, order: Ordering);
    fn fence(&self, order: Ordering);
    fn read(cell: &Self::Cell) -> u64;
    fn write(cell: &Self::Cell, value: u64);
}

/// A single change of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    None,
    // Publish and validate.
    NoAnnouncedFence,
    NoPublishedFence,
    NoCopiedFence,
    RelaxedHead,
    /// The announcement is stored only when the row is published.
    ReserveAfterWrite,
    /// A successor lowers what its dead predecessor announced.
    LoweredReserved,
    /// One row more is written than was announced.
    UnannouncedRow,
    /// The fence comes before the last announcement of a step of several lanes.
    EarlyFence,
    // Pins.
    /// The writer's fence orders its announcement before its rows, and not before its scan.
    ReleaseBeforeScan,
    NoPinnedFence,
    /// The reader does not check whether the writer was faster.
    NoSecondLook,
    RelaxedScan,
    RelaxedThaw,
    /// A pin is not a release store: reads under the slot's last lease are not ordered by it.
    RelaxedPin,
    /// The writer scans before it announces.
    ScanFirst,
    /// A second lease moves the pin up although the first one lives.
    SecondLeaseMovesUp,
    /// The pin of a slot that holds a lease is not moved down for an older one.
    OlderLeaseNotPinned,
    /// The writer ignores a pin on rows that it has overwritten.
    PinBehindIgnored,
    /// A lease that is refused takes the slot's pin along, although it has another lease.
    RefusedTakesAll,
    /// A lease that ends takes the slot's pin along, although it has another lease.
    EndTakesAll,
    /// A successor writes what its dead predecessor announced without a scan of the pins.
    AdoptedUnscanned,
    // Slots.
    /// The reaper clears pins without the lock.
    NoLock,
    /// The reaper checks whether the lock is held, and clears pins if it is not.
    LookOnly,
    /// The reaper clears pins after it released the lock.
    LockLetGoEarly,
    /// The new holder clears the pins that it found after it set its own.
    ClearedLate,
    // Relocation.
    /// The mark of relocation is not a release store.
    RelaxedMove,
    NoMovedFence,
    /// The lane is marked as relocated before the last rows were copied.
    MovedEarly,
    /// The writer is notified of the resize by a relaxed store.
    RelaxedNews,
    /// The writer continues in the old lane after it marked it as relocated.
    LeftBehind,
}

enum Rows<M: Machine> {
    /// Copies that are validated.
    Words(Vec<M::Word>),
    /// Leases: one word a row.
    Cells(Vec<M::Cell>),
}

struct Memory<M: Machine> {
    machine: M,
    head: M::Word,
    reserved: M::Word,
    pins: Vec<M::Word>,
    rows: Rows<M>,
    slots: u64,
    /// Words of a row. Word `w` of row `seq` is `seq * width + w + 1`, so no row has the word 0.
    width: u64,
    mutant: Mutant,
    /// `head` and `reserved` as the writers left them, for writers only. The lane's lock orders
    /// them, so a successor's loads can return nothing else. A modelled load by the writer would
    /// hide a reader's load from loom, which tracks only the last access to a location.
    latest: [AtomicU64; 2],
    /// Whether the writer dies in the middle of the next row.
    cut: AtomicBool,
    /// Whether each slot holds a pin.
    pinned: Vec<AtomicBool>,
}

/// A handle on a lane.
pub(crate) struct Lane<M: Machine> {
    memory: Arc<Memory<M>>,
    writer: bool,
}

impl<M: Machine> Clone for Lane<M> {
    fn clone(&self) -> Self {
        Self { memory: Arc::clone(&self.memory), writer: self.writer }
    }
}

impl<M: Machine> Lane<M> {
    /// Returns an empty lane whose rows are copied.
    pub(crate) fn of_words(machine: &M, slots: u64, width: u64, mutant: Mutant) -> Self {
        let words = (0..slots * width).map(|_| machine.word(0)).collect();
        Self::new(machine, slots, width, 0, (0, 0), Rows::Words(words), mutant)
    }

    /// Returns a full lane whose rows are read in place, with `pin` in each of the reader slots.
    pub(crate) fn of_cells(
        machine: &M,
        slots: u64,
        (readers, pin): (usize, u64),
        mutant: Mutant,
    ) -> Self {
        let cells = (0..slots).map(|seq| machine.cell(seq + 1)).collect();
        Self::new(machine, slots, 1, slots, (readers, pin), Rows::Cells(cells), mutant)
    }

    fn new(
        machine: &M,
        slots: u64,
        width: u64,
        head: u64,
        (readers, pin): (usize, u64),
        rows: Rows<M>,
        mutant: Mutant,
    ) -> Self {
        let memory = Memory {
            head: machine.word(head),
            reserved: machine.word(head),
            pins: (0..readers).map(|_| machine.word(pin)).collect(),
            pinned: (0..readers).map(|_| AtomicBool::new(pin != 0)).collect(),
            latest: [head, head].map(AtomicU64::new),
            cut: AtomicBool::new(false),
            machine: machine.clone(),
            rows,
            slots,
            width,
            mutant,
        };
        Self { memory: Arc::new(memory), writer: false }
    }

    /// Returns a handle for writers.
    pub(crate) fn for_writer(&self) -> Self {
        Self { writer: true, ..self.clone() }
    }

    pub(crate) fn mutant(&self) -> Mutant {
        self.memory.mutant
    }

    /// Makes the writer die in the middle of the next row.
    pub(crate) fn cut_next_row(&self) {
        self.memory.cut.store(true, SeqCst);
    }

    /// Returns the bytes of a row.
    pub(crate) fn row(&self, seq: u64) -> Vec<u8> {
        let first = self.first_word(seq);
        (first..first + self.memory.width).flat_map(u64::to_ne_bytes).collect()
    }

    fn first_word(&self, seq: u64) -> u64 {
        seq * self.memory.width + 1
    }

    /// Copies rows, and describes them if they differ from the requested rows.
    pub(crate) fn copy(&self, start: u64, end: u64) -> Option<String> {
        let width = self.memory.width;
        let mut bytes = vec![0; index((end - start) * width) * 8];
        self.copy_out(0, start % self.memory.slots, end - start, &mut bytes);
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        let found: Vec<u64> = words.collect();
        let whole = found.iter().copied().eq(self.first_word(start)..self.first_word(end));
        (!whole).then(|| format!("torn: rows {start}..{end} are {found:?}"))
    }

    /// Reads a leased row by a plain load, and fails unless it is the requested row.
    pub(crate) fn read_in_place(&self, seq: u64) {
        let Rows::Cells(cells) = &self.memory.rows else { panic!("rows of this lane are copied") };
        let value = M::read(&cells[index(seq % self.memory.slots)]);
        assert_eq!(value, seq + 1, "row {seq} changed under its lease");
    }
}

fn index(of: u64) -> usize {
    usize::try_from(of).expect("a small lane")
}

impl<M: Machine> Words for Lane<M> {
    fn load_head(&self, order: Ordering) -> u64 {
        if self.writer {
            return self.memory.latest[0].load(SeqCst);
        }
        M::load(&self.memory.head, order)
    }

    fn load_reserved(&self, order: Ordering) -> u64 {
        if self.writer {
            return self.memory.latest[1].load(SeqCst);
        }
        let reserved = M::load(&self.memory.reserved, order);
        if self.memory.mutant == Mutant::NoSecondLook { 0 } else { reserved }
    }

    fn fence(&self, at: Fence) {
        let order = match (self.memory.mutant, at) {
            (Mutant::NoAnnouncedFence, Fence::Announced)
            | (Mutant::NoPublishedFence, Fence::Published)
            | (Mutant::NoCopiedFence, Fence::Copied)
            | (Mutant::NoPinnedFence, Fence::Pinned)
            | (Mutant::NoMovedFence, Fence::Relocated) => return,
            (Mutant::ReleaseBeforeScan, Fence::AnnouncedToPins) => Ordering::Release,
            _ => at.ordering(),
        };
        self.memory.machine.fence(order);
    }

    fn slots(&self) -> u64 {
        self.memory.slots
    }

    fn copy_out(&self, _: usize, slot: u64, rows: u64, out: &mut [u8]) {
        let Rows::Words(words) = &self.memory.rows else { panic!("rows of this lane are leased") };
        let width = self.memory.width;
        for (k, bytes) in (slot * width..(slot + rows) * width).zip(out.chunks_exact_mut(8)) {
            let value = M::load(&words[index(k) % words.len()], Ordering::Relaxed);
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

impl<M: Machine> WordsMut for Lane<M> {
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.memory.latest[1].store(value, SeqCst);
        if self.memory.mutant != Mutant::ReserveAfterWrite {
            let relaxed = self.memory.mutant == Mutant::RelaxedMove;
            let order = if relaxed { Ordering::Relaxed } else { order };
            M::store(&self.memory.reserved, value, order);
        }
    }

    fn store_head(&self, value: u64, order: Ordering) {
        self.memory.latest[0].store(value, SeqCst);
        if self.memory.mutant == Mutant::ReserveAfterWrite {
            M::store(&self.memory.reserved, value, Ordering::Relaxed);
        }
        let relaxed = self.memory.mutant == Mutant::RelaxedHead;
        M::store(&self.memory.head, value, if relaxed { Ordering::Relaxed } else { order });
    }

    fn copy_in(&self, _: usize, slot: u64, row: &[u8]) {
        let mut values =
            row.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        match &self.memory.rows {
            Rows::Cells(cells) => M::write(&cells[index(slot)], values.next().unwrap()),
            Rows::Words(words) => {
                let width = self.memory.width;
                let written = if self.memory.cut.swap(false, SeqCst) { width / 2 } else { width };
                for (k, value) in (slot * width..slot * width + written).zip(values) {
                    M::store(&words[index(k)], value, Ordering::Relaxed);
                    if self.memory.mutant == Mutant::UnannouncedRow {
                        let next = &words[index(k + width) % words.len()];
                        M::store(next, value + width, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

impl<M: Machine> Pins for Lane<M> {
    fn slots(&self) -> u32 {
        u32::try_from(self.memory.pins.len()).expect("a few readers")
    }

    fn load(&self, slot: u32, order: Ordering) -> u64 {
        let relaxed = self.memory.mutant == Mutant::RelaxedScan;
        let pin = &self.memory.pins[index(slot.into())];
        let pin = M::load(pin, if relaxed { Ordering::Relaxed } else { order });
        let behind = pin != 0 && pin - 1 + self.memory.slots < self.memory.latest[0].load(SeqCst);
        if behind && self.memory.mutant == Mutant::PinBehindIgnored { 0 } else { pin }
    }

    fn store(&self, slot: u32, pin: u64, order: Ordering) {
        let slot = index(slot.into());
        let frozen_anew = !self.memory.pinned[slot].swap(pin != 0, SeqCst) && pin != 0;
        let relaxed = match self.memory.mutant {
            Mutant::RelaxedThaw => true,
            Mutant::RelaxedPin => frozen_anew,
            _ => false,
        };
        let word = &self.memory.pins[slot];
        M::store(word, pin, if relaxed { Ordering::Relaxed } else { order });
    }
}
