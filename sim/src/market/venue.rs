//! One symbol: its book, public record, hidden value and background agents.

use super::{
    pit::{AgentDesk, Pit},
    slot::Slot,
};
use crate::{
    agents::Agents,
    book::{Book, Side, auction::CallAuction},
    candles::Candles,
    config::{AgentFactory, MarketConfig, Matching},
    fundamental::{Analyst, Fundamental, Newsroom},
    ledger::{Ledger, Reduced},
    rng::{RandomStream, StreamRole, key, mix},
    tape::{MarketOrder, Tape},
    wheel::Wheel,
};

/// Submissions of one account in one tick for which the tape has room.
const ORDERS_PER_ACCOUNT: usize = 4;

/// One symbol of a market.
#[derive(Debug)]
pub struct Venue {
    pub(super) book: Book,
    pub(super) auction: Option<CallAuction>,
    pub(super) tape: Tape,
    pub(super) fundamental: Fundamental,
    pub(super) newsroom: Newsroom,
    pub(super) candles: Candles,
    pub(super) analyst: Analyst,
    pub(super) agents: Agents,
    pub(super) wheel: Wheel,
    /// Sort keys of the agents due in this tick.
    due: Vec<u64>,
    turn_key: u64,
}

impl Clone for Venue {
    fn clone(&self) -> Self {
        let mut tape = Tape::new(self.tape.orders.capacity());
        tape.copy_from(&self.tape);
        Self {
            book: self.book.clone(),
            auction: self.auction.clone(),
            tape,
            agents: self.agents.clone(),
            wheel: self.wheel.clone(),
            due: Vec::with_capacity(self.due.capacity()),
            ..*self
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.book.clone_from(&source.book);
        self.auction.clone_from(&source.auction);
        self.tape.copy_from(&source.tape);
        self.fundamental = source.fundamental;
        self.newsroom = source.newsroom;
        self.candles = source.candles;
        self.analyst = source.analyst;
        self.agents.clone_from(&source.agents);
        self.wheel.clone_from(&source.wheel);
        self.turn_key = source.turn_key;
    }
}

impl Venue {
    pub(super) fn new(
        config: &MarketConfig,
        symbol: u16,
        users: usize,
        ledger: &mut Ledger,
    ) -> Self {
        let agents = AgentFactory::new(&config.population).spawn(symbol, ledger);
        let accounts = agents.len() + config.slots.len() + users;
        let auction = match config.matching {
            Matching::Continuous => None,
            Matching::CallAuction(rule) => Some(CallAuction::new(config.book_orders, rule)),
        };
        Self {
            book: Book::new(config.book_levels, config.book_orders, config.initial_price),
            auction,
            tape: Tape::new(ORDERS_PER_ACCOUNT * accounts + 16),
            fundamental: Fundamental::new(),
            newsroom: Newsroom::new(),
            candles: Candles::new(config.initial_price),
            analyst: Analyst::default(),
            wheel: Wheel::new(agents.len()),
            due: Vec::with_capacity(agents.len()),
            agents,
            turn_key: 0,
        }
    }

    pub(super) fn reset(&mut self, config: &MarketConfig, symbol: u16, seed: u64, now: u64) {
        let index = u64::from(symbol);
        self.book.clear(config.initial_price);
        if let Some(auction) = &mut self.auction {
            auction.clear_orders();
        }
        self.tape.reset(config.initial_price, &config.arousal);
        let stream = RandomStream::new(seed, StreamRole::Fundamental, index);
        self.fundamental.reset(&config.fundamental, config.initial_price, stream);
        let stream = RandomStream::new(seed, StreamRole::News, index);
        self.newsroom.reset(stream, config.news.symbol_per_day, now);
        self.candles = Candles::new(config.initial_price);
        self.analyst.reset(RandomStream::new(seed, StreamRole::Analyst, index), config);
        self.agents.reset(seed, now, &mut self.wheel);
        self.turn_key = key(seed, StreamRole::Turn, index);
    }

    /// Derives every stream from another seed and keeps the state.
    pub(super) fn reseed(&mut self, config: &MarketConfig, symbol: u16, seed: u64, now: u64) {
        let index = u64::from(symbol);
        self.fundamental.reseed(RandomStream::new(seed, StreamRole::Fundamental, index));
        let stream = RandomStream::new(seed, StreamRole::News, index);
        self.newsroom.reset(stream, config.news.symbol_per_day, now);
        self.analyst.reseed(RandomStream::new(seed, StreamRole::Analyst, index));
        self.agents.reseed(seed);
        self.turn_key = key(seed, StreamRole::Turn, index);
    }

    /// Returns the book.
    #[must_use]
    pub const fn book(&self) -> &Book {
        &self.book
    }

    /// Returns the candles.
    #[must_use]
    pub const fn candles(&self) -> &Candles {
        &self.candles
    }

    /// Returns the value that features measure against, in ticks.
    pub(super) fn shown_value(&self, config: &MarketConfig) -> f64 {
        match config.features.reveal_fundamental {
            Some(_) => self.fundamental.value() * self.analyst.error().exp(),
            None => self.tape.mean_price(),
        }
    }

    /// Returns the public record.
    #[must_use]
    pub const fn tape(&self) -> &Tape {
        &self.tape
    }

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
            auction: self.auction.as_mut(),
            tape: &mut self.tape,
            ledger,
            slots,
        }
    }

    /// Lets every due agent act, in an order drawn for this tick.
    #[inline]
    pub(super) fn act(
        &mut self,
        config: &MarketConfig,
        symbol: u16,
        now: u64,
        ledger: &mut Ledger,
        slots: &mut [Slot],
    ) {
        let Self { wheel, due, agents, .. } = self;
        due.clear();
        let tick_key = mix(self.turn_key ^ now);
        wheel.expire(now, |agent| due.push(agents.turn(agent, tick_key)));
        due.sort_unstable();
        let value = self.fundamental.value();
        let tilt = config.news.sentiment_tilt * self.fundamental.sentiment(now);
        for at in 0..self.due.len() {
            let agent = self.due[at] as u16;
            let account = self.agents.account(agent);
            let pit = Pit {
                symbol,
                now,
                book: &mut self.book,
                auction: self.auction.as_mut(),
                tape: &mut self.tape,
                ledger,
                slots,
            };
            let mut desk = AgentDesk { pit, account, value, tilt };
            let wait = self.agents.act(agent, &mut desk);
            self.wheel.schedule(agent, now + wait);
        }
    }

    /// Holds the call auction of this tick and drops what did not trade.
    pub(super) fn call(&mut self, symbol: u16, now: u64, ledger: &mut Ledger, slots: &mut [Slot]) {
        let Some(auction) = self.auction.as_mut() else { return };
        let cleared = auction.clear(self.tape.last_price);
        if let Some(cleared) = cleared {
            let side = if cleared.imbalance < 0 { Side::Sell } else { Side::Buy };
            for (_, order, filled) in auction.results().filter(|(.., filled)| *filled > 0) {
                if let Some(slot) = slots.get_mut(usize::from(order.owner)) {
                    let fee = ledger.fee_for(cleared.price, filled, true);
                    let position = ledger.position(order.owner, symbol);
                    let fill = super::slot::SlotFill {
                        tick: now,
                        symbol,
                        side: order.side,
                        price: cleared.price,
                        quantity: filled,
                        fee,
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

    /// Closes the tick: public record, and the window of the book if the price nears its edge.
    #[inline]
    pub(super) fn end_tick(
        &mut self,
        config: &MarketConfig,
        symbol: u16,
        now: u64,
        ledger: &mut Ledger,
        slots: &mut [Slot],
    ) {
        let (mut bid, mut ask) = (self.book.best_bid(), self.book.best_ask());
        if self.auction.is_some() {
            // A call market has one price.
            (bid, ask) = (Some(self.tape.last_price), Some(self.tape.last_price));
        }
        self.tape.end_tick(bid, ask, &config.arousal);
        let Tape { high, low, last_price, volume, .. } = self.tape;
        self.candles.tick(config.features.candle_ticks, high, low, last_price, volume);
        self.analyst.step(config);
        let (low, high) = self.book.window();
        let centre = self.tape.mid2 / 2;
        let edge = (high - low) / 4;
        if centre < low + edge || centre > high - edge {
            let mut pit = self.pit(symbol, now, ledger, slots);
            pit.recentre(centre);
        }
    }
}
