//! Appends one step of every lane: on the fast path if it continues all of them, else by a plan.

use backcast_layout::DType;
use backcast_layout::protocol::notify;

use super::room::Planned;
use super::rows::kept::KeptKind;
use super::rows::{GivenObs, LaneStep};
use super::warnings::is_nonzero;
use super::{OwnLane, Writer, row};
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::wait::WhenBlocked;
use crate::writer::step::Step;

impl Writer {
    /// Appends one step of every lane and returns the index of each row. In next-step mode the
    /// append after an end is the FINAL row. In the other modes an ended lane advances by two rows
    /// in one publish. Copies each row once. Makes no system call unless a reader waits for rows,
    /// the append has to wait, or the ring was resized or has lost its name or a table. Lanes may
    /// be at different steps of their episodes.
    ///
    /// With `next_obs` the next append of a lane whose episode goes on must show the same
    /// observation. Where it does not, the episode is cut: its FINAL row holds the `next_obs`, the
    /// new row is marked GAP, and [`LaneStats::cuts`](crate::LaneStats::cuts) counts it.
    ///
    /// Waits while the ring's rate limiter holds it back, at most
    /// [`WriterOptions::timeout`](crate::WriterOptions::timeout), and while a lease blocks a row,
    /// by the lane policy. The interrupt of the ring's handle
    /// ([`Ring::interrupted_by`](crate::Ring::interrupted_by)) ends a wait, and nothing is appended
    /// then.
    ///
    /// A lane whose rows were dropped returns [`RowIndex::NONE`], and its next row is marked GAP.
    /// In next-step mode the FINAL row of an episode is dropped with the row that ended it, even if
    /// it comes later. If only the FINAL row is dropped, the row that ended the episode stays, and
    /// no transition begins with it, since it has no successor.
    #[inline]
    pub fn append<'s>(&mut self, step: impl Into<Step<'s>>) -> Result<&[RowIndex], AppendError> {
        self.append_or(&step.into(), WhenBlocked::Wait)
    }

    /// Appends one step like [`append`](Self::append) if that needs no wait. Fails with
    /// [`AppendError::WouldWait`] and appends nothing where `append` would wait. Makes no system
    /// call on the fast path unless a reader waits for rows.
    #[inline]
    pub fn try_append<'s>(
        &mut self,
        step: impl Into<Step<'s>>,
    ) -> Result<&[RowIndex], AppendError> {
        self.append_or(&step.into(), WhenBlocked::Fail)
    }

    fn append_or(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<&[RowIndex], AppendError> {
        if self.gate.is_some() {
            return self.append_limited(step, blocked);
        }
        self.append_now(step, blocked)?;
        notify(&self.ring.store().published());
        debug_assert_eq!(self.indices.len(), self.lanes.len());
        Ok(&self.indices)
    }

    /// Appends one step. Wakes no reader.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    pub(super) fn append_now(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        // The slow path says how the schemas differ.
        let is_ours = step.schema.fingerprint() == self.fingerprint;
        if is_ours && self.append_fast(step) {
            return Ok(());
        }
        self.append_with_care(step, blocked)
    }

    /// Prefetches, for writing, the row after the next one of every lane, in columns that are at
    /// least a cache line wide.
    #[inline]
    pub fn ask_ahead(&self) {
        for OwnLane { memory, .. } in &self.lanes {
            memory.lane().ask_to_store_after(memory.slot());
        }
    }

    /// Appends any step by a plan, checking its sizes first. Wakes no reader.
    #[inline(never)]
    pub(super) fn append_with_care(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        self.indices.clear();
        self.check_sizes(step, 1)?;
        self.append_by_plan(step, blocked)
    }

    /// Appends a step whose sizes were checked, by a plan. Adds to the indices. Wakes no reader.
    pub(super) fn append_by_plan(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        self.follow_notices()?;
        let given = GivenObs::of(self.mode, step.next_obs, step.final_obs);
        self.plan(step, given)?;
        self.make_room(blocked)?;
        self.publish_planned(step.columns, given);
        self.indices.extend(self.planned.iter().map(|planned| planned.index));
        Ok(())
    }

    /// Plans the step for each lane, without changing any.
    fn plan(&mut self, step: &Step<'_>, given: GivenObs<'_>) -> Result<(), AppendError> {
        self.planned.clear();
        for (i, lane) in self.lanes.iter().enumerate() {
            let is_kept = lane.kept.kind() != KeptKind::Nothing;
            let rewarded = |reward| is_rewarded(reward, step, i);
            let plan = lane.state().plan(
                self.mode,
                LaneStep {
                    ends: step.ends(i),
                    shows_kept: is_kept && lane.kept.is_row(&self.obs, step.columns, i),
                    is_rewarded: lane.clock.is_ended() && self.reward.is_some_and(rewarded),
                    has_next: step.next_obs.is_some(),
                },
            );
            self.check_plan(i, &plan, given)?;
            self.planned.push(Planned::of(plan));
        }
        Ok(())
    }
}

/// Returns whether row `i` of a step has a reward other than zero.
fn is_rewarded((at, dtype): (usize, DType), step: &Step<'_>, i: usize) -> bool {
    let lanes = step.terminated.len().max(1);
    step.columns.get(at).is_some_and(|bytes| is_nonzero(dtype, row(bytes, bytes.len() / lanes, i)))
}
