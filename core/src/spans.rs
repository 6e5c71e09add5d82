//! What a sampler may draw from: the readable rows of every lane, at one moment.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lanes;
use backcast_layout::protocol::Words;

use crate::index::RowIndex;
use crate::reader::{MOVES, moved, readable};
use crate::ring::Ring;

/// What may be drawn of one lane.
#[derive(Debug)]
pub(crate) struct Span {
    /// Readable rows.
    rows: Range<u64>,
    /// Slot of the first of them: a division per draw costs as much as a small column.
    slot: u64,
    /// Numbers of its candidates, among those of all lanes. The newest row has no successor yet.
    candidates: Range<u64>,
    /// Of the first readable row.
    index: RowIndex,
}

impl Span {
    /// Of a lane that was not looked at.
    fn nothing() -> Self {
        Self { rows: 0..0, slot: 0, candidates: 0..0, index: RowIndex::NONE }
    }

    /// Readable rows.
    #[inline]
    pub(crate) fn rows(&self) -> &Range<u64> {
        &self.rows
    }

    /// The slot of a readable row, where the lane has so many: one of them, also if they were others when
    /// this was looked at.
    #[inline]
    pub(crate) fn slot(&self, row: u64, slots: u64) -> Option<u64> {
        let slot = self.slot_of(row.checked_sub(self.rows.start)?, slots);
        Some(if slot < slots { slot } else { slot % slots })
    }

    /// The slot of the readable row that so many are older than, where the lane has as many as when this was
    /// looked at.
    #[inline]
    pub(crate) fn slot_of(&self, older: u64, slots: u64) -> u64 {
        // The second is the smaller one where the row lies behind the lane's end. Which do, no processor foresees.
        let slot = self.slot + older;
        slot.min(slot.wrapping_sub(slots))
    }

    /// The readable row that so many are older than.
    #[inline]
    pub(crate) fn index_of(&self, older: u64) -> RowIndex {
        RowIndex(self.index.0 + older.cast_signed())
    }

    /// How many readable rows are newer than the one that so many are older than.
    #[inline]
    pub(crate) fn newer(&self, older: u64) -> u64 {
        (self.candidates.end - self.candidates.start) - older
    }
}

/// Readable rows of every lane, and how many draws each is good for.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    lanes: Vec<Span>,
    /// Candidates over all lanes.
    total: u64,
    /// Lanes for each candidate, in parts of 2^64: where the lane of one is, if all have about as many.
    density: u64,
}

impl Spans {
    /// Looks at every lane, and returns the memory that it looked at.
    pub(crate) fn refresh(&mut self, ring: &Ring) -> Arc<Lanes> {
        let mut lanes = ring.store().lanes();
        for _ in 0..MOVES {
            if !self.look(&lanes) {
                break;
            }
            ring.follow();
            let now = ring.store().lanes();
            // A lane that moved nowhere stays empty.
            if Arc::ptr_eq(&now, &lanes) {
                break;
            }
            lanes = now;
        }
        lanes
    }

    /// `true`: some lane moved, and so looks empty.
    fn look(&mut self, lanes: &Lanes) -> bool {
        // As many as before, nearly always: written over, which costs less than to begin anew.
        self.lanes.resize_with(lanes.len(), Span::nothing);
        let (mut total, mut any_moved) = (0, false);
        for ((span, lane), number) in self.lanes.iter_mut().zip(lanes.iter()).zip(0..) {
            let rows = readable(lane);
            any_moved |= moved(lane, &rows);
            let before = total;
            total += (rows.end - rows.start).saturating_sub(1);
            let slot = rows.start % lane.slots();
            let index = RowIndex::new(number, rows.start);
            *span = Span { rows, slot, candidates: before..total, index };
        }
        self.total = total;
        let parts = (lanes.len() as u128) << 64;
        self.density = u64::try_from(parts / u128::from(total.max(1))).unwrap_or(u64::MAX);
        any_moved
    }

    /// Candidates over all lanes.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Rows ever published over all lanes.
    pub(crate) fn published(&self) -> u64 {
        self.ranges().map(|rows| rows.end).sum()
    }

    /// What may be drawn of a lane.
    #[inline]
    pub(crate) fn get(&self, lane: usize) -> Option<&Span> {
        self.lanes.get(lane)
    }

    /// Readable rows of every lane.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.lanes.iter().map(|span| &span.rows)
    }

    /// The lane and row of the n-th candidate.
    pub(crate) fn candidate(&self, n: u64) -> Option<(u32, u64)> {
        let (lane, older) = self.find(n)?;
        Some((u32::try_from(lane).ok()?, self.lanes.get(lane)?.rows.start + older))
    }

    /// The lane of the n-th candidate, and how many of its readable rows are older.
    #[inline]
    pub(crate) fn find(&self, n: u64) -> Option<(usize, u64)> {
        // Below the number of lanes.
        let guess = usize::try_from((u128::from(n) * u128::from(self.density)) >> 64).ok()?;
        // Lanes that fill at the same pace have as many rows: a search among many, which no processor
        // foresees, costs more than a small column.
        if let Some(span) = self.lanes.get(guess).filter(|span| span.candidates.contains(&n)) {
            return Some((guess, n - span.candidates.start));
        }
        let lane = self.lanes.partition_point(|span| span.candidates.end <= n);
        Some((lane, n - self.lanes.get(lane)?.candidates.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_lane() {
        let span = Span { rows: 70..100, slot: 20, candidates: 0..29, index: RowIndex::new(3, 70) };
        for row in 70..100 {
            let slot = (row - 50) % 50;
            assert_eq!((span.slot_of(row - 70, 50), span.slot(row, 50)), (slot, Some(slot)));
            assert_eq!(span.index_of(row - 70), RowIndex::new(3, row));
            assert_eq!(span.newer(row - 70), 99 - row);
            assert!(
                span.slot(row, 7).is_some_and(|slot| slot < 7),
                "of a lane that is smaller now"
            );
        }
        assert_eq!(span.slot(69, 50), None);
    }
}
