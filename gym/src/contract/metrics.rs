//! Metrics of an episode, computed from running sums.

/// Metrics of one episode. The portfolio environment takes values at the close of a day, the
/// trading environment at the mark price after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EpisodeMetrics {
    /// Final value over first value, minus one.
    pub total_return: f64,
    /// Annualised Sharpe ratio: mean over sample standard deviation of the returns of all steps. 0
    /// if they do not vary. Sharpe, *The Sharpe Ratio* (1994), with a riskless return of zero.
    ///
    /// A year has the days or bars of the panel's calendar (portfolio), or 252 times 23,400 ticks
    /// (trading).
    pub sharpe: f64,
    /// Annualised Sortino ratio: mean of the returns over the root of the mean squared loss, where
    /// a gain counts as 0. 0 without a loss. Sortino and van der Meer, *Downside risk* (1991), with
    /// a target of zero.
    pub sortino: f64,
    /// Largest fall from an earlier peak, as a fraction of that peak; at least 0.
    pub max_drawdown: f64,
    /// Value of all purchases and sales over the first value.
    pub turnover: f64,
    /// Fees, slippage, impact, borrowing and interest (portfolio) or fees (trading) paid, in cash.
    pub costs: f64,
    /// Orders executed, stop losses included (portfolio), or fills (trading).
    pub trades: u32,
    /// Stop losses executed; 0 in the trading environment.
    pub stop_losses: u32,
    /// Value at the end.
    pub final_value: f64,
    /// Number of steps.
    pub length: u32,
}

/// Running sums of one episode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EpisodeSums {
    steps_a_year: f64,
    first: f64,
    last: f64,
    peak: f64,
    drawdown: f64,
    returns: f64,
    squares: f64,
    squared_losses: f64,
    pub(crate) length: u32,
    pub(crate) traded: f64,
    pub(crate) costs: f64,
    pub(crate) orders: u32,
    pub(crate) stop_losses: u32,
}

impl EpisodeSums {
    /// Starts an episode at `value`; `steps_a_year` annualises its ratios.
    pub(crate) fn begin(value: f64, steps_a_year: f64) -> Self {
        Self { steps_a_year, first: value, last: value, peak: value, ..Self::default() }
    }

    /// Adds one step that ends at `value` to the sums.
    pub(crate) fn arrive(&mut self, value: f64) {
        let gain = if self.last > 0.0 { value / self.last - 1.0 } else { 0.0 };
        self.returns += gain;
        self.squares += gain * gain;
        self.squared_losses += gain.min(0.0).powi(2);
        self.last = value;
        self.length += 1;
        self.peak = self.peak.max(value);
        if self.peak > 0.0 {
            self.drawdown = self.drawdown.max(1.0 - value / self.peak);
        }
    }

    /// Returns the largest fall from an earlier peak, as a fraction of that peak.
    pub(crate) fn drawdown(&self) -> f64 {
        self.drawdown
    }

    /// Returns the metrics of the episode so far.
    pub(crate) fn metrics(&self) -> EpisodeMetrics {
        let steps = f64::from(self.length.max(1));
        let mean = self.returns / steps;
        // Rounding leaves a small variance where the returns are constant.
        let spread = (self.squares - steps * mean * mean).max(0.0);
        let deviation = if self.length > 1 && spread > 1e-12 * self.squares {
            (spread / (steps - 1.0)).sqrt()
        } else {
            0.0
        };
        let ratio = |of: f64| if of > 0.0 { mean / of * self.steps_a_year.sqrt() } else { 0.0 };
        let of_first = |value: f64| if self.first > 0.0 { value / self.first } else { 0.0 };
        EpisodeMetrics {
            total_return: of_first(self.last) - 1.0,
            sharpe: ratio(deviation),
            sortino: ratio((self.squared_losses / steps).sqrt()),
            max_drawdown: self.drawdown,
            turnover: of_first(self.traded),
            costs: self.costs,
            trades: self.orders,
            stop_losses: self.stop_losses,
            final_value: self.last,
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::EpisodeSums;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-6 * expected.abs().max(1.0)
    }

    proptest! {
        /// The model keeps every value and computes the textbook formulas.
        #[test]
        fn metrics_agree_with_their_definitions(
            values in prop::collection::vec(1_000.0..100_000.0_f64, 3..60),
        ) {
            let mut sums = EpisodeSums::begin(values[0], 252.0);
            values[1..].iter().for_each(|&value| sums.arrive(value));
            let metrics = sums.metrics();

            let returns: Vec<f64> = values.windows(2).map(|pair| pair[1] / pair[0] - 1.0).collect();
            let days = f64::from(u32::try_from(returns.len()).unwrap());
            let mean = returns.iter().sum::<f64>() / days;
            let variance = returns.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (days - 1.0);
            prop_assert!(near(metrics.sharpe, mean / variance.sqrt() * 252.0_f64.sqrt()));
            let losses = returns.iter().map(|r| r.min(0.0).powi(2)).sum::<f64>() / days;
            let sortino = if losses > 0.0 { mean / losses.sqrt() * 252.0_f64.sqrt() } else { 0.0 };
            prop_assert!(near(metrics.sortino, sortino));
            let drawdown = (0..values.len()).map(|at| {
                let peak = values[..=at].iter().fold(0.0_f64, |peak, &value| peak.max(value));
                1.0 - values[at] / peak
            }).fold(0.0, f64::max);
            prop_assert!(near(metrics.max_drawdown, drawdown));
            prop_assert!(near(metrics.total_return, values[values.len() - 1] / values[0] - 1.0));
            prop_assert_eq!(metrics.final_value.to_bits(), values[values.len() - 1].to_bits());
            prop_assert_eq!(metrics.length as usize, returns.len());
        }
    }

    #[test]
    fn values_of_nothing_or_less_have_no_return_and_no_drawdown() {
        // Values; total return, maximum drawdown, turnover of 30; mean of the returns.
        for (values, total, drawdown, turnover, returns) in [
            ([0.0, -5.0, 10.0], -1.0, 0.0, 0.0, [0.0, 0.0]),
            ([-3.0, -5.0, -1.0], -1.0, 0.0, 0.0, [0.0, 0.0]),
            ([100.0, 0.0, 50.0], -0.5, 1.0, 0.3, [-1.0, 0.0]),
            ([100.0, -20.0, 50.0], -0.5, 1.2, 0.3, [-1.2, 0.0]),
        ] {
            let mut sums = EpisodeSums::begin(values[0], 4.0);
            sums.traded = 30.0;
            values[1..].iter().for_each(|&value| sums.arrive(value));
            let metrics = sums.metrics();
            let [first, second]: [f64; 2] = returns;
            let mean = f64::midpoint(first, second);
            let deviation = (first - second).abs() / 2.0_f64.sqrt();
            let losses = f64::midpoint(first * first, second * second).sqrt();
            let ratio = |of: f64| if of > 0.0 { 2.0 * mean / of } else { 0.0 };
            for (found, expected) in [
                (metrics.total_return, total),
                (metrics.max_drawdown, drawdown),
                (metrics.turnover, turnover),
                (metrics.sharpe, ratio(deviation)),
                (metrics.sortino, ratio(losses)),
                (metrics.final_value, values[2]),
            ] {
                assert!(near(found, expected), "{values:?}: {found} {expected}");
            }
            assert!(near(sums.drawdown(), drawdown));
        }
    }

    #[test]
    fn an_episode_without_a_change_or_without_a_step_has_no_ratios() {
        let mut sums = EpisodeSums::begin(30_000.0, 252.0);
        assert_eq!(sums.metrics().sharpe.to_bits(), 0);
        for _ in 0..50 {
            sums.arrive(30_000.0);
        }
        let metrics = sums.metrics();
        assert_eq!((metrics.sharpe.to_bits(), metrics.sortino.to_bits()), (0, 0));
        assert_eq!((metrics.total_return.to_bits(), metrics.length), (0, 50));
    }
}
