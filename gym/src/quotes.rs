//! Filling all orders of a day at the close at once.
//!
//! One order after the other, as [`Account`] fills them, most of the time goes into waiting: for the sums that
//! the order before left in memory, and for guesses about which way a random order goes. Only the sums need
//! the sequence. So shares and values of all orders are computed first, in ticker order and without a branch;
//! then the sums are taken, in sequence; then holdings change, again in ticker order. Every number comes out
//! of the same operations in the same sequence as there, to the last bit.
//!
//! What works on all tickers is a function of slices, so that the compiler knows them to be apart and does
//! several tickers at a time.

use crate::{account::Account, world::Sides};

/// Below this part of the cash a purchase needs no division to see how many shares it pays for.
pub(crate) const SURELY_PAID: f64 = 1.0 - 1e-9;

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
        self.shares.resize(quantities.len(), 0);
        self.values.resize(quantities.len(), 0.0);
        let fits = share(quantities, account.shares, &mut self.shares);
        fits && price(&self.shares, account.today.closes, &mut self.values)
    }

    /// Execute the sales, then the purchases as far as the cash goes. `costs`: fees, as fractions.
    pub(crate) fn settle(
        &mut self,
        sells: &[u32],
        buys: &[u32],
        costs: Sides,
        account: &mut Account<'_>,
    ) {
        let (kept, factor) = (1.0 - costs.sell, 1.0 + costs.buy);
        // Here they stay in registers.
        let (mut cash, mut fees, mut traded) =
            (*account.cash, account.sums.costs, account.sums.traded);
        for &ticker in sells {
            let value = self.values[ticker as usize];
            cash += value * kept;
            fees += value * costs.sell;
            traded += value;
        }
        let mut orders = sells.len();
        for &ticker in buys {
            let ticker = ticker as usize;
            let mut value = self.values[ticker];
            if value * factor > cash * SURELY_PAID {
                let close = account.today.closes[ticker];
                let shares = affordable(self.shares[ticker], close, factor, cash);
                value = close * f64::from(shares);
                (self.shares[ticker], self.values[ticker]) = (shares, value);
                if shares == 0 {
                    continue;
                }
            }
            cash -= value * factor;
            fees += value * costs.buy;
            traded += value;
            orders += 1;
        }
        *account.cash = cash;
        account.sums.costs = fees;
        account.sums.traded = traded;
        account.sums.orders += u32::try_from(orders).unwrap_or(u32::MAX);
        let shares = self.shares.iter().map(|shares| i64::from(shares.unsigned_abs()));
        account.tally.shares_traded += shares.sum::<i64>();
        hold(account.shares, account.avg_buy_price, &self.shares, &self.values, factor);
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

/// How many shares each order trades: no more are sold than are `held`. False where more would be held
/// than can be counted.
#[inline(never)]
fn share(quantities: &[i32], held: &[i32], shares: &mut [i32]) -> bool {
    let mut too_many = 0;
    for ((&quantity, &held), shares) in quantities.iter().zip(held).zip(shares) {
        *shares = quantity.max(-held);
        too_many |= i32::from(held > i32::MAX - quantity.max(0));
    }
    too_many == 0
}

/// What the shares of each order are worth. False where that is nothing or no number.
#[inline(never)]
fn price(shares: &[i32], closes: &[f64], values: &mut [f64]) -> bool {
    let mut worthless = 0;
    for ((&shares, &close), value) in shares.iter().zip(closes).zip(values) {
        let shares = f64::from(shares).abs();
        *value = close * shares;
        // In numbers, for several at a time. Not a number is no price either.
        worthless |= u64::from(shares > 0.0) & (u64::from(*value > 0.0) ^ 1);
    }
    worthless == 0
}

/// Change what is held, and at which average price.
#[inline(never)]
fn hold(held: &mut [i32], averages: &mut [f64], shares: &[i32], values: &[f64], factor: f64) {
    let changes = shares.iter().zip(values);
    for ((held, average), (&shares, &value)) in held.iter_mut().zip(averages).zip(changes) {
        let holding = *held + shares;
        let paid = f64::from(*held) * *average + value * factor;
        let bought = paid / f64::from(holding);
        let kept = if holding == 0 { 0.0 } else { *average };
        *average = if shares > 0 { bought } else { kept };
        *held = holding;
    }
}
