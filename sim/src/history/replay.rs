//! An agent against history: a cursor over the messages, resting orders, and an account.
//!
//! The replay is passive. History trades, cancels and submits as it did, whatever the agent does.

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;

use super::book::HistoricBook;
use super::error::side_word;
use super::file::{Cursor, Event, History};
use super::message::{HistoryPrice, MAX_PRICE, MAX_SHARES, MessageKind};
use super::queue::OwnOrder;
use crate::book::{OrderKind, Side};

/// Requests that may be on their way at once.
const MAX_PENDING: usize = 1_024;
/// Largest fee on a share, 100 dollars.
const MAX_FEE: i64 = 1_000_000;
/// Longest latency: 24 hours.
const MAX_LATENCY: u64 = 86_400_000_000_000;
/// Maximum of [`ReplayRules::max_orders`].
const MAX_ORDERS: usize = 1_024;

/// Rules of an agent's account, checked by [`Replay::new`]. Money is in 1/10,000 dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRules {
    /// Fee on a share of a resting order that trades, -1,000,000 to 1,000,000; negative pays a
    /// rebate.
    pub maker_fee: i64,
    /// Fee on a share of an order that trades on arrival, in the same range.
    pub taker_fee: i64,
    /// Nanoseconds from the decision to the arrival of an order or cancel, at most 24 hours.
    pub latency: u64,
    /// Maximum position in shares, long or short, with all open orders counted: 1 to 2^31 - 1.
    pub max_position: i64,
    /// Maximum number of open orders, 1 to 1,024.
    pub max_orders: usize,
}

impl Default for ReplayRules {
    fn default() -> Self {
        Self { maker_fee: 0, taker_fee: 0, latency: 0, max_position: 1_000, max_orders: 16 }
    }
}

impl ReplayRules {
    /// Checks that no sum of money or shares can exceed its bits.
    fn check(&self) -> Result<(), ReplayReject> {
        let fees = -i128::from(MAX_FEE)..=i128::from(MAX_FEE);
        for (name, value, range) in [
            ("maker_fee", self.maker_fee.into(), fees.clone()),
            ("taker_fee", self.taker_fee.into(), fees),
            ("latency", self.latency.into(), 0..=MAX_LATENCY.into()),
            ("max_position", self.max_position.into(), 1..=MAX_SHARES.into()),
            ("max_orders", self.max_orders as i128, 1..=MAX_ORDERS as i128),
        ] {
            if !range.contains(&value) {
                let (low, high) = range.into_inner();
                return Err(ReplayReject::BadRule { name, value, low, high });
            }
        }
        Ok(())
    }
}

/// Reason for the refusal of rules, an order or a cancel. Nothing has changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum ReplayReject {
    /// A rule is out of range.
    #[error("{name} is {value}; give {low} to {high}")]
    BadRule { name: &'static str, value: i128, low: i128, high: i128 },
    /// The number of shares is out of range.
    #[error("an order of {shares} shares; ask for 1 to {limit}")]
    BadShares { shares: i64, limit: i64 },
    /// The price is out of range.
    #[error("a price of {price}; the lowest is 1 and the highest {limit}, in 1/10,000 dollars")]
    BadPrice { price: i64, limit: i64 },
    /// The position could exceed its limit.
    #[error(
        "the position could reach {position} shares with all open orders, beyond the limit of \
         {limit}; order less or cancel open orders"
    )]
    PositionLimit { position: i64, limit: i64 },
    /// The maximum number of orders is open already.
    #[error("{limit} orders are open already, the most for one agent; cancel one first")]
    TooManyOpen { limit: usize },
    /// Too many requests are on their way.
    #[error("{limit} requests are on their way already; wait until some have arrived")]
    TooManyPending { limit: usize },
    /// A post-only order would have traded on arrival.
    #[error("a post-only order at {price} would trade at once with the best {}", side_word(*with))]
    WouldTrade { price: HistoryPrice, with: Side },
    /// A post-only order would have met one of the agent's own.
    #[error(
        "a post-only order at {price} would meet the agent's own order at {own}; cancel that one \
         first"
    )]
    WouldMeetOwn { price: HistoryPrice, own: HistoryPrice },
    /// Neither a mid-price nor an execution has been recorded yet.
    #[error(
        "no mid-price and no execution has been recorded yet, so that a position has no value; \
         send orders later"
    )]
    NoPrice,
    /// Trading is halted.
    #[error("trading is halted; send orders after it resumes")]
    Halted,
    /// The order to cancel is not open.
    #[error("the order to cancel is not open; it may have traded, or was refused or cancelled")]
    NotOpen,
}

/// A trade of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnFill {
    /// Nanoseconds after midnight.
    pub time: u64,
    /// Id of the order.
    pub id: u64,
    /// Side of the order.
    pub side: Side,
    /// Price.
    pub price: HistoryPrice,
    /// Shares.
    pub shares: i64,
    /// Whether the order was resting.
    pub maker: bool,
    /// Fee in 1/10,000 dollars; negative for a rebate.
    pub fee: i64,
}

/// Cash and shares of the agent. Money is in 1/10,000 dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayAccount {
    /// Cash since the start; negative after purchases.
    pub cash: i128,
    /// Shares held; negative if short.
    pub position: i64,
    /// Fees paid since the start.
    pub fees: i128,
    /// Shares traded since the start.
    pub traded: u64,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Order { id: u64, side: Side, kind: OrderKind, price: HistoryPrice, shares: i64 },
    Cancel { id: u64, order: u64 },
    CancelAll,
}

/// One agent that trades against a recorded day.
#[derive(Clone, Debug)]
pub struct Replay {
    history: Arc<History>,
    rules: ReplayRules,
    cursor: Cursor,
    now: u64,
    pending: VecDeque<(u64, Request)>,
    agent: Trader,
    refused: Vec<(u64, ReplayReject)>,
    next_id: u64,
}

/// Orders, account and fills.
#[derive(Clone, Debug, Default)]
struct Trader {
    /// Resting orders: on each side the best price first, and older ones first at a price.
    orders: Vec<OwnOrder>,
    account: ReplayAccount,
    fills: Vec<OwnFill>,
}

impl Replay {
    /// Puts an agent before the start of a history.
    ///
    /// # Errors
    /// [`ReplayReject::BadRule`] for a rule out of range.
    pub fn new(history: Arc<History>, rules: ReplayRules) -> Result<Self, ReplayReject> {
        rules.check()?;
        let mut replay = Self {
            history,
            rules,
            cursor: Cursor::default(),
            now: 0,
            pending: VecDeque::new(),
            agent: Trader::default(),
            refused: Vec::new(),
            next_id: 0,
        };
        replay.start(0);
        Ok(replay)
    }

    /// Begins anew behind the messages at or before `time`, without orders, cash or shares.
    ///
    /// Costs what [`History::book_after`] costs.
    pub fn start(&mut self, time: u64) {
        self.cursor = self.history.cursor(self.history.messages_until(time));
        self.now = time.max(match self.cursor.messages {
            0 => 0,
            messages => self.history.messages()[messages - 1].time,
        });
        self.pending.clear();
        self.agent.orders.clear();
        self.agent.account = ReplayAccount::default();
        self.agent.fills.clear();
        self.refused.clear();
        self.next_id = 0;
    }

    /// Sends an order, which arrives `latency` later, and returns its id. It is checked on arrival.
    ///
    /// # Errors
    /// [`ReplayReject`] for a price or number of shares out of range, or too many requests on their
    /// way.
    pub fn order(
        &mut self,
        side: Side,
        kind: OrderKind,
        price: HistoryPrice,
        shares: i64,
    ) -> Result<u64, ReplayReject> {
        if !(1..=MAX_SHARES).contains(&shares) {
            return Err(ReplayReject::BadShares { shares, limit: MAX_SHARES });
        }
        if !(1..=MAX_PRICE).contains(&price.0) {
            return Err(ReplayReject::BadPrice { price: price.0, limit: MAX_PRICE });
        }
        let id = self.next_id;
        self.send(Request::Order { id, side, kind, price, shares })
    }

    /// Sends an order that takes what rests, whatever its price, and returns its id.
    ///
    /// # Errors
    /// Sends an [`order`](Self::order) that takes any price.
    pub fn market(&mut self, side: Side, shares: i64) -> Result<u64, ReplayReject> {
        let worst = if side == Side::Buy { MAX_PRICE } else { 1 };
        self.order(side, OrderKind::Marketable, HistoryPrice(worst), shares)
    }

    /// Sends the cancel of an order, and returns the id of the request.
    ///
    /// # Errors
    /// [`ReplayReject::TooManyPending`].
    pub fn cancel(&mut self, order: u64) -> Result<u64, ReplayReject> {
        let id = self.next_id;
        self.send(Request::Cancel { id, order })
    }

    /// Sends the cancel of all orders that are open when it arrives.
    ///
    /// # Errors
    /// [`ReplayReject::TooManyPending`].
    pub fn cancel_all(&mut self) -> Result<u64, ReplayReject> {
        self.send(Request::CancelAll)
    }

    fn send(&mut self, request: Request) -> Result<u64, ReplayReject> {
        if self.pending.len() == MAX_PENDING {
            return Err(ReplayReject::TooManyPending { limit: MAX_PENDING });
        }
        self.pending.push_back((self.now.saturating_add(self.rules.latency), request));
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    /// Runs history to `time`: all messages at or before it, and requests as they arrive.
    ///
    /// A request that arrives at a moment comes after all messages of that moment. Fills and
    /// refusals are those of this call.
    pub fn run_until(&mut self, time: u64) {
        self.agent.fills.clear();
        self.refused.clear();
        let end = time.max(self.now);
        loop {
            let next = self.history.messages().get(self.cursor.messages);
            let next = next.map(|message| message.time).filter(|time| *time <= end);
            if let Some(&(due, request)) = self.pending.front()
                && due <= end
                && next.is_none_or(|next| next > due)
            {
                self.pending.pop_front();
                self.now = self.now.max(due);
                self.arrive(request);
                continue;
            }
            let Some(next) = next else { break };
            self.now = next;
            let Self { history, rules, cursor, agent, .. } = self;
            let sight = history.levels().unwrap_or(usize::MAX);
            cursor.advance(history, |book, event| agent.meet(book, &event, sight, rules));
        }
        self.now = end;
    }

    fn arrive(&mut self, request: Request) {
        let refused = match request {
            Request::Order { id, side, kind, price, shares } => {
                let order = (id, side, kind, price, shares);
                let sight = self.history.levels().unwrap_or(usize::MAX);
                let (book, now) = (&mut self.cursor.book, self.now);
                self.agent
                    .arrive(book, now, order, sight, &self.rules)
                    .err()
                    .map(|reject| (id, reject))
            }
            Request::Cancel { id, order } => {
                let before = self.agent.orders.len();
                self.agent.orders.retain(|open| open.id != order);
                (self.agent.orders.len() == before).then_some((id, ReplayReject::NotOpen))
            }
            Request::CancelAll => {
                self.agent.orders.clear();
                None
            }
        };
        self.refused.extend(refused);
    }

    /// Returns the history.
    #[must_use]
    pub const fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns the rules of the account.
    #[must_use]
    pub const fn rules(&self) -> &ReplayRules {
        &self.rules
    }

    /// Returns the time in nanoseconds after midnight.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Returns whether all messages have been applied.
    #[must_use]
    pub fn at_end(&self) -> bool {
        self.cursor.messages == self.history.messages().len()
    }

    /// Returns the number of messages that have been applied.
    #[must_use]
    pub const fn messages(&self) -> usize {
        self.cursor.messages
    }

    /// Returns the recorded book.
    #[must_use]
    pub const fn book(&self) -> &HistoricBook {
        &self.cursor.book
    }

    /// Returns twice the price at which a position is valued: [`HistoricBook::mark2`], or 0 before
    /// any, when orders are refused.
    #[must_use]
    pub fn mid2(&self) -> i64 {
        self.cursor.book.mark2().unwrap_or(0)
    }

    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> &ReplayAccount {
        &self.agent.account
    }

    /// Returns twice the profit since the start, in 1/10,000 dollars: cash, and the position at the
    /// mid-price.
    #[must_use]
    pub fn profit2(&self) -> i128 {
        let ReplayAccount { cash, position, .. } = self.agent.account;
        2 * cash + i128::from(position) * i128::from(self.mid2())
    }

    /// Returns the resting orders: on each side the best price first, older ones first at a price.
    #[must_use]
    pub fn orders(&self) -> &[OwnOrder] {
        &self.agent.orders
    }

    /// Returns the fills of the last run, in sequence.
    #[must_use]
    pub fn fills(&self) -> &[OwnFill] {
        &self.agent.fills
    }

    /// Returns the requests that were refused on arrival in the last run.
    #[must_use]
    pub fn refused(&self) -> &[(u64, ReplayReject)] {
        &self.refused
    }

    /// Returns the number of requests on their way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Maximum number of requests on their way.
    pub const MAX_PENDING: usize = MAX_PENDING;
}

impl Trader {
    /// Lets the resting orders meet a change of history.
    fn meet(
        &mut self,
        book: &mut HistoricBook,
        event: &Event<'_>,
        sight: usize,
        rules: &ReplayRules,
    ) {
        if self.orders.is_empty() {
            return;
        }
        match event {
            Event::Syncs(sync) => {
                let same =
                    |order: &&mut OwnOrder| (order.side, order.price) == (sync.side, sync.price);
                for order in self.orders.iter_mut().filter(same) {
                    order.sync(order.ahead(book), book.arrivals(), sync.shares);
                }
            }
            Event::Applied(message, touched) => {
                let mut budget = message.shares;
                for at in 0..self.orders.len() {
                    let order = &mut self.orders[at];
                    let shares = order.meet(book, message, *touched, budget);
                    if shares == 0 {
                        continue;
                    }
                    budget -= shares;
                    let order = *order;
                    self.trade(message.time, order, order.price, shares, rules, true);
                    self.orders[at].shares -= shares;
                    if message.kind == MessageKind::Submit
                        && let Some(level) = book.level_mut(message.side, message.price)
                    {
                        level.take_newest(shares);
                    }
                }
                if message.kind == MessageKind::Resume {
                    self.resume(book, message.time, sight, rules);
                }
                self.orders.retain(|order| order.shares > 0);
            }
        }
    }

    /// Trades the orders that cross recorded ones after a halt.
    fn resume(&mut self, book: &mut HistoricBook, now: u64, sight: usize, rules: &ReplayRules) {
        for at in 0..self.orders.len() {
            let order = self.orders[at];
            let other = order.side.opposite();
            let mut left = order.shares;
            let mut next = book.best(other);
            for _ in 0..sight {
                let Some(price) = next.filter(|price| crosses(order.side, order.price, *price))
                else {
                    break;
                };
                let shares = book.level_mut(other, price).map_or(0, |level| level.take(left));
                left -= shares;
                if shares > 0 {
                    self.trade(now, order, order.price, shares, rules, true);
                }
                if left == 0 {
                    break;
                }
                next = book.worse(other, price);
            }
            self.orders[at].shares = left;
        }
    }

    /// Checks an order, trades the part that crosses, and rests or drops what is left. Cancels own
    /// orders of the other side that it would trade with.
    fn arrive(
        &mut self,
        book: &mut HistoricBook,
        now: u64,
        (id, side, kind, price, shares): (u64, Side, OrderKind, HistoryPrice, i64),
        sight: usize,
        rules: &ReplayRules,
    ) -> Result<(), ReplayReject> {
        if book.halted() {
            return Err(ReplayReject::Halted);
        }
        if book.mark2().is_none() {
            return Err(ReplayReject::NoPrice);
        }
        let other = side.opposite();
        if kind == OrderKind::PostOnly {
            let mut crossed = book.levels(other).take(sight);
            if crossed
                .by_ref()
                .take_while(|(there, _)| crosses(side, price, *there))
                .any(|(_, level)| level.untaken() > 0)
            {
                return Err(ReplayReject::WouldTrade { price, with: other });
            }
            let own = self.orders.iter().find(|own| own.side == other);
            if let Some(own) = own.filter(|own| crosses(side, price, own.price)) {
                return Err(ReplayReject::WouldMeetOwn { price, own: own.price });
            }
        }
        let open = self.orders.iter().filter(|own| own.side == side).map(|own| own.shares);
        let open: i64 = open.sum::<i64>() + shares;
        let position = self.account.position + i64::from(side.sign()) * open;
        let limit = rules.max_position;
        if i64::from(side.sign()) * position > limit {
            return Err(ReplayReject::PositionLimit { position, limit });
        }
        if kind != OrderKind::Marketable && self.orders.len() >= rules.max_orders {
            return Err(ReplayReject::TooManyOpen { limit: rules.max_orders });
        }
        let mut order = OwnOrder::rest(book, (id, now), side, price, shares);
        let rests = kind != OrderKind::Marketable;
        self.sweep(book, now, &mut order, rests, sight, rules);
        if order.shares > 0 && rests {
            let at = self.orders.partition_point(|own| rank(own) <= rank(&order));
            self.orders.insert(at, order);
        }
        Ok(())
    }

    /// Trades an order that arrives with the recorded orders that it crosses, in the sequence of
    /// prices and then of time. Cancels the agent's own orders that it reaches.
    fn sweep(
        &mut self,
        book: &mut HistoricBook,
        now: u64,
        order: &mut OwnOrder,
        rests: bool,
        sight: usize,
        rules: &ReplayRules,
    ) {
        let (side, other) = (order.side, order.side.opposite());
        let mut recorded = book.best(other);
        let mut seen = 0;
        // Shares that traded at the price of `recorded` so far.
        let mut traded = 0;
        loop {
            let visible = seen < sight;
            let level = recorded.filter(|price| visible && crosses(side, order.price, *price));
            let own = self.orders.iter().position(|own| {
                own.side == other && crosses(side, order.price, own.price) && (visible || rests)
            });
            let first = own.filter(|at| {
                level.is_none_or(|price| crosses(side, price, self.orders[*at].price))
            });
            if let Some(at) = first {
                let met = self.orders[at];
                if let Some(level) =
                    book.level_mut(other, met.price).filter(|_| level == Some(met.price))
                {
                    let part = level.take_before(order.shares, met.block_ahead, met.arrival);
                    traded += part;
                    order.shares -= part;
                }
                if order.shares > 0 {
                    self.orders.remove(at);
                    continue;
                }
            }
            let Some(price) = level else { break };
            let part = book.level_mut(other, price).map_or(0, |level| level.take(order.shares));
            order.shares -= part;
            if traded + part > 0 {
                self.trade(now, *order, price, traded + part, rules, false);
            }
            if order.shares == 0 {
                break;
            }
            traded = 0;
            seen += 1;
            recorded = book.worse(other, price);
        }
    }

    fn trade(
        &mut self,
        time: u64,
        order: OwnOrder,
        price: HistoryPrice,
        shares: i64,
        rules: &ReplayRules,
        maker: bool,
    ) {
        let fee = shares * if maker { rules.maker_fee } else { rules.taker_fee };
        let sign = i64::from(order.side.sign());
        let account = &mut self.account;
        account.cash -= i128::from(sign * shares) * i128::from(price.0) + i128::from(fee);
        account.fees += i128::from(fee);
        account.position += sign * shares;
        account.traded += shares as u64;
        self.fills.push(OwnFill {
            time,
            id: order.id,
            side: order.side,
            price,
            shares,
            maker,
            fee,
        });
    }
}

/// Returns the place of an order among those of the agent: buys from the highest price, then sells
/// from the lowest, older ones first at a price.
const fn rank(order: &OwnOrder) -> (bool, i64, u64) {
    match order.side {
        Side::Buy => (false, -order.price.0, order.id),
        Side::Sell => (true, order.price.0, order.id),
    }
}

/// Returns whether an order of `side` limited at `price` trades with one of the other side at
/// `other`.
fn crosses(side: Side, price: HistoryPrice, other: HistoryPrice) -> bool {
    match side {
        Side::Buy => other <= price,
        Side::Sell => other >= price,
    }
}
