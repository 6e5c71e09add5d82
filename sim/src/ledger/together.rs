//! Orders of one account that come or go together: one change of the account for all of them.

use super::{CASH_PER_TICK, Holding, Ledger, NO_HOLDING, OPEN_ORDERS, fee};
use crate::book::{Quote, Side};

impl Ledger {
    /// Returns whether an account without open orders may place all quotes: whether
    /// [`admit`](Self::admit) accepts each after those before it. `false` for accounts that are
    /// asked for a margin.
    #[inline]
    pub(crate) fn admits_all(&self, account: u16, symbol: u16, quotes: &[Quote]) -> bool {
        let entry = &self.accounts[usize::from(account)];
        let holding = self.holding(account, symbol);
        let (mut shares, mut needed, mut whole) = ([0_i64; 2], 0_i64, quotes.len() <= OPEN_ORDERS);
        for Quote { side, price, quantity } in quotes {
            whole &= (1..=entry.limits.order).contains(quantity) && *price > 0;
            shares[*side as usize] += i64::from(*quantity);
            let bought = i64::from(*quantity) * i64::from(*side == Side::Buy);
            let cash = bought.saturating_mul(i64::from(*price) * CASH_PER_TICK);
            let cash = cash.saturating_add(fee(cash, self.fees.largest_ppm()));
            needed = needed.saturating_add(cash);
        }
        let position = i64::from(holding.position);
        let [long, short] = [position + shares[0], shares[1] - position];
        let more = short.max(0) - holding.shortable();
        let lendable = self.lendable[usize::from(symbol)] - self.shortable[usize::from(symbol)];
        whole
            && holding.used == 0
            && self.margins.get(usize::from(account)).is_none_or(|ppm| *ppm == 0)
            && long <= i64::from(entry.limits.long)
            && short <= i64::from(entry.limits.short)
            && more <= lendable.max(0)
            && needed <= self.cash(account) - entry.reserved
    }

    /// Adds the quotes of an account, which had no open orders, with their slots of the book.
    #[inline]
    pub(crate) fn opened_all(
        &mut self,
        account: u16,
        symbol: u16,
        quotes: &[Quote],
        slots: &[u16; OPEN_ORDERS],
    ) {
        let reserve = |of: &Quote| self.reserve(of.side, of.price, of.quantity);
        let reserved: i64 = quotes.iter().map(reserve).sum();
        self.accounts[usize::from(account)].reserved += reserved;
        self.shift(account, symbol, |holding| {
            for (place, (quote, slot)) in quotes.iter().zip(slots).enumerate() {
                holding.shares[quote.side as usize] += quote.quantity;
                holding.open[place] = *slot;
                holding.used |= 1 << place;
            }
        });
    }

    /// Removes all open orders of an account in one symbol, after a cancel of each. `freed` is the
    /// sum of their [`reserve`](Self::reserve).
    #[inline]
    pub(crate) fn closed_all(&mut self, account: u16, symbol: u16, freed: i64) {
        self.accounts[usize::from(account)].reserved -= freed;
        self.shift(account, symbol, |holding| {
            *holding = Holding { position: holding.position, ..NO_HOLDING };
        });
    }
}
