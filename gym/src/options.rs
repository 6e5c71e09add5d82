//! The settings of a portfolio environment and how its episodes are seeded.

use std::collections::BTreeMap;

use backcast_core::AutoresetMode;

use crate::{
    error::EnvError,
    rules::{Bidding, Delisting, Generator, StopLossDay, StopLossPrice, Valuation},
};

/// Most cash to begin with, a hundred-millionth of what float32 holds.
const MOST_CASH: f64 = 1e30;

/// Settings of a [`PortfolioVectorEnv`](crate::PortfolioVectorEnv), checked when it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct PortfolioOptions {
    /// Cash at the start of an episode; above 0, at most 1e30: observations have it as float32 too, and it may grow.
    pub initial_amount: f64,
    /// An episode is terminated when the portfolio, valued at the close, falls to this or below; less than
    /// `initial_amount` and the highest that `initial_shares` are ever worth, unless they [`play_on`](Self::play_on).
    pub failure_threshold: f64,
    /// Shares traded by an action of 1; at least 1.
    pub hmax: u32,
    /// Fee of a purchase, as a fraction of its value; in `[0, 1)`.
    pub buy_cost_pct: f64,
    /// Fee of a sale, as a fraction of its value; in `[0, 1)`.
    pub sell_cost_pct: f64,
    /// Other fees of single tickers: those of a purchase and of a sale.
    pub ticker_costs: BTreeMap<String, (f64, f64)>,
    /// Fee of every executed order, in cash, besides the fraction; at least 0.
    pub fixed_fee: f64,
    /// By how much purchases cost more and sales bring less than the fill price, in hundredths of a
    /// percent; in `[0, 10000)`.
    pub slippage_bps: f64,
    /// At which price of its day an order is filled.
    pub bidding: Bidding,
    /// A holding is sold when its price falls below this fraction of the average price paid; 0: never.
    pub stop_loss_tolerance: f64,
    /// Which price that is.
    pub stop_loss_calculation: StopLossPrice,
    /// On which day it is looked at.
    pub stop_loss_day: StopLossDay,
    /// Tickers to trade, in the order of the action and the observation; `None`: all of the panel
    /// that are not macro tickers, sorted.
    pub tickers: Option<Vec<String>>,
    /// How many of them each portfolio trades; 0: all. The first ones, unless they are drawn.
    pub num_tickers: usize,
    /// Draw which ones, for every portfolio and every episode anew; they keep their order.
    pub shuffle_tickers: bool,
    /// Which tickers can be traded on which days, `[T, D]` over all tickers and days of the panel, as
    /// [`Panel::mask`](backcast_market::Panel::mask); `None`: wherever they have a row.
    pub tradable: Option<Vec<bool>>,
    /// What becomes of a holding whose ticker has its last row before the panel ends.
    pub delisting: Delisting,
    /// Shares at the start of an episode, by ticker; their average price is the open of that day. A portfolio has those
    /// of the tickers that it trades in the episode.
    pub initial_shares: BTreeMap<String, u32>,
    /// Indicators to show, in this order; `None`: all, in the panel's order.
    pub indicators: Option<Vec<String>>,
    /// Macro tickers of the panel whose opens and indicators are shown, in this order.
    pub macro_tickers: Vec<String>,
    /// Days to live on, half open; `None`: all of the panel. At least two.
    pub days: Option<(usize, usize)>,
    /// The indicators shown on day `d` are those of day `d - indicator_lag`. With 0 they are of the day
    /// itself: indicators are usually computed from the close, at which the order is about to be
    /// filled, so 0 is look-ahead and exists to compare with environments that do it.
    pub indicator_lag: usize,
    /// At which price the observation's `total_asset` values holdings; `None`: the open, or the close
    /// where `indicator_lag` is 0 and the close is shown anyway.
    pub valuation: Option<Valuation>,
    /// Days before the current one whose every column [`history_into`] writes; 0: none.
    ///
    /// [`history_into`]: crate::PortfolioVectorEnv::history_into
    pub history: usize,
    /// Episodes start, where the data allow it, after this many days (or `history`, if that is more) on which every ticker has a row.
    pub history_length: usize,
    /// What happens to a sub-environment after its episode has ended.
    pub autoreset_mode: AutoresetMode,
    /// With `Disabled`: an episode that has ended may be stepped on, as long as there are days.
    /// Whether there is a day to start on is then asked at a reset that draws one, not before.
    pub play_on: bool,
    /// Steps after which an episode is truncated; `None`: at the end of the data.
    pub max_episode_steps: Option<u32>,
    /// Where random numbers come from.
    pub generator: Generator,
    /// Keep what happened in every episode: [`history`](crate::PortfolioVectorEnv::history) and
    /// [`fills`](crate::PortfolioVectorEnv::fills).
    pub record: bool,
}

impl Default for PortfolioOptions {
    fn default() -> Self {
        Self {
            initial_amount: 30_000.0,
            failure_threshold: 25_000.0,
            hmax: 15,
            buy_cost_pct: 0.01,
            sell_cost_pct: 0.01,
            ticker_costs: BTreeMap::new(),
            fixed_fee: 0.0,
            slippage_bps: 0.0,
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
            generator: Generator::default(),
            record: false,
        }
    }
}

impl PortfolioOptions {
    pub(crate) fn check(&self) -> Result<(), EnvError> {
        let refuse = |option, value, rule| Err(EnvError::BadOption { option, value, rule });
        let Self { initial_amount, failure_threshold, hmax, buy_cost_pct, sell_cost_pct, .. } =
            *self;
        if !(initial_amount > 0.0 && initial_amount <= MOST_CASH) {
            return refuse("initial_amount", initial_amount, "an amount above 0 and at most 1e30");
        }
        if !failure_threshold.is_finite() {
            return refuse("failure_threshold", failure_threshold, "a finite amount; 0 is none");
        }
        // Shares may be worth the rest, and who plays on after an end has not lost the episode.
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
            let rule = "a fraction of the price paid in [0, 1]; 0 never sells, 0.8 sells after a loss of a \
                        fifth";
            return refuse("stop_loss_tolerance", self.stop_loss_tolerance, rule);
        }
        if self.max_episode_steps == Some(0) {
            return refuse("max_episode_steps", 0.0, "at least 1, or unset");
        }
        Ok(())
    }

    pub(crate) fn valued_at_close(&self) -> bool {
        match self.valuation {
            Some(valuation) => valuation == Valuation::Close,
            None => self.indicator_lag == 0,
        }
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
    /// Sub-environment `i` begins the stream of seed `s + i` (wrapping), as Gymnasium has it.
    One(u64),
    /// Sub-environment `i` begins stream `i` of seed `s`: the stream of `s` itself for the first, and
    /// ones that belong to no other seed for the others.
    Spread(u64),
    /// One entry per sub-environment: begin this stream, or keep the one it has.
    Each(&'a [Option<u64>]),
    /// As `Each`, but who has no entry begins its stream of a seed, as with `Spread`.
    EachOrSpread(&'a [Option<u64>], u64),
}
