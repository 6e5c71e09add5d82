//! Limits between inserted transitions and drawn items, as pure functions of the counts.

use std::fmt;

use backcast_layout::LimitBytes;
use backcast_layout::protocol::limit::COUNT;

use super::absent::{NoLearner, NoWriter};

/// Bit of the stored switches that is set while the limiter is on.
const ENABLED: u64 = 1;
/// First bit of the policy without samplers in the stored switches.
const NO_LEARNER_SHIFT: u32 = 8;
/// First bit of the policy without writers in the stored switches.
const NO_WRITER_SHIFT: u32 = 16;
/// Bits of each policy.
const POLICY: u64 = 0xff;

/// Counts that a limiter compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterCounts {
    /// Transitions inserted since the ring was created.
    /// [`Limiter::reset_counts`](crate::Limiter::reset_counts) starts all three counts anew.
    pub inserts: u64,
    /// Items drawn since then. Items that the ratio demands for dropped transitions count as drawn.
    pub samples: u64,
    /// Transitions of `inserts` that could not be drawn any more after the last
    /// [`clear`](crate::Ring::clear) or [`drop_episode`](crate::Ring::drop_episode); 0 before the
    /// first one.
    pub deletes: u64,
}

/// Limits between the transitions that writers insert and the items that samplers draw.
///
/// Single transitions and items are allowed as by Reverb's rate limiter (Cassirer et al., "Reverb:
/// a framework for experience replay", 2021). With `diff = inserts * samples_per_insert - samples`:
///
/// - an item may be drawn if `inserts - deletes >= min_size` and `diff - 1 >= min_diff`;
/// - a transition may be inserted if `inserts + 1 - deletes <= min_size`, or
///   `diff + samples_per_insert <= max_diff`.
///
/// So that one side can always continue, an append is admitted whole when one more transition is
/// allowed, and a batch takes its items as they are allowed (`docs/protocol.md`).
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RateLimiter {
    pub(super) samples_per_insert: f64,
    pub(super) min_size: u64,
    #[cfg_attr(
        feature = "serde",
        serde(
            serialize_with = "ends::finite",
            deserialize_with = "ends::min",
            default = "ends::no_min"
        )
    )]
    pub(super) min_diff: f64,
    #[cfg_attr(
        feature = "serde",
        serde(
            serialize_with = "ends::finite",
            deserialize_with = "ends::max",
            default = "ends::no_max"
        )
    )]
    pub(super) max_diff: f64,
    pub(super) no_learner: NoLearner,
    pub(super) no_writer: NoWriter,
    pub(super) enabled: bool,
}

/// Ends of the band in files: an infinite one is left out, since JSON and TOML have no infinity.
#[cfg(feature = "serde")]
mod ends {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn finite<S: Serializer>(end: &f64, to: S) -> Result<S::Ok, S::Error> {
        Some(*end).filter(|end| end.is_finite()).serialize(to)
    }

    pub(super) fn min<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(no_min()))
    }

    pub(super) fn max<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(no_max()))
    }

    pub(super) const fn no_min() -> f64 {
        f64::NEG_INFINITY
    }

    pub(super) const fn no_max() -> f64 {
        f64::INFINITY
    }
}

impl RateLimiter {
    /// Size from which draws are allowed if none is given.
    pub const DEFAULT_MIN_SIZE: u64 = 1;

    /// Returns limits under which only draws wait, until the ring has `min_size` transitions
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
    /// items. With it, batches of 256 items and appends of some lanes rarely wait.
    #[must_use]
    pub fn default_error_buffer(samples_per_insert: f64) -> f64 {
        (64.0 * samples_per_insert).max(1_024.0)
    }

    /// Returns limits with an error band given by its two ends: `min_diff <= inserts *
    /// samples_per_insert - samples <= max_diff`.
    #[must_use]
    pub fn band(samples_per_insert: f64, min_size: u64, min_diff: f64, max_diff: f64) -> Self {
        Self {
            samples_per_insert,
            min_size,
            min_diff,
            max_diff,
            no_learner: NoLearner::default(),
            no_writer: NoWriter::default(),
            enabled: true,
        }
    }

    /// Returns limits under which as many items are drawn as transitions are inserted, or up to
    /// `size` fewer (Reverb's `Queue`). They limit counts; the sampler chooses the transitions. A
    /// ring refuses a size above the transitions that it can hold.
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

    /// Sets the behaviour of a draw while no writer is alive.
    #[must_use]
    pub fn no_writer(mut self, choice: NoWriter) -> Self {
        self.no_writer = choice;
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

    /// Returns the transitions that the ring must have before items are drawn.
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

    /// Returns the behaviour of a draw while no writer is alive.
    #[must_use]
    pub fn no_writer_choice(&self) -> NoWriter {
        self.no_writer
    }

    /// Returns whether the limiter is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns whether `n` items may be drawn without a wait. Always `true` for 0 items.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    pub fn can_sample(&self, counts: LimiterCounts, n: u64) -> bool {
        let LimiterCounts { inserts, samples, deletes } = counts;
        if !self.enabled || n == 0 {
            return true;
        }
        if inserts.saturating_sub(deletes) < self.min_size {
            return false;
        }
        let after = samples.saturating_add(n);
        let diff = inserts as f64 * self.samples_per_insert - after as f64;
        // A band that `check` accepts allows an item wherever it refuses an insert. Products of
        // large counts are rounded, so a refused insert allows the item too.
        let last = LimiterCounts { samples: after - 1, ..counts };
        diff >= self.min_diff || !self.can_insert(last, 1)
    }

    /// Returns whether an append of `n` transitions is admitted: whether one more is allowed.
    /// Always `true` for 0 transitions.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    pub fn can_insert(&self, counts: LimiterCounts, n: u64) -> bool {
        let LimiterCounts { inserts, samples, deletes } = counts;
        let after = inserts.saturating_add(1);
        if !self.enabled || n == 0 || after.saturating_sub(deletes) <= self.min_size {
            return true;
        }
        after as f64 * self.samples_per_insert - samples as f64 <= self.max_diff
    }

    /// Returns the largest count of inserts that may be reached one by one while `samples` items
    /// are drawn.
    #[must_use]
    pub fn most_inserts(&self, samples: u64, deletes: u64) -> u64 {
        let allows = |after: u64| {
            let inserts = after.saturating_sub(1);
            self.can_insert(LimiterCounts { inserts, samples, deletes }, after.min(1))
        };
        last_where(self.inserts_at(self.max_diff, samples), allows)
    }

    /// Returns the largest count of samples that may be reached while `inserts` transitions are
    /// inserted. Returns 0 if their size is below `min_size`.
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

    /// Returns the draws that the ratio asks for `n` transitions. A band without an upper end asks
    /// for none.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    pub(crate) fn draws_of(&self, n: u64) -> u64 {
        if self.max_diff.is_finite() { whole(n as f64 * self.samples_per_insert) } else { 0 }
    }

    /// Returns the approximate number of inserts at which the difference is `diff` after `samples`
    /// samples.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^48")]
    fn inserts_at(&self, diff: f64, samples: u64) -> f64 {
        (diff + samples as f64) / self.samples_per_insert
    }

    /// Returns the words that are stored.
    #[must_use]
    pub(crate) fn to_bytes(self) -> LimitBytes {
        LimitBytes {
            samples_per_insert: self.samples_per_insert.to_bits(),
            min_size: self.min_size,
            min_diff: self.min_diff.to_bits(),
            max_diff: self.max_diff.to_bits(),
            switches: u64::from(self.enabled)
                | ((self.no_learner as u64) << NO_LEARNER_SHIFT)
                | ((self.no_writer as u64) << NO_WRITER_SHIFT),
        }
    }

    /// Returns the limits of stored words, if they are valid.
    pub(crate) fn of_bytes(bytes: LimitBytes) -> Option<Self> {
        let [samples_per_insert, min_diff, max_diff] =
            [bytes.samples_per_insert, bytes.min_diff, bytes.max_diff].map(f64::from_bits);
        let policy = |shift: u32| usize::try_from((bytes.switches >> shift) & POLICY).ok();
        let no_learner = *NoLearner::ALL.get(policy(NO_LEARNER_SHIFT)?)?;
        let no_writer = *NoWriter::ALL.get(policy(NO_WRITER_SHIFT)?)?;
        let known = ENABLED | POLICY << NO_LEARNER_SHIFT | POLICY << NO_WRITER_SHIFT;
        let limits = Self {
            samples_per_insert,
            min_size: bytes.min_size,
            min_diff,
            max_diff,
            no_learner,
            no_writer,
            enabled: bytes.switches & ENABLED != 0,
        };
        (bytes.switches & !known == 0 && limits.check(COUNT).is_ok()).then_some(limits)
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
mod tests;
