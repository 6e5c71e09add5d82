//! A wait for the rate limiter: its time-out, interrupts, report and marks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backcast_layout::{LimitedSide, LimiterTable, RingStore, WaitMark};

use crate::error::{LimitError, LimiterWait};

/// Maximum sleep before a wait checks for an interrupt, a dead peer and a lost name.
const SLICE: Duration = Duration::from_millis(100);
/// Time after which a wait is reported.
const REPORT_AFTER: Duration = Duration::from_secs(10);
/// Maximum checks without a sleep between them.
const MAX_LOOKS: u32 = 64;
/// Maximum processes that a report names.
const MAX_PEERS: usize = 8;

/// Report of a long wait, which another thread can read during the wait.
#[derive(Debug, Default)]
pub struct LongWait(Mutex<Option<String>>);

impl LongWait {
    /// Returns the text of a warning, once per wait of more than 10 s.
    #[must_use]
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

/// Checks that a wait makes between two sleeps.
pub(crate) struct Caller<'a> {
    /// Whether to end the wait.
    pub(crate) interrupted: &'a mut dyn FnMut() -> bool,
    /// Whether the ring has lost its name and its handle refuses to go on.
    pub(crate) unlinked: &'a dyn Fn() -> bool,
    /// Counts the transitions that can be drawn. O(lanes).
    pub(crate) drawable: &'a dyn Fn() -> u64,
    /// Time at which the wait began.
    pub(crate) since: Instant,
}

/// Settings of the waits of one writer or sampler.
#[derive(Debug)]
pub(crate) struct WaitSettings {
    /// Maximum wait. `None` waits without a limit.
    pub(crate) timeout: Option<Duration>,
    pub(crate) report_after: Duration,
    pub(crate) long: Arc<LongWait>,
}

impl Default for WaitSettings {
    fn default() -> Self {
        Self { timeout: None, report_after: REPORT_AFTER, long: Arc::default() }
    }
}

/// A wait, from its first sleep on. Dropping it ends the wait.
pub(crate) struct Waiting<'a> {
    table: &'a LimiterTable,
    side: LimitedSide,
    wanted: u64,
    /// Sets the mark that shows the wait to other processes.
    mark: &'a dyn Fn(WaitMark),
    /// Beginning of the first sleep.
    began: Option<Instant>,
    reported: bool,
    /// Checks since the last sleep.
    looks: u32,
    /// Time since which no process of the other side was found alive.
    alone_since: Option<Instant>,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(
        table: &'a LimiterTable,
        side: LimitedSide,
        wanted: u64,
        mark: &'a dyn Fn(WaitMark),
    ) -> Self {
        Self {
            table,
            side,
            wanted,
            mark,
            began: None,
            reported: false,
            looks: 0,
            alone_since: None,
        }
    }

    /// Returns whether to check again without a sleep. The number of such checks is limited, since
    /// a hostile process could change the words without end.
    pub(crate) fn looks_again(&mut self) -> bool {
        self.looks += 1;
        self.looks < MAX_LOOKS
    }

    /// Returns whether the other side has had no live process for 100 ms, or has none when the time
    /// of the wait is up. A process that closes one writer and opens another is not missed, and the
    /// counts of one that ended are read again before this is `true`.
    pub(crate) fn is_alone(
        &mut self,
        settings: &WaitSettings,
        caller: &Caller<'_>,
        has_peer: impl Fn() -> bool,
    ) -> bool {
        if has_peer() {
            self.alone_since = None;
            return false;
        }
        let alone_since = *self.alone_since.get_or_insert_with(Instant::now);
        let is_over = settings.timeout.is_some_and(|limit| caller.since.elapsed() >= limit);
        is_over || alone_since.elapsed() >= SLICE
    }

    /// Sleeps once, for at most [`SLICE`], unless the wait has ended.
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
            let since_unix_ms = unix_ms();
            (self.mark)(WaitMark { since_unix_ms, wanted: self.wanted, awaits_rows: false });
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

/// Returns the ids of at most 8 processes that registered in reader slots: samplers and holders of
/// leases.
pub(crate) fn samplers(store: &RingStore) -> Vec<u64> {
    let slots = (0..store.spec().reader_slots).filter(|slot| store.reader_held(*slot));
    let pids = slots.filter_map(|slot| Some(store.reader(slot)?.pid));
    pids.take(MAX_PEERS).collect()
}

/// Returns the ids of at most 8 processes that registered in lanes.
pub(crate) fn writers(store: &RingStore) -> Vec<u64> {
    let lanes = (0..store.spec().lanes).filter(|lane| store.lane_held(*lane));
    let mut pids: Vec<u64> = lanes.filter_map(|lane| Some(store.lane(lane)?.pid())).collect();
    pids.dedup();
    pids.truncate(MAX_PEERS);
    pids
}
