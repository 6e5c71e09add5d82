//! Room for rows: announced, and no lease in the way, or what the lane policy says about one.

use super::{OwnLane, Planned, Writer};
use crate::episode::Rows;
use crate::error::AppendError;
use crate::stall::{Met, Room, nap};

impl Writer {
    /// Announces the planned rows and sees that no lease freezes their slots.
    pub(super) fn make_room(
        &mut self,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        // Announce all lanes, fence once, then write: a fence per lane would cost more than the
        // rows.
        let mut fence_due = false;
        for (lane, planned) in self.lanes.iter_mut().zip(&mut self.planned) {
            planned.unsettled = lane.memory.reserve(planned.rows.count());
            fence_due |= planned.unsettled;
        }
        let Some(lane) = self.lanes.first().filter(|_| fence_due) else { return Ok(()) };
        if self.ring.store().spec().policy.grants_leases() {
            lane.memory.announced_to_pins();
            if !self.look() {
                return self.wait_for_leases(interrupted);
            }
            return Ok(());
        }
        lane.memory.announced();
        for (lane, planned) in self.lanes.iter_mut().zip(&mut self.planned) {
            // Nobody can freeze anything, so this settles every lane.
            planned.unsettled = !lane.memory.settle(None, planned.rows.count());
        }
        Ok(())
    }

    /// Scans the pins of the lanes that are not settled. `true`: now all are.
    fn look(&mut self) -> bool {
        let store = self.ring.store();
        let lanes = self.lanes.iter_mut().zip(&mut self.planned).zip(&self.numbers);
        let mut settled = true;
        for ((lane, planned), number) in lanes.filter(|((_, planned), _)| planned.unsettled) {
            let rows = planned.rows.count();
            planned.unsettled = !lane.patience.look(store, *number, &mut lane.memory, rows);
            settled &= !planned.unsettled;
        }
        settled
    }

    /// A lease is in the way of some lane: waits for it, drops that lane's rows, or fails.
    #[cold]
    fn wait_for_leases(
        &mut self,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        let ring = self.ring.clone();
        let store = ring.store();
        let of = |(lane, planned): (&OwnLane, &Planned)| {
            lane.patience.met().filter(|_| planned.unsettled)
        };
        let mut met: Vec<_> = self.lanes.iter().zip(&self.planned).map(of).collect();
        loop {
            let mut waits = false;
            for (i, number) in self.numbers.iter().copied().enumerate() {
                let (Some(lane), Some(planned)) = (self.lanes.get_mut(i), self.planned.get_mut(i))
                else {
                    continue;
                };
                let Some(Met { pin, .. }) = lane.patience.met().filter(|_| planned.unsettled)
                else {
                    continue;
                };
                if let Some(met) = met.get_mut(i) {
                    *met = lane.patience.met();
                }
                // A holder that died holds no lock; its pins are nobody's.
                if store.reap_reader(pin.slot).unwrap_or(false) {
                    waits = true;
                    continue;
                }
                match lane.patience.decide(store, number)? {
                    Room::There => {}
                    Room::Wait => waits = true,
                    Room::Drop => {
                        planned.dropped = planned.rows.count();
                        planned.rows = Rows::Nothing;
                        planned.clock = lane.clock.without(planned.clock);
                        planned.unsettled = false;
                    }
                }
            }
            if !waits || self.look() {
                break;
            }
            if interrupted() {
                let since = met.iter().flatten().map(|met| met.since.elapsed()).max();
                let waited_ms = since.unwrap_or_default().as_millis();
                return Err(AppendError::Interrupted { waited_ms });
            }
            nap(store, &mut || self.look());
        }
        self.report(&met);
        Ok(())
    }

    /// Counts the leases that were in the way, and keeps the first new one for the warning.
    fn report(&mut self, met: &[Option<Met>]) {
        let store = self.ring.store();
        let lanes = self.lanes.iter_mut().zip(&self.planned).zip(&self.numbers).zip(met);
        for (((lane, planned), number), met) in lanes {
            let Some(met) = *met else { continue };
            lane.memory.lane().count_stall(planned.dropped);
            self.rows_dropped += planned.dropped;
            if let Some(stall) = lane.patience.report(store, *number, met, planned.dropped > 0) {
                tracing::warn!(?stall, "a lease made a writer wait or drop rows");
                self.stall.get_or_insert(stall);
            }
        }
    }
}
