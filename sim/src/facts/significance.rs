//! Probabilities of chance results.

use super::sample::{mean, std_error};

/// Returns the one-sided p-value of the sample's mean if the true mean is zero, by a normal
/// approximation. Returns 1 if the mean is not above zero.
#[must_use]
pub fn one_sided_p(sample: &[f64]) -> f64 {
    let mean = mean(sample);
    if mean.is_nan() || mean <= 0.0 {
        return 1.0;
    }
    upper_tail(mean / std_error(sample))
}

/// Returns the smallest p-value of a family after the correction of Holm 1979, which equals that of
/// Bonferroni for the smallest one. Returns `None` for an empty family.
#[must_use]
pub fn family_p(probabilities: &[f64]) -> Option<f64> {
    let least = probabilities.iter().copied().reduce(f64::min)?;
    Some((least * probabilities.len() as f64).min(1.0))
}

/// Returns the probability that a standard normal number exceeds `z`, with an absolute error below
/// 7.5e-8.
///
/// Abramowitz and Stegun 1964, 26.2.17.
#[must_use]
pub fn upper_tail(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    if z.is_nan() {
        return f64::NAN;
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * series;
    if z < 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_the_table() {
        for (z, tail) in [(0.0, 0.5), (1.0, 0.158_655_25), (2.326_348, 0.01), (3.0, 0.001_349_9)] {
            assert!((upper_tail(z) - tail).abs() < 2e-7, "{z}: {}", upper_tail(z));
            assert!((upper_tail(-z) - (1.0 - tail)).abs() < 2e-7, "-{z}");
        }
    }

    #[test]
    fn a_gain_is_significant_and_a_loss_is_not() {
        let gains = [1.0, 2.0, 3.0, 2.0, 1.5, 2.5];
        assert!(one_sided_p(&gains) < 1e-6, "{}", one_sided_p(&gains));
        assert!((one_sided_p(&gains.map(|x| -x)) - 1.0).abs() < f64::EPSILON);
        assert!((one_sided_p(&[0.0; 5]) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_family_pays_for_its_size() {
        assert_eq!(family_p(&[]), None);
        assert_eq!(family_p(&[0.5, 0.001, 0.7, 0.9]), Some(0.004));
        assert_eq!(family_p(&[0.5, 0.6, 0.7]), Some(1.0));
    }
}
