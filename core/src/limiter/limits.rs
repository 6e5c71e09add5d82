//! Limits between inserted transitions and drawn items, as pure functions of the counts.

use std::fmt;
use std::str::FromStr;

use backcast_layout::LimitBytes;
use backcast_layout::protocol::limit::COUNT;
use thiserror::Error;

use crate::error::LimiterError;

/// Bit of the stored switches that is set while the limiter is on.
const ENABLED: u64 = 1;
/// First bit of the policy without samplers in the stored switches.
const NO_LEARNER_SHIFT: u32 = 8;

/// Behaviour of a writer that the limiter stops while no sampler is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NoLearner {
    /// The writer waits, and reports the wait after 10 s.
    #[default]
    Wait,
    /// The writer appends as if the limiter allowed it.
    Pass,
    /// The append fails.
    Error,
}

impl NoLearner {
    const ALL: [NoLearner; 3] = [NoLearner::Wait, NoLearner::Pass, NoLearner::Error];

    /// Returns `"wait"`, `"pass"` or `"error"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            NoLearner::Wait => "wait",
            NoLearner::Pass => "pass",
            NoLearner::Error => "error",
        }
    }
}

impl fmt::Display for NoLearner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that does not name a [`NoLearner`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no_learner is `{0}`; use \"wait\", \"pass\" or \"error\"")]
pub struct BadNoLearner(pub String);

impl FromStr for NoLearner {
    type Err = BadNoLearner;

    fn from_str(text: &str) -> Result<Self, BadNoLearner> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.as_str() == text).ok_or_else(|| BadNoLearner(text.to_owned()))
    }
}

/// Counts that a limiter compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterCounts {
    /// Transitions inserted since the ring was created.
    pub inserts: u64,
    /// Items drawn since then.
    pub samples: u64,
    /// Transitions deleted since then. Overwritten ones are not counted, since each is replaced by
    /// a new one.
    pub deletes: u64,
}

/// Limits between the transitions that writers insert and the items that samplers draw.
///
/// The semantics are those of Reverb's rate limiter (Cassirer et al., "Reverb: a framework for
/// experience replay", 2021). With `diff = inserts * samples_per_insert - samples`:
///
/// - `n` items may be drawn if `inserts - deletes >= min_size` and `diff - n >= min_diff`;
/// - `n` transitions may be inserted if `inserts + n - deletes <= min_size`, or
///   `diff + n * samples_per_insert <= max_diff`.
///
/// ```
/// use backcast_core::{LimiterCounts, RateLimiter};
///
/// // Every transition is drawn 8 times on average, give or take 800 items.
/// let limiter = RateLimiter::ratio(8.0, 1_000, 800.0);
/// let counts = |inserts, samples| LimiterCounts { inserts, samples, deletes: 0 };
/// assert!(!limiter.can_sample(counts(999, 0), 1), "too few transitions");
/// assert!(limiter.can_sample(counts(1_000, 0), 256));
/// assert!(!limiter.can_insert(counts(1_100, 0), 1), "100 ahead of the samplers");
/// assert!(limiter.can_insert(counts(1_100, 8), 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimiter {
    pub(super) samples_per_insert: f64,
    pub(super) min_size: u64,
    pub(super) min_diff: f64,
    pub(super) max_diff: f64,
    pub(super) no_learner: NoLearner,
    pub(super) enabled: bool,
}

impl RateLimiter {
    /// Returns limits under which only draws wait, until `min_size` transitions were inserted
    /// (Reverb's `MinSize`).
    #[must_use]
    pub fn min_size(min_size: u64) -> Self {
        Self::band(1.0, min_size, f64::NEG_INFINITY, f64::INFINITY)
    }

    /// Returns limits under which `samples_per_insert` items are drawn for each transition after
    /// the first `min_size`, with a deviation of at most `error_buffer` items (Reverb's
    /// `SampleToInsertRatio`). Both sides wait.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "checked to be below 2^48")]
    pub fn ratio(samples_per_insert: f64, min_size: u64, error_buffer: f64) -> Self {
        let middle = samples_per_insert * min_size as f64;
        Self::band(samples_per_insert, min_size, middle - error_buffer, middle + error_buffer)
    }

    /// Returns the default error buffer: room for 1,024 items or for 64 inserts, whichever is more
    /// items. Batches of 256 and inserts of some lanes rarely wait with it.
    #[must_use]
    pub fn default_error_buffer(samples_per_insert: f64) -> f64 {
        (64.0 * samples_per_insert).max(1_024.0)
    }

    /// Returns limits with an error band given by its two ends: `min_diff <= inserts *
    /// samples_per_insert - samples <= max_diff`.
    #[must_use]
    pub fn band(samples_per_insert: f64, min_size: u64, min_diff: f64, max_diff: f64) -> Self {
        let no_learner = NoLearner::default();
        Self { samples_per_insert, min_size, min_diff, max_diff, no_learner, enabled: true }
    }

    /// Returns limits under which as many items are drawn as transitions are inserted, or up to
    /// `size` fewer (Reverb's `Queue`). They limit counts; the sampler chooses the transitions.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "checked to be below 2^48")]
    pub fn queue(size: u64) -> Self {
        Self::band(1.0, 1, 0.0, size as f64)
    }

    /// Sets the behaviour of a writer while no sampler is alive.
    #[must_use]
    pub fn no_learner(mut self, choice: NoLearner) -> Self {
        self.no_learner = choice;
        self
    }

    /// Sets whether the limiter is on. While it is off, both sides are counted and neither waits.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Returns the items to be drawn for each transition.
    #[must_use]
    pub fn samples_per_insert(&self) -> f64 {
        self.samples_per_insert
    }

    /// Returns the transitions before the first draw.
    #[must_use]
    pub fn min_size_to_sample(&self) -> u64 {
        self.min_size
    }

    /// Returns both ends of the error band.
    #[must_use]
    pub fn error_band(&self) -> (f64, f64) {
        (self.min_diff, self.max_diff)
    }

    /// Returns the behaviour of a writer while no sampler is alive.
    #[must_use]
    pub fn no_learner_choice(&self) -> NoLearner {
        self.no_learner
    }

    /// Returns whether the limiter is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns whether `n` items may be drawn. Always `true` for 0 items.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    pub fn can_sample(&self, counts: LimiterCounts, n: u64) -> bool {
        let LimiterCounts { inserts, samples, deletes } = counts;
        if !self.enabled || n == 0 {
            return true;
        }
        let after = samples.saturating_add(n) as f64;
        let diff = inserts as f64 * self.samples_per_insert - after;
        inserts.saturating_sub(deletes) >= self.min_size && diff >= self.min_diff
    }

    /// Returns whether `n` transitions may be inserted. Always `true` for 0 transitions.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    pub fn can_insert(&self, counts: LimiterCounts, n: u64) -> bool {
        let LimiterCounts { inserts, samples, deletes } = counts;
        let after = inserts.saturating_add(n);
        if !self.enabled || n == 0 || after.saturating_sub(deletes) <= self.min_size {
            return true;
        }
        after as f64 * self.samples_per_insert - samples as f64 <= self.max_diff
    }

    /// Returns the largest count of inserts that may be reached while `samples` items are drawn.
    #[must_use]
    pub fn most_inserts(&self, samples: u64, deletes: u64) -> u64 {
        let allows = |after: u64| {
            let inserts = after.saturating_sub(1);
            self.can_insert(LimiterCounts { inserts, samples, deletes }, after.min(1))
        };
        last_where(self.inserts_at(self.max_diff, samples), allows)
    }

    /// Returns the largest count of samples that may be reached while `inserts` transitions are
    /// inserted. 0 below `min_size`.
    #[must_use]
    pub fn most_samples(&self, inserts: u64, deletes: u64) -> u64 {
        let allows = |after: u64| {
            let samples = after.saturating_sub(1);
            self.can_sample(LimiterCounts { inserts, samples, deletes }, after.min(1))
        };
        #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
        let near = inserts as f64 * self.samples_per_insert - self.min_diff;
        last_where(near, allows)
    }

    /// Returns the smallest count of samples with which inserts may reach `after`.
    #[must_use]
    pub fn samples_needed(&self, after: u64, deletes: u64) -> u64 {
        let inserts = after.saturating_sub(1);
        let refuses = |samples| !self.can_insert(LimiterCounts { inserts, samples, deletes }, 1);
        if !refuses(0) {
            return 0;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
        let near = after as f64 * self.samples_per_insert - self.max_diff;
        last_where(near, refuses).saturating_add(1)
    }

    /// Returns the smallest count of inserts with which samples may reach `after`.
    #[must_use]
    pub fn inserts_needed(&self, after: u64, deletes: u64) -> u64 {
        let samples = after.saturating_sub(1);
        let refuses = |inserts| !self.can_sample(LimiterCounts { inserts, samples, deletes }, 1);
        if !refuses(0) {
            return 0;
        }
        last_where(self.inserts_at(self.min_diff, after), refuses).saturating_add(1)
    }

    /// Returns the approximate number of inserts at which the difference is `diff` after `samples`
    /// samples.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    fn inserts_at(&self, diff: f64, samples: u64) -> f64 {
        (diff + samples as f64) / self.samples_per_insert
    }

    /// Refuses limits that can never be satisfied. `most` is the number of transitions that the
    /// ring can hold.
    pub fn check(&self, most: u64) -> Result<(), LimiterError> {
        let Self { samples_per_insert, min_size, min_diff, max_diff, .. } = *self;
        if !(samples_per_insert.is_finite() && samples_per_insert > 0.0) {
            return Err(LimiterError::BadRatio { samples_per_insert });
        }
        if min_size == 0 {
            return Err(LimiterError::NoMinSize);
        }
        if min_size > most {
            return Err(LimiterError::MinSizeBeyondCapacity { min_size, most });
        }
        if min_diff.is_nan() || max_diff.is_nan() || min_diff > max_diff {
            return Err(LimiterError::BadBand { min_diff, max_diff });
        }
        // An insert and a draw must both fit, or each side may wait for the other.
        let least = samples_per_insert + 1.0;
        if max_diff - min_diff < self.least_band(least) {
            let least = self.least_band(least);
            return Err(LimiterError::NarrowBand { min_diff, max_diff, least, samples_per_insert });
        }
        #[expect(clippy::cast_precision_loss, reason = "not above the capacity")]
        let first = samples_per_insert * min_size as f64;
        if min_diff > first {
            return Err(LimiterError::BandAboveMinSize { min_diff, first, min_size });
        }
        Ok(())
    }

    /// Returns the minimum width of the error band: a queue of one item is the narrowest limiter
    /// that makes progress.
    fn least_band(&self, least: f64) -> f64 {
        let is_whole = self.samples_per_insert.fract() == 0.0 && self.min_diff.fract() == 0.0;
        // With whole numbers, a difference that stops one side leaves room for the other side.
        if is_whole { least - 1.0 } else { least }
    }

    /// Returns the most items that one draw may ask for, however long it waits.
    #[must_use]
    pub fn largest_draw(&self) -> u64 {
        let room = self.max_diff - self.min_diff;
        if self.enabled { whole(room) } else { COUNT }
    }

    /// Returns the most transitions that one append may insert beyond `min_size`, however long it
    /// waits.
    #[must_use]
    pub fn largest_insert(&self) -> u64 {
        let room = (self.max_diff - self.min_diff) / self.samples_per_insert;
        if self.enabled { whole(room) } else { COUNT }
    }

    /// Returns the words that are stored.
    #[must_use]
    pub(crate) fn to_bytes(self) -> LimitBytes {
        LimitBytes {
            samples_per_insert: self.samples_per_insert.to_bits(),
            min_size: self.min_size,
            min_diff: self.min_diff.to_bits(),
            max_diff: self.max_diff.to_bits(),
            switches: u64::from(self.enabled) | ((self.no_learner as u64) << NO_LEARNER_SHIFT),
        }
    }

    /// Returns the limits of stored words, if they are valid.
    pub(crate) fn of_bytes(bytes: LimitBytes) -> Option<Self> {
        let [samples_per_insert, min_diff, max_diff] =
            [bytes.samples_per_insert, bytes.min_diff, bytes.max_diff].map(f64::from_bits);
        let no_learner = *NoLearner::ALL.get(usize::try_from(bytes.switches >> 8).ok()?)?;
        let limits = Self {
            samples_per_insert,
            min_size: bytes.min_size,
            min_diff,
            max_diff,
            no_learner,
            enabled: bytes.switches & ENABLED != 0,
        };
        (bytes.switches & 0xfe == 0 && limits.check(COUNT).is_ok()).then_some(limits)
    }
}

impl fmt::Display for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples_per_insert, min_size, min_diff, max_diff, .. } = *self;
        write!(f, "min_size {min_size}")?;
        if max_diff < f64::INFINITY || min_diff > f64::NEG_INFINITY {
            write!(
                f,
                ", samples_per_insert {samples_per_insert}, error band {min_diff} to {max_diff}"
            )?;
        }
        if self.enabled { Ok(()) } else { f.write_str(", off") }
    }
}

/// Returns the whole part of a number, within the counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "saturates, and is cut to 48 bits"
)]
fn whole(number: f64) -> u64 {
    (number.clamp(0.0, COUNT as f64) as u64).min(COUNT)
}

/// Returns the largest count for which `holds` is true, or 0 if there is none. `holds` must be true
/// up to some count and false above it. `near` is an approximation of that count, which a few steps
/// correct.
fn last_where(near: f64, holds: impl Fn(u64) -> bool) -> u64 {
    const STEPS: u64 = 4;
    let near = whole(near);
    let (low, high) = (near.saturating_sub(STEPS), (near + STEPS).min(COUNT));
    let (mut yes, mut no) = if holds(low) && (high == COUNT || !holds(high)) {
        (low, high + 1)
    } else if holds(COUNT) {
        return COUNT;
    } else {
        (0, COUNT)
    };
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) { yes = middle } else { no = middle }
    }
    yes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formulas of Reverb's `RateLimiter::CanSample` and `CanInsert`, in whole numbers scaled so
    /// that nothing is rounded.
    fn reference(limits: &RateLimiter, counts: LimiterCounts, n: u64) -> (bool, bool) {
        const SCALE: f64 = 4.0;
        #[expect(clippy::cast_possible_truncation, reason = "quarters of small numbers")]
        let scaled = |number: f64| (number * SCALE) as i128;
        let LimiterCounts { inserts, samples, deletes } = counts;
        let [inserts, samples, deletes, n] = [inserts, samples, deletes, n].map(i128::from);
        let ratio = scaled(limits.samples_per_insert);
        let size = i128::from(limits.min_size);
        let beyond = |diff: i128, end: f64| {
            if end.is_infinite() { end > 0.0 } else { diff <= scaled(end) }
        };
        let below = |diff: i128, end: f64| {
            if end.is_infinite() { end < 0.0 } else { diff >= scaled(end) }
        };
        let diff = inserts * ratio - 4 * samples;
        let sample = inserts - deletes >= size && below(diff - 4 * n, limits.min_diff);
        let insert = inserts + n - deletes <= size || beyond(diff + n * ratio, limits.max_diff);
        (sample, insert)
    }

    fn grid() -> impl Iterator<Item = (RateLimiter, LimiterCounts)> {
        let ratios = [0.25_f64, 0.5, 1.0, 1.5, 4.0, 8.0];
        let limiters = ratios.into_iter().flat_map(|ratio| {
            [1_u64, 2, 10, 100].into_iter().flat_map(move |size| {
                let errors = [ratio.max(1.0), 2.0 * ratio + 3.0, 50.25];
                errors.into_iter().map(move |error| RateLimiter::ratio(ratio, size, error))
            })
        });
        let others = [1, 3, 40].into_iter().flat_map(|size| {
            [
                RateLimiter::queue(size),
                RateLimiter::min_size(size),
                RateLimiter::band(2.0, size, -3.5, 9.0),
            ]
        });
        limiters.chain(others).flat_map(|limiter| {
            [0, 1, 2, 5, 9, 10, 11, 50, 99, 100, 101, 130].into_iter().flat_map(move |inserts| {
                [0, 1, 2, 7, 10, 40, 95, 100, 399, 400, 401, 900].into_iter().flat_map(
                    move |samples| {
                        [0, 1, 7].into_iter().filter(move |deletes| *deletes <= inserts).map(
                            move |deletes| (limiter, LimiterCounts { inserts, samples, deletes }),
                        )
                    },
                )
            })
        })
    }

    #[test]
    fn what_is_allowed_is_what_the_reference_formulas_allow() {
        let (mut cases, mut allowed) = (0, [0; 2]);
        for (limiter, counts) in grid() {
            for n in [1, 2, 8, 32, 256] {
                let found = (limiter.can_sample(counts, n), limiter.can_insert(counts, n));
                let expected = reference(&limiter, counts, n);
                assert_eq!(found, expected, "{limiter} {counts:?} {n}");
                cases += 1;
                allowed[0] += u32::from(found.0);
                allowed[1] += u32::from(found.1);
            }
        }
        assert!(cases > 100_000, "{cases}");
        assert!(allowed.iter().all(|n| cases / 20 < *n && *n < cases * 19 / 20), "{allowed:?}");
    }

    #[test]
    fn bounds_are_where_the_decisions_change() {
        for (limiter, counts) in grid() {
            let LimiterCounts { inserts, samples, deletes } = counts;
            let (most_in, most_out) =
                (limiter.most_inserts(samples, deletes), limiter.most_samples(inserts, deletes));
            for n in [1, 2, 8, 256] {
                let may = limiter.can_insert(counts, n);
                assert_eq!(may, inserts + n <= most_in, "{limiter} {counts:?} {n} {most_in}");
                let may = limiter.can_sample(counts, n);
                assert_eq!(may, samples + n <= most_out, "{limiter} {counts:?} {n} {most_out}");
                let least = limiter.samples_needed(inserts + n, deletes);
                assert_eq!(limiter.can_insert(counts, n), samples >= least, "{limiter} {counts:?}");
                let least = limiter.inserts_needed(samples + n, deletes);
                assert_eq!(limiter.can_sample(counts, n), inserts >= least, "{limiter} {counts:?}");
            }
        }
    }

    #[test]
    fn bounds_of_large_counts_are_exact() {
        for exponent in 20..46 {
            for (ratio, error) in [(1.0 / 3.0, 7.7), (7.3, 100.0), (256.0, 1e6)] {
                let limiter = RateLimiter::ratio(ratio, 1_000, error);
                for samples in [1 << exponent, (1 << exponent) + 12_345] {
                    let most = limiter.most_inserts(samples, 0);
                    let counts = |inserts| LimiterCounts { inserts, samples, deletes: 0 };
                    assert!(limiter.can_insert(counts(most - 1), 1), "{ratio} {samples}");
                    assert!(!limiter.can_insert(counts(most), 1), "{ratio} {samples}");
                }
            }
        }
    }

    #[test]
    fn a_switched_off_limiter_allows_everything() {
        let limiter = RateLimiter::queue(1).enabled(false);
        let counts = LimiterCounts { inserts: 0, samples: 9, deletes: 0 };
        assert!(limiter.can_sample(counts, 100) && limiter.can_insert(counts, 100));
        assert_eq!((limiter.most_inserts(0, 0), limiter.most_samples(0, 0)), (COUNT, COUNT));
        assert_eq!(limiter.to_string(), "min_size 1, samples_per_insert 1, error band 0 to 1, off");
    }

    /// The two sides never block each other: in every state that they can reach, one of them may
    /// continue.
    #[test]
    fn limits_that_are_accepted_never_hold_back_both_sides() {
        let limiters = [0.25, 0.3, 1.0, 1.7, 3.0, 8.0].into_iter().flat_map(|ratio| {
            [1, 2, 5].into_iter().flat_map(move |size| {
                [0.5, 1.0, 1.5, 2.0, 4.0, 9.0, 9.5]
                    .into_iter()
                    .map(move |error| RateLimiter::ratio(ratio, size, error))
                    .chain([RateLimiter::queue(size)])
            })
        });
        let mut accepted = 0;
        for limiter in limiters.filter(|limiter| limiter.check(100).is_ok()) {
            accepted += 1;
            let mut dice = 1_u64;
            let mut counts = LimiterCounts::default();
            for _ in 0..2_000 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let may = (limiter.can_insert(counts, 1), limiter.can_sample(counts, 1));
                assert_ne!(may, (false, false), "{limiter} {counts:?}");
                if may.0 && (!may.1 || dice >> 63 == 0) {
                    counts.inserts += 1;
                } else {
                    counts.samples += 1;
                }
            }
        }
        assert!(accepted > 30, "{accepted}");
    }

    #[test]
    fn limits_that_can_never_be_satisfied_are_refused_with_numbers_and_a_remedy() {
        let refused = [
            (RateLimiter::ratio(0.0, 10, 5.0), "samples_per_insert is 0"),
            (RateLimiter::ratio(-2.0, 10, 5.0), "samples_per_insert is -2"),
            (RateLimiter::ratio(f64::NAN, 10, 5.0), "samples_per_insert is NaN"),
            (RateLimiter::ratio(f64::INFINITY, 10, 5.0), "samples_per_insert is inf"),
            (RateLimiter::ratio(1.0, 0, 5.0), "min_size is 0"),
            (RateLimiter::min_size(0), "min_size is 0"),
            (RateLimiter::ratio(1.0, 101, 5.0), "min_size is 101"),
            (RateLimiter::ratio(8.0, 10, 3.0), "6 wide"),
            (RateLimiter::ratio(8.0, 10, -3.0), "83"),
            (RateLimiter::band(1.0, 10, f64::NAN, 5.0), "NaN"),
            (RateLimiter::band(1.0, 10, 5.0, 4.0), "5 to 4"),
            (RateLimiter::band(1.0, 10, 11.0, 20.0), "11"),
            (RateLimiter::queue(0), "0 wide"),
        ];
        for (limiter, number) in refused {
            let error = limiter.check(100).unwrap_err().to_string();
            assert!(error.contains(number), "{error}");
            assert!(error.contains("; give") || error.contains("; raise"), "{error}");
        }
        for limiter in [
            RateLimiter::queue(1),
            RateLimiter::min_size(100),
            RateLimiter::ratio(8.0, 100, 8.0),
            RateLimiter::ratio(0.1, 1, 1.0),
        ] {
            limiter.check(100).unwrap();
        }
    }

    #[test]
    fn stored_limits_are_bounded_when_they_are_read() {
        let limiter = RateLimiter::ratio(8.0, 1_000, 800.0).no_learner(NoLearner::Error);
        let bytes = limiter.to_bytes();
        assert_eq!(RateLimiter::of_bytes(bytes), Some(limiter));
        let off = limiter.enabled(false);
        assert_eq!(RateLimiter::of_bytes(off.to_bytes()), Some(off));
        for damaged in [
            LimitBytes::default(),
            LimitBytes { samples_per_insert: f64::NAN.to_bits(), ..bytes },
            LimitBytes { samples_per_insert: 0, ..bytes },
            LimitBytes { min_size: 0, ..bytes },
            LimitBytes { min_size: u64::MAX, ..bytes },
            LimitBytes { min_diff: f64::NAN.to_bits(), ..bytes },
            LimitBytes { max_diff: f64::NEG_INFINITY.to_bits(), ..bytes },
            LimitBytes { switches: 0x301, ..bytes },
            LimitBytes { switches: 3, ..bytes },
            LimitBytes { switches: u64::MAX, ..bytes },
        ] {
            assert_eq!(RateLimiter::of_bytes(damaged), None, "{damaged:?}");
        }
    }
}
