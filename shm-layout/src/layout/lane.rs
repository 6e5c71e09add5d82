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
use crate::os::mapping::{Access, Mapping};

/// A lane's memory as any process may look at it.
///
/// What a copy needs comes first and in one cache line: a batch looks at many lanes.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lane {
    /// The file as it is: counters, and columns for copies, of which one over the end of the lane is
    /// two. Mapped so that the kernel can use huge pages.
    pub(crate) memory: Mapping,
    pub(crate) columns: Columns,
    pub(crate) slots: u64,
    /// Every column twice, back to back, for leases, which are read where they are. None on the heap.
    pub(crate) mirror: Option<Mapping>,
    capacity: u64,
    /// How often the ring had been resized when the lane was made.
    pub(crate) resizes: u32,
}

/// The place of a counter in a lane's header.
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

/// Where a copy will begin. Known before it is made, so that its memory can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead(*const u8);

impl Ahead {
    /// Asks the processor for `len` bytes. Reads nothing, changes nothing, never fails.
    #[inline]
    pub fn ask(self, len: usize) {
        prefetch::ask(self.0, len);
    }
}

/// Where the columns of a lane stand: one list for all lanes of a size.
pub(crate) type Columns = Arc<[Placed]>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) offset: usize,
    length: usize,
    /// In the mirror.
    mirrored: usize,
    pub(crate) width: usize,
    pub(crate) word: Word,
}

/// Where a geometry has the columns.
pub(crate) fn columns(geometry: &Geometry) -> io::Result<Columns> {
    let mut mirrored = 0;
    let places = geometry.places.iter().map(|place| {
        let (offset, length) = (in_memory(place.offset)?, in_memory(place.length)?);
        let placed = Placed { offset, length, mirrored, width: place.width, word: place.word };
        mirrored += 2 * length;
        Ok(placed)
    });
    places.collect()
}

/// Memory that begins with a lane's header, as every geometry's lanes do.
fn with_header(memory: Mapping) -> io::Result<Mapping> {
    let there = memory.len() >= size_of::<LaneHeader>();
    there.then_some(memory).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A number of bytes, if a process can have so many.
fn in_memory(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(all(test, target_os = "linux"))]
impl Placed {
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
        let memory = with_header(Mapping::aligned(fd, in_memory(geometry.lane_bytes)?, access)?)?;
        let parts = columns.iter().map(|column| (column.offset, column.length)).collect::<Vec<_>>();
        // A lease is only ever read.
        let mirror = Some(Mapping::mirrored(fd, &parts, Access::ReadOnly)?);
        let (columns, slots, capacity) = (columns.clone(), geometry.slots, geometry.lane_capacity);
        Ok(Self { memory, columns, slots, mirror, capacity, resizes })
    }

    pub(crate) fn heap(geometry: &Geometry, columns: &Columns) -> io::Result<Self> {
        let memory = with_header(Mapping::heap(in_memory(geometry.lane_bytes)?)?)?;
        let (columns, slots, capacity) = (columns.clone(), geometry.slots, geometry.lane_capacity);
        Ok(Self { memory, columns, slots, mirror: None, capacity, resizes: 0 })
    }

    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// The list of its columns.
    #[inline]
    pub(crate) fn columns(&self) -> &[Placed] {
        &self.columns
    }

    /// Rows that readers may count on.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How often the ring had been resized when this memory was made.
    #[must_use]
    pub fn resizes(&self) -> u32 {
        self.resizes
    }

    /// Bytes of a row of each column of the file.
    pub(crate) fn widths(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.width).collect()
    }

    /// Bytes of the memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// How often the lane was claimed, as its writers say.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.counter(Counter::GENERATION).load(Ordering::Relaxed)
    }

    /// Process id of the last writer, as it says: for people, never for decisions.
    #[must_use]
    pub fn pid(&self) -> u64 {
        self.counter(Counter::PID).load(Ordering::Relaxed)
    }

    /// When it was claimed, nanoseconds since 1970; 0: never.
    #[must_use]
    pub fn claimed_unix_ns(&self) -> u64 {
        self.counter(Counter::CLAIMED_UNIX_NS).load(Ordering::Relaxed)
    }

    /// Rows that writers dropped because a lease was in the way.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counter(Counter::DROPPED).load(Ordering::Relaxed)
    }

    /// How often a writer waited, dropped or failed because of a lease.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.counter(Counter::STALLS).load(Ordering::Relaxed)
    }

    /// Episodes cut because an append did not begin with the `next_obs` of the one before.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.counter(Counter::CUTS).load(Ordering::Relaxed)
    }

    /// Episodes that begin as they hardly do in the writer's autoreset mode.
    #[must_use]
    pub fn suspect_resets(&self) -> u64 {
        self.counter(Counter::SUSPECT_RESETS).load(Ordering::Relaxed)
    }

    /// Where `rows` rows of a column stand one after the other, from `slot` on. `None` for rows
    /// that do not exist, and on the heap for rows that run over the end of the lane.
    ///
    /// The address is valid while the lane lives; what is read there by plain loads is defined
    /// only under a lease.
    #[must_use]
    pub fn address(&self, column: usize, slot: u64, rows: u64) -> Option<*const u8> {
        let Placed { offset, mirrored, width, .. } = self.columns.get(column).copied()?;
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
        // - In bounds and aligned: a counter's place is one of the header, a multiple of 8 (`Counter::at`), and the memory
        //   has a header (`with_header`); it begins on a multiple of 8 at least.
        // - Alive for the borrow: the lane owns the memory.
        // - Every process reaches these bytes through atomics of this size (rule 1 in docs/layout.md); on read-only
        //   pages callers load only, relaxed, which is defined.
        unsafe { AtomicU64::from_ptr(self.memory.base().add(offset).cast()) }
    }

    /// Where rows of a column begin, for asking for them before they are read. Rows that do not
    /// exist are nowhere, and asking for them does nothing.
    #[inline]
    #[must_use]
    pub fn ahead(&self, column: usize, slot: u64) -> Ahead {
        let Some(Placed { offset, width, .. }) = self.columns.get(column).copied() else {
            return Ahead(std::ptr::null());
        };
        #[expect(clippy::cast_possible_truncation, reason = "only ever asked for, never read")]
        let at = (slot as usize).wrapping_mul(width).wrapping_add(offset);
        Ahead(self.memory.base().wrapping_add(at))
    }

    /// The slot so many rows after a slot.
    #[inline]
    #[must_use]
    pub fn slot_after(&self, slot: u64, rows: u64) -> u64 {
        let slot = slot + rows;
        if slot < self.slots { slot } else { slot - self.slots }
    }

    #[inline]
    pub(crate) fn placed(&self, column: usize) -> Placed {
        self.columns[column]
    }

    /// The word of the next sequence number to be published.
    #[inline]
    pub(crate) fn head(&self) -> &AtomicU64 {
        self.counter(Counter::HEAD)
    }

    /// The word of one past the last row announced.
    #[inline]
    pub(crate) fn reserved(&self) -> &AtomicU64 {
        self.counter(Counter::RESERVED)
    }

    /// Copies rows of a column, wrapping at the end.
    #[inline]
    pub(crate) fn load_rows(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        let Placed { offset, width, word, .. } = self.placed(column);
        assert!(slot < self.slots && rows <= self.slots, "{rows} rows at slot {slot}");
        // In range: both are below `slots`, and `slots * width` fits the mapping.
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let (slot, rows) = (slot as usize, rows as usize);
        assert_eq!(out.len(), rows * width, "the buffer fits the rows exactly");
        #[expect(clippy::cast_possible_truncation, reason = "the column is in memory")]
        let slots = self.slots as usize;
        let copy = |slot: usize, out: &mut [u8]| {
            // SAFETY:
            // - In bounds: `slot` and the rows that fill `out` are below `slots`, and the column has
            //   that many rows of `width` bytes from `offset` on.
            // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
            // - Every writer of the column copies as we do (docs/layout.md, rule 2).
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

    /// Stores rows of a column, wrapping at the end. For the lane's one writer, and for whoever
    /// fills a lane that nobody sees yet.
    pub(crate) fn store_rows(&self, column: usize, slot: u64, rows: u64, bytes: &[u8]) {
        let Placed { offset, width, word, .. } = self.placed(column);
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
        // - In bounds: the rows up to the end of the lane are below `slots`, of which the column has
        //   that many of `width` bytes; the rest of them have room at its beginning, since
        //   `rows <= slots`.
        // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
        // - Writable: asserted above.
        // - Every other access to the column copies as we do (docs/layout.md, rule 2).
        unsafe {
            racy_copy::copy_in(base.add(offset + first * width), end, word);
            racy_copy::copy_in(base.add(offset), beginning, word);
        }
    }

    /// Sets both counters of a lane that nobody sees yet.
    pub(crate) fn restore_counters(&self, head: u64, reserved: u64) {
        // ORDERING: relaxed; whoever opens the ring does so after its directory was renamed.
        self.store_reserved(reserved, Ordering::Relaxed);
        self.store_head(head, Ordering::Relaxed);
    }

    /// Sets all that it says of its rows and writers to what a new lane says, while nobody sees it.
    pub(crate) fn forget(&self) {
        for counter in [
            Counter::RESERVED,
            Counter::HEAD,
            Counter::GENERATION,
            Counter::PID,
            Counter::CLAIMED_UNIX_NS,
            Counter::DROPPED,
            Counter::STALLS,
            Counter::CUTS,
            Counter::SUSPECT_RESETS,
        ] {
            self.counter(counter).store(0, Ordering::Relaxed);
        }
    }

    /// For whoever holds the lane.
    pub(crate) fn store_reserved(&self, value: u64, order: Ordering) {
        assert!(self.memory.writable(), "the lane is mapped for reading");
        self.counter(Counter::RESERVED).store(value, order);
    }

    /// For whoever holds the lane.
    pub(crate) fn store_head(&self, value: u64, order: Ordering) {
        assert!(self.memory.writable(), "the lane is mapped for reading");
        self.counter(Counter::HEAD).store(value, order);
    }
}

/// What a lane says of its writers goes along when it moves.
pub(crate) fn copy_signature(from: &Lane, to: &Lane) {
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

    /// Rounds in a test run. Without a fence for the processor about one round in three million is wrong.
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
        // SAFETY: a word of the lane's first row, which lives as long as the lane, and is accessed by atomics
        // and by the stores below.
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
