//! The money rules of one portfolio on one day.
//!
//! Orders are `trunc(action * hmax)` shares. Sells come first, the largest first, then buys, the largest
//! first; equal orders go in ticker order. A sale is cut to what is held, a purchase to what the cash at that
//! moment pays for, fee included. The average buy price includes the fee. These are the rules of
//! `fast_finrl`'s environments; we differ where equal orders keep their order however many there are, where
//! cash cannot fall below zero by a rounding error, and where a ticker without a row is not traded.

use backcast_market::{PanelRow, PanelRows, PriceColumn};

use crate::{
    metrics::Sums,
    record::Fill,
    rules::{Bidding, StopLossPrice},
    stream::Stream,
    world::Rules,
};

/// Orders of one day, kept between days for their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    sells: Vec<Order>,
    buys: Vec<Order>,
}

/// Shares and ticker in one sortable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u64);

impl Order {
    fn new(quantity: u32, ticker: usize) -> Self {
        // Ascending order of words: large quantities first, then tickers in order.
        Self((u64::from(!quantity) << 32) | (ticker as u64 & u64::from(u32::MAX)))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
    fn parts(self) -> (u32, usize) {
        (!((self.0 >> 32) as u32), self.0 as u32 as usize)
    }
}

impl Orders {
    pub(crate) fn with_capacity(tickers: usize) -> Self {
        Self { sells: Vec::with_capacity(tickers), buys: Vec::with_capacity(tickers) }
    }

    /// Turn actions into orders. A ticker whose `open` is 0 has no row today and is not traded.
    #[expect(clippy::cast_possible_truncation, reason = "|action| <= 1 and hmax <= i32::MAX")]
    pub(crate) fn collect<A: Copy + Into<f64>>(
        &mut self,
        actions: &[A],
        hmax: f64,
        open: &[f64],
        shares: &[i32],
    ) {
        self.sells.clear();
        self.buys.clear();
        for (ticker, ((&action, &open), &held)) in actions.iter().zip(open).zip(shares).enumerate()
        {
            // Conversion truncates toward zero.
            let quantity = (action.into() * hmax) as i32;
            let listed = open > 0.0;
            if listed && quantity > 0 {
                self.buys.push(Order::new(quantity.unsigned_abs(), ticker));
            } else if listed && quantity < 0 && held > 0 {
                self.sells.push(Order::new(quantity.unsigned_abs(), ticker));
            }
        }
        self.sells.sort_unstable();
        self.buys.sort_unstable();
    }

    /// Leave out what `tradable` says of a position.
    pub(crate) fn retain(&mut self, tradable: impl Fn(usize) -> bool) {
        self.sells.retain(|order| tradable(order.parts().1));
        self.buys.retain(|order| tradable(order.parts().1));
    }

    /// Fill all orders.
    pub(crate) fn fill(&self, account: &mut Account<'_>) {
        for (quantity, ticker) in self.sells.iter().map(|order| order.parts()) {
            account.sell(ticker, quantity, false);
        }
        for (quantity, ticker) in self.buys.iter().map(|order| order.parts()) {
            account.buy(ticker, quantity);
        }
    }
}

/// The market of one day, as far as fills look at it.
#[derive(Clone, Copy)]
pub(crate) struct Market<'a> {
    pub(crate) rows: PanelRows<'a>,
    pub(crate) day: usize,
    /// Positions in the panel, `[T]`.
    pub(crate) tickers: &'a [usize],
    /// The last close known of each, `[T]`.
    pub(crate) closes: &'a [f64],
    pub(crate) rules: &'a Rules,
}

impl Market<'_> {
    fn row(&self, ticker: usize) -> PanelRow<'_> {
        self.rows.row(self.tickers[ticker], self.day)
    }
}

/// What a step did besides what the observation shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Shares bought and sold.
    pub(crate) shares_traded: i64,
    /// Cash raised by stop losses.
    pub(crate) loss_cut_amount: f64,
}

/// One portfolio, borrowed from the batch, on one day.
pub(crate) struct Account<'a> {
    pub(crate) env: usize,
    pub(crate) cash: &'a mut f64,
    pub(crate) shares: &'a mut [i32],
    pub(crate) avg_buy_price: &'a mut [f64],
    pub(crate) sums: &'a mut Sums,
    pub(crate) tally: &'a mut Tally,
    pub(crate) stream: &'a mut Stream,
    pub(crate) fills: Option<&'a mut Vec<Fill>>,
    pub(crate) today: Market<'a>,
}

#[derive(Clone, Copy)]
enum Side {
    Buy,
    Sell,
}

impl Account<'_> {
    /// The price before slippage.
    fn price(&mut self, ticker: usize, side: Side) -> f64 {
        if self.today.rules.bidding == Bidding::Default {
            return self.today.closes[ticker];
        }
        let row = self.today.row(ticker);
        let [open, high, low, close] =
            [PriceColumn::Open, PriceColumn::High, PriceColumn::Low, PriceColumn::Close]
                .map(|column| row.value(column as usize));
        let (from, to) = match (self.today.rules.bidding, side) {
            (Bidding::AdvUniform, Side::Buy) => (open.max(close), high),
            (Bidding::AdvUniform, Side::Sell) => (low, open.min(close)),
            _ => (low, high),
        };
        self.stream.real(from, to)
    }

    fn sell(&mut self, ticker: usize, quantity: u32, is_stop_loss: bool) {
        let rules = self.today.rules;
        let held = self.shares[ticker];
        let sold = i32::try_from(quantity).map_or(held, |quantity| quantity.min(held));
        let asked = self.price(ticker, Side::Sell);
        let price = asked * rules.slippage.sell;
        let pct = rules.costs[self.today.tickers[ticker]].sell;
        let value = price * f64::from(sold);
        let income = value * (1.0 - pct) - rules.fixed_fee;
        // A fee above what the sale brings may be more than there is.
        let possible = price > 0.0 && *self.cash + income >= 0.0;
        if !possible {
            return;
        }
        *self.cash += income;
        self.shares[ticker] = held - sold;
        if sold == held {
            self.avg_buy_price[ticker] = 0.0;
        }
        if is_stop_loss {
            self.sums.stop_losses += 1;
            self.tally.loss_cut_amount += income;
        }
        let fee = value * pct + rules.fixed_fee;
        self.sums.costs += fee + (asked - price) * f64::from(sold);
        self.note(Fill { env: self.env, ticker, price, fee, quantity: -sold, is_stop_loss }, value);
    }

    fn buy(&mut self, ticker: usize, quantity: u32) {
        let rules = self.today.rules;
        let held = self.shares[ticker];
        let asked = self.price(ticker, Side::Buy);
        let price = asked * rules.slippage.buy;
        let pct = rules.costs[self.today.tickers[ticker]].buy;
        let (factor, fixed) = (1.0 + pct, rules.fixed_fee);
        #[expect(clippy::cast_possible_truncation, reason = "saturates; NaN becomes 0")]
        let affordable = ((*self.cash - fixed) / (price * factor)) as i64;
        let room = i64::from(i32::MAX - held);
        let bought = i64::from(quantity).min(affordable).min(room);
        let mut bought = i32::try_from(bought).unwrap_or(0).max(0);
        let cost = |bought: i32| price * f64::from(bought) * factor + fixed;
        // The quotient may have been rounded up to a whole number.
        if bought > 0 && cost(bought) > *self.cash {
            bought -= 1;
        }
        let possible = bought > 0 && price > 0.0;
        if !possible {
            return;
        }
        let spent = cost(bought);
        *self.cash -= spent;
        let paid = f64::from(held) * self.avg_buy_price[ticker] + spent;
        self.shares[ticker] = held + bought;
        self.avg_buy_price[ticker] = paid / f64::from(held + bought);
        let value = price * f64::from(bought);
        let fee = value * pct + fixed;
        self.sums.costs += fee + (price - asked) * f64::from(bought);
        let is_stop_loss = false;
        self.note(
            Fill { env: self.env, ticker, price, fee, quantity: bought, is_stop_loss },
            value,
        );
    }

    fn note(&mut self, fill: Fill, value: f64) {
        self.sums.orders += 1;
        self.sums.traded += value;
        self.tally.shares_traded += i64::from(fill.quantity.unsigned_abs());
        if let Some(fills) = &mut self.fills {
            fills.push(fill);
        }
    }

    /// Sell the whole of every holding that has fallen too far. One without a row waits for its next.
    pub(crate) fn stop_losses(&mut self, open: &[f64]) {
        let rules = self.today.rules;
        for (ticker, &open) in open.iter().enumerate() {
            let held = self.shares[ticker];
            if held == 0 || open <= 0.0 {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use backcast_market::{PanelData, PanelOptions};

    use super::*;
    use crate::{options::PortfolioOptions, rules::Generator};

    fn rules(hmax: f64, tickers: usize) -> Rules {
        let options = PortfolioOptions { sell_cost_pct: 0.01, ..PortfolioOptions::default() };
        Rules { hmax, ..Rules::uniform(&options, tickers) }
    }

    fn trade(
        actions: &[f64],
        prices: &[f64],
        cash: f64,
        shares: &[i32],
        hmax: f64,
    ) -> (f64, Vec<i32>, Vec<f64>) {
        let (mut cash, mut shares) = (cash, shares.to_vec());
        let mut avg_buy_price: Vec<f64> =
            shares.iter().map(|&held| f64::from(held.min(1)) * 5.0).collect();
        let mut orders = Orders::default();
        orders.collect(actions, hmax, prices, &shares);
        // Nothing of the panel is read where orders are filled at the close.
        let csv = "date,tic,open,high,low,close,volume\n2024-01-01,A,1,1,1,1,1\n";
        let panel =
            PanelData::from_reader(csv.as_bytes(), &PanelOptions::default()).unwrap().into_heap();
        let tickers: Vec<usize> = (0..prices.len()).collect();
        let rules = rules(hmax, prices.len());
        let today =
            Market { rows: panel.rows(), day: 0, tickers: &tickers, closes: prices, rules: &rules };
        let mut account = Account {
            env: 0,
            cash: &mut cash,
            shares: &mut shares,
            avg_buy_price: &mut avg_buy_price,
            sums: &mut Sums::default(),
            tally: &mut Tally::default(),
            stream: &mut Stream::new(Generator::default(), 0),
            fills: None,
            today,
        };
        orders.fill(&mut account);
        (cash, shares, avg_buy_price)
    }

    #[test]
    fn quantities_are_cut_toward_zero() {
        let (_, shares, _) =
            trade(&[0.019, 0.0199, -0.0199, 1.0], &[1.0; 4], 1e6, &[0, 0, 9, 0], 100.0);
        assert_eq!(shares, [1, 1, 8, 100]);
    }

    #[test]
    fn a_sale_pays_for_a_purchase_of_the_same_day() {
        let (cash, shares, avg) = trade(&[1.0, -1.0], &[10.0, 20.0], 0.0, &[0, 50], 100.0);
        // 50 sold for 990; 98 shares at 10.10 each are 989.80.
        assert_eq!(shares, [98, 0]);
        assert!((cash - 0.2).abs() < 1e-9 && cash >= 0.0);
        assert!((avg[0] - 10.1).abs() < 1e-12, "the fee is part of the average");
        assert_eq!(avg[1].to_bits(), 0);
    }

    #[test]
    fn the_largest_purchase_gets_the_cash_and_equal_ones_go_in_ticker_order() {
        let (_, shares, _) = trade(&[0.5, 0.8, 0.8, 0.8], &[10.0; 4], 1_000.0, &[0; 4], 100.0);
        assert_eq!(shares, [0, 80, 19, 0]);
        // More equal orders than an insertion sort would keep in order.
        let (_, shares, _) = trade(&[0.5; 40], &[10.0; 40], 10_100.0, &[0; 40], 100.0);
        assert_eq!(shares, [vec![50; 20], vec![0; 20]].concat());
    }

    #[test]
    fn a_ticker_without_a_price_is_not_traded() {
        let (cash, shares, avg) = trade(&[1.0, -1.0], &[0.0, 0.0], 1_000.0, &[0, 7], 100.0);
        assert_eq!((cash.to_bits(), shares), (1_000.0_f64.to_bits(), vec![0, 7]));
        assert_eq!(avg[1].to_bits(), 5.0_f64.to_bits());
    }

    #[test]
    fn holdings_stop_at_the_largest_integer() {
        let held = i32::MAX - 3;
        let (_, shares, _) = trade(&[1.0], &[1e-3], 1e6, &[held], 100.0);
        assert_eq!(shares, [i32::MAX]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The model follows the rules order by order on a sorted list.
        #[test]
        fn trading_agrees_with_a_plain_restatement(
            lines in prop::collection::vec((-1.0..=1.0_f64, prop_oneof![Just(0.0), 0.5..200.0_f64], 0..300_i32), 1..25),
            cash in 0.0..20_000.0_f64,
            hmax in prop_oneof![Just(3.0), Just(100.0), Just(2_147_483_647.0)],
        ) {
            let column = |pick: fn(&(f64, f64, i32)) -> f64| lines.iter().map(pick).collect::<Vec<_>>();
            let (actions, prices) = (column(|line| line.0), column(|line| line.1));
            let before: Vec<i32> = lines.iter().map(|line| line.2).collect();
            let (left, shares, avg) = trade(&actions, &prices, cash, &before, hmax);

            let mut model_cash = cash;
            let mut model_shares: Vec<f64> = before.iter().map(|&held| f64::from(held)).collect();
            let mut order: Vec<usize> = (0..lines.len()).collect();
            let quantity = |ticker: usize| (actions[ticker] * hmax).trunc();
            order.sort_by(|&a, &b| quantity(b).abs().total_cmp(&quantity(a).abs()));
            for &ticker in order.iter().filter(|&&ticker| quantity(ticker) < 0.0 && prices[ticker] > 0.0) {
                let sold = (-quantity(ticker)).min(model_shares[ticker]);
                model_cash += prices[ticker] * sold * 0.99;
                model_shares[ticker] -= sold;
            }
            for &ticker in order.iter().filter(|&&ticker| quantity(ticker) > 0.0 && prices[ticker] > 0.0) {
                let bought = quantity(ticker).min((model_cash / (prices[ticker] * 1.01)).floor());
                model_cash -= prices[ticker] * bought * 1.01;
                model_shares[ticker] += bought;
            }
            prop_assert!(left >= 0.0);
            let counts: Vec<f64> = shares.iter().map(|&held| f64::from(held)).collect();
            prop_assert_eq!(&counts, &model_shares);
            prop_assert!((left - model_cash).abs() <= 1e-9 * cash.max(1.0));
            for (ticker, &held) in shares.iter().enumerate() {
                prop_assert!(held >= 0);
                prop_assert_eq!(avg[ticker] > 0.0, held > 0);
            }
        }
    }
}
