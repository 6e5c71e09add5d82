//! Curves to plot: distribution of returns, autocorrelations, impact, shape of the book.

use serde::Serialize;

use super::autocorrelation::autocorrelation;
use super::catalogue::{MINUTE, TEN_SECONDS, sign_acf};
use super::impact::SizeImpact;
use super::recording::Recording;
use super::sample::{mean, std_dev};
use super::scaling::variance_ratio;

/// Edge of the histogram of returns, in standard deviations.
const HISTOGRAM_EDGE: f64 = 8.0;
/// Bins of the histogram: a quarter of a standard deviation each.
const HISTOGRAM_BINS: usize = 64;
/// Lags at which the autocorrelation of order signs is kept: dense at first, then sparse.
const SIGN_LAGS: [usize; 22] =
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 80, 100, 160, 250, 400, 500];

/// Intervals of the signature plot in ticks.
const SIGNATURE_LAGS: [usize; 9] = [1, 2, 5, 10, 20, 40, 60, 120, 300];

/// A point of a curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinePoint {
    /// Lag, horizon in ticks, or return in standard deviations.
    pub x: f64,
    /// Autocorrelation, variance ratio, explained share, or density.
    pub y: f64,
}

/// Impact of one parent size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ImpactPoint {
    /// Size of the parent order as a fraction of the mean volume over its duration.
    pub participation: f64,
    /// Mean impact at the end of the order, in units of the volatility over its duration.
    pub impact_sigma: f64,
    /// Standard error of the mean.
    pub std_error_sigma: f64,
    /// Mean impact three durations after the end, in the same units; NaN (`null`) if not measured.
    pub later_sigma: f64,
    /// Number of pairs of runs that the means are taken over.
    pub pairs: usize,
}

impl From<SizeImpact> for ImpactPoint {
    fn from(size: SizeImpact) -> Self {
        Self {
            participation: size.participation,
            impact_sigma: size.impact,
            std_error_sigma: size.std_error,
            later_sigma: size.later,
            pairs: size.pairs,
        }
    }
}

/// Depth behind the best price.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DepthPoint {
    /// Price ticks behind the best price.
    pub distance_ticks: usize,
    /// Mean shares in orders at this distance, both sides together.
    pub shares: f64,
}

/// All curves, of one seed or averaged over the seeds.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Curves {
    /// Density of 60 s returns in standard deviations. The outermost bins hold all returns beyond
    /// them.
    pub return_density: Vec<LinePoint>,
    /// Autocorrelation of 60 s returns.
    pub return_acf: Vec<LinePoint>,
    /// Autocorrelation of absolute 60 s returns.
    pub abs_return_acf: Vec<LinePoint>,
    /// Autocorrelation of absolute 10 s returns.
    pub abs_return_acf_10s: Vec<LinePoint>,
    /// Autocorrelation of order signs.
    pub sign_acf: Vec<LinePoint>,
    /// Signature plot: variance ratio of log returns of the mid-price over 1 to 300 ticks, relative
    /// to one tick.
    pub signature: Vec<LinePoint>,
    /// Share of the variance of price changes that a fitted forecast explains on fresh seeds, by
    /// horizon in ticks; empty if it was not measured.
    pub explained: Vec<LinePoint>,
    /// Impact by size; empty if it was not measured.
    pub impact: Vec<ImpactPoint>,
    /// Mean depth of the book by distance.
    pub depth: Vec<DepthPoint>,
}

impl Curves {
    /// Computes the curves of one seed, without impact and forecasts.
    pub(super) fn of(recording: &Recording) -> Self {
        let minutes = recording.returns(MINUTE);
        let acf = |series: &[f64], lags: usize| {
            let values = autocorrelation(series, lags);
            (1..=lags).map(|lag| LinePoint { x: lag as f64, y: values[lag] }).collect()
        };
        let signs = sign_acf(recording, 500);
        let depth = recording.depth.iter().enumerate();
        Self {
            return_density: density(&minutes),
            return_acf: acf(&minutes, 30),
            abs_return_acf: acf(&recording.sizes(MINUTE), 60),
            abs_return_acf_10s: acf(&recording.sizes(TEN_SECONDS), 100),
            sign_acf: SIGN_LAGS.map(|lag| LinePoint { x: lag as f64, y: signs[lag] }).to_vec(),
            signature: signature(recording),
            explained: Vec::new(),
            impact: Vec::new(),
            depth: depth
                .map(|(distance_ticks, shares)| DepthPoint { distance_ticks, shares: *shares })
                .collect(),
        }
    }

    /// Averages the curves of several seeds point by point.
    pub(super) fn average(seeds: &[Self]) -> Self {
        let Some(first) = seeds.first() else { return Self::default() };
        let mut all = first.clone();
        let line = |of: fn(&Self) -> &Vec<LinePoint>| -> Vec<LinePoint> {
            let place = |at: usize| mean(&seeds.iter().map(|s| of(s)[at].y).collect::<Vec<_>>());
            (0..of(first).len()).map(|at| LinePoint { x: of(first)[at].x, y: place(at) }).collect()
        };
        all.return_density = line(|curves| &curves.return_density);
        all.return_acf = line(|curves| &curves.return_acf);
        all.abs_return_acf = line(|curves| &curves.abs_return_acf);
        all.abs_return_acf_10s = line(|curves| &curves.abs_return_acf_10s);
        all.sign_acf = line(|curves| &curves.sign_acf);
        all.signature = line(|curves| &curves.signature);
        for (at, point) in all.depth.iter_mut().enumerate() {
            point.shares = mean(&seeds.iter().map(|s| s.depth[at].shares).collect::<Vec<_>>());
        }
        all
    }
}

fn signature(recording: &Recording) -> Vec<LinePoint> {
    let returns = recording.returns(1);
    SIGNATURE_LAGS.map(|lag| LinePoint { x: lag as f64, y: variance_ratio(&returns, lag) }).to_vec()
}

fn density(returns: &[f64]) -> Vec<LinePoint> {
    let (mean, deviation) = (mean(returns), std_dev(returns));
    let width = 2.0 * HISTOGRAM_EDGE / HISTOGRAM_BINS as f64;
    let mut counts = [0_u32; HISTOGRAM_BINS];
    for value in returns {
        let place = ((value - mean) / deviation + HISTOGRAM_EDGE) / width;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let bin = place.clamp(0.0, HISTOGRAM_BINS as f64 - 1.0) as usize;
        counts[bin] += 1;
    }
    let point = |(bin, count): (usize, &u32)| LinePoint {
        x: (bin as f64 + 0.5) * width - HISTOGRAM_EDGE,
        y: f64::from(*count) / returns.len() as f64 / width,
    };
    counts.iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn the_density_of_normal_returns_is_the_bell() {
        let points = density(&SeriesRandom::new(16).normals(200_000));
        let total: f64 = points.iter().map(|point| point.y * 0.25).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        for point in points {
            let bell = (-point.x * point.x / 2.0).exp() / std::f64::consts::TAU.sqrt();
            assert!((point.y - bell).abs() < 0.01, "{point:?} {bell}");
        }
    }
}
