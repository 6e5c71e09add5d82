//! What a lane holds at one moment, wherever a resize has moved it.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lane;
use backcast_layout::protocol::has_moved;

use super::Ring;

/// A look that finds a lane moved is repeated so often: a ring is not resized that many times
/// meanwhile, but a peer may lie.
pub(crate) const MOVES: u32 = 16;

impl Ring {
    /// What there is to read of a lane now; `None` for a lane the ring lacks.
    pub(crate) fn look(&self, lane: u32) -> Option<Look> {
        let look = || {
            let memory = self.store().lane(lane)?;
            let rows = readable(&memory);
            Some(Look { memory, rows })
        };
        let empty = |found: &Option<Look>| found.as_ref().is_some_and(Look::moved);
        self.unless_moved(look, empty)
    }

    /// Makes an attempt, and makes it again if it failed and lanes have moved to other memory since.
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
        // The first attempt may have been made before another thread of this handle followed a move.
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

    /// Maps anew the lanes that a resize moved.
    #[cold]
    pub(crate) fn follow(&self) {
        if let Err(error) = self.store().follow() {
            tracing::warn!(%error, "a lane was moved, and its new memory cannot be had");
        }
    }
}

/// A lane at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) memory: Arc<Lane>,
    /// The rows that can be read.
    pub(crate) rows: Range<u64>,
}

impl Look {
    /// Nothing is there because the lane moved.
    fn moved(&self) -> bool {
        moved(&self.memory, &self.rows)
    }
}

/// The rows of a lane that can be read now. None of a lane that moved.
pub(crate) fn readable(lane: &Lane) -> Range<u64> {
    backcast_layout::protocol::readable(lane, lane.capacity())
}

/// Whether a lane of which these rows can be read moved.
pub(crate) fn moved(lane: &Lane, rows: &Range<u64>) -> bool {
    rows.is_empty() && has_moved(lane)
}
