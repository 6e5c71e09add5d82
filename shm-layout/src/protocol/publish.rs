//! Publish and validate: the orderings by which an accepted row is whole.
//!
//! Generic over [`Words`].
//!
//! A lane has one writer and any number of readers. The writer announces rows before it touches
//! their slots and publishes them after:
//!
//! 1. `reserved = r` (relaxed), release fence ([`Fence::Announced`]);
//! 2. the rows' words (relaxed);
//! 3. `head = h` (release).
//!
//! A reader takes `head` (relaxed, then [`Fence::Published`], an acquire fence), and copies rows
//! `start..` below it by relaxed words. It then issues [`Fence::Copied`] (acquire), and accepts the
//! copy iff `reserved <= start + slots`.
//!
//! An accepted row is whole. It is not older: the release store of `head` and the reader's acquire
//! fence order the row's words before the reader's loads. It is not newer: a word of a later row in
//! the same slot was stored after the fence that follows `reserved > start + slots`. A reader that
//! saw such a word and then issued its own fence must see that `reserved`, and rejects the copy.
//! `reserved` never goes down, not even in recovery, so the argument survives a killed writer.

use std::ops::Range;
use std::sync::atomic::Ordering;

/// Largest sequence number plus one: indices keep 48 bits for it.
pub const MAX_SEQ: u64 = 1 << 48;

/// Fences of the protocol, named by the place of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Writer, between announcing rows and writing them. Release.
    Announced,
    /// Writer, between announcing rows and scanning the pins, on a lane that grants leases.
    /// Sequentially consistent, which includes release.
    AnnouncedToPins,
    /// Reader, between pinning rows and re-reading `reserved`. Sequentially consistent.
    Pinned,
    /// Reader, between loading `head` and copying rows. Acquire.
    Published,
    /// Reader, between copying rows and re-reading `reserved`. Acquire.
    Copied,
    /// Reader, between seeing that a lane was relocated and reading the one that replaces it.
    /// Acquire.
    Relocated,
}

impl Fence {
    /// Returns the ordering of the fence at this place.
    #[must_use]
    pub fn ordering(self) -> Ordering {
        match self {
            // ORDERING: pairs with `Copied`: a reader that saw a word written after it and issues
            // `Copied` sees the announcement before it.
            Fence::Announced => Ordering::Release,
            // ORDERING: these two pair with each other: of "reserved, then pins" and "pin, then
            // reserved" at least one side sees the other's store.
            Fence::AnnouncedToPins | Fence::Pinned => Ordering::SeqCst,
            // ORDERING: pairs with the release store of `head` in `LaneWriter::publish`.
            // ORDERING: `Copied` pairs with `Announced`.
            // ORDERING: `Relocated` pairs with the last store of `reserved` in `Relocator::finish`.
            Fence::Published | Fence::Copied | Fence::Relocated => Ordering::Acquire,
        }
    }
}

/// Memory of a lane, as a reader needs it.
pub trait Words {
    /// Loads the next sequence number to be published.
    fn load_head(&self, order: Ordering) -> u64;
    /// Loads one past the last row announced.
    fn load_reserved(&self, order: Ordering) -> u64;
    /// Issues the memory fence that the protocol needs at this point.
    fn fence(&self, at: Fence);
    /// Returns the rows that the lane has room for.
    fn slots(&self) -> u64;
    /// Copies `rows` rows of a column from `slot` on, by relaxed words, wrapping at the end.
    fn copy_out(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]);
}

/// Memory of a lane, as its one writer needs it.
pub trait WordsMut: Words {
    /// Stores one past the last row announced.
    fn store_reserved(&self, value: u64, order: Ordering);
    /// Stores the next sequence number to be published.
    fn store_head(&self, value: u64, order: Ordering);
    /// Stores one row of a column, by relaxed words.
    fn copy_in(&self, column: usize, slot: u64, row: &[u8]);
    /// Stores a part of one row of a column, whose rows have `width` bytes, from byte `at` on.
    ///
    /// All accesses to a column have one size. The default stores the whole row again, since a part
    /// may be smaller.
    fn copy_part_in(&self, column: usize, slot: u64, width: usize, at: usize, part: &[u8]) {
        let mut row = vec![0; width];
        self.copy_out(column, slot, 1, &mut row);
        row[at..at + part.len()].copy_from_slice(part);
        self.copy_in(column, slot, &row);
    }
    /// Stores `rows` rows of a column, one after the other from `slot` on, wrapping at the end.
    fn copy_rows_in(&self, column: usize, slot: u64, rows: u64, bytes: &[u8]) {
        let width = bytes.len() / usize::try_from(rows.max(1)).unwrap_or(usize::MAX);
        for (at, row) in (slot..slot + rows).zip(bytes.chunks_exact(width.max(1))) {
            self.copy_in(column, if at < self.slots() { at } else { at - self.slots() }, row);
        }
    }
}

/// Counters that no writer of this protocol leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lane's counters are impossible (head {head}, reserved {reserved}, slots {slots}); create \
     the ring again"
)]
pub struct ImpossibleCounters {
    /// Published rows according to the lane.
    pub head: u64,
    /// Announced rows according to the lane.
    pub reserved: u64,
    /// Slots of the lane.
    pub slots: u64,
}

/// Single writer of a lane. Its counters are private copies: the shared ones are only written.
#[derive(Debug)]
pub struct LaneWriter<L> {
    lane: L,
    head: u64,
    /// `head` modulo the slots. Cached: a division per column costs more than the copy of a small
    /// column.
    slot: u64,
    reserved: u64,
    /// One past the last announced row whose slot no pin froze at the last scan. Announced rows
    /// beyond it wait.
    free: u64,
    chunk: u64,
}

impl<L: WordsMut> LaneWriter<L> {
    /// Takes over a lane without a writer, new or left by a dead one.
    ///
    /// Rows that were announced but not published stay announced: their slots may be half
    /// written, and lowering `reserved` would let a torn row through.
    pub fn adopt(lane: L, chunk: u64) -> Result<Self, ImpossibleCounters> {
        // ORDERING: relaxed is enough. The lane's lock, taken before, orders this process after its
        // last holder. Values that a faulty peer stored are checked here.
        let head = lane.load_head(Ordering::Relaxed);
        let reserved = lane.load_reserved(Ordering::Relaxed);
        let slots = lane.slots();
        if head >= MAX_SEQ || reserved < head || reserved - head > slots {
            return Err(ImpossibleCounters { head, reserved, slots });
        }
        // Pins may freeze the slots of rows that the last writer announced: scan before the first
        // row.
        Ok(Self { lane, head, slot: head % slots, reserved, free: head, chunk })
    }

    /// Continues in the lane that `on` returns: the memory to which the lane was relocated, with
    /// all its rows.
    #[must_use]
    pub fn relocated(self, on: impl FnOnce(L) -> L) -> Self {
        let Self { lane, head, chunk, .. } = self;
        let lane = on(lane);
        let slots = lane.slots();
        // ORDERING: relaxed; this process stored the value. A value of a faulty peer is clamped
        // here.
        let reserved = lane.load_reserved(Ordering::Relaxed).clamp(head, head + slots);
        Self { lane, head, slot: head % slots, reserved, free: head, chunk }
    }

    /// Returns the sequence number of the next row.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the slot of the next row.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns the lane's memory.
    pub fn lane(&self) -> &L {
        &self.lane
    }

    /// Returns whether `rows` rows may be written without another announcement or scan.
    #[inline]
    pub fn is_free(&self, rows: u64) -> bool {
        self.head + rows <= self.free
    }

    /// Announces at least `rows` rows from `head` on. Returns `true` if
    /// [`announced`](Self::announced) or [`announced_to_pins`](Self::announced_to_pins), and then
    /// [`settle`](Self::settle), must be called before any of them is written. One fence serves
    /// many lanes.
    #[inline]
    #[must_use]
    pub fn reserve(&mut self, rows: u64) -> bool {
        if self.is_free(rows) {
            return false;
        }
        if self.head + rows > self.reserved {
            // Announce a chunk at a time. Readers re-read `reserved`, which then changes less often
            // than rows are published, and the fence is paid once per chunk.
            self.reserved = self.head + rows.max(self.chunk);
            self.lane.store_reserved(self.reserved, Ordering::Relaxed);
        }
        true
    }

    /// Issues the fence between announcing and writing.
    pub fn announced(&self) {
        self.lane.fence(Fence::Announced);
    }

    /// Issues the fence between announcing and scanning the pins, on a lane that grants leases.
    pub fn announced_to_pins(&self) {
        self.lane.fence(Fence::AnnouncedToPins);
    }

    /// Records the result of the scan: rows may be written up to the slot of the first frozen row.
    /// Returns whether `rows` rows may be written now.
    #[must_use]
    pub fn settle(&mut self, first_frozen: Option<u64>, rows: u64) -> bool {
        let frozen_slot =
            first_frozen.map_or(u64::MAX, |row| row.saturating_add(self.lane.slots()));
        self.free = self.reserved.min(frozen_slot).min(MAX_SEQ - 1);
        self.is_free(rows)
    }

    /// Writes a column of row `head + ahead`.
    ///
    /// # Panics
    /// If the row was not reserved, or is frozen.
    #[inline]
    pub fn write(&self, column: usize, ahead: u64, row: &[u8]) {
        assert!(self.is_free(ahead + 1), "row {ahead} past head was not reserved");
        self.lane.copy_in(column, self.slot_after(ahead), row);
    }

    /// Writes a part of a column of row `head + ahead`, from byte `at` of the row on.
    ///
    /// # Panics
    /// If the row was not reserved, or is frozen, or the part is not within the row's `width`
    /// bytes.
    #[inline]
    pub fn write_part(&self, column: usize, ahead: u64, width: usize, at: usize, part: &[u8]) {
        assert!(self.is_free(ahead + 1), "row {ahead} past head was not reserved");
        self.lane.copy_part_in(column, self.slot_after(ahead), width, at, part);
    }

    /// Writes a column of the next `rows` rows.
    ///
    /// # Panics
    /// If they were not reserved, or are frozen.
    #[inline]
    pub fn write_rows(&self, column: usize, rows: u64, bytes: &[u8]) {
        assert!(self.is_free(rows), "{rows} rows were not all reserved");
        self.lane.copy_rows_in(column, self.slot, rows, bytes);
    }

    /// Returns the slot of the next row. `None` if it was not reserved, or is frozen.
    #[inline]
    #[must_use]
    pub fn free_slot(&self) -> Option<u64> {
        self.is_free(1).then_some(self.slot)
    }

    /// Returns the slot of row `head + ahead`. A reserved row is less than a lap ahead, so one
    /// subtraction is enough.
    #[inline]
    fn slot_after(&self, ahead: u64) -> u64 {
        let slot = self.slot + ahead;
        if slot < self.lane.slots() { slot } else { slot - self.lane.slots() }
    }

    /// Makes the next `rows` rows visible.
    ///
    /// # Panics
    /// If they were not reserved, or are frozen.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    pub fn publish(&mut self, rows: u64) {
        assert!(self.is_free(rows), "{rows} rows were not all reserved");
        self.slot = self.slot_after(rows);
        self.head += rows;
        // ORDERING: pairs with `Fence::Published`: a reader that sees this head sees the rows.
        self.lane.store_head(self.head, Ordering::Release);
    }
}

/// Returns the sequence numbers of a lane that can be read now: at most `capacity`, oldest first.
///
/// The range is empty if the head is above [`MAX_SEQ`], or the lane is relocated.
pub fn readable<L: Words>(lane: &L, capacity: u64) -> Range<u64> {
    // ORDERING: relaxed load and acquire fence rather than an acquire load: only relaxed loads
    // are defined on read-only pages.
    let head = lane.load_head(Ordering::Relaxed);
    lane.fence(Fence::Published);
    let reserved = lane.load_reserved(Ordering::Relaxed);
    let slots = lane.slots();
    if head > MAX_SEQ {
        return 0..0;
    }
    let oldest = head.saturating_sub(capacity.min(slots)).max(reserved.saturating_sub(slots));
    oldest.min(head)..head
}

/// Returns whether rows copied from `start` on were not overwritten during the copy.
///
/// Returns `false` if the writer has announced that it reuses one of their slots ("lapped").
pub fn still_whole<L: Words>(lane: &L, start: u64) -> bool {
    lane.fence(Fence::Copied);
    // ORDERING: relaxed; the fence above orders it after the copies.
    lane.load_reserved(Ordering::Relaxed) <= start.saturating_add(lane.slots())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counters without rows.
    #[derive(Default)]
    struct Counters {
        head: Cell<u64>,
        reserved: Cell<u64>,
    }

    impl Words for &Counters {
        fn load_head(&self, _: Ordering) -> u64 {
            self.head.get()
        }

        fn load_reserved(&self, _: Ordering) -> u64 {
            self.reserved.get()
        }

        fn fence(&self, _: Fence) {}

        fn slots(&self) -> u64 {
            4
        }

        fn copy_out(&self, _: usize, _: u64, _: u64, _: &mut [u8]) {}
    }

    impl WordsMut for &Counters {
        fn store_reserved(&self, value: u64, _: Ordering) {
            self.reserved.set(value);
        }

        fn store_head(&self, value: u64, _: Ordering) {
            self.head.set(value);
        }

        fn copy_in(&self, _: usize, _: u64, _: &[u8]) {}
    }

    #[test]
    fn a_successor_scans_the_pins_before_it_writes_rows_that_were_announced() {
        let lane = Counters::default();
        let mut dies = LaneWriter::adopt(&lane, 2).unwrap();
        assert!(dies.reserve(1));
        assert!(dies.settle(None, 1));
        dies.publish(1);
        assert!(dies.is_free(1), "the chunk was announced and scanned for");
        let mut writer = LaneWriter::adopt(&lane, 2).unwrap();
        assert!(!writer.is_free(1));
        assert!(writer.reserve(1), "a scan is asked for");
        assert_eq!(lane.reserved.get(), 2, "the row was announced already");
        assert!(writer.settle(None, 1));
    }

    #[test]
    fn a_writer_goes_on_up_to_the_slot_of_the_first_frozen_row_and_never_past_it() {
        let lane = Counters::default();
        let mut writer = LaneWriter::adopt(&lane, 2).unwrap();
        for _ in 0..6 {
            let _ = writer.reserve(1) && writer.settle(None, 1);
            writer.publish(1);
        }
        // Row 6 takes the slot of row 2; a pin on rows that are overwritten stops it too.
        for (frozen, free) in [(3, true), (2, false), (1, false), (0, false)] {
            assert_eq!(writer.reserve(1) && writer.settle(Some(frozen), 1), free, "row {frozen}");
            let _ = writer.settle(Some(0), 1);
        }
    }
}
