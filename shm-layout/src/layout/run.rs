//! Rows that stand one after the other in every column of a lane.

use crate::layout::lane::{Lane, Located};

/// Consecutive rows of a lane, if they stand one after the other: if they do not run over its end. Whether they do is asked
/// once for all columns.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    lane: &'a Lane,
    slot: u64,
    /// They end below the lane's slots.
    rows: u64,
}

impl<'a> Run<'a> {
    /// So many rows from a slot on; none if not all of them are there or they run over the lane's end.
    #[inline]
    #[must_use]
    pub fn of(lane: &'a Lane, slot: u64, rows: u64) -> Self {
        let there = slot < lane.slots && lane.slots - slot >= rows;
        Self { lane, slot, rows: if there { rows } else { 0 } }
    }

    /// The lane.
    #[inline]
    #[must_use]
    pub fn lane(&self) -> &'a Lane {
        self.lane
    }

    /// Where they begin, also if there are none.
    #[inline]
    #[must_use]
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// How many.
    #[inline]
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Where so many of its rows stand, from one of them on: valid for reads of all their bytes while the lane lives. `None`
    /// for rows that are not among them, or of a column that was located in a lane of another list.
    #[inline]
    pub(crate) fn place(&self, column: Located<'_>, first: u64, rows: u64) -> Option<*const u8> {
        if first.saturating_add(rows) > self.rows {
            return None;
        }
        self.lane.place_of_slot(column, self.slot + first)
    }
}
