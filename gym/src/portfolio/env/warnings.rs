//! Warnings about prices that make orders or holdings impossible with the settings, or that
//! contradict a column of splits.

use super::PortfolioVectorEnv;
use crate::portfolio::setup::{CLOSE, OPEN, PortfolioSetup};

/// Maximum number of tickers named in a warning; the others are counted.
const NAMED: usize = 3;

/// Logarithm of the smallest split that a price tells from a usual move between bars.
const SURE_SPLIT: f64 = 0.4;

/// Bars with a split in a column, by what the price does on them.
#[derive(Default)]
struct ToldSplits {
    /// First bar on which the price moves as the split says, and the number of them.
    moved: (Option<(usize, usize)>, usize),
    /// First bar on which it does not, and the number of them.
    still: (Option<(usize, usize)>, usize),
}

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

    /// Compares the splits of a column with the prices of the tradable tickers.
    fn told_splits(&self, column: usize) -> ToldSplits {
        let (rows, (start, end)) = (self.panel.rows(), self.days);
        let mut told = ToldSplits::default();
        for &ticker in self.tradable_pool() {
            let mut before = 0.0;
            for day in start..end {
                let row = rows.row(ticker, day);
                let (open, split) = (row.value(OPEN), row.value(column));
                if open <= 0.0 {
                    continue;
                }
                if before > 0.0 && split > 0.0 && split.ln().abs() >= SURE_SPLIT {
                    let moved = (open / before).ln();
                    let as_told = (moved + split.ln()).abs() < moved.abs();
                    let (first, count) = if as_told { &mut told.moved } else { &mut told.still };
                    first.get_or_insert((ticker, day));
                    *count += 1;
                }
                before = row.value(CLOSE);
            }
        }
        told
    }

    /// Returns a warning about a column of splits that contradicts the prices, or that no setting
    /// names although prices move by it.
    fn doubtful_splits(&self) -> Option<String> {
        let first = self.panel.columns().len() - self.panel.indicators().len();
        let is_named = |name: &String| match &self.options.splits {
            Some(splits) => name == splits,
            None => name.to_lowercase().contains("split"),
        };
        let at = self.panel.indicators().iter().position(is_named)?;
        let (name, told) = (&self.panel.indicators()[at], self.told_splits(first + at));
        let named = self.options.splits.is_some();
        let (found, count) = if named { told.still } else { told.moved };
        let (ticker, day) = found?;
        let ticker = &self.panel.tickers()[ticker];
        let date = self.panel.date(day).unwrap_or_default();
        Some(if named {
            format!(
                "column {name:?} has a split of {ticker:?} on {date}, and its price does not move \
                 by it ({count} such split(s) in all): holders get shares for nothing if prices \
                 are adjusted already, so leave the setting `splits` out, or load prices that are \
                 not adjusted"
            )
        } else {
            format!(
                "the price of {ticker:?} moves on {date} by the split in column {name:?}, which no \
                 setting names ({count} such split(s) in all), so holders gain or lose what they \
                 would not: give the column as the setting `splits`, or load adjusted prices"
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
    /// of the panel, and about splits that prices contradict. Passes once over the closes of all
    /// tickers, and once over a column of splits.
    #[must_use]
    pub fn price_warnings(&self) -> Vec<String> {
        let lowest = self.setup.lowest_closes();
        let all = [
            self.setup.out_of_reach(&lowest),
            self.setup.too_small(&lowest),
            self.setup.doubtful_splits(),
        ];
        all.into_iter().flatten().collect()
    }
}
