//! Trading rules that must not earn anything, and the profit of trading at random.
//!
//! A rule decides once a minute, and holds one share long, none, or one short until its next
//! decision. It buys at the best sell price, sells at the best buy price and pays the taker fee.
//! Its orders do not move the price. Each day ends with no shares. Sharpe ratios are those of daily
//! profits, times `sqrt(252)`.

use serde::Serialize;

use super::recording::{Recording, TICKS_PER_DAY};
use super::sample::{mean, std_dev, std_error};

/// Ticks between two decisions.
const BAR_TICKS: usize = 60;
/// Minutes before the first decision, which the longest look-back needs.
const LOOK_BACK: usize = 64;
/// Trading days of a year.
const DAYS_PER_YEAR: f64 = 252.0;

/// A simple trading rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Follows the return of the last ten minutes.
    Momentum,
    /// Opposes the return of the last ten minutes.
    Reversal,
    /// Follows the sign of the MACD(8, 16, 4) histogram (Appel 1979).
    Macd,
    /// Buys if the mid-price is more than one standard deviation below its mean over the last hour,
    /// and sells if it is more than one above.
    BelowFair,
    /// Buys below the hidden fundamental and sells above, if the gap pays for the trade.
    ///
    /// The rule knows the fundamental, and so is an upper bound that no trader can reach.
    BelowFundamental,
}

impl Rule {
    /// All rules, in the order of the report.
    pub const ALL: [Self; 5] =
        [Self::Momentum, Self::Reversal, Self::Macd, Self::BelowFair, Self::BelowFundamental];

    /// Returns the position that the rule wants at bar `at`: 1, 0 or -1.
    fn position(self, bars: &Bars, at: usize) -> i32 {
        let momentum = || sign(bars.mid[at] - bars.mid[at - 10]);
        match self {
            Self::Momentum => momentum(),
            Self::Reversal => -momentum(),
            Self::Macd => sign(bars.histogram[at]),
            Self::BelowFair => {
                let hour = &bars.mid[at - 59..=at];
                let gap = bars.mid[at] - mean(hour);
                if gap.abs() > std_dev(hour) { -sign(gap) } else { 0 }
            }
            Self::BelowFundamental => {
                let gap = bars.mid[at] - bars.fundamental[at];
                let cost = (bars.ask[at] - bars.bid[at]) + 2.0 * bars.fee * bars.mid[at];
                if gap.abs() > cost { -sign(gap) } else { 0 }
            }
        }
    }
}

/// Quotes of every minute.
struct Bars {
    bid: Vec<f64>,
    ask: Vec<f64>,
    mid: Vec<f64>,
    fundamental: Vec<f64>,
    histogram: Vec<f64>,
    fee: f64,
}

impl Bars {
    fn of(recording: &Recording, fee: f64) -> Self {
        let every = |prices: &[i32]| -> Vec<f64> {
            prices.iter().step_by(BAR_TICKS).copied().map(f64::from).collect()
        };
        let (bid, ask) = (every(&recording.bid), every(&recording.ask));
        let mid: Vec<f64> = bid.iter().zip(&ask).map(|(b, a)| f64::midpoint(*b, *a)).collect();
        let fundamental = recording.fundamental.iter().step_by(BAR_TICKS).copied().collect();
        let line: Vec<f64> =
            smooth(&mid, 8).iter().zip(smooth(&mid, 16)).map(|(fast, slow)| fast - slow).collect();
        let histogram = line.iter().zip(smooth(&line, 4)).map(|(l, signal)| l - signal).collect();
        Self { bid, ask, mid, fundamental, histogram, fee }
    }

    /// Returns the cash gained by moving `position` to `target` at the touch of bar `at`.
    fn trade(&self, at: usize, position: i32, target: i32) -> f64 {
        let shares = f64::from(target - position);
        let price = if shares > 0.0 { self.ask[at] } else { self.bid[at] };
        -shares * price - shares.abs() * price * self.fee
    }

    /// Returns the first and last bar of each whole day. The first day begins after the look-back.
    fn days(&self) -> impl Iterator<Item = (usize, usize)> {
        let length = TICKS_PER_DAY / BAR_TICKS;
        (0..self.mid.len() / length)
            .map(move |day| ((day * length).max(LOOK_BACK), (day + 1) * length - 1))
    }
}

/// Returns a rule's profit of each day, in units of the mid-price at the day's first decision.
/// `fee` is a fraction of the money traded. O(ticks).
#[must_use]
pub fn daily_profits(recording: &Recording, rule: Rule, fee: f64) -> Vec<f64> {
    let bars = Bars::of(recording, fee);
    bars.days()
        .map(|(first, last)| {
            let (mut cash, mut position) = (0.0, 0);
            for at in first..last {
                let target = rule.position(&bars, at);
                cash += bars.trade(at, position, target);
                position = target;
            }
            (cash + bars.trade(last, position, 0)) / bars.mid[first]
        })
        .collect()
}

/// Returns the annualised Sharpe ratio of daily profits; zero if they do not vary, NaN if there are
/// none.
#[must_use]
pub fn annual_sharpe(profits: &[f64]) -> f64 {
    let deviation = std_dev(profits);
    if deviation == 0.0 { 0.0 } else { mean(profits) / deviation * DAYS_PER_YEAR.sqrt() }
}

/// Returns the profit of random orders before their costs, for each day, in units of the mid-price
/// at its first decision.
///
/// Each minute the policy buys a share, sells one or does nothing; it ends the day without shares.
/// The costs are half the spread and the fee of each trade. The profit before costs has mean zero
/// if prices are unpredictable. `draw` returns uniform words.
pub fn random_policy(recording: &Recording, fee: f64, mut draw: impl FnMut() -> u64) -> Vec<f64> {
    let bars = Bars::of(recording, fee);
    bars.days()
        .map(|(first, last)| {
            let (mut cash, mut position, mut costs) = (0.0, 0, 0.0);
            for at in first..=last {
                let target = match draw() % 3 {
                    _ if at == last => 0,
                    0 => position + 1,
                    1 => position - 1,
                    _ => position,
                };
                let got = bars.trade(at, position, target);
                costs += -f64::from(target - position) * bars.mid[at] - got;
                cash += got;
                position = target;
            }
            (cash + costs) / bars.mid[first]
        })
        .collect()
}

/// Returns the mean in units of its standard error; zero if the mean is zero.
#[must_use]
pub fn z_score(sample: &[f64]) -> f64 {
    let mean = mean(sample);
    if mean == 0.0 { 0.0 } else { mean / std_error(sample) }
}

/// Returns the exponential moving average with `alpha = 2 / (span + 1)`.
fn smooth(series: &[f64], span: u32) -> Vec<f64> {
    let alpha = 2.0 / (f64::from(span) + 1.0);
    let mut state = series.first().copied().unwrap_or(0.0);
    series
        .iter()
        .map(|value| {
            state += alpha * (value - state);
            state
        })
        .collect()
}

fn sign(value: f64) -> i32 {
    i32::from(value > 0.0) - i32::from(value < 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    /// Records mid-prices in ticks, each held for a minute, with a spread of two ticks.
    fn recording(minutes: &[f64]) -> Recording {
        let mut recording = Recording::default();
        for mid in minutes.iter().flat_map(|mid| std::iter::repeat_n(mid, BAR_TICKS)) {
            #[expect(clippy::cast_possible_truncation, reason = "a price in ticks")]
            let mid = mid.round() as i32;
            recording.bid.push(mid - 1);
            recording.ask.push(mid + 1);
            recording.fundamental.push(10_000.0);
        }
        recording
    }

    fn walk(
        random: &mut SeriesRandom,
        days: usize,
        mut change: impl FnMut(f64) -> f64,
    ) -> Recording {
        let mut price = 10_000.0;
        let minutes: Vec<f64> = (0..days * TICKS_PER_DAY / BAR_TICKS)
            .map(|_| {
                price += change(price) + 5.0 * random.normal();
                price
            })
            .collect();
        recording(&minutes)
    }

    #[test]
    fn a_known_path_gives_the_exact_profit() {
        // Up a tick a minute: momentum buys at the ask once and sells at the bid at the day's end.
        let minutes: Vec<f64> = (0..390).map(|minute| 10_000.0 + f64::from(minute)).collect();
        let profits = daily_profits(&recording(&minutes), Rule::Momentum, 0.001);
        let (buy, sell) = (10_064.0 + 1.0, 10_389.0 - 1.0);
        let expected = (sell - buy - 0.001 * (buy + sell)) / 10_064.0;
        assert_eq!(profits.len(), 1);
        assert!((profits[0] - expected).abs() < 1e-12, "{profits:?} {expected}");
        let opposite = daily_profits(&recording(&minutes), Rule::Reversal, 0.0);
        assert!((opposite[0] + (325.0 + 2.0) / 10_064.0).abs() < 1e-12, "{opposite:?}");
    }

    #[test]
    fn no_rule_earns_on_a_random_walk_and_random_orders_lose_their_costs() {
        let mut random = SeriesRandom::new(13);
        let recording = walk(&mut random, 100, |_| 0.0);
        for rule in [Rule::Momentum, Rule::Reversal, Rule::Macd, Rule::BelowFair] {
            let sharpe = annual_sharpe(&daily_profits(&recording, rule, 0.0001));
            assert!(sharpe < 1.0, "{rule:?}: {sharpe}");
        }
        let rest = random_policy(&recording, 0.0001, || random.word());
        assert!(z_score(&rest).abs() < 3.0, "{}", z_score(&rest));
    }

    #[test]
    fn a_lunch_that_is_served_is_found() {
        let mut random = SeriesRandom::new(14);
        let pulled = walk(&mut random, 100, |price| (10_000.0 - price) * 0.1);
        for rule in [Rule::Reversal, Rule::BelowFair, Rule::BelowFundamental] {
            let sharpe = annual_sharpe(&daily_profits(&pulled, rule, 0.0));
            assert!(sharpe > 3.0, "{rule:?}: {sharpe}");
        }
        let mut drift = 0.0;
        let mut shocks = SeriesRandom::new(15);
        let trending = walk(&mut random, 100, |_| {
            drift = 0.95 * drift + shocks.normal();
            drift
        });
        for rule in [Rule::Momentum, Rule::Macd] {
            let sharpe = annual_sharpe(&daily_profits(&trending, rule, 0.0));
            assert!(sharpe > 3.0, "{rule:?}: {sharpe}");
        }
    }

    #[test]
    fn a_rule_that_never_trades_has_no_sharpe() {
        assert!(annual_sharpe(&[0.0; 100]).abs() < 1e-12);
        assert!(z_score(&[0.0; 100]).abs() < 1e-12);
    }
}
