//! Record of an episode, day by day.

/// Maximum fills of a ticker in one step: an order, and a stop loss, a liquidation or a settlement
/// of the rest.
pub(crate) const MOST_FILLS: usize = 2;

/// An executed order, or a holding that was settled.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PortfolioFill {
    /// Index of the sub-environment.
    pub env: usize,
    /// Position among the tickers of the sub-environment.
    pub ticker: usize,
    /// Price per share, with slippage and without fees.
    pub price: f64,
    /// Fees paid, in cash.
    pub fee: f64,
    /// Number of shares, or units: positive if bought, negative if sold.
    pub quantity: f64,
    /// True if a stop loss sold the shares.
    pub is_stop_loss: bool,
    /// True if the shares became cash because their ticker leaves the market, without an order.
    pub is_settlement: bool,
}

/// An episode, day by day: `S` steps have `S + 1` days. Values are at the close.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EpisodeHistory {
    /// Positions of the tickers in the panel, `[T]`.
    pub tickers: Vec<usize>,
    /// Days of the panel, `[S + 1]`.
    pub day: Vec<i32>,
    /// Cash at the start of the day, after stop losses of [`StopLossDay::Next`], `[S + 1]`.
    ///
    /// [`StopLossDay::Next`]: crate::StopLossDay::Next
    pub cash: Vec<f64>,
    /// Shares held at the moment of `cash`, negative if short, `[S + 1, T]`.
    pub shares: Vec<f64>,
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

    /// Allocates room for the next day. Returns whether memory suffices.
    fn reserve(&mut self, tickers: usize) -> bool {
        let Self { tickers: _, day, cash, shares, value, fills } = self;
        day.try_reserve(1).is_ok()
            && cash.try_reserve(1).is_ok()
            && shares.try_reserve(tickers).is_ok()
            && value.try_reserve(1).is_ok()
            && fills.try_reserve(MOST_FILLS * tickers).is_ok()
    }

    /// Allocates room for the first day of an episode that replaces this one. Returns whether
    /// memory suffices.
    fn reserve_to_begin(&mut self, of: usize) -> bool {
        let Self { tickers, day, cash, shares, value, fills: _ } = self;
        tickers.try_reserve_exact(of.saturating_sub(tickers.len())).is_ok()
            && day.try_reserve(usize::from(day.is_empty())).is_ok()
            && cash.try_reserve(usize::from(cash.is_empty())).is_ok()
            && shares.try_reserve(of.saturating_sub(shares.len())).is_ok()
            && value.try_reserve(usize::from(value.is_empty())).is_ok()
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

    pub(crate) fn arrive(
        &mut self,
        day: i32,
        cash: f64,
        shares: impl Iterator<Item = f64>,
        value: f64,
    ) {
        self.day.push(day);
        self.cash.push(cash);
        self.shares.extend(shares);
        self.value.push(value);
    }

    pub(crate) fn enter_fills(&mut self, fills: &[PortfolioFill]) {
        // `arrive` has already added the day after the step.
        let step = u32::try_from(self.steps().saturating_sub(1)).unwrap_or(u32::MAX);
        self.fills.extend(fills.iter().map(|&fill| (step, fill)));
    }
}

/// Running episode of one sub-environment, and the previous episode.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpisodeRecord {
    pub(crate) running: EpisodeHistory,
    pub(crate) before: EpisodeHistory,
}

impl EpisodeRecord {
    /// Allocates room for the next day of the running episode and the first day of the following
    /// one. Returns whether memory suffices.
    pub(crate) fn reserve(&mut self, tickers: usize) -> bool {
        self.running.reserve(tickers) && self.before.reserve_to_begin(tickers)
    }
}
