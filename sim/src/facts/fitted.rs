//! A trading rule fitted to the observation: what an agent that learns would find first.
//!
//! Ridge regressions on the features of an observation forecast the change of the mid-price over
//! several horizons. Each is fitted on one set of seeds. A second set chooses the horizon and the
//! threshold of a rule that trades on the forecast, for each size of order. A third set trades the
//! chosen rules with all costs: spread, fee, their own impact, and a delay between an observation
//! and its order.

use super::curves::LinePoint;
use super::sample::{mean, std_error};
use super::significance::one_sided_p;
use super::subject::Subject;

/// Horizons of the forecasts in ticks.
pub const HORIZONS: [usize; 4] = [5, 20, 60, 300];
/// Sizes of the rule's position in shares.
pub const SIZES: [i32; 4] = [1, 20, 100, 500];
/// Ticks between an observation and the arrival of its order.
pub const DELAYS: [usize; 3] = [0, 1, 5];
/// Forecasts from which a rule takes a position, in costs of a round trip at the touch.
const THRESHOLDS: [f64; 4] = [0.5, 1.0, 1.5, 2.0];
/// Part of a threshold below which a rule closes its position.
const CLOSE: f64 = 0.25;
/// Ticks of an episode.
const EPISODE_TICKS: usize = 1_500;
/// Last ticks of an episode, in which a rule only closes its position.
const CLOSING_TICKS: usize = 20;
/// Ticks between two observations of the fit, and between two decisions.
const EVERY: usize = 3;
/// Ticks of a seed of the fit.
const FIT_TICKS: usize = 23_400;
/// Price ticks to which a fit clips larger changes.
const LARGEST_CHANGE: f64 = 30.0;
/// Penalty on the square of each coefficient, for each row of the fit.
const PENALTY: f64 = 1e-4;

/// Linear forecasts of the change of the mid-price, one for each of [`HORIZONS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Forecasts {
    /// Coefficients of the features, then the constant, for each horizon.
    weights: Vec<Vec<f64>>,
}

/// Sums of squares and products of a regression with several targets.
struct Regression {
    width: usize,
    rows: f64,
    squares: Vec<f64>,
    products: Vec<Vec<f64>>,
}

impl Regression {
    fn new(width: usize) -> Self {
        let squares = vec![0.0; width * width];
        Self { width, rows: 0.0, squares, products: vec![vec![0.0; width]; HORIZONS.len()] }
    }

    fn add(&mut self, row: &[f64], targets: &[f64]) {
        self.rows += 1.0;
        for (line, left) in self.squares.chunks_exact_mut(self.width).zip(row) {
            line.iter_mut().zip(row).for_each(|(sum, right)| *sum += left * right);
        }
        for (sums, target) in self.products.iter_mut().zip(targets) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * target);
        }
    }

    /// Solves the normal equations by Gaussian elimination. The penalty makes them positive
    /// definite, so that no pivoting is needed.
    fn solve(&self) -> Forecasts {
        let width = self.width;
        let mut squares = self.squares.clone();
        for at in 0..width {
            squares[at * width + at] += PENALTY * self.rows;
        }
        let mut weights = self.products.clone();
        for pivot in 0..width {
            let (upper, lower) = squares.split_at_mut((pivot + 1) * width);
            let pivot_row = &upper[pivot * width..];
            for (below, row) in lower.chunks_exact_mut(width).enumerate() {
                let factor = row[pivot] / pivot_row[pivot];
                row.iter_mut().zip(pivot_row).for_each(|(x, y)| *x -= factor * y);
                for products in &mut weights {
                    products[pivot + 1 + below] -= factor * products[pivot];
                }
            }
        }
        for products in &mut weights {
            for at in (0..width).rev() {
                let row = &squares[at * width..(at + 1) * width];
                let known: f64 = (at + 1..width).map(|k| row[k] * products[k]).sum();
                products[at] = (products[at] - known) / row[at];
            }
        }
        Forecasts { weights }
    }
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
    /// Fits the forecasts on `markets`.
    fn fit<S: Subject>(markets: impl Iterator<Item = S>) -> Self {
        let mut regression = None;
        for mut market in markets {
            let observed = Observed::take(&mut market);
            for (tick, row) in &observed.rows {
                let regression = regression.get_or_insert_with(|| Regression::new(row.len()));
                let largest = |change: f64| change.clamp(-LARGEST_CHANGE, LARGEST_CHANGE);
                regression.add(row, &observed.changes(*tick).map(largest));
            }
        }
        regression.map_or(Self { weights: Vec::new() }, |regression| regression.solve())
    }

    /// Returns the forecast change over one of [`HORIZONS`], in price ticks.
    fn forecast(&self, horizon: usize, row: &[f64]) -> f64 {
        self.weights[horizon].iter().zip(row).map(|(weight, value)| weight * value).sum()
    }

    /// Returns the share of the variance that the forecasts explain on other markets, for each
    /// horizon. It is negative where a forecast is worse than none.
    fn explained<S: Subject>(&self, markets: impl Iterator<Item = S>) -> Vec<f64> {
        let mut left = [0.0; HORIZONS.len()];
        let mut all = [0.0; HORIZONS.len()];
        for mut market in markets {
            let observed = Observed::take(&mut market);
            for (tick, row) in &observed.rows {
                for (at, change) in observed.changes(*tick).into_iter().enumerate() {
                    left[at] += (change - self.forecast(at, row)).powi(2);
                    all[at] += change * change;
                }
            }
        }
        left.iter().zip(all).map(|(left, all)| 1.0 - left / all).collect()
    }
}

/// Rule that trades on a forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FittedRule {
    /// Place in [`HORIZONS`].
    horizon: usize,
    threshold: f64,
    size: i32,
}

impl FittedRule {
    /// Trades one episode on `market` and returns the profit in price ticks times shares, after all
    /// costs. Shares still held count at the mid-price.
    fn trade<S: Subject>(self, forecasts: &Forecasts, market: &mut S, delay: usize) -> f64 {
        let start = market.outside();
        let held = |market: &S| market.outside().shares - start.shares;
        let mut row = Vec::new();
        let mut targets = [0; EPISODE_TICKS];
        let mut target = 0;
        for tick in 0..EPISODE_TICKS {
            if tick % EVERY == 0 {
                row.clear();
                market.observe(&mut row);
                row.push(1.0);
                target = self.target(forecasts.forecast(self.horizon, &row), target, market);
            }
            targets[tick] = target;
            let closing = tick + CLOSING_TICKS >= EPISODE_TICKS;
            let wanted = if closing || tick < delay { 0 } else { targets[tick - delay] };
            #[expect(clippy::cast_possible_truncation, reason = "a position of the rule")]
            market.step(wanted - held(market) as i32);
        }
        let end = market.outside();
        let mid = market.view().mid().unwrap_or(market.view().fundamental);
        end.cash - start.cash + held(market) * mid
    }

    fn target<S: Subject>(self, forecast: f64, target: i32, market: &S) -> i32 {
        let view = market.view();
        let Some(mid) = view.mid() else { return 0 };
        let cost = f64::from(view.spread().unwrap_or(0)) + 2.0 * market.taker_fee() * mid;
        let enter = self.threshold * cost;
        if forecast > enter {
            self.size
        } else if forecast < -enter {
            -self.size
        } else if forecast.abs() < CLOSE * enter || forecast * f64::from(target) < 0.0 {
            0
        } else {
            target
        }
    }
}

/// Result of one chosen rule at one delay.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FittedResult {
    /// Shares of the rule's position.
    pub size: i32,
    /// Horizon of its forecast in ticks.
    pub horizon: usize,
    /// Ticks between an observation and the arrival of its order.
    pub delay: usize,
    /// Mean profit of an episode in price ticks times shares.
    pub profit: f64,
    /// Standard error of `profit`.
    pub std_error: f64,
    /// One-sided p-value of `profit` if the true mean is zero.
    pub p: f64,
}

/// Fitted forecasts and the rules that were chosen with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fitted {
    /// Share of the variance of price changes that is explained on fresh seeds, for each of
    /// [`HORIZONS`].
    pub explained: Vec<f64>,
    /// Results of the chosen rules on fresh seeds.
    pub rules: Vec<FittedResult>,
}

impl Fitted {
    /// Returns the explained share of the variance by horizon, as points of a curve.
    pub(super) fn points(&self) -> impl Iterator<Item = LinePoint> {
        let points = HORIZONS.into_iter().zip(&self.explained);
        points.map(|(horizon, share)| LinePoint { x: horizon as f64, y: *share })
    }

    /// Fits, chooses and trades rules on markets that `build` makes. Each step takes `seeds` seeds
    /// of its own from `first` on. O(seeds · ticks).
    pub fn run<S: Subject>(build: impl Fn(u64) -> S, first: u64, seeds: u64) -> Self {
        let block =
            |number: u64| (first + number * seeds..first + (number + 1) * seeds).map(&build);
        let forecasts = Forecasts::fit(block(0));
        let choosing: Vec<S> = block(1).collect();
        let mut rules = Vec::new();
        let fresh: Vec<S> = block(2).collect();
        for size in SIZES {
            let rule = choose(&forecasts, size, &choosing);
            for delay in DELAYS {
                let profits: Vec<f64> = fresh
                    .iter()
                    .map(|market| rule.trade(&forecasts, &mut market.clone(), delay))
                    .collect();
                rules.push(FittedResult {
                    size,
                    horizon: HORIZONS[rule.horizon],
                    delay,
                    profit: mean(&profits),
                    std_error: std_error(&profits),
                    p: one_sided_p(&profits),
                });
            }
        }
        Self { explained: forecasts.explained(fresh.into_iter()), rules }
    }
}

/// Returns the rule of one size that earns most on `markets`.
fn choose<S: Subject>(forecasts: &Forecasts, size: i32, markets: &[S]) -> FittedRule {
    let mut best = (f64::NEG_INFINITY, FittedRule { horizon: 0, threshold: 1.0, size });
    for horizon in 0..HORIZONS.len() {
        for threshold in THRESHOLDS {
            let rule = FittedRule { horizon, threshold, size };
            let profit: f64 =
                markets.iter().map(|market| rule.trade(forecasts, &mut market.clone(), 0)).sum();
            if profit > best.0 {
                best = (profit, rule);
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn planted_coefficients_are_found() {
        let mut random = SeriesRandom::new(21);
        let mut regression = Regression::new(3);
        for _ in 0..20_000 {
            let row = [random.normal(), random.normal() + 0.5, 1.0];
            let noise = random.normal();
            let targets = [1.0, 2.0, 0.0, -1.0].map(|by| by * row[0] - 0.5 * row[1] + 3.0 + noise);
            regression.add(&row, &targets);
        }
        for (weights, by) in regression.solve().weights.iter().zip([1.0, 2.0, 0.0, -1.0]) {
            for (weight, planted) in weights.iter().zip([by, -0.5, 3.0]) {
                assert!((weight - planted).abs() < 0.05, "{weights:?}, planted {by}");
            }
        }
    }
}
