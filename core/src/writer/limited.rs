//! Appends to a ring with a rate limiter. They wait for samplers, and are counted in transitions.
//!
//! A row completes a transition unless it begins an episode. An episode of n transitions takes n +
//! 1 rows, and counts n. The last transition is counted with the FINAL row.

use std::time::Duration;

use backcast_layout::protocol::notify;

use super::rows::LaneStep;
use super::{OwnLane, Writer};
use crate::error::{AppendError, LimitError};
use crate::index::RowIndex;
use crate::limiter::waiting::Caller;
use crate::wait::{Wait, WhenBlocked};
use crate::writer::step::Step;

#[cfg(test)]
mod tests;

impl Writer {
    /// Sets the maximum wait for the rate limiter. `None` waits without a limit. Has no effect in a
    /// ring without a rate limiter.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        if let Some(gate) = &mut self.gate {
            gate.timeout = timeout;
        }
    }

    /// Appends a step when the rate limiter allows it.
    #[inline(never)]
    pub(super) fn append_limited(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<&[RowIndex], AppendError> {
        if self.room() == 0 {
            self.indices.clear();
            let wanted = self.wanted(step);
            // Check the step before the wait.
            self.check_steps(step, 1)?;
            // A resize changes what can be drawn, and so what the limiter allows.
            self.follow_notices()?;
            self.pass_limiter(wanted, blocked)?;
        }
        let before = self.transitions();
        let appended = self.append_now(step, blocked);
        self.count_inserts(before);
        appended?;
        notify(&self.ring.store().published());
        Ok(&self.indices)
    }

    /// Returns how many more transitions may be inserted by the bound computed last. `u64::MAX` in
    /// a ring without a rate limiter.
    pub(super) fn room(&self) -> u64 {
        self.gate.as_ref().map_or(u64::MAX, |gate| gate.room())
    }

    /// Waits until an append of `wanted` transitions is admitted. Fails instead if `blocked` says
    /// so.
    pub(super) fn pass_limiter(
        &mut self,
        wanted: u64,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        let Some(gate) = &mut self.gate else { return Ok(()) };
        let ring = &self.ring;
        if wanted > 0 && gate.room() == 0 {
            // Wake readers for the rows of the same call that were published already.
            notify(&ring.store().published());
        }
        let unlinked = |wait: Option<&mut Wait<'_>>| ring.refuses_wait(wait);
        let drawable = || ring.len();
        let wait = match blocked {
            WhenBlocked::Wait => Some(Wait::new(gate.timeout, ring.interrupt())),
            WhenBlocked::Fail => None,
        };
        let mut caller = Caller { wait, unlinked: &unlinked, drawable: &drawable };
        gate.pass(wanted, &mut caller).map_err(|stopped| match stopped {
            LimitError::Unlinked => {
                AppendError::Unlinked { ring: ring.name().unwrap_or_default().to_owned() }
            }
            LimitError::WouldWait => AppendError::WouldWait,
            stopped => stopped.into(),
        })
    }

    /// Counts the transitions published since the lanes had completed `before` transitions.
    pub(super) fn count_inserts(&self, before: u64) {
        if let Some(gate) = &self.gate {
            gate.count(self.transitions().wrapping_sub(before));
        }
    }

    /// Returns the transitions that the lanes have completed, up to a constant. 0 in a ring without
    /// a rate limiter.
    pub(super) fn transitions(&self) -> u64 {
        if self.gate.is_none() {
            return 0;
        }
        self.lanes.iter().fold(0, |sum, lane| sum.wrapping_add(lane.transitions()))
    }

    /// Returns the transitions that a step completes if it is appended. Reads only its flags: a
    /// step that cuts an episode completes as many as one that continues it. 0 in a ring without a
    /// rate limiter.
    pub(super) fn wanted(&self, step: &Step<'_>) -> u64 {
        if self.gate.is_none() {
            return 0;
        }
        let of = |(i, lane): (usize, &OwnLane)| {
            let step = LaneStep { ends: step.ends(i), ..LaneStep::default() };
            lane.state().plan(self.mode, step).transitions()
        };
        self.lanes.iter().enumerate().map(of).sum()
    }
}

impl OwnLane {
    /// Returns the transitions that the lane has completed, up to a constant: the rows that do not
    /// begin an episode.
    fn transitions(&self) -> u64 {
        self.memory.head().wrapping_sub(self.clock.begun())
    }
}
