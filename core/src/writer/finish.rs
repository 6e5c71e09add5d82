//! Ends episodes without another step: a `next_obs` that waits becomes the FINAL row.

use std::{iter, process, thread};

use backcast_layout::protocol::notify;

use super::Writer;
use super::check::check_flags;
use super::room::Planned;
use super::rows::{GivenObs, LanePlan, LaneState};
use crate::error::AppendError;
use crate::wait::WhenBlocked;

impl Writer {
    /// Begins a new episode on the marked lanes: their next row does not continue the row before
    /// it. Meant for environments that were reset in mid-episode. A waiting `next_obs` becomes the
    /// FINAL row of the old episode, so that its last transition is not lost.
    ///
    /// Waits for a lease that blocks that row, like [`append`](Self::append). Nothing has changed
    /// after an error.
    pub fn restart(&mut self, lanes: &[bool]) -> Result<(), AppendError> {
        self.restart_or(lanes, WhenBlocked::Wait)
    }

    /// Begins new episodes like [`restart`](Self::restart) if that needs no wait. Fails with
    /// [`AppendError::WouldWait`] where `restart` would wait.
    pub fn try_restart(&mut self, lanes: &[bool]) -> Result<(), AppendError> {
        self.restart_or(lanes, WhenBlocked::Fail)
    }

    fn restart_or(&mut self, lanes: &[bool], blocked: WhenBlocked) -> Result<(), AppendError> {
        check_flags("lanes", lanes, 1, self.lanes.len())?;
        self.publish_ends(lanes.iter().copied(), LaneState::restart, blocked)?;
        self.check_name();
        Ok(())
    }

    /// Ends the episodes whose newest row has a `next_obs`, which becomes their FINAL row. Does
    /// nothing on other lanes. Dropping the writer does the same but waits for no lease.
    pub fn finish(&mut self) -> Result<(), AppendError> {
        self.publish_ends(iter::repeat(true), LaneState::finish, WhenBlocked::Wait)
    }

    /// Plans and writes the ends of the chosen lanes.
    fn publish_ends(
        &mut self,
        chosen: impl Iterator<Item = bool>,
        plan: impl Fn(LaneState) -> LanePlan,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        self.planned.clear();
        for ((i, lane), chosen) in self.lanes.iter().enumerate().zip(chosen) {
            let state = lane.state();
            let plan = if chosen { plan(state) } else { LanePlan::empty(state) };
            self.check_plan(i, &plan, GivenObs::default())?;
            self.planned.push(Planned::of(plan));
        }
        let has_rows = self.planned.iter().any(|planned| planned.plan.count() > 0);
        if has_rows {
            // A waiting observation becomes a FINAL row even in a ring that was replaced. The next
            // append reports the loss.
            let _ = self.follow_notices();
            self.make_room(blocked)?;
        }
        // The rate limiter counts these rows but holds none back: they complete the transitions of
        // appends that it admitted.
        let before = self.transitions();
        self.publish_planned(&[], GivenObs::default());
        if has_rows {
            self.count_inserts(before);
            notify(&self.ring.store().published());
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A forked child must not write its parent's lanes, and a panic may have left a plan
        // incomplete.
        if process::id() == self.pid && !thread::panicking() {
            let _ = self.publish_ends(iter::repeat(true), LaneState::finish, WhenBlocked::Fail);
        }
    }
}
