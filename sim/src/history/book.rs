//! The recorded orders of one stock: what the messages leave, and nothing of an agent.
//!
//! [`Book`](crate::Book) matches orders; history has matched its own already. Here a message says
//! which order traded, prices may be far apart, and ids are those of the exchange.
//!
//! Orders from before the file, and orders that were out of an order book file's sight, have no
//! ids. They are a *block* at the front of their level: a number of shares. A message about an
//! unknown id takes its shares from the block of its price.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;

use super::error::MessageReject;
use super::message::{HistoryPrice, Message, MessageKind};
use crate::book::Side;

/// A recorded order that rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistoricOrder {
    pub(super) id: i64,
    /// Place in the sequence of all submissions.
    pub(super) arrival: u64,
    pub(super) shares: i64,
    /// Shares that the agent has bought from or sold to the order. They still rest in history.
    pub(super) taken: i64,
}

/// Recorded orders at one price, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoricLevel {
    /// Shares of orders without known ids, which stand in front.
    pub(super) block: i64,
    /// Shares of the block that the agent has traded with.
    pub(super) block_taken: i64,
    /// Other orders, oldest first.
    pub(super) orders: VecDeque<HistoricOrder>,
    shares: i64,
}

impl HistoricLevel {
    /// Returns all shares at the price.
    #[must_use]
    pub const fn shares(&self) -> i64 {
        self.shares
    }

    /// Returns the shares of orders without known ids.
    #[must_use]
    pub const fn block(&self) -> i64 {
        self.block
    }

    /// Returns the shares that the agent has not traded with.
    pub(super) fn untaken(&self) -> i64 {
        let taken: i64 = self.orders.iter().map(|order| order.taken).sum();
        self.shares - self.block_taken - taken
    }

    /// Returns the shares of known orders that were submitted before `arrival`.
    pub(super) fn known_before(&self, arrival: u64) -> i64 {
        let before = self.orders.iter().take_while(|order| order.arrival < arrival);
        before.map(|order| order.shares).sum()
    }

    /// Marks shares as traded with the agent, oldest first. Returns how many there were.
    pub(super) fn take(&mut self, shares: i64) -> i64 {
        self.take_before(shares, i64::MAX, u64::MAX)
    }

    /// Marks shares as traded with the agent, of the first `block` shares of the block and of
    /// orders that were submitted before `arrival`, oldest first. Returns how many there were.
    pub(super) fn take_before(&mut self, shares: i64, block: i64, arrival: u64) -> i64 {
        let mut left = shares;
        let mut mark = |had: i64, taken: &mut i64| {
            let part = left.min(had - *taken).max(0);
            *taken += part;
            left -= part;
            left > 0
        };
        if mark(self.block.min(block), &mut self.block_taken) {
            for order in self.orders.iter_mut().take_while(|order| order.arrival < arrival) {
                if !mark(order.shares, &mut order.taken) {
                    break;
                }
            }
        }
        shares - left
    }

    /// Marks shares of the newest order as traded with the agent.
    pub(super) fn take_newest(&mut self, shares: i64) {
        if let Some(order) = self.orders.back_mut() {
            order.taken = (order.taken + shares).min(order.shares);
        }
    }
}

/// Where the shares of a message were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// In the block of the level.
    Block,
    /// In an order that was submitted as number `arrival`.
    Known(u64),
    /// Nowhere: a hidden execution, a cross or a halt.
    Nothing,
}

/// Recorded orders of one stock.
#[derive(Clone, Debug, Default)]
pub struct HistoricBook {
    /// Levels of buys and of sells.
    sides: [BTreeMap<HistoryPrice, HistoricLevel>; 2],
    /// Side, price and arrival number of each known order.
    places: HashMap<i64, (Side, HistoryPrice, u64)>,
    /// Number of submissions so far.
    arrivals: u64,
    halted: bool,
    last_price: Option<HistoryPrice>,
    /// Twice the price at which positions are valued.
    mark2: Option<i64>,
}

impl HistoricBook {
    /// Returns the best price of a side; `None` without orders.
    #[must_use]
    pub fn best(&self, side: Side) -> Option<HistoryPrice> {
        let levels = &self.sides[side as usize];
        let best = match side {
            Side::Buy => levels.last_key_value(),
            Side::Sell => levels.first_key_value(),
        };
        best.map(|(price, _)| *price)
    }

    /// Returns the level at a price; `None` if nothing rests there.
    #[must_use]
    pub fn level(&self, side: Side, price: HistoryPrice) -> Option<&HistoricLevel> {
        self.sides[side as usize].get(&price)
    }

    pub(super) fn level_mut(
        &mut self,
        side: Side,
        price: HistoryPrice,
    ) -> Option<&mut HistoricLevel> {
        self.sides[side as usize].get_mut(&price)
    }

    /// Returns the levels of a side, best price first.
    pub fn levels(
        &self,
        side: Side,
    ) -> impl Iterator<Item = (HistoryPrice, &HistoricLevel)> + Clone + '_ {
        let levels = &self.sides[side as usize];
        let (up, down) = match side {
            Side::Buy => (None, Some(levels.iter().rev())),
            Side::Sell => (Some(levels.iter()), None),
        };
        let levels = up.into_iter().flatten().chain(down.into_iter().flatten());
        levels.map(|(price, level)| (*price, level))
    }

    /// Returns the next price of a side that is worse than `price`.
    pub(super) fn worse(&self, side: Side, price: HistoryPrice) -> Option<HistoryPrice> {
        let levels = &self.sides[side as usize];
        let next = match side {
            Side::Buy => levels.range(..price).next_back(),
            Side::Sell => levels.range((Bound::Excluded(price), Bound::Unbounded)).next(),
        };
        next.map(|(price, _)| *price)
    }

    /// Returns whether trading is halted.
    #[must_use]
    pub const fn halted(&self) -> bool {
        self.halted
    }

    /// Returns the price of the last execution, hidden ones and crosses included.
    #[must_use]
    pub const fn last_price(&self) -> Option<HistoryPrice> {
        self.last_price
    }

    /// Returns the number of submissions so far, which is the arrival number of the next.
    pub(super) const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns twice the mid-price; without one of the sides `None`.
    #[must_use]
    pub fn mid2(&self) -> Option<i64> {
        Some(self.best(Side::Buy)?.0 + self.best(Side::Sell)?.0)
    }

    /// Returns twice the price at which positions are valued: the mid-price after the last message
    /// that left both sides, or the price of a later execution. `None` before any.
    #[must_use]
    pub const fn mark2(&self) -> Option<i64> {
        self.mark2
    }

    /// Notes the mid-price after a message.
    pub(super) fn keep_mark(&mut self) {
        self.mark2 = self.mid2().or(self.mark2);
    }

    /// Notes the price of an execution.
    pub(super) const fn keep_price(&mut self, price: HistoryPrice) {
        self.last_price = Some(price);
        self.mark2 = Some(2 * price.0);
    }

    /// Returns the number of entries that a copy of the book has: known orders and levels.
    pub(super) fn entries(&self) -> usize {
        self.places.len() + self.sides[0].len() + self.sides[1].len()
    }

    /// Returns the number of known orders.
    #[must_use]
    pub fn known_orders(&self) -> usize {
        self.places.len()
    }

    /// Replaces a level by a block of `shares` without known ids; 0 removes it.
    pub(super) fn set_level(&mut self, side: Side, price: HistoryPrice, shares: i64) {
        let levels = &mut self.sides[side as usize];
        let Some(old) = levels.remove(&price) else {
            if shares > 0 {
                levels.insert(
                    price,
                    HistoricLevel { block: shares, shares, ..HistoricLevel::default() },
                );
            }
            return;
        };
        for order in &old.orders {
            self.places.remove(&order.id);
        }
        if shares > 0 {
            let block_taken = (old.shares - old.untaken()).min(shares);
            let level =
                HistoricLevel { block: shares, block_taken, orders: VecDeque::new(), shares };
            levels.insert(price, level);
        }
    }

    /// Applies a message.
    pub(super) fn apply(&mut self, message: &Message) -> Result<Touched, MessageReject> {
        let touched = match message.kind {
            MessageKind::Submit => self.submit(message)?,
            MessageKind::Cancel | MessageKind::Delete | MessageKind::Execute => {
                self.remove(message)?
            }
            MessageKind::Halt | MessageKind::Quote => {
                self.halted = true;
                Touched::Nothing
            }
            MessageKind::Resume => {
                self.halted = false;
                Touched::Nothing
            }
            MessageKind::ExecuteHidden | MessageKind::Cross => Touched::Nothing,
        };
        match message.kind {
            MessageKind::Execute | MessageKind::ExecuteHidden => {
                self.keep_price(message.price);
            }
            MessageKind::Cross if message.shares > 0 => self.keep_price(message.price),
            _ => {}
        }
        Ok(touched)
    }

    fn submit(&mut self, message: &Message) -> Result<Touched, MessageReject> {
        let Message { id, side, price, shares, .. } = *message;
        if self.places.contains_key(&id) {
            return Err(MessageReject::Duplicate { id });
        }
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.places.insert(id, (side, price, arrival));
        let level = self.sides[side as usize].entry(price).or_default();
        level.orders.push_back(HistoricOrder { id, arrival, shares, taken: 0 });
        level.shares += shares;
        Ok(Touched::Known(arrival))
    }

    fn remove(&mut self, message: &Message) -> Result<Touched, MessageReject> {
        let Message { id, side, price, shares, kind, .. } = *message;
        let levels = &mut self.sides[side as usize];
        let place = self.places.get(&id).copied();
        let touched = match place {
            None => {
                let left = levels.get(&price).map_or(0, |level| level.block);
                let unknown = MessageReject::UnknownOrder { id, price, shares, left };
                let level = levels.get_mut(&price).filter(|_| left >= shares).ok_or(unknown)?;
                level.block -= shares;
                level.block_taken = level.block_taken.min(level.block);
                level.shares -= shares;
                Touched::Block
            }
            Some((own_side, own_price, arrival)) => {
                if (own_side, own_price) != (side, price) {
                    return Err(MessageReject::OtherPlace {
                        id,
                        side: own_side,
                        price: own_price,
                        found_side: side,
                        found: price,
                    });
                }
                let unknown = MessageReject::UnknownOrder { id, price, shares, left: 0 };
                let level = levels.get_mut(&price).ok_or(unknown)?;
                // Orders of a level are in the sequence of their arrival.
                let at = level.orders.binary_search_by_key(&arrival, |order| order.arrival);
                let at = at.map_err(|_| unknown)?;
                let order = &mut level.orders[at];
                let left = order.shares;
                if shares > left {
                    return Err(MessageReject::TooLarge { id, shares, left });
                }
                if kind == MessageKind::Delete && shares < left {
                    return Err(MessageReject::PartialDelete { id, shares, left });
                }
                order.shares -= shares;
                order.taken = order.taken.min(order.shares);
                level.shares -= shares;
                if shares == left {
                    level.orders.remove(at);
                    self.places.remove(&id);
                }
                Touched::Known(arrival)
            }
        };
        if levels.get(&price).is_some_and(|level| level.shares == 0) {
            levels.remove(&price);
        }
        Ok(touched)
    }
}
