//! Tickers that leave the market before the panel ends, and their last days.

use backcast_market::Panel;

/// The last days of the tickers of a panel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departures {
    /// Last day of each ticker; `usize::MAX` for a ticker that has a row on the panel's last day,
    /// or no row at all.
    last_days: Vec<usize>,
    /// Whether a day is the last one of some ticker. Most steps look up nothing else.
    on_day: Vec<bool>,
}

impl Departures {
    /// Finds the last rows of all tickers.
    pub(crate) fn new(panel: &Panel) -> Self {
        let (tickers, days) = (panel.tickers().len(), panel.days());
        let leaves = |ticker| panel.last_day(ticker).filter(|&day| day + 1 < days);
        let last_days: Vec<usize> =
            (0..tickers).map(|ticker| leaves(ticker).unwrap_or(usize::MAX)).collect();
        let mut on_day = vec![false; days];
        for &day in last_days.iter().filter(|&&day| day < days) {
            on_day[day] = true;
        }
        Self { last_days, on_day }
    }

    /// Returns whether `day` is the last one of some ticker; false without departures.
    #[inline]
    pub(crate) fn any_on(&self, day: usize) -> bool {
        self.on_day.get(day) == Some(&true)
    }

    /// Returns whether `day` is the last one of this ticker.
    pub(crate) fn is_last(&self, ticker: usize, day: usize) -> bool {
        self.last_days.get(ticker) == Some(&day)
    }

    /// Returns whether the last day of this ticker is before `day`.
    pub(crate) fn gone_by(&self, ticker: usize, day: usize) -> bool {
        self.last_days.get(ticker).is_some_and(|&last| last < day)
    }
}
