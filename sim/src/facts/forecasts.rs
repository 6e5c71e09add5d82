//! Forecasts of price changes from the features of an observation.

use super::ridge::Regression;
use super::subject::Subject;
use super::trees::{Binned, Trees};

/// Horizons of the forecasts in ticks.
pub const HORIZONS: [usize; 4] = [5, 20, 60, 300];
/// Ticks between two observations of the fit, and between two decisions.
pub(super) const EVERY: usize = 3;
/// Ticks of a seed of the fit.
const FIT_TICKS: usize = 23_400;
/// Price ticks to which a fit clips larger changes.
const LARGEST_CHANGE: f64 = 30.0;

/// Way to fit a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Ridge regression: a weighted sum of the features.
    Ridge,
    /// Boosted trees: thresholds of features, and of several together.
    Trees,
}

/// Forecasts of the change of the mid-price by one method, one for each of [`HORIZONS`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Forecasts {
    /// Coefficients of the features, then the constant, for each horizon.
    Ridge(Vec<Vec<f64>>),
    /// Trees for each horizon.
    Trees(Vec<Trees>),
}

/// Observations of one seed, and the mid-price after each tick.
struct Observed {
    /// Tick and features with a final 1.
    rows: Vec<(usize, Vec<f64>)>,
    mids: Vec<f64>,
}

impl Observed {
    fn take<S: Subject>(market: &mut S) -> Self {
        let longest = HORIZONS.into_iter().fold(0, usize::max);
        let mut observed = Self { rows: Vec::new(), mids: Vec::new() };
        let mut mid = market.view().fundamental;
        for tick in 0..FIT_TICKS + longest {
            market.step(0);
            mid = market.view().mid().unwrap_or(mid);
            observed.mids.push(mid);
            if tick < FIT_TICKS && tick % EVERY == 0 {
                let mut row = Vec::new();
                market.observe(&mut row);
                row.push(1.0);
                observed.rows.push((tick, row));
            }
        }
        observed
    }

    fn changes(&self, tick: usize) -> [f64; HORIZONS.len()] {
        HORIZONS.map(|horizon| self.mids[tick + horizon] - self.mids[tick])
    }
}

impl Forecasts {
    /// Fits the forecasts of all methods on `markets`; none without a market.
    pub(super) fn fit<S: Subject>(markets: impl Iterator<Item = S>) -> Vec<Self> {
        let (mut width, mut rows) = (0, Vec::new());
        let mut targets = [const { Vec::new() }; HORIZONS.len()];
        for mut market in markets {
            let observed = Observed::take(&mut market);
            for (tick, row) in &observed.rows {
                width = row.len();
                rows.extend_from_slice(row);
                for (all, change) in targets.iter_mut().zip(observed.changes(*tick)) {
                    all.push(change.clamp(-LARGEST_CHANGE, LARGEST_CHANGE));
                }
            }
        }
        if width == 0 {
            return Vec::new();
        }
        let mut regression = Regression::new(width, HORIZONS.len());
        for (at, row) in rows.chunks_exact(width).enumerate() {
            regression.add(row, &targets.each_ref().map(|all| all[at]));
        }
        let binned = Binned::new(&rows, width);
        let trees = targets.iter().map(|targets| Trees::fit(&binned, targets)).collect();
        vec![Self::Ridge(regression.solve()), Self::Trees(trees)]
    }

    pub(super) fn method(&self) -> Method {
        match self {
            Self::Ridge(_) => Method::Ridge,
            Self::Trees(_) => Method::Trees,
        }
    }

    /// Returns the forecast change over one of [`HORIZONS`], in price ticks.
    pub(super) fn forecast(&self, horizon: usize, row: &[f64]) -> f64 {
        match self {
            Self::Ridge(weights) => {
                weights[horizon].iter().zip(row).map(|(weight, value)| weight * value).sum()
            }
            Self::Trees(trees) => trees[horizon].forecast(row),
        }
    }

    /// Returns the share of the variance that forecasts explain on other markets, for each horizon
    /// that of the method that explains more. It is negative where all are worse than none.
    pub(super) fn explained<S: Subject>(
        fitted: &[Self],
        markets: impl Iterator<Item = S>,
    ) -> Vec<f64> {
        let mut left = vec![[0.0; HORIZONS.len()]; fitted.len()];
        let mut all = [0.0; HORIZONS.len()];
        for mut market in markets {
            let observed = Observed::take(&mut market);
            for (tick, row) in &observed.rows {
                for (at, change) in observed.changes(*tick).into_iter().enumerate() {
                    for (left, forecasts) in left.iter_mut().zip(fitted) {
                        left[at] += (change - forecasts.forecast(at, row)).powi(2);
                    }
                    all[at] += change * change;
                }
            }
        }
        let least = |at: usize| left.iter().map(|left| left[at]).reduce(f64::min);
        let share = |at: usize| least(at).map(|left| 1.0 - left / all[at]);
        (0..HORIZONS.len()).filter_map(share).collect()
    }
}
