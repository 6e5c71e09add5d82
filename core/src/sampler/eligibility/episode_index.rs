//! A sampler's private index of the complete episodes of a ring.
//!
//! The index is built from row headers alone, by reading every row once. Rows published since are
//! read at the next [`EpisodeIndex::refresh`]. The readable rows alone decide which episodes are
//! complete, so that all samplers know the same ones. An entry is dropped when a row that showed
//! its episode to be complete is no longer readable.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use backcast_layout::protocol::{Words, has_relocated, still_whole};
use backcast_layout::{Lane, Lanes};

use super::ranges::ReadableRanges;
use crate::ring::lane_inspection::readable;
use crate::row_flags::{FINAL, GAP, TERMINATED, TRUNCATED};
use crate::row_header::RowHeader;

/// Rows read at a time.
const CHUNK: u64 = 1024;

/// Rows of a complete episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompleteEpisode {
    pub(crate) lane: u32,
    /// Sequence number of its first row.
    pub(crate) first: u64,
    /// Transitions, at least 1; the FINAL row comes after them.
    pub(crate) length: u64,
}

/// Complete episodes of all lanes.
#[derive(Debug)]
pub(crate) struct EpisodeIndex {
    /// Maximum transitions of an episode that is kept.
    max_length: u64,
    lanes: Vec<LaneEpisodes>,
    /// For each lane, the episodes in it and in all lanes before it.
    ends: Vec<u64>,
    /// For each lane, the transitions of these episodes.
    transition_ends: Vec<u64>,
    headers: Vec<RowHeader>,
}

/// Consecutive rows of one episode that were read last.
#[derive(Clone, Copy, Debug)]
struct EpisodeRun {
    episode: u64,
    /// Step of the row that continues it.
    next_step: u64,
    /// First row of the episode, and the oldest row that shows that it is the first; `None` if rows
    /// before the first one read may be missing.
    first: Option<(u64, u64)>,
    /// Whether the last row read terminated or truncated it.
    ended: bool,
}

/// A complete episode of a lane.
#[derive(Clone, Copy, Debug)]
struct LaneEpisode {
    first: u64,
    length: u64,
    /// Oldest row that has to be readable: the first row of the episode, or the last transition of
    /// the episode before if the first row is a GAP.
    since: u64,
    /// Transitions of the complete episodes of the lane that were found so far, this one included.
    end: u64,
}

#[derive(Debug, Default)]
struct LaneEpisodes {
    /// Complete episodes, oldest first.
    complete: VecDeque<LaneEpisode>,
    /// Transitions of all complete episodes that were found.
    transitions: u64,
    /// First row whose episode is known; earlier ones were dropped.
    known: u64,
    /// Rows before this one have been read.
    scanned: u64,
    run: Option<EpisodeRun>,
    /// Whether the last row read is the FINAL row of an episode that ended.
    after_end: bool,
}

impl EpisodeIndex {
    /// Returns an empty index of the episodes of at most `max_length` transitions.
    pub(super) fn new(max_length: u64) -> Self {
        let (lanes, ends, transition_ends) = (Vec::new(), Vec::new(), Vec::new());
        Self { max_length, lanes, ends, transition_ends, headers: Vec::new() }
    }

    /// Reads the rows published since the last refresh, and drops the episodes that are no longer
    /// complete. O(new rows + dropped episodes + lanes).
    ///
    /// Returns `false` if a lane was relocated meanwhile, and some of its rows were not read.
    pub(super) fn refresh(&mut self, lanes: &Lanes, ranges: &ReadableRanges) -> bool {
        self.lanes.resize_with(lanes.len(), LaneEpisodes::default);
        self.ends.clear();
        self.transition_ends.clear();
        let (mut total, mut transitions, mut whole) = (0, 0, true);
        for ((episodes, lane), range) in self.lanes.iter_mut().zip(lanes.iter()).zip(ranges.iter())
        {
            whole &= episodes.scan(lane, range, self.max_length, &mut self.headers);
            while episodes.complete.front().is_some_and(|of| of.since < range.start) {
                episodes.complete.pop_front();
            }
            episodes.known = range.start;
            total += episodes.complete.len() as u64;
            transitions += episodes.transitions - episodes.dropped();
            self.ends.push(total);
            self.transition_ends.push(transitions);
        }
        whole
    }

    /// Returns the number of complete episodes.
    pub(crate) fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the n-th complete episode.
    pub(crate) fn nth(&self, n: u64) -> Option<CompleteEpisode> {
        let lane = self.ends.partition_point(|end| *end <= n);
        let before = lane.checked_sub(1).and_then(|l| self.ends.get(l)).copied().unwrap_or(0);
        let at = usize::try_from(n - before).ok()?;
        let LaneEpisode { first, length, .. } = *self.lanes.get(lane)?.complete.get(at)?;
        Some(CompleteEpisode { lane: u32::try_from(lane).ok()?, first, length })
    }

    /// Returns the number of transitions of all complete episodes.
    pub(crate) fn transitions(&self) -> u64 {
        self.transition_ends.last().copied().unwrap_or(0)
    }

    /// Returns the complete episode that has the n-th of these transitions. O(log episodes).
    pub(crate) fn of_transition(&self, n: u64) -> Option<CompleteEpisode> {
        let ends = &self.transition_ends;
        let lane = ends.partition_point(|end| *end <= n);
        let before = lane.checked_sub(1).and_then(|l| ends.get(l)).copied().unwrap_or(0);
        let episodes = self.lanes.get(lane)?;
        let n = n - before + episodes.dropped();
        let at = episodes.complete.partition_point(|of| of.end <= n);
        let LaneEpisode { first, length, .. } = *episodes.complete.get(at)?;
        Some(CompleteEpisode { lane: u32::try_from(lane).ok()?, first, length })
    }

    /// Returns the complete episode that begins at a row.
    pub(crate) fn beginning_at(&self, lane: usize, row: u64) -> Option<CompleteEpisode> {
        let complete = &self.lanes.get(lane)?.complete;
        let at = complete.binary_search_by_key(&row, |of| of.first).ok()?;
        let LaneEpisode { first, length, .. } = *complete.get(at)?;
        Some(CompleteEpisode { lane: u32::try_from(lane).ok()?, first, length })
    }

    /// Returns whether the newest episode of a lane begins at a row, and may be complete once more
    /// rows are published.
    pub(super) fn goes_on_from(&self, lane: usize, row: u64) -> bool {
        let run = self.lanes.get(lane).and_then(|of| of.run.as_ref());
        run.is_some_and(|run| {
            let begins = run.first.is_some_and(|(first, _)| first == row);
            begins && run.next_step <= self.max_length
        })
    }
}

impl LaneEpisodes {
    /// Returns the transitions of the episodes that were found and are no longer complete.
    fn dropped(&self) -> u64 {
        self.complete.front().map_or(self.transitions, |oldest| oldest.end - oldest.length)
    }

    /// Reads the headers published since the last scan. Returns `false` if the lane was relocated:
    /// the rest must be read from its new memory.
    fn scan(
        &mut self,
        lane: &Lane,
        range: &Range<u64>,
        max_length: u64,
        headers: &mut Vec<RowHeader>,
    ) -> bool {
        // `scanned` is below the oldest row after a lap. It is above the newest row only if a head
        // decreased, which no correct writer does. A resized lane may make rows readable again
        // that were too old before.
        let lapped = self.scanned < range.start || self.scanned > range.end;
        if lapped || range.start < self.known {
            self.restart(range.start);
        }
        while self.scanned < range.end {
            let rows = self.scanned..range.end.min(self.scanned + CHUNK);
            let len = usize::try_from(rows.end - rows.start).unwrap_or(0);
            headers.resize(len, RowHeader::default());
            RowHeader::read_into(lane, rows.start % lane.slots(), headers);
            if still_whole(lane, rows.start) {
                for header in headers.iter() {
                    self.take(header, max_length);
                }
            } else if has_relocated(lane) {
                return false;
            } else {
                // A writer overwrote the first of these rows meanwhile.
                self.restart(readable(lane).start.max(rows.start + 1));
            }
        }
        true
    }

    /// Drops everything known. The next scan begins at `row`.
    fn restart(&mut self, row: u64) {
        *self = Self { known: row, scanned: row, ..Self::default() };
    }

    /// Adds the next row.
    fn take(&mut self, header: &RowHeader, max_length: u64) {
        let (row, step) = (self.scanned, u64::from(header.t));
        self.scanned += 1;
        let flag = |flag: u32| header.flags & flag != 0;
        let after_end = mem::take(&mut self.after_end);
        let continued =
            |run: &EpisodeRun| (run.episode, run.next_step) == (header.episode, step) && !flag(GAP);
        let run = self.run.take().filter(continued);
        // Only a faulty writer stores another number.
        if header.seq != row {
            return;
        }
        let (next_step, ended) = (step + 1, flag(TERMINATED | TRUNCATED));
        match run {
            Some(run) if flag(FINAL) => {
                self.after_end = run.ended;
                if let Some((first, since)) = run.first.filter(|_| run.ended && step <= max_length)
                {
                    self.transitions += step;
                    let end = self.transitions;
                    self.complete.push_back(LaneEpisode { first, length: step, since, end });
                }
            }
            // Only a faulty writer continues an episode that ended.
            Some(run) if run.ended => {}
            Some(run) => self.run = Some(EpisodeRun { next_step, ended, ..run }),
            None if flag(FINAL) => {}
            None => {
                // A GAP row may continue an episode that was cut, unless the episode before it had
                // ended.
                let begins = step == 0 && (!flag(GAP) || after_end);
                // Before a GAP row lie the FINAL row of the episode before, and the row that ended
                // that episode.
                let since = if flag(GAP) { row.saturating_sub(2) } else { row };
                let first = begins.then_some((row, since));
                self.run = Some(EpisodeRun { episode: header.episode, next_step, first, ended });
            }
        }
    }
}
