//! The settings of a portfolio environment and how its episodes are seeded.

use backcast_core::AutoresetMode;

use crate::error::EnvError;

/// Settings of a [`PortfolioVectorEnv`](crate::PortfolioVectorEnv), checked when it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct PortfolioOptions {
    /// Cash at the start of an episode; above 0.
    pub initial_amount: f64,
    /// An episode is terminated when the portfolio, valued at the close, falls to this or below;
    /// less than `initial_amount`.
    pub failure_threshold: f64,
    /// Shares traded by an action of 1; at least 1.
    pub hmax: u32,
    /// Fee of a purchase, as a fraction of its value; in `[0, 1)`.
    pub buy_cost_pct: f64,
    /// Fee of a sale, as a fraction of its value; in `[0, 1)`.
    pub sell_cost_pct: f64,
    /// Tickers to trade, in the order of the action and the observation; `None`: all of the panel
    /// that are not macro tickers, sorted.
    pub tickers: Option<Vec<String>>,
    /// Days to live on, half open; `None`: all of the panel. At least two.
    pub days: Option<(usize, usize)>,
    /// The indicators shown on day `d` are those of day `d - indicator_lag`. With 0 they are of the day
    /// itself: indicators are usually computed from the close, at which the order is about to be
    /// filled, so 0 is look-ahead and exists to compare with environments that do it.
    pub indicator_lag: usize,
    /// What happens to a sub-environment after its episode has ended.
    pub autoreset_mode: AutoresetMode,
    /// Steps after which an episode is truncated; `None`: at the end of the data.
    pub max_episode_steps: Option<u32>,
}

impl Default for PortfolioOptions {
    fn default() -> Self {
        Self {
            initial_amount: 30_000.0,
            failure_threshold: 25_000.0,
            hmax: 15,
            buy_cost_pct: 0.01,
            sell_cost_pct: 0.01,
            tickers: None,
            days: None,
            indicator_lag: 1,
            autoreset_mode: AutoresetMode::NextStep,
            max_episode_steps: None,
        }
    }
}

impl PortfolioOptions {
    pub(crate) fn check(&self) -> Result<(), EnvError> {
        let refuse = |option, value, rule| Err(EnvError::BadOption { option, value, rule });
        let Self { initial_amount, failure_threshold, hmax, buy_cost_pct, sell_cost_pct, .. } =
            *self;
        if !(initial_amount.is_finite() && initial_amount > 0.0) {
            return refuse("initial_amount", initial_amount, "a finite amount above 0");
        }
        if !(failure_threshold.is_finite() && failure_threshold < initial_amount) {
            let rule = "finite and below `initial_amount`, or every episode ends at once";
            return refuse("failure_threshold", failure_threshold, rule);
        }
        if hmax == 0 || i32::try_from(hmax).is_err() {
            return refuse("hmax", f64::from(hmax), "between 1 and 2147483647 shares");
        }
        for (option, cost) in [("buy_cost_pct", buy_cost_pct), ("sell_cost_pct", sell_cost_pct)] {
            if !(0.0..1.0).contains(&cost) {
                return refuse(option, cost, "a fraction in [0, 1); one percent is 0.01");
            }
        }
        if self.max_episode_steps == Some(0) {
            return refuse("max_episode_steps", 0.0, "at least 1, or unset");
        }
        Ok(())
    }
}

/// Where the random streams of the sub-environments go on at a reset.
///
/// Each sub-environment has a stream of its own that depends on its seed alone: neither on the number of
/// environments nor on what happens in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetSeed<'a> {
    /// Where they are. Streams that were never seeded began at random.
    #[default]
    Keep,
    /// Sub-environment `i` begins the stream of seed `s + i` (wrapping).
    One(u64),
    /// One entry per sub-environment: begin this stream, or keep the one it has.
    Each(&'a [Option<u64>]),
}
