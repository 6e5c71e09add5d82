//! State of a market between two ticks.

use std::sync::Arc;

use super::{Market, symbol::SymbolModel};
use crate::{
    book::{Book, BookOp, Side, auction::CallAuction},
    candles::Candles,
    config::{Archetype, MOST_SYMBOLS, MarketConfig},
    fundamental::News,
    ledger::{ConservationError, Exposure, Ledger, OPEN_ORDERS, OrderReject},
    rng::mix,
    tape::{MarketOrder, Tape},
    venue::{OpenOrder, Slot, SlotFill, SlotReport, SlotRequest, SlotTotals, Venue},
};

/// Shares at one price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DepthLevel {
    /// Price in ticks.
    pub price: i32,
    /// Shares; 0 past the last occupied level.
    pub quantity: i32,
}

/// Totals of the background agents of one archetype in one symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupTotals {
    /// Number of agents.
    pub agents: u32,
    /// Shares held long, summed over agents.
    pub long: i64,
    /// Shares held short, summed over agents; positive.
    pub short: i64,
    /// Number of open orders.
    pub open_orders: u64,
    /// Profit at the mid-price since the start, fees and borrowing deducted, in cash units.
    pub profit: i64,
}

impl Market {
    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &Arc<MarketConfig> {
        &self.config
    }

    /// Returns the seed of the episode.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the ticks since the start of the episode.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Returns the number of symbols.
    #[must_use]
    pub fn symbols(&self) -> u16 {
        self.config.symbols
    }

    fn venue(&self, symbol: u16) -> &Venue {
        &self.venues[usize::from(symbol)]
    }

    fn model(&self, symbol: u16) -> &SymbolModel {
        &self.models[usize::from(symbol)]
    }

    /// Returns the book of a symbol.
    ///
    /// # Panics
    /// If `symbol` is not below [`Market::symbols`]. This holds for every readout by symbol that
    /// does not return a `Result`.
    #[must_use]
    pub fn book(&self, symbol: u16) -> &Book {
        &self.venue(symbol).book
    }

    /// Starts to log the calls of a symbol's book. The log grows with every order; a reset clears
    /// it.
    pub fn log_book(&mut self, symbol: u16) {
        self.venues[usize::from(symbol)].log = Some(Vec::new());
    }

    /// Returns the logged calls of a symbol's book; empty without a log.
    #[must_use]
    pub fn book_log(&self, symbol: u16) -> &[BookOp] {
        self.venue(symbol).log.as_deref().unwrap_or_default()
    }

    /// Returns the public record of a symbol.
    #[must_use]
    pub fn tape(&self, symbol: u16) -> &Tape {
        &self.venue(symbol).tape
    }

    /// Returns the candles of a symbol.
    #[must_use]
    pub fn candles(&self, symbol: u16) -> &Candles {
        &self.model(symbol).candles
    }

    /// Returns the value that features measure the price against, in ticks. It is the
    /// volume-weighted mean price, or the fundamental with an error if the configuration reveals
    /// it.
    #[must_use]
    pub fn shown_value(&self, symbol: u16) -> f64 {
        self.model(symbol).shown_value(&self.config, self.tape(symbol))
    }

    /// Returns the ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the mid-price in ticks: the last one while a side is empty.
    #[must_use]
    pub fn mid(&self, symbol: u16) -> f64 {
        self.tape(symbol).mid()
    }

    /// Returns the highest bid in ticks; `None` without bids.
    #[must_use]
    pub fn best_bid(&self, symbol: u16) -> Option<i32> {
        self.book(symbol).best_bid()
    }

    /// Returns the lowest ask in ticks; `None` without asks.
    #[must_use]
    pub fn best_ask(&self, symbol: u16) -> Option<i32> {
        self.book(symbol).best_ask()
    }

    /// Returns the price of the last trade in ticks; before the first trade, the initial price.
    #[must_use]
    pub fn last_price(&self, symbol: u16) -> i32 {
        self.tape(symbol).last_price
    }

    /// Returns the shares traded in the last tick.
    #[must_use]
    pub fn volume(&self, symbol: u16) -> i64 {
        self.tape(symbol).volume
    }

    /// Returns the orders that traded on arrival in the last tick, in sequence, as far as the tape
    /// has room. Their sides are the trade signs.
    #[must_use]
    pub fn market_orders(&self, symbol: u16) -> &[MarketOrder] {
        &self.tape(symbol).orders
    }

    /// Fills `levels` with the occupied levels of one side from the touch outwards, and zeroes the
    /// rest. Returns the number of levels filled.
    pub fn depth(&self, symbol: u16, side: Side, levels: &mut [DepthLevel]) -> usize {
        levels.fill(DepthLevel::default());
        let mut count = 0;
        self.book(symbol).for_each_level(side, |price, quantity| {
            if let Some(level) = levels.get_mut(count) {
                *level = DepthLevel { price, quantity };
                count += 1;
            }
            count < levels.len()
        });
        count
    }

    /// Returns the totals of the background agents of one archetype. O(agents).
    #[must_use]
    pub fn group_totals(&self, symbol: u16, archetype: Archetype) -> GroupTotals {
        let half = crate::ledger::CASH_PER_TICK / 2;
        let population = &self.config.population;
        let start = i64::from(population.shares) * i64::from(self.config.initial_price) * 2 * half;
        let mut totals = GroupTotals::default();
        for account in self.model(symbol).agents.accounts_of(archetype) {
            let position = i64::from(self.ledger.position(account, symbol));
            totals.agents += 1;
            totals.long += position.max(0);
            totals.short += (-position).max(0);
            totals.open_orders += self.ledger.open_count(account, symbol) as u64;
            let value = position * i64::from(self.tape(symbol).mid2) * half;
            totals.profit += self.ledger.cash(account) - population.cash + value - start;
        }
        totals
    }

    /// Returns the archetype of the background agent that owns an account in a symbol; `None` for
    /// other accounts.
    #[must_use]
    pub fn archetype_of(&self, symbol: u16, account: u16) -> Option<Archetype> {
        self.model(symbol).agents.archetype_of(account)
    }

    /// Returns the hidden fundamental value in ticks.
    #[must_use]
    pub fn fundamental(&self, symbol: u16) -> f64 {
        self.model(symbol).fundamental.value()
    }

    /// Returns the live news of a symbol, oldest first.
    pub fn news(&self, symbol: u16) -> impl Iterator<Item = &News> {
        let now = self.now;
        self.model(symbol).fundamental.news().iter().filter(move |news| news.left(now) > 0)
    }

    fn slot(&self, slot: usize) -> Result<&Slot, OrderReject> {
        let count = self.slots.len() as u64;
        self.slots.get(slot).ok_or(OrderReject::Unknown { what: "slot", index: slot as u64, count })
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns all fills of a slot in the last tick, in sequence.
    ///
    /// # Errors
    /// [`OrderReject::Unknown`] for an unknown slot; this holds for every readout by slot.
    pub fn fills(&self, slot: usize) -> Result<&[SlotFill], OrderReject> {
        Ok(&self.slot(slot)?.fills)
    }

    /// Returns the results of a slot's requests that arrived in the last tick.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn reports(&self, slot: usize) -> Result<&[SlotReport], OrderReject> {
        Ok(&self.slot(slot)?.reports)
    }

    /// Returns a slot's totals since its last reset or restart.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn totals(&self, slot: usize) -> Result<SlotTotals, OrderReject> {
        Ok(self.slot(slot)?.totals)
    }

    /// Returns a slot's last fill.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn last_fill(&self, slot: usize) -> Result<Option<SlotFill>, OrderReject> {
        Ok(self.slot(slot)?.last_fill)
    }

    /// Returns a slot's cash in cash units.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn cash(&self, slot: usize) -> Result<i64, OrderReject> {
        self.slot(slot).map(|_| self.ledger.cash(slot as u16))
    }

    /// Returns a slot's position in shares.
    ///
    /// # Errors
    /// [`OrderReject::Unknown`] for an unknown slot or symbol.
    pub fn position(&self, slot: usize, symbol: u16) -> Result<i32, OrderReject> {
        self.slot(slot)?;
        self.known(symbol)?;
        Ok(self.ledger.position(slot as u16, symbol))
    }

    /// Returns a slot's cash plus its positions at the mid-price, in cash units.
    ///
    /// The value is exact, since half a tick is 50 cash units per share.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn equity(&self, slot: usize) -> Result<i64, OrderReject> {
        let cash = self.cash(slot)?;
        let value = |symbol: u16| {
            i64::from(self.ledger.position(slot as u16, symbol))
                * i64::from(self.tape(symbol).mid2)
                * (crate::ledger::CASH_PER_TICK / 2)
        };
        Ok(cash + (0..self.symbols()).map(value).sum::<i64>())
    }

    /// Returns the value of a slot's endowment at the initial price, in cash units.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn initial_equity(&self, slot: usize) -> Result<i64, OrderReject> {
        let account = self.slot(slot)?.config.account;
        let shares = i64::from(account.shares) * i64::from(self.symbols());
        let price = i64::from(self.config.initial_price) * crate::ledger::CASH_PER_TICK;
        Ok(account.cash + shares * price)
    }

    /// Returns a slot's profit on closed positions, fees excluded, in cash units.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn realised(&self, slot: usize) -> Result<i64, OrderReject> {
        Ok(self.slot(slot)?.realised())
    }

    /// Returns the cost of a slot's open position in one symbol without fees, in cash units.
    ///
    /// # Errors
    /// See [`Market::position`].
    pub fn cost(&self, slot: usize, symbol: u16) -> Result<i64, OrderReject> {
        let slot = self.slot(slot)?;
        self.known(symbol)?;
        Ok(slot.cost(symbol))
    }

    /// Returns what a slot has paid for borrowed shares since its last reset or restart, in cash
    /// units.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn borrowing(&self, slot: usize) -> Result<i64, OrderReject> {
        self.slot(slot).map(|_| self.ledger.borrowing_paid(slot as u16))
    }

    /// Returns the cash that a slot would have if it closed its position in one symbol now, less
    /// the cash that it has, in cash units; negative to cover a short.
    ///
    /// The position trades with the orders of others in the book, the best price first, and pays
    /// the taker fee on each price. Shares beyond the last of these orders trade at its price.
    /// While a session leaves the book empty, the orders that it cancelled count, as far from the
    /// mid-price as they were. Without any order, all shares trade at the mid-price.
    ///
    /// # Errors
    /// See [`Market::position`].
    pub fn liquidation_value(&self, slot: usize, symbol: u16) -> Result<i64, OrderReject> {
        let position = self.position(slot, symbol)?;
        if position == 0 {
            return Ok(0);
        }
        let side = if position > 0 { Side::Buy } else { Side::Sell };
        let book = self.book(symbol);
        let mut own = [(0, 0); OPEN_ORDERS];
        let open = self.ledger.open_slots(slot as u16, symbol);
        let open = open.filter_map(|at| book.order(at)).filter(|order| order.side == side);
        own.iter_mut().zip(open).for_each(|(own, order)| *own = (order.price, order.quantity));
        let fees = self.config.fees;
        let sign = i64::from(position.signum());
        // Returns the cash for `shares` at a price in half ticks, less fees.
        let bring = |shares: i64, twice: i64| {
            let notional = shares * twice * (crate::ledger::CASH_PER_TICK / 2);
            sign * notional - fees.of(notional, false)
        };
        let (mut left, mut value) = (i64::from(position).abs(), 0);
        let mut last = i64::from(self.tape(symbol).mid2);
        let mut take = |twice: i64, others: i32| {
            if others > 0 {
                last = twice;
                let shares = left.min(others.into());
                left -= shares;
                value += bring(shares, last);
            }
            left > 0
        };
        if book.live_orders() > 0 {
            book.for_each_level(side, |price, quantity| {
                let own = own.iter().filter(|(at, _)| *at == price).map(|(_, shares)| shares);
                take(2 * i64::from(price), quantity - own.sum::<i32>())
            });
        } else {
            let venue = &self.venues[usize::from(symbol)];
            let mut levels = venue.last_quotes.levels(side, slot as u16, venue.tape.mid2);
            while levels.next().is_some_and(|(twice, others)| take(twice, others)) {}
        }
        Ok(value + if left > 0 { bring(left, last) } else { 0 })
    }

    /// Returns how many shares a slot may add to its orders on one side of a symbol by its initial
    /// margin, with its requests on their way counted; 0 if it may add none, and `i64::MAX` without
    /// a bound.
    ///
    /// A position of a symbol counts as its larger side: long with all buys, or short with all
    /// sells. The values of all positions, at the mid-prices of the last tick, have to stay within
    /// equity over initial margin. Sells that leave no short position always pass, and so do buys
    /// that cover one. Buys pass too while the slot could not be short in any symbol: its cash pays
    /// for them in full. `cleared` leaves the open orders out, for a slot that has cancelled them.
    ///
    /// # Errors
    /// See [`Market::position`].
    pub fn margin_room(
        &self,
        slot: usize,
        symbol: u16,
        side: Side,
        cleared: bool,
    ) -> Result<i64, OrderReject> {
        let entry = self.slot(slot)?;
        self.known(symbol)?;
        let account = slot as u16;
        let mut open = [Exposure::default(); MOST_SYMBOLS];
        for (symbol, open) in (0..self.symbols()).zip(&mut open).filter(|_| !cleared) {
            let (buys, sells) = self.ledger.open_shares(account, symbol);
            *open = Exposure { buys: buys.into(), sells: sells.into() };
        }
        for pending in &entry.pending {
            if let SlotRequest::Submit { side, quantity, .. } = pending.request {
                let open = &mut open[usize::from(pending.symbol)];
                match side {
                    Side::Buy => open.buys += i64::from(quantity),
                    Side::Sell => open.sells += i64::from(quantity),
                }
            }
        }
        Ok(self.ledger.margin_room(account, symbol, side, |symbol| open[usize::from(symbol)]))
    }

    /// Returns the number of a slot's requests that are on their way.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn in_flight(&self, slot: usize) -> Result<usize, OrderReject> {
        Ok(self.slot(slot)?.pending.len())
    }

    /// Returns a slot's open orders in the sequence of their numbers: in the books, and those that
    /// wait for an auction. Requests on their way are not among them.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn open_orders(&self, slot: usize) -> Result<impl Iterator<Item = OpenOrder>, OrderReject> {
        let orders = self.slot(slot)?.orders.iter();
        Ok(orders.filter_map(move |(number, order)| {
            self.venue(order.symbol).open_order(slot as u16, (number, order), self.now)
        }))
    }

    /// Returns the shares that a slot's requests on their way would buy and sell in one symbol.
    ///
    /// # Errors
    /// See [`Market::position`].
    pub fn pending_shares(&self, slot: usize, symbol: u16) -> Result<(i64, i64), OrderReject> {
        let slot = self.slot(slot)?;
        self.known(symbol)?;
        let mut shares = (0, 0);
        for pending in slot.pending.iter().filter(|pending| pending.symbol == symbol) {
            match pending.request {
                SlotRequest::Submit { side: Side::Buy, quantity, .. } => {
                    shares.0 += i64::from(quantity);
                }
                SlotRequest::Submit { side: Side::Sell, quantity, .. } => {
                    shares.1 += i64::from(quantity);
                }
                SlotRequest::Cancel(_) | SlotRequest::CancelNumber(_) | SlotRequest::CancelAll => {}
            }
        }
        Ok(shares)
    }

    /// Returns the cash that a slot's purchases on their way need at their worst prices, the larger
    /// of the two fees included, in cash units. Saturates at `i64::MAX`.
    ///
    /// # Errors
    /// See [`Market::fills`].
    pub fn pending_cash(&self, slot: usize) -> Result<i64, OrderReject> {
        let mut cash = 0_i128;
        for pending in &self.slot(slot)?.pending {
            if let SlotRequest::Submit { side: Side::Buy, price, quantity, .. } = pending.request {
                let notional = i128::from(price)
                    * i128::from(quantity)
                    * i128::from(crate::ledger::CASH_PER_TICK);
                cash +=
                    notional + notional * i128::from(self.config.fees.largest_ppm()) / 1_000_000;
            }
        }
        Ok(i64::try_from(cash).unwrap_or(i64::MAX))
    }

    fn known(&self, symbol: u16) -> Result<(), OrderReject> {
        let (index, count) = (u64::from(symbol), u64::from(self.symbols()));
        let unknown = OrderReject::Unknown { what: "symbol", index, count };
        if index < count { Ok(()) } else { Err(unknown) }
    }

    /// Returns a hash of the state. Equal states of equal configurations have equal hashes.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = mix(self.now);
        let mut word = |word: u64| hash = mix(hash.rotate_left(5) ^ word);
        for (venue, model) in self.venues.iter().zip(&self.models) {
            for side in [Side::Buy, Side::Sell] {
                venue.book.for_each_order(side, |_, order| {
                    word(u64::from(order.id) << 32 | u64::from(order.since));
                    word((order.price as u64) << 32 | order.quantity as u64);
                    word(u64::from(order.owner) << 8 | u64::from(order.place));
                });
            }
            word(u64::from(venue.book.next_id()));
            venue.last_quotes.digest(&mut word);
            if let Some(auction) = &venue.auction {
                auction.digest(&mut word);
            }
            venue.tape.digest(&mut word);
            model.fundamental.digest(&mut word);
            model.newsroom.digest(&mut word);
            model.candles.digest(&mut word);
            model.analyst.digest(&mut word);
            model.consensus.digest(&mut word);
            model.agents.digest(&model.wheel, &mut word);
        }
        self.ledger.digest(&mut word);
        self.newsroom.digest(&mut word);
        self.common.digest(&mut word);
        for slot in &self.slots {
            slot.digest(&mut word);
        }
        for user in &self.users {
            word(user.stream.state());
            word(user.wake);
            word(user.agent.digest());
        }
        hash
    }

    /// Checks that cash, shares and open orders add up to the unit. `O(accounts * orders)`.
    ///
    /// # Errors
    /// [`ConservationError`], which is a defect of the simulator.
    pub fn check(&self) -> Result<(), ConservationError> {
        self.ledger.check()?;
        for (symbol, (venue, model)) in self.venues.iter().zip(&self.models).enumerate() {
            let symbol = symbol as u16;
            let slots = 0..self.slots.len() as u16 + self.users.len() as u16;
            for account in slots.chain(model.agents.accounts()) {
                let (bid, offered) = self.ledger.open_shares(account, symbol);
                let mut open = 0;
                for side in [Side::Buy, Side::Sell] {
                    venue.book.for_each_order(side, |_, order| {
                        open += if order.owner == account { i64::from(order.quantity) } else { 0 };
                    });
                }
                let waiting = venue.auction.iter().flat_map(CallAuction::results);
                for (_, order, _) in waiting.filter(|(_, order, _)| order.owner == account) {
                    open += i64::from(order.quantity);
                }
                let ledger = i64::from(bid) + i64::from(offered);
                if open != ledger {
                    return Err(ConservationError::Open { account, symbol, ledger, book: open });
                }
            }
        }
        Ok(())
    }
}
