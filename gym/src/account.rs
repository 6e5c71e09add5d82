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

/// Largest `hmax` for which orders are put in sequence by counting: a counter for each quantity.
const MOST_COUNTED: i32 = 256;

/// Orders of one day, kept between days for their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    /// Shares to buy, negative to sell, by ticker.
    quantities: Vec<i32>,
    /// Tickers in the sequence of execution: `sells` of them, then those that are bought up to
    /// `executed`, then the others.
    sequence: Vec<u32>,
    sells: usize,
    executed: usize,
    /// Where the next order of a quantity goes, by [`Orders::place`].
    places: Vec<u32>,
    sorted: Vec<Order>,
}

/// Shares and ticker in one sortable word: sells first, then large quantities, then tickers in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u64);

impl Order {
    fn new(quantity: i32, ticker: u32) -> Self {
        // Buys follow sells, and no order follows both.
        let side = if quantity == 0 { 2 } else { u64::from(quantity > 0) };
        // Quantities lie in -i32::MAX..=i32::MAX.
        let small = u64::from(i32::MAX.unsigned_abs() - quantity.unsigned_abs());
        Self((side << 62) | (small << 31) | u64::from(ticker))
    }

    fn ticker(self) -> u32 {
        (self.0 & 0x7FFF_FFFF) as u32
    }
}

impl Orders {
    pub(crate) fn with_capacity(tickers: usize) -> Self {
        Self {
            quantities: Vec::with_capacity(tickers),
            sequence: Vec::with_capacity(tickers),
            ..Self::default()
        }
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
        self.quantities.clear();
        self.quantities.extend(actions.iter().zip(open).zip(shares).map(
            |((&action, &open), &held)| {
                // Conversion truncates toward zero.
                let quantity = (action.into() * hmax) as i32;
                // In numbers: which of these holds is as random as the actions are.
                let possible =
                    i32::from(open > 0.0) & (i32::from(quantity > 0) | i32::from(held > 0));
                quantity * possible
            },
        ));
        self.arrange(hmax as i32);
    }

    /// Leave out what `tradable` says of a position.
    pub(crate) fn retain(&mut self, hmax: f64, tradable: impl Fn(usize) -> bool) {
        for (ticker, quantity) in self.quantities.iter_mut().enumerate() {
            if !tradable(ticker) {
                *quantity = 0;
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "hmax <= i32::MAX")]
        self.arrange(hmax as i32);
    }

    /// Find the sequence of execution.
    fn arrange(&mut self, hmax: i32) {
        #[expect(clippy::cast_possible_truncation, reason = "panels hold at most i32::MAX tickers")]
        let count = self.quantities.len() as u32;
        if hmax > MOST_COUNTED {
            let orders = self.quantities.iter().zip(0..count);
            self.sorted.clear();
            self.sorted.extend(orders.map(|(&quantity, ticker)| Order::new(quantity, ticker)));
            self.sorted.sort_unstable();
            self.sequence.clear();
            self.sequence.extend(self.sorted.iter().map(|order| order.ticker()));
            self.sells = self.quantities.iter().filter(|&&quantity| quantity < 0).count();
            let buys = self.quantities.iter().filter(|&&quantity| quantity > 0).count();
            self.executed = self.sells + buys;
            return;
        }
        // A counting sort: random quantities would make a comparing one guess wrong at every branch.
        let most = hmax.unsigned_abs() as usize;
        self.places.clear();
        self.places.resize(2 * most + 1, 0);
        for &quantity in &self.quantities {
            self.places[Self::place(quantity, hmax)] += 1;
        }
        let mut before = 0;
        for place in &mut self.places {
            before += std::mem::replace(place, before);
        }
        self.sells = self.places[most] as usize;
        self.executed = self.places[2 * most] as usize;
        self.sequence.resize(self.quantities.len(), 0);
        for (&quantity, ticker) in self.quantities.iter().zip(0..count) {
            let place = &mut self.places[Self::place(quantity, hmax)];
            self.sequence[*place as usize] = ticker;
            *place += 1;
        }
    }

    /// `0..hmax`: sells, the largest first; `hmax..2 * hmax`: buys, the largest first; then none.
    fn place(quantity: i32, hmax: i32) -> usize {
        let place = if quantity < 0 { hmax + quantity } else { 2 * hmax - quantity };
        // Quantities lie in -hmax..=hmax.
        place.unsigned_abs() as usize
    }

    /// Fill all orders.
    pub(crate) fn fill(&self, account: &mut Account<'_>) {
        for &ticker in &self.sequence[..self.sells] {
            let ticker = ticker as usize;
            account.sell(ticker, self.quantities[ticker].unsigned_abs(), false);
        }
        for &ticker in &self.sequence[self.sells..self.executed] {
            let ticker = ticker as usize;
            account.buy(ticker, self.quantities[ticker]);
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
    #[inline]
    fn price(&mut self, ticker: usize, side: Side) -> f64 {
        if self.today.rules.bidding == Bidding::Default {
            return self.today.closes[ticker];
        }
        self.draw_price(ticker, side)
    }

    #[cold]
    fn draw_price(&mut self, ticker: usize, side: Side) -> f64 {
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

    #[inline]
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

    #[inline]
    fn buy(&mut self, ticker: usize, quantity: i32) {
        let rules = self.today.rules;
        let held = self.shares[ticker];
        let asked = self.price(ticker, Side::Buy);
        let price = asked * rules.slippage.buy;
        let pct = rules.costs[self.today.tickers[ticker]].buy;
        let (factor, fixed) = (1.0 + pct, rules.fixed_fee);
        let cost = |bought: i32| price * f64::from(bought) * factor + fixed;
        let mut bought = quantity.min(i32::MAX - held);
        // Dividing takes long, and is only needed near the end of the cash.
        if cost(bought) > *self.cash * (1.0 - 1e-9) {
            #[expect(clippy::cast_possible_truncation, reason = "saturates; NaN becomes 0")]
            let affordable = ((*self.cash - fixed) / (price * factor)) as i32;
            bought = bought.min(affordable);
            // The quotient may have been rounded up to a whole number.
            if bought > 0 && cost(bought) > *self.cash {
                bought -= 1;
            }
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

    #[inline]
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
    fn a_share_more_goes_first_whether_quantities_are_counted_or_compared() {
        for hmax in [256.0, 257.0, 2_147_483_647.0] {
            let actions = [100.0, 101.0, 99.0, 101.0].map(|shares| (shares + 0.5) / hmax);
            let (_, shares, _) = trade(&actions, &[10.0; 4], 2_500.0, &[0; 4], hmax);
            assert_eq!(shares, [45, 101, 0, 101], "{hmax}");
            let sold = actions.map(|action| -action);
            let (cash, ..) = trade(&sold, &[10.0; 4], 0.0, &[500; 4], hmax);
            assert!((cash - 401.0 * 9.9).abs() < 1e-9);
        }
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
            hmax in prop_oneof![Just(3.0), Just(100.0), Just(257.0), Just(2_147_483_647.0)],
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
