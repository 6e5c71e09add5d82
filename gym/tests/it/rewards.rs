//! Rewards of several portfolios over many episodes, against formulas that the test computes.

use crate::market::{Market, actions};
use crate::units::{near, options};
use backcast_gym::{AutoresetMode, PortfolioOptions, PortfolioVectorEnv, ResetSeed, Reward};

/// Running numbers of one episode.
#[derive(Clone, Debug, Default)]
struct Episode {
    peak: f64,
    drawdown: f64,
    /// Moving means of the returns and of their squares.
    mean: f64,
    square: f64,
    benchmark: f64,
    rewards: f64,
}

impl Episode {
    fn begin(value: f64, benchmark: f64) -> Self {
        Self { peak: value, benchmark, ..Self::default() }
    }

    /// Returns the reward of a step from `before` to `after`. `close` is that of the benchmark, if
    /// it has a row.
    fn reward(&mut self, reward: &Reward, before: f64, after: f64, close: Option<f64>) -> f64 {
        self.peak = self.peak.max(after);
        let deepest = self.drawdown.max(1.0 - after / self.peak);
        let deeper = deepest - self.drawdown;
        self.drawdown = deepest;
        let gain = after / before - 1.0;
        let log = (after / before).ln();
        match *reward {
            Reward::LogReturn => log,
            Reward::Pnl => after - before,
            Reward::DifferentialSharpe { rate } => {
                let (mean, square) = (self.mean, self.square);
                self.mean = (1.0 - rate) * mean + rate * gain;
                self.square = (1.0 - rate) * square + rate * gain * gain;
                let variance = square - mean * mean;
                let change = square * (gain - mean) - 0.5 * mean * (gain * gain - square);
                if variance > 0.0 { change / variance.powf(1.5) } else { 0.0 }
            }
            Reward::Drawdown { weight } => log - weight * deeper,
            Reward::Excess { .. } => {
                let known = self.benchmark;
                self.benchmark = close.unwrap_or(known);
                let moved = close.filter(|_| known > 0.0).map_or(0.0, |close| (close / known).ln());
                log - moved
            }
        }
    }
}

/// The benchmark T02 begins on day 9, and has no row on three days after.
fn market() -> Market {
    Market::random(6, 3, 60).without(2, (0..9).chain([20, 21, 35]))
}

fn settings(reward: Reward, autoreset_mode: AutoresetMode, step_info: bool) -> PortfolioOptions {
    PortfolioOptions {
        tickers: Some(["T00", "T01"].map(str::to_owned).to_vec()),
        max_episode_steps: Some(7),
        buy_cost_pct: 0.01,
        sell_cost_pct: 0.01,
        reward,
        autoreset_mode,
        step_info,
        ..options()
    }
}

/// Compares every reward of 60 steps of three portfolios with its formula, and returns the number
/// of episodes.
fn compare(reward: &Reward, mode: AutoresetMode, step_info: bool) -> usize {
    let market = market();
    let close = |day: i32| market.rows[usize::try_from(day).unwrap()][2].map(|row| row[3]);
    let mut env =
        PortfolioVectorEnv::new(market.panel(), 3, settings(reward.clone(), mode, step_info))
            .unwrap();
    env.reset(ResetSeed::One(4), None, Some(&[2, 19, 33])).unwrap();
    let mut episodes = vec![Episode::default(); 3];
    let mut ends = 0;
    for step in 0..60 {
        let (days, values) = (env.obs().day.clone(), env.total_asset_at_close().to_vec());
        let was_over = env.ended().to_vec();
        env.step(&actions(step, 6)).unwrap();
        let fields = env.steps();
        for (at, episode) in episodes.iter_mut().enumerate() {
            let case = format!("{reward:?}, {mode}, step {step}, environment {at}");
            let only_resets = was_over[at] && mode == AutoresetMode::NextStep;
            assert_eq!(fields.acted[at], !only_resets, "{case}");
            assert_eq!(env.began()[at], only_resets || env.ended()[at] && ends_at_once(mode));
            if let Some(details) = env.details() {
                assert_eq!(details.acted[at], fields.acted[at], "{case}");
                let orders = &details.orders[2 * at..2 * at + 2];
                assert!(!only_resets || orders.iter().all(|order| order.to_bits() == 0), "{case}");
            }
            if only_resets {
                assert_eq!((env.rewards()[at].to_bits(), env.ended()[at]), (0, false), "{case}");
                continue;
            }
            let (before, after) = (fields.value_before[at], fields.value[at]);
            let day = days[at];
            if fields.first[at] {
                let known = (0..=day).rev().find_map(close);
                *episode = Episode::begin(values[at], known.unwrap_or_default());
            }
            assert_eq!(before.to_bits(), values[at].to_bits(), "{case}");
            assert!(near(fields.costs[at], 0.01 * fields.traded[at]), "{case}");
            let found = env.rewards()[at];
            let expected = episode.reward(reward, before, after, close(day + 1));
            episode.rewards += found;
            assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1e-6), "{case}: {found}");
            let ended = env.ended()[at];
            assert_eq!((fields.truncated[at], fields.terminated[at]), (ended, false), "{case}");
            if ended {
                let metrics = env.metrics()[at];
                assert_eq!(metrics.final_value.to_bits(), after.to_bits(), "{case}");
                assert!(near(metrics.max_drawdown, episode.drawdown), "{case}");
                if let Reward::Drawdown { weight } = reward {
                    let sum = (1.0 + metrics.total_return).ln() - weight * metrics.max_drawdown;
                    assert!(near(episode.rewards, sum), "{case}");
                }
                ends += 1;
            } else {
                let value = env.total_asset_at_close()[at];
                assert_eq!(value.to_bits(), after.to_bits(), "{case}");
            }
        }
    }
    ends
}

fn ends_at_once(mode: AutoresetMode) -> bool {
    mode == AutoresetMode::SameStep
}

#[test]
fn every_reward_of_every_portfolio_is_that_of_its_formula_in_every_episode() {
    for reward in [
        Reward::LogReturn,
        Reward::Pnl,
        Reward::DifferentialSharpe { rate: 0.2 },
        Reward::Drawdown { weight: 3.0 },
        Reward::Excess { ticker: "T02".to_owned() },
    ] {
        for mode in [AutoresetMode::SameStep, AutoresetMode::NextStep] {
            for step_info in [false, true] {
                assert!(compare(&reward, mode, step_info) > 15, "{reward:?}, {mode}");
            }
        }
    }
}
