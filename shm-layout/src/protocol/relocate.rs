//! Moving a lane to a larger file while readers read it: no row is lost, and nobody who saw a row
//! misses it later.
//!
//! The new file is a lane like any other that nobody knows yet. Rows are copied to it from the old
//! one, at first by whoever asked for the move, beside the writer, with the checks that every reader
//! makes ([`Mover::catch_up`]). The rest is for the one who holds the lane, when no row can come in
//! between: the last rows are copied, then the old lane's `reserved` becomes [`MOVED`]
//! ([`Mover::finish`]).
//!
//! From then on every copy that is made in the old file fails its check, as `reserved` is beyond
//! everything, so a reader that has the old file mapped finds out where it looks anyway. It passes
//! [`Fence::Moved`] and looks at the new file, which has all rows. A pin made too late fails as if a
//! writer had been faster. Rows that were pinned before stay as they are: nobody writes the old file
//! any more.

use std::sync::atomic::Ordering;

use super::publish::{Fence, Words, WordsMut, readable, still_whole};

/// `reserved` of a lane that moved.
pub const MOVED: u64 = 1 << 63;

/// Whether a lane moved: all its rows are in the file that takes its place.
#[inline]
pub fn has_moved<L: Words>(lane: &L) -> bool {
    // ORDERING: relaxed load and acquire fence, since readers map lanes read-only.
    let moved = lane.load_reserved(Ordering::Relaxed) == MOVED;
    if moved {
        lane.fence(Fence::Moved);
    }
    moved
}

/// Copies the rows of a lane to the one that takes its place.
#[derive(Debug)]
pub struct Mover<'a, O, N> {
    old: &'a O,
    new: &'a N,
    /// Bytes of a row, per column of the file.
    widths: &'a [usize],
    /// Rows copied at a time.
    block: u64,
    buffer: Vec<u8>,
}

impl<'a, O: Words, N: WordsMut> Mover<'a, O, N> {
    /// For rows of `widths` bytes a column, `block` of them at a time.
    ///
    /// At any time one process at most moves a lane.
    pub fn new(old: &'a O, new: &'a N, widths: &'a [usize], block: u64) -> Self {
        Self { old, new, widths, block: block.clamp(1, new.slots()), buffer: Vec::new() }
    }

    /// Copies what the old lane has and the new one lacks, and returns how many rows that was.
    /// Rows that the old lane's writer overwrites first are left out, with all before them.
    pub fn catch_up(&mut self) -> u64 {
        let mut copied = 0;
        loop {
            let rows = readable(self.old, self.old.slots());
            // ORDERING: relaxed; nobody else writes the new lane. Its lock, or the news of the resize
            // and the acquire fence in `readable`, order us after who did before.
            let mut at = self.new.load_head(Ordering::Relaxed);
            if at < rows.start || at > rows.end {
                at = rows.start;
                self.begin(at);
            }
            let to = rows.end.min(at.saturating_add(self.block));
            if at >= to {
                return copied;
            }
            // As a writer does: what is overwritten in the new lane is announced before. Whoever
            // goes on after a kill finds a lane that holds what it says.
            let announced = self.new.load_reserved(Ordering::Relaxed).max(to);
            self.new.store_reserved(announced, Ordering::Relaxed);
            self.new.fence(Fence::Announced);
            self.copy(at, to - at);
            if still_whole(self.old, at) {
                // ORDERING: release, as every head.
                self.new.store_head(to, Ordering::Release);
                copied += to - at;
            }
        }
    }

    /// Copies the rows that are missing and says that the lane moved. For the one who holds the lane:
    /// nobody publishes meanwhile. `false`: the lanes' counters are impossible, nothing moved.
    #[must_use]
    pub fn finish(&mut self) -> bool
    where
        O: WordsMut,
    {
        self.catch_up();
        if self.old.load_head(Ordering::Relaxed) != self.new.load_head(Ordering::Relaxed) {
            return false;
        }
        // ORDERING: release: pairs with `Fence::Moved`. Whoever sees this sees the rows in the new
        // lane, and its head.
        self.old.store_reserved(MOVED, Ordering::Release);
        true
    }

    /// Makes the new lane one whose first row will be `row`: older ones do not exist.
    fn begin(&self, row: u64) {
        // What an older row's slot holds is not that row. A writer that had announced rows up to a
        // lap after the first one would leave just this.
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
