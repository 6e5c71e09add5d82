//! Prices at which the settings make an order or a holding impossible: found when an environment is made.

use crate::{
    portfolio::PortfolioVectorEnv,
    world::{CLOSE, World},
};

/// Tickers named in a warning; of the others it says how many there are.
const NAMED: usize = 3;

/// What a ticker's lowest close makes impossible.
struct Lowest {
    ticker: usize,
    close: f64,
}

impl World {
    /// The lowest close of every ticker that may be traded, within the days of the environment.
    fn lowest_closes(&self) -> Vec<Lowest> {
        let (rows, (start, end)) = (self.panel.rows(), self.days);
        let of = |&ticker: &usize| {
            let closes = (start..end).map(|day| rows.row(ticker, day).value(CLOSE));
            let close = closes.filter(|&close| close > 0.0).reduce(f64::min)?;
            Some(Lowest { ticker, close })
        };
        self.tradable_pool().iter().filter_map(of).collect()
    }

    /// Tickers of which not even one share can be bought with all that an episode begins with.
    fn out_of_reach(&self, lowest: &[Lowest]) -> Option<String> {
        let most = self.most_at_start();
        let dear = lowest.iter().filter(|Lowest { ticker, close }| {
            let fee = self.rules.costs[*ticker].buy;
            close * self.rules.slippage.buy * (1.0 + fee) + self.rules.fixed_fee > most
        });
        let (names, count) = self.named(dear);
        (count > 0).then(|| {
            format!(
                "one share costs more than an episode begins with, {most}, at the lowest close and with its fee: \
                 {names}; no order for {} can be filled until the portfolio has grown: raise initial_amount, give \
                 prices of a smaller unit, or leave {} out of tickers",
                if count == 1 { "it" } else { "them" },
                if count == 1 { "it" } else { "them" },
            )
        })
    }

    /// Tickers of which the most shares that can be counted are worth less than an episode begins with.
    fn too_small(&self, lowest: &[Lowest]) -> Option<String> {
        let most = self.most_at_start();
        let limit = f64::from(i32::MAX);
        let small = lowest.iter().filter(|Lowest { close, .. }| close * limit < most);
        let (names, count) = self.named(small);
        (count > 0).then(|| {
            format!(
                "a holding stops at {} shares, which at the lowest close are worth less than the {most} that an \
                 episode begins with: {names}; give prices of a larger unit, of 1000 shares say",
                i32::MAX
            )
        })
    }

    fn named<'a>(&self, found: impl Iterator<Item = &'a Lowest>) -> (String, usize) {
        let found: Vec<&Lowest> = found.collect();
        let name = |Lowest { ticker, close }: &&Lowest| {
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
    /// What the prices of the tickers make impossible with these settings, in words, for a warning when an environment
    /// is made. One pass over the closes of all tickers.
    #[must_use]
    pub fn price_warnings(&self) -> Vec<String> {
        let lowest = self.world.lowest_closes();
        let both = [self.world.out_of_reach(&lowest), self.world.too_small(&lowest)];
        both.into_iter().flatten().collect()
    }
}
