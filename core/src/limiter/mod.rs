//! Rate limiter of a ring: writers and samplers wait for each other, so that learners draw each
//! transition about as often as intended.
//!
//! [`limits`] decides, as pure functions of three counts. The counts are in `ring.lim`, which
//! writers and samplers share (`docs/layout.md`). `docs/protocol.md` describes how they wait for
//! each other.

pub(crate) mod gate;
pub(crate) mod limits;
pub(crate) mod stats;
pub(crate) mod waiting;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use backcast_layout::protocol::limit::{COUNT, LimitCounter, wake};
use backcast_layout::{LimitedSide, LimiterTable, RingStore};

use self::limits::{LimiterCounts, RateLimiter};
use crate::error::LimiterError;

/// Rate limiter of a ring. Any process can read and change its limits and switch it off.
///
/// ```
/// use backcast_core::{DType, RateLimiter, Ring, RingOptions, Schema, WriterOptions};
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let limiter = RateLimiter::ratio(4.0, 50, 100.0);
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(1_000).limiter(limiter))?;
/// let limiter = ring.limiter().expect("created with one");
/// limiter.require(4.0)?; // what this process relies on
/// assert!(limiter.require(8.0).is_err());
/// limiter.set(RateLimiter::min_size(10))?; // in force immediately, for every process
/// limiter.set_enabled(false)?;
/// assert!(!limiter.limits()?.is_enabled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    store: Arc<RingStore>,
}

impl Limiter {
    /// Returns the limiter of a ring, or `None` if the ring was created without one.
    pub(crate) fn of(store: &Arc<RingStore>) -> Option<Self> {
        store.limiter().map(|_| Self { store: Arc::clone(store) })
    }

    fn table(&self) -> Result<&LimiterTable, LimiterError> {
        self.store.limiter().ok_or(LimiterError::NoLimiter)
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> Result<RateLimiter, LimiterError> {
        let (limits, _) = current(self.table()?).ok_or(LimiterError::Damaged)?;
        Ok(limits)
    }

    /// Refuses limits with other samples per insert than `wanted`, for a process that relies on
    /// them. Changes nothing.
    pub fn require(&self, wanted: f64) -> Result<(), LimiterError> {
        let found = self.limits()?;
        let (least, most) = found.error_band();
        if least.is_infinite() && most.is_infinite() {
            return Err(LimiterError::NoRatio { wanted, found: found.to_string() });
        }
        // Two numbers that a caller wrote are compared, not results of a computation.
        if found.samples_per_insert().to_bits() != wanted.to_bits() {
            let found = found.samples_per_insert();
            return Err(LimiterError::OtherRatio { wanted, found });
        }
        Ok(())
    }

    /// Puts other limits into force, for every process. The counts are kept. Waiting processes
    /// check the new limits.
    pub fn set(&self, limits: RateLimiter) -> Result<(), LimiterError> {
        let table = self.table()?;
        limits.check(most_transitions(&self.store))?;
        self.store.change_limits(limits.to_bytes())?;
        for side in [LimitedSide::Inserts, LimitedSide::Samples] {
            wake(&table.counter(side));
        }
        Ok(())
    }

    /// Switches the limiter on or off, for every process. While it is off both sides are counted
    /// and neither waits.
    pub fn set_enabled(&self, enabled: bool) -> Result<(), LimiterError> {
        self.set(self.limits()?.enabled(enabled))
    }

    /// Returns the counts that the limits compare. They are read one after another, so they may be
    /// of different moments.
    #[must_use]
    pub fn counts(&self) -> LimiterCounts {
        self.store.limiter().map_or_else(LimiterCounts::default, counts)
    }
}

/// Wakes the samplers that wait for the limiter, so that they check for interrupts.
pub(crate) fn wake_samplers(store: &RingStore) {
    if let Some(table) = store.limiter() {
        wake(&table.counter(LimitedSide::Inserts));
    }
}

/// Wakes all processes that wait for the limiter, so that they check for interrupts.
pub(crate) fn wake_all(store: &RingStore) {
    wake_samplers(store);
    if let Some(table) = store.limiter() {
        wake(&table.counter(LimitedSide::Samples));
    }
}

pub(crate) fn counts(table: &LimiterTable) -> LimiterCounts {
    LimiterCounts {
        inserts: table.load_inserts(Relaxed) & COUNT,
        samples: table.counter(LimitedSide::Samples).load(Relaxed) & COUNT,
        deletes: table.deletes(),
    }
}

/// Returns the limits in force and their generation, if the stored words are valid.
pub(crate) fn current(table: &LimiterTable) -> Option<(RateLimiter, u64)> {
    let (bytes, generation) = table.limits()?;
    Some((RateLimiter::of_bytes(bytes)?, generation))
}

/// Returns the maximum number of transitions that a ring can hold: the newest row of each lane has
/// no successor.
fn most_transitions(store: &RingStore) -> u64 {
    store.lanes().iter().map(|lane| lane.capacity().saturating_sub(1)).sum()
}
