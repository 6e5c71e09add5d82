//! An order of the agent, and its place in the queue of recorded orders at its price.

use super::book::{HistoricBook, HistoricLevel, Touched};
use super::message::{HistoryPrice, Message, MessageKind};
use crate::book::Side;

/// A resting order of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnOrder {
    /// Id that the replay gave it.
    pub id: u64,
    /// Side.
    pub side: Side,
    /// Limit.
    pub price: HistoryPrice,
    /// Shares left.
    pub shares: i64,
    /// Time of arrival in nanoseconds after midnight.
    pub time: u64,
    /// Arrival number that the next submission of history had when the order arrived.
    pub(super) arrival: u64,
    /// Shares of the block at its price that stand in front of it.
    pub(super) block_ahead: i64,
}

impl OwnOrder {
    /// Puts an order at the end of the queue at its price.
    pub(super) fn rest(
        book: &HistoricBook,
        (id, time): (u64, u64),
        side: Side,
        price: HistoryPrice,
        shares: i64,
    ) -> Self {
        let block_ahead = book.level(side, price).map_or(0, HistoricLevel::block);
        Self { id, side, price, shares, time, arrival: book.arrivals(), block_ahead }
    }

    /// Returns the recorded shares at the price that stand in front of the order.
    #[must_use]
    pub fn ahead(&self, book: &HistoricBook) -> i64 {
        let known = |level: &HistoricLevel| level.known_before(self.arrival);
        self.block_ahead + book.level(self.side, self.price).map_or(0, known)
    }

    /// Returns whether a trade at `price` would be worse for its maker than this order's limit: the
    /// order stands in front of it.
    fn is_passed_by(&self, price: HistoryPrice) -> bool {
        match self.side {
            Side::Buy => price < self.price,
            Side::Sell => price > self.price,
        }
    }

    /// Notes a message of history that `book` has applied, and returns how many of at most `budget`
    /// shares of it the order gets.
    ///
    /// - A visible execution on the order's side: beyond its price all, at its price what exceeds
    ///   the shares in front.
    /// - A hidden execution: beyond its price all, at its price on its side all, once no shares are
    ///   in front.
    /// - A submission of the other side that the order would have traded with.
    pub(super) fn meet(
        &mut self,
        book: &HistoricBook,
        message: &Message,
        touched: Touched,
        budget: i64,
    ) -> i64 {
        let here = (message.side, message.price) == (self.side, self.price);
        let passed = self.is_passed_by(message.price);
        let most = budget.min(self.shares);
        let gets = match message.kind {
            MessageKind::Execute if here => match touched {
                Touched::Block => {
                    let behind = message.shares - self.block_ahead;
                    self.block_ahead = (-behind).max(0);
                    let first = self.ahead(book) == 0;
                    return if first { most.min(behind.max(0)) } else { 0 };
                }
                Touched::Known(arrival) => arrival >= self.arrival && self.ahead(book) == 0,
                Touched::Nothing => false,
            },
            MessageKind::Execute => passed && message.side == self.side,
            MessageKind::ExecuteHidden => passed || (here && self.ahead(book) == 0),
            MessageKind::Submit => {
                let crosses = passed || message.price == self.price;
                crosses && message.side != self.side && !book.halted()
            }
            MessageKind::Cancel | MessageKind::Delete => {
                if here && touched == Touched::Block {
                    // Which shares left is unknown: those behind the order, while there are any.
                    let block = book.level(self.side, self.price).map_or(0, HistoricLevel::block);
                    self.block_ahead = self.block_ahead.min(block);
                }
                false
            }
            // The executions of a cross have messages of their own.
            MessageKind::Cross | MessageKind::Halt | MessageKind::Quote | MessageKind::Resume => {
                false
            }
        };
        if gets { most } else { 0 }
    }

    /// Notes that the level of the order became a block of `shares`. `ahead` is what stood in front
    /// before.
    pub(super) fn sync(&mut self, ahead: i64, arrivals: u64, shares: i64) {
        self.block_ahead = ahead.min(shares);
        self.arrival = arrivals;
    }
}
