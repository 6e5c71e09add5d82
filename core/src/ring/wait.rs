//! Waits until writers have published enough.

use std::time::{Duration, Instant};

use backcast_layout::protocol::listen;

use super::Ring;
use crate::error::WaitError;
use crate::wait::{Wait, WaitEnd};

/// Time that a wait spins before it sleeps: about as long as waking up takes.
const SPIN: Duration = Duration::from_micros(20);
/// Maximum sleep between two checks.
const SLICE: Duration = Duration::from_millis(50);
/// Wake-ups with too few rows after which a wait pauses between wake-ups.
const IMPATIENT: u32 = 4;
/// Pause of such a wait, which bounds the time that writers spend on waking it.
const NAP: Duration = Duration::from_millis(1);

impl Ring {
    /// Waits until the ring holds `min_size` transitions and returns how many there are.
    ///
    /// Sleeps in the kernel until a writer wakes it. The interrupt of the handle
    /// ([`interrupted_by`](Self::interrupted_by)) can end the wait, and is told after 10 s why
    /// there are too few transitions. Fails without a wait if the ring can never hold so many.
    pub fn wait_for(&self, min_size: u64, timeout: Option<Duration>) -> Result<u64, WaitError> {
        // All lanes of a ring that is being resized become as large as the largest.
        let largest_lane =
            || (0..self.lanes()).filter_map(|lane| self.lane_capacity_of(lane)).max().unwrap_or(0);
        let (mut largest, lanes) = (largest_lane(), u64::from(self.lanes()));
        // The newest row of a lane has no successor: waiting for it too would never end.
        let most_of = |lane_capacity: u64| lane_capacity.saturating_sub(1) * lanes;
        if min_size > most_of(largest)
            && let Ok(pending) = self.store().pending_resize()
        {
            // A resize that waits for the writers of all lanes has enlarged none yet. This handle
            // may not have seen one that is finished.
            largest = largest_lane().max(pending.map_or(0, |pending| pending.lane_capacity));
        }
        let (capacity, most) = (largest * lanes, most_of(largest));
        if min_size > most {
            return Err(WaitError::Never { want: min_size, capacity, most });
        }
        let error = |have, waited_ms| {
            let reason = self.why_no_transitions();
            WaitError::TimedOut { want: min_size, have, waited_ms, reason }
        };
        self.wait_until(min_size, &|| self.len(), timeout, &error)
    }

    /// Waits until `rows` rows were published over all lanes, as
    /// [`rows_published`](Self::rows_published) counts them, and returns how many there are. Unlike
    /// [`wait_for`](Self::wait_for) it also serves a ring that is full.
    pub fn wait_for_rows(&self, rows: u64, timeout: Option<Duration>) -> Result<u64, WaitError> {
        let error = |have, waited_ms| {
            let reason = self.writers_in_words();
            WaitError::TooFewRows { want: rows, have, waited_ms, reason }
        };
        self.wait_until(rows, &|| self.rows_published(), timeout, &error)
    }

    /// Returns the rows published over all lanes, rows before a restore included. O(lanes).
    #[must_use]
    pub fn rows_published(&self) -> u64 {
        let heads = (0..self.lanes()).filter_map(|lane| Some(self.inspect_lane(lane)?.rows.end));
        heads.fold(0, u64::saturating_add)
    }

    /// Waits until `count` returns `want` at least. `error` makes the error of a wait that took too
    /// long, from the count and the milliseconds waited; its text is the report of a long wait.
    fn wait_until(
        &self,
        want: u64,
        count: &dyn Fn() -> u64,
        timeout: Option<Duration>,
        error: &dyn Fn(u64, u128) -> WaitError,
    ) -> Result<u64, WaitError> {
        let mut bound = Wait::new(timeout, self.interrupt());
        let report = |have, waited: Duration| error(have, waited.as_millis()).to_string();
        self.sleep_until(want, count, &mut bound, &report).map_err(|stopped| match stopped {
            WaitStopped::Ended { end: WaitEnd::TimedOut, have, waited } => {
                error(have, waited.as_millis())
            }
            WaitStopped::Ended { end: WaitEnd::Interrupted, .. } => WaitError::Interrupted,
            WaitStopped::Unlinked => WaitError::Unlinked,
        })
    }

    /// Sleeps until `count` returns `want` at least, as long as `bound` allows. `report` makes the
    /// report of a long wait from the count and the time waited.
    pub(crate) fn sleep_until(
        &self,
        want: u64,
        count: &dyn Fn() -> u64,
        bound: &mut Wait<'_>,
        report: &dyn Fn(u64, Duration) -> String,
    ) -> Result<u64, WaitStopped> {
        let start = Instant::now();
        while start.elapsed() < SPIN.min(bound.left()) {
            let have = count();
            if have >= want {
                return Ok(have);
            }
            std::hint::spin_loop();
        }
        if bound.left().is_zero() {
            // A call that may not sleep does not make writers notify it.
            let have = count();
            if self.refuses_as_unlinked() {
                return Err(WaitStopped::Unlinked);
            }
            let (end, waited) = (WaitEnd::TimedOut, start.elapsed());
            return if have >= want {
                Ok(have)
            } else {
                Err(WaitStopped::Ended { end, have, waited })
            };
        }
        let notifier = self.store().published();
        let mut in_vain = 0;
        loop {
            // From here on writers notify the sleeper of rows that are published after this check.
            let ticket = listen(&notifier);
            let have = count();
            if have >= want {
                return Ok(have);
            }
            // Writers may have attached to another ring that has the name now.
            if self.refuses_wait(Some(&mut *bound)) {
                return Err(WaitStopped::Unlinked);
            }
            let waited = bound.waited();
            let time = bound
                .check(SLICE, || report(have, waited))
                .map_err(|end| WaitStopped::Ended { end, have, waited: bound.waited() })?;
            ticket.sleep(&notifier, time);
            in_vain += 1;
            if in_vain > IMPATIENT && count() < want {
                std::thread::sleep(bound.left().min(NAP));
            }
        }
    }
}

/// Reason why a wait ended early.
pub(crate) enum WaitStopped {
    Ended { end: WaitEnd, have: u64, waited: Duration },
    Unlinked,
}

#[cfg(test)]
mod tests {
    use backcast_budget::{Deadline, sleeps_beyond_watchdog};

    use super::*;
    use crate::{
        AutoresetMode, DType, Interrupt, RingOptions, Schema, StepColumns, Writer, WriterOptions,
    };

    fn ring(capacity: u64, lanes: u32) -> (Ring, Writer) {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(capacity).lanes(lanes)).unwrap();
        let writer =
            ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep)).unwrap();
        (ring, writer)
    }

    fn append(writer: &mut Writer, lanes: usize) {
        let schema = writer.schema().clone();
        let obs = vec![1_u8; lanes];
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let goes_on = vec![false; lanes];
        writer.append(&columns.step(&goes_on, &goes_on).unwrap()).unwrap();
    }

    #[test]
    fn waiting_for_more_than_a_full_ring_holds_is_refused_at_once() {
        let (ring, mut writer) = ring(20, 2);
        for _ in 0..50 {
            append(&mut writer, 2);
        }
        let ring = ring.interrupted_by(Interrupt::when(|| true));
        let wait = |want| ring.wait_for(want, None);
        assert_eq!(ring.len(), 18, "full lanes: all rows but the newest begin a transition");
        assert_eq!(wait(18), Ok(18));
        assert_eq!(wait(19), Err(WaitError::Never { want: 19, capacity: 20, most: 18 }));
    }

    #[test]
    fn a_wait_ends_in_time_or_when_its_caller_says_so() {
        let (ring, _writer) = ring(20, 1);
        let wait = |timeout, stop: bool| {
            ring.clone().interrupted_by(Interrupt::when(move || stop)).wait_for(1, timeout)
        };
        let limit = Some(Duration::from_millis(3));
        assert!(matches!(wait(limit, false), Err(WaitError::TimedOut { want: 1, have: 0, .. })));
        assert_eq!(wait(None, true), Err(WaitError::Interrupted));
        let rows = ring.wait_for_rows(5, limit);
        assert!(matches!(rows, Err(WaitError::TooFewRows { want: 5, have: 0, .. })));
    }

    #[test]
    fn every_row_wakes_its_waiters() {
        let rows = sleeps_beyond_watchdog(SLICE);
        let (ring, mut writer) = ring(20, 1);
        let (tell, told) = std::sync::mpsc::channel();
        let deadline = Deadline::new();
        let waiter = std::thread::spawn({
            let ring = ring.clone();
            move || {
                for row in 1..=rows {
                    ring.wait_for_rows(row, Some(deadline.left())).unwrap();
                    tell.send(row).unwrap();
                }
            }
        });
        for row in 1..=rows {
            append(&mut writer, 1);
            assert_eq!(told.recv_timeout(deadline.left()), Ok(row));
        }
        waiter.join().unwrap();
    }

    #[test]
    fn a_wait_that_took_too_long_says_why() {
        let (ring, mut writer) = ring(20, 3);
        append(&mut writer, 3);
        append(&mut writer, 3);
        let pid = std::process::id();
        let why = |ring: &Ring| match ring.wait_for(4, Some(Duration::ZERO)) {
            Err(WaitError::TimedOut { want: 4, have: 3, reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        let reason = why(&ring);
        for value in ["3 of 3", "0, 1, 2", &pid.to_string()] {
            assert!(reason.contains(value), "{reason} lacks {value}");
        }
        drop(writer);
        let reason = why(&ring);
        assert!(reason.contains("0, 1, 2") && !reason.contains(&pid.to_string()), "{reason}");
        let refused = ring.wait_for_rows(9, Some(Duration::ZERO)).unwrap_err();
        let WaitError::TooFewRows { want: 9, have: 6, reason, .. } = refused else {
            panic!("{refused}")
        };
        assert!(!reason.contains("0, 1, 2"), "rows need no successor: {reason}");
    }
}
