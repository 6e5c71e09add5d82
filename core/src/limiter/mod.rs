//! Rate limiter of a ring: writers and samplers wait for each other, so that learners draw each
//! transition about as often as intended.
//!
//! [`limits`] decides, as pure functions of three counts. The counts are in `ring.lim`, which
//! writers and samplers share (`docs/layout.md`). `docs/protocol.md` describes how they wait for
//! each other.

pub(crate) mod absent;
mod ceiling;
pub(crate) mod draw_gate;
pub(crate) mod gate;
mod limit_checks;
pub(crate) mod limits;
#[cfg(test)]
mod model;
pub(crate) mod require;
pub(crate) mod size;
pub(crate) mod stats;
pub(crate) mod waiting;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use backcast_layout::protocol::limit::{COUNT, LimitCounter, take, wake};
use backcast_layout::{LimitCounts, LimitedSide, LimiterTable, PendingResize, RingStore};

use self::limits::{LimiterCounts, RateLimiter};
use crate::error::LimiterError;

/// Maximum times that a count of transitions is repeated because writers appended meanwhile.
const MAX_RECOUNTS: u32 = 16;

/// Rate limiter of a ring. Any process can read and change its limits and switch it off.
///
/// ```
/// use backcast_core::{DType, RateLimiter, Ring, RingOptions, Schema, WriterOptions};
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let limiter = RateLimiter::ratio(4.0, 50, 100.0);
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(1_000).limiter(limiter))?;
/// let limiter = ring.limiter().expect("created with one");
/// limiter.set(RateLimiter::min_size(10))?; // in force immediately, for every process
/// limiter.set_enabled(false)?;
/// assert!(!limiter.limits()?.is_enabled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    store: Arc<RingStore>,
    drawable: Drawable,
}

/// Counts the transitions of a ring that can be drawn.
#[derive(Clone)]
struct Drawable(Arc<dyn Fn() -> u64 + Send + Sync>);

impl fmt::Debug for Drawable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drawable")
    }
}

impl Limiter {
    /// Returns the limiter of a ring, or `None` if the ring was created without one. `drawable`
    /// counts the transitions that can be drawn.
    pub(crate) fn of(
        store: &Arc<RingStore>,
        drawable: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Option<Self> {
        let drawable = Drawable(Arc::new(drawable));
        store.limiter().map(|_| Self { store: Arc::clone(store), drawable })
    }

    fn table(&self) -> Result<&LimiterTable, LimiterError> {
        self.store.limiter().ok_or(LimiterError::NoLimiter)
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> Result<RateLimiter, LimiterError> {
        let (limits, _) = current(self.table()?).ok_or(LimiterError::Damaged)?;
        Ok(limits)
    }

    /// Puts other limits into force, for every process. The counts are kept. Waiting processes
    /// check the new limits.
    ///
    /// Until a resize has finished, `min_size` may be at most what the ring can hold without it.
    pub fn set(&self, limits: RateLimiter) -> Result<(), LimiterError> {
        self.table()?;
        match limits.check_new(most_transitions(&self.store)) {
            Err(
                LimiterError::MinSizeBeyondCapacity { .. }
                | LimiterError::QueueBeyondCapacity { .. },
            ) => self.check_resized(limits)?,
            checked => checked?,
        }
        self.put(limits, None)
    }

    /// Checks limits that the lanes, as this handle has them mapped, cannot satisfy. A resize may
    /// have enlarged them since, or may be about to.
    fn check_resized(&self, limits: RateLimiter) -> Result<(), LimiterError> {
        let pending = self.store.pending_resize()?;
        let checked = limits.check_new(most_transitions(&self.store));
        let Err(LimiterError::MinSizeBeyondCapacity { min_size, most }) = checked else {
            return checked;
        };
        let Some(PendingResize { lanes, lane_capacity }) = pending else { return checked };
        let most_of_lane = lane_capacity.saturating_sub(1);
        let after = most_of_lane.saturating_mul(self.store.spec().lanes.into());
        if min_size > after {
            return checked;
        }
        Err(LimiterError::MinSizeBeforeResize { min_size, most, after, lanes })
    }

    fn put(&self, limits: RateLimiter, counts: Option<LimitCounts>) -> Result<(), LimiterError> {
        self.store.change_limits(limits.to_bytes(), counts)?;
        wake_all(&self.store);
        Ok(())
    }

    /// Switches the limiter on or off, for every process. While it is off both sides are counted
    /// and neither waits.
    pub fn set_enabled(&self, enabled: bool) -> Result<(), LimiterError> {
        self.set(self.limits()?.enabled(enabled))
    }

    /// Counts anew, as if the limiter were new and the transitions of the ring, or `min_size` of
    /// them if there are more, had just been inserted. Use it to leave rows out of the proportion
    /// of draws to inserts: those of a data set, or of an earlier run. The limits stay, and
    /// processes that wait check them again. Rows appended meanwhile may be missing in the count.
    ///
    /// ```
    /// use backcast_core::{DType, RateLimiter, Ring, RingOptions, Schema};
    /// use backcast_core::{StepColumns, WriterOptions};
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
    /// let limits = RateLimiter::ratio(8.0, 100, 400.0).enabled(false);
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(5_000).limiter(limits))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// for _ in 0..=2_000 {
    ///     let columns = StepColumns::of(ring.schema()).with("obs", &[0.0_f32])?;
    ///     writer.append(&columns.step(&[false], &[false])?)?;
    /// }
    /// let limiter = ring.limiter().expect("created with one");
    /// assert_eq!(limiter.counts().inserts, 2_000);
    /// limiter.reset_counts()?;
    /// assert_eq!((limiter.counts().inserts, limiter.counts().samples), (100, 0));
    /// limiter.set_enabled(true)?; // from now on 8 draws for each transition
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_counts(&self) -> Result<(), LimiterError> {
        let limits = self.limits()?;
        let inserts = (self.drawable.0)().min(limits.min_size_to_sample());
        self.put(limits, Some(LimitCounts { inserts, ..LimitCounts::default() }))
    }

    /// Returns the inserts at the last [`clear`](crate::Ring::clear) or
    /// [`drop_episode`](crate::Ring::drop_episode). Returns 0 if there was none since the ring was
    /// created or the counts were reset.
    #[must_use]
    pub fn inserts_at_last_drop(&self) -> u64 {
        self.store.limiter().map_or(0, |table| table.deletes().1)
    }

    /// Returns the counts that the limits compare. They are read one after another, so they may be
    /// of different moments.
    #[must_use]
    pub fn counts(&self) -> LimiterCounts {
        self.store.limiter().map_or_else(LimiterCounts::default, counts)
    }
}

/// Wakes all processes that wait for the limiter, so that they check the limits and the name anew.
pub(crate) fn wake_all(store: &RingStore) {
    if let Some(table) = store.limiter() {
        wake(&table.counter(LimitedSide::Inserts));
        wake(&table.counter(LimitedSide::Samples));
    }
}

/// Counts the inserted transitions that cannot be drawn any more, after rows were dropped, and
/// wakes both sides. `drawable` counts the transitions of the ring.
///
/// Draws that the ratio asked for the dropped transitions count as made, since they cannot be made
/// any more: a cleared ring then has the difference of a new one.
pub(crate) fn count_dropped(store: &RingStore, drawable: impl Fn() -> u64) {
    let Some(table) = store.limiter() else { return };
    let count = || table.load_inserts(Acquire) & COUNT;
    let (mut inserts, mut drawable_now) = (count(), drawable());
    // Transitions that writers count meanwhile are not among the dropped ones.
    for _ in 0..MAX_RECOUNTS {
        let again = count();
        if again == inserts {
            break;
        }
        (inserts, drawable_now) = (again, drawable());
    }
    let deletes = inserts.saturating_sub(drawable_now);
    let draws = current(table).map_or(0, |(limits, _)| limits.draws_of(deletes));
    table.count_deletes(deletes, inserts, draws);
    // Raises the count to a value instead of adding: several processes may drop rows at one moment.
    take(&table.counter(LimitedSide::Samples), u64::MAX, draws);
    wake_all(store);
}

/// Returns the transitions that the limiter of a ring has counted; `None` without a limiter. Rows
/// that are counted are seen by loads after this one.
pub(crate) fn inserts(store: &RingStore) -> Option<u64> {
    // ORDERING: pairs with the release in `count`.
    store.limiter().map(|table| table.load_inserts(Acquire) & COUNT)
}

pub(crate) fn counts(table: &LimiterTable) -> LimiterCounts {
    LimiterCounts {
        inserts: table.load_inserts(Relaxed) & COUNT,
        samples: table.counter(LimitedSide::Samples).load(Relaxed) & COUNT,
        deletes: table.deletes().0,
    }
}

/// Returns the limits in force and their generation, if the stored words are valid.
pub(crate) fn current(table: &LimiterTable) -> Option<(RateLimiter, u64)> {
    let (bytes, generation) = table.limits()?;
    Some((RateLimiter::of_bytes(bytes)?, generation))
}

/// Returns the maximum number of transitions that a ring can hold: the newest row of each lane has
/// no successor.
pub(crate) fn most_transitions(store: &RingStore) -> u64 {
    store.lanes().iter().map(|lane| lane.capacity().saturating_sub(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DType, LimitError, Ring, RingOptions, SampleError, SamplerOptions, Schema, StepColumns,
        WriterOptions,
    };

    #[test]
    fn counts_begin_anew_with_the_transitions_of_the_ring_but_at_most_min_size() {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let limits = RateLimiter::ratio(2.0, 12, 40.0).enabled(false);
        for (kept, inserts) in [(0, 0), (7, 7), (12, 12), (30, 12)] {
            let options = RingOptions::with_capacity(100).limiter(limits);
            let ring = Ring::heap(&schema, options).unwrap();
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            let mut append = |rows: u64| {
                for _ in 0..rows {
                    let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
                    writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
                }
            };
            append(31);
            ring.sampler(SamplerOptions::seeded(1)).unwrap().sample(8).unwrap();
            ring.clear().unwrap();
            append(kept + 1);
            let limiter = ring.limiter().unwrap();
            let LimiterCounts { inserts: before, samples, deletes } = limiter.counts();
            assert_eq!((ring.len(), before), (kept, 31 + kept));
            assert!(samples > 0 && deletes > 0 && limiter.inserts_at_last_drop() > 0);
            limiter.reset_counts().unwrap();
            assert_eq!(limiter.counts(), LimiterCounts { inserts, samples: 0, deletes: 0 });
            assert_eq!(limiter.inserts_at_last_drop(), 0);
            assert_eq!(limiter.limits().unwrap(), limits);
        }
    }

    #[test]
    fn a_draw_that_times_out_says_what_it_held_and_gives_it_back() {
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        // Twice the inserts less the items is at least 14.
        let limits = RateLimiter::band(2.0, 12, 14.0, f64::INFINITY);
        let ring = Ring::heap(&schema, RingOptions::with_capacity(100).limiter(limits)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for _ in 0..21 {
            let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
        sampler.set_timeout(Some(std::time::Duration::from_millis(1)));
        for (taken, wanted) in [(7, 30), (12, 30), (7, 8)] {
            sampler.sample(taken).unwrap();
            let limiter = ring.limiter().unwrap();
            let before = limiter.counts();
            let left = 40 - 14 - before.samples;
            let refused = sampler.sample(wanted).unwrap_err();
            let SampleError::Limited(LimitError::TimedOut(wait)) = refused else {
                panic!("{refused}")
            };
            assert_eq!((wait.wanted, wait.held), (wanted as u64, left));
            // Each insert allows two items more.
            assert_eq!(wait.needed, (14 + before.samples + wanted as u64).div_ceil(2));
            assert_eq!((wait.inserts, wait.samples), (20, 26), "held items count");
            assert_eq!(limiter.counts(), before, "it gives back what it held");
        }
    }
}
