//! Waits of appends and draws that the rate limiter holds back. Other processes see a wait by its
//! [`WaitMark`](backcast_layout::WaitMark).

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backcast_layout::protocol::limit::{COUNT, GENERATIONS, LimitCounter, listen};
use backcast_layout::{LimitedSide, LimiterTable, RingStore, WaitMark};

use super::ceiling::Ceiling;
use super::current;
use super::limits::RateLimiter;
use crate::error::{LimitError, LimitedCall, LimiterWait};
use crate::wait::{Wait, WaitEnd};

/// Maximum sleep before a wait checks for a dead peer and a lost name.
const SLICE: Duration = Duration::from_millis(100);
/// Time without a live writer after which a sampler counts as alone.
const ALONE_AFTER: Duration = Duration::from_millis(100);
/// Maximum checks without a sleep between them.
const MAX_LOOKS: u32 = 64;
/// Maximum processes that a report names.
const MAX_PEERS: usize = 8;

/// Call that a gate may hold back: its wait, and what the gate asks of its ring.
pub(crate) struct Caller<'a> {
    /// Wait of the call. `None` for a call that fails where it would have to wait.
    pub(crate) wait: Option<Wait<'a>>,
    /// Whether the ring has lost its name and its handle refuses to go on. Gives the wait the
    /// report of a lost name.
    pub(crate) unlinked: &'a dyn Fn(Option<&mut Wait<'_>>) -> bool,
    /// Counts the transitions that can be drawn. O(lanes).
    pub(crate) drawable: &'a dyn Fn() -> u64,
}

impl Caller<'_> {
    /// Returns the time waited so far.
    pub(crate) fn waited(&self) -> Duration {
        self.wait.as_ref().map_or(Duration::ZERO, Wait::waited)
    }
}

/// Time since which a sampler found no writer alive, and the inserts that were counted then. Calls
/// that poll share it.
#[derive(Debug, Default)]
pub(crate) struct AloneSince(Mutex<Option<(Instant, u64)>>);

impl AloneSince {
    /// Returns whether no writer was found alive for 100 ms, and none counted an insert meanwhile.
    /// So a process that closes one writer and soon opens another still counts as a live writer.
    pub(crate) fn is_alone(&self, store: &RingStore, table: &LimiterTable) -> bool {
        let has_writer = store.has_writer();
        // Loads after the check for a writer: a writer may have counted inserts before it ended.
        let inserts = table.load_inserts(Acquire) & COUNT;
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *found {
            _ if has_writer => *found = None,
            Some((since, of)) if of == inserts => return since.elapsed() >= ALONE_AFTER,
            _ => *found = Some((Instant::now(), inserts)),
        }
        false
    }
}

/// Counts that are missing for a call to continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortage {
    /// Count of the other side with which the whole call can continue.
    pub(super) needed: u64,
    /// Count of the other side at which the call is to be woken.
    pub(super) wake_at: u64,
    /// Items that are counted for the call.
    pub(super) held: u64,
    /// Count of the caller's side.
    pub(super) own: u64,
    /// Ceiling that holds the call back, if one does.
    pub(super) ceiling: Option<Ceiling>,
    /// Whether the call fails now, because the other side has no live process.
    pub(super) fails: bool,
}

/// A wait, from its first sleep on. Dropping it ends the wait.
pub(super) struct Waiting<'a> {
    store: &'a RingStore,
    table: &'a LimiterTable,
    call: LimitedCall,
    /// Transitions or items that the call wants.
    wanted: u64,
    /// Sets the mark that shows the wait to other processes.
    mark: &'a dyn Fn(WaitMark),
    /// Beginning of the first sleep.
    began: Option<Instant>,
    /// Checks since the last sleep.
    looks: u32,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(
        store: &'a RingStore,
        table: &'a LimiterTable,
        (call, wanted): (LimitedCall, u64),
        mark: &'a dyn Fn(WaitMark),
    ) -> Self {
        Self { store, table, call, wanted, mark, began: None, looks: 0 }
    }

    /// Returns the side that waits.
    fn side(&self) -> LimitedSide {
        match self.call {
            LimitedCall::Append { .. } => LimitedSide::Inserts,
            LimitedCall::Draw => LimitedSide::Samples,
        }
    }

    /// Waits until `try_pass` succeeds. `try_pass` gets the limits in force and their generation.
    pub(super) fn until_passed(
        mut self,
        caller: &mut Caller<'_>,
        mut try_pass: impl FnMut(&RateLimiter, u64, &Caller<'_>) -> Result<(), Shortage>,
    ) -> Result<(), LimitError> {
        let (table, side) = (self.table, self.side());
        let (own, other) = (table.counter(side), table.counter(side.other()));
        loop {
            let (limits, generation) = current(table).ok_or(LimitError::Damaged)?;
            let deletes = table.deletes();
            let Err(shortage) = try_pass(&limits, generation, caller) else { return Ok(()) };
            let (store, call, wanted) = (self.store, self.call, self.wanted);
            let describe = |waited: Duration| {
                let counted = other.load(Relaxed) & COUNT;
                let (inserts, samples, peers, has_peers) = match side {
                    LimitedSide::Inserts => {
                        (shortage.own, counted, samplers(store), store.has_sampler())
                    }
                    LimitedSide::Samples => {
                        (counted, shortage.own, writers(store), store.has_writer())
                    }
                };
                LimiterWait {
                    call,
                    wanted,
                    held: shortage.held,
                    waited_ms: waited.as_millis(),
                    needed: shortage.needed,
                    inserts,
                    samples,
                    deletes: deletes.0,
                    ceiling: shortage.ceiling.and_then(Ceiling::count),
                    limits: limits.to_string(),
                    peers,
                    has_peers,
                }
            };
            if shortage.fails {
                let error = match side {
                    LimitedSide::Inserts => LimitError::NoLearner,
                    LimitedSide::Samples => LimitError::NoWriter,
                };
                return Err(error(describe(caller.waited()).into()));
            }
            let (ticket, word) = listen(&other, shortage.wake_at);
            // A sampler that begins to await rows sets its mark and then wakes writers: the mark is
            // seen here, or the sleep is refused. The limits hold writers back for its draws, and
            // the ceiling does not.
            let is_limited = side == LimitedSide::Inserts && shortage.ceiling.is_none();
            if is_limited && awaits_rows(store, table) {
                return Ok(());
            }
            let is_raised =
                shortage.ceiling.is_some_and(|of| of != Ceiling::of(table, &limits, generation));
            // Look again at limits, dropped rows, and items that another sampler gave back: a
            // change before the bit was set woke no process.
            let changed = table.load_inserts(Acquire) & GENERATIONS != generation
                || is_raised
                || table.deletes() != deletes
                || own.load(Relaxed) & COUNT < shortage.own;
            if (changed || word & COUNT >= shortage.wake_at) && self.looks_again() {
                continue;
            }
            self.sleep(caller, &describe, |time| ticket.sleep(&other, time))?;
        }
    }

    /// Returns whether to check again without a sleep. The number of such checks is limited, since
    /// a hostile process could change the words without end.
    fn looks_again(&mut self) -> bool {
        self.looks += 1;
        self.looks < MAX_LOOKS
    }

    /// Sleeps once, for at most [`SLICE`], unless the wait has ended. `describe` makes the text of
    /// the report and of errors, given the time waited.
    fn sleep(
        &mut self,
        caller: &mut Caller<'_>,
        describe: &dyn Fn(Duration) -> LimiterWait,
        sleep: impl FnOnce(Duration),
    ) -> Result<(), LimitError> {
        if (caller.unlinked)(caller.wait.as_mut()) {
            return Err(LimitError::Unlinked);
        }
        let Some(wait) = &mut caller.wait else { return Err(LimitError::WouldWait) };
        let waited = wait.waited();
        let checked = wait.check(SLICE, || describe(waited).to_string());
        let time = checked.map_err(|end| match end {
            WaitEnd::TimedOut => LimitError::TimedOut(describe(wait.waited()).into()),
            WaitEnd::Interrupted => {
                LimitError::Interrupted { waited_ms: wait.waited().as_millis() }
            }
        })?;
        if self.began.is_none() {
            self.began = Some(Instant::now());
            self.table.counter(self.side()).count_wait();
            let since_unix_ms = unix_ms();
            (self.mark)(WaitMark { since_unix_ms, wanted: self.wanted, awaits_rows: false });
        }
        self.looks = 0;
        sleep(time);
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(began) = self.began {
            (self.mark)(WaitMark::default());
            let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.table.counter(self.side()).count_waited(waited);
        }
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether a live sampler has its whole batch counted, and waits for rows to fill it.
fn awaits_rows(store: &RingStore, table: &LimiterTable) -> bool {
    (0..store.spec().reader_slots)
        .any(|slot| table.sampler_mark(slot).awaits_rows && store.reader_held(slot))
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

#[cfg(test)]
mod tests {
    use backcast_layout::protocol::limit::count;

    use super::*;
    use crate::limiter::limits::RateLimiter;
    use crate::{DType, Ring, RingOptions, Schema, WriterOptions};

    #[test]
    fn a_writer_that_counted_or_lives_begins_the_time_without_writers_anew() {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let options = RingOptions::with_capacity(100).limiter(RateLimiter::queue(5));
        let ring = Ring::heap(&schema, options).unwrap();
        let store = ring.store();
        let table = store.limiter().unwrap();
        let past = Instant::now().checked_sub(ALONE_AFTER).unwrap();
        let alone = |inserts| AloneSince(Mutex::new(Some((past, inserts))));
        assert!(!AloneSince::default().is_alone(store, table), "it is the first look");
        assert!(alone(0).is_alone(store, table));
        count(&table.counter(LimitedSide::Inserts), 1);
        let counted = alone(0);
        assert!(!counted.is_alone(store, table) && !counted.is_alone(store, table));
        assert!(alone(1).is_alone(store, table));
        let writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let lives = alone(1);
        assert!(!lives.is_alone(store, table));
        drop(writer);
        assert!(!lives.is_alone(store, table), "the time begins when it has ended");
    }

    #[test]
    fn a_wait_checks_again_without_a_sleep_after_a_change_and_a_limited_number_of_times() {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let limits = RateLimiter::queue(5);
        let options = RingOptions::with_capacity(100).limiter(limits);
        let ring = Ring::heap(&schema, options).unwrap();
        let (store, limiter) = (ring.store(), ring.limiter().unwrap());
        let table = store.limiter().unwrap();
        let mark = |_: WaitMark| {};
        let (unlinked, drawable) = (|_: Option<&mut Wait<'_>>| false, || 0_u64);
        // Calls `change` at every check but number `passes_at`, which passes. Returns the number of
        // checks, and how the wait ended. A call that must not wait fails where it would sleep.
        let waited = |call, change: &dyn Fn() -> Shortage, passes_at: u32| {
            let waiting = Waiting::new(store, table, (call, 1), &mark);
            let mut caller = Caller { wait: None, unlinked: &unlinked, drawable: &drawable };
            let mut checks = 0;
            let ended = waiting.until_passed(&mut caller, |_, _, _| {
                checks += 1;
                if checks == passes_at { Ok(()) } else { Err(change()) }
            });
            (checks, ended)
        };
        let (needed, wake_at, ceiling) = (COUNT, COUNT, None);
        let short = Shortage { needed, wake_at, held: 0, own: 0, ceiling, fails: false };
        let changes: [(&str, &dyn Fn() -> Shortage); 6] = [
            ("limits that were set", &|| {
                limiter.set(limits).unwrap();
                short
            }),
            ("deletes", &|| {
                table.count_deletes(table.deletes().0 + 1, 0, 0);
                short
            }),
            ("inserts at the last drop", &|| {
                table.count_deletes(0, table.deletes().1 + 1, 0);
                short
            }),
            ("items given back", &|| Shortage { own: 1, ..short }),
            ("a count that was reached", &|| Shortage { wake_at: 0, ..short }),
            ("a ceiling that was raised", &|| Shortage {
                ceiling: Some(Ceiling::at(Some(3))),
                ..short
            }),
        ];
        for call in [LimitedCall::Append { lane: 0 }, LimitedCall::Draw] {
            let sleeps = || Err(LimitError::WouldWait);
            assert_eq!(waited(call, &|| short, 2), (1, sleeps()), "{call:?} without a change");
            for (what, change) in changes {
                assert_eq!(waited(call, change, 3), (3, Ok(())), "{call:?}, {what}");
                let endless = waited(call, change, 2 * MAX_LOOKS);
                assert_eq!(endless, (MAX_LOOKS, sleeps()), "{call:?}, {what}");
            }
        }
    }
}
