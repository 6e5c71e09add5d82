//! Eligibility: the transitions that may be drawn, and the random numbers that choose among them.
//!
//! A draw picks a row uniformly among the readable rows, the newest of each lane excepted. It is
//! rejected if no transition starts there. Where most draws would be rejected, a private index of
//! starts takes over. The index changes the cost of a draw and never its result.

mod age_limit;
mod episode_index;
mod ranges;
mod start_index;

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::Lanes;
use backcast_layout::protocol::Words;

use self::age_limit::AgeLimit;
pub(crate) use self::episode_index::{CompleteEpisode, EpisodeIndex};
pub(crate) use self::ranges::{LaneRange, ReadableRanges};
pub(crate) use self::start_index::StartIndex;
use super::options::MaxAge;
use super::plan::BatchPlan;
use super::policy_version::{PolicyVersion, PolicyVersions};
use super::rng::{CounterRng, GROUP};
use crate::error::PriorityError;
use crate::priority::Priorities;
use crate::ring::Ring;
use crate::ring::lane_inspection::{MAX_RELOCATIONS, readable};
use crate::row_flags::{FINAL, GAP};
use crate::row_header::{RowHeader, starts_transition};

/// Rejection-sampling attempts per item before falling back to the start index. A seed's draws
/// depend on it: later attempts draw from the index.
pub(crate) const MAX_REJECTIONS: u32 = 32;
/// Lane of a candidate that does not exist.
const NO_LANE: usize = usize::MAX;
/// A first draw that has to be repeated, or a named row that is not readable.
pub(crate) const NO_DRAW: (usize, u64) = (NO_LANE, 0);

/// A row that an attempt drew for an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Number of the attempt, counted from 0.
    pub(crate) attempt: u32,
    pub(crate) lane: u32,
    pub(crate) seq: u64,
}

/// The rows that a sampler may draw, at one moment.
#[derive(Debug)]
pub(crate) struct Eligibility {
    ring: Ring,
    /// Memory that `ranges` was read from.
    lanes: Arc<Lanes>,
    ranges: ReadableRanges,
    starts: StartIndex,
    /// Complete episodes, if these are drawn in place of transitions.
    episodes: Option<EpisodeIndex>,
    /// Whether `starts` is refreshed together with `ranges`.
    indexed: bool,
    /// Limit to the age of rows. Draws read no older ones.
    limit: Option<Box<AgeLimit>>,
    /// Versions of the policy that made the rows, if the ring has a column of them.
    versions: Option<PolicyVersions>,
}

/// Rows that a table of claims handed out, and that are too old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SkippedRows {
    /// Transitions.
    pub(crate) transitions: u64,
    /// Items of the sampler's form that begin with one of them.
    pub(crate) items: u64,
}

impl Eligibility {
    /// Returns the eligibility of a ring's transitions before the first [`refresh`](Self::refresh).
    pub(crate) fn new(ring: &Ring, starts: StartIndex) -> Self {
        let (lanes, ranges) = (ring.store().lanes(), ReadableRanges::default());
        let (ring, indexed, episodes, limit, versions) = (ring.clone(), false, None, None, None);
        Self { ring, lanes, ranges, starts, episodes, indexed, limit, versions }
    }

    /// Limits the age of the rows that are drawn.
    pub(crate) fn at_most(self, max: MaxAge) -> Self {
        let limit = (max != MaxAge::default()).then(|| Box::new(AgeLimit::new(max)));
        Self { limit, ..self }
    }

    /// Reads the newest version of the policy at every draw, if the ring has a column of versions.
    /// `set` is the version that the learner knows.
    pub(crate) fn with_versions(self, set: &PolicyVersion) -> Self {
        Self { versions: PolicyVersions::of(self.ring.schema(), set), ..self }
    }

    /// Accepts only the first rows of complete episodes of at most `max_length` transitions.
    pub(crate) fn of_episodes(self, max_length: u64) -> Self {
        Self { episodes: Some(EpisodeIndex::new(max_length)), ..self }
    }

    /// Reads what the ring holds now for the next draw, and the newest version of the policy, which
    /// stays that of the draw.
    pub(crate) fn begin_draw(&mut self) {
        if self.versions.is_some() {
            self.begin_gather();
        }
        self.refresh();
    }

    /// Reads which rows are readable now, regardless of their age, and the newest version of the
    /// policy.
    pub(crate) fn begin_gather(&mut self) {
        self.refresh_ranges();
        if let Some(versions) = &mut self.versions {
            versions.refresh(&self.lanes, self.ranges.iter());
        }
    }

    /// Reads what the ring holds now, and updates the index if it is in use.
    pub(crate) fn refresh(&mut self) {
        for _ in 0..MAX_RELOCATIONS {
            self.refresh_ranges();
            if let Some(limit) = &mut self.limit {
                limit.refresh(&self.lanes, &self.ranges, self.versions.as_ref());
                self.ranges.narrow(&self.lanes, limit.oldest());
            }
            if self.refresh_index() {
                return;
            }
        }
    }

    /// Updates the index that is in use. Returns `false` if a lane was relocated meanwhile.
    fn refresh_index(&mut self) -> bool {
        match &mut self.episodes {
            Some(episodes) => episodes.refresh(&self.lanes, &self.ranges),
            None => !self.indexed || self.starts.refresh(&self.lanes, &self.ranges),
        }
    }

    /// Reads which rows are readable now, regardless of their age.
    pub(crate) fn refresh_ranges(&mut self) {
        self.lanes = self.ranges.refresh(&self.ring);
    }

    /// Returns the memory of the lanes.
    pub(crate) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// Iterates over the readable rows of every lane, those that are too old included.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = &Range<u64>> + Clone {
        let limit = self.limit.as_deref();
        (0..self.ranges.lanes()).filter_map(move |lane| match limit {
            Some(limit) => limit.readable().get(lane),
            None => self.ranges.get(lane).map(LaneRange::rows),
        })
    }

    /// Returns the rows of every lane that may start a transition, those that are too old included.
    pub(crate) fn all_candidates(&self) -> Vec<Range<u64>> {
        let candidates = |rows: &Range<u64>| rows.start..rows.end.saturating_sub(1).max(rows.start);
        self.all_rows().map(candidates).collect()
    }

    /// Returns whether the age of rows is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Gives leaves to new rows. Waits for the lock of the table where ages are limited, for the
    /// rows that have leaves may all be too old.
    pub(crate) fn enter_rows(&self, priorities: &mut Priorities) -> Result<(), PriorityError> {
        if self.is_limited() {
            priorities.refresh_whole(&self.lanes, self.all_rows())
        } else {
            priorities.refresh(&self.lanes, self.all_rows())
        }
    }

    /// Returns the limit to the age of rows.
    pub(crate) fn max_age(&self) -> Option<MaxAge> {
        self.limit.as_ref().map(|limit| limit.max())
    }

    /// Returns the maximum number of newer rows of a lane, if that is limited.
    pub(crate) fn max_rows(&self) -> Option<u64> {
        self.max_age()?.rows
    }

    /// Returns the first row of every lane that is not too old; none if ages are not limited.
    pub(crate) fn oldest(&self) -> &[u64] {
        self.limit.as_ref().map_or(&[], |limit| limit.oldest())
    }

    /// Returns whether a row is too old to be drawn.
    #[inline]
    pub(crate) fn is_too_old(&self, lane: usize, seq: u64) -> bool {
        self.limit.is_some() && self.oldest().get(lane).is_some_and(|oldest| seq < *oldest)
    }

    /// Returns the number of readable rows that are too old, and the limit, if there are some.
    pub(crate) fn too_old_rows(&self) -> Option<(u64, MaxAge)> {
        let limit = self.limit.as_ref()?;
        Some((limit.too_old(), limit.max())).filter(|(rows, _)| *rows > 0)
    }

    /// Counts a claimed row if a transition starts there that is too old. Reads two headers.
    pub(crate) fn count_too_old(&self, (at, seq): (usize, u64), count: &mut SkippedRows) {
        let Some(lane) = self.lanes.get(at).filter(|_| self.is_too_old(at, seq)) else { return };
        let mut headers = [RowHeader::default(); 2];
        RowHeader::read_into(&**lane, seq % lane.slots(), &mut headers);
        if starts_transition(&headers, seq) {
            let step = u64::from(headers[0].t);
            let begins = match self.episodes {
                Some(_) => step == 0,
                None => self.starts.may_start(step),
            };
            count.transitions += 1;
            count.items += u64::from(begins);
        }
    }

    /// Writes the ages of the policies of a batch, if it shows them.
    pub(crate) fn write_policy_ages(&self, plan: &BatchPlan, arenas: &mut [&mut [u8]]) {
        if let Some(versions) = &self.versions {
            versions.write_ages(plan, arenas);
        }
    }

    /// Returns the readable rows that are not too old.
    #[inline]
    pub(crate) fn ranges(&self) -> &ReadableRanges {
        &self.ranges
    }

    /// Returns whether draws use the index.
    pub(crate) fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// Sets whether the index of starts is in use, so that each [`refresh`](Self::refresh) updates
    /// it. The index is never in use if complete episodes are drawn.
    pub(crate) fn use_index(&mut self, indexed: bool) {
        self.indexed = indexed && self.episodes.is_none();
    }

    /// Reads what the ring holds now, and updates the index of starts. Returns `false` if writers
    /// overwrote rows before the index had read them: read again.
    pub(crate) fn refresh_whole(&mut self) -> bool {
        self.use_index(true);
        self.refresh();
        self.starts.covers(&self.ranges)
    }

    /// Builds the index of starts, unless it is in use or complete episodes are drawn.
    ///
    /// Returns `false` if a lane was relocated meanwhile; the ranges then are those of its new
    /// memory.
    pub(crate) fn build_index(&mut self) -> bool {
        if self.indexed || self.episodes.is_some() {
            return true;
        }
        self.indexed = true;
        let built = self.starts.refresh(&self.lanes, &self.ranges);
        if !built {
            self.refresh();
        }
        built
    }

    /// Returns whether attempt number `attempt` has nothing to draw.
    pub(crate) fn is_empty(&self, attempt: u32) -> bool {
        self.ranges.total() == 0 || (attempt >= MAX_REJECTIONS && self.starts.total() == 0)
    }

    /// Returns whether at most one row is left of those that some lane had at the last refresh: the
    /// others were overwritten or dropped. That no transition was found among them then says
    /// nothing about the rows that the ring has now.
    #[cold]
    pub(crate) fn is_overtaken(&self) -> bool {
        self.lanes.iter().zip(self.ranges.iter()).any(|(lane, read)| {
            let oldest = readable(lane).start;
            oldest > read.start && oldest + 1 >= read.end
        })
    }

    /// Returns whether some lane has lost rows since the last refresh: they were overwritten or
    /// dropped.
    #[cold]
    pub(crate) fn has_lost_rows(&self) -> bool {
        let mut lanes = self.lanes.iter().zip(self.ranges.iter());
        lanes.any(|(lane, read)| readable(lane).start > read.start)
    }

    /// Returns the complete episodes, if these are drawn.
    pub(crate) fn episodes(&self) -> Option<&EpisodeIndex> {
        self.episodes.as_ref()
    }

    /// Returns the index of starts. It is up to date if it is [in use](Self::is_indexed).
    pub(crate) fn starts(&self) -> &StartIndex {
        &self.starts
    }

    /// Returns whether the item that starts at a readable row is eligible. If complete episodes are
    /// drawn, one must begin there. Otherwise a transition must start there. Its window must be
    /// eligible too with `windows`, or if the index is in use. Reads the headers of two rows if it
    /// uses no index.
    pub(crate) fn accepts(&self, lane: usize, seq: u64, windows: bool) -> bool {
        let Some(range) = self.ranges.get(lane) else { return false };
        if !range.candidates().contains(&seq) {
            return false;
        }
        if let Some(episodes) = &self.episodes {
            return episodes.beginning_at(lane, seq).is_some();
        }
        if windows || self.indexed {
            return u32::try_from(lane).is_ok_and(|lane| self.starts.contains(lane, seq));
        }
        let Some(lane) = self.lanes.get(lane) else { return false };
        let mut headers = [RowHeader::default(); 2];
        RowHeader::read_into(&**lane, seq % lane.slots(), &mut headers);
        starts_transition(&headers, seq)
    }

    /// Returns whether rows that are not published yet decide whether a readable transition is
    /// eligible: its window, or the end of its episode, lies beyond the newest row.
    pub(crate) fn is_undecided(&self, lane: usize, seq: u64) -> bool {
        if let Some(episodes) = &self.episodes {
            return episodes.goes_on_from(lane, seq);
        }
        let (Some(range), Some(lane)) = (self.ranges.get(lane), self.lanes.get(lane)) else {
            return false;
        };
        let end = range.rows().end;
        if !range.candidates().contains(&seq) || self.starts.decisive(seq) < end {
            return false;
        }
        // These are at most the rows that decide about one window.
        (seq..end).all(|row| {
            let header = RowHeader::read(&**lane, row);
            let goes_on = header.flags & (FINAL | if row == seq { 0 } else { GAP }) == 0;
            let may_start = row != seq || self.starts.may_start(header.t.into());
            header.seq == row && goes_on && may_start
        })
    }

    /// Returns whether the ring has complete episodes of at most `max_length` transitions, those
    /// that are too old included. O(rows).
    pub(crate) fn has_episodes_of_any_age(&self, max_length: u64) -> bool {
        let (mut all, mut ranges) = (EpisodeIndex::new(max_length), ReadableRanges::default());
        let lanes = ranges.refresh(&self.ring);
        all.refresh(&lanes, &ranges) && all.total() > 0
    }

    /// Returns the length of the longest sequence of transitions of one episode. O(rows).
    pub(crate) fn longest_run(&self) -> u64 {
        let mut all = StartIndex::new(0, 0);
        all.refresh(&self.lanes, &self.ranges);
        all.longest()
    }

    /// Makes the first draws of some items. A draw is a lane and the number of its readable rows
    /// that are older, or [`NO_DRAW`] if it has to be repeated.
    #[inline]
    pub(crate) fn first_draws(
        &self,
        rng: &mut CounterRng,
        batch: u64,
        items: Range<usize>,
        drawn: &mut [(usize, u64)],
    ) {
        let total = self.ranges.total();
        let numbers = number(items.start)..number(items.end);
        let mut first = rng.first_of(batch, numbers.start);
        for (drawn, number) in drawn.iter_mut().zip(numbers) {
            if number.is_multiple_of(GROUP) {
                first = rng.first_of(batch, number);
            }
            let found = first.below(total, number).and_then(|n| self.ranges.find(n));
            *drawn = found.unwrap_or(NO_DRAW);
        }
    }

    /// Returns the candidate that an attempt draws for an item, or `None` if it is rejected. The
    /// index, if it is in use, rejects every row that an inspection would reject.
    #[inline]
    pub(crate) fn candidate(
        &self,
        rng: &mut CounterRng,
        batch: u64,
        item: u32,
        attempt: u32,
    ) -> Option<Candidate> {
        let by_ranges = attempt < MAX_REJECTIONS;
        let total = if by_ranges { self.ranges.total() } else { self.starts.total() };
        if total == 0 {
            return None;
        }
        let n = match attempt {
            0 => rng.first_below(total, batch, item)?,
            _ => rng.below(total, batch, item, attempt)?,
        };
        let (lane, seq) = if by_ranges { self.ranges.candidate(n)? } else { self.starts.nth(n)? };
        let fits = !by_ranges || !self.indexed || self.starts.contains(lane, seq);
        fits.then_some(Candidate { attempt, lane, seq })
    }

    /// Returns the first candidate of an item that the index accepts.
    #[inline(never)]
    pub(crate) fn indexed_candidate(
        &self,
        rng: &mut CounterRng,
        batch: u64,
        item: u32,
    ) -> Option<Candidate> {
        (0..=MAX_REJECTIONS).find_map(|attempt| self.candidate(rng, batch, item, attempt))
    }
}

/// Returns an item's number in the counter of the RNG.
pub(crate) fn number(item: usize) -> u32 {
    u32::try_from(item).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, RingOptions, Schema, StepColumns, WriterOptions};

    #[test]
    fn rows_that_a_writer_lapped_after_they_were_read_prove_nothing() {
        let schema = Schema::builder().column("obs", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(64)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut append = |rows: u64| {
            for _ in 0..rows {
                let columns = StepColumns::of(&schema).with("obs", &[0.5_f32]).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
        };
        let mut eligibility = Eligibility::new(&ring, StartIndex::new(0, 0));
        eligibility.refresh();
        assert!(!eligibility.is_overtaken(), "an empty ring has no transition");
        assert!(!eligibility.has_lost_rows());
        append(1);
        eligibility.refresh();
        assert!(!eligibility.is_overtaken(), "a single row has none either");
        append(60);
        eligibility.refresh();
        append(20);
        assert!(!eligibility.is_overtaken() && eligibility.longest_run() > 0, "some are left");
        assert!(eligibility.has_lost_rows());
        append(ring.capacity());
        assert!(eligibility.is_overtaken() && eligibility.longest_run() == 0);
        eligibility.refresh();
        assert!(!eligibility.is_overtaken() && eligibility.longest_run() > 0);
    }
}
