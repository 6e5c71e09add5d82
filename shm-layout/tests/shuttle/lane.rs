//! A lane on the weak machine: its words as atomics, its rows as atomics or as plain memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed as Private};

use backcast_layout::protocol::{Fence, Pins, Words, WordsMut};
use shuttle::sync::atomic::Ordering;

use crate::machine::{Cell, Machine, Word};

/// Words of a row; word `w` of row `seq` is `seq * ROW + w + 1`, so that 0 is "never".
pub(crate) const ROW: u64 = 2;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    None,
    // Publish and validate.
    NoAnnouncedFence,
    NoPublishedFence,
    NoCopiedFence,
    RelaxedHead,
    ReserveAfterWrite,
    LoweredReserved,
    UnannouncedRow,
    EarlyFence,
    // Pins.
    ReleaseBeforeScan,
    NoPinnedFence,
    NoSecondLook,
    RelaxedScan,
    RelaxedThaw,
    RelaxedPin,
    ScanFirst,
    SecondLeaseMovesUp,
    // Slots.
    NoLock,
    LookOnly,
    LockLetGoEarly,
    ClearedLate,
}

enum Rows {
    /// For copies that are validated.
    Words(Vec<Word>),
    /// For leases.
    Cells(Vec<Cell>),
}

struct Memory {
    machine: Machine,
    head: Word,
    reserved: Word,
    pins: Vec<Word>,
    rows: Rows,
    slots: u64,
    mutant: Mutant,
    /// The writer dies in the middle of the next row.
    cut: AtomicBool,
    /// The slots that hold a pin.
    pinned: Vec<AtomicBool>,
}

/// A handle on a lane.
#[derive(Clone)]
pub(crate) struct Lane(Arc<Memory>);

impl Lane {
    /// A lane whose rows are copied.
    pub(crate) fn of_words(machine: &Machine, slots: u64, mutant: Mutant) -> Self {
        let words = (0..slots * ROW).map(|_| machine.word(0)).collect();
        Self::new(machine, slots, 0, 0, Rows::Words(words), mutant)
    }

    /// A lane whose rows are read in place, full of rows, with `pin` in each reader slot.
    pub(crate) fn of_cells(
        machine: &Machine,
        slots: u64,
        readers: usize,
        pin: u64,
        mutant: Mutant,
    ) -> Self {
        let cells = (0..slots).map(|seq| machine.cell(first_word(seq))).collect();
        let lane = Self::new(machine, slots, readers, pin, Rows::Cells(cells), mutant);
        lane.0.head.store(slots, Ordering::Relaxed);
        lane.0.reserved.store(slots, Ordering::Relaxed);
        lane
    }

    fn new(
        machine: &Machine,
        slots: u64,
        readers: usize,
        pin: u64,
        rows: Rows,
        mutant: Mutant,
    ) -> Self {
        let pins = (0..readers).map(|_| machine.word(pin)).collect();
        let pinned = (0..readers).map(|_| AtomicBool::new(pin != 0)).collect();
        let (head, reserved) = (machine.word(0), machine.word(0));
        let machine = machine.clone();
        let cut = AtomicBool::new(false);
        Self(Arc::new(Memory { machine, head, reserved, pins, rows, slots, mutant, cut, pinned }))
    }

    pub(crate) fn mutant(&self) -> Mutant {
        self.0.mutant
    }

    /// The writer will die in the middle of the next row.
    pub(crate) fn cut_next_row(&self) {
        self.0.cut.store(true, Private);
    }

    /// Reads a leased row by a plain load.
    pub(crate) fn plain_read(&self, seq: u64) -> u64 {
        let Rows::Cells(cells) = &self.0.rows else { panic!("rows of this lane are copied") };
        cells[index(seq % self.0.slots)].read()
    }
}

/// The first word of a row.
pub(crate) fn first_word(seq: u64) -> u64 {
    seq * ROW + 1
}

/// The bytes of a row.
pub(crate) fn row(seq: u64) -> Vec<u8> {
    (0..ROW).flat_map(|w| (first_word(seq) + w).to_ne_bytes()).collect()
}

fn index(of: u64) -> usize {
    usize::try_from(of).expect("a small lane")
}

impl Words for Lane {
    fn load_head(&self, order: Ordering) -> u64 {
        self.0.head.load(order)
    }

    fn load_reserved(&self, order: Ordering) -> u64 {
        let reserved = self.0.reserved.load(order);
        if self.0.mutant == Mutant::NoSecondLook { 0 } else { reserved }
    }

    fn fence(&self, at: Fence) {
        let order = match (self.0.mutant, at) {
            (Mutant::NoAnnouncedFence, Fence::Announced)
            | (Mutant::NoPublishedFence, Fence::Published)
            | (Mutant::NoCopiedFence, Fence::Copied)
            | (Mutant::NoPinnedFence, Fence::Pinned) => return,
            (Mutant::ReleaseBeforeScan, Fence::AnnouncedToPins) => Ordering::Release,
            _ => at.ordering(),
        };
        self.0.machine.fence(order);
    }

    fn slots(&self) -> u64 {
        self.0.slots
    }

    fn copy_out(&self, _: usize, slot: u64, rows: u64, out: &mut [u8]) {
        let Rows::Words(words) = &self.0.rows else { panic!("rows of this lane are leased") };
        for (k, bytes) in (slot * ROW..(slot + rows) * ROW).zip(out.chunks_exact_mut(8)) {
            let value = words[index(k) % words.len()].load(Ordering::Relaxed);
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

impl WordsMut for Lane {
    fn store_reserved(&self, value: u64, order: Ordering) {
        if self.0.mutant != Mutant::ReserveAfterWrite {
            self.0.reserved.store(value, order);
        }
    }

    fn store_head(&self, value: u64, order: Ordering) {
        if self.0.mutant == Mutant::ReserveAfterWrite {
            self.0.reserved.store(value, Ordering::Relaxed);
        }
        let relaxed = self.0.mutant == Mutant::RelaxedHead;
        self.0.head.store(value, if relaxed { Ordering::Relaxed } else { order });
    }

    fn copy_in(&self, _: usize, slot: u64, row: &[u8]) {
        let mut values =
            row.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        match &self.0.rows {
            Rows::Cells(cells) => cells[index(slot)].write(values.next().unwrap()),
            Rows::Words(words) => {
                let cut = self.0.cut.swap(false, Private);
                let written = if cut { 1 } else { ROW };
                for (k, value) in (slot * ROW..slot * ROW + written).zip(values) {
                    words[index(k)].store(value, Ordering::Relaxed);
                    if self.0.mutant == Mutant::UnannouncedRow {
                        let next = index(k + ROW) % words.len();
                        words[next].store(value + ROW, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

impl Pins for Lane {
    fn slots(&self) -> u32 {
        u32::try_from(self.0.pins.len()).expect("a few readers")
    }

    fn load(&self, slot: u32, order: Ordering) -> u64 {
        let relaxed = self.0.mutant == Mutant::RelaxedScan;
        let pin = &self.0.pins[index(slot.into())];
        pin.load(if relaxed { Ordering::Relaxed } else { order })
    }

    fn store(&self, slot: u32, pin: u64, order: Ordering) {
        let slot = index(slot.into());
        let frozen_anew = !self.0.pinned[slot].swap(pin != 0, Private) && pin != 0;
        let relaxed = match self.0.mutant {
            Mutant::RelaxedThaw => true,
            Mutant::RelaxedPin => frozen_anew,
            _ => false,
        };
        let word = &self.0.pins[slot];
        word.store(pin, if relaxed { Ordering::Relaxed } else { order });
    }
}
