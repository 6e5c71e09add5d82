//! A lane claimed by its one writer: stores of rows, and the record of its writers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::kernels::prefetch;
use crate::kernels::racy_copy;
use crate::kernels::racy_copy::asm::ASM;
use crate::layout::lane::{Counter, Lane, PlacedColumn};
use crate::layout::lane_alias::LaneAlias;
use crate::os::byte_lock::Claim;

/// A lane claimed by its one writer. Dropping it releases the lane.
#[derive(Debug)]
pub struct ClaimedLane {
    // Declared before the claim: the memory is unmapped while the lane is still claimed.
    lane: Arc<Lane>,
    _claim: Claim,
}

impl ClaimedLane {
    /// Writes generation, process id and time to the lane. Returns `None` if its memory is mapped
    /// read-only.
    pub(crate) fn new(lane: Arc<Lane>, claim: Claim, now_unix_ns: u64) -> Option<Self> {
        if !lane.memory.writable() {
            return None;
        }
        let set = |counter, value| lane.counter(counter).store(value, Ordering::Relaxed);
        set(Counter::GENERATION, lane.generation().wrapping_add(1));
        set(Counter::PID, u64::from(std::process::id()));
        set(Counter::CLAIMED_UNIX_NS, now_unix_ns);
        Some(Self { lane, _claim: claim })
    }
}

impl ClaimedLane {
    /// Maps the lane a second time, for foreign code that writes rows in place. Returns `None` on
    /// the heap, where no file is mapped, on systems other than Linux, and in builds that copy rows
    /// by words.
    pub fn alias(&self) -> io::Result<Option<LaneAlias>> {
        if self.lane.mirror.is_none() || !cfg!(target_os = "linux") || !ASM {
            return Ok(None);
        }
        #[cfg(target_os = "linux")]
        // SAFETY: a mapped lane's memory is a page-aligned shared mapping of its length, writable
        // (by `new`), and has its columns.
        return unsafe {
            let Lane { memory, columns, slots, resizes, .. } = &*self.lane;
            LaneAlias::of(memory.base(), memory.len(), columns, (*slots, *resizes))
        };
        #[cfg(not(target_os = "linux"))]
        Ok(None)
    }

    /// Returns whether an alias shows this lane in its current memory.
    #[must_use]
    pub fn is_aliased_by(&self, window: &LaneAlias) -> bool {
        window.is_of(self.lane.memory.base(), self.lane.resizes)
    }

    /// Stores one row of every column: `first` into the first one, and row `i` of each of `rest`
    /// into the others. Returns `false` if there are more or fewer columns, if a column has another
    /// size, or if the slot or row `i` does not exist. Some columns may have been written then: the
    /// slot must be written again.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    #[must_use]
    pub fn store_row<const N: usize>(
        &self,
        slot: u64,
        first: [u64; N],
        rest: &[&[u8]],
        (i, of): (usize, usize),
    ) -> bool {
        let Lane { memory, columns, slots, .. } = &*self.lane;
        let Some((begins, others)) = columns.split_first() else { return false };
        if slot >= *slots
            || begins.width != size_of_val(&first)
            || others.len() != rest.len()
            || i >= of
        {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let (base, slot) = (memory.base(), slot as usize);
        // SAFETY: in bounds, as in `write_row`: `slot < slots`.
        let at = |column: &PlacedColumn| unsafe { base.add(column.offset + slot * column.width) };
        // SAFETY: as in `write_row`; a row of `N` words is accessed by words.
        unsafe { racy_copy::store_words(at(begins), first) };
        for (column, rows) in others.iter().zip(rest) {
            if rows.len() != of * column.width {
                return false;
            }
            let row = &rows[i * column.width..][..column.width];
            // SAFETY: as in `write_row`.
            unsafe { racy_copy::copy_in(at(column), row, column.word) };
        }
        true
    }

    /// Prefetches the memory of the row after a slot for writing, in columns of at least a cache
    /// line. Rows of narrow columns share lines. Reads nothing, changes nothing, never fails.
    #[inline]
    pub fn ask_to_store_after(&self, slot: u64) {
        let Lane { memory, columns, .. } = &*self.lane;
        #[expect(clippy::cast_possible_truncation, reason = "only ever asked for, never written")]
        let slot = self.lane.slot_after(slot, 1) as usize;
        for column in columns.iter().filter(|column| column.width >= prefetch::LINE) {
            let at = column.offset.wrapping_add(slot.wrapping_mul(column.width));
            prefetch::prefetch_range_for_write(memory.base().wrapping_add(at), column.width);
        }
    }

    /// Returns the lane's memory.
    #[inline]
    pub(crate) fn memory(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Continues the claim in the memory that replaced this one. Keeps the old memory if the new
    /// one is mapped read-only.
    pub(crate) fn moved_to(self, lane: Arc<Lane>) -> Self {
        if lane.memory.writable() { Self { lane, ..self } } else { self }
    }

    /// Counts a stall: an append that a lease made wait, drop its row or fail.
    pub fn count_stall(&self) {
        self.add(Counter::STALLS, 1);
    }

    /// Counts rows that the writer dropped.
    pub fn count_dropped(&self, rows: u64) {
        self.add(Counter::DROPPED, rows);
    }

    /// Counts an episode that was cut.
    pub fn count_cut(&self) {
        self.add(Counter::CUTS, 1);
    }

    /// Counts an episode whose beginning suggests another autoreset mode.
    pub fn count_suspect_reset(&self) {
        self.add(Counter::SUSPECT_RESETS, 1);
    }

    /// Stores one row of a column.
    #[inline]
    pub(crate) fn write_row(&self, column: usize, slot: u64, row: &[u8]) {
        let PlacedColumn { offset, width, word, .. } = self.lane.placed(column);
        assert!(slot < self.lane.slots && row.len() == width, "{} bytes at slot {slot}", row.len());
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let at = offset + slot as usize * width;
        // SAFETY:
        // - In bounds: `slot < slots`, and the column has `slots` rows of `width` bytes.
        // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
        // - Writable: checked by `new`.
        // - Every other access to the column goes through `racy_copy` (docs/layout.md, rule 2).
        unsafe { racy_copy::copy_in(self.lane.memory.base().add(at), row, word) }
    }

    /// Stores a part of one row of a column of `width` bytes, from byte `at` on.
    #[inline]
    pub(crate) fn write_part(
        &self,
        column: usize,
        slot: u64,
        width: usize,
        at: usize,
        part: &[u8],
    ) {
        let placed = self.lane.placed(column);
        let fits = width == placed.width && at <= width && part.len() <= width - at;
        assert!(slot < self.lane.slots && fits, "{} bytes at byte {at} of slot {slot}", part.len());
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let row = placed.offset + slot as usize * width;
        let base = self.lane.memory.base();
        if ASM || part.len() == width {
            // SAFETY: the reasons in `write_row` hold, and the part lies within the row. `copy_in`
            // asks for an aligned address and whole words of the column. A copy in assembly needs
            // neither; without it, only whole rows come here, which have both.
            return unsafe { racy_copy::copy_in(base.add(row + at), part, placed.word) };
        }
        let mut whole = vec![0; width];
        self.lane.load_rows(column, slot, 1, &mut whole);
        whole[at..at + part.len()].copy_from_slice(part);
        self.write_row(column, slot, &whole);
    }

    fn add(&self, counter: Counter, more: u64) {
        // There is one writer at a time, so a load and a store are enough.
        let word = self.lane.counter(counter);
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}
