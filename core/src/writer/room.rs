//! Makes room for rows: reserves them, and handles leases by the lane policy.

use super::Writer;
use super::rows::LanePlan;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::ring::notices::NoticeKind;
use crate::wait::{Wait, WhenBlocked};
use crate::writer::lease_backoff::{
    BlockingLease, RoomDecision, SLICE, blocking_in_words, fence_announced, sleep_unless_settled,
};

/// Plan for one lane, and the room for it.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: LanePlan,
    /// Further rows that may be needed.
    pub(super) spare: u64,
    /// Whether the pins must be scanned before the rows are written.
    pub(super) unsettled: bool,
    /// Index of the step's row after it was published.
    pub(super) index: RowIndex,
}

impl Planned {
    pub(super) fn of(plan: LanePlan) -> Self {
        Self { plan, spare: 0, unsettled: false, index: RowIndex::NONE }
    }

    /// Returns the maximum number of rows needed.
    fn room(&self) -> u64 {
        self.plan.count() + self.spare
    }
}

impl Writer {
    /// Announces the planned rows and checks that no lease freezes their slots. If one does, waits,
    /// drops rows or fails by the lane policy.
    pub(super) fn make_room(&mut self, blocked: WhenBlocked) -> Result<(), AppendError> {
        // Announce all lanes, fence once, then write: a fence per lane would cost more than the
        // rows.
        let mut fence_due = false;
        for (lane, planned) in self.lanes.iter_mut().zip(&mut self.planned) {
            planned.unsettled = lane.memory.reserve(planned.room());
            fence_due |= planned.unsettled;
        }
        if let Some(lane) = self.lanes.first().filter(|_| fence_due) {
            fence_announced(self.ring.store(), &lane.memory);
            if !self.settle_lanes() {
                self.counts.wait_begins(self.rows_written);
                let outcome = self.wait_for_leases(blocked);
                self.counts.wait_ends();
                return outcome;
            }
        }
        Ok(())
    }

    /// Scans the pins of the lanes that are not settled. Returns `true` if all are now.
    fn settle_lanes(&mut self) -> bool {
        let store = self.ring.store();
        let lanes = self.lanes.iter_mut().zip(&mut self.planned).zip(&self.numbers);
        let mut settled = true;
        for ((lane, planned), number) in lanes.filter(|((_, planned), _)| planned.unsettled) {
            let rows = planned.room();
            planned.unsettled = !lane.backoff.settle(store, *number, &mut lane.memory, rows);
            settled &= !planned.unsettled;
        }
        settled
    }

    /// Waits for a lease that blocks a lane, drops the rows of that lane, or fails.
    #[cold]
    fn wait_for_leases(&mut self, blocked: WhenBlocked) -> Result<(), AppendError> {
        let ring = self.ring.clone();
        let store = ring.store();
        // The lane policy bounds the wait, for each lease.
        let mut wait = Wait::new(None, ring.interrupt());
        let mut met = vec![None; self.lanes.len()];
        loop {
            let mut waits = false;
            let lanes = self.lanes.iter_mut().zip(&mut self.planned).zip(&self.numbers);
            for (((lane, planned), number), met) in lanes.zip(&mut met) {
                let blocking = lane.backoff.met().filter(|_| planned.unsettled);
                let Some(BlockingLease { pin, .. }) = blocking else { continue };
                // If the kernel has released the lock of a dead holder, clear its pins.
                if store.reap_reader(pin.slot).unwrap_or(false) {
                    waits = true;
                    continue;
                }
                *met = lane.backoff.count(store, lane.memory.lane());
                match lane.backoff.decide(store, *number)? {
                    RoomDecision::Free => {}
                    RoomDecision::Wait => waits = true,
                    RoomDecision::Drop => {
                        *planned = Planned::of(planned.plan.without_rows(lane.state()));
                    }
                }
            }
            if !waits || self.settle_lanes() {
                break;
            }
            if blocked == WhenBlocked::Fail {
                return Err(AppendError::WouldWait);
            }
            let describe = || blocking_in_words(store, &self.numbers, &met);
            let time = wait.check(SLICE, describe).map_err(|_| {
                let since =
                    met.iter().flatten().map(|met: &BlockingLease| met.since.elapsed()).max();
                let waited_ms = since.unwrap_or_default().as_millis();
                AppendError::Interrupted { waited_ms }
            })?;
            sleep_unless_settled(store, time, &mut || self.settle_lanes());
        }
        self.report(&met);
        Ok(())
    }

    /// Warns of new blocking leases, and keeps the first one for [`take_stall`](Self::take_stall).
    fn report(&mut self, met: &[Option<BlockingLease>]) {
        let store = self.ring.store();
        let lanes = self.lanes.iter_mut().zip(&self.planned).zip(&self.numbers).zip(met);
        for (((lane, planned), number), met) in lanes {
            let Some(met) = *met else { continue };
            lane.backoff.append_is_over();
            if let Some(stall) = lane.backoff.report(store, *number, met, planned.plan.dropped > 0)
            {
                self.ring.notice_log().warn(NoticeKind::Stall, stall.to_string());
                self.stall.get_or_insert(stall);
                self.has_warnings = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::{
        AutoresetMode, DType, GAP, Interrupt, Lease, Ring, RingOptions, RowIndex, Schema, Step,
        TERMINATED, WriterOptions,
    };
    use backcast_layout::LanePolicy;

    fn append(writer: &mut Writer, ends: bool) -> Result<RowIndex, AppendError> {
        let (columns, flags) = ([&[7_u8][..]], [ends]);
        let schema = writer.schema().clone();
        let step = Step {
            schema: &schema,
            columns: &columns,
            terminated: &flags,
            truncated: &[false],
            next_obs: None,
            final_obs: None,
        };
        Ok(writer.try_append(step)?[0])
    }

    /// Makes a lane that is full up to the rows of a lease; an episode may end there.
    fn leased(policy: LanePolicy, ends: bool) -> (Ring, Writer, Lease) {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let options = RingOptions::with_capacity(32).lane_policy(policy);
        let ring = Ring::heap(&schema, options).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for _ in 0..8 {
            append(&mut writer, false).unwrap();
        }
        let lease = ring.lease(0, 0..8).unwrap();
        for seq in 9..=ring.slots() {
            append(&mut writer, ends && seq == ring.slots()).unwrap();
        }
        (ring, writer, lease)
    }

    /// Returns the stalls of the lane, and of the reader.
    fn stalls(ring: &Ring) -> (u64, u64) {
        let stats = ring.stats();
        (stats.lane_stats[0].stalls, stats.readers[0].stalls)
    }

    #[test]
    fn every_append_that_a_lease_makes_fail_is_counted_on_both_sides() {
        let (ring, mut writer, lease) = leased(LanePolicy::Fail, false);
        for failed in 1..4 {
            assert!(matches!(append(&mut writer, false), Err(AppendError::Leased { .. })));
            assert_eq!((stalls(&ring), lease.stalls()), ((failed, failed), failed));
        }
        assert_eq!((writer.rows_dropped(), ring.stats().lane_stats[0].dropped), (0, 0));
    }

    #[test]
    fn a_wait_is_counted_once_and_while_it_lasts() {
        let (ring, mut writer, lease) =
            leased(LanePolicy::Block(Duration::from_secs(3_600)), false);
        let (counts, written) = (writer.counts(), writer.rows_written());
        let seen = Arc::<Mutex<Option<u64>>>::default();
        writer.ring = writer.ring.clone().interrupted_by(Interrupt::when({
            let (counts, seen) = (Arc::clone(&counts), Arc::clone(&seen));
            move || {
                *seen.lock().unwrap() = counts.rows_written_before_the_wait();
                true
            }
        }));
        let waits = |writer: &mut Writer| {
            let schema = writer.schema().clone();
            let step = Step {
                schema: &schema,
                columns: &[&[7_u8][..]],
                terminated: &[false],
                truncated: &[false],
                next_obs: None,
                final_obs: None,
            };
            writer.append(step).map(drop).unwrap_err()
        };
        for _ in 0..3 {
            assert!(matches!(waits(&mut writer), AppendError::Interrupted { .. }));
            let seen = seen.lock().unwrap().take();
            assert_eq!((seen, counts.rows_written_before_the_wait()), (Some(written), None));
            assert_eq!((stalls(&ring), lease.stalls()), ((1, 1), 1), "one row waits");
        }
        assert_eq!(append(&mut writer, false), Err(AppendError::WouldWait));
        assert_eq!(*seen.lock().unwrap(), None, "no wait, no interrupt");
        assert_eq!(writer.rows_written(), written);
        drop(lease);
        append(&mut writer, false).unwrap();
        assert_eq!(ring.stats().lane_stats[0].stalls, 1);
        assert!(writer.take_stall().is_none(), "the wait that an interrupt ended is not told");
    }

    #[test]
    fn a_restart_that_would_wait_says_so_and_changes_nothing() {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let policy = LanePolicy::Block(Duration::from_secs(3_600));
        let ring = Ring::heap(&schema, RingOptions::with_capacity(32).lane_policy(policy)).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for _ in 0..8 {
            append(&mut writer, false).unwrap();
        }
        let lease = ring.lease(0, 0..8).unwrap();
        for _ in 9..ring.slots() {
            append(&mut writer, false).unwrap();
        }
        let obs = [&[7_u8][..]];
        let step = Step {
            schema: &schema,
            columns: &obs,
            terminated: &[false],
            truncated: &[false],
            next_obs: Some(&obs),
            final_obs: None,
        };
        writer.append(step).unwrap();
        assert_eq!(writer.rows_written(), ring.slots());
        for _ in 0..2 {
            assert_eq!(writer.try_restart(&[true]), Err(AppendError::WouldWait));
            assert_eq!(writer.rows_written(), ring.slots());
        }
        drop(lease);
        writer.try_restart(&[true]).unwrap();
        assert_eq!(writer.rows_written(), ring.slots() + 1, "the next_obs ends the episode");
    }

    #[test]
    fn the_final_row_of_an_end_that_was_dropped_is_counted_like_it() {
        let (ring, mut writer, lease) = leased(LanePolicy::DropNew, false);
        let counts = writer.counts();
        assert_eq!(append(&mut writer, true).unwrap(), RowIndex::NONE);
        assert_eq!((writer.rows_dropped(), counts.rows_dropped()), (1, 1));
        drop(lease);
        assert_eq!(append(&mut writer, false).unwrap(), RowIndex::NONE, "nothing to be final of");
        let lane = ring.stats().lane_stats[0].clone();
        assert_eq!((counts.rows_dropped(), lane.dropped, lane.stalls), (2, 2, 1));
        let [notice] = &*ring.notices() else { panic!("{:?}", ring.notices()) };
        assert_eq!((notice.kind, notice.count), (NoticeKind::Stall, 1));
        assert!(notice.text.contains("lane 0"), "{notice}");
        let next = append(&mut writer, false).unwrap().seq();
        let flags = ring.rows(0, next..next + 1).unwrap().column::<u32>("flags").unwrap().to_vec();
        assert_eq!((flags, counts.rows_dropped()), (vec![GAP], 2));
    }

    #[test]
    fn a_final_row_that_is_dropped_leaves_the_end_without_a_transition() {
        let (ring, mut writer, lease) = leased(LanePolicy::DropNew, true);
        let end = ring.slots() - 1;
        assert_eq!(append(&mut writer, false).unwrap(), RowIndex::NONE);
        assert_eq!(writer.rows_dropped(), 1);
        drop(lease);
        append(&mut writer, false).unwrap();
        let rows = ring.rows(0, end..end + 2).unwrap();
        assert_eq!(rows.column::<u32>("flags").unwrap(), [TERMINATED, GAP]);
        let readable = ring.lane_span(0).unwrap();
        // All rows but the end and the newest one begin a transition.
        assert_eq!(ring.len(), readable.end - readable.start - 2);
    }

    #[test]
    fn a_reserved_row_that_is_dropped_is_counted_when_it_would_be_published() {
        let (ring, mut writer, _lease) = leased(LanePolicy::DropNew, false);
        writer.reserve().unwrap().abort();
        assert_eq!(writer.rows_dropped(), 0);
        for dropped in 1..3 {
            let mut row = writer.reserve().unwrap();
            row.column("obs").unwrap().fill(1_u8);
            assert_eq!(row.commit(true, false).unwrap(), RowIndex::NONE);
            assert_eq!(writer.rows_dropped(), dropped);
            assert_eq!(ring.stats().lane_stats[0].dropped, dropped);
        }
    }
}
