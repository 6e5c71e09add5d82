//! Inspects a lane: its memory and readable rows at one moment, also after a relocation.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lane;
use backcast_layout::protocol::has_relocated;

use super::Ring;

/// Inspections that find a lane relocated are repeated this often. A ring is not resized that many
/// times meanwhile, but a peer may lie.
pub(crate) const MOVES: u32 = 16;

impl Ring {
    /// Inspects a lane. `None` if the ring lacks it.
    pub(crate) fn look(&self, lane: u32) -> Option<Look> {
        let look = || {
            let memory = self.store().lane(lane)?;
            let rows = readable(&memory);
            Some(Look { memory, rows })
        };
        let empty = |found: &Option<Look>| found.as_ref().is_some_and(Look::moved);
        self.unless_moved(look, empty)
    }

    /// Makes an attempt, and repeats it if it failed and lanes were relocated since.
    pub(crate) fn unless_moved<T>(
        &self,
        mut attempt: impl FnMut() -> T,
        failed: impl Fn(&T) -> bool,
    ) -> T {
        let done = attempt();
        if failed(&done) { self.after_moves(done, attempt, failed) } else { done }
    }

    #[cold]
    fn after_moves<T>(
        &self,
        mut done: T,
        mut attempt: impl FnMut() -> T,
        failed: impl Fn(&T) -> bool,
    ) -> T {
        // The first attempt may have been made before another thread of this handle followed a
        // relocation.
        let mut before = None;
        for _ in 0..MOVES {
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
            tracing::warn!(%error, "a lane was relocated, and its new memory cannot be mapped");
        }
    }
}

/// A lane at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) memory: Arc<Lane>,
    /// Readable rows.
    pub(crate) rows: Range<u64>,
}

impl Look {
    /// Whether no rows are readable because the lane was relocated.
    fn moved(&self) -> bool {
        moved(&self.memory, &self.rows)
    }
}

/// Returns the rows of a lane that can be read now. None of a relocated lane.
pub(crate) fn readable(lane: &Lane) -> Range<u64> {
    backcast_layout::protocol::readable(lane, lane.capacity())
}

/// Whether a lane with these readable rows was relocated.
pub(crate) fn moved(lane: &Lane, rows: &Range<u64>) -> bool {
    rows.is_empty() && has_relocated(lane)
}
