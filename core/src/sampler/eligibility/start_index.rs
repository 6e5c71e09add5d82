//! Private index of the rows that a sampler may draw, or of all transitions of a ring.
//!
//! The index is built from row headers alone, by reading every row once. Rows published since are
//! read at the next [`StartIndex::refresh`]. Rows do not change until they are overwritten, so an
//! entry stays right until a row of its window is no longer readable, and is dropped then.

use std::collections::VecDeque;
use std::ops::Range;

use backcast_layout::protocol::{Words, has_relocated, still_whole};
use backcast_layout::{Lane, Lanes};

use super::ranges::ReadableRanges;
use crate::ring::lane_inspection::readable;
use crate::row_flags::{FINAL, transition_starts};
use crate::row_header::RowHeader;
use crate::sampler::window::{NearEnd, StartRule};

/// Rows read at a time.
const CHUNK: u64 = 1024;

/// Starts: the rows at which a window of `back` transitions before and `ahead` after lies in one
/// episode, as far as a rule allows them.
#[derive(Debug)]
pub(crate) struct StartIndex {
    back: u64,
    ahead: u64,
    /// Transitions required before a row whose episode's beginning was overwritten.
    kept: u64,
    rule: StartRule,
    lanes: Vec<LaneStarts>,
    /// For each lane, the number of starts in it and in all lanes before it.
    ends: Vec<u64>,
    headers: Vec<RowHeader>,
}

/// Consecutive starts of one lane, in one episode.
#[derive(Debug)]
struct StartInterval {
    rows: Range<u64>,
    /// Starts of the lane before these, dropped ones included.
    before: u64,
    /// First row of their episode, which may be overwritten.
    episode: u64,
}

#[derive(Debug, Default)]
struct LaneStarts {
    /// Intervals in order. None is empty.
    intervals: VecDeque<StartInterval>,
    /// Oldest row that was readable at the last scan; earlier starts were dropped.
    known: u64,
    /// First row that was read since the lane was begun anew.
    first: u64,
    /// Rows before this one have been read.
    scanned: u64,
    /// First row and episode of the transitions that end before row `scanned`.
    run: Option<(u64, u64)>,
}

impl StartIndex {
    pub(crate) fn new(back: u64, ahead: u64) -> Self {
        let (lanes, ends) = (Vec::new(), Vec::new());
        let rule = StartRule::ALL;
        Self { back, ahead, kept: 0, rule, lanes, ends, headers: Vec::new() }
    }

    /// Returns an index of the transitions whose history of `back` transitions is known: the whole
    /// history is in the ring, or the beginning of the episode cuts it short.
    pub(crate) fn of_known_history(back: u64) -> Self {
        Self { kept: back, ..Self::new(0, 0) }
    }

    /// Keeps only the starts that a rule allows.
    pub(crate) fn only(self, rule: StartRule) -> Self {
        Self { rule, ..self }
    }

    /// Reads the rows published since the last refresh and drops those that were overwritten. O(new
    /// and dropped rows + lanes).
    ///
    /// Returns `false` if a lane was relocated meanwhile, and some of its rows were not read.
    pub(crate) fn refresh(&mut self, lanes: &Lanes, ranges: &ReadableRanges) -> bool {
        self.lanes.resize_with(lanes.len(), LaneStarts::default);
        self.ends.clear();
        let (mut total, mut whole) = (0, true);
        for ((starts, lane), range) in self.lanes.iter_mut().zip(lanes.iter()).zip(ranges.iter()) {
            let window = (self.back, self.ahead);
            let mut scanner = Scanner { lane, headers: &mut self.headers, window, rule: self.rule };
            whole &= scanner.scan(starts, range);
            starts.forget_before(range.start.saturating_add(self.back));
            starts.forget_unknown(range.start, self.kept);
            starts.known = range.start;
            total += starts.count();
            self.ends.push(total);
        }
        whole
    }

    /// Returns whether the last refresh read every row of `ranges`. If writers overwrote some
    /// meanwhile, the starts among them are missing.
    pub(crate) fn covers(&self, ranges: &ReadableRanges) -> bool {
        let mut lanes = self.lanes.iter().zip(ranges.iter());
        lanes.all(|(lane, rows)| rows.is_empty() || lane.first <= rows.start)
    }

    /// Returns the last row whose header is needed to decide whether row `row` is a start.
    pub(crate) fn decisive(&self, row: u64) -> u64 {
        row.saturating_add(self.ahead).saturating_add(self.rule.rows_after())
    }

    /// Returns whether rows after a transition at step `t` can make it a start.
    pub(crate) fn may_start(&self, t: u64) -> bool {
        self.rule.may_allow(t)
    }

    /// Returns the number of starts over all lanes.
    pub(crate) fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the length of the longest interval of starts.
    pub(crate) fn longest(&self) -> u64 {
        let intervals = self.lanes.iter().flat_map(|lane| &lane.intervals);
        intervals.map(|interval| interval.rows.end - interval.rows.start).max().unwrap_or(0)
    }

    /// Returns the lane and the row of the n-th start.
    pub(crate) fn nth(&self, n: u64) -> Option<(u32, u64)> {
        let lane = self.ends.partition_point(|end| *end <= n);
        let before = lane.checked_sub(1).and_then(|l| self.ends.get(l)).copied().unwrap_or(0);
        let row = self.lanes.get(lane)?.nth(n - before)?;
        Some((u32::try_from(lane).ok()?, row))
    }

    /// Returns the number of starts in a lane.
    pub(crate) fn count_in(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(0, LaneStarts::count)
    }

    /// Returns the n-th start of a lane.
    pub(crate) fn nth_in(&self, lane: usize, n: u64) -> Option<u64> {
        self.lanes.get(lane)?.nth(n)
    }

    /// Iterates over the intervals of starts, with their lanes.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = (usize, &Range<u64>)> + Clone {
        let lanes = self.lanes.iter().enumerate();
        lanes.flat_map(|(lane, starts)| starts.intervals.iter().map(move |of| (lane, &of.rows)))
    }

    /// Returns the number of the start at a row, if it is one.
    pub(crate) fn position(&self, lane: u32, row: u64) -> Option<u64> {
        let before = (lane as usize).checked_sub(1).and_then(|lane| self.ends.get(lane));
        let place = self.lanes.get(lane as usize)?.position(row)?;
        Some(before.copied().unwrap_or(0) + place)
    }

    /// Returns whether a row is a start.
    pub(crate) fn contains(&self, lane: u32, row: u64) -> bool {
        self.lanes.get(lane as usize).is_some_and(|lane| lane.contains(row))
    }
}

impl LaneStarts {
    fn count(&self) -> u64 {
        match (self.intervals.front(), self.intervals.back()) {
            (Some(front), Some(back)) => {
                back.before + (back.rows.end - back.rows.start) - front.before
            }
            _ => 0,
        }
    }

    fn nth(&self, n: u64) -> Option<u64> {
        let n = self.intervals.front()?.before + n;
        let at = self.intervals.partition_point(|interval| interval.before <= n).checked_sub(1)?;
        let interval = self.intervals.get(at)?;
        Some(interval.rows.start + (n - interval.before))
    }

    fn position(&self, row: u64) -> Option<u64> {
        let at = self.intervals.partition_point(|interval| interval.rows.end <= row);
        let interval = self.intervals.get(at).filter(|interval| interval.rows.contains(&row))?;
        Some(interval.before - self.intervals.front()?.before + (row - interval.rows.start))
    }

    fn contains(&self, row: u64) -> bool {
        let at = self.intervals.partition_point(|interval| interval.rows.end <= row);
        self.intervals.get(at).is_some_and(|interval| interval.rows.contains(&row))
    }

    /// Returns whether all starts are before a row.
    fn ends_before(&self, row: u64) -> bool {
        self.intervals.back().is_none_or(|last| last.rows.end <= row)
    }

    /// Adds a start whose episode began at row `episode`.
    fn push(&mut self, row: u64, episode: u64) {
        match self.intervals.back_mut() {
            Some(last) if last.rows.end == row && last.episode == episode => last.rows.end += 1,
            last => {
                let before = last.map_or(0, |last| last.before + (last.rows.end - last.rows.start));
                self.intervals.push_back(StartInterval { rows: row..row + 1, before, episode });
            }
        }
    }

    /// Drops the starts before row `oldest + kept` whose episode began before row `oldest`.
    fn forget_unknown(&mut self, oldest: u64, kept: u64) {
        while let Some(front) = self.intervals.front().filter(|front| front.episode < oldest) {
            let known = oldest.saturating_add(kept);
            if front.rows.start >= known {
                return;
            }
            let end = front.rows.end;
            self.forget_before(known.min(end));
        }
    }

    fn forget_before(&mut self, row: u64) {
        while let Some(front) = self.intervals.front_mut() {
            if front.rows.end > row {
                let gone = row.saturating_sub(front.rows.start);
                front.rows.start += gone;
                front.before += gone;
                return;
            }
            self.intervals.pop_front();
        }
    }

    /// Drops all starts of the lane. The next scan begins at `row`.
    fn restart(&mut self, row: u64) {
        *self = Self { known: row, first: row, scanned: row, ..Self::default() };
    }
}

/// Reader of the headers of one lane, for its index.
struct Scanner<'a> {
    lane: &'a Lane,
    headers: &'a mut Vec<RowHeader>,
    window: (u64, u64),
    rule: StartRule,
}

impl Scanner<'_> {
    /// Reads the headers published since the last scan. Returns `false` if the lane was relocated:
    /// the rest must be read from its new memory.
    fn scan(&mut self, starts: &mut LaneStarts, range: &Range<u64>) -> bool {
        // `scanned` is below the oldest row after a lap. It is above the newest row only if a head
        // decreased, which no correct writer does; the rows read then do not exist. A resized lane
        // may make rows readable again that were too old before.
        let lapped = starts.scanned < range.start || starts.scanned > range.end;
        if lapped || range.start < starts.known {
            starts.restart(range.start);
        }
        // The header of a row's successor tells whether a transition starts at the row.
        while starts.scanned + 1 < range.end {
            let end = range.end.min(starts.scanned + CHUNK);
            if self.read(starts.scanned..end) {
                self.take(starts);
            } else if has_relocated(self.lane) {
                return false;
            } else {
                // A writer overwrote the first of these rows meanwhile.
                let oldest = readable(self.lane).start;
                starts.restart(oldest.max(starts.scanned + 1));
            }
        }
        true
    }

    /// Copies the headers of some rows. Returns whether they were still there afterwards.
    fn read(&mut self, rows: Range<u64>) -> bool {
        let (slot, count) = (rows.start % self.lane.slots(), rows.end - rows.start);
        let len = usize::try_from(count).unwrap_or(0);
        self.headers.resize(len, RowHeader::default());
        RowHeader::read_into(self.lane, slot, self.headers);
        still_whole(self.lane, rows.start)
    }

    /// Adds the starts among the copied rows. The last row waits for its successor.
    fn take(&mut self, starts: &mut LaneStarts) {
        let (back, ahead) = self.window;
        for pair in self.headers.windows(2) {
            let (row, episode, t) = (starts.scanned, pair[0].episode, u64::from(pair[0].t));
            starts.scanned += 1;
            if !transition_starts(pair[0].flags, pair[1].flags) {
                // A row before a GAP follows the last transition of an episode that was cut. At a
                // FINAL row there is no run: it ended with the transition before.
                if let Some((first, _)) = starts.run.take().filter(|(_, of)| *of == episode) {
                    self.end(starts, first, (row.saturating_sub(1), t.saturating_sub(1)));
                }
                continue;
            }
            let first = match starts.run {
                Some((first, of)) if of == episode => first,
                _ => row,
            };
            starts.run = Some((first, episode));
            if row - first >= back + ahead && self.rule.allows(t.saturating_sub(ahead)) {
                starts.push(row - ahead, row.saturating_sub(t));
            }
            if pair[1].flags & FINAL != 0 {
                starts.run = None;
                self.end(starts, first, (row, t));
            }
        }
    }

    /// Adds the starts that the end of an episode allows. `first` is the first known row of the
    /// episode, and `last` its last transition, at step `t`.
    fn end(&self, starts: &mut LaneStarts, first: u64, (last, t): (u64, u64)) {
        let (back, ahead) = self.window;
        let episode = last.saturating_sub(t);
        let mut add = |row: u64| {
            if row >= first && starts.ends_before(row) {
                starts.push(row, episode);
            }
        };
        match self.rule.near_end() {
            NearEnd::All | NearEnd::Whole => {}
            NearEnd::Window { .. } => {
                if last >= first.saturating_add(back + ahead) {
                    add(last - ahead);
                }
            }
            NearEnd::Masked => {
                let late = (last + 1).saturating_sub(ahead).max(first)..=last;
                late.filter(|row| self.rule.allows(t.saturating_sub(last - row))).for_each(add);
            }
            NearEnd::Moved => add(last - ahead.min(t).min(last)),
        }
    }
}
