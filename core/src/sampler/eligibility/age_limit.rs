//! Limit to the age of rows: the oldest row of every lane that a sampler may read.
//!
//! Rows before that one are treated as if the ring did not have them. Ages in rows need the head of
//! the lane alone. Ages in versions need the column of versions, of which every row is read once.

use std::collections::VecDeque;
use std::ops::Range;

use backcast_layout::protocol::{has_relocated, still_whole};
use backcast_layout::{Lane, Lanes};

use super::ranges::ReadableRanges;
use crate::ring::lane_inspection::readable;
use crate::row_flags::FINAL;
use crate::row_header::RowHeader;
use crate::sampler::options::MaxAge;
use crate::sampler::policy_version::PolicyVersions;

/// Rows read at a time.
const CHUNK: u64 = 1024;

/// Oldest rows that a sampler may read, at one moment.
#[derive(Debug)]
pub(crate) struct AgeLimit {
    max: MaxAge,
    /// Readable rows of every lane, those that are too old included.
    readable: Vec<Range<u64>>,
    /// First row of every lane that is not too old.
    oldest: Vec<u64>,
    lanes: Vec<LaneVersions>,
    headers: Vec<RowHeader>,
    versions: Vec<i64>,
}

/// Versions of the rows of a lane, as far as they decide which rows are too old.
#[derive(Debug, Default)]
struct LaneVersions {
    /// Rows whose version is smaller than those of all later rows, oldest first. The versions rise,
    /// so that the last row below any version is found by bisection.
    minima: VecDeque<(u64, i64)>,
    /// First readable row at the last scan.
    known: u64,
    /// Rows before this one have been read.
    scanned: u64,
}

impl AgeLimit {
    pub(super) fn new(max: MaxAge) -> Self {
        let (readable, oldest, lanes) = (Vec::new(), Vec::new(), Vec::new());
        let (headers, versions) = (Vec::new(), Vec::new());
        Self { max, readable, oldest, lanes, headers, versions }
    }

    /// Finds the oldest rows that may be read, among the readable ones. They depend on the present
    /// rows and on the newest version alone, so rows are young again if that version falls. O(new
    /// rows + lanes) with a limit in versions, else O(lanes).
    pub(super) fn refresh(
        &mut self,
        lanes: &Lanes,
        ranges: &ReadableRanges,
        versions: Option<&PolicyVersions>,
    ) {
        self.readable.clear();
        self.readable.extend(ranges.iter().cloned());
        self.oldest.clear();
        let Self { max, readable, oldest, lanes: known, headers, versions: numbers } = self;
        oldest.extend(readable.iter().map(|rows| match max.rows {
            Some(most) => rows.end.saturating_sub(1).saturating_sub(most).max(rows.start),
            None => rows.start,
        }));
        let Some((most, versions)) = max.versions.zip(versions) else { return };
        let least = versions.newest().saturating_sub_unsigned(most);
        known.resize_with(lanes.len(), LaneVersions::default);
        let all = lanes.iter().zip(readable).zip(known).zip(oldest);
        for (((lane, rows), known), oldest) in all {
            let is_read = known.scan(lane, rows, versions, (headers, numbers));
            known.forget(rows.start);
            // Rows that were not read may be too old.
            *oldest = if is_read { known.oldest(least).clamp(*oldest, rows.end) } else { rows.end };
        }
    }

    /// Returns the readable rows of every lane, those that are too old included.
    pub(super) fn readable(&self) -> &[Range<u64>] {
        &self.readable
    }

    /// Returns the first row of every lane that is not too old.
    pub(super) fn oldest(&self) -> &[u64] {
        &self.oldest
    }

    /// Returns the number of readable rows that are too old.
    pub(super) fn too_old(&self) -> u64 {
        let rows = self.readable.iter().zip(&self.oldest);
        rows.map(|(rows, oldest)| oldest.saturating_sub(rows.start)).sum()
    }

    pub(super) fn max(&self) -> MaxAge {
        self.max
    }
}

impl LaneVersions {
    /// Reads the versions of the rows published since the last scan. Returns `false` if the lane
    /// was relocated meanwhile, and some were not read.
    fn scan(
        &mut self,
        lane: &Lane,
        rows: &Range<u64>,
        versions: &PolicyVersions,
        (headers, numbers): (&mut Vec<RowHeader>, &mut Vec<i64>),
    ) -> bool {
        // A resized lane may make rows readable again that were too old before. A head decreases
        // only in a corrupt lane.
        if self.scanned > rows.end || rows.start < self.known {
            *self = Self::default();
        }
        self.known = rows.start;
        self.scanned = self.scanned.max(rows.start);
        while self.scanned < rows.end {
            let part = self.scanned..rows.end.min(self.scanned + CHUNK);
            versions.read(lane, part.clone(), headers, numbers);
            if still_whole(lane, part.start) {
                for ((header, version), row) in headers.iter().zip(&*numbers).zip(part.clone()) {
                    // A FINAL row has no version, and only a faulty writer stores another number.
                    if header.flags & FINAL == 0 && header.seq == row {
                        self.push(row, *version);
                    }
                }
                self.scanned = part.end;
            } else if has_relocated(lane) {
                return false;
            } else {
                // A writer overwrote the first of these rows meanwhile.
                self.scanned = readable(lane).start.max(part.start + 1);
            }
        }
        true
    }

    /// Adds the next row.
    fn push(&mut self, row: u64, version: i64) {
        while self.minima.back().is_some_and(|(_, before)| *before >= version) {
            self.minima.pop_back();
        }
        self.minima.push_back((row, version));
    }

    /// Forgets the rows before row `start`.
    fn forget(&mut self, start: u64) {
        while self.minima.front().is_some_and(|(row, _)| *row < start) {
            self.minima.pop_front();
        }
    }

    /// Returns the first row after the newest one whose version is below `least`; 0 if there is
    /// none. O(log rows).
    fn oldest(&self, least: i64) -> u64 {
        let below = self.minima.partition_point(|(_, version)| *version < least);
        let newest = below.checked_sub(1).and_then(|at| self.minima.get(at));
        newest.map_or(0, |(row, _)| row + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_oldest_row_depends_on_the_present_rows_and_the_least_version_alone(
            steps in prop::collection::vec((0..9_i64, 0..9_i64, 0..4_usize), 1..60),
        ) {
            let (mut known, mut all, mut start) = (LaneVersions::default(), Vec::new(), 0);
            for (row, (version, least, gone)) in (0_u64..).zip(steps) {
                known.push(row, version);
                all.push(version);
                // Rows are overwritten about as fast as they come.
                start = (start + gone / 2).min(all.len());
                known.forget(start as u64);
                let newest = all.iter().rposition(|version| *version < least);
                let expected = newest.filter(|row| *row >= start).map_or(0, |row| row as u64 + 1);
                prop_assert_eq!(known.oldest(least), expected);
            }
        }
    }
}
