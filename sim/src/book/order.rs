//! Orders of a book, and the events that they cause.

/// Value that ends a chain of orders.
pub(super) const NIL: u16 = u16::MAX;

/// Side of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Side {
    /// Bids for shares.
    Buy = 0,
    /// Offers shares.
    Sell = 1,
}

impl Side {
    /// Returns the other side.
    #[must_use]
    #[inline]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }

    /// Returns +1 for a buy and -1 for a sell.
    #[must_use]
    #[inline]
    pub const fn sign(self) -> i32 {
        match self {
            Self::Buy => 1,
            Self::Sell => -1,
        }
    }
}

/// Behaviour of the part of an order that does not trade on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderKind {
    /// Rests in the book.
    Limit,
    /// Is dropped: a marketable limit order, immediate or cancel.
    Marketable,
    /// Rests; the whole order is refused if any part would trade on arrival.
    PostOnly,
}

/// A new order for the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Account that sends it.
    pub owner: u16,
    /// Position in the owner's list of open orders; comes back with every event.
    pub place: u8,
    /// Side.
    pub side: Side,
    /// Behaviour of the rest.
    pub kind: OrderKind,
    /// Worst acceptable price in ticks.
    pub price: i32,
    /// Shares, at least 1.
    pub quantity: i32,
    /// Tick of arrival.
    pub now: u32,
}

/// Limit order of a maker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    pub(crate) side: Side,
    pub(crate) price: i32,
    pub(crate) quantity: i32,
}

/// One call that changes a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookOp {
    /// [`Book::submit`](super::Book::submit).
    Submit(NewOrder),
    /// [`Book::cancel`](super::Book::cancel) of a slot.
    Cancel(u16),
    /// [`Book::recentre`](super::Book::recentre).
    Recentre(i32),
}

/// A resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Arrival number in this book, from 1.
    pub id: u32,
    /// Price in ticks.
    pub price: i32,
    /// Shares left.
    pub quantity: i32,
    /// Tick of arrival.
    pub since: u32,
    /// Account that owns it.
    pub owner: u16,
    pub(super) prev: u16,
    pub(super) next: u16,
    /// Position in the owner's list of open orders.
    pub place: u8,
    /// Side.
    pub side: Side,
}

pub(super) const EMPTY: Order = Order {
    id: 0,
    price: 0,
    quantity: 0,
    since: 0,
    owner: 0,
    prev: NIL,
    next: NIL,
    place: 0,
    side: Side::Buy,
};

/// One trade between a resting order and an incoming one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookFill {
    /// Price in ticks: that of the resting order.
    pub price: i32,
    /// Shares.
    pub quantity: i32,
    /// Account of the resting order.
    pub maker: u16,
    /// Account of the incoming order.
    pub taker: u16,
    /// Side of the incoming order.
    pub taker_side: Side,
    /// Arrival number of the resting order.
    pub maker_id: u32,
    /// Position of the resting order in its owner's list.
    pub maker_place: u8,
    /// Shares left in the resting order; 0 removes it.
    pub maker_left: i32,
}

/// Reason why an order left the book without a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Removal {
    /// Its owner cancelled it.
    Cancelled,
    /// An incoming order of the same owner would have traded with it.
    SelfTrade,
    /// The window of levels moved away from it.
    OutOfWindow,
}

/// Receiver of the events of a book, in order.
pub trait BookEvents {
    /// Takes one trade.
    fn traded(&mut self, fill: BookFill);
    /// Takes an order that left without a trade, with the shares it still had.
    fn removed(&mut self, order: &Order, why: Removal);
}

/// Result of a new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BookOutcome {
    /// Shares traded on arrival.
    pub filled: i32,
    /// Shares that rest now.
    pub resting: i32,
    /// Slab index of the resting order, if `resting > 0`.
    pub slot: u16,
    /// Arrival number of the order.
    pub id: u32,
}

/// Reason for the refusal of a new order. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BookReject {
    /// A post-only order would have traded on arrival.
    WouldTrade,
    /// The price is outside the window of levels.
    OutOfWindow,
    /// The slab has no free slot.
    Full,
    /// The quantity is not positive.
    NoQuantity,
}
