//! Open orders of a slot by the numbers of their requests.

use super::{OrderId, Venue};
use crate::{book::Side, ledger::OPEN_ORDERS};

/// An open order of a slot: it rests in a book, or waits for an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOrder {
    /// Number that [`Market::send`](crate::Market::send) returned for its request.
    pub number: u64,
    /// Symbol.
    pub symbol: u16,
    /// Side.
    pub side: Side,
    /// Limit in price ticks.
    pub price: i32,
    /// Shares that have not traded.
    pub quantity: i32,
    /// Tick of arrival.
    pub tick: u64,
}

/// Orders of one slot that have rested, in the sequence of their numbers. Some may have left since.
#[derive(Debug, Default)]
pub(crate) struct NumberedOrders(Vec<(u64, OrderId)>);

impl Clone for NumberedOrders {
    fn clone(&self) -> Self {
        let mut copy = Self(Vec::with_capacity(self.0.capacity()));
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        self.0.clone_from(&source.0);
    }
}

impl NumberedOrders {
    /// Allocates memory for all orders that a slot can have open in `symbols` symbols.
    pub(crate) fn new(symbols: usize) -> Self {
        Self(Vec::with_capacity(OPEN_ORDERS * symbols))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds an order that has begun to rest. Drops the orders that have left if the list is full.
    pub(crate) fn add(&mut self, number: u64, order: OrderId, is_open: impl Fn(OrderId) -> bool) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|(_, order)| is_open(*order));
        }
        self.0.push((number, order));
    }

    /// Returns the order of a request; `None` if it never rested or was dropped from the list.
    pub(crate) fn find(&self, number: u64) -> Option<OrderId> {
        let at = self.0.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.0[at].1)
    }

    /// Returns the number of the open order that a book numbers `id`.
    pub(super) fn number_in_book(&self, symbol: u16, id: u32) -> Option<u64> {
        self.number_of(|order| !order.waits && (order.symbol, order.id) == (symbol, id))
    }

    /// Returns the number of the order that waits in place `slot` of an auction.
    pub(super) fn number_in_auction(&self, symbol: u16, slot: u16) -> Option<u64> {
        self.number_of(|order| order.waits && (order.symbol, order.slot) == (symbol, slot))
    }

    /// Returns the largest number of an order that `is_it`: earlier ones have left the market.
    fn number_of(&self, is_it: impl Fn(&OrderId) -> bool) -> Option<u64> {
        let found = self.0.iter().rev().find(|(_, order)| is_it(order));
        found.map(|(number, _)| *number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, OrderId)> {
        self.0.iter().copied()
    }
}

impl Venue {
    /// Returns an order of `account`, if it is open. `now` is the current tick.
    pub(crate) fn open_order(
        &self,
        account: u16,
        (number, order): (u64, OrderId),
        now: u64,
    ) -> Option<OpenOrder> {
        let OrderId { symbol, slot, id, waits } = order;
        let open = |side, price, quantity, since| {
            let age = (now as u32).wrapping_sub(since);
            let tick = now - u64::from(age);
            OpenOrder { number, symbol, side, price, quantity, tick }
        };
        if waits {
            let found = self.auction.as_ref()?.order(slot)?;
            let is_it = found.owner == account && found.now == id;
            return is_it.then(|| open(found.side, found.price, found.quantity, found.now));
        }
        let found = self.book.order(slot)?;
        let is_it = found.owner == account && found.id == id;
        is_it.then(|| open(found.side, found.price, found.quantity, found.since))
    }
}
