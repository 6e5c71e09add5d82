//! Settings of a portfolio environment in the form that a step needs.

use backcast_market::Panel;

use super::{
    choices::{Bidding, Delisting, StopLossDay, StopLossPrice},
    departures::Departures,
    error::PortfolioError,
    options::PortfolioOptions,
    selection::traded,
    units::UnitTerms,
};
use crate::contract::check_length;

/// Settings in the form that a step needs. Lists are indexed by position in the panel.
#[derive(Clone, Debug)]
pub(crate) struct TradingRules {
    pub(crate) initial_amount: f64,
    /// Shares at the start of an episode; empty if there are none.
    pub(crate) initial_shares: Vec<i32>,
    pub(crate) failure_threshold: f64,
    /// Shares per action of 1.
    pub(crate) hmax: f64,
    /// Fees of each ticker as fractions of the value.
    pub(crate) costs: Vec<Sides>,
    /// Fees of all tickers; `None` if some have fees of their own.
    pub(crate) same_costs: Option<Sides>,
    pub(crate) fixed_fee: f64,
    /// Factors by which slippage multiplies prices.
    pub(crate) slippage: Sides,
    pub(crate) bidding: Bidding,
    pub(crate) stop_loss_tolerance: f64,
    pub(crate) stop_loss_price: StopLossPrice,
    pub(crate) stop_loss_day: StopLossDay,
    /// Whether a ticker may be traded on a day, `[T, D]`, and the number of days `D`. `None` allows
    /// all.
    pub(crate) tradable: Option<(Vec<bool>, usize)>,
    /// Last days of the tickers; empty if holdings are kept after them.
    pub(crate) departures: Departures,
    pub(crate) max_episode_steps: u32,
    /// Number of steps of an episode within which no holding can exceed `i32::MAX`.
    pub(crate) countable_steps: u32,
    pub(crate) valued_at_close: bool,
    /// Rules of units, limits and margins.
    pub(crate) terms: UnitTerms,
}

/// A number for purchases and one for sales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub(crate) buy: f64,
    pub(crate) sell: f64,
}

impl TradingRules {
    /// Returns rules that are equal for all tickers, without initial shares and without departures.
    pub(crate) fn uniform(options: &PortfolioOptions, tickers: usize) -> Self {
        let slip = options.slippage_bps / 10_000.0;
        let costs = Sides { buy: options.buy_cost_pct, sell: options.sell_cost_pct };
        Self {
            initial_amount: options.initial_amount,
            initial_shares: Vec::new(),
            failure_threshold: options.failure_threshold,
            hmax: f64::from(options.hmax),
            costs: vec![costs; tickers],
            same_costs: Some(costs),
            fixed_fee: options.fixed_fee,
            slippage: Sides { buy: 1.0 + slip, sell: 1.0 - slip },
            bidding: options.bidding,
            stop_loss_tolerance: options.stop_loss_tolerance,
            stop_loss_price: options.stop_loss_calculation,
            stop_loss_day: options.stop_loss_day,
            tradable: None,
            departures: Departures::default(),
            max_episode_steps: options.max_episode_steps.unwrap_or(u32::MAX),
            countable_steps: i32::MAX.unsigned_abs() / options.hmax.max(1),
            valued_at_close: options.valued_at_close(),
            terms: UnitTerms::of(options),
        }
    }

    /// Returns the rules for a panel. Refuses tickers that cannot be traded, initial shares above
    /// `i32::MAX`, and `tradable` of another length.
    pub(crate) fn new(panel: &Panel, options: &PortfolioOptions) -> Result<Self, PortfolioError> {
        let (tickers, days) = (panel.tickers().len(), panel.days());
        let mut rules = Self::uniform(options, tickers);
        for (name, &(buy, sell)) in &options.ticker_costs {
            rules.costs[traded(panel, name)?] = Sides { buy, sell };
            rules.same_costs = None;
        }
        if !options.initial_shares.is_empty() {
            rules.initial_shares = vec![0; tickers];
        }
        for (name, &shares) in &options.initial_shares {
            let ticker = traded(panel, name)?;
            rules.initial_shares[ticker] =
                i32::try_from(shares).map_err(|_| PortfolioError::BadOption {
                    option: "initial_shares",
                    value: f64::from(shares),
                    rule: "at most 2147483647 shares of a ticker",
                })?;
        }
        if options.delisting == Delisting::Settle {
            rules.departures = Departures::new(panel);
        }
        rules.terms.find_columns(panel, options)?;
        let most = rules.initial_shares.iter().copied().max().unwrap_or_default();
        rules.countable_steps = (i32::MAX - most).unsigned_abs() / options.hmax;
        if let Some(tradable) = &options.tradable {
            check_length("tradable", tickers * days, Some(tradable.len()))?;
            rules.tradable = Some((tradable.clone(), days));
        }
        Ok(rules)
    }

    /// Returns the tickers that have initial shares.
    pub(crate) fn held_at_start(&self) -> impl Iterator<Item = usize> {
        let shares = self.initial_shares.iter().enumerate();
        shares.filter_map(|(ticker, shares)| (*shares > 0).then_some(ticker))
    }

    /// Returns whether a ticker may be traded on a day.
    pub(crate) fn tradable(&self, ticker: usize, day: usize) -> bool {
        self.tradable.as_ref().is_none_or(|(tradable, days)| tradable[ticker * days + day])
    }
}
