//! Enlarges a ring while it is written and read.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use backcast_layout::{
    LaneSize, MemfdKeeper, Relocation, SegmentError, finish_relocation, page_size,
};

use super::Ring;
use super::create::spec;
use super::options::Capacity;
use crate::error::{ResizeError, RingError};
use crate::wait::{Wait, WaitReport};

/// Progress of a resize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResizeProgress {
    /// Lanes of the ring.
    pub lanes: u32,
    /// Lanes whose rows were copied while their writers went on.
    pub lanes_copied: u32,
    /// Lanes that were relocated to the copies.
    pub lanes_moved: u32,
}

/// Result of a resize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resized {
    /// Rows that a lane keeps for readers now, or after its relocation.
    pub lane_capacity: u64,
    /// Rows over all lanes.
    pub capacity: u64,
    /// Rows that were copied while the writers went on.
    pub rows_copied: u64,
    /// Lanes whose writers have not appended since the rows were copied. They are relocated with
    /// the next append, or when another writer claims them. Until then they keep their old
    /// capacity.
    pub lanes_waiting: Vec<u32>,
}

impl Ring {
    /// Enlarges the ring while it is written and read. No row is lost, indices stay the same, and
    /// writers, readers and samplers of every process switch to the larger memory automatically.
    /// Leases stay valid in the old memory, which is freed with its last reader.
    ///
    /// Waits until all lanes are relocated, for `timeout` at most. A lane with a writer is
    /// relocated when the writer next appends. `watch` is called before each lane is copied, and
    /// every 50 ms of the wait. If it breaks before a copy, the ring is as it was. If it breaks in
    /// the wait, the other lanes are relocated later, as after a time-out. The same holds after a
    /// kill at any moment.
    ///
    /// Old and new memory exist at the same time. O(bytes).
    ///
    /// A ring in memfds is [resized by its keeper](Self::resize_kept).
    pub fn resize(
        &self,
        capacity: impl Into<Capacity>,
        timeout: Option<Duration>,
        watch: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<Resized, ResizeError> {
        self.resize_with(None, capacity.into(), timeout, watch)
    }

    /// Enlarges a ring like [`resize`](Self::resize), in the process that keeps the memory of rings
    /// in memfds. Also resizes other rings.
    pub fn resize_kept(
        &self,
        keeper: &Mutex<MemfdKeeper>,
        capacity: impl Into<Capacity>,
        timeout: Option<Duration>,
        watch: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<Resized, ResizeError> {
        self.resize_with(Some(keeper), capacity.into(), timeout, watch)
    }

    fn resize_with(
        &self,
        keeper: Option<&Mutex<MemfdKeeper>>,
        capacity: Capacity,
        timeout: Option<Duration>,
        watch: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<Resized, ResizeError> {
        let size = self.new_size(capacity)?;
        let (lanes, lane_capacity) = (self.lanes(), size.lane_capacity);
        let mut resizing = Relocation::begin(self.store(), size, keeper)?;
        let mut progress = ResizeProgress { lanes, ..ResizeProgress::default() };
        let mut rows_copied = 0;
        for lane in 0..lanes {
            if watch(progress).is_break() {
                return Err(ResizeError::Cancelled);
            }
            rows_copied += resizing.copy(lane)?;
            progress.lanes_copied += 1;
        }
        resizing.tell()?;
        let lanes_waiting = self.await_moves(&resizing, timeout, progress, watch)?;
        let capacity = lane_capacity.saturating_mul(lanes.into());
        Ok(Resized { lane_capacity, capacity, rows_copied, lanes_waiting })
    }

    /// Returns the bytes that [`resize`](Self::resize) would allocate in addition. All are
    /// allocated when `watch` is first called. 0 if the size stays, or if another resize is only to
    /// be finished. Refuses what `resize` would refuse, except for lack of space, for another
    /// resize in progress, and for a missing keeper. O(lanes).
    pub fn planned_resize_bytes(&self, capacity: impl Into<Capacity>) -> Result<u64, RingError> {
        Ok(Relocation::planned_bytes(self.store(), self.new_size(capacity.into())?)?)
    }

    fn new_size(&self, capacity: Capacity) -> Result<LaneSize, RingError> {
        let asked = spec(self.schema(), &self.options().capacity(capacity), page_size())?;
        let (asked_rows, asked_bytes) = (asked.asked_rows, asked.asked_bytes);
        Ok(LaneSize { lane_capacity: asked.lane_capacity, asked_rows, asked_bytes })
    }

    /// Sleeps until the writers have relocated their lanes. Returns the lanes that are not
    /// relocated yet.
    fn await_moves(
        &self,
        resizing: &Relocation,
        timeout: Option<Duration>,
        progress: ResizeProgress,
        watch: &mut dyn FnMut(ResizeProgress) -> ControlFlow<()>,
    ) -> Result<Vec<u32>, SegmentError> {
        let lanes = u64::from(progress.lanes);
        let waiting = RefCell::new(Ok(Vec::new()));
        let moved = Cell::new(0);
        let settle = || {
            let left = resizing.settle();
            // An error ends the wait.
            let done = left.as_ref().map_or(lanes, |left| lanes - left.len() as u64);
            drop(waiting.replace(left));
            moved.set(done);
            done
        };
        let watch = RefCell::new(watch);
        let ends = |_: Option<WaitReport<'_>>| {
            let lanes_moved = u32::try_from(moved.get()).unwrap_or(u32::MAX);
            (watch.borrow_mut())(ResizeProgress { lanes_moved, ..progress }).is_break()
        };
        let report = |moved, waited: Duration| {
            format!(
                "a resize waits for {:.0} s until writers move their lanes, {moved} of {lanes} \
                 have; {}",
                waited.as_secs_f64(),
                self.writers_in_words()
            )
        };
        // Writers notify when they publish the first row after a relocation.
        let _ = self.sleep_until(lanes, &settle, &mut Wait::ended_by(timeout, &ends), &report);
        waiting.into_inner()
    }

    /// Finishes a resize whose process was killed: relocates the lanes without a writer, and frees
    /// memory to which no lane will be relocated. Returns the lanes that their writers still have
    /// to relocate. Does nothing while a process resizes the ring. O(lanes).
    pub fn finish_resize(&self) -> Result<Vec<u32>, RingError> {
        Ok(finish_relocation(self.store())?)
    }
}

#[cfg(test)]
mod tests;
