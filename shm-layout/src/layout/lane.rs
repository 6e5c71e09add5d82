//! The memory of one lane: counters and columns, mapped or on the heap.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kernels::prefetch;
use crate::kernels::racy_copy::{self, Word};
use crate::layout::geometry::Geometry;
use crate::layout::lane_header::LaneHeader;
use crate::layout::low_marks::LowMark;
use crate::os::mapping::{Access, Mapping};

/// Memory of a lane, as every process maps it.
///
/// Fields that a copy needs come first, in one cache line: a batch touches many lanes.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lane {
    /// The lane's file or heap memory: counters, and columns for copies. A copy that wraps at the
    /// end of the lane takes two steps. Aligned so that the kernel can use huge pages.
    pub(crate) memory: Mapping,
    pub(crate) columns: Columns,
    pub(crate) slots: u64,
    /// Every column twice, back to back, for leases, which are read in place. `None` on the heap.
    pub(crate) mirror: Option<Mapping>,
    capacity: u64,
    /// Number of the resize that made this memory. 0 if it was made with the ring.
    pub(crate) resizes: u32,
    /// Mark below which readers ignore rows. `None` for memory that only its writer uses.
    low: Option<LowMark>,
}

/// Offset of a counter in a lane's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter(usize);

impl Counter {
    pub(crate) const RESERVED: Self = Self::at(offset_of!(LaneHeader, reserved));
    pub(crate) const HEAD: Self = Self::at(offset_of!(LaneHeader, head));
    pub(crate) const GENERATION: Self = Self::at(offset_of!(LaneHeader, generation));
    pub(crate) const PID: Self = Self::at(offset_of!(LaneHeader, pid));
    pub(crate) const CLAIMED_UNIX_NS: Self = Self::at(offset_of!(LaneHeader, claimed_unix_ns));
    pub(crate) const DROPPED: Self = Self::at(offset_of!(LaneHeader, dropped));
    pub(crate) const STALLS: Self = Self::at(offset_of!(LaneHeader, stalls));
    pub(crate) const CUTS: Self = Self::at(offset_of!(LaneHeader, cuts));
    pub(crate) const SUSPECT_RESETS: Self = Self::at(offset_of!(LaneHeader, suspect_resets));

    const fn at(offset: usize) -> Self {
        assert!(offset.is_multiple_of(8) && offset + 8 <= size_of::<LaneHeader>());
        Self(offset)
    }
}

/// Address at which a later copy begins, so that its memory can be prefetched.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchAddress(*const u8);

impl PrefetchAddress {
    /// Prefetches `len` bytes. Reads nothing, changes nothing, never fails.
    #[inline]
    pub fn prefetch(self, len: usize) {
        prefetch::prefetch_range(self.0, len);
    }
}

/// Places of the columns of a lane. Lanes of one size share the list.
pub(crate) type Columns = Arc<[PlacedColumn]>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedColumn {
    pub(crate) offset: usize,
    length: usize,
    /// Offset in the mirror.
    mirrored: usize,
    pub(crate) width: usize,
    pub(crate) word: Word,
}

/// Returns the places of the columns in a geometry.
pub(crate) fn columns(geometry: &Geometry) -> io::Result<Columns> {
    let mut mirrored = 0;
    let places = geometry.places.iter().map(|place| {
        let (offset, length) = (in_memory(place.offset)?, in_memory(place.length)?);
        let placed =
            PlacedColumn { offset, length, mirrored, width: place.width, word: place.word };
        mirrored += 2 * length;
        Ok(placed)
    });
    places.collect()
}

/// Checks that memory has room for the header of a lane. Every geometry provides it.
fn checked_for_header(memory: Mapping) -> io::Result<Mapping> {
    let there = memory.len() >= size_of::<LaneHeader>();
    there.then_some(memory).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Converts a number of bytes. Fails if it exceeds the address space.
fn in_memory(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(all(test, target_os = "linux"))]
impl PlacedColumn {
    pub(crate) fn of(offset: usize, width: usize) -> Self {
        Self { offset, length: 0, mirrored: 0, width, word: Word::of_width(width) }
    }
}

impl Lane {
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        geometry: &Geometry,
        columns: &Columns,
        resizes: u32,
        access: Access,
    ) -> io::Result<Self> {
        let memory =
            checked_for_header(Mapping::aligned(fd, in_memory(geometry.lane_bytes)?, access)?)?;
        let parts = columns.iter().map(|column| (column.offset, column.length)).collect::<Vec<_>>();
        // Rows of a lease are only read.
        let mirror = Some(Mapping::mirrored(fd, &parts, Access::ReadOnly)?);
        let (columns, slots, capacity) = (columns.clone(), geometry.slots, geometry.lane_capacity);
        Ok(Self { memory, columns, slots, mirror, capacity, resizes, low: None })
    }

    pub(crate) fn heap(geometry: &Geometry, columns: &Columns) -> io::Result<Self> {
        let memory = checked_for_header(Mapping::heap(in_memory(geometry.lane_bytes)?)?)?;
        let (columns, slots, capacity) = (columns.clone(), geometry.slots, geometry.lane_capacity);
        Ok(Self { memory, columns, slots, mirror: None, capacity, resizes: 0, low: None })
    }

    /// Returns the lane with its mark, for readers.
    pub(crate) fn with_low(self, low: LowMark) -> Self {
        Self { low: Some(low), ..self }
    }

    /// Returns the mark below which readers ignore rows. `None` for memory that only its writer
    /// uses.
    #[inline]
    #[must_use]
    pub fn low_mark(&self) -> Option<&LowMark> {
        self.low.as_ref()
    }

    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// Returns the list of the columns.
    #[inline]
    pub(crate) fn columns(&self) -> &[PlacedColumn] {
        &self.columns
    }

    /// Returns the rows that readers may count on.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of the resize that made this memory. 0 if it was made with the ring.
    #[must_use]
    pub fn resizes(&self) -> u32 {
        self.resizes
    }

    /// Returns the bytes of a row, for each column of the file.
    pub(crate) fn widths(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.width).collect()
    }

    /// Returns the bytes of the memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Returns how often the lane was claimed, as its writers counted.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.counter(Counter::GENERATION).load(Ordering::Relaxed)
    }

    /// Returns the process id that the last writer stored. Only for messages.
    #[must_use]
    pub fn pid(&self) -> u64 {
        self.counter(Counter::PID).load(Ordering::Relaxed)
    }

    /// Returns the time of the last claim, in nanoseconds since 1970; 0 if there was none.
    #[must_use]
    pub fn claimed_unix_ns(&self) -> u64 {
        self.counter(Counter::CLAIMED_UNIX_NS).load(Ordering::Relaxed)
    }

    /// Returns the number of rows that writers dropped because of a lease.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counter(Counter::DROPPED).load(Ordering::Relaxed)
    }

    /// Returns how often a writer waited, dropped or failed because of a lease.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.counter(Counter::STALLS).load(Ordering::Relaxed)
    }

    /// Returns the number of episodes that were cut because an append did not begin with the
    /// `next_obs` of the append before it.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.counter(Counter::CUTS).load(Ordering::Relaxed)
    }

    /// Returns the number of episodes whose beginning suggests another autoreset mode.
    #[must_use]
    pub fn suspect_resets(&self) -> u64 {
        self.counter(Counter::SUSPECT_RESETS).load(Ordering::Relaxed)
    }

    /// Returns the address of `rows` consecutive rows of a column, from `slot` on. `None` for rows
    /// that do not exist, and on the heap for rows that run over the end of the lane.
    ///
    /// The address is valid while the lane lives. Plain loads from it are defined only under a
    /// lease.
    #[must_use]
    pub fn address(&self, column: usize, slot: u64, rows: u64) -> Option<*const u8> {
        let PlacedColumn { offset, mirrored, width, .. } = self.columns.get(column).copied()?;
        let (memory, first, contiguous) = match &self.mirror {
            Some(mirror) => (mirror, mirrored, 2 * self.slots),
            None => (&self.memory, offset, self.slots),
        };
        let end = slot.checked_add(rows)?;
        if slot >= self.slots || rows > self.slots || end > contiguous {
            return None;
        }
        let at = usize::try_from(slot).ok()?.checked_mul(width)?.checked_add(first)?;
        Some(memory.base().wrapping_add(at).cast_const())
    }

    #[inline]
    pub(crate) fn counter(&self, Counter(offset): Counter) -> &AtomicU64 {
        // SAFETY:
        // - In bounds and aligned: a counter's place is one of the header, a multiple of 8
        //   (`Counter::at`), and the memory has a header (`checked_for_header`); it begins on a
        //   multiple of 8 at least.
        // - Alive for the borrow: the lane owns the memory.
        // - Every process reaches these bytes through atomics of this size (rule 1 in
        //   docs/layout.md); on read-only pages callers load only, relaxed, which is defined.
        unsafe { AtomicU64::from_ptr(self.memory.base().add(offset).cast()) }
    }

    /// Returns the address of a row of a column, to be prefetched. A row that does not exist gives
    /// an address that is harmless to prefetch.
    #[inline]
    #[must_use]
    pub fn prefetch_address(&self, column: usize, slot: u64) -> PrefetchAddress {
        let Some(PlacedColumn { offset, width, .. }) = self.columns.get(column).copied() else {
            return PrefetchAddress(std::ptr::null());
        };
        #[expect(clippy::cast_possible_truncation, reason = "only ever asked for, never read")]
        let at = (slot as usize).wrapping_mul(width).wrapping_add(offset);
        PrefetchAddress(self.memory.base().wrapping_add(at))
    }

    /// Returns the slot that is `rows` after a slot, wrapping at the end of the lane. `rows` is at
    /// most the number of slots.
    #[inline]
    #[must_use]
    pub fn slot_after(&self, slot: u64, rows: u64) -> u64 {
        let slot = slot + rows;
        if slot < self.slots { slot } else { slot - self.slots }
    }

    #[inline]
    pub(crate) fn placed(&self, column: usize) -> PlacedColumn {
        self.columns[column]
    }

    /// Returns the word that holds the next sequence number to be published.
    #[inline]
    pub(crate) fn head(&self) -> &AtomicU64 {
        self.counter(Counter::HEAD)
    }

    /// Returns the word that holds one past the last row announced.
    #[inline]
    pub(crate) fn reserved(&self) -> &AtomicU64 {
        self.counter(Counter::RESERVED)
    }

    /// Copies rows of a column out of the lane, wrapping at its end.
    #[inline]
    pub(crate) fn load_rows(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        let PlacedColumn { offset, width, word, .. } = self.placed(column);
        assert!(slot < self.slots && rows <= self.slots, "{rows} rows at slot {slot}");
        // In range: both are at most `slots`, and `slots * width` fits the mapping.
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let (slot, rows) = (slot as usize, rows as usize);
        assert_eq!(out.len(), rows * width, "the buffer fits the rows exactly");
        #[expect(clippy::cast_possible_truncation, reason = "the column is in memory")]
        let slots = self.slots as usize;
        let copy = |slot: usize, out: &mut [u8]| {
            // SAFETY:
            // - In bounds: `slot` and the rows that fill `out` are below `slots`, and the column
            //   has that many rows of `width` bytes from `offset` on.
            // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
            // - Every writer of the column uses `racy_copy` (docs/layout.md, rule 2).
            unsafe { racy_copy::copy_out(self.memory.base().add(offset + slot * width), out, word) }
        };
        if slot + rows <= slots {
            copy(slot, out);
        } else {
            let (end, beginning) = out.split_at_mut((slots - slot) * width);
            copy(slot, end);
            copy(0, beginning);
        }
    }

    /// Stores rows of a column, wrapping at the end of the lane. Only the writer of the lane calls
    /// it, or a process that fills a lane that has no writer yet.
    pub(crate) fn store_rows(&self, column: usize, slot: u64, rows: u64, bytes: &[u8]) {
        let PlacedColumn { offset, width, word, .. } = self.placed(column);
        let slots = self.slots;
        assert!(self.memory.writable(), "the lane is mapped for reading");
        assert!(slot < slots && rows <= slots, "{rows} rows at slot {slot}");
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let (first, before_end) = (slot as usize, (slots - slot).min(rows) as usize * width);
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let len = rows as usize * width;
        assert_eq!(bytes.len(), len, "the bytes are those of the rows");
        let (end, beginning) = bytes.split_at(before_end);
        let base = self.memory.base();
        // SAFETY:
        // - In bounds: the rows up to the end of the lane are below `slots`, and the column has
        //   `slots` rows of `width` bytes; the other rows fit at its beginning, since
        //   `rows <= slots`.
        // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
        // - Writable: asserted above.
        // - Every other access to the column goes through `racy_copy` (docs/layout.md, rule 2).
        unsafe {
            racy_copy::copy_in(base.add(offset + first * width), end, word);
            racy_copy::copy_in(base.add(offset), beginning, word);
        }
    }

    /// Sets head and reserved of a lane that no other process can see yet.
    pub(crate) fn restore_counters(&self, head: u64, reserved: u64) {
        // ORDERING: relaxed; a process opens the ring only after its directory was renamed.
        self.store_reserved(reserved, Ordering::Relaxed);
        self.store_head(head, Ordering::Relaxed);
    }

    /// Stores one past the last row announced. The caller holds the lane.
    pub(crate) fn store_reserved(&self, value: u64, order: Ordering) {
        assert!(self.memory.writable(), "the lane is mapped for reading");
        self.counter(Counter::RESERVED).store(value, order);
    }

    /// Stores the next sequence number to be published. The caller holds the lane.
    pub(crate) fn store_head(&self, value: u64, order: Ordering) {
        assert!(self.memory.writable(), "the lane is mapped for reading");
        self.counter(Counter::HEAD).store(value, order);
    }
}

/// Copies the counters of a lane's writers to the lane that replaces it.
pub(crate) fn copy_writer_counters(from: &Lane, to: &Lane) {
    for counter in [
        Counter::GENERATION,
        Counter::PID,
        Counter::CLAIMED_UNIX_NS,
        Counter::DROPPED,
        Counter::STALLS,
        Counter::CUTS,
        Counter::SUSPECT_RESETS,
    ] {
        to.counter(counter).store(from.counter(counter).load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::layout::counted;
    use crate::protocol::{Fence, Words};

    /// Rounds in a test run. Without the processor fence about one round in three million fails.
    const ROUNDS: u64 = 200_000;

    #[test]
    #[expect(clippy::cast_ptr_alignment, reason = "a row of eight bytes begins on a multiple of 8")]
    fn a_row_that_is_stored_past_the_caches_is_never_seen_before_its_announcement() {
        let spec = counted::spec(&[64], 64);
        let geometry = Geometry::of(&spec, 4096).unwrap();
        let lane = Lane::heap(&geometry, &columns(&geometry).unwrap()).unwrap();
        let rounds = backcast_budget::budget(ROUNDS);
        let stop = AtomicBool::new(false);
        let word = lane.address(0, 0, 1).unwrap().cast_mut().cast::<u64>();
        // SAFETY: a word of the lane's first row, which lives as long as the lane, and is accessed
        // by atomics and by the stores below.
        let seen = unsafe { AtomicU64::from_ptr(word) };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let row = seen.load(Ordering::Relaxed);
                    lane.fence(Fence::Copied);
                    let reserved = lane.load_reserved(Ordering::Relaxed);
                    assert!(reserved >= row, "row {row} was stored before it was announced");
                }
            });
            for row in 1..=rounds {
                lane.store_reserved(row, Ordering::Relaxed);
                lane.fence(Fence::Announced);
                // SAFETY: one store to the word above.
                unsafe {
                    std::arch::asm!("movnti [{word}], {row}", word = in(reg) seen.as_ptr(),
                        row = in(reg) row, options(nostack, preserves_flags));
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
