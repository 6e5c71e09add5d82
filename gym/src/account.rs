//! The money rules of one portfolio on one day.
//!
//! Orders are `trunc(action * hmax)` shares, filled at the close. Sells come first, the largest first,
//! then buys, the largest first; equal orders go in ticker order. A sale is cut to what is held, a
//! purchase to what the cash at that moment pays for, fee included. The average buy price includes the
//! fee. These are the rules of `fast_finrl`'s vectorised environment without stop losses and random fills;
//! we differ in two places: equal orders keep their order however many there are, and cash cannot fall
//! below zero by a rounding error.

/// What trading costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Shares per action of 1.
    pub(crate) hmax: f64,
    /// Paid per unit of value bought: 1 + fee.
    pub(crate) buy_factor: f64,
    /// Received per unit of value sold: 1 - fee.
    pub(crate) sell_factor: f64,
}

/// One portfolio, borrowed from the batch.
pub(crate) struct Account<'a> {
    pub(crate) cash: &'a mut f64,
    pub(crate) shares: &'a mut [i32],
    pub(crate) avg_buy_price: &'a mut [f64],
}

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
        costs: Costs,
        open: &[f64],
        shares: &[i32],
    ) {
        self.sells.clear();
        self.buys.clear();
        for (ticker, ((&action, &open), &held)) in actions.iter().zip(open).zip(shares).enumerate()
        {
            // Conversion truncates toward zero.
            let quantity = (action.into() * costs.hmax) as i32;
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

    /// Fill all orders at `prices`.
    pub(crate) fn fill(&self, account: &mut Account<'_>, prices: &[f64], costs: Costs) {
        for (quantity, ticker) in self.sells.iter().map(|order| order.parts()) {
            account.sell(ticker, quantity, prices[ticker], costs.sell_factor);
        }
        for (quantity, ticker) in self.buys.iter().map(|order| order.parts()) {
            account.buy(ticker, quantity, prices[ticker], costs.buy_factor);
        }
    }
}

impl Account<'_> {
    fn sell(&mut self, ticker: usize, quantity: u32, price: f64, sell_factor: f64) {
        let held = self.shares[ticker];
        let sold = i32::try_from(quantity).map_or(held, |quantity| quantity.min(held));
        *self.cash += price * f64::from(sold) * sell_factor;
        self.shares[ticker] = held - sold;
        if sold == held {
            self.avg_buy_price[ticker] = 0.0;
        }
    }

    fn buy(&mut self, ticker: usize, quantity: u32, price: f64, buy_factor: f64) {
        let held = self.shares[ticker];
        #[expect(clippy::cast_possible_truncation, reason = "saturates; NaN becomes 0")]
        let affordable = (*self.cash / (price * buy_factor)) as i64;
        let room = i64::from(i32::MAX - held);
        let bought = i64::from(quantity).min(affordable).min(room);
        let mut bought = i32::try_from(bought).unwrap_or(0).max(0);
        let cost = |bought: i32| price * f64::from(bought) * buy_factor;
        // The quotient may have been rounded up to a whole number.
        if bought > 0 && cost(bought) > *self.cash {
            bought -= 1;
        }
        if bought == 0 {
            return;
        }
        let spent = cost(bought);
        *self.cash -= spent;
        let paid = f64::from(held) * self.avg_buy_price[ticker] + spent;
        self.shares[ticker] = held + bought;
        self.avg_buy_price[ticker] = paid / f64::from(held + bought);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COSTS: Costs = Costs { hmax: 100.0, buy_factor: 1.01, sell_factor: 0.99 };

    fn trade(
        actions: &[f64],
        prices: &[f64],
        cash: f64,
        shares: &[i32],
        costs: Costs,
    ) -> (f64, Vec<i32>, Vec<f64>) {
        let (mut cash, mut shares) = (cash, shares.to_vec());
        let mut avg_buy_price: Vec<f64> =
            shares.iter().map(|&held| f64::from(held.min(1)) * 5.0).collect();
        let mut orders = Orders::default();
        orders.collect(actions, costs, prices, &shares);
        let mut account =
            Account { cash: &mut cash, shares: &mut shares, avg_buy_price: &mut avg_buy_price };
        orders.fill(&mut account, prices, costs);
        (cash, shares, avg_buy_price)
    }

    #[test]
    fn quantities_are_cut_toward_zero() {
        let (_, shares, _) =
            trade(&[0.019, 0.0199, -0.0199, 1.0], &[1.0; 4], 1e6, &[0, 0, 9, 0], COSTS);
        assert_eq!(shares, [1, 1, 8, 100]);
    }

    #[test]
    fn a_sale_pays_for_a_purchase_of_the_same_day() {
        let (cash, shares, avg) = trade(&[1.0, -1.0], &[10.0, 20.0], 0.0, &[0, 50], COSTS);
        // 50 sold for 990; 98 shares at 10.10 each are 989.80.
        assert_eq!(shares, [98, 0]);
        assert!((cash - 0.2).abs() < 1e-9 && cash >= 0.0);
        assert!((avg[0] - 10.1).abs() < 1e-12, "the fee is part of the average");
        assert_eq!(avg[1].to_bits(), 0);
    }

    #[test]
    fn the_largest_purchase_gets_the_cash_and_equal_ones_go_in_ticker_order() {
        let (_, shares, _) = trade(&[0.5, 0.8, 0.8, 0.8], &[10.0; 4], 1_000.0, &[0; 4], COSTS);
        assert_eq!(shares, [0, 80, 19, 0]);
        // More equal orders than an insertion sort would keep in order.
        let (_, shares, _) = trade(&[0.5; 40], &[10.0; 40], 10_100.0, &[0; 40], COSTS);
        assert_eq!(shares, [vec![50; 20], vec![0; 20]].concat());
    }

    #[test]
    fn a_ticker_without_a_price_is_not_traded() {
        let (cash, shares, avg) = trade(&[1.0, -1.0], &[0.0, 0.0], 1_000.0, &[0, 7], COSTS);
        assert_eq!((cash.to_bits(), shares), (1_000.0_f64.to_bits(), vec![0, 7]));
        assert_eq!(avg[1].to_bits(), 5.0_f64.to_bits());
    }

    #[test]
    fn holdings_stop_at_the_largest_integer() {
        let held = i32::MAX - 3;
        let (_, shares, _) = trade(&[1.0], &[1e-3], 1e6, &[held], COSTS);
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
            let costs = Costs { hmax, ..COSTS };
            let column = |pick: fn(&(f64, f64, i32)) -> f64| lines.iter().map(pick).collect::<Vec<_>>();
            let (actions, prices) = (column(|line| line.0), column(|line| line.1));
            let before: Vec<i32> = lines.iter().map(|line| line.2).collect();
            let (left, shares, avg) = trade(&actions, &prices, cash, &before, costs);

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
