//! Limits that a process relies on, compared with those of the ring.

use super::Limiter;
use super::absent::{NoLearner, NoWriter};
use super::limits::RateLimiter;
use crate::error::LimiterError;

/// Limits that a process relies on. Fields without a value are not compared.
///
/// ```
/// use backcast_core::{DType, RateLimiter, RequiredLimits, Ring, RingOptions, Schema};
///
/// let schema = Schema::builder().column("obs", DType::F32, &[]).build()?;
/// let limiter = RateLimiter::ratio(4.0, 50, 100.0);
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(1_000).limiter(limiter))?;
/// let limiter = ring.limiter().expect("created with one");
/// let wanted = RequiredLimits { samples_per_insert: Some(4.0), ..RequiredLimits::default() };
/// limiter.require(&wanted)?;
/// let other = RequiredLimits { min_size: Some(10), ..wanted };
/// assert!(limiter.require(&other).is_err(), "it is 50");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequiredLimits {
    /// Items to be drawn for each transition.
    pub samples_per_insert: Option<f64>,
    /// Transitions that the ring must have before items are drawn.
    pub min_size: Option<u64>,
    /// Half the width of the error band.
    pub error_buffer: Option<f64>,
    /// Both ends of the error band.
    pub error_band: Option<(f64, f64)>,
    /// Behaviour of a held-back writer while no sampler lives.
    pub no_learner: Option<NoLearner>,
    /// Behaviour of a held-back draw while no writer lives.
    pub no_writer: Option<NoWriter>,
    /// Whether the limiter is on.
    pub enabled: Option<bool>,
}

impl Limiter {
    /// Refuses limits of the ring that differ from those that a process relies on. Changes nothing.
    pub fn require(&self, wanted: &RequiredLimits) -> Result<(), LimiterError> {
        wanted.compare(&self.limits()?)
    }
}

impl RequiredLimits {
    fn compare(&self, found: &RateLimiter) -> Result<(), LimiterError> {
        let (least, most) = found.error_band();
        if let Some(wanted) = self.samples_per_insert
            && least.is_infinite()
            && most.is_infinite()
        {
            return Err(LimiterError::NoRatio { wanted, found: found.to_string() });
        }
        let half = (most - least) / 2.0;
        same("samples_per_insert", self.samples_per_insert, &found.samples_per_insert())?;
        same("min_size", self.min_size, &found.min_size_to_sample())?;
        // The ends of the band are rounded.
        let is_near = |wanted: f64| (wanted - half).abs() <= 1e-9 * most.abs().max(least.abs());
        if let Some(wanted) = self.error_buffer
            && !(half.is_finite() && is_near(wanted))
        {
            return Err(other("error_buffer", wanted.to_string(), half.to_string()));
        }
        if let Some((low, high)) = self.error_band
            && (low, high) != (least, most)
        {
            let words = |low, high| format!("({low}, {high})");
            return Err(other("error_buffer", words(low, high), words(least, most)));
        }
        same("no_learner", self.no_learner, &found.no_learner_choice())?;
        same("no_writer", self.no_writer, &found.no_writer_choice())?;
        same("enabled", self.enabled, &found.is_enabled())
    }
}

fn same<T: PartialEq + ToString>(
    what: &'static str,
    wanted: Option<T>,
    found: &T,
) -> Result<(), LimiterError> {
    match wanted {
        Some(wanted) if wanted != *found => Err(other(what, wanted.to_string(), found.to_string())),
        _ => Ok(()),
    }
}

fn other(what: &'static str, wanted: String, found: String) -> LimiterError {
    LimiterError::OtherLimit { what, wanted, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> RequiredLimits {
        RequiredLimits::default()
    }

    #[test]
    fn every_part_that_is_given_is_compared() {
        let found = RateLimiter::ratio(8.0, 1_000, 800.0);
        let like = RequiredLimits {
            samples_per_insert: Some(8.0),
            min_size: Some(1_000),
            error_buffer: Some(800.0),
            error_band: Some((7_200.0, 8_800.0)),
            no_learner: Some(NoLearner::Wait),
            no_writer: Some(NoWriter::Wait),
            enabled: Some(true),
        };
        assert!(like.compare(&found).is_ok());
        assert!(wanted().compare(&found).is_ok());
        for (what, other) in [
            ("samples_per_insert", RequiredLimits { samples_per_insert: Some(4.0), ..wanted() }),
            ("min_size", RequiredLimits { min_size: Some(999), ..wanted() }),
            ("error_buffer", RequiredLimits { error_buffer: Some(801.0), ..wanted() }),
            ("error_buffer", RequiredLimits { error_band: Some((0.0, 8_800.0)), ..wanted() }),
            ("no_learner", RequiredLimits { no_learner: Some(NoLearner::Pass), ..wanted() }),
            ("no_writer", RequiredLimits { no_writer: Some(NoWriter::Error), ..wanted() }),
            ("enabled", RequiredLimits { enabled: Some(false), ..wanted() }),
        ] {
            let refused = other.compare(&found).unwrap_err();
            let LimiterError::OtherLimit { what: refused, .. } = refused else {
                panic!("{what}: {refused}")
            };
            assert_eq!(refused, what);
        }
    }

    #[test]
    fn a_limiter_of_a_minimum_size_has_no_ratio() {
        let found = RateLimiter::min_size(10);
        let ratio = RequiredLimits { samples_per_insert: Some(1.0), ..wanted() };
        assert!(matches!(ratio.compare(&found), Err(LimiterError::NoRatio { .. })));
        let size = RequiredLimits { min_size: Some(10), ..wanted() };
        assert!(size.compare(&found).is_ok());
    }

    #[test]
    fn an_error_buffer_is_compared_up_to_the_rounding_of_the_ends() {
        for (ratio, min_size) in [(0.1, 3), (0.3, 1_000_000), (7.3, 123_457), (1.0, 1)] {
            for buffer in [0.7, 3.3, 1_000.1] {
                let found = RateLimiter::ratio(ratio, min_size, buffer);
                let with = |buffer| RequiredLimits { error_buffer: Some(buffer), ..wanted() };
                assert!(with(buffer).compare(&found).is_ok(), "{found}, {buffer}");
                let (least, most) = found.error_band();
                let apart = 1e-6 * most.abs().max(least.abs());
                for other in [buffer - apart, buffer + apart] {
                    assert!(with(other).compare(&found).is_err(), "{found}, {other}");
                }
            }
        }
    }

    #[test]
    fn a_band_with_one_end_has_a_ratio_and_no_error_buffer() {
        for found in [
            RateLimiter::band(2.0, 5, -3.0, f64::INFINITY),
            RateLimiter::band(2.0, 5, f64::NEG_INFINITY, 9.0),
        ] {
            let ratio = |ratio| RequiredLimits { samples_per_insert: Some(ratio), ..wanted() };
            assert!(ratio(2.0).compare(&found).is_ok(), "{found}");
            let refused = ratio(3.0).compare(&found).unwrap_err();
            assert!(matches!(refused, LimiterError::OtherLimit { .. }), "{refused}");
            for buffer in [6.0, f64::INFINITY] {
                let buffer = RequiredLimits { error_buffer: Some(buffer), ..wanted() };
                assert!(buffer.compare(&found).is_err(), "{found}");
            }
            let band = RequiredLimits { error_band: Some(found.error_band()), ..wanted() };
            assert!(band.compare(&found).is_ok(), "{found}");
        }
    }
}
