//! Record of an episode, day by day.

/// An executed order, or a holding that was settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortfolioFill {
    /// Sub-environment.
    pub env: usize,
    /// Position among its tickers.
    pub ticker: usize,
    /// Price per share, slippage included, fees not.
    pub price: f64,
    /// Fees paid.
    pub fee: f64,
    /// Shares: positive bought, negative sold.
    pub quantity: i32,
    /// True if a stop loss sold it.
    pub is_stop_loss: bool,
    /// True if it became cash because its ticker leaves the market; it is not an order then.
    pub is_settlement: bool,
}

/// An episode, day by day: `S` steps have `S + 1` days. Values are at the close.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpisodeHistory {
    /// Positions of the tickers in the panel, `[T]`.
    pub tickers: Vec<usize>,
    /// Days of the panel, `[S + 1]`.
    pub day: Vec<i32>,
    /// Cash at the start of the day, after stop losses of [`StopLossDay::Next`], `[S + 1]`.
    ///
    /// [`StopLossDay::Next`]: crate::StopLossDay::Next
    pub cash: Vec<f64>,
    /// Shares held at that moment, `[S + 1, T]`.
    pub shares: Vec<i32>,
    /// Value at the close of the day, before its orders, `[S + 1]`.
    pub value: Vec<f64>,
    /// Executed orders and settlements, each with its step, counted from 0.
    pub fills: Vec<(u32, PortfolioFill)>,
}

impl EpisodeHistory {
    /// Returns the number of steps, `S`.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.day.len().saturating_sub(1)
    }

    pub(crate) fn begin(&mut self, tickers: &[usize]) {
        let Self { tickers: mine, day, cash, shares, value, fills } = self;
        day.clear();
        cash.clear();
        shares.clear();
        value.clear();
        fills.clear();
        mine.clear();
        mine.extend_from_slice(tickers);
    }

    pub(crate) fn arrive(&mut self, day: i32, cash: f64, shares: &[i32], value: f64) {
        self.day.push(day);
        self.cash.push(cash);
        self.shares.extend_from_slice(shares);
        self.value.push(value);
    }

    pub(crate) fn enter_fills(&mut self, fills: &[PortfolioFill]) {
        // `arrive` has entered the day after the step already.
        let step = u32::try_from(self.steps().saturating_sub(1)).unwrap_or(u32::MAX);
        self.fills.extend(fills.iter().map(|&fill| (step, fill)));
    }
}

/// Running episode of one sub-environment, and the one before.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpisodeRecord {
    pub(crate) running: EpisodeHistory,
    pub(crate) before: EpisodeHistory,
}
