//! Waits for a lease that blocks a writer, or drops rows, by the lane policy.

use std::fmt;
use std::mem;
use std::time::{Duration, Instant};

use backcast_layout::protocol::{LaneWriter, Pin, listen, oldest};
use backcast_layout::{ClaimedLane, LanePolicy, RingStore};

use crate::error::AppendError;
use crate::wait::processes_in_words;

/// Maximum sleep before a dead holder is detected.
pub(crate) const SLICE: Duration = Duration::from_millis(5);

/// A lease that made a writer wait, drop a row, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The lane.
    pub lane: u32,
    /// Reader slot of the lease's holder.
    pub slot: u32,
    /// Process that claims to hold the lease.
    pub pid: u64,
    /// First row leased.
    pub start: u64,
    /// Time that the append waited.
    pub waited: Duration,
    /// Whether the new row was dropped in the end.
    pub dropped: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane, slot, pid, start, waited, dropped } = self;
        let what = if *dropped { "dropped its row" } else { "went on" };
        write!(
            f,
            "lane {lane} waited {} ms for a lease of rows from {start} on, held by process {pid} \
             (reader slot {slot}), and then {what}; hold leases for a shorter time, copy rows \
             with `rows`, or create the ring with a larger capacity",
            waited.as_millis()
        )
    }
}

/// A blocking lease, and the time since which it blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockingLease {
    pub(crate) pin: Pin,
    pub(crate) since: Instant,
    /// Whether the append in progress was counted as stalled. An interrupted append and its next
    /// attempt count once.
    counted: bool,
}

/// Backoff of the writer of one lane when leases stop it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseBackoff {
    met: Option<BlockingLease>,
    /// Last lease that was waited for in full: it is not waited for again.
    spent: Option<Pin>,
    /// Last lease that was reported.
    reported: Option<Pin>,
}

/// Decision for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomDecision {
    /// Write the rows.
    Free,
    /// Wait, then scan the pins again.
    Wait,
    /// Drop the new rows.
    Drop,
}

/// Issues the fence between announcing rows and the [scan](LeaseBackoff::settle).
pub(crate) fn fence_announced(store: &RingStore, memory: &LaneWriter<ClaimedLane>) {
    if store.spec().policy.grants_leases() {
        memory.announced_to_pins();
    } else {
        memory.announced();
    }
}

impl LeaseBackoff {
    /// Scans the pins of a lane whose rows are announced and fenced, if leases are granted. Returns
    /// whether the rows may be written. Makes no system call.
    pub(crate) fn settle(
        &mut self,
        store: &RingStore,
        lane: u32,
        writer: &mut LaneWriter<ClaimedLane>,
        rows: u64,
    ) -> bool {
        let leases = store.spec().policy.grants_leases();
        let found = if leases { oldest(&store.pins(lane)) } else { None };
        let free = writer.settle(found.map(|pin| pin.start), rows);
        let in_the_way = found.filter(|_| !free);
        if self.met.map(|met| met.pin) != in_the_way {
            self.met =
                in_the_way.map(|pin| BlockingLease { pin, since: Instant::now(), counted: false });
        }
        free
    }

    /// Counts a blocking lease once for each append that it stalls. It is counted when the wait
    /// begins, so that a holder that ends the lease meanwhile sees the count.
    pub(crate) fn count(&mut self, store: &RingStore, lane: &ClaimedLane) -> Option<BlockingLease> {
        let met = self.met.as_mut()?;
        if !mem::replace(&mut met.counted, true) {
            store.count_stall(met.pin.slot);
            lane.count_stall();
        }
        Some(*met)
    }

    /// Ends the stalled append: the next one is counted again.
    pub(crate) fn append_is_over(&mut self) {
        if let Some(met) = &mut self.met {
            met.counted = false;
        }
    }

    /// Decides by the policy about the lease that [`settle`](Self::settle) found.
    pub(crate) fn decide(
        &mut self,
        store: &RingStore,
        lane: u32,
    ) -> Result<RoomDecision, AppendError> {
        let Some(BlockingLease { pin, since, .. }) = self.met else {
            return Ok(RoomDecision::Free);
        };
        match store.spec().policy {
            LanePolicy::Fail => {
                self.append_is_over();
                let (slot, start) = (pin.slot, pin.start);
                Err(AppendError::Leased { lane, slot, pid: pid(store, slot), start })
            }
            // An overwriting ring scans no pins.
            LanePolicy::Overwrite | LanePolicy::DropNew => Ok(RoomDecision::Drop),
            LanePolicy::Block(timeout) => {
                if self.spent != Some(pin) && since.elapsed() < timeout {
                    return Ok(RoomDecision::Wait);
                }
                self.spent = Some(pin);
                Ok(RoomDecision::Drop)
            }
        }
    }

    /// Returns the warning about a lease, unless the last report was about the same one.
    pub(crate) fn report(
        &mut self,
        store: &RingStore,
        lane: u32,
        met: BlockingLease,
        dropped: bool,
    ) -> Option<Stall> {
        let BlockingLease { pin, since, .. } = met;
        if self.reported.replace(pin) == Some(pin) {
            return None;
        }
        let (slot, start) = (pin.slot, pin.start);
        let waited = since.elapsed();
        Some(Stall { lane, slot, pid: pid(store, slot), start, waited, dropped })
    }

    /// Returns the blocking lease, and the time since which it blocks.
    pub(crate) fn met(&self) -> Option<BlockingLease> {
        self.met
    }
}

/// Sleeps until a lease ends, for `time` at most, unless `settled` finds room first.
pub(crate) fn sleep_unless_settled(
    store: &RingStore,
    time: Duration,
    settled: &mut dyn FnMut() -> bool,
) {
    let notifier = store.released();
    let ticket = listen(&notifier);
    if !settled() {
        ticket.sleep(&notifier, time);
    }
}

/// Names the lease that has blocked an append for the longest time, for the report of a long wait.
pub(crate) fn blocking_in_words(
    store: &RingStore,
    lanes: &[u32],
    met: &[Option<BlockingLease>],
) -> String {
    let blocking = lanes.iter().zip(met).filter_map(|(lane, met)| Some((lane, (*met)?)));
    let Some((lane, BlockingLease { pin, since, .. })) = blocking.min_by_key(|(_, met)| met.since)
    else {
        return "an append waits for a lease".to_owned();
    };
    let holder = u32::try_from(pid(store, pin.slot)).ok().filter(|pid| *pid != 0);
    let holder: Vec<u32> = holder.into_iter().collect();
    format!(
        "lane {lane} has waited {:.0} s for a lease of rows from {} on, held by {} (reader slot \
         {}); end the lease, or that process (`kill -CONT PID` if it is stopped)",
        since.elapsed().as_secs_f64(),
        pin.start,
        processes_in_words(&holder),
        pin.slot
    )
}

fn pid(store: &RingStore, slot: u32) -> u64 {
    store.reader(slot).map_or(0, |record| record.pid)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::{
        AutoresetMode, DType, Interrupt, Lease, Ring, RingOptions, RowIndex, Schema, StepColumns,
        Writer, WriterOptions,
    };

    /// Makes a lane with room for `left` rows before those of a lease, and a counter of the calls
    /// of its interrupt.
    fn leased(left: u64) -> (Ring, Writer, Lease, Arc<AtomicU64>) {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let policy = LanePolicy::Block(Duration::from_millis(10));
        let ring = Ring::heap(&schema, RingOptions::with_capacity(32).lane_policy(policy)).unwrap();
        let waits = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&waits);
        let ring = ring.interrupted_by(Interrupt::when(move || {
            counted.fetch_add(1, Relaxed);
            false
        }));
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::SameStep);
        let mut writer = ring.writer(options).unwrap();
        for _ in 0..8 {
            append(&ring, &mut writer, false);
        }
        let lease = ring.lease(0, 0..8).unwrap();
        for _ in 8..ring.slots() - left {
            append(&ring, &mut writer, false);
        }
        (ring, writer, lease, waits)
    }

    /// Appends a row, or two at the end of an episode. Returns the first one.
    fn append(ring: &Ring, writer: &mut Writer, ends: bool) -> RowIndex {
        let columns = StepColumns::of(ring.schema()).with("obs", &[7_u8]).unwrap();
        let columns = columns.with_final("obs", &[9_u8]).unwrap();
        let (terminated, truncated) = ([ends], [false]);
        let step = columns.step(&terminated, &truncated).unwrap();
        writer.append(&step).unwrap()[0]
    }

    #[test]
    fn a_lease_that_was_waited_for_in_full_is_not_waited_for_by_later_appends() {
        let (ring, mut writer, _lease, waits) = leased(0);
        assert_eq!(append(&ring, &mut writer, false), RowIndex::NONE);
        assert!(waits.swap(0, Relaxed) > 0);
        for _ in 0..3 {
            assert_eq!(append(&ring, &mut writer, false), RowIndex::NONE);
        }
        assert_eq!(waits.load(Relaxed), 0);
    }

    #[test]
    fn a_lease_that_was_waited_for_is_remembered_while_it_is_out_of_the_way() {
        let (ring, mut writer, _lease, waits) = leased(1);
        // Two rows have no room, one has.
        assert_eq!(append(&ring, &mut writer, true), RowIndex::NONE);
        assert_eq!(append(&ring, &mut writer, false).seq(), ring.slots() - 1);
        waits.store(0, Relaxed);
        assert_eq!(append(&ring, &mut writer, false), RowIndex::NONE);
        assert_eq!(waits.load(Relaxed), 0);
    }

    #[test]
    fn a_report_names_the_lane_the_rows_and_the_holder() {
        let (ring, mut writer, _lease, _) = leased(0);
        append(&ring, &mut writer, false);
        let met = writer.lanes[0].backoff.met();
        let text = blocking_in_words(ring.store(), &[0], &[met]);
        for value in ["lane 0", "0 s", &std::process::id().to_string(), "slot 0"] {
            assert!(text.contains(value), "{text} lacks {value}");
        }
    }
}
