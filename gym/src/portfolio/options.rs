//! Settings of a portfolio environment.

use std::collections::BTreeMap;

use backcast_core::AutoresetMode;

use super::{
    actions::Actions,
    choices::{Bidding, Delisting, StopLossDay, StopLossPrice, Valuation},
    error::PortfolioError,
    margin::Margin,
    rewards::Reward,
};
use crate::contract::Generator;

/// Maximum initial cash, far below the largest float32.
const MOST_CASH: f64 = 1e30;

/// Settings of a [`PortfolioVectorEnv`](crate::PortfolioVectorEnv), checked when it is made.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[expect(clippy::struct_excessive_bools, reason = "settings, each of its own")]
pub struct PortfolioOptions {
    /// Cash at the start of an episode, in `(0, 1e30]`. Flat observations hold it as float32, and
    /// it may grow.
    pub initial_amount: f64,
    /// Value at the close at or below which an episode is terminated. It must be below
    /// `initial_amount` plus the highest value of `initial_shares`, unless episodes
    /// [`play_on`](Self::play_on).
    pub failure_threshold: f64,
    /// Meaning of the numbers of an action.
    pub actions: Actions,
    /// Shares traded by an action of 1, from 1 to `i32::MAX`. It is not used with weights.
    pub hmax: u32,
    /// Whether positions may be fractions of a share. Otherwise orders are cut to whole shares.
    pub fractional: bool,
    /// Terms of short positions and loans. With `None` shares are sold only if they are held, and
    /// cash is never below 0.
    pub margin: Option<Margin>,
    /// Largest value of a position as a fraction of the equity, above 0; `None` for any. Both are
    /// at the close before the orders. An order that makes a position smaller is not cut.
    pub max_position: Option<f64>,
    /// Largest order as a fraction of the volume of its bar, in `(0, 1]`; `None` for any.
    pub max_volume: Option<f64>,
    /// Fee of a purchase, as a fraction of its value; in `[0, 1)`.
    pub buy_cost_pct: f64,
    /// Fee of a sale, as a fraction of its value; in `[0, 1)`.
    pub sell_cost_pct: f64,
    /// Fees of a purchase and of a sale for single tickers, as fractions in `[0, 1)`. They replace
    /// `buy_cost_pct` and `sell_cost_pct`.
    pub ticker_costs: BTreeMap<String, (f64, f64)>,
    /// Fee of every executed order in cash, in addition to the fraction; at least 0.
    pub fixed_fee: f64,
    /// Slippage in basis points, in `[0, 10000)`: purchases cost more and sales bring less than the
    /// fill price by this fraction.
    pub slippage_bps: f64,
    /// Slippage in cash per share, at least 0, in addition to `slippage_bps`.
    pub slippage_per_share: f64,
    /// Market impact of an order of the whole volume of its bar, in basis points, in
    /// `[0, 10000)`. It grows with the square root of the share of the volume.
    pub impact_bps: f64,
    /// Column of the panel with the cash that a share pays to its holder on a day. Short positions
    /// are charged.
    pub dividends: Option<String>,
    /// Column of the panel with the number of shares that one share becomes on a day; 0 and 1 are
    /// no split.
    pub splits: Option<String>,
    /// Price of the day at which an order is filled.
    pub bidding: Bidding,
    /// Fraction of the average buy price below which a holding is sold, in `[0, 1]`; 0 never sells.
    pub stop_loss_tolerance: f64,
    /// Price that is compared with the average buy price.
    pub stop_loss_calculation: StopLossPrice,
    /// Day on which the price is compared.
    pub stop_loss_day: StopLossDay,
    /// Tickers to trade, in the order of the action and the observation; `None` for all that are
    /// not macro tickers, sorted.
    pub tickers: Option<Vec<String>>,
    /// Number of `tickers` that each portfolio trades; 0 for all. The first ones are taken unless
    /// tickers are drawn.
    pub num_tickers: usize,
    /// Whether the tickers are drawn anew for every portfolio and episode. The drawn ones keep the
    /// order of `tickers`.
    pub shuffle_tickers: bool,
    /// Tickers that may be traded on a day, `[T, D]` over the whole panel in the layout of
    /// [`Panel::mask`](backcast_market::Panel::mask). `None` allows every day with a row.
    pub tradable: Option<Vec<bool>>,
    /// Fate of a holding whose ticker has its last row before the panel ends.
    pub delisting: Delisting,
    /// Shares at the start of an episode, by ticker. Their average price is the open of that day.
    /// For a ticker without a row on that day, it is the last close before. A portfolio gets only
    /// those of the tickers that it trades in the episode. With [`Delisting::Settle`], shares of a
    /// ticker that has left the market are given as cash.
    pub initial_shares: BTreeMap<String, u32>,
    /// Indicators to show, in this order; `None` for all, in the panel's order.
    pub indicators: Option<Vec<String>>,
    /// Macro tickers of the panel whose opens and indicators are shown, in this order.
    pub macro_tickers: Vec<String>,
    /// Range of days of the panel to use, half open, at least two; `None` for all.
    pub days: Option<(usize, usize)>,
    /// Age of the indicators in days: day `d` shows those of day `d - indicator_lag`.
    ///
    /// 0 is look-ahead: indicators are usually computed from the close, and the next order is
    /// filled at that close. It serves comparisons with environments that look ahead.
    pub indicator_lag: usize,
    /// Price at which the observation's `total_asset` values holdings; `None` for the open, or for
    /// the close if `indicator_lag` is 0.
    pub valuation: Option<Valuation>,
    /// Number of days before the current one that [`history_into`] writes, with all columns.
    ///
    /// [`history_into`]: crate::PortfolioVectorEnv::history_into
    pub history: usize,
    /// Number of days before the start of an episode on which all tickers have rows, if the data
    /// allow it. The larger of this and `history` holds.
    pub history_length: usize,
    /// Behaviour of a sub-environment after its episode has ended.
    pub autoreset_mode: AutoresetMode,
    /// With `Disabled`, allows steps after the end of an episode, as long as there are days. A
    /// missing start day is then an error of the reset that draws it, and not of the constructor.
    pub play_on: bool,
    /// Number of steps after which an episode is truncated, at least 1. `None` truncates at the
    /// last day only.
    pub max_episode_steps: Option<u32>,
    /// Reward of a step.
    pub reward: Reward,
    /// Whether [`details`](crate::PortfolioVectorEnv::details) of every step are kept.
    pub step_info: bool,
    /// Source of random numbers.
    pub generator: Generator,
    /// Whether every episode is recorded for [`history`](crate::PortfolioVectorEnv::history) and
    /// [`fills`](crate::PortfolioVectorEnv::fills).
    pub record: bool,
}

impl Default for PortfolioOptions {
    fn default() -> Self {
        Self {
            initial_amount: 30_000.0,
            failure_threshold: 25_000.0,
            actions: Actions::default(),
            hmax: 15,
            fractional: false,
            margin: None,
            max_position: None,
            max_volume: None,
            buy_cost_pct: 0.01,
            sell_cost_pct: 0.01,
            ticker_costs: BTreeMap::new(),
            fixed_fee: 0.0,
            slippage_bps: 0.0,
            slippage_per_share: 0.0,
            impact_bps: 0.0,
            dividends: None,
            splits: None,
            bidding: Bidding::default(),
            stop_loss_tolerance: 0.0,
            stop_loss_calculation: StopLossPrice::default(),
            stop_loss_day: StopLossDay::default(),
            tickers: None,
            num_tickers: 0,
            shuffle_tickers: false,
            tradable: None,
            delisting: Delisting::default(),
            initial_shares: BTreeMap::new(),
            indicators: None,
            macro_tickers: Vec::new(),
            days: None,
            indicator_lag: 1,
            valuation: None,
            history: 0,
            history_length: 0,
            autoreset_mode: AutoresetMode::NextStep,
            play_on: false,
            max_episode_steps: None,
            reward: Reward::default(),
            step_info: false,
            generator: Generator::default(),
            record: false,
        }
    }
}

impl PortfolioOptions {
    /// Refuses numbers outside their ranges.
    pub(crate) fn check(&self) -> Result<(), PortfolioError> {
        let refuse = |option, value, rule| Err(PortfolioError::BadOption { option, value, rule });
        let Self { initial_amount, failure_threshold, hmax, buy_cost_pct, sell_cost_pct, .. } =
            *self;
        if !(initial_amount > 0.0 && initial_amount <= MOST_CASH) {
            return refuse("initial_amount", initial_amount, "an amount above 0 and at most 1e30");
        }
        if !failure_threshold.is_finite() {
            return refuse("failure_threshold", failure_threshold, "a finite amount; 0 is none");
        }
        // Initial shares can lift the value above the threshold. Episodes that play on may start
        // below it.
        if failure_threshold >= initial_amount && self.initial_shares.is_empty() && !self.play_on {
            let rule = "below `initial_amount`, or every episode ends at once";
            return refuse("failure_threshold", failure_threshold, rule);
        }
        if hmax == 0 || i32::try_from(hmax).is_err() {
            return refuse("hmax", f64::from(hmax), "between 1 and 2147483647 shares");
        }
        let fraction = "a fraction in [0, 1); one percent is 0.01";
        for (option, cost) in [("buy_cost_pct", buy_cost_pct), ("sell_cost_pct", sell_cost_pct)] {
            if !(0.0..1.0).contains(&cost) {
                return refuse(option, cost, fraction);
            }
        }
        let single = self.ticker_costs.values().flat_map(|&(buy, sell)| [buy, sell]);
        if let Some(cost) = single.into_iter().find(|cost| !(0.0..1.0).contains(cost)) {
            return refuse("ticker_costs", cost, fraction);
        }
        if !(self.fixed_fee.is_finite() && self.fixed_fee >= 0.0) {
            return refuse("fixed_fee", self.fixed_fee, "a finite amount, at least 0, per order");
        }
        if !(0.0..10_000.0).contains(&self.slippage_bps) {
            let rule = "in [0, 10000) basis points; one percent is 100";
            return refuse("slippage_bps", self.slippage_bps, rule);
        }
        if !(0.0..=1.0).contains(&self.stop_loss_tolerance) {
            let rule = "a fraction of the price paid in [0, 1]; 0 never sells, 0.8 sells after a \
                        loss of a \
                        fifth";
            return refuse("stop_loss_tolerance", self.stop_loss_tolerance, rule);
        }
        if self.max_episode_steps == Some(0) {
            return refuse("max_episode_steps", 0.0, "at least 1, or unset");
        }
        self.check_rules()
    }

    pub(crate) fn valued_at_close(&self) -> bool {
        match self.valuation {
            Some(valuation) => valuation == Valuation::Close,
            None => self.indicator_lag == 0,
        }
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_from_their_text_and_those_left_out_are_the_default() {
        let options = PortfolioOptions {
            stop_loss_day: StopLossDay::Next,
            tickers: Some(vec!["AAPL".to_owned()]),
            ..PortfolioOptions::default()
        };
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<PortfolioOptions>(&text).unwrap(), options);
        let few = r#"{"stop_loss_day": "next", "tickers": ["AAPL"]}"#;
        assert_eq!(serde_json::from_str::<PortfolioOptions>(few).unwrap(), options);
        assert!(serde_json::from_str::<PortfolioOptions>(r#"{"hmx": 3}"#).is_err());
    }
}
