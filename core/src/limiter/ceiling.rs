//! Insert ceiling: a count of inserts at which writers stop, which a process sets from outside.
//!
//! The limits relate the counts of one ring. A ceiling comes from a process that counts over
//! several rings: it tells each of them how far its writers may go.

use std::sync::atomic::Ordering::Acquire;

use backcast_layout::LimiterTable;
use backcast_layout::protocol::limit::{COUNT, GENERATIONS};

use super::limits::RateLimiter;
use super::{Limiter, wake_all};
use crate::error::LimiterError;

/// Count of inserts at which writers stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ceiling(Option<u64>);

impl Ceiling {
    /// Returns the ceiling under the limits of a generation. A limiter that is off has none.
    pub(super) fn of(table: &LimiterTable, limits: &RateLimiter, generation: u64) -> Self {
        Self(table.ceiling(generation).filter(|_| limits.is_enabled()))
    }

    #[cfg(test)]
    pub(super) fn at(inserts: Option<u64>) -> Self {
        Self(inserts)
    }

    /// Returns the count, if there is a ceiling.
    pub(super) fn count(self) -> Option<u64> {
        self.0
    }

    /// Returns whether writers stop after `inserts` transitions.
    pub(super) fn holds(self, inserts: u64) -> bool {
        self.0.is_some_and(|ceiling| inserts >= ceiling)
    }

    /// Returns the count up to which writers may insert if the limits allow `most`.
    pub(super) fn bound(self, most: u64) -> u64 {
        most.min(self.0.unwrap_or(COUNT))
    }
}

impl Limiter {
    /// Sets the count of inserts at which writers stop, for every process, or removes it with
    /// `None`. Writers wait at it as they wait for draws, whatever the limits allow, and
    /// [`no_learner`](RateLimiter::no_learner) applies. A count that was reached already stops the
    /// next append. An append is admitted whole while one more transition is below the ceiling, so
    /// each writer may pass it by less than one append.
    ///
    /// The ceiling stays until it is set again, also after the death of the process that set it,
    /// and while other limits are set, rows are dropped, or the ring is resized. It compares the
    /// count that [`counts`](Self::counts) returns: after
    /// [`reset_counts`](Self::reset_counts) set another one. A loaded ring has none. While the
    /// limiter is off, writers do not wait.
    ///
    /// ```
    /// use backcast_core::{DType, RateLimiter, Ring, RingOptions, Schema};
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let options = RingOptions::with_capacity(1_000).limiter(RateLimiter::min_size(1));
    /// let ring = Ring::heap(&schema, options)?;
    /// let limiter = ring.limiter().expect("created with one");
    /// limiter.set_ceiling(Some(500))?; // the 501st transition waits
    /// assert_eq!(limiter.ceiling(), Some(500));
    /// limiter.set_ceiling(None)?;
    /// assert_eq!(limiter.ceiling(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_ceiling(&self, inserts: Option<u64>) -> Result<(), LimiterError> {
        self.table()?;
        self.store.set_ceiling(inserts)?;
        wake_all(&self.store);
        Ok(())
    }

    /// Returns the count of inserts at which writers stop; `None` without a ceiling.
    #[must_use]
    pub fn ceiling(&self) -> Option<u64> {
        self.store.limiter().and_then(ceiling_of)
    }
}

/// Returns the ceiling that is in force, whether the limiter is on or off.
pub(super) fn ceiling_of(table: &LimiterTable) -> Option<u64> {
    table.ceiling(table.load_inserts(Acquire) & GENERATIONS)
}

#[cfg(test)]
mod tests;
