//! Selection of the rows of a batch: which may be drawn, and the selector that chooses among them.

mod block;
mod claimed;
mod episodes;
mod extremes;
mod ledger;
#[cfg(test)]
mod model;
mod ordered;
mod rollouts;
mod selector_state;
mod weighted;
mod windows;

use std::ops::Range;

pub(super) use self::block::BlockDraws;
pub(super) use self::episodes::{ATTEMPTS_A_LOOK, OpenItem};
pub(super) use self::rollouts::RolloutColumn;
use self::selector_state::SelectorState;
pub(super) use self::windows::DrawnWindows;
use super::boundary::Boundary;
use super::eligibility::{Candidate, Eligibility, NO_DRAW, SkippedRows, StartIndex, number};
use super::gather::MAX_ATTEMPTS;
use super::plan::BatchPlan;
use super::prioritised::PrioritisedDraws;
use super::rng::CounterRng;
use super::rollouts::BlockSize;
use super::selector::Selector;
use super::stream::DrawStream;
use crate::error::{ClaimUnit, PriorityError, SampleError, max_ages};
use crate::priority::{Priorities, PriorityOptions, PriorityOrder, check_beta};
use crate::ring::Ring;
use crate::table_lock::LockLimits;

/// Attempts per item of the last batch above which the start index is kept up to date.
const FREQUENT: u64 = 3;
/// Maximum attempts to begin a batch while its selector finds no row.
const LOOKS: u32 = 16;

/// Rows that a sampler may draw, and how it chooses among them.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) eligibility: Eligibility,
    windows: DrawnWindows,
    /// State of the selector; `None` for uniform draws.
    selector: Option<Box<SelectorState>>,
}

impl Selection {
    /// Opens the selection of a ring's rows, and the table of the selector if it has one.
    pub(super) fn open(
        ring: &Ring,
        selector: Selector,
        (windows, starts): (DrawnWindows, StartIndex),
    ) -> Result<Self, SampleError> {
        let selector = SelectorState::open(ring, selector, windows.leave_out(), windows.rollout())?
            .map(Box::new);
        let mut eligibility = Eligibility::new(ring, starts);
        if let Some(of) = windows.episodes() {
            eligibility = eligibility.of_episodes(of.max_length.map_or(u64::MAX, u64::from));
        }
        Ok(Self { eligibility, windows, selector })
    }

    /// Returns the windows of drawn transitions.
    #[inline]
    pub(super) fn windows(&self) -> &DrawnWindows {
        &self.windows
    }

    /// Returns the selector, with later changes.
    pub(super) fn selector(&self) -> Selector {
        self.selector.as_ref().map_or(Selector::Uniform, |state| state.selector())
    }

    /// Fails if the selector's table was removed since it was opened.
    pub(super) fn check_not_removed(&mut self) -> Result<(), SampleError> {
        self.selector.as_mut().map_or(Ok(()), |state| state.check_not_removed())
    }

    /// Sets what ends waits for the lock of a table.
    pub(super) fn set_limits(&mut self, limits: LockLimits) {
        if let Some(state) = &mut self.selector {
            state.set_limits(limits);
        }
    }

    /// Refuses a batch with more items than a table of claims can ever offer, or than can be young
    /// enough at a time.
    #[inline]
    pub(super) fn check_batch(&self, items: usize, ring: &Ring) -> Result<(), SampleError> {
        let Some(SelectorState::Claimed(claimed)) = self.selector.as_deref() else { return Ok(()) };
        let check = || {
            let (most, unit) = (ring.max_len(), self.claim_unit());
            let Some(max_age) = self.eligibility.max_rows() else {
                return claimed.check(items, most);
            };
            // The newest row of a lane has age 0, and begins no transition.
            let young = max_age.saturating_mul(ring.lanes().into());
            claimed.check(items, most.min(young)).map_err(|refused| match refused {
                SampleError::BeyondTable { wanted, most: limit, .. } if young < most => {
                    SampleError::BeyondMaxAge { unit, wanted, most: limit, max_age }
                }
                refused => refused,
            })
        };
        check().or_else(|_| {
            // The ring may have grown since this handle mapped its lanes.
            ring.follow();
            check()
        })
    }

    /// Refuses a block with more columns of `length` transitions than can be young enough at a
    /// time.
    pub(super) fn check_columns(
        &self,
        columns: usize,
        length: u32,
        ring: &Ring,
    ) -> Result<(), SampleError> {
        let Some(max_age) = self.eligibility.max_rows() else { return Ok(()) };
        let (unit, wanted) = (ClaimUnit::Columns, columns as u64);
        let most = || (max_age / u64::from(length.max(1))).saturating_mul(ring.lanes().into());
        if wanted > most() {
            ring.follow();
        }
        let most = most();
        if wanted > most {
            return Err(SampleError::BeyondMaxAge { unit, wanted, most, max_age });
        }
        Ok(())
    }

    /// Chooses the rows of the next batch, if a selector does that before the gather.
    ///
    /// If this process was stopped after it read the ranges, all rows may be overwritten before
    /// they are chosen or get leaves. The ranges are then read again. Fails with nothing to draw if
    /// no lane was overtaken. If rows have leaves, it fails only if no range changed either.
    pub(super) fn begin(
        &mut self,
        stream: &mut DrawStream,
        items: usize,
    ) -> Result<(), SampleError> {
        let Self { eligibility, selector: Some(state), windows, .. } = self else { return Ok(()) };
        let batch = stream.number();
        let has_leaves = state.priorities_mut().is_some();
        for _ in 0..LOOKS {
            if state.begin(stream.rng_mut(), (batch, items), eligibility)? {
                return Ok(());
            }
            let overtaken = eligibility.is_overtaken();
            let read: Vec<_> = eligibility.ranges().iter().cloned().collect();
            eligibility.refresh();
            let moved = has_leaves && !eligibility.ranges().iter().eq(&read);
            if !overtaken && !moved {
                return Err(windows.nothing(eligibility));
            }
        }
        Err(SampleError::Outrun { attempts: LOOKS })
    }

    /// Makes the first draws of some items of batch number `batch`: for each the attempt, and the
    /// lane and the number of its readable rows that are older. [`NO_DRAW`] has to be repeated.
    #[inline]
    pub(super) fn first_draws(
        &self,
        rng: &mut CounterRng,
        batch: u64,
        items: Range<usize>,
        drawn: &mut [(usize, u64)],
        attempts: &mut [u32],
    ) {
        let Self { eligibility, selector, .. } = self;
        let place_of = |lane, seq| eligibility.ranges().place_of(lane, seq).unwrap_or(NO_DRAW);
        if let Some(state) = selector {
            for (drawn, item) in drawn.iter_mut().zip(items) {
                let row = state.first_draw(item);
                *drawn = row.map_or(NO_DRAW, |(lane, seq)| place_of(lane, seq));
            }
        } else if !eligibility.is_indexed() {
            eligibility.first_draws(rng, batch, items, drawn);
        } else {
            for ((drawn, attempts), item) in drawn.iter_mut().zip(attempts).zip(items) {
                let found = eligibility.indexed_candidate(rng, batch, number(item));
                let Some(Candidate { attempt, lane, seq }) = found else { continue };
                *attempts = attempt;
                *drawn = place_of(lane as usize, seq);
            }
        }
    }

    /// Returns the row that an attempt draws for an item, or `None` if the attempt is rejected.
    pub(super) fn candidate(
        &mut self,
        rng: &mut CounterRng,
        (batch, item): (u64, usize),
        attempt: u32,
    ) -> Result<Option<Candidate>, SampleError> {
        let Self { eligibility, selector, .. } = self;
        match selector {
            Some(state) => state.candidate(rng, eligibility, (batch, item), attempt),
            None => Ok(eligibility.candidate(rng, batch, number(item), attempt)),
        }
    }

    /// Returns whether most irregular items are drawn again, uniformly: the boundary refuses
    /// windows that are not whole.
    pub(super) fn redraws_most(&self) -> bool {
        self.selector.is_none() && self.windows.boundary() == Boundary::Reject
    }

    /// Returns the error of an attempt for which nothing is left to choose, though the ring has
    /// transitions.
    pub(super) fn why_empty(&self, attempt: u32) -> Option<SampleError> {
        let state = self.selector.as_deref()?;
        state.why_empty(attempt, &self.eligibility)
    }

    /// Returns the error that says why nothing can be drawn. O(rows).
    pub(super) fn nothing(&self) -> SampleError {
        self.windows.nothing(&self.eligibility)
    }

    /// Returns the error of an item for which no attempt found a row. `outrun` says whether writers
    /// overwrote some.
    pub(super) fn gave_up(&self, outrun: bool) -> SampleError {
        let attempts = MAX_ATTEMPTS;
        if self.prioritised().is_some() && !outrun {
            SampleError::Unlikely { attempts }
        } else {
            SampleError::Outrun { attempts }
        }
    }

    /// Ends batch number `batch` of this learner, whose items took `attempts` together.
    pub(super) fn finish(&mut self, batch: u64, items: usize, attempts: u64) {
        if let Some(state) = &mut self.selector {
            state.finish(batch);
        }
        self.eligibility.use_index(attempts > FREQUENT * items as u64);
    }

    /// Keeps the claimed rows of the last `batches` batches, at least 1, for
    /// [`rewind`](Self::rewind).
    pub(super) fn keep(&mut self, batches: usize) {
        if let Some(state) = &mut self.selector {
            state.keep(batches);
        }
    }

    /// Takes back the claimed rows of batch number `batch` and of later ones.
    pub(super) fn rewind(&mut self, batch: u64) {
        if let Some(state) = &mut self.selector {
            state.rewind(batch);
        }
    }

    /// Returns how many rows could be claimed now. `None` if draws do not wait for rows.
    pub(super) fn claimable(&self) -> Option<u64> {
        self.selector.as_ref().and_then(|state| state.claimable(&self.eligibility))
    }

    /// Returns the transitions that a table of claims handed out since the last call, and that
    /// were skipped since they are too old.
    pub(super) fn take_too_old(&mut self) -> SkippedRows {
        match self.selector.as_deref_mut() {
            Some(SelectorState::Claimed(of)) => of.take_too_old(),
            Some(SelectorState::Rollouts(of)) => of.take_too_old(),
            _ => SkippedRows::default(),
        }
    }

    /// Returns what draws wait for.
    pub(super) fn claim_unit(&self) -> ClaimUnit {
        match self.selector.as_deref() {
            Some(SelectorState::Rollouts(of)) => of.claim_unit(),
            _ if self.has_episodes() => ClaimUnit::Episodes,
            _ => ClaimUnit::Transitions,
        }
    }

    /// Returns whether draws wait for rows that can be claimed.
    pub(super) fn awaits_rows(&self) -> bool {
        let state = self.selector.as_deref();
        matches!(state, Some(SelectorState::Claimed(_) | SelectorState::Rollouts(_)))
    }

    /// Returns whether draws take each row once, so that some rows are new.
    pub(super) fn has_new_rows(&self) -> bool {
        self.awaits_rows()
            && !matches!(&self.selector(), Selector::Table(of) if of.settings().renewed)
    }

    /// Claims the items that are new, up to `most`, for the next batch. Returns how many there are.
    pub(super) fn begin_new(&mut self, most: usize) -> Result<usize, SampleError> {
        match self.selector.as_deref_mut() {
            Some(SelectorState::Claimed(of)) => of.begin_new(most, &mut self.eligibility),
            _ => Err(self.nothing()),
        }
    }

    /// Claims the columns of a block of rollouts. Returns how many rows were overwritten before.
    pub(super) fn begin_block(&mut self, size: BlockSize) -> Result<u64, SampleError> {
        match self.selector.as_deref_mut() {
            Some(SelectorState::Rollouts(of)) => of.begin(size, &self.eligibility),
            _ => Err(self.nothing()),
        }
    }

    /// Removes transitions that are too old by now from the block. Returns whether there were some.
    pub(super) fn trim_block(&mut self) -> bool {
        match self.selector.as_deref_mut() {
            Some(SelectorState::Rollouts(of)) => of.trim(&self.eligibility),
            _ => false,
        }
    }

    /// Returns the columns of the block that was begun.
    pub(super) fn block(&self) -> &[RolloutColumn] {
        match self.selector.as_deref() {
            Some(SelectorState::Rollouts(of)) => &of.ledger().items,
            _ => &[],
        }
    }

    /// Removes transitions that were overwritten from the block: the number of the column of each,
    /// and its place in the column.
    pub(super) fn remove_from_block(&mut self, lost: &[(usize, usize)]) {
        if let Some(SelectorState::Rollouts(of)) = self.selector.as_deref_mut() {
            of.remove(lost);
        }
    }

    /// Says for an error which rows are claimed, and which of these are left out for their windows.
    pub(super) fn claimed_in_words(&self) -> String {
        let Some(SelectorState::Claimed(of)) = self.selector.as_deref() else {
            return String::new();
        };
        let claimed = of.claimed_in_words();
        match self.windows.left_out_in_words() {
            Some(left_out) if !claimed.is_empty() => format!("{claimed}; {left_out}"),
            Some(left_out) if self.has_episodes() => left_out,
            _ => claimed,
        }
    }

    /// Says for an error how many rows a draw passed over since they are too old. `skipped` of them
    /// were claimed. Empty if there are none.
    pub(super) fn too_old_in_words(&self, skipped: u64) -> String {
        let Some(max) = self.eligibility.max_age() else { return String::new() };
        let passed_over = match self.selector.as_deref() {
            Some(SelectorState::Rollouts(of)) => of.passed_over(),
            _ => 0,
        };
        let rows = skipped.saturating_add(passed_over);
        if rows == 0 {
            return String::new();
        }
        let limit = max_ages(max.rows, max.versions);
        format!(
            "{rows} rows are too old for max_age, {limit}: draw fewer at a time, or raise max_age"
        )
    }

    /// Returns the options of draws in proportion to priorities; `None` for other draws.
    pub(super) fn priority_options(&self) -> Option<&PriorityOptions> {
        self.prioritised().map(PrioritisedDraws::options)
    }

    /// Returns the exponent of draws by priorities: that of the table, or by rank that of batch
    /// number `batch`.
    pub(super) fn alpha(&mut self, batch: u64) -> Option<f64> {
        match self.priority_options() {
            Some(of) if of.by == PriorityOrder::Rank => Some(of.alpha.of_sampler(batch)),
            _ => self.priorities_mut().map(|priorities| priorities.alpha()),
        }
    }

    /// Returns the table of priorities, if the selector has one.
    pub(super) fn priorities_mut(&mut self) -> Option<&mut Priorities> {
        self.selector.as_mut().and_then(|state| state.priorities_mut())
    }

    /// Sets the exponent of the importance weights. It has no effect on draws of largest or
    /// smallest priority, which have no weights.
    pub(super) fn set_beta(&mut self, beta: f64) -> Result<(), PriorityError> {
        match self.selector.as_deref_mut() {
            Some(SelectorState::Prioritised(prioritised)) => prioritised.set_beta(beta),
            Some(SelectorState::Extreme(_)) => check_beta(beta),
            _ => Err(PriorityError::NotPrioritised),
        }
    }

    /// Fails if beta is a function of the caller that has given no number yet.
    pub(super) fn check_beta(&self) -> Result<(), SampleError> {
        match self.prioritised() {
            Some(prioritised) if prioritised.lacks_beta() => Err(PriorityError::NoBeta.into()),
            _ => Ok(()),
        }
    }

    /// Writes the importance weights of batch number `batch`, if draws are in proportion to
    /// priorities. Weights of the rows that `index` names are computed from their present leaves.
    pub(super) fn write_weights(
        &mut self,
        batch: u64,
        index: Option<&[i64]>,
        plan: &BatchPlan,
        arenas: &mut [&mut [u8]],
    ) -> Result<(), SampleError> {
        let Some(SelectorState::Prioritised(prioritised)) = self.selector.as_deref_mut() else {
            return Ok(());
        };
        if let Some(index) = index {
            prioritised.look_up(batch, index)?;
        }
        prioritised.write_weights(batch, plan, arenas)
    }

    fn prioritised(&self) -> Option<&PrioritisedDraws> {
        match self.selector.as_deref() {
            Some(SelectorState::Prioritised(prioritised)) => Some(prioritised),
            _ => None,
        }
    }
}

/// Returns the error of a selector that has fewer transitions than a batch.
fn too_few(selector: &Selector, wanted: usize, available: usize) -> SampleError {
    let selector = selector.as_str();
    SampleError::TooFew { selector, wanted: wanted as u64, available: available as u64 }
}
