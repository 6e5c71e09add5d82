//! Autocorrelation, its power-law decay, and cross-correlations at a lag.

use super::sample::{correlation, line, mean};

/// Returns the sample autocorrelation at lags `0..=max_lag`. O(n · `max_lag`).
///
/// `rho(k) = sum_t (x_t - m)(x_(t+k) - m) / sum_t (x_t - m)^2` is the biased estimator, whose size
/// is never above one (Brockwell and Davis 1991, §1.4). Lags that the series does not reach are
/// NaN, and so are all lags of a constant series.
#[must_use]
pub fn autocorrelation(series: &[f64], max_lag: usize) -> Vec<f64> {
    let mean = mean(series);
    let centred: Vec<f64> = series.iter().map(|x| x - mean).collect();
    let total: f64 = centred.iter().map(|x| x * x).sum();
    (0..=max_lag)
        .map(|lag| {
            if lag >= centred.len() {
                return f64::NAN;
            }
            let sum: f64 = centred.iter().zip(&centred[lag..]).map(|(x, y)| x * y).sum();
            sum / total
        })
        .collect()
}

/// Number of bins of lags over which an autocorrelation is averaged before its decay is fitted.
const DECAY_BINS: usize = 12;

/// Returns `gamma` of the fit `acf[lag] ~ lag^-gamma` on `first..=last`. O(last).
///
/// Averages the autocorrelation over twelve bins of equal width in log lag, then fits a line to the
/// logarithms. So the many noisy long lags weigh as much as the few short ones. Ignores bins that
/// are not positive. Returns NaN if fewer than half of the filled bins or fewer than three remain.
/// Returns NaN also if `first` is 0 or no lag follows it.
#[must_use]
pub fn decay_exponent(acf: &[f64], first: usize, last: usize) -> f64 {
    let last = last.min(acf.len().saturating_sub(1));
    if first == 0 || first >= last {
        return f64::NAN;
    }
    let (low, high) = ((first as f64).ln(), (last as f64 + 1.0).ln());
    let mut bins = [(0.0, 0.0, 0_u32); DECAY_BINS];
    for (lag, &value) in acf.iter().enumerate().take(last + 1).skip(first) {
        let place = ((lag as f64).ln() - low) / (high - low) * DECAY_BINS as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0..DECAY_BINS"
        )]
        let bin = &mut bins[(place as usize).min(DECAY_BINS - 1)];
        bin.0 += (lag as f64).ln();
        bin.1 += value;
        bin.2 += 1;
    }
    let used = bins.iter().filter(|bin| bin.2 > 0).count();
    let points: Vec<(f64, f64)> = bins
        .iter()
        .map(|&(log_lag, value, count)| (log_lag / f64::from(count), value / f64::from(count)))
        .filter(|(_, value)| *value > 0.0)
        .map(|(log_lag, value)| (log_lag, value.ln()))
        .collect();
    if points.len() * 2 < used || points.len() < 3 {
        return f64::NAN;
    }
    -line(&points).0
}

/// Returns the mean over lags `1..=max_lag` of `corr(r_t, r_(t+k)^2)`. O(n · `max_lag`).
///
/// The mean is negative if falling prices raise volatility (Bouchaud, Matacz and Potters 2001).
///
/// # Panics
///
/// If there are fewer than `max_lag` returns.
#[must_use]
pub fn leverage(returns: &[f64], max_lag: usize) -> f64 {
    let squares: Vec<f64> = returns.iter().map(|r| r * r).collect();
    let at = |lag: usize| correlation(&returns[..returns.len() - lag], &squares[lag..]);
    mean(&(1..=max_lag).map(at).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn autocorrelation_of_an_autoregression_is_a_geometric_series() {
        for phi in [-0.5_f64, 0.0, 0.3, 0.9] {
            let acf = autocorrelation(&SeriesRandom::new(2).ar1(phi, 200_000), 5);
            for (lag, value) in (0..).zip(&acf) {
                assert!((value - phi.powi(lag)).abs() < 0.02, "phi {phi} lag {lag}: {value}");
            }
        }
    }

    #[test]
    fn absolute_returns_of_garch_are_correlated_and_its_returns_are_not() {
        let returns = SeriesRandom::new(3).garch(0.1, 0.88, 200_000);
        let sizes: Vec<f64> = returns.iter().map(|r| r.abs()).collect();
        assert!(autocorrelation(&returns, 1)[1].abs() < 0.02);
        let acf = autocorrelation(&sizes, 20);
        assert!(acf[1] > 0.15 && acf[20] > 0.05, "{acf:?}");
    }

    #[test]
    fn a_power_law_is_fitted_whatever_its_level() {
        for gamma in [0.2, 0.5, 0.9] {
            let acf: Vec<f64> = (0..=500).map(|k| 0.3 * f64::from(k).powf(-gamma)).collect();
            let fitted = decay_exponent(&acf, 10, 500);
            assert!((fitted - gamma).abs() < 0.01, "{gamma}: {fitted}");
        }
    }

    #[test]
    fn fractional_noise_decays_as_its_theory_says() {
        // lag^(2d - 1) with d = 0.3.
        let series = SeriesRandom::new(4).fractional(0.3, 40_000);
        let fitted = decay_exponent(&autocorrelation(&series, 100), 5, 100);
        assert!((fitted - 0.4).abs() < 0.12, "{fitted}");
    }

    #[test]
    fn noise_has_no_decay_to_fit() {
        let series = SeriesRandom::new(5).normals(20_000);
        let fitted = decay_exponent(&autocorrelation(&series, 100), 5, 100);
        assert!(fitted.is_nan() || fitted > 1.0, "{fitted}");
        assert!(decay_exponent(&[1.0, 0.5], 5, 100).is_nan());
    }

    #[test]
    fn leverage_is_negative_where_falls_raise_volatility() {
        let mut random = SeriesRandom::new(6);
        let (mut variance, mut returns) = (1.0_f64, Vec::new());
        for _ in 0..50_000 {
            let shock = random.normal() * variance.sqrt();
            returns.push(shock);
            variance = 0.1 + 0.85 * variance + 0.1 * (shock - 0.5).powi(2) * f64::from(shock < 0.0);
        }
        assert!(leverage(&returns, 10) < -0.01, "{}", leverage(&returns, 10));
        let none = leverage(&random.normals(50_000), 10);
        assert!(none.abs() < 0.01, "{none}");
    }
}
