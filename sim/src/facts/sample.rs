//! Moments and order statistics of one sample.

/// Returns the arithmetic mean; NaN for an empty sample. O(n).
#[must_use]
pub fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// Returns the population standard deviation; NaN for an empty sample. O(n).
#[must_use]
pub fn std_dev(sample: &[f64]) -> f64 {
    central_moment(sample, mean(sample), 2).sqrt()
}

/// Returns the standard error of the mean; NaN for fewer than two values. O(n).
#[must_use]
pub fn std_error(sample: &[f64]) -> f64 {
    std_dev(sample) / (sample.len() as f64 - 1.0).sqrt()
}

/// Returns the excess kurtosis `m4 / m2^2 - 3` of population moments: zero for a normal sample.
/// O(n).
///
/// Returns NaN if all values are equal.
#[must_use]
pub fn excess_kurtosis(sample: &[f64]) -> f64 {
    let mean = mean(sample);
    central_moment(sample, mean, 4) / central_moment(sample, mean, 2).powi(2) - 3.0
}

/// Returns the Pearson correlation of two samples; NaN if one is constant. O(n).
///
/// # Panics
///
/// If the samples differ in length.
#[must_use]
pub fn correlation(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len(), "a correlation needs pairs");
    let (mean_left, mean_right) = (mean(left), mean(right));
    let covariance: f64 =
        left.iter().zip(right).map(|(x, y)| (x - mean_left) * (y - mean_right)).sum();
    covariance / left.len() as f64 / (std_dev(left) * std_dev(right))
}

/// Returns the quantile at `share` in `0..=1`, linear between neighbours; NaN for an empty sample.
///
/// Ignores NaN values. O(n log n), one copy.
#[must_use]
pub fn quantile(sample: &[f64], share: f64) -> f64 {
    let mut sorted: Vec<f64> = sample.iter().copied().filter(|x| !x.is_nan()).collect();
    if sorted.is_empty() {
        return f64::NAN;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= place < len")]
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let weight = place - below as f64;
    // Avoids zero times infinity, which is NaN.
    if weight == 0.0 {
        sorted[below]
    } else {
        sorted[below] * (1.0 - weight) + sorted[above] * weight
    }
}

/// Returns the median; see [`quantile`].
#[must_use]
pub fn median(sample: &[f64]) -> f64 {
    quantile(sample, 0.5)
}

/// Returns slope and intercept of the least-squares line through points; NaN if all have the same
/// x. O(n).
#[must_use]
pub fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / count;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in points {
        xy += (x - mean_x) * (y - mean_y);
        xx += (x - mean_x).powi(2);
    }
    let slope = xy / xx;
    (slope, mean_y - slope * mean_x)
}

fn central_moment(sample: &[f64], mean: f64, power: i32) -> f64 {
    sample.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / sample.len() as f64
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn moments_of_small_samples_are_those_on_paper() {
        let sample = [1.0, 2.0, 3.0, 4.0];
        assert!((mean(&sample) - 2.5).abs() < 1e-12);
        assert!((std_dev(&sample) - 1.25_f64.sqrt()).abs() < 1e-12);
        // m4 = (1.5^4 + 0.5^4) / 2 = 2.5625, m2 = 1.25.
        assert!((excess_kurtosis(&sample) - (2.5625 / 1.5625 - 3.0)).abs() < 1e-12);
        assert!((correlation(&sample, &[2.0, 4.0, 6.0, 8.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&sample, &[1.0, -1.0, -1.0, 1.0])).abs() < 1e-12);
        let (slope, intercept) = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert!((slope - 2.0).abs() < 1e-12 && (intercept - 1.0).abs() < 1e-12);
    }

    #[test]
    fn quantiles_lie_between_neighbours_and_skip_nan() {
        let sample = [4.0, f64::NAN, 1.0, 3.0, 2.0];
        for (share, value) in [(0.0, 1.0), (1.0, 4.0), (0.5, 2.5), (1.0 / 3.0, 2.0), (0.25, 1.75)] {
            assert!((quantile(&sample, share) - value).abs() < 1e-12, "{share}");
        }
        assert!(median(&[]).is_nan());
        assert!(median(&[f64::INFINITY, f64::INFINITY, 1.0]).is_infinite());
    }

    #[test]
    fn kurtosis_tells_normal_from_laplace() {
        let mut random = SeriesRandom::new(1);
        let normal: Vec<f64> = (0..200_000).map(|_| random.normal()).collect();
        assert!(excess_kurtosis(&normal).abs() < 0.06, "{}", excess_kurtosis(&normal));
        let laplace: Vec<f64> =
            (0..200_000).map(|_| random.sign() * random.exponential()).collect();
        assert!((excess_kurtosis(&laplace) - 3.0).abs() < 0.5, "{}", excess_kurtosis(&laplace));
    }
}
