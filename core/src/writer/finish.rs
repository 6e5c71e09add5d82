//! Ends episodes that no flag has ended: the last observation of a lane becomes its FINAL row.

use std::{process, thread};

use backcast_layout::protocol::{MAX_SEQ, notify};

use super::kept::KeptKind;
use super::plan::Planned;
use super::{Writer, check_flags};
use crate::error::AppendError;
use crate::wait::WhenBlocked;
use crate::writer::episode_clock::AppendedRows;

impl Writer {
    /// Begins a new episode on the marked lanes: their next row does not continue the row before
    /// it. For environments that were reset in mid-episode. A waiting `next_obs` becomes the FINAL
    /// row of the old episode, so that its last transition is not lost.
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
        self.finish_lanes(|i| lanes.get(i).copied().unwrap_or(false), blocked)?;
        for (lane, _) in self.lanes.iter_mut().zip(lanes).filter(|(_, marked)| **marked) {
            lane.clock.restart();
            lane.kept.forget();
            lane.settle();
        }
        self.check_name();
        Ok(())
    }

    /// Ends the episodes whose newest row has a `next_obs`: it becomes their FINAL row. Dropping
    /// the writer does the same but waits for no lease. Without `next_obs` it does nothing.
    pub fn finish(&mut self) -> Result<(), AppendError> {
        self.finish_lanes(|_| true, WhenBlocked::Wait)
    }

    fn finish_lanes(
        &mut self,
        chosen: impl Fn(usize) -> bool,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        if !self.lanes.iter().enumerate().any(|(i, l)| chosen(i) && l.kept.kind() == KeptKind::Next)
        {
            return Ok(());
        }
        // A waiting observation becomes FINAL also in a ring that was replaced: the next append
        // reports that.
        let _ = self.follow_notices();
        self.planned.clear();
        for (i, lane) in self.lanes.iter().enumerate() {
            let mut planned = Planned::nothing(lane.clock);
            if chosen(i) && lane.kept.kind() == KeptKind::Next {
                let (last, clock) = lane.clock.finish();
                (planned.cut, planned.clock) = (Some(last), clock);
                let rows = lane.memory.head();
                if rows + planned.room() >= MAX_SEQ {
                    return Err(AppendError::LaneWornOut { lane: i, rows });
                }
            }
            self.planned.push(planned);
        }
        self.make_room(blocked)?;
        // The rate limiter counts these rows and holds none of them back: they complete what was
        // let through before.
        let before = self.transitions_if_limited();
        let (schema, obs) = (self.ring.schema(), &*self.obs);
        for (lane, planned) in self.lanes.iter_mut().zip(&self.planned) {
            debug_assert_eq!(planned.rows, AppendedRows::Nothing);
            if let Some(marks) = planned.cut {
                lane.write_final(schema, 0, marks, &self.zeros, lane.kept.rows(obs));
                lane.memory.publish(1);
                self.rows_written += 1;
            } else if planned.dropped > 0 {
                self.counts.add_dropped(planned.dropped);
                lane.memory.lane().count_dropped(planned.dropped);
            } else {
                continue;
            }
            lane.clock = planned.clock;
            lane.kept.forget();
            lane.settle();
        }
        self.count_inserts(before);
        notify(&self.ring.store().published());
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A forked child must not write its parent's lanes, and a panic may have left a plan
        // incomplete.
        if process::id() == self.pid && !thread::panicking() {
            let _ = self.finish_lanes(|_| true, WhenBlocked::Fail);
        }
    }
}
