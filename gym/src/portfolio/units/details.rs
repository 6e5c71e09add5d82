//! Details of a step: orders, fills, the rules that cut orders, and costs by kind.

use crate::contract::{choice, zeros};

choice!(
    /// Rule that cut an order, the last one if several did.
    OrderLimit, "limit", {
        /// None: the order was filled in full.
        #[default]
        None = "none",
        /// The ticker has no row on the day, or may not be traded.
        Listing = "listing",
        /// More was to be sold than is held, or a position would exceed `i32::MAX` units.
        Holding = "holding",
        /// `max_position`.
        Position = "position",
        /// `max_volume`.
        Volume = "volume",
        /// The cash, or with a margin the equity.
        Funds = "funds",
        /// There is no positive price, or no volume to compute the impact from.
        Price = "price",
    }
);

/// Details of the last step of `N` portfolios with `T` tickers. A portfolio that did not act,
/// since the step began its episode, has zeros.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepDetails {
    /// Whether the portfolio acted, `[N]`.
    pub acted: Vec<bool>,
    /// Units ordered by the action, negative to sell, `[N, T]`.
    pub orders: Vec<f64>,
    /// Units bought less units sold, `[N, T]`: orders, stop losses and liquidations.
    pub fills: Vec<f64>,
    /// Rules that cut the orders, `[N, T]`.
    pub limits: Vec<OrderLimit>,
    /// Fees of orders in cash, fractions and fixed ones, `[N]`.
    pub fees: Vec<f64>,
    /// Slippage in cash, `[N]`.
    pub slippage: Vec<f64>,
    /// Market impact in cash, `[N]`.
    pub impact: Vec<f64>,
    /// Fees for borrowed shares, `[N]`.
    pub borrow: Vec<f64>,
    /// Interest on cash owed, `[N]`.
    pub interest: Vec<f64>,
    /// Dividends received, negative if short positions paid more, `[N]`.
    pub dividends: Vec<f64>,
    /// Whether positions were closed below the maintenance margin, `[N]`: one at least. False if
    /// none of them can be traded that day.
    pub liquidated: Vec<bool>,
}

impl StepDetails {
    /// Returns empty details, or `None` where memory does not suffice.
    pub(super) fn new(n: usize, tickers: usize) -> Option<Self> {
        let all = n.checked_mul(tickers)?;
        Some(Self {
            acted: zeros(n)?,
            orders: zeros(all)?,
            fills: zeros(all)?,
            limits: zeros(all)?,
            fees: zeros(n)?,
            slippage: zeros(n)?,
            impact: zeros(n)?,
            borrow: zeros(n)?,
            interest: zeros(n)?,
            dividends: zeros(n)?,
            liquidated: zeros(n)?,
        })
    }

    /// Sets the details of a portfolio to zeros.
    pub(crate) fn clear(&mut self, env: usize) {
        let tickers = self.orders.len() / self.acted.len();
        let mine = env * tickers..(env + 1) * tickers;
        self.acted[env] = false;
        self.orders[mine.clone()].fill(0.0);
        self.fills[mine.clone()].fill(0.0);
        self.limits[mine].fill(OrderLimit::None);
        for cash in [
            &mut self.fees,
            &mut self.slippage,
            &mut self.impact,
            &mut self.borrow,
            &mut self.interest,
            &mut self.dividends,
        ] {
            cash[env] = 0.0;
        }
        self.liquidated[env] = false;
    }

    /// Returns all costs of the last step of a portfolio.
    ///
    /// # Panics
    ///
    /// If there is no such portfolio, as with any slice.
    #[must_use]
    pub fn costs(&self, env: usize) -> f64 {
        let Self { fees, slippage, impact, borrow, interest, .. } = self;
        fees[env] + slippage[env] + impact[env] + borrow[env] + interest[env]
    }
}
