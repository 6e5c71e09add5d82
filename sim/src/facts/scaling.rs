//! Growth of variance and fluctuation with the horizon.

use super::sample::{excess_kurtosis, line, mean};

/// Returns differences of log prices over `horizon` places, without overlap. O(n / horizon).
#[must_use]
pub fn returns(log_prices: &[f64], horizon: usize) -> Vec<f64> {
    let mut every = log_prices.iter().step_by(horizon.max(1));
    let Some(mut before) = every.next() else { return Vec::new() };
    every
        .map(|price| {
            let change = price - before;
            before = price;
            change
        })
        .collect()
}

/// Returns the variance ratio `VR(q) = Var(q-period returns) / (q · Var(returns))`. O(n).
///
/// Uses overlapping sums with the bias corrections of Lo and `MacKinlay` 1988, eq. 12. The ratio is
/// 1 for a random walk, above 1 for a trend and below 1 for a reversal. Returns NaN for a `q` of 0,
/// a series that is not longer than `q`, and a constant series.
#[must_use]
pub fn variance_ratio(returns: &[f64], q: usize) -> f64 {
    let count = returns.len();
    if q == 0 || count <= q {
        return f64::NAN;
    }
    let drift = mean(returns);
    let one: f64 = returns.iter().map(|r| (r - drift).powi(2)).sum::<f64>() / (count as f64 - 1.0);
    let mut window: f64 = returns[..q].iter().sum();
    let mut total = (window - q as f64 * drift).powi(2);
    for at in q..count {
        window += returns[at] - returns[at - q];
        total += (window - q as f64 * drift).powi(2);
    }
    let (q, count) = (q as f64, count as f64);
    let weight = q * (count - q + 1.0) * (1.0 - q / count);
    total / weight / one
}

/// Returns the excess kurtosis of returns over `horizon` places, taken at steps of `step`. O(n /
/// step).
///
/// The returns overlap, since a short run has too few long returns without overlap.
#[must_use]
pub fn kurtosis_at(log_prices: &[f64], horizon: usize, step: usize) -> f64 {
    let changes: Vec<f64> = log_prices
        .iter()
        .zip(log_prices.get(horizon..).unwrap_or_default())
        .step_by(step.max(1))
        .map(|(before, after)| after - before)
        .collect();
    excess_kurtosis(&changes)
}

/// Maximum number of box sizes of a fluctuation analysis.
const DFA_SIZES: u32 = 12;
/// Smallest box: below it, the line through a box takes most of the fluctuation.
const DFA_SMALLEST: usize = 10;

/// Returns the exponent of detrended fluctuation analysis of order one. O(n).
///
/// Peng et al. 1994: the profile (running sum of deviations from the mean) is cut into boxes, and
/// each box is detrended by its least-squares line. The root mean square of the residuals grows as
/// `size^alpha`, with `alpha` 0.5 for noise without memory and `d + 1/2` for fractional noise.
///
/// Uses up to twelve box sizes from 10 to a tenth of the series, evenly spaced in logarithm.
/// Returns NaN for fewer than 200 values.
#[must_use]
pub fn dfa_exponent(series: &[f64]) -> f64 {
    let largest = series.len() / 10;
    if largest < 2 * DFA_SMALLEST {
        return f64::NAN;
    }
    let mean = mean(series);
    let profile: Vec<f64> = series
        .iter()
        .scan(0.0, |sum, x| {
            *sum += x - mean;
            Some(*sum)
        })
        .collect();
    let ratio = largest as f64 / DFA_SMALLEST as f64;
    let mut sizes: Vec<usize> = (0..DFA_SIZES)
        .map(|i| {
            let size = DFA_SMALLEST as f64 * ratio.powf(f64::from(i) / f64::from(DFA_SIZES - 1));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "<= n / 10"
            )]
            let size = size.round() as usize;
            size
        })
        .collect();
    sizes.dedup();
    let points: Vec<(f64, f64)> = sizes
        .into_iter()
        .map(|size| ((size as f64).ln(), fluctuation(&profile, size).ln()))
        .collect();
    line(&points).0
}

/// Returns the root mean square of the profile around the line of each box of `size`.
fn fluctuation(profile: &[f64], size: usize) -> f64 {
    let mut total = 0.0;
    let mut count = 0_usize;
    for part in profile.chunks_exact(size) {
        let points: Vec<(f64, f64)> =
            part.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        let (slope, intercept) = line(&points);
        total += points.iter().map(|(x, y)| (y - intercept - slope * x).powi(2)).sum::<f64>();
        count += size;
    }
    (total / count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn returns_of_a_horizon_add_up_to_the_whole_way() {
        let prices: Vec<f64> = (0..=100).map(|t| f64::from(t * t)).collect();
        assert_eq!(returns(&prices, 50), [2_500.0, 7_500.0]);
        assert_eq!(returns(&prices, 1).len(), 100);
        assert!(returns(&[], 5).is_empty());
    }

    #[test]
    fn variance_ratios_are_those_of_theory() {
        let mut random = SeriesRandom::new(7);
        let walk = variance_ratio(&random.normals(100_000), 10);
        assert!((walk - 1.0).abs() < 0.05, "{walk}");
        // VR(q) of AR(1) = 1 + 2 sum_(k<q) (1 - k/q) phi^k.
        for phi in [-0.3_f64, 0.35] {
            let q = 10;
            let sum: f64 = (1..q).map(|k| (1.0 - f64::from(k) / f64::from(q)) * phi.powi(k)).sum();
            let measured = variance_ratio(&random.ar1(phi, 200_000), 10);
            assert!((measured - (1.0 + 2.0 * sum)).abs() < 0.06, "{phi}: {measured}");
        }
        assert!(variance_ratio(&[0.1; 5], 10).is_nan());
    }

    /// Long series hide the corrections of the bias of short ones.
    #[test]
    fn variance_ratios_of_short_series_are_corrected_as_worked_out_by_hand() {
        for (returns, q, ratio) in [
            // The mean is 2 and the variance 24 / 2. Sums of two are off 4 by -4 and 2, and have
            // the weight 2 * 2 / 3: (20 / (4 / 3)) / 12.
            (&[0.0, 0.0, 6.0][..], 2, 1.25),
            // The mean is 1 and the variance 12 / 3. Sums of two: (12 / 3) / 4; of three:
            // (2 / 1.5) / 4.
            (&[0.0, 0.0, 4.0, 0.0], 2, 1.0),
            (&[0.0, 0.0, 4.0, 0.0], 3, 1.0 / 3.0),
            (&[3.0, -1.0, 4.0, -1.0, 5.0, -9.0], 1, 1.0),
        ] {
            let found = variance_ratio(returns, q);
            assert!((found - ratio).abs() < 1e-12, "{returns:?}, {q}: {found}");
        }
        for (returns, q) in [(&[1.0, 2.0, 3.0][..], 3), (&[1.0, 2.0], 0), (&[0.5; 4], 2)] {
            assert!(variance_ratio(returns, q).is_nan(), "{returns:?}, {q}");
        }
    }

    #[test]
    fn fluctuation_exponents_are_those_of_theory() {
        let mut random = SeriesRandom::new(8);
        let noise = dfa_exponent(&random.normals(50_000));
        assert!((noise - 0.5).abs() < 0.04, "{noise}");
        for d in [0.15, 0.3] {
            let exponent = dfa_exponent(&random.fractional(d, 30_000));
            assert!((exponent - d - 0.5).abs() < 0.05, "{d}: {exponent}");
        }
        assert!(dfa_exponent(&[1.0; 100]).is_nan());
    }

    #[test]
    fn sums_of_fat_tailed_returns_are_closer_to_normal() {
        let mut random = SeriesRandom::new(9);
        let prices: Vec<f64> = (0..200_000)
            .scan(0.0, |price, _| {
                *price += random.sign() * random.exponential();
                Some(*price)
            })
            .collect();
        // The excess kurtosis of a sum of ten independent returns is a tenth of theirs.
        let (one, ten) = (kurtosis_at(&prices, 1, 1), kurtosis_at(&prices, 10, 1));
        assert!((one - 3.0).abs() < 0.4 && (ten - 0.3).abs() < 0.15, "{one} {ten}");
    }
}
