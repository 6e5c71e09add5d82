//! The stop loss: sells a holding whose price falls below a fraction of its average purchase price.

use backcast_market::PriceColumn;

use super::{account::PortfolioAccount, choices::StopLossPrice};

impl PortfolioAccount<'_> {
    /// Sells every holding whose price has fallen below its limit. A holding that has no row today,
    /// or may not be traded today, is kept.
    ///
    /// `before`: shares held before today's orders, if the checked price may be older than the
    /// orders. Holdings that have grown since are left out; an empty slice leaves out none.
    pub(crate) fn stop_losses(&mut self, open: &[f64], before: &[i32]) {
        let rules = self.today.rules;
        for (ticker, &open) in open.iter().enumerate() {
            let held = self.shares[ticker];
            if held == 0 || open <= 0.0 || before.get(ticker).is_some_and(|&before| held > before) {
                continue;
            }
            let price = match rules.stop_loss_price {
                StopLossPrice::Close => self.today.closes[ticker],
                StopLossPrice::Low => self.today.row(ticker).value(PriceColumn::Low as usize),
            };
            if price < self.avg_buy_price[ticker] * rules.stop_loss_tolerance
                && rules.tradable(self.today.tickers[ticker], self.today.day)
            {
                self.sell(ticker, held.unsigned_abs(), true);
            }
        }
    }
}
