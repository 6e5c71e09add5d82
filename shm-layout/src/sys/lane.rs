//! The memory of one lane: counters and columns, mapped or on the heap.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::copy::{self, Word};
use super::lock::Claim;
use super::map::{Access, Mapping};
use crate::geometry::Geometry;
use crate::lane_header::LaneHeader;
use crate::protocol::{Fence, Words, WordsMut};

/// A lane's memory as any process may look at it.
#[derive(Debug)]
pub struct Lane {
    memory: Mapping,
    columns: Box<[Placed]>,
    slots: u64,
    /// Mapped columns continue into their own beginning; on the heap a wrap is two copies.
    mirrored: bool,
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    offset: usize,
    width: usize,
    word: Word,
}

impl Lane {
    pub(crate) fn map(fd: BorrowedFd<'_>, geometry: &Geometry, access: Access) -> io::Result<Self> {
        let too_big = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let header = usize::try_from(geometry.lane_header_bytes).map_err(too_big)?;
        let mut parts = Vec::with_capacity(geometry.places.len());
        let mut columns = Vec::with_capacity(geometry.places.len());
        let mut at = header;
        for place in &geometry.places {
            let len = usize::try_from(place.length).map_err(too_big)?;
            parts.push((usize::try_from(place.offset).map_err(too_big)?, len));
            columns.push(Placed { offset: at, width: place.width, word: place.word });
            at += 2 * len;
        }
        let memory = Mapping::mirrored(fd, header, &parts, access)?;
        Ok(Self { memory, columns: columns.into(), slots: geometry.slots, mirrored: true })
    }

    pub(crate) fn heap(geometry: &Geometry) -> io::Result<Self> {
        let too_big = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let memory = Mapping::heap(usize::try_from(geometry.lane_bytes).map_err(too_big)?);
        let columns = geometry
            .places
            .iter()
            .map(|place| {
                let offset = usize::try_from(place.offset).map_err(too_big)?;
                Ok(Placed { offset, width: place.width, word: place.word })
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { memory, columns, slots: geometry.slots, mirrored: false })
    }

    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// How often the lane was claimed, as its writers say.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.counter(offset_of!(LaneHeader, generation)).load(Ordering::Relaxed)
    }

    /// Process id of the last writer, as it says: for people, never for decisions.
    #[must_use]
    pub fn pid(&self) -> u64 {
        self.counter(offset_of!(LaneHeader, pid)).load(Ordering::Relaxed)
    }

    /// Rows that writers dropped because a lease was in the way.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counter(offset_of!(LaneHeader, dropped)).load(Ordering::Relaxed)
    }

    /// How often a writer waited, dropped or failed because of a lease.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.counter(offset_of!(LaneHeader, stalls)).load(Ordering::Relaxed)
    }

    /// Where `rows` rows of a column stand one after the other, from `slot` on. `None` for rows
    /// that do not exist, and on the heap for rows that run over the end of the lane.
    ///
    /// The address is valid while the lane lives; what is read there by plain loads is defined
    /// only under a lease.
    #[must_use]
    pub fn address(&self, column: usize, slot: u64, rows: u64) -> Option<*const u8> {
        let Placed { offset, width, .. } = self.columns.get(column).copied()?;
        let contiguous = if self.mirrored { 2 * self.slots } else { self.slots };
        let end = slot.checked_add(rows)?;
        if slot >= self.slots || rows > self.slots || end > contiguous {
            return None;
        }
        let at = usize::try_from(slot).ok()?.checked_mul(width)?.checked_add(offset)?;
        Some(self.memory.base().wrapping_add(at).cast_const())
    }

    #[inline]
    fn counter(&self, offset: usize) -> &AtomicU64 {
        static NOTHING: AtomicU64 = AtomicU64::new(0);
        // The header is part of every mapping; the fallback only spares a panic path.
        self.memory.words64(offset, 1).and_then(<[_]>::first).unwrap_or(&NOTHING)
    }

    /// Asks the processor for the first cache lines of `rows` rows of a column. Never fails, reads
    /// nothing that can be seen; rows that do not exist are ignored.
    #[inline]
    pub fn prefetch(&self, column: usize, slot: u64, rows: u64) {
        /// More is left to the hardware's own prefetcher, which follows once a copy runs.
        const MOST_LINES: usize = 12;
        const LINE: usize = 64;
        let Some(Placed { offset, width, .. }) = self.columns.get(column).copied() else { return };
        let (Ok(slot), Ok(rows)) = (usize::try_from(slot), usize::try_from(rows)) else { return };
        let first = offset.wrapping_add(slot.wrapping_mul(width)) / LINE * LINE;
        let last = offset.wrapping_add(slot.wrapping_add(rows).wrapping_mul(width));
        for line in (first..last).step_by(LINE).take(MOST_LINES) {
            // The address need not be valid: a prefetch of any address is defined.
            super::prefetch(self.memory.base().wrapping_add(line));
        }
    }

    #[inline]
    fn placed(&self, column: usize) -> Placed {
        self.columns[column]
    }
}

impl Words for Lane {
    #[inline]
    fn load_head(&self, order: Ordering) -> u64 {
        self.counter(offset_of!(LaneHeader, head)).load(order)
    }

    #[inline]
    fn load_reserved(&self, order: Ordering) -> u64 {
        self.counter(offset_of!(LaneHeader, reserved)).load(order)
    }

    #[inline]
    fn fence(&self, at: Fence) {
        fence(at.ordering());
    }

    #[inline]
    fn slots(&self) -> u64 {
        self.slots
    }

    #[inline]
    fn copy_out(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        let Placed { offset, width, word } = self.placed(column);
        assert!(slot < self.slots && rows <= self.slots, "{rows} rows at slot {slot}");
        // In range: both are below `slots`, and `slots * width` fits the mapping.
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let (slot, rows) = (slot as usize, rows as usize);
        assert_eq!(out.len(), rows * width, "the buffer fits the rows exactly");
        #[expect(clippy::cast_possible_truncation, reason = "the column is in memory")]
        let slots = self.slots as usize;
        let copy = |from: usize, out: &mut [u8]| {
            // SAFETY:
            // - In bounds: `from + rows <= slots` on the heap, `<= 2 * slots` in a mirror, and
            //   the column has that many rows of `width` bytes from `offset` on.
            // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
            // - Every writer of the column copies as we do (docs/layout.md, rule 2).
            unsafe { copy::copy_out(self.memory.base().add(offset + from * width), out, word) }
        };
        if self.mirrored || slot + rows <= slots {
            copy(slot, out);
        } else {
            let (end, beginning) = out.split_at_mut((slots - slot) * width);
            copy(slot, end);
            copy(0, beginning);
        }
    }
}

/// A lane in the hands of its one writer; dropping it releases the lane.
#[derive(Debug)]
pub struct ClaimedLane {
    // Before the claim: the memory is let go while the lane is still ours.
    lane: Arc<Lane>,
    _claim: Claim,
}

impl ClaimedLane {
    /// Signs the lane. `None` when its memory is mapped for reading only.
    pub(crate) fn new(lane: Arc<Lane>, claim: Claim, now_unix_ns: u64) -> Option<Self> {
        if !lane.memory.writable() {
            return None;
        }
        let set = |offset, value| lane.counter(offset).store(value, Ordering::Relaxed);
        set(offset_of!(LaneHeader, generation), lane.generation().wrapping_add(1));
        set(offset_of!(LaneHeader, pid), u64::from(std::process::id()));
        set(offset_of!(LaneHeader, claimed_unix_ns), now_unix_ns);
        Some(Self { lane, _claim: claim })
    }
}

impl ClaimedLane {
    /// Notes that a lease made the writer wait, drop or fail, and how many rows it dropped.
    pub fn count_stall(&self, dropped: u64) {
        let add = |offset, more| {
            // One writer at a time, so a load and a store do.
            let word = self.lane.counter(offset);
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(offset_of!(LaneHeader, stalls), 1);
        add(offset_of!(LaneHeader, dropped), dropped);
    }
}

impl Words for ClaimedLane {
    #[inline]
    fn load_head(&self, order: Ordering) -> u64 {
        self.lane.load_head(order)
    }

    #[inline]
    fn load_reserved(&self, order: Ordering) -> u64 {
        self.lane.load_reserved(order)
    }

    #[inline]
    fn fence(&self, at: Fence) {
        self.lane.fence(at);
    }

    #[inline]
    fn slots(&self) -> u64 {
        self.lane.slots
    }

    #[inline]
    fn copy_out(&self, column: usize, slot: u64, rows: u64, out: &mut [u8]) {
        self.lane.copy_out(column, slot, rows, out);
    }
}

impl WordsMut for ClaimedLane {
    #[inline]
    fn store_reserved(&self, value: u64, order: Ordering) {
        self.lane.counter(offset_of!(LaneHeader, reserved)).store(value, order);
    }

    #[inline]
    fn store_head(&self, value: u64, order: Ordering) {
        self.lane.counter(offset_of!(LaneHeader, head)).store(value, order);
    }

    #[inline]
    fn copy_in(&self, column: usize, slot: u64, row: &[u8]) {
        let Placed { offset, width, word } = self.lane.placed(column);
        assert!(slot < self.lane.slots && row.len() == width, "{} bytes at slot {slot}", row.len());
        #[expect(clippy::cast_possible_truncation, reason = "below slots, which fits in memory")]
        let at = offset + slot as usize * width;
        // SAFETY:
        // - In bounds: `slot < slots`, and the column has `slots` rows of `width` bytes.
        // - Aligned: columns begin on multiples of 8, and `word` divides `width`.
        // - Writable: checked by `new`.
        // - Every other access to the column copies as we do (docs/layout.md, rule 2).
        unsafe { copy::copy_in(self.lane.memory.base().add(at), row, word) }
    }
}
