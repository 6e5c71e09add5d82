//! Filling all orders of a day at the close at once.
//!
//! One order after the other, as [`Account`] fills them, most of the time goes into waiting: for the sums that
//! the order before left in memory, and for guesses about which way a random order goes. Only the sums need
//! the sequence. So shares and values of all orders are computed first, in ticker order and without a branch;
//! then the sums are taken, in sequence; then holdings change, again in ticker order. Every number comes out
//! of the same operations in the same sequence as there, to the last bit.
//!
//! Where the cash lasts, which it does on most days of most portfolios, no purchase has to ask for it: that is
//! seen when all are made, and they are made again with the question if it was not so.

use backcast_core::{Wide, wide};

use crate::{account::Account, lines::in_sequence, world::Sides};

/// Below this part of the cash a purchase needs no division to see how many shares it pays for.
pub(crate) const SURELY_PAID: f64 = 1.0 - 1e-9;

/// A purse that has more than this part of its cash after all purchases could pay for each without a question.
const PLENTY: f64 = 1e-6;

/// Orders of one day by ticker, kept between days for their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotes {
    /// Shares: positive bought, negative sold.
    shares: Vec<i32>,
    /// Shares times price, fees not included.
    values: Vec<f64>,
}

impl Quotes {
    /// Quote orders of these `quantities`; are all of them such that nothing but the cash can stand in their
    /// way?
    pub(crate) fn ask(&mut self, quantities: &[i32], account: &Account<'_>) -> bool {
        let (held, closes) = (&*account.shares, account.today.closes);
        if !account.today.sound && !sound(quantities, held, closes) {
            return false;
        }
        self.shares.resize(quantities.len(), 0);
        self.values.resize(quantities.len(), 0.0);
        let (shares, values) = (&mut self.shares, &mut self.values);
        wide(Quote, (quantities, held, closes), (shares, values), ());
        true
    }

    /// Execute the sales, then the purchases as far as the cash goes. `costs`: fees, as fractions.
    pub(crate) fn settle(
        &mut self,
        sells: &[u32],
        buys: &[u32],
        costs: Sides,
        account: &mut Account<'_>,
    ) {
        let before = Purse {
            cash: *account.cash,
            fees: account.sums.costs,
            traded: account.sums.traded,
            orders: 0,
        };
        let (sold, mut purse) =
            wide(Book, (sells, buys, &self.values), (&mut [], &mut []), (costs, before));
        // Cash only falls while purchases are made, so that each took at most what is missing in the end.
        let lasts = purse.cash >= sold.cash * PLENTY;
        if !lasts {
            purse = self.buy_what_cash_allows(buys, costs, account.today.closes, sold);
        }
        *account.cash = purse.cash;
        account.sums.costs = purse.fees;
        account.sums.traded = purse.traded;
        account.sums.orders += u32::try_from(purse.orders).unwrap_or(u32::MAX);
        let held = (&mut *account.shares, &mut *account.avg_buy_price);
        account.tally.shares_traded +=
            wide(Hold, (&self.shares, &self.values, &[]), held, 1.0 + costs.buy);
    }

    /// Make the purchases, each cut to the cash at that moment.
    #[inline(never)]
    fn buy_what_cash_allows(
        &mut self,
        buys: &[u32],
        costs: Sides,
        closes: &[f64],
        mut purse: Purse,
    ) -> Purse {
        let factor = 1.0 + costs.buy;
        for &ticker in buys {
            let ticker = ticker as usize;
            let mut value = self.values[ticker];
            if value * factor > purse.cash * SURELY_PAID {
                let close = closes[ticker];
                let shares = affordable(self.shares[ticker], close, factor, purse.cash);
                value = close * f64::from(shares);
                (self.shares[ticker], self.values[ticker]) = (shares, value);
                if shares == 0 {
                    continue;
                }
            }
            purse.cash -= value * factor;
            purse.fees += value * costs.buy;
            purse.traded += value;
            purse.orders += 1;
        }
        purse
    }
}

/// What the sequence of orders changes, in registers.
#[derive(Clone, Copy)]
struct Purse {
    cash: f64,
    fees: f64,
    traded: f64,
    orders: usize,
}

/// Takes the sums over sales and then over purchases, as if there were cash for all. What is there between the
/// two, and in the end?
struct Book;

impl Wide<u32, u32, f64, (), (), (Sides, Purse), (Purse, Purse)> for Book {
    #[inline(always)]
    fn run(
        sells: &[u32],
        buys: &[u32],
        values: &[f64],
        _: &mut [()],
        _: &mut [()],
        (costs, mut purse): (Sides, Purse),
    ) -> (Purse, Purse) {
        let (kept, factor) = (1.0 - costs.sell, 1.0 + costs.buy);
        in_sequence!(at of sells.len(), [sells] {
            let value = values[sells[at] as usize];
            purse.cash += value * kept;
            purse.fees += value * costs.sell;
            purse.traded += value;
        });
        purse.orders += sells.len();
        let sold = purse;
        in_sequence!(at of buys.len(), [buys] {
            let value = values[buys[at] as usize];
            purse.cash -= value * factor;
            purse.fees += value * costs.buy;
            purse.traded += value;
        });
        purse.orders += buys.len();
        (sold, purse)
    }
}

/// How many of so many shares the cash pays for, by the operations of [`Account::buy`].
fn affordable(shares: i32, close: f64, factor: f64, cash: f64) -> i32 {
    // At the end of the cash most orders get nothing, and dividing takes long.
    if close * factor > cash {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "saturates; NaN becomes 0")]
    let shares = shares.min((cash / (close * factor)) as i32).max(0);
    // The quotient may have been rounded up to a whole number.
    let too_many = shares > 0 && close * f64::from(shares) * factor > cash;
    shares - i32::from(too_many)
}

/// Does every order have a price, and can what is held after it be counted?
fn sound(quantities: &[i32], held: &[i32], closes: &[f64]) -> bool {
    let mut faults = 0;
    for ((&quantity, &held), &close) in quantities.iter().zip(held).zip(closes) {
        // In numbers, for several at a time. Nothing is sold of what is not held.
        let traded = u64::from(quantity.max(-held) != 0);
        // Not a number is no price either.
        faults |= traded & (u64::from(close > 0.0) ^ 1);
        faults |= u64::from(held > i32::MAX - quantity.max(0));
    }
    faults == 0
}

/// Finds how many shares each order trades, no more than are held being sold, and what those are worth.
struct Quote;

impl Wide<i32, i32, f64, i32, f64, (), ()> for Quote {
    #[inline(always)]
    fn run(
        quantities: &[i32],
        held: &[i32],
        closes: &[f64],
        shares: &mut [i32],
        values: &mut [f64],
        (): (),
    ) {
        let orders = quantities.iter().zip(held).zip(closes);
        for (((&quantity, &held), &close), (shares, value)) in
            orders.zip(shares.iter_mut().zip(values))
        {
            *shares = quantity.max(-held);
            *value = close * f64::from(*shares).abs();
        }
    }
}

/// Changes what is held, and at which average price. How many shares were traded?
struct Hold;

impl Wide<i32, f64, (), i32, f64, f64, i64> for Hold {
    #[inline(always)]
    fn run(
        shares: &[i32],
        values: &[f64],
        _: &[()],
        held: &mut [i32],
        averages: &mut [f64],
        factor: f64,
    ) -> i64 {
        let changes = shares.iter().zip(values);
        for ((held, average), (&shares, &value)) in held.iter_mut().zip(averages).zip(changes) {
            let holding = *held + shares;
            let paid = f64::from(*held) * *average + value * factor;
            let bought = paid / f64::from(holding);
            let kept = if holding == 0 { 0.0 } else { *average };
            *average = if shares > 0 { bought } else { kept };
            *held = holding;
        }
        shares.iter().map(|shares| i64::from(shares.unsigned_abs())).sum()
    }
}
