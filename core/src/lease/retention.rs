//! Pins rows of a whole ring until a follower has read them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use backcast_layout::protocol::{HeldRows, PinError, Words, has_relocated, notify, readable};
use backcast_layout::{ClaimedReader, Lane, ReaderPinsError, RingStore};

use crate::error::{LeaseError, ReadError};
use crate::ring::Ring;
use crate::ring::copy_rows::copy_columns;
use crate::schema::Schema;

/// Pins the rows of each lane from some row on, for a follower of a ring that must not lose a row.
/// The follower moves the pin forward. Rows are copied and not read in place, so a pin may cover a
/// whole lane.
///
/// Writers that reach the pin follow the lane policy of the ring, as with leases. The pin ends with
/// its process, however that dies, and takes one reader slot.
#[derive(Debug)]
pub struct RetentionPin {
    reader: ClaimedReader,
    store: Arc<RingStore>,
    schema: Schema,
    /// Memory of the pinned rows: for a relocated lane the old memory, until all rows pinned there
    /// were read.
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// First pinned row of each lane.
    kept: Vec<HeldRows>,
    /// A forked child has a copy of everything here, and must not release its parent's pins.
    pid: u32,
}

impl RetentionPin {
    /// Claims a reader slot and pins nothing yet.
    pub fn new(ring: &Ring) -> Result<Self, LeaseError> {
        let store = Arc::clone(ring.store());
        let (spec, pid) = (store.spec(), std::process::id());
        if !spec.policy.grants_leases() {
            return Err(LeaseError::Overwrite);
        }
        let (slots, lanes) = (spec.reader_slots, spec.lanes as usize);
        let reader = store.claim_reader()?.ok_or(LeaseError::NoSlot { slots })?;
        let schema = ring.schema().clone();
        let mapped = Mutex::new(store.lanes().to_vec());
        let kept = (0..lanes).map(|_| HeldRows::default()).collect();
        Ok(Self { reader, store, schema, lanes: mapped, kept, pid })
    }

    /// Pins the rows of a lane from `from` on, instead of those pinned before. They may be rows
    /// that are not written yet. Fails if the first of them is already overwritten; the pin then
    /// stays as it was. Makes no system call unless a writer waits or the lane was relocated.
    pub fn keep(&mut self, lane: u32, from: u64) -> Result<(), LeaseError> {
        let lanes = self.store.spec().lanes;
        let no_lane = || LeaseError::NoSuchLane { lane: lane.into(), lanes };
        let before = self.kept.get(lane as usize).ok_or_else(no_lane)?.oldest();
        if before == Some(from) {
            return Ok(());
        }
        // The present pin covers newer rows, in whichever memory they are. Older rows must be in
        // the current memory of the lane, which then has the pinned rows too.
        let covered = before.is_some_and(|before| before < from);
        let mut memory = if covered { self.mapped(lane) } else { self.newest(lane) };
        let mut held = self.hold(lane, memory.as_deref().ok_or_else(no_lane)?, from);
        if held.is_err() && memory.as_deref().is_some_and(has_relocated) {
            // The lane was relocated just now. One retry is enough: a ring is not resized again so
            // soon.
            memory = self.newest(lane);
            held = self.hold(lane, memory.as_deref().ok_or_else(no_lane)?, from);
        }
        if held.is_ok() {
            if let (false, Some(memory)) = (covered, memory) {
                self.map(lane, memory);
            }
            if let Some(before) = before {
                self.release(lane, before);
            }
        }
        // A writer may wait for a pin that was raised or cleared.
        notify(&self.store.released());
        Ok(held.map_err(ReaderPinsError::from)?)
    }

    fn hold(&mut self, lane: u32, memory: &Lane, from: u64) -> Result<(), PinError> {
        let Some(kept) = self.kept.get_mut(lane as usize) else { return Ok(()) };
        kept.hold(memory, &self.store.pins(lane), self.reader.slot(), from)
    }

    fn release(&mut self, lane: u32, from: u64) {
        if let Some(kept) = self.kept.get_mut(lane as usize) {
            kept.release(&self.store.pins(lane), self.reader.slot(), from);
        }
    }

    /// Returns the memory of the pinned rows of a lane.
    fn mapped(&self, lane: u32) -> Option<Arc<Lane>> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(lane as usize).map(Arc::clone)
    }

    /// Returns the current memory of the lane. After a relocation it differs from
    /// [`mapped`](Self::mapped).
    fn newest(&self, lane: u32) -> Option<Arc<Lane>> {
        let mapped = self.mapped(lane)?;
        if !has_relocated(&*mapped) {
            return Some(mapped);
        }
        // The ring reports an error of mapping when it maps the lane itself. The rows stay where
        // they are.
        let _ = self.store.follow();
        self.store.lane(lane)
    }

    fn map(&self, lane: u32, memory: Arc<Lane>) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = lanes.get_mut(lane as usize) {
            *mapped = memory;
        }
    }

    /// Returns the memory of the rows of a lane from `from` on: the current one once all rows of
    /// the old one were read.
    fn memory(&self, lane: u32, from: u64) -> Option<Arc<Lane>> {
        let mapped = self.mapped(lane)?;
        if !has_relocated(&*mapped) || readable(&*mapped, mapped.slots()).end > from {
            return Some(mapped);
        }
        let memory = self.newest(lane)?;
        self.map(lane, Arc::clone(&memory));
        Some(memory)
    }

    /// Returns the pinned rows of a lane that are published. Some may be older than those that the
    /// ring shows to readers. `None` if nothing is pinned.
    #[must_use]
    pub fn span(&self, lane: u32) -> Option<Range<u64>> {
        let from = self.kept.get(lane as usize)?.oldest()?;
        let memory = self.memory(lane, from)?;
        // All slots: the pin stops the writer before it reaches the pinned rows again.
        let head = readable(&*memory, memory.slots()).end;
        Some(from..head.clamp(from, from + memory.slots()))
    }

    /// Copies rows of [`span`](Self::span), as [`Ring::rows_into`] does. They cannot be lapped.
    pub fn rows_into(
        &self,
        lane: u32,
        range: Range<u64>,
        out: &mut [&mut [u8]],
    ) -> Result<(), ReadError> {
        let lanes = self.store.spec().lanes;
        let (from, to) = (range.start, range.end.max(range.start));
        let kept = self.span(lane).unwrap_or_default();
        let memory = self.memory(lane, kept.start);
        let memory = memory.ok_or(ReadError::NoSuchLane { lane: lane.into(), lanes })?;
        if from < kept.start || to > kept.end {
            let (oldest, head) = (kept.start, kept.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        // No validation: writers announce rows before they find that a pin forbids them.
        if copy_columns(&memory, &self.schema, range, out)? {
            return Ok(());
        }
        Err(ReadError::Lapped { lane, from, to })
    }

    /// Returns the number of the reader slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.reader.slot()
    }

    /// Returns how often the pin made a writer wait, drop rows or fail.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.store.reader(self.slot()).map_or(0, |record| record.stalls)
    }
}

impl Drop for RetentionPin {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        for lane in 0..self.store.spec().lanes {
            if let Some(from) = self.kept.get(lane as usize).and_then(HeldRows::oldest) {
                self.release(lane, from);
            }
        }
        notify(&self.store.released());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{DType, LanePolicy, RingOptions, Schema, StepColumns, Writer, WriterOptions};

    fn ring(policy: LanePolicy) -> (Ring, Writer) {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let options = RingOptions::with_capacity(32).lane_policy(policy);
        let ring = Ring::heap(&schema, options).unwrap();
        let writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        (ring, writer)
    }

    fn append(ring: &Ring, writer: &mut Writer) -> u64 {
        let columns = StepColumns::of(ring.schema()).with("obs", &[1_u8]).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        ring.rows_published()
    }

    #[test]
    fn rows_are_kept_until_the_guard_moves_on_or_ends() {
        let (ring, mut writer) = ring(LanePolicy::DropNew);
        let mut guard = RetentionPin::new(&ring).unwrap();
        guard.keep(0, 0).unwrap();
        let slots = ring.slots();
        for row in 1..=slots {
            assert_eq!(append(&ring, &mut writer), row);
        }
        assert_eq!(append(&ring, &mut writer), slots, "the next row would overwrite row 0");
        assert!(guard.stalls() > 0);
        // All of them can be read, although the ring shows fewer, and the writer announced more.
        assert_eq!(guard.span(0), Some(0..slots));
        assert!(ring.lane_span(0).unwrap().start > 0);
        let width = |column: &crate::Column| column.width() * usize::try_from(slots).unwrap();
        let mut buffers: Vec<Vec<u8>> =
            ring.schema().all().iter().map(|column| vec![9; width(column)]).collect();
        let mut out: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        guard.rows_into(0, 0..slots, &mut out).unwrap();
        assert!(guard.rows_into(0, 0..slots + 1, &mut out).is_err());
        let seq: Vec<u64> = (0..slots).collect();
        assert_eq!(bytemuck::cast_slice::<_, u8>(&seq), buffers[0]);
        assert!(buffers[4].iter().all(|obs| *obs == 1));
        guard.keep(0, 5).unwrap();
        for row in 1..=5 {
            assert_eq!(append(&ring, &mut writer), slots + row);
        }
        assert_eq!(append(&ring, &mut writer), slots + 5);
        assert!(matches!(guard.keep(0, 4), Err(LeaseError::Pins(_))), "row 4 is gone");
        drop(guard);
        for row in 6..=3 * slots {
            assert_eq!(append(&ring, &mut writer), slots + row);
        }
        assert_eq!(writer.rows_dropped(), 2);
    }

    #[test]
    fn a_row_that_is_gone_and_a_ring_without_leases_are_refused() {
        let (ring, mut writer) = self::ring(LanePolicy::Block(Duration::from_secs(1)));
        while append(&ring, &mut writer) < 3 * ring.slots() {}
        let mut guard = RetentionPin::new(&ring).unwrap();
        assert!(matches!(guard.keep(0, 0), Err(LeaseError::Pins(_))));
        assert!(matches!(guard.keep(1, 0), Err(LeaseError::NoSuchLane { .. })));
        guard.keep(0, ring.lane_span(0).unwrap().start).unwrap();
        let (ring, _) = self::ring(LanePolicy::Overwrite);
        assert!(matches!(RetentionPin::new(&ring), Err(LeaseError::Overwrite)));
    }
}
