//! Warnings about prices and volumes that make orders or holdings impossible with the settings, or
//! that contradict a column of splits.

use super::PortfolioVectorEnv;
use crate::portfolio::setup::{CLOSE, PortfolioSetup, has_no_volume};

/// Maximum number of tickers named in a warning; the others are counted.
const NAMED: usize = 3;

/// Lowest close of a ticker.
struct LowestClose {
    ticker: usize,
    close: f64,
}

impl PortfolioSetup {
    /// Returns the lowest positive close of every tradable ticker within the days of the
    /// environment. Leaves out tickers without one.
    fn lowest_closes(&self) -> Vec<LowestClose> {
        let (rows, (start, end)) = (self.panel.rows(), self.days);
        let of = |&ticker: &usize| {
            let closes = (start..end).map(|day| rows.row(ticker, day).value(CLOSE));
            let close = closes.filter(|&close| close > 0.0).reduce(f64::min)?;
            Some(LowestClose { ticker, close })
        };
        self.tradable_pool().iter().filter_map(of).collect()
    }

    /// Returns a warning about tickers of which one share costs more, at the lowest close and with
    /// fees, than an episode begins with. Returns `None` if there are none, or if fractions of a
    /// share can be bought.
    fn out_of_reach(&self, lowest: &[LowestClose]) -> Option<String> {
        let most = self.most_at_start();
        let dear = lowest.iter().filter(|LowestClose { ticker, close }| {
            let fee = self.rules.costs[*ticker].buy;
            close * self.rules.slippage.buy * (1.0 + fee) + self.rules.fixed_fee > most
        });
        let dear = dear.filter(|_| !self.options.fractional);
        let (names, count) = self.named(dear);
        (count > 0).then(|| {
            format!(
                "one share costs more than an episode begins with, {most}, at the lowest close \
                 and with its fee: \
                 {names}; no order for {} can be filled until the portfolio has grown: raise \
                 initial_amount, give \
                 prices of a smaller unit, or leave {} out of tickers",
                if count == 1 { "it" } else { "them" },
                if count == 1 { "it" } else { "them" },
            )
        })
    }

    /// Returns a warning about tickers of which `i32::MAX` shares are worth less, at the lowest
    /// close, than an episode begins with. Returns `None` if there are none.
    fn too_small(&self, lowest: &[LowestClose]) -> Option<String> {
        let most = self.most_at_start();
        let limit = f64::from(i32::MAX);
        let small = lowest.iter().filter(|LowestClose { close, .. }| close * limit < most);
        let (names, count) = self.named(small);
        (count > 0).then(|| {
            format!(
                "a holding stops at {} shares, which at the lowest close are worth less than the \
                 {most} that an \
                 episode begins with: {names}; give prices of a larger unit, of 1000 shares say",
                i32::MAX
            )
        })
    }

    /// Returns a warning about tickers without volume, of which no order is filled with a setting
    /// that needs it. Leaves out tickers that `lowest` does not name. Returns `None` if there are
    /// none.
    fn without_volume(&self, lowest: &[LowestClose]) -> Option<String> {
        let option = self.options.needs_volume()?;
        let (start, end) = self.days;
        let none = lowest
            .iter()
            .filter(|LowestClose { ticker, .. }| has_no_volume(&self.panel, *ticker, start..end));
        let (names, count) = self.named(none);
        (count > 0).then(|| {
            format!(
                "the volume of {count} ticker(s) is 0 on all days, and `{option}` needs volumes: \
                 {names}; no order for {} can be filled: leave `{option}` out, load volumes, or \
                 leave {} out of tickers",
                if count == 1 { "it" } else { "them" },
                if count == 1 { "it" } else { "them" },
            )
        })
    }

    /// Returns a warning about a column of splits that contradicts the prices, or that no setting
    /// names although prices move by it.
    fn doubtful_splits(&self) -> Option<String> {
        let (tickers, days) = (self.tradable_pool(), self.days.0..self.days.1);
        let named = self.rules.terms.splits;
        let (column, bars) = match named {
            Some(column) => (column, self.panel.told_splits(column, tickers, days).still),
            None => self.panel.splits_by_name(tickers, days)?,
        };
        let (ticker, day) = bars.first?;
        let (name, ticker) = (&self.panel.columns()[column], &self.panel.tickers()[ticker]);
        let (date, count) = (self.panel.date(day).unwrap_or_default(), bars.count);
        Some(if named.is_some() {
            format!(
                "column {name:?} has a split of {ticker:?} on {date}, and its price does not move \
                 by it ({count} such split(s) in all). Holders get shares for nothing if prices \
                 are adjusted already: leave the setting `splits` out, or load prices that are \
                 not adjusted"
            )
        } else {
            format!(
                "the price of {ticker:?} moves on {date} by the split in column {name:?}, which no \
                 setting names ({count} such split(s) in all). Holders gain or lose by it: give \
                 the column as the setting `splits`, or load adjusted prices"
            )
        })
    }

    fn named<'a>(&self, found: impl Iterator<Item = &'a LowestClose>) -> (String, usize) {
        let found: Vec<&LowestClose> = found.collect();
        let name = |LowestClose { ticker, close }: &&LowestClose| {
            format!("{:?} at {close}", self.panel.tickers()[*ticker])
        };
        let mut names: Vec<String> = found.iter().take(NAMED).map(name).collect();
        if found.len() > NAMED {
            names.push(format!("and {} more", found.len() - NAMED));
        }
        (names.join(", "), found.len())
    }
}

impl PortfolioVectorEnv {
    /// Returns warnings about orders and holdings that these settings make impossible at the prices
    /// and volumes of the panel, and about splits that prices contradict. Passes once over the
    /// closes of all tickers, and at most once over their volumes and each column of splits.
    #[must_use]
    pub fn price_warnings(&self) -> Vec<String> {
        let lowest = self.setup.lowest_closes();
        let all = [
            self.setup.out_of_reach(&lowest),
            self.setup.too_small(&lowest),
            self.setup.without_volume(&lowest),
            self.setup.doubtful_splits(),
        ];
        all.into_iter().flatten().collect()
    }
}
