//! Checks of limits before they are put into force.

use super::limits::RateLimiter;
use crate::error::LimiterError;

impl RateLimiter {
    /// Refuses limits that are invalid or can never be satisfied. `most` is the number of
    /// transitions that the ring can hold.
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

    /// Refuses limits like [`check`](Self::check), and a [`queue`](Self::queue) of more places than
    /// `most`. Limits of a snapshot pass only `check`, so that snapshots of earlier versions load.
    pub(crate) fn check_new(&self, most: u64) -> Result<(), LimiterError> {
        self.check(most)?;
        #[expect(clippy::cast_precision_loss, reason = "not above 2^48")]
        if self.is_queue() && self.max_diff > most as f64 {
            return Err(LimiterError::QueueBeyondCapacity { size: self.max_diff, most });
        }
        Ok(())
    }

    /// Returns the minimum width of the error band: `least`, or one less if the differences are
    /// whole numbers. A queue of one item then is the narrowest limiter that makes progress.
    fn least_band(&self, least: f64) -> f64 {
        let is_whole = self.samples_per_insert.fract() == 0.0 && self.min_diff.fract() == 0.0;
        // With whole numbers, a difference that stops one side leaves room for the other side.
        if is_whole { least - 1.0 } else { least }
    }

    /// Returns whether these are the limits of a [`queue`](Self::queue).
    fn is_queue(&self) -> bool {
        let one = Self::queue(1);
        let ratio = self.samples_per_insert.to_bits() == one.samples_per_insert.to_bits();
        let begins = self.min_diff.to_bits() == one.min_diff.to_bits();
        ratio && begins && self.min_size == one.min_size && self.max_diff.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bad_ratio(error: &LimiterError) -> bool {
        matches!(error, LimiterError::BadRatio { .. })
    }

    #[test]
    fn limits_that_can_never_be_satisfied_are_refused_with_their_numbers() {
        use LimiterError::{
            BadBand, BandAboveMinSize, MinSizeBeyondCapacity, NarrowBand, NoMinSize,
            QueueBeyondCapacity,
        };
        type IsRight = fn(&LimiterError) -> bool;
        let refused: [(RateLimiter, &[&str], IsRight); 14] = [
            (RateLimiter::ratio(0.0, 10, 5.0), &["samples_per_insert", "0"], is_bad_ratio),
            (RateLimiter::ratio(-2.0, 10, 5.0), &["samples_per_insert", "-2"], is_bad_ratio),
            (RateLimiter::ratio(f64::NAN, 10, 5.0), &["samples_per_insert", "NaN"], is_bad_ratio),
            (RateLimiter::ratio(f64::INFINITY, 10, 5.0), &["inf"], is_bad_ratio),
            (RateLimiter::ratio(1.0, 0, 5.0), &["min_size", "0"], |e| matches!(e, NoMinSize)),
            (RateLimiter::min_size(0), &["min_size", "0"], |e| matches!(e, NoMinSize)),
            (RateLimiter::ratio(1.0, 101, 5.0), &["min_size", "101", "100"], |error| {
                matches!(error, MinSizeBeyondCapacity { min_size: 101, most: 100 })
            }),
            (RateLimiter::ratio(8.0, 10, 3.0), &["6", "error_buffer"], |error| {
                matches!(error, NarrowBand { min_diff: 77.0, max_diff: 83.0, .. })
            }),
            (RateLimiter::ratio(8.0, 10, -3.0), &["83", "77"], |error| {
                matches!(error, BadBand { min_diff: 83.0, max_diff: 77.0 })
            }),
            (
                RateLimiter::band(1.0, 10, f64::NAN, 5.0),
                &["NaN", "5"],
                |error| matches!(error, BadBand { min_diff, max_diff: 5.0 } if min_diff.is_nan()),
            ),
            (RateLimiter::band(1.0, 10, 5.0, 4.0), &["5", "4"], |error| {
                matches!(error, BadBand { min_diff: 5.0, max_diff: 4.0 })
            }),
            (RateLimiter::band(1.0, 10, 11.0, 20.0), &["11", "10"], |error| {
                matches!(error, BandAboveMinSize { min_diff: 11.0, min_size: 10, .. })
            }),
            (RateLimiter::queue(0), &["0", "error_buffer"], |e| matches!(e, NarrowBand { .. })),
            (RateLimiter::queue(101), &["101", "100"], |error| {
                matches!(error, QueueBeyondCapacity { size: 101.0, most: 100 })
            }),
        ];
        for (limiter, values, is_right) in refused {
            let error = limiter.check_new(100).unwrap_err();
            assert!(is_right(&error), "{error:?}");
            let text = error.to_string();
            assert!(values.iter().all(|value| text.contains(value)), "{text} lacks {values:?}");
        }
        for limiter in [
            RateLimiter::queue(1),
            RateLimiter::queue(100),
            RateLimiter::band(1.0, 2, 0.0, 200.0),
            RateLimiter::min_size(100),
            RateLimiter::ratio(8.0, 100, 8.0),
            RateLimiter::ratio(0.1, 1, 1.0),
        ] {
            limiter.check_new(100).unwrap();
        }
        assert!(RateLimiter::queue(101).check(100).is_ok(), "a snapshot may have it");
    }

    /// An insert and a draw need a band of the ratio and one more, or of the ratio if every
    /// difference is a whole number.
    #[test]
    fn limits_are_refused_from_the_edge_of_what_can_be_satisfied_on() {
        const NONE: f64 = f64::INFINITY;
        let band = RateLimiter::band;
        for (limits, is_accepted) in [
            (band(2.0, 10, 19.0, 21.0), true),
            (band(2.0, 10, 19.0, 20.75), false),
            (band(2.0, 10, 19.5, 22.5), true),
            (band(2.0, 10, 19.5, 22.25), false),
            (band(0.5, 10, 0.0, 1.5), true),
            (band(0.5, 10, 0.0, 1.25), false),
            // The lead that the first transitions make allows a draw.
            (band(2.0, 10, 20.0, 99.0), true),
            (band(2.0, 10, 20.25, 99.0), false),
            (band(0.5, 4, 2.0, 9.0), true),
            (band(0.5, 4, 2.25, 9.0), false),
            (band(2.0, 100, -NONE, 3.0), true),
            (band(2.0, 101, -NONE, 3.0), false),
            // Only a queue is limited by the transitions that the ring can hold.
            (band(1.0, 1, 0.0, 100.0), true),
            (band(1.0, 1, 0.0, 100.5), false),
            (band(1.0, 1, 0.0, NONE), true),
            (band(1.0, 1, -1.0, 101.0), true),
            (band(1.0, 2, 0.0, 101.0), true),
            (band(2.0, 1, 0.0, 101.0), true),
        ] {
            let checked = limits.check_new(100);
            assert_eq!(checked.is_ok(), is_accepted, "{limits}: {checked:?}");
        }
    }
}
