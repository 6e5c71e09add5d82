//! Limit order book of one symbol: price-time priority over a window of levels.
//!
//! A level is an entry of a fixed array; its price is `base + index`. A bitmap per side marks the
//! occupied levels, so that the best price is found without a scan. Orders live in a slab and are
//! linked into their level oldest first. Nothing is allocated after [`Book::new`].

pub(crate) mod auction;
mod bitmap;
mod order;

use self::bitmap::Bitmap;
pub(crate) use self::order::Quote;
pub use self::order::{
    BookEvents, BookFill, BookOp, BookOutcome, BookReject, NewOrder, Order, OrderKind, Removal,
    Side,
};
use self::order::{EMPTY, NIL};
use crate::clone_in_place::clone_in_place;

/// Upper bound of a window's lowest price, in ticks, so that price times shares times cash units
/// fits an `i64`.
pub(crate) const MAX_PRICE: i32 = 90_000_000;

/// Price levels on each side of the mid-price that `read_ahead` loads. Few orders touch others.
const NEAR_LEVELS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct PriceLevel {
    head: u16,
    tail: u16,
    quantity: i32,
}

const NO_ORDERS: PriceLevel = PriceLevel { head: NIL, tail: NIL, quantity: 0 };

/// Limit order book of one symbol. Takes 8 bytes per level and 24 bytes per order.
#[derive(Debug)]
pub struct Book {
    base: i32,
    levels: Vec<PriceLevel>,
    bids: Bitmap,
    asks: Bitmap,
    /// Resting shares of buys and of sells.
    shares: [i64; 2],
    orders: Vec<Order>,
    /// Number of slots that have held an order since the last `clear`. They are the first ones,
    /// since freed slots are reused first.
    used: u16,
    free: u16,
    live: u16,
    next_id: u32,
    recentred: u64,
    expelled: u64,
}

clone_in_place! {
    Book {
        base, levels, bids, asks, shares, orders, used, free, live, next_id, recentred,
        expelled,
    }
}

impl Book {
    /// Maximum number of levels of a window.
    pub const MAX_LEVELS: usize = Bitmap::BITS;
    /// Maximum number of orders of a slab.
    pub const MAX_ORDERS: usize = NIL as usize - 1;

    /// Creates an empty book of `levels` prices around `centre`, with room for `orders` orders.
    ///
    /// # Panics
    /// If `levels` is not in `2..=MAX_LEVELS` or `orders` not in `1..=MAX_ORDERS`; a market's
    /// configuration is checked for both.
    #[must_use]
    pub fn new(levels: usize, orders: usize, centre: i32) -> Self {
        assert!((2..=Self::MAX_LEVELS).contains(&levels), "{levels} levels");
        assert!((1..=Self::MAX_ORDERS).contains(&orders), "{orders} orders");
        let mut book = Self {
            base: 0,
            levels: vec![NO_ORDERS; levels],
            bids: Bitmap::EMPTY,
            asks: Bitmap::EMPTY,
            shares: [0; 2],
            orders: vec![EMPTY; orders],
            used: 0,
            free: 0,
            live: 0,
            next_id: 1,
            recentred: 0,
            expelled: 0,
        };
        book.clear(centre);
        book
    }

    /// Drops all orders without events, centres the window, and resets the counters.
    pub fn clear(&mut self, centre: i32) {
        self.base = self.base_for(centre);
        self.levels.fill(NO_ORDERS);
        self.bids = Bitmap::EMPTY;
        self.asks = Bitmap::EMPTY;
        self.shares = [0; 2];
        let last = self.orders.len() - 1;
        for (index, order) in self.orders.iter_mut().enumerate() {
            *order = Order { next: if index == last { NIL } else { index as u16 + 1 }, ..EMPTY };
        }
        self.used = 0;
        self.free = 0;
        self.live = 0;
        self.next_id = 1;
        self.recentred = 0;
        self.expelled = 0;
    }

    /// Returns the lowest price of a window around `centre`, within `1..=MAX_PRICE`.
    fn base_for(&self, centre: i32) -> i32 {
        centre.saturating_sub(self.levels.len() as i32 / 2).clamp(1, MAX_PRICE)
    }

    /// Returns the highest bid in ticks; `None` without bids.
    #[must_use]
    #[inline]
    pub fn best_bid(&self) -> Option<i32> {
        self.bids.highest().map(|level| self.base + level as i32)
    }

    /// Returns the lowest ask in ticks; `None` without asks.
    #[must_use]
    #[inline]
    pub fn best_ask(&self) -> Option<i32> {
        self.asks.lowest().map(|level| self.base + level as i32)
    }

    /// Returns the lowest and the highest price that the window holds.
    #[must_use]
    pub fn window(&self) -> (i32, i32) {
        (self.base, self.base + (self.levels.len() as i32 - 1))
    }

    /// Returns whether the window holds `price`.
    pub(crate) fn holds(&self, price: i32) -> bool {
        self.level_of(price).is_some()
    }

    /// Returns the shares at `price` on `side`; 0 outside the window.
    #[must_use]
    pub fn quantity_at(&self, side: Side, price: i32) -> i32 {
        let Some(level) = self.level_of(price) else { return 0 };
        let map = if side == Side::Buy { &self.bids } else { &self.asks };
        if map.contains(level) { self.levels[level].quantity } else { 0 }
    }

    /// Returns all resting shares of `side`.
    #[must_use]
    pub const fn shares(&self, side: Side) -> i64 {
        self.shares[side as usize]
    }

    /// Visits the occupied levels of one side from the touch outwards, as (price, shares), until
    /// `visit` returns false.
    #[inline]
    pub fn for_each_level(&self, side: Side, mut visit: impl FnMut(i32, i32) -> bool) {
        let mut level = match side {
            Side::Buy => self.bids.highest(),
            Side::Sell => self.asks.lowest(),
        };
        while let Some(index) = level {
            if !visit(self.base + index as i32, self.levels[index].quantity) {
                return;
            }
            level = match side {
                Side::Buy => self.bids.below(index),
                Side::Sell => self.asks.above(index),
            };
        }
    }

    /// Visits the orders of one side in the sequence in which they would trade.
    pub fn for_each_order(&self, side: Side, mut visit: impl FnMut(u16, &Order)) {
        self.for_each_level(side, |price, _| {
            let mut at = self.levels[(price - self.base) as usize].head;
            while at != NIL {
                let order = &self.orders[usize::from(at)];
                visit(at, order);
                at = order.next;
            }
            true
        });
    }

    /// Returns the resting order in `slot`; `None` if the slot is free.
    #[must_use]
    #[inline]
    pub fn order(&self, slot: u16) -> Option<&Order> {
        self.orders.get(usize::from(slot)).filter(|order| order.quantity > 0)
    }

    /// Loads one number of each cache line of the orders, and of the levels near `price`, which
    /// brings the lines into the caches. The result has no meaning: it keeps the loads from being
    /// optimised away.
    pub(crate) fn read_ahead(&self, price: i32) -> u32 {
        let orders = self.orders[..usize::from(self.used)].iter();
        let orders = orders.step_by(64 / size_of::<Order>()).fold(0, |sum, order| sum ^ order.id);
        let centre = price.saturating_sub(self.base).max(0) as usize;
        let end = (centre + NEAR_LEVELS).min(self.levels.len());
        let levels = self.levels[centre.saturating_sub(NEAR_LEVELS).min(end)..end].iter();
        let levels = levels.step_by(64 / size_of::<PriceLevel>());
        levels.fold(orders, |sum, level| sum ^ level.quantity as u32)
    }

    /// Returns the number of resting orders.
    #[must_use]
    pub const fn live_orders(&self) -> usize {
        self.live as usize
    }

    /// Returns how often the window moved, and how many orders it left behind, since the last
    /// [`clear`](Self::clear).
    #[must_use]
    pub const fn window_moves(&self) -> (u64, u64) {
        (self.recentred, self.expelled)
    }

    /// Returns the arrival number that the next accepted order gets.
    #[must_use]
    pub const fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Processes a new order: trades the part that crosses, then rests or drops what is left.
    ///
    /// Cancels a resting order of the same owner instead of trading with it. `O(1)` for each order
    /// met.
    ///
    /// # Errors
    /// [`BookReject`], before anything changes.
    #[inline]
    pub fn submit(
        &mut self,
        new: NewOrder,
        events: &mut impl BookEvents,
    ) -> Result<BookOutcome, BookReject> {
        if new.quantity <= 0 {
            return Err(BookReject::NoQuantity);
        }
        let limit = if new.kind == OrderKind::Marketable {
            // An immediate order may name any price: the part beyond the window is empty anyway.
            i64::from(new.price) - i64::from(self.base)
        } else {
            if self.free == NIL {
                return Err(BookReject::Full);
            }
            self.level_of(new.price).ok_or(BookReject::OutOfWindow)? as i64
        };
        if new.kind == OrderKind::PostOnly && self.crosses(new.side, limit) {
            return Err(BookReject::WouldTrade);
        }
        let id = self.take_id();
        let left = self.take(&new, limit, events);
        let mut outcome = BookOutcome { filled: new.quantity - left, resting: 0, slot: NIL, id };
        if left > 0 && new.kind != OrderKind::Marketable {
            outcome.slot = self.rest(&new, id, left, limit as usize);
            outcome.resting = left;
        }
        Ok(outcome)
    }

    /// Returns whether all quotes would come to rest whole, one after the other.
    #[inline]
    pub(crate) fn rests_all(&self, quotes: &[Quote]) -> bool {
        let (mut bid, mut ask) =
            (self.best_bid().unwrap_or(0), self.best_ask().unwrap_or(i32::MAX));
        for Quote { side, price, .. } in quotes {
            match side {
                Side::Buy => bid = bid.max(*price),
                Side::Sell => ask = ask.min(*price),
            }
        }
        bid < ask
            && quotes.len() + usize::from(self.live) <= self.orders.len()
            && quotes.iter().all(|quote| self.holds(quote.price))
    }

    /// Rests a new order that does not cross, within the window of a book that is not full.
    #[inline]
    pub(crate) fn rest_whole(&mut self, new: &NewOrder) -> u16 {
        let id = self.take_id();
        self.rest(new, id, new.quantity, (new.price - self.base) as usize)
    }

    #[inline]
    fn take_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1).max(1);
        id
    }

    /// Cancels the order in `slot`. Returns false if the slot is free.
    #[inline]
    pub fn cancel(&mut self, slot: u16, events: &mut impl BookEvents) -> bool {
        self.remove(slot, Removal::Cancelled, events)
    }

    /// Applies a logged call of another book. A book that starts in the same state and applies all
    /// calls ends in the same state.
    #[inline]
    pub fn apply(&mut self, op: BookOp, events: &mut impl BookEvents) {
        match op {
            // A refused order is refused here too.
            BookOp::Submit(new) => {
                let _ = self.submit(new, events);
            }
            BookOp::Cancel(slot) => {
                self.cancel(slot, events);
            }
            BookOp::Recentre(centre) => self.recentre(centre, events),
        }
    }

    /// Moves the window to `centre`. Orders that fall outside are removed.
    pub fn recentre(&mut self, centre: i32, events: &mut impl BookEvents) {
        let base = self.base_for(centre);
        if base == self.base {
            return;
        }
        self.recentred += 1;
        let len = self.levels.len() as i32;
        for slot in 0..self.orders.len() {
            let order = self.orders[slot];
            if order.quantity > 0 && !(base..base.saturating_add(len)).contains(&order.price) {
                self.expelled += 1;
                self.remove(slot as u16, Removal::OutOfWindow, events);
            }
        }
        let shift = base - self.base;
        let distance = shift.unsigned_abs().min(len.unsigned_abs()) as usize;
        if shift > 0 {
            self.levels.rotate_left(distance % len as usize);
        } else {
            self.levels.rotate_right(distance % len as usize);
        }
        self.base = base;
        self.bids = self.bids.shifted(shift, self.levels.len());
        self.asks = self.asks.shifted(shift, self.levels.len());
    }

    fn level_of(&self, price: i32) -> Option<usize> {
        let level = usize::try_from(price.checked_sub(self.base)?).ok()?;
        (level < self.levels.len()).then_some(level)
    }

    /// Returns whether an order of `side` limited at `limit`, a level, would trade immediately.
    fn crosses(&self, side: Side, limit: i64) -> bool {
        match side {
            Side::Buy => self.asks.lowest().is_some_and(|ask| ask as i64 <= limit),
            Side::Sell => self.bids.highest().is_some_and(|bid| bid as i64 >= limit),
        }
    }

    /// Trades an incoming order against the other side; returns the shares left.
    fn take(&mut self, new: &NewOrder, limit: i64, events: &mut impl BookEvents) -> i32 {
        let mut left = new.quantity;
        while left > 0 {
            let best = match new.side {
                Side::Buy => self.asks.lowest().filter(|ask| *ask as i64 <= limit),
                Side::Sell => self.bids.highest().filter(|bid| *bid as i64 >= limit),
            };
            let Some(level) = best else { break };
            let slot = self.levels[level].head;
            let order = &mut self.orders[usize::from(slot)];
            if order.owner == new.owner {
                self.remove(slot, Removal::SelfTrade, events);
                continue;
            }
            let quantity = left.min(order.quantity);
            left -= quantity;
            order.quantity -= quantity;
            self.levels[level].quantity -= quantity;
            self.shares[new.side.opposite() as usize] -= i64::from(quantity);
            let fill = BookFill {
                price: order.price,
                quantity,
                maker: order.owner,
                taker: new.owner,
                taker_side: new.side,
                maker_id: order.id,
                maker_place: order.place,
                maker_left: order.quantity,
            };
            if fill.maker_left == 0 {
                self.unlink(slot, level, new.side.opposite());
            }
            events.traded(fill);
        }
        left
    }

    fn rest(&mut self, new: &NewOrder, id: u32, quantity: i32, level: usize) -> u16 {
        let slot = self.free;
        let order = &mut self.orders[usize::from(slot)];
        self.free = order.next;
        self.used = self.used.max(slot + 1);
        self.live += 1;
        let prev = self.levels[level].tail;
        *order = Order {
            id,
            price: new.price,
            quantity,
            since: new.now,
            owner: new.owner,
            prev,
            next: NIL,
            place: new.place,
            side: new.side,
        };
        self.shares[new.side as usize] += i64::from(quantity);
        let entry = &mut self.levels[level];
        entry.tail = slot;
        entry.quantity += quantity;
        if prev == NIL {
            entry.head = slot;
            match new.side {
                Side::Buy => self.bids.insert(level),
                Side::Sell => self.asks.insert(level),
            }
        } else {
            self.orders[usize::from(prev)].next = slot;
        }
        slot
    }

    fn remove(&mut self, slot: u16, why: Removal, events: &mut impl BookEvents) -> bool {
        let Some(&order) = self.order(slot) else { return false };
        let level = (order.price - self.base) as usize;
        self.levels[level].quantity -= order.quantity;
        self.shares[order.side as usize] -= i64::from(order.quantity);
        self.orders[usize::from(slot)].quantity = 0;
        self.unlink(slot, level, order.side);
        events.removed(&order, why);
        true
    }

    /// Takes an order out of its level's chain and puts its slot on the free list.
    fn unlink(&mut self, slot: u16, level: usize, side: Side) {
        let Order { prev, next, .. } = self.orders[usize::from(slot)];
        if prev == NIL {
            self.levels[level].head = next;
        } else {
            self.orders[usize::from(prev)].next = next;
        }
        if next == NIL {
            self.levels[level].tail = prev;
        } else {
            self.orders[usize::from(next)].prev = prev;
        }
        if self.levels[level].head == NIL {
            match side {
                Side::Buy => self.bids.remove(level),
                Side::Sell => self.asks.remove(level),
            }
        }
        self.orders[usize::from(slot)].next = self.free;
        self.free = slot;
        self.live -= 1;
    }
}
