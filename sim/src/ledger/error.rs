//! Errors of the ledger: refused orders, and failed checks.
#![expect(missing_docs, reason = "the messages show the fields")]

use thiserror::Error;

/// Reason for the refusal of an order. Nothing has changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderReject {
    /// The quantity is zero or negative.
    #[error("an order of {quantity} shares; ask for at least 1")]
    NoQuantity { quantity: i32 },
    /// The order is larger than one order may be.
    #[error("an order of {quantity} shares exceeds the limit of {limit} for one order; split it")]
    TooLarge { quantity: i32, limit: i32 },
    /// The position could exceed the long limit.
    #[error(
        "the position could reach {position} shares with all open buys, above the limit of \
         {limit}; buy less or cancel open buys"
    )]
    LongLimit { position: i64, limit: i32 },
    /// The position could exceed the short limit.
    #[error(
        "the position could reach {short} shares short with all open sells, above the limit of \
         {limit}; sell less or cancel open sells"
    )]
    ShortLimit { short: i64, limit: i32 },
    /// The account cannot pay the order at its worst price.
    #[error(
        "the order needs {needed} cash units at its limit, of which {free} are free; buy less or \
         cancel open buys"
    )]
    NoCash { needed: i64, free: i64 },
    /// The initial margin of the account covers fewer shares.
    #[error(
        "an order of {quantity} shares, of which the equity covers {limit} at the initial margin; \
         order less, or close positions"
    )]
    NoMargin { quantity: i64, limit: i64 },
    /// The lender has too few shares left.
    #[error("the order needs {needed} shares to borrow, of which {free} are left; sell less")]
    NoShares { needed: i64, free: i64 },
    /// The account already has the maximum number of open orders in the symbol.
    #[error("{limit} orders are open already, the most for one account; cancel one first")]
    TooManyOpen { limit: u32 },
    /// A post-only order would have traded on arrival.
    #[error("a post-only order at {price} ticks would trade at once; quote further away")]
    WouldTrade { price: i32 },
    /// The price is outside the window of levels of the book.
    #[error("a price of {price} ticks is outside {low}..={high}, the window of the book")]
    OutOfWindow { price: i32, low: i32, high: i32 },
    /// The book has no room for another order.
    #[error("the book is full; raise `book_orders`, or send a marketable order")]
    BookFull,
    /// The slot's queue of requests on their way is full.
    #[error("{limit} orders are on their way already, the most for one slot; wait a tick")]
    QueueFull { limit: u32 },
    /// The slot or symbol does not exist.
    #[error("{what} {index} does not exist; there are {count}, counted from 0")]
    Unknown { what: &'static str, index: u64, count: u64 },
    /// The price is not positive.
    #[error("a price of {price} ticks; the lowest is 1")]
    NoPrice { price: i32 },
    /// A cancel of an order that is not open: it never was, or has left the market.
    #[error("the order to cancel is not open; it may have traded, or was refused or cancelled")]
    NotOpen,
}

/// Result of a failed check of the ledger, which is a defect of the simulator.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConservationError {
    /// Cash of accounts, exchange and lender does not add up to the endowment.
    #[error("cash adds up to {found} units, not to the {expected} given out")]
    Cash { found: i128, expected: i128 },
    /// Positions do not add up to the shares issued.
    #[error("positions in symbol {symbol} add up to {found} shares, not to the {expected} issued")]
    Shares { symbol: u16, found: i64, expected: i64 },
    /// The running sum of shortable shares is wrong.
    #[error(
        "accounts could be short {found} shares of symbol {symbol}; the sum kept is {expected}"
    )]
    Borrowed { symbol: u16, found: i64, expected: i64 },
    /// A book and the ledger disagree about open orders.
    #[error("account {account} has {ledger} shares open in symbol {symbol}, its book {book}")]
    Open { account: u16, symbol: u16, ledger: i64, book: i64 },
}
