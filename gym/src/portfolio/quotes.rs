//! Bulk filling of all orders of a day at the close.
//!
//! Filling orders one by one, as [`PortfolioAccount`] does, is bound by latency. Each order waits
//! for the sums that the order before left in memory, and for mispredicted branches on random
//! orders. Only the sums depend on the sequence. So this module computes shares and values of all
//! orders first, in ticker order and without branches. It then computes the sums in sequence, then
//! the holdings in ticker order. Every number results from the same operations in the same sequence
//! as filling one by one, and is equal to the last bit.
//!
//! The sums are first taken as if the cash sufficed for every purchase, which is so on most days.
//! If it did not, the purchases are repeated with a check of the cash before each.

use backcast_core::plumbing::{SimdKernel, run_simd};

use super::{
    account::{PortfolioAccount, SURELY_PAID},
    lines::in_sequence,
    rules::Sides,
};

/// Fraction of the cash after the sales. If this much is left after all purchases, each was
/// affordable, whatever the rounding.
const PLENTY: f64 = 1e-6;

/// Orders of one day by ticker; the buffers are reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotes {
    /// Shares: positive bought, negative sold.
    shares: Vec<i32>,
    /// Shares times price, fees not included.
    values: Vec<f64>,
}

impl Quotes {
    /// Computes shares and values of the orders. Returns false if an order has no positive price,
    /// or if a holding could exceed `i32::MAX`.
    pub(crate) fn collect(&mut self, quantities: &[i32], account: &PortfolioAccount<'_>) -> bool {
        let (held, closes) = (&*account.shares, account.today.closes);
        if !account.today.sound && !is_sound(quantities, held, closes) {
            return false;
        }
        self.shares.resize(quantities.len(), 0);
        self.values.resize(quantities.len(), 0.0);
        let (shares, values) = (&mut self.shares, &mut self.values);
        run_simd(QuoteOrders, (quantities, held, closes), (shares, values), ());
        true
    }

    /// Executes the sales, then the purchases as far as the cash suffices. `costs`: fees as
    /// fractions.
    pub(crate) fn settle(
        &mut self,
        sells: &[u32],
        buys: &[u32],
        costs: Sides,
        account: &mut PortfolioAccount<'_>,
    ) {
        let before = RunningSums {
            cash: *account.cash,
            fees: account.sums.costs,
            traded: account.sums.traded,
            orders: 0,
        };
        let (sold, mut sums) =
            run_simd(SumOrders, (sells, buys, &self.values), (&mut [], &mut []), (costs, before));
        // Cash only falls during the purchases, so no purchase saw less cash than is left at the
        // end.
        let lasts = sums.cash >= sold.cash * PLENTY;
        if !lasts {
            sums = self.buy_what_cash_allows(buys, costs, account.today.closes, sold);
        }
        *account.cash = sums.cash;
        account.sums.costs = sums.fees;
        account.sums.traded = sums.traded;
        account.sums.orders += u32::try_from(sums.orders).unwrap_or(u32::MAX);
        let held = (&mut *account.shares, &mut *account.avg_buy_price);
        account.totals.shares_traded +=
            run_simd(ApplyOrders, (&self.shares, &self.values, &[]), held, 1.0 + costs.buy);
    }

    /// Executes the purchases, each cut to the cash at that moment.
    #[inline(never)]
    fn buy_what_cash_allows(
        &mut self,
        buys: &[u32],
        costs: Sides,
        closes: &[f64],
        mut sums: RunningSums,
    ) -> RunningSums {
        let factor = 1.0 + costs.buy;
        for &ticker in buys {
            let ticker = ticker as usize;
            let mut value = self.values[ticker];
            if value * factor > sums.cash * SURELY_PAID {
                let close = closes[ticker];
                let shares = affordable(self.shares[ticker], close, factor, sums.cash);
                value = close * f64::from(shares);
                (self.shares[ticker], self.values[ticker]) = (shares, value);
                if shares == 0 {
                    continue;
                }
            }
            sums.cash -= value * factor;
            sums.fees += value * costs.buy;
            sums.traded += value;
            sums.orders += 1;
        }
        sums
    }
}

/// Sums that depend on the sequence of orders.
#[derive(Clone, Copy)]
struct RunningSums {
    cash: f64,
    fees: f64,
    traded: f64,
    orders: usize,
}

/// Kernel that sums over sales and then over purchases, as if the cash sufficed. Returns the sums
/// after the sales and after the purchases.
struct SumOrders;

impl SimdKernel<u32, u32, f64, (), (), (Sides, RunningSums), (RunningSums, RunningSums)>
    for SumOrders
{
    #[inline(always)]
    fn run(
        sells: &[u32],
        buys: &[u32],
        values: &[f64],
        _: &mut [()],
        _: &mut [()],
        (costs, mut sums): (Sides, RunningSums),
    ) -> (RunningSums, RunningSums) {
        let (kept, factor) = (1.0 - costs.sell, 1.0 + costs.buy);
        in_sequence!(at of sells.len(), [sells] {
            let value = values[sells[at] as usize];
            sums.cash += value * kept;
            sums.fees += value * costs.sell;
            sums.traded += value;
        });
        sums.orders += sells.len();
        let sold = sums;
        in_sequence!(at of buys.len(), [buys] {
            let value = values[buys[at] as usize];
            sums.cash -= value * factor;
            sums.fees += value * costs.buy;
            sums.traded += value;
        });
        sums.orders += buys.len();
        (sold, sums)
    }
}

/// Cuts a number of shares to the number that the cash pays for, by the operations of
/// [`PortfolioAccount::buy`].
fn affordable(shares: i32, close: f64, factor: f64, cash: f64) -> i32 {
    // Avoids the division, since most orders get nothing once the cash is spent.
    if close * factor > cash {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "saturates; NaN becomes 0")]
    let shares = shares.min((cash / (close * factor)) as i32).max(0);
    // The quotient may have been rounded up to a whole number.
    let too_many = shares > 0 && close * f64::from(shares) * factor > cash;
    shares - i32::from(too_many)
}

/// Returns whether every order has a price and every resulting holding fits an `i32`.
fn is_sound(quantities: &[i32], held: &[i32], closes: &[f64]) -> bool {
    let mut faults = 0;
    for ((&quantity, &held), &close) in quantities.iter().zip(held).zip(closes) {
        // Uses no branches, so that the loop is vectorised. Sales are cut to the holding.
        let traded = u64::from(quantity.max(-held) != 0);
        // `close > 0.0` is false for NaN too.
        faults |= traded & (u64::from(close > 0.0) ^ 1);
        faults |= u64::from(held > i32::MAX - quantity.max(0));
    }
    faults == 0
}

/// Kernel that computes shares and value of each order; sales are cut to the holding.
struct QuoteOrders;

impl SimdKernel<i32, i32, f64, i32, f64, (), ()> for QuoteOrders {
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

/// Kernel that updates holdings and average prices and returns the number of shares traded.
struct ApplyOrders;

impl SimdKernel<i32, f64, (), i32, f64, f64, i64> for ApplyOrders {
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
