//! Leases: rows read in place, which no writer overwrites while the lease lives.

pub(crate) mod retention;

use std::ops::Range;

use backcast_layout::protocol::Words;
use backcast_layout::{Column, PinnedRows};

use crate::error::LeaseError;
use crate::ring::Ring;
use crate::ring::lane_inspection::InspectedLane;
use crate::row_header::{PARTS, ROW_HEADERS, RowHeader};
use crate::schema::USER;

/// Consecutive rows of one lane, pinned and read in place. Dropping it unblocks writers.
///
/// The writer overwrites no row from its first one on. A lease of the oldest rows of a full lane
/// stops the writer after `slots - capacity` further rows. A lease of new rows stops it after about
/// as many rows as the lane keeps. The lane policy of the ring determines what the writer does
/// then.
#[derive(Debug)]
pub struct Lease {
    // Dropped before `ring`: the pin holds the ring too, and its last holder removes it.
    hold: PinnedRows,
    ring: Ring,
    lane: u32,
    range: Range<u64>,
}

impl Ring {
    /// Leases rows of a lane: no copy, no waiting. At most a quarter of a lane's rows, or all of a
    /// snapshot's.
    ///
    /// A handle without leases claims a reader slot for its first one by a few system calls, and
    /// releases it with its last. This takes some microseconds. One lease that is kept saves this
    /// for all others.
    pub fn lease(&self, lane: u32, range: Range<u64>) -> Result<Lease, LeaseError> {
        self.unless_relocated(|| self.lease_once(lane, range.clone()), Result::is_err)
    }

    fn lease_once(&self, lane: u32, range: Range<u64>) -> Result<Lease, LeaseError> {
        let spec = self.store().spec();
        if !spec.policy.grants_leases() && !spec.snapshot {
            return Err(LeaseError::Overwrite);
        }
        let Some(InspectedLane { memory, rows: readable, .. }) = self.inspect_lane(lane) else {
            return Err(LeaseError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        let (from, to) = (range.start, range.end);
        let (asked, lane_capacity) = (to.saturating_sub(from), memory.capacity());
        let limit = if spec.snapshot { lane_capacity } else { (lane_capacity / 4).max(1) };
        if !(1..=limit).contains(&asked) {
            return Err(LeaseError::BadLength { asked, limit, lane_capacity });
        }
        if from < readable.start || to > readable.end {
            let (oldest, head) = (readable.start, readable.end);
            return Err(LeaseError::NotReadable { lane, from, to, oldest, head });
        }
        let slots = memory.slots();
        if memory.address(ROW_HEADERS, from % slots, asked).is_none() {
            let split = from - from % slots + slots - 1;
            return Err(LeaseError::Wraps { lane, from, to, split });
        }
        let book = self.leases()?.ok_or(LeaseError::NoSlot { slots: spec.reader_slots })?;
        let hold = book.hold(lane, &memory, from)?;
        let lease = Lease { hold, ring: self.clone(), lane, range };
        for seq in [from, to - 1] {
            let found = RowHeader::read(lease.hold.memory(), seq).seq;
            if found != seq {
                return Err(LeaseError::Damaged { lane, seq, found });
            }
        }
        Ok(lease)
    }
}

impl Lease {
    /// Returns lane and sequence numbers.
    #[must_use]
    pub fn place(&self) -> (u32, Range<u64>) {
        (self.lane, self.range.clone())
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX)
    }

    /// Returns whether no row is leased, which is never the case.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns every column, the built-in `seq`, `episode`, `t`, `flags` first.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        self.ring.schema().all()
    }

    /// Returns the address of the first row of a column, and the distance to the next row. The
    /// distance is the width of the column, except for the built-in ones, which share one array.
    /// Valid while the lease lives. `None` if there is no such column.
    ///
    /// No process that keeps the protocol writes there meanwhile. Other processes of the same user
    /// are trusted for that and for nothing else, so this is an address and not a slice.
    #[must_use]
    pub fn address(&self, column: usize) -> Option<(*const u8, usize)> {
        let StoredColumn { stored, offset, stride, .. } = self.stored(column)?;
        let (memory, rows) = (self.hold.memory(), self.range.end - self.range.start);
        let first = memory.address(stored, self.range.start % memory.slots(), rows)?;
        Some((first.wrapping_add(offset), stride))
    }

    /// Copies one row of a column. Returns `false` if there is no such row or column, or if `out`
    /// has another width.
    #[must_use]
    pub fn copy_row(&self, column: usize, row: usize, out: &mut [u8]) -> bool {
        let Some(place) = self.stored(column).filter(|place| place.width == out.len()) else {
            return false;
        };
        if row >= self.len() {
            return false;
        }
        let memory = self.hold.memory();
        let seq = self.range.start + row as u64;
        if place.stored == ROW_HEADERS {
            let mark = RowHeader::read(memory, seq);
            let part = &bytemuck::bytes_of(&mark)[place.offset..place.offset + place.width];
            out.copy_from_slice(part);
        } else {
            memory.copy_out(place.stored, seq % memory.slots(), 1, out);
        }
        true
    }

    /// Returns the place of a column in the file.
    fn stored(&self, column: usize) -> Option<StoredColumn> {
        let width = self.columns().get(column)?.width();
        if let Some(part) = PARTS.get(column) {
            let (stored, offset, stride) = (ROW_HEADERS, part.offset, size_of::<RowHeader>());
            return Some(StoredColumn { stored, offset, stride, width });
        }
        Some(StoredColumn { stored: column - PARTS.len() + USER, offset: 0, stride: width, width })
    }

    /// Returns the number of the reader slot that holds the lease.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.hold.book().slot()
    }

    /// Returns how often a writer waited, dropped or failed because of this lease. The oldest lease
    /// of a handle on a lane counts for the newer ones, which the writer has not met. Returns 0 in
    /// a forked child.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.hold.stalls()
    }

    /// Returns the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}

/// Place of a column in the file of a lane.
struct StoredColumn {
    /// Number of the file's column.
    stored: usize,
    /// Offset of the column within a row of the file's column.
    offset: usize,
    /// Distance between rows.
    stride: usize,
    width: usize,
}

#[cfg(test)]
mod tests;
