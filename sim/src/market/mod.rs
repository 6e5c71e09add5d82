//! The market: symbols, agents, slots and one ledger, moved forward one tick at a time.

mod memory;
mod readout;
mod symbol;

use std::sync::Arc;

pub use memory::MemoryVisitor;
pub use readout::{DepthLevel, GroupTotals};
use symbol::SymbolModel;

use crate::{
    agents::{Agent, Floor},
    clone_in_place::clone_in_place,
    config::{AccountConfig, ConfigError, MarketConfig, Matching},
    fundamental::{CommonDraws, Newsroom},
    ledger::{Ledger, OrderReject},
    rng::{RandomStream, StreamRole, key, mix},
    venue::{IN_FLIGHT, Pending, Placed, Slot, SlotReport, SlotRequest, Venue},
};

/// A user agent with its account.
#[derive(Debug)]
struct User {
    agent: Box<dyn Agent>,
    account: AccountConfig,
    stream: RandomStream,
    wake: u64,
}

clone_in_place! {
    User { agent, account, stream, wake }
}

/// A simulated market.
///
/// One tick stands for one second. First news and fundamentals move. Then requests from slots
/// arrive, slot by slot in an order drawn anew for every tick, and user agents act. Then, symbol by
/// symbol, due background agents act in a random order, and the tape closes the tick. Short
/// positions are charged for borrowing in the same pass. Ticks and resets do not allocate, unless a
/// user agent allocates, a log of the book grows, or a slot has more than 256 fills in one tick.
#[derive(Debug)]
pub struct Market {
    config: Arc<MarketConfig>,
    seed: u64,
    now: u64,
    venues: Vec<Venue>,
    /// Models of the symbols, in the order of `venues`.
    models: Vec<SymbolModel>,
    ledger: Ledger,
    slots: Vec<Slot>,
    /// Sort keys of the slots in this tick.
    slot_turns: Vec<(u64, u16)>,
    slot_key: u64,
    users: Vec<User>,
    newsroom: Newsroom,
    common: CommonDraws,
}

clone_in_place! {
    /// Copies the state into this market's memory. Nothing is allocated between markets of one
    /// configuration without user agents.
    Market {
        config, seed, now, venues, models, ledger, slots, slot_turns, slot_key, users,
        newsroom, common,
    }
}

impl Market {
    /// Builds a market and seeds it. All memory is allocated here.
    ///
    /// # Errors
    /// [`ConfigError`], before anything is built.
    pub fn new(config: &MarketConfig, seed: u64) -> Result<Self, ConfigError> {
        Self::with_agents(Arc::new(config.clone()), seed, Vec::new())
    }

    /// Builds a market that shares its configuration with others and has user agents.
    ///
    /// # Errors
    /// [`ConfigError`], before anything is built.
    pub fn with_agents(
        config: Arc<MarketConfig>,
        seed: u64,
        agents: Vec<(AccountConfig, Box<dyn Agent>)>,
    ) -> Result<Self, ConfigError> {
        config.check(agents.len())?;
        for (index, (account, _)) in agents.iter().enumerate() {
            account.check().map_err(|error| error.of_account("agents", index))?;
        }
        let symbols = usize::from(config.symbols);
        let mut ledger = Ledger::new(config.fees, vec![config.lendable_shares; symbols]);
        // Slots have the first accounts, user agents the next, background agents the rest.
        for slot in &config.slots {
            let account = ledger.open_global(slot.account.limits);
            ledger.ask_margin(account, slot.initial_margin_ppm);
        }
        let count = agents.len();
        let users = agents.into_iter().map(|(account, agent)| {
            ledger.open_global(account.limits);
            User { agent, account, stream: RandomStream::default(), wake: 0 }
        });
        let users = users.collect();
        let models: Vec<_> = (0..config.symbols)
            .map(|symbol| SymbolModel::new(&config, symbol, &mut ledger))
            .collect();
        let accounts = |model: &SymbolModel| model.agents.len() + config.slots.len() + count;
        let venues = models.iter().map(|model| Venue::new(&config, accounts(model))).collect();
        let slots: Vec<_> = config.slots.iter().map(|slot| Slot::new(*slot, symbols)).collect();
        let slot_turns = (0..slots.len() as u16).map(|slot| (0, slot)).collect();
        let newsroom = Newsroom::new();
        let now = 0;
        let mut market = Self {
            config,
            seed,
            now,
            venues,
            models,
            ledger,
            slots,
            slot_turns,
            slot_key: 0,
            users,
            newsroom,
            common: CommonDraws::default(),
        };
        market.reset(seed);
        Ok(market)
    }

    /// Sets the endowment of a slot: cash in cash units, and shares of each symbol. It takes effect
    /// at the next [`Market::reset`] or [`Market::restart_slot`].
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown slot, cash out of range, or shares outside the slot's limits.
    pub fn set_endowment(
        &mut self,
        slot: usize,
        cash: i64,
        shares: i32,
    ) -> Result<(), ConfigError> {
        let slots = self.slots.len();
        let entry = self.slots.get_mut(slot).ok_or(ConfigError::UnknownSlot { slot, slots })?;
        let account = AccountConfig { cash, shares, ..entry.config.account };
        account.check().map_err(|error| error.of_account("slots", slot))?;
        entry.config.account = account;
        Ok(())
    }

    /// Starts the account of a slot over, in the market as it is: cancels its orders and requests,
    /// replaces cash and shares by the slot's endowment, and clears its records. The shares count
    /// as bought at the mid-price, rounded down to a tick. Allocates nothing.
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown slot.
    pub fn restart_slot(&mut self, slot: usize) -> Result<(), ConfigError> {
        let slots = self.slots.len();
        if slot >= slots {
            return Err(ConfigError::UnknownSlot { slot, slots });
        }
        let account = slot as u16;
        for (symbol, venue) in (0..).zip(&mut self.venues) {
            let mut pit = venue.pit(symbol, self.now, &mut self.ledger, &mut self.slots);
            pit.cancel_all(account);
        }
        self.ledger.restart_borrowing(account);
        let AccountConfig { cash, shares, .. } = self.slots[slot].config.account;
        self.ledger.endow_cash(account, cash - self.ledger.cash(account));
        for symbol in 0..self.config.symbols {
            let held = self.ledger.position(account, symbol);
            self.ledger.endow_shares(account, symbol, shares - held);
        }
        let prices = self.venues.iter().map(|venue| venue.tape.mid2 / 2);
        self.slots[slot].restart(prices);
        Ok(())
    }

    /// Restarts at tick 0 of episode `seed`. The market then equals a fresh one of that seed with
    /// the endowments that slots have now. Allocates nothing.
    pub fn reset(&mut self, seed: u64) {
        self.seed = seed;
        self.slot_key = key(seed, StreamRole::SlotTurn, 0);
        self.now = 0;
        let config = &*self.config;
        self.ledger.clear(config.initial_price);
        for (account, slot) in self.slots.iter_mut().enumerate() {
            slot.reset(config.initial_price);
            let AccountConfig { cash, shares, .. } = slot.config.account;
            endow(&mut self.ledger, account as u16, config.symbols, cash, shares);
        }
        for (index, user) in self.users.iter_mut().enumerate() {
            user.agent.reset();
            user.stream = RandomStream::new(seed, StreamRole::User, index as u64);
            user.wake = 1;
            let account = (self.slots.len() + index) as u16;
            let AccountConfig { cash, shares, .. } = user.account;
            endow(&mut self.ledger, account, config.symbols, cash, shares);
        }
        self.venues.iter_mut().for_each(|venue| venue.reset(config));
        for (symbol, model) in self.models.iter_mut().enumerate() {
            model.reset(config, symbol as u16, seed, 0);
            for account in model.agents.accounts() {
                self.ledger.endow_cash(account, config.population.cash);
                self.ledger.endow_shares(account, symbol as u16, config.population.shares);
            }
        }
        let stream = RandomStream::new(seed, StreamRole::MarketNews, 0);
        self.newsroom.reset(stream, config.news.market_per_day, 0);
        self.common.reseed(RandomStream::new(seed, StreamRole::Common, 0));
    }

    /// Derives every random stream from another seed, to make a new episode of a warm snapshot.
    /// Keeps the state, except for the times of the next news.
    pub fn reseed(&mut self, seed: u64) {
        self.seed = seed;
        self.slot_key = key(seed, StreamRole::SlotTurn, 0);
        for (index, user) in self.users.iter_mut().enumerate() {
            user.stream = RandomStream::new(seed, StreamRole::User, index as u64);
        }
        for (symbol, model) in self.models.iter_mut().enumerate() {
            model.reseed(&self.config, symbol as u16, seed, self.now);
        }
        let stream = RandomStream::new(seed, StreamRole::MarketNews, 0);
        self.newsroom.reset(stream, self.config.news.market_per_day, self.now);
        self.common.reseed(RandomStream::new(seed, StreamRole::Common, 0));
    }

    /// Moves the market forward by one tick.
    pub fn tick(&mut self) {
        self.now += 1;
        let now = self.now;
        let config = &*self.config;
        let session = config.session.at(now);
        let everywhere = matches!(config.matching, Matching::CallAuction(_));
        self.common.step(&config.fundamental, session);
        let market_news = self.newsroom.poll(now, &config.news, true);
        for (venue, model) in self.venues.iter_mut().zip(&mut self.models) {
            venue.tape.begin_tick();
            venue.calling = session.auction || everywhere;
            let moves = (&config.fundamental, config.session.overnight_sd);
            model.fundamental.step(moves, (now, session), &self.common);
            if let Some((news, shock)) = model.newsroom.poll(now, &config.news, false) {
                model.fundamental.hit(news, shock);
            }
            if let Some((news, shock)) = market_news {
                model.fundamental.hit(news, shock);
            }
        }
        self.deliver();
        self.act_users();
        let Self { config, venues, models, ledger, slots, users, .. } = self;
        let outside = (slots.len() + users.len()) as u16;
        for (symbol, (venue, model)) in venues.iter_mut().zip(models).enumerate() {
            let symbol = symbol as u16;
            model.act(config, (symbol, now, session.activity), venue, ledger, slots);
            if session.call || everywhere {
                venue.call(symbol, now, ledger, slots);
            }
            venue.end_tick(config);
            model.end_tick(config, &venue.tape);
            venue.follow((symbol, model.fundamental.value()), now, ledger, slots);
            if session.expires {
                let accounts = (0..outside).chain(model.agents.accounts());
                venue.expire(accounts, (symbol, now), ledger, slots);
            }
            ledger.mark(symbol, venue.tape.mid2);
            ledger.charge_borrowing(symbol);
        }
    }

    /// Moves the market forward by `ticks` ticks.
    pub fn run(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.tick();
        }
    }

    /// Sends a request, which arrives after the slot's latency, at the start of a tick.
    ///
    /// Returns the request's number, which its [`SlotReport`] carries.
    ///
    /// # Errors
    /// [`OrderReject`] for an unknown slot or symbol, a price below 1, a quantity out of range, or
    /// a full queue. Limits that depend on the state are checked on arrival.
    pub fn send(
        &mut self,
        slot: usize,
        symbol: u16,
        request: SlotRequest,
    ) -> Result<u64, OrderReject> {
        let count = self.slots.len() as u64;
        let Some(entry) = self.slots.get_mut(slot) else {
            return Err(OrderReject::Unknown { what: "slot", index: slot as u64, count });
        };
        if symbol >= self.config.symbols {
            let (index, count) = (u64::from(symbol), u64::from(self.config.symbols));
            return Err(OrderReject::Unknown { what: "symbol", index, count });
        }
        if let SlotRequest::Submit { price, quantity, .. } = request {
            let limit = entry.config.account.limits.order;
            if quantity <= 0 {
                return Err(OrderReject::NoQuantity { quantity });
            }
            if quantity > limit {
                return Err(OrderReject::TooLarge { quantity, limit });
            }
            if price < 1 {
                return Err(OrderReject::NoPrice { price });
            }
        }
        if entry.pending.len() == IN_FLIGHT {
            return Err(OrderReject::QueueFull { limit: IN_FLIGHT as u32 });
        }
        let number = entry.sent;
        entry.sent += 1;
        let due = self.now + 1 + u64::from(entry.config.latency_ticks);
        entry.pending.push_back(Pending { due, number, symbol, request });
        Ok(number)
    }

    /// Processes the requests that arrive in this tick, slot by slot.
    ///
    /// A slot's turn depends on the seed, the tick and its number alone. No slot has an advantage
    /// over many ticks. Adding a slot does not change which of two others is first.
    fn deliver(&mut self) {
        let tick_key = mix(self.slot_key ^ self.now);
        for (turn, slot) in &mut self.slot_turns {
            *turn = mix(tick_key ^ mix(u64::from(*slot) + 1));
        }
        self.slot_turns.sort_unstable();
        for slot in &mut self.slots {
            slot.fills.clear();
            slot.reports.clear();
        }
        for at in 0..self.slot_turns.len() {
            let account = usize::from(self.slot_turns[at].1);
            while let Some(pending) = self.slots[account].pending.front().copied() {
                if pending.due > self.now {
                    break;
                }
                self.slots[account].pending.pop_front();
                let Pending { number, symbol, request, .. } = pending;
                self.slots[account].arriving = number;
                let owner = account as u16;
                let venue = &mut self.venues[usize::from(symbol)];
                let mut pit = venue.pit(symbol, self.now, &mut self.ledger, &mut self.slots);
                let nothing = Ok(Placed { filled: 0, resting: None });
                let cancelled = |found| if found { nothing } else { Err(OrderReject::NotOpen) };
                let result = match request {
                    SlotRequest::Submit { side, kind, price, quantity } => {
                        pit.submit(owner, side, kind, price, quantity)
                    }
                    SlotRequest::Cancel(order) => {
                        cancelled(order.symbol == symbol && pit.cancel_id(owner, order))
                    }
                    SlotRequest::CancelNumber(sent) => {
                        let order = self.slots[account].orders.find(sent);
                        cancelled(order.is_some_and(|order| {
                            let venue = &mut self.venues[usize::from(order.symbol)];
                            let (ledger, slots) = (&mut self.ledger, &mut self.slots);
                            let mut pit = venue.pit(order.symbol, self.now, ledger, slots);
                            pit.cancel_id(owner, order)
                        }))
                    }
                    SlotRequest::CancelAll => {
                        pit.cancel_all(owner);
                        nothing
                    }
                };
                let slot = &mut self.slots[account];
                if let Ok(Placed { resting: Some(order), .. }) = result {
                    let (venues, now) = (&self.venues, self.now);
                    slot.orders.add(number, order, |order| {
                        let venue = &venues[usize::from(order.symbol)];
                        venue.open_order(owner, (0, order), now).is_some()
                    });
                }
                slot.report(SlotReport { number, symbol, result });
            }
        }
    }

    fn act_users(&mut self) {
        let first = self.slots.len();
        let Self { users, venues, ledger, slots, now, .. } = self;
        for (index, user) in users.iter_mut().enumerate().filter(|(_, user)| user.wake <= *now) {
            let mut floor = Floor {
                now: *now,
                account: (first + index) as u16,
                stream: &mut user.stream,
                venues,
                ledger,
                slots,
            };
            let wait = user.agent.act(&mut floor);
            user.wake = now.saturating_add(wait.max(1));
        }
    }
}

fn endow(ledger: &mut Ledger, account: u16, symbols: u16, cash: i64, shares: i32) {
    ledger.endow_cash(account, cash);
    for symbol in 0..symbols {
        ledger.endow_shares(account, symbol, shares);
    }
}

#[cfg(test)]
mod tests;
