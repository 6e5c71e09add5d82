//! Rewards of portfolios: those that are settings, and those that a caller writes.

use std::fmt::Debug;

use super::error::PortfolioError;
use crate::contract::EpisodeSums;

/// Smallest value after a step that rewards count, as a fraction of the value before it. A
/// portfolio that loses more, or owes more than it has, gets the reward of this fraction.
pub const RUIN_FLOOR: f64 = 1e-6;

/// Reward of a step of a portfolio. `V` is its value at the close, before the orders.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Reward {
    /// `ln(V' / V)`, at least `ln(RUIN_FLOOR)`; 0 if `V` is not positive. The default.
    #[default]
    LogReturn,
    /// `V' - V`, in cash.
    Pnl,
    /// Differential Sharpe ratio. Moody and Saffell, *Reinforcement Learning for Trading* (NIPS
    /// 1998), of the return `V' / V - 1`, at least `RUIN_FLOOR - 1`. The moving moments
    /// begin at 0 in every episode. The reward is 0 while they have no variance.
    DifferentialSharpe {
        /// Weight of the newest return in the moving moments, in `(0, 1)`.
        rate: f64,
    },
    /// Log return less `weight` times the growth of the maximum drawdown of the episode. A drawdown
    /// counts at most as 1. So the rewards of an episode sum up to its log return less `weight`
    /// times its maximum drawdown.
    Drawdown {
        /// Weight of the drawdown, at least 0.
        weight: f64,
    },
    /// Log return less that of `ticker`, which may be a macro ticker, from its last known close.
    /// Dividends and splits count where columns of them are named.
    Excess {
        /// Ticker of the panel.
        ticker: String,
    },
}

impl Reward {
    /// Refuses numbers outside their ranges.
    pub(crate) fn check(&self) -> Result<(), PortfolioError> {
        let refuse = |option, value, rule| Err(PortfolioError::BadOption { option, value, rule });
        match *self {
            Self::DifferentialSharpe { rate } if !(rate > 0.0 && rate < 1.0) => {
                let rule = "the weight of the newest return, in (0, 1)";
                refuse("DifferentialSharpe.rate", rate, rule)
            }
            Self::Drawdown { weight } if !(weight.is_finite() && weight >= 0.0) => {
                refuse("Drawdown.weight", weight, "a finite number, at least 0")
            }
            _ => Ok(()),
        }
    }
}

/// State of a reward within an episode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RewardState {
    /// Moving mean of the returns, and of their squares.
    moments: [f64; 2],
    /// Last known close of the benchmark; 0 before the first.
    benchmark: f64,
}

impl RewardState {
    /// Begins an episode at the last known close of the benchmark.
    pub(crate) fn begin(benchmark: f64) -> Self {
        Self { moments: [0.0; 2], benchmark }
    }

    /// Returns the reward of a step from `before` to `after`. `drawdown`: maximum drawdown before
    /// the step. `benchmark`: close of the benchmark after it, 0 without a row, and what a unit
    /// that was held before is worth at it.
    pub(crate) fn reward(
        &mut self,
        reward: &Reward,
        (before, after): (f64, f64),
        drawdown: f64,
        sums: &EpisodeSums,
        (benchmark, worth): (f64, f64),
    ) -> f64 {
        match *reward {
            Reward::LogReturn => log_return(before, after),
            Reward::Pnl => after - before,
            Reward::DifferentialSharpe { rate } => self.differential_sharpe(rate, before, after),
            Reward::Drawdown { weight } => {
                let growth = sums.drawdown().min(1.0) - drawdown.min(1.0);
                log_return(before, after) - weight * growth
            }
            Reward::Excess { .. } => {
                let moved = if self.benchmark > 0.0 && benchmark > 0.0 {
                    (worth / self.benchmark).ln()
                } else {
                    0.0
                };
                self.benchmark = if benchmark > 0.0 { benchmark } else { self.benchmark };
                log_return(before, after) - moved
            }
        }
    }

    fn differential_sharpe(&mut self, rate: f64, before: f64, after: f64) -> f64 {
        let gain = if before > 0.0 { (after / before).max(RUIN_FLOOR) - 1.0 } else { 0.0 };
        let [mean, square] = self.moments;
        let (mean_change, square_change) = (gain - mean, gain * gain - square);
        self.moments = [mean + rate * mean_change, square + rate * square_change];
        let variance = square - mean * mean;
        // Rounding leaves a small variance where the returns are constant.
        if variance <= 1e-12 * square || variance <= 0.0 {
            return 0.0;
        }
        (square * mean_change - 0.5 * mean * square_change) / (variance * variance.sqrt())
    }
}

/// Returns the log return of a step, at least that of [`RUIN_FLOOR`].
#[inline]
pub(crate) fn log_return(before: f64, after: f64) -> f64 {
    if before > 0.0 { (after.max(before * RUIN_FLOOR) / before).ln() } else { 0.0 }
}

/// One step of all portfolios, `[N]` each: the argument of a [`PortfolioReward`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PortfolioSteps<'a> {
    /// Value at the close before the orders.
    pub value_before: &'a [f64],
    /// Value at the close of the next day, of the same episode.
    pub value: &'a [f64],
    /// Fees, slippage, impact, borrowing and interest, in cash.
    pub costs: &'a [f64],
    /// Value of all purchases and sales.
    pub traded: &'a [f64],
    /// Whether this is the first step of an episode.
    pub first: &'a [bool],
    /// Whether the portfolio acted. It did not if this step only began an episode; the other
    /// fields have no meaning then, and the reward is 0.
    pub acted: &'a [bool],
    /// Whether the task ended the episode.
    pub terminated: &'a [bool],
    /// Whether a limit ended the episode.
    pub truncated: &'a [bool],
}

/// Reward that a caller writes, for [`set_reward`](crate::PortfolioVectorEnv::set_reward).
pub trait PortfolioReward: Debug + Send + Sync {
    /// Writes the rewards of one step of all portfolios, `[N]`. It is called once a step.
    fn rewards(&mut self, step: &PortfolioSteps<'_>, out: &mut [f64]);

    /// Returns a copy with its state, for a copy of the environment.
    fn boxed(&self) -> Box<dyn PortfolioReward>;
}

impl Clone for Box<dyn PortfolioReward> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// Fields of [`PortfolioSteps`] of the last step, `[N]` each.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepFields {
    pub(crate) value_before: Vec<f64>,
    pub(crate) value: Vec<f64>,
    pub(crate) costs: Vec<f64>,
    pub(crate) traded: Vec<f64>,
    pub(crate) first: Vec<bool>,
    pub(crate) acted: Vec<bool>,
}

impl StepFields {
    /// Returns the fields of `n` portfolios, or `None` where memory does not suffice.
    pub(crate) fn new(n: usize) -> Option<Self> {
        use crate::contract::zeros;
        Some(Self {
            value_before: zeros(n)?,
            value: zeros(n)?,
            costs: zeros(n)?,
            traded: zeros(n)?,
            first: zeros(n)?,
            acted: zeros(n)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_differential_sharpe_ratio_is_the_derivative_of_the_moving_ratio() {
        // S(rate) = A / sqrt(B - A^2) after a return, as a function of the rate of that return.
        let returns = [0.01, -0.02, 0.015, 0.003, -0.007];
        let rate = 0.05;
        let mut state = RewardState::default();
        let (mut mean, mut square) = (0.0, 0.0);
        for (at, gain) in returns.into_iter().enumerate() {
            let found = state.differential_sharpe(rate, 1.0, 1.0 + gain);
            let ratio = |eta: f64| {
                let a: f64 = mean + eta * (gain - mean);
                let b: f64 = square + eta * (gain * gain - square);
                a / (b - a * a).sqrt()
            };
            if at == 0 {
                assert_eq!(found.to_bits(), 0);
            } else {
                let step = 1e-7;
                let slope = (ratio(step) - ratio(-step)) / (2.0 * step);
                assert!((found - slope).abs() < 1e-4 * slope.abs(), "{found} {slope}");
            }
            mean += rate * (gain - mean);
            square += rate * (gain * gain - square);
        }
    }

    #[test]
    fn a_differential_sharpe_ratio_counts_a_ruin_as_the_floor_and_needs_a_variance() {
        // Pairs of steps with one and the same return.
        for (one, other) in [
            ((100.0, -5.0), (1.0, RUIN_FLOOR)),
            ((100.0, 0.0), (1.0, RUIN_FLOOR)),
            ((0.0, 5.0), (1.0, 1.0)),
            ((-4.0, 5.0), (1.0, 1.0)),
        ] {
            let [found, expected] = [one, other].map(|(before, after)| {
                let mut state = RewardState::default();
                state.differential_sharpe(0.1, 1.0, 1.02);
                let reward = state.differential_sharpe(0.1, before, after);
                [reward, state.differential_sharpe(0.1, 1.0, 1.01)]
            });
            for (found, expected) in found.into_iter().zip(expected) {
                assert!(found.is_finite() && (found - expected).abs() < 1e-9, "{one:?}");
            }
        }
        let mut state = RewardState::default();
        for _ in 0..200 {
            state.differential_sharpe(0.5, 1.0, 1.01);
        }
        let constant = state.differential_sharpe(0.5, 1.0, 1.01);
        assert_eq!(constant.to_bits(), 0, "the moving moments have no variance");
    }

    #[test]
    fn a_drawdown_counts_at_most_as_the_whole_peak() {
        let reward = Reward::Drawdown { weight: 2.0 };
        let mut sums = EpisodeSums::begin(100.0, 252.0);
        let (mut state, mut before) = (RewardState::begin(0.0), 100.0);
        let floor = RUIN_FLOOR.ln();
        for (after, log, growth) in [
            (80.0, 0.8_f64.ln(), 0.2),
            (90.0, 1.125_f64.ln(), 0.0),
            (-50.0, floor, 0.8),
            (-70.0, 0.0, 0.0),
            (150.0, 0.0, 0.0),
        ] {
            let drawdown = sums.drawdown();
            sums.arrive(after);
            let found = state.reward(&reward, (before, after), drawdown, &sums, (0.0, 0.0));
            assert!((found - (log - 2.0 * growth)).abs() < 1e-12, "{after}: {found}");
            before = after;
        }
    }

    #[test]
    fn an_excess_begins_with_the_first_close_of_the_benchmark_and_skips_days_without_one() {
        let reward = Reward::Excess { ticker: "A".to_owned() };
        let sums = EpisodeSums::begin(100.0, 252.0);
        let mut state = RewardState::begin(0.0);
        // Close of the benchmark, worth of a unit that was held before, and the return of both.
        for (close, worth, moved) in [
            (0.0, 0.0, 0.0),
            (50.0, 50.0, 0.0),
            (60.0, 60.0, 1.2),
            (0.0, 0.0, 0.0),
            (45.0, 45.0, 0.75),
            // A split of one share into two, and a dividend.
            (24.0, 48.6, 1.08),
            (24.0, 24.0, 1.0),
        ] {
            let found = state.reward(&reward, (100.0, 110.0), 0.0, &sums, (close, worth));
            let excess = if moved > 0.0 { f64::ln(1.1 / moved) } else { f64::ln(1.1) };
            assert!((found - excess).abs() < 1e-12, "{close}: {found}");
        }
    }

    #[test]
    fn ruin_has_the_reward_of_the_floor() {
        assert!((log_return(100.0, -5.0) - RUIN_FLOOR.ln()).abs() < 1e-12);
        assert_eq!(log_return(0.0, 5.0).to_bits(), 0);
        let (before, after) = (30_000.0_f64, 29_876.5_f64);
        assert_eq!(log_return(before, after).to_bits(), (after / before).ln().to_bits());
    }
}
