//! Measures two kinds of work in alternating slices, so that other load affects both.

use std::time::{Duration, Instant};

use crate::cli::exit_status::CommandError;
use crate::cli::signals::Signals;

/// Slices of each kind.
const SLICES: usize = 10;

/// Length of a slice, and the signals that end the run.
pub(super) struct Pace<'a> {
    pub(super) slice: Duration,
    pub(super) signals: &'a Signals,
}

/// Rates of two kinds of work, in units of work per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateComparison {
    pub(super) work: f64,
    pub(super) against: f64,
}

impl Pace<'_> {
    /// Alternates slices of both kinds of work, and returns the median rate of each. A call of a
    /// closure returns the units of work that it did. Fails on a signal.
    pub(super) fn compare(
        &self,
        mut work: impl FnMut() -> Result<u64, CommandError>,
        mut against: impl FnMut() -> u64,
    ) -> Result<RateComparison, CommandError> {
        // The first calls warm up caches and touch memory.
        work()?;
        against();
        let (mut works, mut againsts) = (Vec::new(), Vec::new());
        for _ in 0..SLICES {
            works.push(rate(self.slice, &mut work)?);
            againsts.push(rate(self.slice, &mut || Ok(against()))?);
            if self.signals.status().is_some() {
                return Err(self.signals.interrupted());
            }
        }
        Ok(RateComparison { work: median(works), against: median(againsts) })
    }
}

/// Returns units per second over one slice.
fn rate(
    slice: Duration,
    work: &mut impl FnMut() -> Result<u64, CommandError>,
) -> Result<f64, CommandError> {
    let (mut units, begin) = (0, Instant::now());
    loop {
        units += work()?;
        let took = begin.elapsed();
        if took >= slice {
            return Ok(per_second(units, took));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate has no 53 bits worth telling")]
pub(super) fn per_second(units: u64, took: Duration) -> f64 {
    units as f64 / took.as_secs_f64().max(1e-9)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 1000.0]).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median(Vec::new()).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn work_goes_on_until_its_slice_is_over() {
        let signals = Signals::listen().unwrap();
        let pace = Pace { slice: Duration::from_micros(50), signals: &signals };
        let (mut works, mut againsts) = (0, 0);
        let compared = pace
            .compare(
                || {
                    works += 1;
                    Ok(3)
                },
                || {
                    againsts += 1;
                    1
                },
            )
            .unwrap();
        assert!(works > SLICES && againsts > SLICES);
        assert!(compared.work > 0.0 && compared.against > 0.0);
    }
}
