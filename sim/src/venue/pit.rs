//! Handling of the orders of one symbol: limits, book, settlement, records.

use super::slot::{Slot, SlotFill};
use crate::{
    book::{
        Book, BookEvents, BookFill, BookOp, BookOutcome, BookReject, NewOrder, Order, OrderKind,
        Quote, Removal, Side, auction::CallAuction,
    },
    ledger::{Ledger, Limits, OPEN_ORDERS, OrderReject, Reduced, Resting, Trade},
    tape::{MarketOrder, Tape},
};

/// Maximum price ticks beyond the opposite touch at which an order of `AgentDesk::cross` trades.
const MOST_SLIP: i32 = 50;

/// Identity of an open order. Unique until 2^32 orders have come to its symbol; in a call auction,
/// until 2^32 ticks have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OrderId {
    /// Symbol.
    pub symbol: u16,
    pub(super) slot: u16,
    pub(super) id: u32,
    /// Whether the order waits for an auction, which numbers its orders apart from the book.
    pub(super) waits: bool,
}

/// Result of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Shares traded on arrival.
    pub filled: i32,
    /// Order that rests with the other shares, if any.
    pub resting: Option<OrderId>,
}

/// Access to one symbol during a turn.
#[derive(Debug)]
pub(crate) struct Pit<'a> {
    pub(crate) symbol: u16,
    pub(crate) now: u64,
    pub(crate) book: &'a mut Book,
    pub(crate) log: Option<&'a mut Vec<BookOp>>,
    pub(crate) auction: Option<&'a mut CallAuction>,
    pub(crate) tape: &'a mut Tape,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) slots: &'a mut [Slot],
}

/// Receiver that applies the events of a book to the ledger, the tape and the slots.
struct Settlement<'a> {
    pub(super) symbol: u16,
    pub(super) now: u64,
    pub(super) tape: &'a mut Tape,
    pub(super) ledger: &'a mut Ledger,
    pub(super) slots: &'a mut [Slot],
    notional: i64,
}

impl BookEvents for Settlement<'_> {
    #[inline]
    fn traded(&mut self, fill: BookFill) {
        let BookFill { price, quantity, maker, maker_id, taker, taker_side, .. } = fill;
        let trade = Trade { price, quantity, maker, taker, taker_side };
        for (account, side, as_maker) in
            [(maker, taker_side.opposite(), true), (taker, taker_side, false)]
        {
            // Slots own the first accounts.
            if let Some(slot) = self.slots.get_mut(usize::from(account)) {
                let fee = self.ledger.fee_for(price, quantity, as_maker);
                let position = self.ledger.position(account, self.symbol);
                // A resting order has its number from `Market::deliver`, on its arrival.
                let rested =
                    if as_maker { slot.orders.number_in_book(self.symbol, maker_id) } else { None };
                let fill = SlotFill {
                    tick: self.now,
                    symbol: self.symbol,
                    side,
                    price,
                    quantity,
                    fee,
                    order: rested.unwrap_or(slot.arriving),
                    maker: as_maker,
                };
                slot.filled(fill, position);
            }
        }
        self.ledger.settle(self.symbol, trade);
        let reduced = Reduced {
            side: taker_side.opposite(),
            price,
            had: fill.maker_left + quantity,
            gone: quantity,
            place: fill.maker_place,
        };
        self.ledger.reduced(maker, self.symbol, reduced);
        self.tape.trade(price, quantity, taker_side);
        self.notional += i64::from(price) * i64::from(quantity);
    }

    #[inline]
    fn removed(&mut self, order: &Order, _why: Removal) {
        let reduced = Reduced {
            side: order.side,
            price: order.price,
            had: order.quantity,
            gone: order.quantity,
            place: order.place,
        };
        self.ledger.reduced(order.owner, self.symbol, reduced);
    }
}

/// Receiver that adds up the reserves of cancelled orders. The ledger removes all of them at once.
struct Withdrawn<'a> {
    ledger: &'a Ledger,
    freed: i64,
}

impl BookEvents for Withdrawn<'_> {
    /// A cancel trades nothing.
    fn traded(&mut self, _: BookFill) {}

    #[inline]
    fn removed(&mut self, order: &Order, _why: Removal) {
        self.freed += self.ledger.reserve(order.side, order.price, order.quantity);
    }
}

impl Pit<'_> {
    /// Adds a call of the book to its log, if there is one.
    #[inline]
    fn note(&mut self, op: BookOp) {
        if let Some(log) = self.log.as_mut() {
            log.push(op);
        }
    }

    /// Splits the book from the receivers of its events.
    #[inline]
    fn split(&mut self) -> (&mut Book, Settlement<'_>) {
        let settlement = Settlement {
            symbol: self.symbol,
            now: self.now,
            tape: self.tape,
            ledger: self.ledger,
            slots: self.slots,
            notional: 0,
        };
        (self.book, settlement)
    }

    #[inline]
    pub(crate) fn submit(
        &mut self,
        account: u16,
        side: Side,
        kind: OrderKind,
        price: i32,
        quantity: i32,
    ) -> Result<Placed, OrderReject> {
        if price < 1 {
            return Err(OrderReject::NoPrice { price });
        }
        // An auction may trade up to the top of the window.
        let highest = if self.auction.is_some() { self.book.window().1 } else { i32::MAX };
        let immediate = kind == OrderKind::Marketable;
        let limit = if immediate && side == Side::Buy { price.min(highest) } else { price };
        let place = match self.ledger.admit(account, self.symbol, side, quantity, limit) {
            // The account cannot pay its limit price. The asks in the book may be cheaper.
            Err(OrderReject::NoCash { .. }) if immediate && self.auction.is_none() => {
                let worst = self.worst_price(account, limit, quantity);
                self.ledger.admit(account, self.symbol, side, quantity, worst)?
            }
            admitted => admitted?,
        };
        let now = self.now as u32;
        let new = NewOrder { owner: account, place, side, kind, price: limit, quantity, now };
        if self.auction.is_some() {
            return self.enter(new);
        }
        self.note(BookOp::Submit(new));
        let (book, mut settlement) = self.split();
        let outcome =
            book.submit(new, &mut settlement).map_err(|reject| explain(reject, book, price))?;
        let notional = settlement.notional;
        let BookOutcome { filled, resting, slot, id } = outcome;
        if filled > 0 {
            let order = MarketOrder { side, quantity: filled, notional, account };
            self.tape.arrival(order);
        }
        if resting == 0 {
            return Ok(Placed { filled, resting: None });
        }
        let entry = Resting { side, price, quantity: resting, slot, place };
        self.ledger.opened(account, self.symbol, entry);
        let id = OrderId { symbol: self.symbol, slot, id, waits: false };
        Ok(Placed { filled, resting: Some(id) })
    }

    /// Places the quotes of an account without open orders, one after the other, if all of them
    /// come to rest whole. Otherwise changes nothing and returns `false`.
    ///
    /// The limits are checked for the sums of all quotes. Each quote then passes alone too.
    #[inline]
    pub(crate) fn rest_all(&mut self, account: u16, kind: OrderKind, quotes: &[Quote]) -> bool {
        let rests = self.auction.is_none()
            && self.book.rests_all(quotes)
            && self.ledger.admits_all(account, self.symbol, quotes);
        if !rests {
            return false;
        }
        let mut slots = [0; OPEN_ORDERS];
        for (place, (quote, slot)) in (0..).zip(quotes.iter().zip(&mut slots)) {
            let Quote { side, price, quantity } = *quote;
            let now = self.now as u32;
            let new = NewOrder { owner: account, place, side, kind, price, quantity, now };
            self.note(BookOp::Submit(new));
            *slot = self.book.rest_whole(&new);
        }
        self.ledger.opened_all(account, self.symbol, quotes, &slots);
        true
    }

    /// Adds an order to the call auction. The window of the book bounds the prices of an auction
    /// too.
    fn enter(&mut self, new: NewOrder) -> Result<Placed, OrderReject> {
        if new.kind != OrderKind::Marketable && !self.book.holds(new.price) {
            return Err(explain(BookReject::OutOfWindow, self.book, new.price));
        }
        let number = self.auction.as_mut().and_then(|auction| auction.push(new));
        let slot = number.ok_or(OrderReject::BookFull)?;
        let NewOrder { owner, side, price, quantity, place, now, .. } = new;
        let entry = Resting { side, price, quantity, slot, place };
        self.ledger.opened(owner, self.symbol, entry);
        let id = OrderId { symbol: self.symbol, slot, id: now, waits: true };
        Ok(Placed { filled: 0, resting: Some(id) })
    }

    /// Returns the highest price at which a marketable buy of `account` limited at `price` would
    /// trade now; 0 if it would not trade.
    fn worst_price(&self, account: u16, price: i32, quantity: i32) -> i32 {
        // The account's own orders are cancelled instead of traded with.
        let own = |at: i32| -> i32 {
            let open = self.ledger.open_slots(account, self.symbol);
            let open = open.filter_map(|slot| self.book.order(slot));
            open.filter(|order| order.price == at).map(|order| order.quantity).sum()
        };
        let (mut left, mut worst) = (quantity, 0);
        self.book.for_each_level(Side::Sell, |at, shares| {
            let others = if at > price { 0 } else { shares - own(at) };
            if others > 0 {
                worst = at;
                left -= others;
            }
            at < price && left > 0
        });
        worst
    }

    /// Cancels the order in book slot `slot`, or with that number in a call auction. The caller has
    /// checked the owner.
    #[inline]
    fn cancel_slot(&mut self, slot: u16) -> bool {
        if let Some(auction) = self.auction.as_mut() {
            let Some(old) = auction.withdraw(slot) else { return false };
            let reduced = Reduced {
                side: old.side,
                price: old.price,
                had: old.quantity,
                gone: old.quantity,
                place: old.place,
            };
            self.ledger.reduced(old.owner, self.symbol, reduced);
            return true;
        }
        self.note(BookOp::Cancel(slot));
        let (book, mut settlement) = self.split();
        book.cancel(slot, &mut settlement)
    }

    pub(crate) fn cancel_id(&mut self, account: u16, order: OrderId) -> bool {
        let owned = match &self.auction {
            Some(auction) => auction.order(order.slot).map(|open| (open.owner, open.now)),
            None => self.book.order(order.slot).map(|open| (open.owner, open.id)),
        };
        order.waits == self.auction.is_some()
            && owned == Some((account, order.id))
            && self.cancel_slot(order.slot)
    }

    #[inline]
    pub(crate) fn cancel_all(&mut self, account: u16) {
        let slots = self.ledger.open_slots(account, self.symbol);
        if self.ledger.open_count(account, self.symbol) == 0 {
            return;
        }
        if self.auction.is_some() {
            slots.for_each(|slot| {
                self.cancel_slot(slot);
            });
            return;
        }
        let mut freed = 0;
        for slot in slots {
            self.note(BookOp::Cancel(slot));
            let mut withdrawn = Withdrawn { ledger: self.ledger, freed: 0 };
            self.book.cancel(slot, &mut withdrawn);
            freed += withdrawn.freed;
        }
        self.ledger.closed_all(account, self.symbol, freed);
    }
}

impl Pit<'_> {
    /// Moves the window of the book; orders that fall outside are cancelled.
    pub(super) fn recentre(&mut self, centre: i32) {
        self.note(BookOp::Recentre(centre));
        let (book, mut settlement) = self.split();
        book.recentre(centre, &mut settlement);
    }
}

fn explain(reject: BookReject, book: &Book, price: i32) -> OrderReject {
    match reject {
        BookReject::WouldTrade => OrderReject::WouldTrade { price },
        BookReject::OutOfWindow => {
            let (low, high) = book.window();
            OrderReject::OutOfWindow { price, low, high }
        }
        BookReject::Full => OrderReject::BookFull,
        BookReject::NoQuantity => OrderReject::NoQuantity { quantity: 0 },
    }
}

/// Access of a background agent to the market during its turn.
pub(crate) struct AgentDesk<'a> {
    pub(crate) pit: Pit<'a>,
    pub(crate) account: u16,
    pub(crate) value: f64,
    pub(crate) tilt: f64,
    /// Factor of the session on wake rates.
    pub(crate) activity: f64,
}

impl AgentDesk<'_> {
    #[inline]
    pub(crate) fn tape(&self) -> &Tape {
        self.pit.tape
    }

    /// Returns the tick, truncated to the `u32` that orders store.
    #[inline]
    pub(crate) const fn now(&self) -> u32 {
        self.pit.now as u32
    }

    #[inline]
    pub(crate) fn open_count(&self) -> usize {
        self.pit.ledger.open_count(self.account, self.pit.symbol)
    }

    /// Returns the fundamental value in price ticks.
    #[inline]
    pub(crate) const fn value(&self) -> f64 {
        self.value
    }

    /// Returns the bias of noise orders towards buying, -1 to 1: P(buy) = (1 + bias) / 2.
    #[inline]
    pub(crate) const fn sentiment_tilt(&self) -> f64 {
        self.tilt
    }

    #[inline]
    pub(crate) fn position(&self) -> i32 {
        self.pit.ledger.position(self.account, self.pit.symbol)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.pit.ledger.limits(self.account)
    }

    #[inline]
    pub(crate) fn best_bid(&self) -> Option<i32> {
        self.pit.book.best_bid()
    }

    #[inline]
    pub(crate) fn best_ask(&self) -> Option<i32> {
        self.pit.book.best_ask()
    }

    /// Returns the best price of the other side, or the next price beyond the last mid-price if
    /// that side is empty.
    #[inline]
    pub(crate) fn opposite(&self, side: Side) -> i32 {
        match side {
            Side::Buy => self.best_ask().unwrap_or(self.pit.tape.mid2 / 2 + 1),
            Side::Sell => self.best_bid().unwrap_or((self.pit.tape.mid2 - 1) / 2),
        }
    }

    /// Returns the best price on `side`. With `better`, improves it by one tick if the spread
    /// allows. On an empty side, the best price counts as two ticks from the opposite one.
    #[inline]
    pub(crate) fn join(&self, side: Side, better: bool) -> i32 {
        let across = self.opposite(side);
        let own = match side {
            Side::Buy => self.best_bid().unwrap_or(across - 2),
            Side::Sell => self.best_ask().unwrap_or(across + 2),
        };
        let improved = own + side.sign() * i32::from(better);
        if (across - improved) * side.sign() > 0 { improved } else { own }
    }

    /// Sends an order. Drops a refused order: a background agent tries again at its next turn.
    #[inline]
    pub(crate) fn place(&mut self, side: Side, kind: OrderKind, price: i32, quantity: i32) {
        let _refused = self.pit.submit(self.account, side, kind, price, quantity).is_err();
    }

    /// Sends a maker's order for all shares of the other side at `price` or better, up to the order
    /// limit.
    #[inline]
    pub(crate) fn sweep(&mut self, side: Side, price: i32) {
        let best = match side {
            Side::Buy => self.best_ask(),
            Side::Sell => self.best_bid(),
        };
        if best.is_none_or(|best| (price - best) * side.sign() < 0) {
            return;
        }
        let mut shares = 0;
        self.pit.book.for_each_level(side.opposite(), |at, quantity| {
            let better = (price - at) * side.sign() >= 0;
            shares += if better { quantity } else { 0 };
            better
        });
        let shares = shares.min(self.limits().order);
        self.place_for_maker(side, OrderKind::Marketable, price, shares);
    }

    /// Sends an order of a maker. What it trades on arrival consumes no latent orders: the makers'
    /// own trades do not push the price around which they quote.
    #[inline]
    fn place_for_maker(&mut self, side: Side, kind: OrderKind, price: i32, quantity: i32) {
        let (consumed, pressure) = (self.pit.tape.consumed, self.pit.tape.pressure);
        self.place(side, kind, price, quantity);
        (self.pit.tape.consumed, self.pit.tape.pressure) = (consumed, pressure);
    }

    /// Sends the quotes of a maker without open orders, one after the other.
    #[inline]
    pub(crate) fn quote(&mut self, kind: OrderKind, quotes: &[Quote]) {
        if !self.pit.rest_all(self.account, kind, quotes) {
            for Quote { side, price, quantity } in quotes {
                self.place_for_maker(*side, kind, *price, *quantity);
            }
        }
    }

    /// Sends a marketable order that walks at most `MOST_SLIP` ticks through the book.
    #[inline]
    pub(crate) fn cross(&mut self, side: Side, quantity: i32) {
        let price = self.opposite(side) + side.sign() * MOST_SLIP;
        self.place(side, OrderKind::Marketable, price.max(1), quantity);
    }

    #[inline]
    pub(crate) fn cancel_all(&mut self) {
        self.pit.cancel_all(self.account);
    }

    /// Cancels one open order, chosen by `draw`.
    pub(crate) fn cancel_one(&mut self, draw: u64) {
        let count = self.open_count();
        if count == 0 {
            return;
        }
        let mut slots = self.pit.ledger.open_slots(self.account, self.pit.symbol);
        let chosen = (draw >> 32) as usize % count;
        if let Some(slot) = slots.nth(chosen) {
            self.pit.cancel_slot(slot);
        }
    }

    /// Cancels the open orders that have rested for more than `life` ticks. Returns the age of the
    /// oldest order that is left, or 0. Cancels nothing in a call auction.
    pub(crate) fn cancel_older_than(&mut self, life: u32) -> u32 {
        let mut oldest = 0;
        if self.pit.auction.is_some() {
            return oldest;
        }
        for slot in self.pit.ledger.open_slots(self.account, self.pit.symbol) {
            let Some(order) = self.pit.book.order(slot) else { continue };
            let age = self.now().wrapping_sub(order.since);
            if age > life {
                self.pit.cancel_slot(slot);
            } else {
                oldest = oldest.max(age);
            }
        }
        oldest
    }
}
