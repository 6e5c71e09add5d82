//! Places of the transitions of a column, in the memory of a batch.

use std::ops::Range;

use crate::sampler::plan::{Axis, BatchPlan};

/// Places of a column of a batch in its arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) arena: usize,
    /// First place of an item that the column shows.
    pub(super) start: usize,
    /// Places of an item that the column shows.
    pub(super) len: usize,
    /// Places of an item in the arena.
    rows: usize,
    /// Bytes of a place.
    width: usize,
}

impl Places {
    /// Returns the places of the view `key`, if the batch has it.
    pub(super) fn of(plan: &BatchPlan, key: &str) -> Option<Self> {
        let view = plan.views().iter().find(|view| view.key == key)?;
        let field = plan.fields().get(view.arena)?;
        let (start, len) = match view.axis {
            Axis::Whole => (0, field.rows),
            Axis::At(place) => (place, 1),
            Axis::Window { start, len } => (start, len),
        };
        Some(Self { arena: view.arena, start, len, rows: field.rows, width: field.width })
    }

    /// Returns place number `at` of an item.
    pub(super) fn bytes<'a>(
        self,
        arenas: &'a [&mut [u8]],
        item: usize,
        at: usize,
    ) -> Option<&'a [u8]> {
        arenas.get(self.arena)?.get(self.range(item, at))
    }

    /// Returns place number `at` of an item, for writing.
    pub(super) fn bytes_mut<'a>(
        self,
        arenas: &'a mut [&mut [u8]],
        item: usize,
        at: usize,
    ) -> Option<&'a mut [u8]> {
        arenas.get_mut(self.arena)?.get_mut(self.range(item, at))
    }

    fn range(self, item: usize, at: usize) -> Range<usize> {
        let first = (item * self.rows + self.start + at) * self.width;
        first..first + self.width
    }
}

/// Returns the number of places of the view `key`, if the batch has it.
pub(crate) fn count_of(plan: &BatchPlan, key: &str) -> Option<usize> {
    Some(plan.batch() * Places::of(plan, key)?.len)
}
