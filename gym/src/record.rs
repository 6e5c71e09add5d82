//! What is kept of an episode for those who look at it afterwards.

/// One executed order, or a holding that was settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// The sub-environment.
    pub env: usize,
    /// Position among its tickers.
    pub ticker: usize,
    /// Price per share, slippage included, fees not.
    pub price: f64,
    /// Fees paid.
    pub fee: f64,
    /// Shares: positive bought, negative sold.
    pub quantity: i32,
    /// Sold by a stop loss?
    pub is_stop_loss: bool,
    /// Turned into cash because its ticker leaves the market? No order, then.
    pub is_settlement: bool,
}

/// An episode, day by day: `S` steps have `S + 1` days. Values are at the close.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpisodeHistory {
    /// Positions of the tickers in the panel, `[T]`.
    pub tickers: Vec<usize>,
    /// Days of the panel, `[S + 1]`.
    pub day: Vec<i32>,
    /// Cash when the day began, after a stop loss if those come then, `[S + 1]`.
    pub cash: Vec<f64>,
    /// Shares held then, `[S + 1, T]`.
    pub shares: Vec<i32>,
    /// Value at the close of the day, before its orders, `[S + 1]`.
    pub value: Vec<f64>,
    /// Every executed order and settlement: the step, counted from 0, and what it was.
    pub fills: Vec<(u32, Fill)>,
}

impl EpisodeHistory {
    /// Steps, `S`.
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

    pub(crate) fn note(&mut self, fills: &[Fill]) {
        // The day that the step arrived at is there already.
        let step = u32::try_from(self.steps().saturating_sub(1)).unwrap_or(u32::MAX);
        self.fills.extend(fills.iter().map(|&fill| (step, fill)));
    }
}

/// The running episode of one sub-environment, and the one before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) running: EpisodeHistory,
    pub(crate) before: EpisodeHistory,
}
