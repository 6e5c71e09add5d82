//! What a sampler may draw from: the readable rows of every lane, at one moment.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lanes;
use backcast_layout::protocol::Words;

use crate::reader::{MOVES, moved, readable};
use crate::ring::Ring;

/// Readable rows per lane, and how many draws each lane is good for.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    ranges: Vec<Range<u64>>,
    /// Slot of the first row of each range: a division per draw costs as much as a small column.
    slots: Vec<u64>,
    /// Candidates in this lane and all before it. The newest row has no successor yet.
    ends: Vec<u64>,
    /// Lanes for each candidate: where the lane of one is, if all have about as many.
    density: f64,
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
        self.ranges.clear();
        self.slots.clear();
        self.ends.clear();
        let (mut total, mut any_moved) = (0, false);
        for lane in lanes.iter() {
            let range = readable(lane);
            any_moved |= moved(lane, &range);
            total += (range.end - range.start).saturating_sub(1);
            self.slots.push(range.start % lane.slots());
            self.ranges.push(range);
            self.ends.push(total);
        }
        #[expect(clippy::cast_precision_loss, reason = "a guess")]
        let density = lanes.len() as f64 / total as f64;
        self.density = density;
        any_moved
    }

    /// Candidates over all lanes.
    pub(crate) fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Rows ever published over all lanes.
    pub(crate) fn published(&self) -> u64 {
        self.ranges.iter().map(|range| range.end).sum()
    }

    /// Readable rows of a lane.
    pub(crate) fn range(&self, lane: u32) -> Option<&Range<u64>> {
        self.ranges.get(lane as usize)
    }

    /// The slot of a row of a lane's range, where the lane has so many.
    #[inline]
    pub(crate) fn slot(&self, lane: u32, row: u64, slots: u64) -> u64 {
        let first = self.slots.get(lane as usize).copied().unwrap_or(0);
        let start = self.range(lane).map_or(0, |range| range.start);
        let slot = first + row.saturating_sub(start);
        if slot < slots { slot } else { slot % slots }
    }

    /// Readable rows of every lane.
    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The lane and row of the n-th candidate.
    #[inline]
    pub(crate) fn candidate(&self, n: u64) -> Option<(u32, u64)> {
        #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a guess")]
        #[expect(clippy::cast_possible_truncation, reason = "a guess")]
        let guess = (n as f64 * self.density) as usize;
        let before =
            |lane: usize| lane.checked_sub(1).map_or(Some(0), |l| self.ends.get(l).copied());
        let holds = |lane: usize| {
            before(lane).is_some_and(|before| before <= n)
                && self.ends.get(lane).is_some_and(|end| n < *end)
        };
        // Lanes that fill at the same pace have as many rows: a search among many, which no processor
        // foresees, costs more than a small column.
        let lane = if holds(guess) { guess } else { self.ends.partition_point(|end| *end <= n) };
        let first = self.ranges.get(lane)?.start;
        Some((u32::try_from(lane).ok()?, first + (n - before(lane)?)))
    }
}
