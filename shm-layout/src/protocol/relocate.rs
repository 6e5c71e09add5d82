//! Relocates a lane to a larger file while readers read it. No row is lost, and a reader that saw a
//! row does not miss it later.
//!
//! The new file is a lane that no other process uses yet. Rows are copied to it from the old one.
//! First the process that resizes copies, beside the writer, with the checks that every reader
//! makes ([`Relocator::catch_up`]). The holder of the lane does the rest, while no row is
//! published. It copies the last rows, then stores [`RELOCATED`] as the old lane's `reserved`
//! ([`Relocator::finish`]).
//!
//! From then on every copy from the old file fails its check, since `reserved` is beyond every row.
//! A reader that has the old file mapped learns of the relocation from a word that it reads anyway.
//! It issues the fence [`Fence::Relocated`] and reads the new file, which has all rows. A pin set
//! after the relocation is refused, as if a writer had overwritten the rows. Rows that were pinned
//! before do not change: no process writes the old file any more.

use std::sync::atomic::Ordering;

use super::publish::{Fence, Words, WordsMut, readable, still_whole};

/// `reserved` of a lane that was relocated.
pub const RELOCATED: u64 = 1 << 63;

/// Returns whether a lane was relocated: all its rows are in the file that takes its place.
#[inline]
pub fn has_relocated<L: Words>(lane: &L) -> bool {
    // ORDERING: relaxed load and acquire fence, since readers map lanes read-only.
    let relocated = lane.load_reserved(Ordering::Relaxed) == RELOCATED;
    if relocated {
        lane.fence(Fence::Relocated);
    }
    relocated
}

/// Copy of the rows of a lane to the lane that takes its place.
#[derive(Debug)]
pub struct Relocator<'a, O, N> {
    old: &'a O,
    new: &'a N,
    /// Bytes of a row, per column of the file.
    widths: &'a [usize],
    /// Rows copied at a time.
    block: u64,
    buffer: Vec<u8>,
}

impl<'a, O: Words, N: WordsMut> Relocator<'a, O, N> {
    /// Returns a relocator for columns with rows of `widths` bytes, which copies `block` rows at a
    /// time.
    ///
    /// At most one process relocates a lane at any time.
    pub fn new(old: &'a O, new: &'a N, widths: &'a [usize], block: u64) -> Self {
        Self { old, new, widths, block: block.clamp(1, new.slots()), buffer: Vec::new() }
    }

    /// Copies the rows that the new lane lacks, and returns how many. Leaves out rows that the
    /// writer of the old lane overwrites first, and all before them.
    pub fn catch_up(&mut self) -> u64 {
        let mut copied = 0;
        loop {
            let rows = readable(self.old, self.old.slots());
            // ORDERING: relaxed; no other process writes the new lane. The lane's lock, or the
            // count `resizes` and the acquire fence in `readable`, order this process after the one
            // that wrote it before.
            let mut at = self.new.load_head(Ordering::Relaxed);
            if at < rows.start || at > rows.end {
                at = rows.start;
                self.begin(at);
            }
            let to = rows.end.min(at.saturating_add(self.block));
            if at >= to {
                return copied;
            }
            // Like a writer, announce what is overwritten in the new lane first. If this process is
            // killed, its successor finds a lane with correct counters.
            let announced = self.new.load_reserved(Ordering::Relaxed).max(to);
            self.new.store_reserved(announced, Ordering::Relaxed);
            self.new.fence(Fence::Announced);
            self.copy(at, to - at);
            if still_whole(self.old, at) {
                // ORDERING: release, like every store of a head.
                self.new.store_head(to, Ordering::Release);
                copied += to - at;
            }
        }
    }

    /// Copies the rows that are missing and marks the old lane as relocated. The caller holds the
    /// lane, so that no row is published meanwhile. Returns `false` if the counters of the lanes
    /// are impossible; then the old lane has not changed.
    #[must_use]
    pub fn finish(&mut self) -> bool
    where
        O: WordsMut,
    {
        self.catch_up();
        if self.old.load_head(Ordering::Relaxed) != self.new.load_head(Ordering::Relaxed) {
            return false;
        }
        // ORDERING: release: pairs with `Fence::Relocated`. A reader that sees this value sees the
        // rows and the head of the new lane.
        self.old.store_reserved(RELOCATED, Ordering::Release);
        true
    }

    /// Makes `row` the first row of the new lane. Older rows do not exist there.
    fn begin(&self, row: u64) {
        // The slots of older rows hold other bytes. This value of `reserved` makes those rows
        // unreadable: it announces rows up to a lap after the first one.
        let reserved = if row == 0 { 0 } else { row.saturating_add(self.new.slots()) };
        let reserved = self.new.load_reserved(Ordering::Relaxed).max(reserved);
        self.new.store_reserved(reserved, Ordering::Relaxed);
        self.new.store_head(row, Ordering::Relaxed);
    }

    fn copy(&mut self, at: u64, rows: u64) {
        let (from, to) = (at % self.old.slots(), at % self.new.slots());
        for (column, width) in self.widths.iter().enumerate() {
            let bytes = usize::try_from(rows).unwrap_or(0).saturating_mul(*width);
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
            let buffer = &mut self.buffer[..bytes];
            self.old.copy_out(column, from, rows, buffer);
            self.new.copy_rows_in(column, to, rows, buffer);
        }
    }
}
