//! Waits: how long one lasts, what ends it early, and what a long one reports.
//!
//! This crate waits for other processes through [`Wait`]: for rows, versions, leases, rate
//! limiters, and locks of tables. A handle owns the [`Interrupt`] of its waits.

mod holder;
mod interrupt;

use std::fmt;
use std::time::{Duration, Instant};

pub use self::holder::processes_in_words;
pub use self::interrupt::{Interrupt, WaitReport};

/// Time after which a wait is reported.
const REPORT_AFTER: Duration = Duration::from_secs(10);
/// Interval between two checks for an interrupt.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Attempts of a poll before its first pause.
const SPINS: u32 = 200;
const SPINS_PER_CHECK: u32 = 16;
/// First pause between two attempts of a poll.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// Longest pause of a poll that has just begun. Later ones grow with the time waited, up to
/// [`LAST_PAUSE`].
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause of a poll.
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// One wait: its beginning, its limit, and the interrupt that may end it.
///
/// Costs nothing until the first check: neither allocates nor reads a clock.
pub struct Wait<'a> {
    ends: Option<&'a Ends<'a>>,
    /// Maximum wait. `None` waits without a limit.
    limit: Option<Duration>,
    report_after: Duration,
    /// Beginning of the wait: its first check, unless it was given.
    began: Option<Instant>,
    next_check: Option<Instant>,
    is_reported: bool,
    /// Text about the lost name of a ring, until the next check reports it.
    unlinked: Option<String>,
}

/// Function that is given the report of a wait, if there is one, and returns whether to end the
/// wait.
type Ends<'a> = dyn Fn(Option<WaitReport<'_>>) -> bool + 'a;

/// Behaviour of a call where it would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenBlocked {
    /// It waits, as long as its [`Wait`] allows.
    Wait,
    /// It fails.
    Fail,
}

/// Beginning of a wait that several calls continue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitStart {
    began: Instant,
    /// Whether the wait was reported.
    pub(crate) is_reported: bool,
}

impl WaitStart {
    /// Begins a wait now.
    pub(crate) fn now() -> Self {
        Self::at(Instant::now())
    }

    /// Returns the beginning of a wait that began at `began`.
    pub(crate) fn at(began: Instant) -> Self {
        Self { began, is_reported: false }
    }

    /// Returns the time waited so far.
    pub(crate) fn waited(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Reason why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The limit has passed.
    TimedOut,
    /// The interrupt ended it.
    Interrupted,
}

impl<'a> Wait<'a> {
    /// Begins a wait of at most `limit`; `None` waits without a limit.
    #[must_use]
    pub fn new(limit: Option<Duration>, interrupt: &'a Interrupt) -> Self {
        Self::of(limit, interrupt.listener())
    }

    /// Begins a wait that ends when `ends` returns `true`. It gets the reports of the wait.
    pub fn ended_by(
        limit: Option<Duration>,
        ends: &'a dyn Fn(Option<WaitReport<'_>>) -> bool,
    ) -> Self {
        Self::of(limit, Some(ends))
    }

    fn of(limit: Option<Duration>, ends: Option<&'a Ends<'a>>) -> Self {
        Self {
            ends,
            limit,
            report_after: REPORT_AFTER,
            began: None,
            next_check: None,
            is_reported: false,
            unlinked: None,
        }
    }

    /// Continues a wait that has begun. [`keep_report`](Self::keep_report) ends the continuation.
    #[must_use]
    pub(crate) fn since(mut self, start: WaitStart) -> Self {
        (self.began, self.is_reported) = (Some(start.began), start.is_reported);
        self
    }

    /// Records in `start` whether this wait was reported, so that its continuation is not.
    pub(crate) fn keep_report(&self, start: &mut WaitStart) {
        start.is_reported |= self.is_reported;
    }

    /// Sets the time after which the wait is reported (default: 10 s).
    #[must_use]
    pub fn report_after(mut self, time: Duration) -> Self {
        self.report_after = time;
        self
    }

    /// Returns whether the next check gives reports to a listener: there is one, and time is left.
    pub(crate) fn can_report(&self) -> bool {
        self.ends.is_some() && !self.left().is_zero()
    }

    /// Makes the next check report that a ring has lost its name.
    pub(crate) fn report_unlinked(&mut self, text: String) {
        self.unlinked = Some(text);
    }

    /// Returns the time waited so far.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Returns the time that is left. [`Duration::MAX`] without a limit.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |limit| limit.saturating_sub(self.waited()))
    }

    /// Checks before a sleep whether the wait has ended. Returns the time to sleep, at most
    /// `slice`. `describe` makes the text of the report, once, after a long wait.
    pub fn check(
        &mut self,
        slice: Duration,
        describe: impl FnOnce() -> String,
    ) -> Result<Duration, WaitEnd> {
        let now = Instant::now();
        let waited = now.saturating_duration_since(*self.began.get_or_insert(now));
        let left = self.limit.map_or(Duration::MAX, |limit| limit.saturating_sub(waited));
        if left.is_zero() {
            return Err(WaitEnd::TimedOut);
        }
        if let Some(text) = self.unlinked.take()
            && self.is_ended(Some(WaitReport::Unlinked(&text)))
        {
            return Err(WaitEnd::Interrupted);
        }
        let is_long = waited >= self.report_after && !self.is_reported;
        if is_long {
            self.is_reported = true;
            let text = describe();
            tracing::warn!("{text}");
            if self.is_ended(Some(WaitReport::Long(&text))) {
                return Err(WaitEnd::Interrupted);
            }
        } else if self.next_check.is_none_or(|next| now >= next) {
            self.next_check = Some(now + CHECK_EVERY);
            if self.is_ended(None) {
                return Err(WaitEnd::Interrupted);
            }
        }
        Ok(left.min(slice).min(CHECK_EVERY))
    }

    fn is_ended(&self, report: Option<WaitReport<'_>>) -> bool {
        self.ends.is_some_and(|ends| ends(report))
    }

    /// Repeats an attempt until it returns a value, at ever longer intervals. A limit of zero
    /// attempts once. `describe` makes the text of the report, given the time waited.
    ///
    /// The outer error is that of an attempt.
    pub fn poll<T, E>(
        &mut self,
        describe: impl Fn(Duration) -> String,
        mut attempt: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<Result<T, WaitEnd>, E> {
        let (mut pause, mut tries) = (FIRST_PAUSE, 0_u32);
        loop {
            if let Some(done) = attempt()? {
                return Ok(Ok(done));
            }
            if self.limit == Some(Duration::ZERO) {
                return Ok(Err(WaitEnd::TimedOut));
            }
            tries = tries.saturating_add(1);
            if tries < SPINS && !tries.is_multiple_of(SPINS_PER_CHECK) {
                std::thread::yield_now();
                continue;
            }
            let waited = self.waited();
            match self.check(pause, || describe(waited)) {
                Err(end) => return Ok(Err(end)),
                Ok(_) if tries < SPINS => std::thread::yield_now(),
                Ok(time) => {
                    std::thread::sleep(time);
                    pause = (2 * pause).min((waited / 32).clamp(SHORT_PAUSE, LAST_PAUSE));
                }
            }
        }
    }
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, began, .. } = self;
        let mut wait = f.debug_struct("Wait");
        wait.field("limit", limit).field("began", began).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::{Arc, PoisonError};

    use super::*;

    fn poll<T>(wait: &mut Wait<'_>, attempt: impl Fn() -> Option<T>) -> Result<T, WaitEnd> {
        let done: Result<_, Infallible> =
            wait.poll(|waited| format!("waits for {} s", waited.as_secs()), || Ok(attempt()));
        done.unwrap()
    }

    #[test]
    fn a_poll_ends_with_its_value_its_limit_or_its_interrupt() {
        let never = Interrupt::never();
        let tries = AtomicU32::new(0);
        let third = || (tries.fetch_add(1, Relaxed) == 2).then_some(7);
        assert_eq!(poll(&mut Wait::new(None, &never), third), Ok(7));
        let none = || None::<()>;
        for limit in [0, 3] {
            let mut wait = Wait::new(Some(Duration::from_millis(limit)), &never);
            assert_eq!(poll(&mut wait, none), Err(WaitEnd::TimedOut), "{limit} ms");
            assert!(wait.waited() >= Duration::from_millis(limit));
        }
        let ended = Interrupt::when(|| true);
        assert_eq!(poll(&mut Wait::new(None, &ended), none), Err(WaitEnd::Interrupted));
        assert_eq!(poll(&mut Wait::new(None, &ended), || Some(1)), Ok(1), "no wait, no interrupt");
    }

    #[test]
    fn a_long_wait_is_reported_once_and_its_report_may_end_it() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        for ends in [false, true] {
            let told = Arc::clone(&reports);
            let interrupt = Interrupt::told(move |report| {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                told.extend(report.map(|report| report.text().to_owned()));
                ends && report.is_some()
            });
            let limit = Some(Duration::from_millis(20));
            let mut wait = Wait::new(limit, &interrupt).report_after(Duration::ZERO);
            let end = if ends { WaitEnd::Interrupted } else { WaitEnd::TimedOut };
            assert_eq!(poll(&mut wait, || None::<()>), Err(end));
            assert_eq!(reports.lock().unwrap().drain(..).count(), 1);
        }
    }

    #[test]
    fn a_check_returns_at_most_the_time_that_is_left() {
        let never = Interrupt::never();
        let second = Duration::from_secs(1);
        let mut short = Wait::new(Some(Duration::from_millis(9)), &never);
        assert!(short.check(second, String::new).unwrap() <= Duration::from_millis(9));
        let mut unlimited = Wait::new(None, &never);
        assert_eq!(unlimited.check(second, String::new), Ok(CHECK_EVERY));
        assert_eq!(unlimited.left(), Duration::MAX);
        let began = Instant::now().checked_sub(second).unwrap();
        let mut old = Wait::new(Some(second), &never).since(WaitStart::at(began));
        assert_eq!(old.check(second, String::new), Err(WaitEnd::TimedOut));
    }

    #[test]
    fn checks_in_quick_succession_ask_the_interrupt_once() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let interrupt = Interrupt::when(move || {
            count.fetch_add(1, Relaxed);
            false
        });
        let mut wait = Wait::new(None, &interrupt);
        let began = Instant::now();
        for _ in 0..1_000 {
            wait.check(CHECK_EVERY, String::new).unwrap();
        }
        let intervals = began.elapsed().as_nanos() / CHECK_EVERY.as_nanos();
        assert!(u128::from(asked.load(Relaxed)) <= intervals + 1);
        assert_ne!(asked.load(Relaxed), 0);
    }

    #[test]
    fn a_wait_that_another_one_continues_is_reported_once() {
        let reports = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&reports);
        let interrupt = Interrupt::told(move |report| {
            told.fetch_add(u32::from(report.is_some()), Relaxed);
            false
        });
        let mut start = WaitStart::now();
        let continued = |start: WaitStart, after: Duration| {
            Wait::new(None, &interrupt).since(start).report_after(after)
        };
        let mut early = continued(start, Duration::from_secs(3_600));
        early.check(Duration::ZERO, String::new).unwrap();
        early.keep_report(&mut start);
        assert!(!start.is_reported);
        for _ in 0..3 {
            let mut wait = continued(start, Duration::ZERO);
            wait.check(Duration::ZERO, String::new).unwrap();
            wait.keep_report(&mut start);
            assert!(start.is_reported);
            assert_eq!(reports.load(Relaxed), 1);
        }
        early.keep_report(&mut start);
        assert!(start.is_reported, "another wait has reported it");
    }

    #[test]
    fn a_wait_can_report_while_it_has_a_listener_and_time() {
        let (never, listens) = (Interrupt::never(), Interrupt::when(|| false));
        let hour = Some(Duration::from_secs(3_600));
        for (interrupt, limit, can_report) in [
            (&never, None, false),
            (&never, hour, false),
            (&never, Some(Duration::ZERO), false),
            (&listens, None, true),
            (&listens, hour, true),
            (&listens, Some(Duration::ZERO), false),
        ] {
            let wait = Wait::new(limit, interrupt);
            assert_eq!(wait.can_report(), can_report, "{interrupt:?} {limit:?}");
        }
    }
}
