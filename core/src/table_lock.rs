//! Waits for the locks of tables, which a change holds for microseconds.

use std::time::Duration;

use backcast_layout::RingStore;

use crate::error::LockError;
use crate::wait::{Interrupt, Wait, WaitEnd, processes_in_words};

/// Longest wait without a limit of the caller.
const LOCK_LIMIT: Duration = Duration::from_secs(60);
/// Shortest limit: a caller that polls is not refused for a change that another process makes.
const SHORTEST_LIMIT: Duration = Duration::from_millis(100);

/// Limit and interrupt of the waits of a handle for the lock of its table.
#[derive(Clone, Debug)]
pub(crate) struct LockLimits {
    limit: Duration,
    interrupt: Interrupt,
}

impl LockLimits {
    /// Returns limits of a minute.
    pub(crate) fn new(interrupt: &Interrupt) -> Self {
        Self::within(None, interrupt)
    }

    /// Returns limits of `limit`, but at least 100 ms. `None` gives a minute.
    pub(crate) fn within(limit: Option<Duration>, interrupt: &Interrupt) -> Self {
        let limit = limit.map_or(LOCK_LIMIT, |limit| limit.max(SHORTEST_LIMIT));
        Self { limit, interrupt: interrupt.clone() }
    }

    /// Returns limits that attempt once.
    pub(crate) fn now() -> Self {
        Self { limit: Duration::ZERO, interrupt: Interrupt::never() }
    }

    /// Begins a wait.
    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait::new(Some(self.limit), &self.interrupt)
    }

    /// Returns limits with the same interrupt and `limit` as the maximum wait.
    pub(crate) fn at_most(&self, limit: Duration) -> Self {
        Self { limit, interrupt: self.interrupt.clone() }
    }
}

/// Repeats an attempt that needs the lock of a table until it returns a value.
pub(crate) fn locked<T, E: From<LockError>>(
    store: &RingStore,
    table: &str,
    limits: &LockLimits,
    attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<T, E> {
    locked_within(store, table, &mut limits.wait(), attempt)
}

/// Repeats an attempt like [`locked`], as long as a wait allows.
pub(crate) fn locked_within<T, E: From<LockError>>(
    store: &RingStore,
    table: &str,
    wait: &mut Wait<'_>,
    attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<T, E> {
    let holder = || processes_in_words(&store.table_holders(table));
    let report = |waited: Duration| {
        format!(
            "waits for {:.0} s for the table `{table}`, which is locked by {}; let that process \
             continue (`kill -CONT PID` if it is stopped), or end it",
            waited.as_secs_f64(),
            holder()
        )
    };
    wait.poll(report, attempt)?.map_err(|end| {
        let (table, holder, waited_s) = (table.to_owned(), holder(), wait.waited().as_secs_f64());
        match end {
            WaitEnd::TimedOut => LockError::Busy { table, holder, waited_s }.into(),
            WaitEnd::Interrupted => LockError::Interrupted { table, holder, waited_s }.into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_that_does_not_wait_waits_for_a_lock() {
        let never = Interrupt::never();
        let limit = |given| LockLimits::within(given, &never).wait().left();
        assert_eq!(limit(Some(Duration::ZERO)), SHORTEST_LIMIT);
        assert_eq!(limit(Some(Duration::from_secs(2))), Duration::from_secs(2));
        assert_eq!(limit(None), LOCK_LIMIT);
    }
}
