//! A wait for the rate limiter: its time-out, interrupts, report and marks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backcast_layout::{LimitedSide, LimiterTable, RingStore, WaitMark};

use crate::error::{LimitError, LimiterWait};

/// Longest sleep before the caller's interrupt, a dead peer and a lost name are noticed.
const SLICE: Duration = Duration::from_millis(100);
/// Wait after which it is reported who waits for what.
const REPORT_AFTER: Duration = Duration::from_secs(10);
/// Most looks without a sleep between them.
const MAX_LOOKS: u32 = 64;
/// Most processes that a report names.
const MAX_PEERS: usize = 8;

/// Report of a long wait, for a thread that looks for it meanwhile.
#[derive(Debug, Default)]
pub struct LongWait(Mutex<Option<String>>);

impl LongWait {
    /// Returns who waits for what, once per wait of more than 10 s: for a warning.
    #[must_use]
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

/// Questions of a waiting process to its caller between two sleeps.
pub(crate) struct Caller<'a> {
    /// Whether to end the wait.
    pub(crate) interrupted: &'a mut dyn FnMut() -> bool,
    /// Whether the ring has lost its name and its handle refuses to go on.
    pub(crate) unlinked: &'a dyn Fn() -> bool,
    /// Beginning of the wait.
    pub(crate) since: Instant,
}

/// Settings of the waits of one writer or sampler.
#[derive(Debug)]
pub(crate) struct WaitSettings {
    /// Longest wait; `None` waits for ever.
    pub(crate) timeout: Option<Duration>,
    pub(crate) report_after: Duration,
    pub(crate) long: Arc<LongWait>,
}

impl Default for WaitSettings {
    fn default() -> Self {
        Self { timeout: None, report_after: REPORT_AFTER, long: Arc::default() }
    }
}

/// One wait, from the first sleep on. Dropping it ends the wait.
pub(crate) struct Waiting<'a> {
    table: &'a LimiterTable,
    side: LimitedSide,
    wanted: u64,
    /// Sets the mark by which other processes see the wait.
    mark: &'a dyn Fn(WaitMark),
    /// Beginning of the first sleep.
    began: Option<Instant>,
    reported: bool,
    /// Looks since the last sleep.
    looks: u32,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(
        table: &'a LimiterTable,
        side: LimitedSide,
        wanted: u64,
        mark: &'a dyn Fn(WaitMark),
    ) -> Self {
        Self { table, side, wanted, mark, began: None, reported: false, looks: 0 }
    }

    /// Whether to look again without a sleep. Words of a hostile process may say for ever that it
    /// is worth it.
    pub(crate) fn looks_again(&mut self) -> bool {
        self.looks += 1;
        self.looks < MAX_LOOKS
    }

    /// Sleeps once, for a slice at most, unless the wait is over.
    pub(crate) fn sleep(
        &mut self,
        settings: &WaitSettings,
        caller: &mut Caller<'_>,
        describe: &dyn Fn() -> LimiterWait,
        sleep: impl FnOnce(Duration),
    ) -> Result<(), LimitError> {
        if (caller.unlinked)() {
            return Err(LimitError::Unlinked);
        }
        let waited = caller.since.elapsed();
        let left = settings.timeout.map_or(Duration::MAX, |limit| limit.saturating_sub(waited));
        if left.is_zero() {
            return Err(LimitError::TimedOut(describe().into()));
        }
        if (caller.interrupted)() {
            return Err(LimitError::Interrupted { waited_ms: waited.as_millis() });
        }
        if self.began.is_none() {
            self.began = Some(Instant::now());
            self.table.counter(self.side).count_wait();
            (self.mark)(WaitMark { since_unix_ms: unix_ms(), wanted: self.wanted });
        }
        if waited >= settings.report_after && !self.reported {
            self.reported = true;
            let text = describe().to_string();
            tracing::warn!("{text}");
            settings.long.put(text);
        }
        self.looks = 0;
        sleep(left.min(SLICE));
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(began) = self.began {
            (self.mark)(WaitMark::default());
            let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.table.counter(self.side).count_waited(waited);
        }
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Returns processes that hold reader slots, as they say: samplers, and holders of leases.
pub(crate) fn samplers(store: &RingStore) -> Vec<u64> {
    let slots = (0..store.spec().reader_slots).filter(|slot| store.reader_held(*slot));
    let pids = slots.filter_map(|slot| Some(store.reader(slot)?.pid));
    pids.take(MAX_PEERS).collect()
}

/// Returns processes that hold lanes, as they say.
pub(crate) fn writers(store: &RingStore) -> Vec<u64> {
    let lanes = (0..store.spec().lanes).filter(|lane| store.lane_held(*lane));
    let mut pids: Vec<u64> = lanes.filter_map(|lane| Some(store.lane(lane)?.pid())).collect();
    pids.dedup();
    pids.truncate(MAX_PEERS);
    pids
}
