//! The rule that judges a fact.

use serde::Serialize;

use super::sample::median;
use super::spec::{Band, FactSpec};

/// Outcome of one fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The median and enough seeds lie in the band.
    Pass,
    /// The median or too many seeds lie outside the band.
    Miss,
    /// The fact was measured and not judged.
    ReportOnly,
}

/// Values of one fact over all seeds, and their verdict.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FactResult {
    /// Number in the battery, such as `R1`.
    pub id: &'static str,
    /// Unique key.
    pub key: &'static str,
    /// Statistic, with its horizon.
    pub statistic: &'static str,
    /// Publication or requirement that the band comes from.
    pub source: &'static str,
    /// Band for the length of these runs.
    pub band: Band,
    /// One value per seed, or one for all. NaN (`null`) if there was nothing to measure.
    pub values: Vec<f64>,
    /// Median of the values.
    pub median: f64,
    /// Fraction of the values inside the band.
    pub share_inside: f64,
    /// Verdict on the values.
    pub verdict: Verdict,
}

impl FactResult {
    /// Judges `values` of runs of `ticks` ticks. At least `share` of them and their median must lie
    /// in the band.
    pub(super) fn judge(spec: &FactSpec, values: Vec<f64>, ticks: usize, share: f64) -> Self {
        let band = spec.band_for(ticks);
        let inside = values.iter().filter(|value| band.contains(**value)).count();
        let share_inside = inside as f64 / values.len().max(1) as f64;
        let median = median(&values);
        let verdict = if spec.report_only || ticks < spec.min_ticks {
            Verdict::ReportOnly
        } else if band.contains(median) && share_inside >= share {
            Verdict::Pass
        } else {
            Verdict::Miss
        };
        let FactSpec { id, key, statistic, source, .. } = *spec;
        Self { id, key, statistic, source, band, values, median, share_inside, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::Measure;
    use super::*;

    const SPEC: FactSpec = FactSpec {
        id: "R0",
        key: "test",
        statistic: "none",
        band: Band::new(1.0, 2.0),
        noise_horizon: None,
        min_ticks: 0,
        report_only: false,
        source: "none",
        measure: Measure::Pooled(|_| None),
    };

    fn verdict(values: &[f64]) -> Verdict {
        FactResult::judge(&SPEC, values.to_vec(), 100, 0.8).verdict
    }

    #[test]
    fn the_median_and_four_of_five_seeds_must_lie_in_the_band() {
        assert_eq!(verdict(&[1.0, 1.5, 2.0, 1.2, 9.0]), Verdict::Pass);
        assert_eq!(verdict(&[1.0, 1.5, 2.0, 0.0, 9.0]), Verdict::Miss);
        assert_eq!(verdict(&[0.0, 0.0, 0.0, 1.5, 1.5]), Verdict::Miss);
        assert_eq!(verdict(&[]), Verdict::Miss);
    }

    #[test]
    fn a_value_that_cannot_be_measured_is_outside() {
        assert_eq!(verdict(&[1.5, f64::NAN, f64::NAN]), Verdict::Miss);
        assert_eq!(verdict(&[f64::NAN]), Verdict::Miss);
    }

    #[test]
    fn a_run_too_short_to_tell_is_reported_alone() {
        let spec = FactSpec { min_ticks: 101, ..SPEC };
        assert_eq!(FactResult::judge(&spec, vec![9.0], 100, 0.8).verdict, Verdict::ReportOnly);
        assert_eq!(FactResult::judge(&spec, vec![9.0], 101, 0.8).verdict, Verdict::Miss);
    }

    #[test]
    fn sampling_error_widens_a_band_that_asks_for_it() {
        let spec = FactSpec { noise_horizon: Some(10), band: Band::new(-0.1, 0.1), ..SPEC };
        // 3 / sqrt(100) = 0.3; 3 / sqrt(10,000) = 0.03 is below the band's own end.
        assert_eq!(spec.band_for(1_000), Band::new(-0.3, 0.3));
        assert_eq!(spec.band_for(100_000), Band::new(-0.1, 0.1));
    }
}
