//! Trading rules fitted to the observation: what an agent that learns would find first.
//!
//! Ridge regressions and boosted trees on the features of an observation forecast the change of the
//! mid-price over several horizons. All are fitted on one set of seeds. A second set chooses the
//! horizon and the threshold of a rule that trades on a forecast, for each method and each size of
//! order. A third set trades the chosen rules with all costs: spread, fee, their own impact, and a
//! delay between an observation and its order.

use super::curves::LinePoint;
use super::forecasts::{EVERY, Forecasts, HORIZONS, Method};
use super::sample::{mean, std_error};
use super::significance::one_sided_p;
use super::subject::Subject;

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
    /// Way in which its forecast was fitted.
    pub method: Method,
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
    /// [`HORIZONS`], by the method that explains more.
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
        let fitted = Forecasts::fit(block(0));
        let choosing: Vec<S> = block(1).collect();
        let mut rules = Vec::new();
        let fresh: Vec<S> = block(2).collect();
        for forecasts in &fitted {
            for size in SIZES {
                let rule = choose(forecasts, size, &choosing);
                for delay in DELAYS {
                    let profits: Vec<f64> = fresh
                        .iter()
                        .map(|market| rule.trade(forecasts, &mut market.clone(), delay))
                        .collect();
                    rules.push(FittedResult {
                        method: forecasts.method(),
                        size,
                        horizon: HORIZONS[rule.horizon],
                        delay,
                        profit: mean(&profits),
                        std_error: std_error(&profits),
                        p: one_sided_p(&profits),
                    });
                }
            }
        }
        Self { explained: Forecasts::explained(&fitted, fresh.into_iter()), rules }
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
