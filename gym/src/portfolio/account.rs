//! Money rules of one portfolio on one day.
//!
//! Orders are `trunc(action * hmax)` shares. Sells come first, then buys, both the largest first;
//! equal orders keep ticker order. A sale is cut to the shares held, a purchase to what the cash at
//! that moment pays, fee included. The average buy price includes the fee.
//!
//! These are the rules of `fast_finrl`'s environments, with three differences. Any number of equal
//! orders keep their order, cash cannot fall below zero by a rounding error, and a ticker without a
//! row is not traded.

use backcast_market::{PanelRow, PanelRows, PriceColumn};

use super::{
    choices::Bidding,
    record::PortfolioFill,
    rules::{Sides, TradingRules},
};
use crate::contract::{EnvStream, EpisodeSums};

/// Fraction of the cash. A purchase that costs at most this fraction is paid in full, whatever the
/// rounding, so that no division is needed.
pub(crate) const SURELY_PAID: f64 = 1.0 - 1e-9;

/// Prices and rules of one day, as fills need them.
#[derive(Clone, Copy)]
pub(crate) struct MarketDay<'a> {
    pub(crate) rows: PanelRows<'a>,
    pub(crate) day: usize,
    /// Positions of the tickers in the panel, `[T]`.
    pub(crate) tickers: &'a [usize],
    /// Last known close of each ticker, `[T]`, padded to lines.
    pub(crate) closes: &'a [f64],
    /// Whether all closes are known to be positive and no order can make a holding exceed
    /// `i32::MAX`.
    pub(crate) sound: bool,
    pub(crate) rules: &'a TradingRules,
}

impl MarketDay<'_> {
    pub(super) fn row(&self, ticker: usize) -> PanelRow<'_> {
        self.rows.row(self.tickers[ticker], self.day)
    }
}

/// Totals of one step that the observation does not show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepTotals {
    /// Shares bought and sold.
    pub(crate) shares_traded: i64,
    /// Cash raised by stop losses.
    pub(crate) loss_cut_amount: f64,
}

/// One portfolio on one day, borrowed from [`Portfolios`](super::portfolios::Portfolios).
pub(crate) struct PortfolioAccount<'a> {
    pub(crate) env: usize,
    pub(crate) cash: &'a mut f64,
    pub(crate) shares: &'a mut [i32],
    pub(crate) avg_buy_price: &'a mut [f64],
    pub(crate) sums: &'a mut EpisodeSums,
    pub(crate) totals: &'a mut StepTotals,
    pub(crate) stream: EnvStream<'a>,
    pub(crate) fills: Option<&'a mut Vec<PortfolioFill>>,
    pub(crate) today: MarketDay<'a>,
}

/// Returns a price of the day before slippage, drawn by a rule that is not the close.
pub(crate) fn drawn_price(
    bidding: Bidding,
    row: PanelRow<'_>,
    buys: bool,
    stream: &mut EnvStream<'_>,
) -> f64 {
    let [open, high, low, close] =
        [PriceColumn::Open, PriceColumn::High, PriceColumn::Low, PriceColumn::Close]
            .map(|column| row.value(column as usize));
    let (from, to) = match (bidding, buys) {
        (Bidding::AdvUniform, true) => (open.max(close), high),
        (Bidding::AdvUniform, false) => (low, open.min(close)),
        _ => (low, high),
    };
    stream.real(from, to)
}

#[derive(Clone, Copy)]
enum OrderSide {
    Buy,
    Sell,
}

impl PortfolioAccount<'_> {
    /// Returns the fees of all orders as fractions of their value. Returns `None` if some tickers
    /// have fees of their own, with a fixed fee or slippage, if orders are not filled at the close,
    /// and if fills are recorded.
    pub(crate) fn only_costs(&self) -> Option<Sides> {
        let rules = self.today.rules;
        let Sides { buy, sell } = rules.slippage;
        let plain = rules.bidding == Bidding::Default
            && rules.fixed_fee <= 0.0
            && buy <= 1.0
            && sell >= 1.0;
        rules.same_costs.filter(|_| plain && self.fills.is_none())
    }

    /// Returns the price before slippage.
    #[inline]
    fn price(&mut self, ticker: usize, side: OrderSide) -> f64 {
        if self.today.rules.bidding == Bidding::Default {
            return self.today.closes[ticker];
        }
        self.draw_price(ticker, side)
    }

    #[cold]
    fn draw_price(&mut self, ticker: usize, side: OrderSide) -> f64 {
        let (row, buys) = (self.today.row(ticker), matches!(side, OrderSide::Buy));
        drawn_price(self.today.rules.bidding, row, buys, &mut self.stream)
    }

    #[inline]
    pub(crate) fn sell(&mut self, ticker: usize, quantity: u32, is_stop_loss: bool) {
        let rules = self.today.rules;
        let held = self.shares[ticker];
        let sold = i32::try_from(quantity).map_or(held, |quantity| quantity.min(held));
        let asked = self.price(ticker, OrderSide::Sell);
        let price = asked * rules.slippage.sell;
        let pct = rules.costs[self.today.tickers[ticker]].sell;
        let value = price * f64::from(sold);
        let income = value * (1.0 - pct) - rules.fixed_fee;
        // The fixed fee may exceed the value of the sale and the cash together.
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
            self.totals.loss_cut_amount += income;
        }
        let fee = value * pct + rules.fixed_fee;
        self.sums.costs += fee + (asked - price) * f64::from(sold);
        let (quantity, is_settlement) = (-f64::from(sold), false);
        self.note(
            PortfolioFill {
                env: self.env,
                ticker,
                price,
                fee,
                quantity,
                is_stop_loss,
                is_settlement,
            },
            value,
        );
    }

    #[inline]
    pub(crate) fn buy(&mut self, ticker: usize, quantity: i32) {
        let rules = self.today.rules;
        let held = self.shares[ticker];
        let asked = self.price(ticker, OrderSide::Buy);
        let price = asked * rules.slippage.buy;
        let pct = rules.costs[self.today.tickers[ticker]].buy;
        let (factor, fixed) = (1.0 + pct, rules.fixed_fee);
        let cost = |bought: i32| price * f64::from(bought) * factor + fixed;
        let mut bought = quantity.min(i32::MAX - held);
        // The division is slow. It is needed only if the purchase takes nearly all of the cash, or
        // more.
        if cost(bought) > *self.cash * SURELY_PAID {
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
        let (quantity, is_stop_loss, is_settlement) = (f64::from(bought), false, false);
        self.note(
            PortfolioFill {
                env: self.env,
                ticker,
                price,
                fee,
                quantity,
                is_stop_loss,
                is_settlement,
            },
            value,
        );
    }

    #[inline]
    fn note(&mut self, fill: PortfolioFill, value: f64) {
        self.sums.orders += 1;
        self.sums.traded += value;
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within an i32")]
        let shares = fill.quantity.abs() as i64;
        self.totals.shares_traded += shares;
        if let Some(fills) = &mut self.fills {
            fills.push(fill);
        }
    }

    /// Turns holdings of tickers that have their last row today into cash at the close. This is not
    /// an order: it costs nothing and is not counted as a trade.
    pub(crate) fn settle_departures(&mut self) {
        let MarketDay { rules, day, tickers, closes, .. } = self.today;
        for (ticker, &position) in tickers.iter().enumerate() {
            let held = self.shares[ticker];
            if held == 0 || !rules.departures.is_last(position, day) {
                continue;
            }
            let price = closes[ticker];
            *self.cash += price * f64::from(held);
            (self.shares[ticker], self.avg_buy_price[ticker]) = (0, 0.0);
            if let Some(fills) = &mut self.fills {
                let (fee, quantity) = (0.0, -f64::from(held));
                let (is_stop_loss, is_settlement) = (false, true);
                let env = self.env;
                fills.push(PortfolioFill {
                    env,
                    ticker,
                    price,
                    fee,
                    quantity,
                    is_stop_loss,
                    is_settlement,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use backcast_market::{PanelData, PanelOptions};

    use super::*;
    use crate::{
        contract::{EnvStreams, Generator},
        portfolio::{options::PortfolioOptions, orders::Orders},
    };

    fn rules(hmax: f64, tickers: usize) -> TradingRules {
        let options = PortfolioOptions { sell_cost_pct: 0.01, ..PortfolioOptions::default() };
        TradingRules { hmax, ..TradingRules::uniform(&options, tickers) }
    }

    fn trade(
        actions: &[f64],
        prices: &[f64],
        cash: f64,
        shares: &[i32],
        hmax: f64,
    ) -> (f64, Vec<i32>, Vec<f64>) {
        let (cash, shares, avg_buy_price, _) =
            trade_and_note(actions, prices, cash, shares, hmax, (None, false));
        (cash, shares, avg_buy_price)
    }

    /// Trades, and returns cash, shares, average prices, and the sums and totals as text. With
    /// `fills`, orders are filled one by one. `sound` skips the check of the prices.
    fn trade_and_note(
        actions: &[f64],
        prices: &[f64],
        cash: f64,
        shares: &[i32],
        hmax: f64,
        (fills, sound): (Option<&mut Vec<PortfolioFill>>, bool),
    ) -> (f64, Vec<i32>, Vec<f64>, String) {
        let (mut cash, mut shares) = (cash, shares.to_vec());
        let mut avg_buy_price: Vec<f64> =
            shares.iter().map(|&held| f64::from(held.min(1)) * 5.0).collect();
        let mut orders = Orders::default();
        orders.collect(actions, hmax, prices, &shares);
        // Orders at the close do not read the panel.
        let csv = "date,tic,open,high,low,close,volume\n2024-01-01,A,1,1,1,1,1\n";
        let panel =
            PanelData::from_reader(csv.as_bytes(), &PanelOptions::default()).unwrap().into_heap();
        let tickers: Vec<usize> = (0..prices.len()).collect();
        let rules = rules(hmax, prices.len());
        let (rows, closes) = (panel.rows(), prices);
        let today = MarketDay { rows, day: 0, tickers: &tickers, closes, sound, rules: &rules };
        let (mut sums, mut totals) = (EpisodeSums::default(), StepTotals::default());
        let mut streams = EnvStreams::new(Generator::default(), 1, |_| 0).unwrap();
        let mut account = PortfolioAccount {
            env: 0,
            cash: &mut cash,
            shares: &mut shares,
            avg_buy_price: &mut avg_buy_price,
            sums: &mut sums,
            totals: &mut totals,
            stream: streams.of(0),
            fills,
            today,
        };
        orders.fill(&mut account);
        (cash, shares, avg_buy_price, format!("{sums:?} {totals:?}"))
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
        #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(2_000)))]

        /// Recorded orders are filled one by one. So are orders that could make a holding exceed
        /// `i32::MAX`.
        #[test]
        fn filling_at_once_is_filling_one_by_one_to_the_last_bit(
            lines in prop::collection::vec(
                (-1.0..=1.0_f64, 0.01..200.0_f64, prop_oneof![0..300_i32, Just(i32::MAX - 2)]),
                1..70,
            ),
            odd in (0..200_usize, prop_oneof![Just(0.0), Just(f64::NAN)]),
            cash in prop_oneof![0.0..2_000.0_f64, 0.0..1e9_f64],
            hmax in prop_oneof![Just(3.0), Just(15.0), Just(256.0), Just(257.0)],
        ) {
            let column =
                |pick: fn(&(f64, f64, i32)) -> f64| lines.iter().map(pick).collect::<Vec<_>>();
            let (actions, mut prices) = (column(|line| line.0), column(|line| line.1));
            if let Some(price) = prices.get_mut(odd.0) {
                *price = odd.1;
            }
            let shares: Vec<i32> = lines.iter().map(|line| line.2).collect();
            let trade = |how: (Option<&mut Vec<PortfolioFill>>, bool)| {
                let (cash, shares, averages, sums) =
                    trade_and_note(&actions, &prices, cash, &shares, hmax, how);
                let averages: Vec<u64> = averages.iter().map(|average| average.to_bits()).collect();
                (cash.to_bits(), shares, averages, sums)
            };
            let one_by_one = trade((Some(&mut Vec::new()), false));
            prop_assert_eq!(&trade((None, false)), &one_by_one);
            if odd.0 >= lines.len() && shares.iter().all(|&held| held < 300) {
                prop_assert_eq!(&trade((None, true)), &one_by_one);
            }
        }

        /// The model follows the rules order by order on a sorted list.
        #[test]
        fn trading_agrees_with_a_plain_restatement(
            lines in prop_oneof![9 => 1..25_usize, 1 => 250..262_usize].prop_flat_map(|n| {
                let price = prop_oneof![Just(0.0), 0.5..200.0_f64];
                prop::collection::vec((-1.0..=1.0_f64, price, 0..300_i32), n)
            }),
            cash in 0.0..20_000.0_f64,
            hmax in prop_oneof![Just(3.0), Just(100.0), Just(257.0), Just(2_147_483_647.0)],
        ) {
            let column =
                |pick: fn(&(f64, f64, i32)) -> f64| lines.iter().map(pick).collect::<Vec<_>>();
            let (actions, prices) = (column(|line| line.0), column(|line| line.1));
            let before: Vec<i32> = lines.iter().map(|line| line.2).collect();
            let (left, shares, avg) = trade(&actions, &prices, cash, &before, hmax);

            let mut model_cash = cash;
            let mut model_shares: Vec<f64> = before.iter().map(|&held| f64::from(held)).collect();
            let mut order: Vec<usize> = (0..lines.len()).collect();
            let quantity = |ticker: usize| (actions[ticker] * hmax).trunc();
            order.sort_by(|&a, &b| quantity(b).abs().total_cmp(&quantity(a).abs()));
            let sold = |ticker: &&usize| quantity(**ticker) < 0.0 && prices[**ticker] > 0.0;
            for &ticker in order.iter().filter(sold) {
                let sold = (-quantity(ticker)).min(model_shares[ticker]);
                model_cash += prices[ticker] * sold * 0.99;
                model_shares[ticker] -= sold;
            }
            let bought = |ticker: &&usize| quantity(**ticker) > 0.0 && prices[**ticker] > 0.0;
            for &ticker in order.iter().filter(bought) {
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
