//! Rows that this sampler claimed from a table.

use std::ops::Range;

use backcast_layout::protocol::claim::ClaimPass;

use super::ledger::{ClaimLedger, ClaimedItem};
use super::too_few;
use crate::error::SampleError;
use crate::ring::Ring;
use crate::sampler::eligibility::{Eligibility, SkippedRows};
use crate::sampler::selector::Selector;
use crate::table::{ClaimPlace, Claims, TableOptions, new_rows};
use crate::table_lock::LockLimits;

/// A claimed row: lane and row, and its place in the table.
type ClaimedRow = ((usize, u64), ClaimPlace);

impl ClaimedItem for ClaimedRow {
    fn last_place(&self) -> ClaimPlace {
        self.1
    }

    fn transitions(&self) -> u64 {
        1
    }
}

/// Claimed rows of a batch, and those that are left over from batches that were not returned.
#[derive(Debug)]
pub(in crate::sampler) struct ClaimedRows {
    selector: Selector,
    windows: bool,
    ledger: ClaimLedger<ClaimedRow>,
    /// Claimed rows whose eligibility depends on rows that are not published yet. Each comes with
    /// the end of its lane's readable rows at the last check. Tables that are renewed have none.
    undecided: Vec<(ClaimedRow, u64)>,
    /// Claimed transitions that were skipped since they are too old, and not reported yet.
    too_old: SkippedRows,
}

impl ClaimedRows {
    pub(super) fn open(
        ring: &Ring,
        options: TableOptions,
        windows: bool,
    ) -> Result<Self, SampleError> {
        let ledger = ClaimLedger::new(Claims::open(ring, &options)?);
        let (selector, undecided) = (Selector::Table(options), Vec::new());
        Ok(Self { selector, windows, ledger, undecided, too_old: SkippedRows::default() })
    }

    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Keeps the rows of the last `batches` batches, at least 1, for [`rewind`](Self::rewind).
    pub(super) fn keep(&mut self, batches: usize) {
        self.ledger.keep(batches);
    }

    /// Takes back the rows of batch `batch` and later ones.
    pub(super) fn rewind(&mut self, batch: u64) {
        self.ledger.rewind(batch);
    }

    /// Fails if the table was removed since it was opened.
    pub(super) fn check_not_removed(&self) -> Result<(), SampleError> {
        Ok(self.ledger.claims.check_not_removed()?)
    }

    /// Sets what ends waits for the lock of the table.
    pub(super) fn set_limits(&mut self, limits: LockLimits) {
        self.ledger.claims.set_limits(limits);
    }

    /// Returns how many rows could be claimed now. Counts claimed rows that were undecided, if rows
    /// were published after them.
    pub(in crate::sampler) fn claimable(&self) -> u64 {
        let claims = &self.ledger.claims;
        let ring = claims.ring();
        let has_more = |((lane, _), end): ((usize, u64), u64)| {
            let span = u32::try_from(lane).ok().and_then(|lane| ring.lane_span(lane));
            span.is_some_and(|rows| rows.end > end)
        };
        let undecided = self.undecided.iter().filter(|((row, _), end)| has_more((*row, *end)));
        claims.claimable().saturating_add(undecided.count() as u64)
    }

    /// Says for an error how many rows of the ring are claimed, and which of them this sampler
    /// holds. Empty if none is claimed, or the number is unknown. O(lanes).
    pub(in crate::sampler) fn claimed_in_words(&self) -> String {
        let Selector::Table(options) = &self.selector else { return String::new() };
        let ring = self.ledger.claims.ring();
        let spans = (0..ring.lanes()).filter_map(|lane| ring.lane_span(lane));
        // The newest row of a lane begins no transition.
        let rows: u64 = spans.map(|rows| (rows.end - rows.start).saturating_sub(1)).sum();
        let free = self.ledger.claims.claimable();
        // A row that later passes repeat is free once for each of them.
        if free >= rows || (options.settings().times > 1 && free > 0) {
            return String::new();
        }
        let (name, claimed) = (options.name(), rows - free);
        let own = match (self.ledger.items.len() + self.ledger.held.len(), self.undecided.len()) {
            (0, 0) => String::new(),
            (held, 0) => format!(", {held} of them by this one for its batch"),
            (0, waits) => {
                format!(", {waits} of them by this one, which awaits the rows after them")
            }
            (held, waits) => format!(
                ", of which this one holds {held} for its batch and {waits} until the rows after \
                 them are there"
            ),
        };
        format!(
            "samplers of the table `{name}` have claimed {claimed} of {rows} rows in the \
             ring{own}; rows that another sampler holds and has not returned are free again when \
             it is closed, if no other has claimed since"
        )
    }

    /// Moves the undecided rows to the held ones, in the order of their claims. They are checked
    /// again there.
    fn take_undecided(&mut self) {
        if self.undecided.is_empty() {
            return;
        }
        self.ledger.held.extend(self.undecided.drain(..).map(|(row, _)| row));
        self.ledger.held.make_contiguous().sort_by_key(|(_, place)| *place);
    }

    /// Returns the transitions that were skipped since the last call.
    pub(super) fn take_too_old(&mut self) -> SkippedRows {
        std::mem::take(&mut self.too_old)
    }

    /// Counts a claimed row that is too old. A renewed table skips none: its next pass has the row
    /// again.
    fn count_too_old(&mut self, row: (usize, u64), eligibility: &Eligibility) {
        if !self.is_renewed() {
            eligibility.count_too_old(row, &mut self.too_old);
        }
    }

    /// Keeps a claimed row that is not eligible, if rows that are not published yet may change
    /// that, and counts one that is too old. A renewed table keeps none: its next pass has the row
    /// again.
    fn refuse(&mut self, row @ ((lane, seq), _): ClaimedRow, eligibility: &Eligibility) {
        self.count_too_old((lane, seq), eligibility);
        self.ledger.claims.count_if_overwritten((lane, seq));
        if self.windows && !self.is_renewed() && eligibility.is_undecided(lane, seq) {
            let end = eligibility.ranges().get(lane).map_or(0, |range| range.rows().end);
            self.undecided.push((row, end));
        }
    }

    /// Refuses a batch with more rows than a table can offer to one batch, from a ring that can
    /// hold `most` transitions. Passes that are renewed offer any number.
    pub(in crate::sampler) fn check(&self, items: usize, most: u64) -> Result<(), SampleError> {
        let Selector::Table(options) = &self.selector else { return Ok(()) };
        let settings = options.settings();
        let most = most.saturating_mul(settings.times.into());
        if settings.renewed || items as u64 <= most {
            return Ok(());
        }
        let (selector, wanted) = (self.selector.as_str(), items as u64);
        Err(SampleError::BeyondTable { selector, wanted, most })
    }

    /// Claims the rows of a batch. Returns `false` if a table of renewed passes has nothing to
    /// draw.
    pub(super) fn begin(
        &mut self,
        items: usize,
        eligibility: &mut Eligibility,
    ) -> Result<bool, SampleError> {
        self.claim_rows(items, items, eligibility)
    }

    /// Claims the rows that are new, up to `most`, and returns how many there are: 1 at least.
    pub(super) fn begin_new(
        &mut self,
        most: usize,
        eligibility: &mut Eligibility,
    ) -> Result<usize, SampleError> {
        match self.claim_rows(most, 1, eligibility) {
            Err(SampleError::TooFew { .. }) if !self.ledger.items.is_empty() => {}
            claimed => drop(claimed?),
        }
        Ok(self.ledger.items.len())
    }

    /// Claims `items` rows for a batch. A pass is begun only with `need` new rows, or as many as
    /// are missing.
    fn claim_rows(
        &mut self,
        items: usize,
        need: usize,
        eligibility: &mut Eligibility,
    ) -> Result<bool, SampleError> {
        if self.windows {
            eligibility.build_index();
        }
        self.ledger.hold_items();
        self.take_undecided();
        let candidates = eligibility.all_candidates();
        let mut passes = None;
        while self.ledger.items.len() < items {
            let missing = items - self.ledger.items.len();
            if let Some(((lane, seq), place)) = self.ledger.held.pop_front() {
                if is_newer(eligibility, (lane, seq)) {
                    // Another process began the pass, and has seen newer rows.
                    eligibility.refresh();
                }
                if eligibility.accepts(lane, seq, self.windows) {
                    self.ledger.items.push(((lane, seq), place));
                    passes = None;
                } else {
                    self.refuse(((lane, seq), place), eligibility);
                }
            } else if !self.claim(missing, need.min(missing), &candidates)? {
                // A table of renewed passes does not wait for writers: without candidates there is
                // nothing to draw.
                if self.is_renewed() {
                    return Ok(false);
                }
                return Err(too_few(&self.selector, need.min(missing), 0));
            } else if self.is_renewed() {
                // Two passes without a single transition: there is none.
                let pass = self.ledger.claims.pass();
                let (first, changes) = passes.unwrap_or((pass, 0));
                passes = Some((pass, changes + u32::from(first != pass)));
                if passes.is_some_and(|(_, changes)| changes > 2) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn is_renewed(&self) -> bool {
        matches!(&self.selector, Selector::Table(options) if options.settings().renewed)
    }

    /// Claims up to `want` rows, which are held then. A pass is begun only with `need` new rows.
    /// Returns `false` if none can be claimed.
    fn claim(
        &mut self,
        want: usize,
        need: usize,
        candidates: &[Range<u64>],
    ) -> Result<bool, SampleError> {
        let ClaimLedger { claims, held, .. } = &mut self.ledger;
        let fresh =
            |settings, last: &ClaimPass| new_rows(settings, &last.ranges, candidates, need as u64);
        Ok(claims.claim(want as u64, fresh, |row, place| held.push_back((row, place)))?)
    }

    pub(super) fn first_draw(&self, item: usize) -> Option<(usize, u64)> {
        self.ledger.items.get(item).map(|(row, _)| *row)
    }

    /// Returns another row for an item whose row was rejected or overwritten: one that is held, or
    /// a newly claimed one.
    pub(super) fn next(
        &mut self,
        item: usize,
        eligibility: &Eligibility,
    ) -> Result<(usize, u64), SampleError> {
        let candidates = eligibility.all_candidates();
        let total: u64 = candidates.iter().map(|rows| rows.end - rows.start).sum();
        // Checks no more rows than the ring has candidates: with a faulty peer, rows to claim may
        // never run out.
        for _ in 0..=total {
            let found = self.ledger.held.pop_front();
            if let Some(((lane, seq), place)) = found {
                if is_newer(eligibility, (lane, seq)) {
                    // The inspection reads the ranges again, and the next attempt takes the row.
                    self.ledger.held.push_front(((lane, seq), place));
                    return Ok((lane, seq));
                }
                if eligibility.accepts(lane, seq, self.windows) {
                    if let Some(row) = self.ledger.items.get_mut(item) {
                        let replaced = std::mem::replace(row, ((lane, seq), place)).0;
                        self.count_too_old(replaced, eligibility);
                        self.ledger.claims.count_if_overwritten(replaced);
                    }
                    return Ok((lane, seq));
                }
                self.refuse(((lane, seq), place), eligibility);
            } else if !self.claim(1, 1, &candidates)? {
                break;
            }
        }
        if item < self.ledger.items.len() {
            let (removed, _) = self.ledger.items.remove(item);
            self.count_too_old(removed, eligibility);
            self.ledger.claims.count_if_overwritten(removed);
        }
        Err(too_few(&self.selector, 1, 0))
    }

    /// Ends a batch that was drawn.
    pub(super) fn finish(&mut self, batch: u64) {
        self.ledger.finish(batch);
    }
}

/// Returns whether a row is newer than the ranges that were read.
fn is_newer(eligibility: &Eligibility, (lane, seq): (usize, u64)) -> bool {
    eligibility.ranges().get(lane).is_some_and(|range| seq >= range.candidates().end)
}
