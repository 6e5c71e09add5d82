//! Tail exponents.

/// Returns the Hill estimate of the tail exponent from the largest `share` of `|sample|`. O(n log
/// n).
///
/// Hill 1975: with `x_(1) >= x_(2) >= ...` and `k = share · n`, `alpha = k / sum_(i<=k) ln(x_(i) /
/// x_(k+1))`. Returns NaN if the tail has fewer than ten values or is the whole sample, or if
/// `x_(k+1)` is zero.
#[must_use]
pub fn hill(sample: &[f64], share: f64) -> f64 {
    let mut sizes: Vec<f64> = sample.iter().map(|x| x.abs()).collect();
    sizes.sort_unstable_by(|x, y| y.total_cmp(x));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "share of a length"
    )]
    let count = (share * sizes.len() as f64) as usize;
    if count < 10 || count >= sizes.len() || sizes[count] <= 0.0 {
        return f64::NAN;
    }
    let threshold = sizes[count];
    count as f64 / sizes[..count].iter().map(|x| (x / threshold).ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn pareto_tails_give_their_exponent() {
        let mut random = SeriesRandom::new(10);
        for alpha in [1.5, 3.0, 5.0] {
            let sample: Vec<f64> =
                (0..100_000).map(|_| random.sign() * random.pareto(alpha)).collect();
            let estimate = hill(&sample, 0.05);
            assert!((estimate / alpha - 1.0).abs() < 0.05, "{alpha}: {estimate}");
        }
    }

    #[test]
    fn normal_tails_are_thinner_than_the_band() {
        let estimate = hill(&SeriesRandom::new(11).normals(100_000), 0.05);
        assert!(estimate > 5.0, "{estimate}");
    }

    #[test]
    fn a_tail_of_few_values_or_of_zeros_has_no_exponent() {
        assert!(hill(&[1.0; 100], 0.05).is_nan());
        assert!(hill(&[0.0; 1_000], 0.05).is_nan());
    }
}
