//! Waits until writers have published enough.

use std::time::{Duration, Instant};

use backcast_layout::protocol::listen;

use super::Ring;
use crate::error::WaitError;

/// Time that a wait spins before it sleeps: about as long as waking up takes.
const SPIN: Duration = Duration::from_micros(20);
/// Maximum sleep between two calls of `interrupted`.
const SLICE: Duration = Duration::from_millis(50);
/// Wake-ups with too few rows after which a wait pauses between wake-ups.
const IMPATIENT: u32 = 4;
/// Pause of such a wait, which bounds the time that writers spend on waking it.
const NAP: Duration = Duration::from_millis(1);

impl Ring {
    /// Waits until the ring holds `min_size` transitions and returns how many there are.
    ///
    /// Sleeps in the kernel; a writer wakes it. `interrupted` is called at least every 50 ms, and
    /// ends the wait by returning `true`.
    pub fn wait_for(
        &self,
        min_size: u64,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<u64, WaitError> {
        // All lanes of a ring that is being resized become as large as the largest.
        let capacities = (0..self.lanes()).filter_map(|lane| self.lane_capacity_of(lane));
        let (largest, lanes) = (capacities.max().unwrap_or(0), u64::from(self.lanes()));
        // The newest row of a lane has no successor: waiting for it too would never end.
        let (capacity, most) = (largest * lanes, largest.saturating_sub(1) * lanes);
        if min_size > most {
            return Err(WaitError::Never { want: min_size, capacity, most });
        }
        self.sleep_until(min_size, &|| self.len(), timeout, interrupted).map_err(|stopped| {
            stopped.or(|have, waited_ms| WaitError::TimedOut { want: min_size, have, waited_ms })
        })
    }

    /// Waits until `rows` rows were published since the ring was made, over all lanes, and returns
    /// how many there are. Unlike [`wait_for`](Self::wait_for) it also serves a ring that is full.
    pub fn wait_for_rows(
        &self,
        rows: u64,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<u64, WaitError> {
        self.sleep_until(rows, &|| self.rows_published(), timeout, interrupted).map_err(|stopped| {
            stopped.or(|have, waited_ms| WaitError::TooFewRows { want: rows, have, waited_ms })
        })
    }

    /// Returns the rows published since the ring was made, over all lanes. O(lanes).
    #[must_use]
    pub fn rows_published(&self) -> u64 {
        let heads = (0..self.lanes()).filter_map(|lane| Some(self.inspect_lane(lane)?.rows.end));
        heads.fold(0, u64::saturating_add)
    }

    pub(crate) fn sleep_until(
        &self,
        want: u64,
        count: &dyn Fn() -> u64,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<u64, WaitStopped> {
        let start = Instant::now();
        let left = || timeout.map_or(Duration::MAX, |limit| limit.saturating_sub(start.elapsed()));
        while start.elapsed() < SPIN.min(left()) {
            let have = count();
            if have >= want {
                return Ok(have);
            }
            std::hint::spin_loop();
        }
        if left().is_zero() {
            // A call that does not sleep does not set the flag.
            let have = count();
            if self.refuses_as_unlinked() {
                return Err(WaitStopped::Unlinked);
            }
            let waited = start.elapsed();
            return if have >= want {
                Ok(have)
            } else {
                Err(WaitStopped::TimedOut { have, waited })
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
            // Its writers may have attached to the ring that has the name now.
            if self.refuses_as_unlinked() {
                return Err(WaitStopped::Unlinked);
            }
            if left().is_zero() {
                return Err(WaitStopped::TimedOut { have, waited: start.elapsed() });
            }
            if interrupted() {
                return Err(WaitStopped::Interrupted);
            }
            ticket.sleep(&notifier, left().min(SLICE));
            in_vain += 1;
            if in_vain > IMPATIENT && count() < want {
                std::thread::sleep(left().min(NAP));
            }
        }
    }
}

/// Reason why a wait ended early.
pub(crate) enum WaitStopped {
    TimedOut { have: u64, waited: Duration },
    Interrupted,
    Unlinked,
}

impl WaitStopped {
    /// Converts to the error of a wait. `timed_out` makes it from the number reached and the
    /// milliseconds waited.
    fn or(self, timed_out: impl FnOnce(u64, u128) -> WaitError) -> WaitError {
        match self {
            Self::TimedOut { have, waited } => timed_out(have, waited.as_millis()),
            Self::Interrupted => WaitError::Interrupted,
            Self::Unlinked => WaitError::Unlinked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AutoresetMode, DType, RingOptions, Schema, StepColumns, Writer, WriterOptions};

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
        let mut columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let goes_on = vec![false; lanes];
        writer.append(&columns.step(&goes_on, &goes_on).unwrap()).unwrap();
    }

    #[test]
    fn waiting_for_more_than_a_full_ring_holds_is_refused_at_once() {
        let (ring, mut writer) = ring(20, 2);
        for _ in 0..50 {
            append(&mut writer, 2);
        }
        let wait = |want| ring.wait_for(want, None, &mut || true);
        assert_eq!(ring.len(), 18, "full lanes: all rows but the newest begin a transition");
        assert_eq!(wait(18), Ok(18));
        assert_eq!(wait(19), Err(WaitError::Never { want: 19, capacity: 20, most: 18 }));
    }

    #[test]
    fn a_wait_ends_in_time_or_when_its_caller_says_so() {
        let (ring, _writer) = ring(20, 1);
        let wait = |timeout, stop: bool| ring.wait_for(1, timeout, &mut || stop);
        let limit = Some(Duration::from_millis(3));
        assert!(matches!(wait(limit, false), Err(WaitError::TimedOut { want: 1, have: 0, .. })));
        assert_eq!(wait(None, true), Err(WaitError::Interrupted));
        let rows = ring.wait_for_rows(5, limit, &mut || false);
        assert!(matches!(rows, Err(WaitError::TooFewRows { want: 5, have: 0, .. })));
    }

    #[test]
    fn every_row_wakes_its_waiters() {
        const ROWS: u64 = 500;
        let (ring, mut writer) = ring(20, 1);
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn({
            let ring = ring.clone();
            move || {
                for row in 1..=ROWS {
                    ring.wait_for_rows(row, None, &mut || false).unwrap();
                    tell.send(row).unwrap();
                }
            }
        });
        for row in 1..=ROWS {
            append(&mut writer, 1);
            assert_eq!(told.recv().unwrap(), row);
        }
        waiter.join().unwrap();
    }
}
