//! One symbol as traders see it: book, call auction, public record, and the slots of orders from
//! outside.

mod last_quotes;
mod open_orders;
mod pit;
mod slot;

use last_quotes::LastQuotes;
use open_orders::NumberedOrders;
pub use open_orders::OpenOrder;
pub(crate) use pit::{AgentDesk, Pit};
pub use pit::{OrderId, Placed};
pub use slot::{IN_FLIGHT, SlotFill, SlotReport, SlotRequest, SlotTotals};
pub(crate) use slot::{Pending, Slot};

use crate::{
    book::{
        Book, BookOp, Side,
        auction::{AuctionRule, CallAuction},
    },
    config::{MarketConfig, Matching},
    ledger::{Ledger, Reduced},
    tape::{MarketOrder, Tape},
};

/// Submissions per account and tick for which the tape has room.
const ORDERS_PER_ACCOUNT: usize = 4;

/// Book, call auction and public record of one symbol.
#[derive(Debug)]
pub(crate) struct Venue {
    pub(crate) book: Book,
    pub(crate) auction: Option<CallAuction>,
    /// Orders go to the auction and not to the book.
    pub(crate) calling: bool,
    /// Orders of the book before the session cancelled them.
    pub(crate) last_quotes: LastQuotes,
    pub(crate) tape: Tape,
    /// Calls of the book, if they are logged. Copies have no log.
    pub(crate) log: Option<Vec<BookOp>>,
}

impl Clone for Venue {
    fn clone(&self) -> Self {
        let mut tape = Tape::new(self.tape.orders.capacity());
        tape.copy_from(&self.tape);
        let (book, auction) = (self.book.clone(), self.auction.clone());
        let last_quotes = self.last_quotes.clone();
        Self { book, auction, calling: self.calling, last_quotes, tape, log: None }
    }

    fn clone_from(&mut self, source: &Self) {
        let Self { book, auction, calling, last_quotes, tape, log: _ } = source;
        self.last_quotes.clone_from(last_quotes);
        self.book.clone_from(book);
        self.auction.clone_from(auction);
        self.calling = *calling;
        self.tape.copy_from(tape);
        self.log = None;
    }
}

impl Venue {
    /// Allocates a venue in which `accounts` accounts can trade.
    pub(crate) fn new(config: &MarketConfig, accounts: usize) -> Self {
        let auction = match config.matching {
            Matching::Continuous if config.session.auction_ticks == 0 => None,
            Matching::Continuous => Some(AuctionRule::PricePriority),
            Matching::CallAuction(rule) => Some(rule),
        };
        let auction = auction.map(|rule| CallAuction::new(config.book_orders, rule));
        Self {
            book: Book::new(config.book_levels, config.book_orders, config.initial_price),
            auction,
            calling: false,
            last_quotes: LastQuotes::new(if config.session.is_on() {
                config.book_orders
            } else {
                0
            }),
            tape: Tape::new(ORDERS_PER_ACCOUNT * accounts + 16),
            log: None,
        }
    }

    pub(crate) fn reset(&mut self, config: &MarketConfig) {
        self.book.clear(config.initial_price);
        if let Some(log) = &mut self.log {
            log.clear();
        }
        if let Some(auction) = &mut self.auction {
            auction.clear_orders();
        }
        self.calling = false;
        self.last_quotes.clear();
        self.tape.reset(config.initial_price, &config.arousal);
    }

    /// Borrows the parts that orders of one turn change: book, auction, tape, ledger and slots.
    #[inline]
    pub(crate) fn pit<'a>(
        &'a mut self,
        symbol: u16,
        now: u64,
        ledger: &'a mut Ledger,
        slots: &'a mut [Slot],
    ) -> Pit<'a> {
        Pit {
            symbol,
            now,
            book: &mut self.book,
            log: self.log.as_mut(),
            auction: self.auction.as_mut().filter(|_| self.calling),
            tape: &mut self.tape,
            ledger,
            slots,
        }
    }

    /// Holds the call auction, and drops the orders that did not trade.
    pub(crate) fn call(&mut self, symbol: u16, now: u64, ledger: &mut Ledger, slots: &mut [Slot]) {
        let Some(auction) = self.auction.as_mut() else { return };
        let cleared = auction.clear(self.tape.last_price);
        if let Some(cleared) = cleared {
            let side = if cleared.imbalance < 0 { Side::Sell } else { Side::Buy };
            for (place, order, filled) in auction.results().filter(|(.., filled)| *filled > 0) {
                if let Some(slot) = slots.get_mut(usize::from(order.owner)) {
                    let fee = ledger.fee_for(cleared.price, filled, true);
                    let position = ledger.position(order.owner, symbol);
                    let fill = SlotFill {
                        tick: now,
                        symbol,
                        side: order.side,
                        price: cleared.price,
                        quantity: filled,
                        fee,
                        order: slot.orders.number_in_auction(symbol, place).unwrap_or_default(),
                        maker: true,
                    };
                    slot.filled(fill, position);
                }
                ledger.settle_side(order.owner, symbol, order.side, cleared.price, filled);
            }
            // The larger side counts as the one that moved the price.
            let quantity = cleared.volume.min(i64::from(i32::MAX)) as i32;
            self.tape.trade(cleared.price, quantity, side);
            // At one price for both sides, neither side initiates a trade.
            self.tape.signed_volume = 0;
            let notional = i64::from(cleared.price) * i64::from(quantity);
            let account = u16::MAX;
            self.tape.market_order(MarketOrder { side, quantity, notional, account });
        }
        for (_, order, _) in auction.results() {
            let reduced = Reduced {
                side: order.side,
                price: order.price,
                had: order.quantity,
                gone: order.quantity,
                place: order.place,
            };
            ledger.reduced(order.owner, symbol, reduced);
        }
        auction.clear_orders();
    }

    /// Cancels the orders in the book of `accounts`, which are all. Keeps them as the last quotes.
    pub(crate) fn expire(
        &mut self,
        accounts: impl Iterator<Item = u16>,
        (symbol, now): (u16, u64),
        ledger: &mut Ledger,
        slots: &mut [Slot],
    ) {
        self.last_quotes.keep(&self.book, self.tape.mid2);
        let mut pit = self.pit(symbol, now, ledger, slots);
        accounts.for_each(|account| pit.cancel_all(account));
    }

    /// Closes the tape of the tick.
    #[inline]
    pub(crate) fn end_tick(&mut self, config: &MarketConfig) {
        let (mut bid, mut ask) = (self.book.best_bid(), self.book.best_ask());
        if self.calling {
            // An auction has one price.
            (bid, ask) = (Some(self.tape.last_price), Some(self.tape.last_price));
        }
        self.tape.end_tick(bid, ask, &config.arousal);
    }

    /// Moves the window of the book if the price nears its edge. While a side of the book is empty
    /// the mid-price stands still, also if all quotes would lie outside the window: the window
    /// follows `value` then.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        (symbol, value): (u16, f64),
        now: u64,
        ledger: &mut Ledger,
        slots: &mut [Slot],
    ) {
        let (low, high) = self.book.window();
        let has_mid = self.book.best_bid().is_some() && self.book.best_ask().is_some();
        let centre = if has_mid { self.tape.mid2 / 2 } else { value as i32 };
        let edge = (high - low) / 4;
        if centre < low + edge || centre > high - edge {
            self.pit(symbol, now, ledger, slots).recentre(centre);
        }
    }
}
