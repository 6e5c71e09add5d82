//! Specification of a fact: statistic, band and source.

use serde::Serialize;

use super::pool::PooledSamples;
use super::recording::Recording;

/// Closed interval of values that pass. An infinite end sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Smallest value that passes.
    pub low: f64,
    /// Largest value that passes.
    pub high: f64,
}

impl Band {
    /// Returns the band from `low` to `high`.
    #[must_use]
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Returns the band of `low` and above.
    #[must_use]
    pub const fn at_least(low: f64) -> Self {
        Self::new(low, f64::INFINITY)
    }

    /// Returns the band of `high` and below.
    #[must_use]
    pub const fn at_most(high: f64) -> Self {
        Self::new(f64::NEG_INFINITY, high)
    }

    /// Returns whether `value` passes; NaN never does.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }
}

/// Source of a fact's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    /// One value per seed, from its recording.
    PerSeed(fn(&Recording) -> f64),
    /// One value over all seeds; `None` if it was not measured or had too few samples.
    Pooled(fn(&PooledSamples) -> Option<f64>),
}

/// One fact of the battery.
#[derive(Clone, Copy, Debug)]
pub(super) struct FactSpec {
    /// Number in the battery: `R1`.
    pub(super) id: &'static str,
    /// Unique key, also used in the JSON.
    pub(super) key: &'static str,
    /// Statistic, with its horizon.
    pub(super) statistic: &'static str,
    /// Values that pass.
    pub(super) band: Band,
    /// Horizon in ticks of a statistic whose noise widens the band. The band then reaches at least
    /// three standard errors, `3 / sqrt(ticks / horizon)`, to both sides of 0.
    pub(super) noise_horizon: Option<usize>,
    /// Minimum ticks of a run that judges the fact. Shorter runs only report it.
    pub(super) min_ticks: usize,
    /// Whether the fact is never judged.
    pub(super) report_only: bool,
    /// Publication or requirement that the band comes from.
    pub(super) source: &'static str,
    /// Source of its values.
    pub(super) measure: Measure,
}

impl FactSpec {
    /// Returns the band for runs of `ticks` ticks.
    #[must_use]
    pub(super) fn band_for(&self, ticks: usize) -> Band {
        let Some(horizon) = self.noise_horizon else { return self.band };
        let noise = 3.0 / ((ticks / horizon).max(1) as f64).sqrt();
        Band { low: self.band.low.min(-noise), high: self.band.high.max(noise) }
    }
}
