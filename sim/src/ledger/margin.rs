//! Initial margin: how large positions and open orders may become for the equity of an account.

use super::{ALL_SYMBOLS, CASH_PER_TICK, Ledger, OrderReject};
use crate::book::Side;

/// Shares that an account would buy and sell in a symbol besides its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exposure {
    /// Shares of open buys.
    pub(crate) buys: i64,
    /// Shares of open sells.
    pub(crate) sells: i64,
}

impl Ledger {
    /// Returns how many shares an account may add to its orders on one side of a symbol by its
    /// initial margin; 0 if it may add none, and `i64::MAX` without a bound.
    ///
    /// `open` returns the orders to count in each symbol. A position of a symbol counts as its
    /// larger side: long with all buys, or short with all sells. The rule is that the values of all
    /// positions, at the mid-price of the last tick, stay within equity over initial margin. Sells
    /// that leave no short position always pass, and so do buys that cover one. Buys of an account
    /// that could not be short anywhere pass too: its cash pays for them in full.
    pub(crate) fn margin_room(
        &self,
        account: u16,
        symbol: u16,
        side: Side,
        open: impl Fn(u16) -> Exposure,
    ) -> i64 {
        let ppm = self.margins.get(usize::from(account)).copied().unwrap_or(0);
        if ppm == 0 {
            return i64::MAX;
        }
        let here = open(symbol);
        let held = i64::from(self.position(account, symbol));
        let (mut others, mut borrows) = (0_i128, here.sells > held);
        for other in (0..self.marks.len() as u16).filter(|other| *other != symbol) {
            let Exposure { buys, sells } = open(other);
            let held = i64::from(self.position(account, other));
            others += i128::from((held + buys).max(sells - held).max(0)) * self.share(other);
            borrows |= sells > held;
        }
        if side == Side::Buy && !borrows {
            return i64::MAX;
        }
        let allowed = self.equity(account).max(0) * 1_000_000 / i128::from(ppm);
        let most = ((allowed - others) / self.share(symbol).max(1)).max(0);
        let most = i64::try_from(most).unwrap_or(i64::MAX / 2);
        match side {
            Side::Buy => most - held - here.buys,
            Side::Sell => most + held - here.sells,
        }
        .max(0)
    }

    /// Refuses an order that the initial margin of its account does not cover.
    #[inline]
    pub(super) fn admit_margin(
        &self,
        account: u16,
        symbol: u16,
        side: Side,
        quantity: i64,
    ) -> Result<(), OrderReject> {
        // Background agents and most slots are asked for none.
        if self.margins.get(usize::from(account)).is_none_or(|ppm| *ppm == 0) {
            return Ok(());
        }
        let limit = self.margin_room(account, symbol, side, |symbol| {
            let (buys, sells) = self.open_shares(account, symbol);
            Exposure { buys: buys.into(), sells: sells.into() }
        });
        if quantity > limit {
            return Err(OrderReject::NoMargin { quantity, limit });
        }
        Ok(())
    }

    /// Returns the value of one share at the mid-price, in cash units.
    fn share(&self, symbol: u16) -> i128 {
        i128::from(self.marks[usize::from(symbol)]) * i128::from(CASH_PER_TICK / 2)
    }

    /// Returns cash and positions of an account that trades all symbols, at the mid-prices.
    fn equity(&self, account: u16) -> i128 {
        debug_assert_eq!(self.accounts[usize::from(account)].home, ALL_SYMBOLS);
        let value = |symbol| i128::from(self.position(account, symbol)) * self.share(symbol);
        i128::from(self.cash(account)) + (0..self.marks.len() as u16).map(value).sum::<i128>()
    }
}
