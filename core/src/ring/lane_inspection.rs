//! Inspects a lane: its memory and readable rows at one moment, also after a relocation.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lane;
use backcast_layout::protocol::has_relocated;
use backcast_layout::protocol::low_mark::load_mark;

use super::Ring;
use super::notices::NoticeKind;

/// Maximum repetitions of an inspection that finds a lane relocated. A ring is not resized that
/// many times meanwhile, but a faulty peer may report relocations endlessly.
pub(crate) const MAX_RELOCATIONS: u32 = 16;

/// Maximum further reads of a lane's counters if they show no rows. They can show none if this
/// process was stopped between the loads of two counters, and the writer filled the lane meanwhile.
const MAX_READS: u32 = 8;

impl Ring {
    /// Inspects a lane. `None` if the ring lacks it.
    pub(crate) fn inspect_lane(&self, lane: u32) -> Option<InspectedLane> {
        let inspect = || {
            let memory = self.store().lane(lane)?;
            let (mark, rows) = mark_and_rows(&memory);
            Some(InspectedLane { memory, mark, rows })
        };
        let empty =
            |found: &Option<InspectedLane>| found.as_ref().is_some_and(InspectedLane::is_relocated);
        self.unless_relocated(inspect, empty)
    }

    /// Makes an attempt. If it fails, repeats it once, and then as long as it fails and lanes are
    /// relocated meanwhile.
    pub(crate) fn unless_relocated<T>(
        &self,
        mut attempt: impl FnMut() -> T,
        failed: impl Fn(&T) -> bool,
    ) -> T {
        let done = attempt();
        if failed(&done) { self.after_relocations(done, attempt, failed) } else { done }
    }

    #[cold]
    fn after_relocations<T>(
        &self,
        mut done: T,
        mut attempt: impl FnMut() -> T,
        failed: impl Fn(&T) -> bool,
    ) -> T {
        // Repeat once in any case: another thread of this handle may have followed a relocation
        // since the first attempt.
        let mut before = None;
        for _ in 0..MAX_RELOCATIONS {
            self.follow();
            let lanes = self.store().lanes();
            if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &lanes)) {
                break;
            }
            before = Some(lanes);
            done = attempt();
            if !failed(&done) {
                break;
            }
        }
        done
    }

    /// Maps relocated lanes again.
    #[cold]
    pub(crate) fn follow(&self) {
        if let Err(error) = self.store().follow() {
            let text = format!("a resize relocated lanes that this handle cannot map: {error}");
            self.notice_log().warn(NoticeKind::UnreadableLane, text);
        }
    }
}

/// A lane at one moment.
#[derive(Debug)]
pub(crate) struct InspectedLane {
    pub(crate) memory: Arc<Lane>,
    /// First row that was not dropped.
    pub(crate) mark: u64,
    /// Readable rows.
    pub(crate) rows: Range<u64>,
}

impl InspectedLane {
    /// Returns whether no rows are readable because the lane was relocated.
    pub(super) fn is_relocated(&self) -> bool {
        is_relocated(&self.memory, &self.rows)
    }
}

/// Returns the rows of a lane that can be read now: published, not overwritten, and not dropped. A
/// relocated lane has none.
#[inline]
pub(crate) fn readable(lane: &Lane) -> Range<u64> {
    mark_and_rows(lane).1
}

/// Returns the first row of a lane that was not dropped, and the rows that can be read now.
#[inline]
fn mark_and_rows(lane: &Lane) -> (u64, Range<u64>) {
    // Loaded before the head, which a correct mark then does not exceed (docs/protocol.md, Marks).
    let mark = lane.low_mark().map_or(0, load_mark);
    let rows = backcast_layout::protocol::readable(lane, lane.capacity());
    let rows = if rows.is_empty() { read_again(lane, rows) } else { rows };
    let mark = if mark > rows.end { 0 } else { mark };
    (mark, mark.max(rows.start)..rows.end)
}

/// Reads the rows of a lane that shows none. A relocated lane and an empty one have none, and so
/// may the lane of a faulty peer.
#[cold]
fn read_again(lane: &Lane, mut rows: Range<u64>) -> Range<u64> {
    for _ in 0..MAX_READS {
        if !rows.is_empty() || rows.end == 0 || is_relocated(lane, &rows) {
            break;
        }
        rows = backcast_layout::protocol::readable(lane, lane.capacity());
    }
    rows
}

/// Returns whether a lane with these readable rows was relocated.
pub(crate) fn is_relocated(lane: &Lane, rows: &Range<u64>) -> bool {
    rows.is_empty() && has_relocated(lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, RingOptions, Schema, StepColumns, WriterOptions};

    #[test]
    fn rows_of_a_lane_are_read_again_if_it_shows_a_head_but_no_row() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for _ in 0..5 {
            let columns = StepColumns::of(&schema).with("obs", &[0.0_f32]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let lane = ring.store().lane(0).unwrap();
        for (read, expected) in [(3..3, 0..5), (5..5, 0..5), (1..3, 1..3), (0..0, 0..0)] {
            assert_eq!(read_again(&lane, read.clone()), expected, "{read:?}");
        }
    }
}
