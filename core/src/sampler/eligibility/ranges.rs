//! Readable rows of every lane at one moment, and the candidates of a draw among them. Both are
//! known without reading rows.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lanes;
use backcast_layout::protocol::Words;

use crate::index::RowIndex;
use crate::ring::Ring;
use crate::ring::lane_inspection::{MAX_RELOCATIONS, is_relocated, readable};

/// Readable rows of one lane, and the numbers of its candidates.
#[derive(Debug)]
pub(crate) struct LaneRange {
    /// Readable rows.
    rows: Range<u64>,
    /// Slot of the first of them, kept because a division per draw costs as much as the copy of a
    /// small column.
    slot: u64,
    /// Numbers of its candidates among those of all lanes. The newest row is not a candidate: it
    /// has no successor yet.
    candidates: Range<u64>,
    /// Index of the first readable row.
    index: RowIndex,
}

impl LaneRange {
    /// Returns the range of a lane that was not read yet.
    fn empty() -> Self {
        Self { rows: 0..0, slot: 0, candidates: 0..0, index: RowIndex::NONE }
    }

    /// Returns the readable rows.
    #[inline]
    pub(crate) fn rows(&self) -> &Range<u64> {
        &self.rows
    }

    /// Returns the rows that may start a transition: all readable ones but the newest.
    pub(crate) fn candidates(&self) -> Range<u64> {
        self.rows.start..self.rows.end.saturating_sub(1).max(self.rows.start)
    }

    /// Returns the slot of a readable row in a lane of `slots` slots. The slot is below `slots`
    /// even if the lane had another number of slots when the range was read. Returns `None` for a
    /// row that is older than the readable ones.
    #[inline]
    pub(crate) fn slot(&self, row: u64, slots: u64) -> Option<u64> {
        let slot = self.slot_of(row.checked_sub(self.rows.start)?, slots);
        Some(if slot < slots { slot } else { slot % slots })
    }

    /// Returns the slot of the readable row that has `older` readable rows before it, in a lane of
    /// as many slots as when the range was read.
    #[inline]
    pub(crate) fn slot_of(&self, older: u64, slots: u64) -> u64 {
        // The wrapped value is smaller for rows past the lane's end. A branch would be
        // mispredicted.
        let slot = self.slot + older;
        slot.min(slot.wrapping_sub(slots))
    }

    /// Returns the index of the readable row that has `older` readable rows before it.
    #[inline]
    pub(crate) fn index_of(&self, older: u64) -> RowIndex {
        RowIndex(self.index.0 + older.cast_signed())
    }

    /// Returns the number of readable rows after the one that has `older` before it.
    #[inline]
    pub(crate) fn newer(&self, older: u64) -> u64 {
        (self.candidates.end - self.candidates.start) - older
    }
}

/// Readable rows of every lane, numbered as candidates.
#[derive(Debug, Default)]
pub(crate) struct ReadableRanges {
    lanes: Vec<LaneRange>,
    /// Candidates over all lanes.
    total: u64,
    /// Lanes per candidate, scaled by 2^64: guesses the lane of a candidate if lanes are equally
    /// full.
    density: u64,
}

impl ReadableRanges {
    /// Reads the counters of every lane, and returns the memory that was read.
    pub(crate) fn refresh(&mut self, ring: &Ring) -> Arc<Lanes> {
        let mut lanes = ring.store().lanes();
        for _ in 0..MAX_RELOCATIONS {
            if !self.read(&lanes) {
                break;
            }
            ring.follow();
            let now = ring.store().lanes();
            // No new memory was found: a lane that claims to be relocated counts as empty.
            if Arc::ptr_eq(&now, &lanes) {
                break;
            }
            lanes = now;
        }
        lanes
    }

    /// Reads the counters of every lane. Returns `true` if some lane was relocated, and so looks
    /// empty.
    fn read(&mut self, lanes: &Lanes) -> bool {
        // The number of lanes rarely changes, so the list is overwritten and not reallocated.
        self.lanes.resize_with(lanes.len(), LaneRange::empty);
        let (mut total, mut any_relocated) = (0, false);
        for ((range, lane), number) in self.lanes.iter_mut().zip(lanes.iter()).zip(0..) {
            let rows = readable(lane);
            any_relocated |= is_relocated(lane, &rows);
            let before = total;
            total += (rows.end - rows.start).saturating_sub(1);
            let slot = rows.start % lane.slots();
            let index = RowIndex::new(number, rows.start);
            *range = LaneRange { rows, slot, candidates: before..total, index };
        }
        self.set_total(total);
        any_relocated
    }

    /// Takes the rows before `oldest` out of every lane.
    pub(super) fn narrow(&mut self, lanes: &Lanes, oldest: &[u64]) {
        let mut total = 0;
        let all = self.lanes.iter_mut().zip(lanes.iter()).zip(oldest).zip(0..);
        for (((range, lane), oldest), number) in all {
            let Range { start, end } = range.rows;
            let rows = (*oldest).clamp(start, end)..end;
            let before = total;
            total += (rows.end - rows.start).saturating_sub(1);
            let slot = rows.start % lane.slots();
            let index = RowIndex::new(number, rows.start);
            *range = LaneRange { rows, slot, candidates: before..total, index };
        }
        self.set_total(total);
    }

    fn set_total(&mut self, total: u64) {
        self.total = total;
        let scaled = (self.lanes.len() as u128) << 64;
        self.density = u64::try_from(scaled / u128::from(total.max(1))).unwrap_or(u64::MAX);
    }

    /// Returns the number of candidates over all lanes.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of readable rows over all lanes.
    pub(crate) fn readable_rows(&self) -> u64 {
        self.iter().map(|rows| rows.end - rows.start).sum()
    }

    /// Returns the range of a lane.
    #[inline]
    pub(crate) fn get(&self, lane: usize) -> Option<&LaneRange> {
        self.lanes.get(lane)
    }

    /// Returns the lane of a readable row, and the number of readable rows before it.
    #[inline]
    pub(crate) fn place_of(&self, lane: usize, seq: u64) -> Option<(usize, u64)> {
        let range = self.get(lane).filter(|range| range.rows.contains(&seq))?;
        Some((lane, seq - range.rows.start))
    }

    /// Iterates over the readable rows of every lane.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> + Clone {
        self.lanes.iter().map(|range| &range.rows)
    }

    /// Returns the number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Iterates over the rows of every lane that may start a transition.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Range<u64>> + Clone {
        self.lanes.iter().map(LaneRange::candidates)
    }

    /// Returns the lane and the row of the n-th candidate.
    pub(crate) fn candidate(&self, n: u64) -> Option<(u32, u64)> {
        let (lane, older) = self.find(n)?;
        Some((u32::try_from(lane).ok()?, self.lanes.get(lane)?.rows.start + older))
    }

    /// Returns the lane of the n-th candidate, and the number of readable rows before it.
    #[inline]
    pub(crate) fn find(&self, n: u64) -> Option<(usize, u64)> {
        // The guess is below the number of lanes.
        let guess = usize::try_from((u128::from(n) * u128::from(self.density)) >> 64).ok()?;
        // Lanes that are filled at the same rate have equally many rows. A binary search would be
        // mispredicted, and cost more than the copy of a small column.
        if let Some(range) = self.lanes.get(guess).filter(|range| range.candidates.contains(&n)) {
            return Some((guess, n - range.candidates.start));
        }
        let lane = self.lanes.partition_point(|range| range.candidates.end <= n);
        Some((lane, n - self.lanes.get(lane)?.candidates.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_lane() {
        let range =
            LaneRange { rows: 70..100, slot: 20, candidates: 0..29, index: RowIndex::new(3, 70) };
        for row in 70..100 {
            let slot = (row - 50) % 50;
            assert_eq!((range.slot_of(row - 70, 50), range.slot(row, 50)), (slot, Some(slot)));
            assert_eq!(range.index_of(row - 70), RowIndex::new(3, row));
            assert_eq!(range.newer(row - 70), 99 - row);
            assert!(
                range.slot(row, 7).is_some_and(|slot| slot < 7),
                "of a lane that is smaller now"
            );
        }
        assert_eq!(range.slot(69, 50), None);
    }
}
