//! The agent from outside: turns actions into order requests of one slot of the market.

use backcast_sim::{
    AccountConfig, CASH_PER_TICK, IN_FLIGHT, Limits, Market, OPEN_ORDERS, OrderKind, Side,
    SlotConfig, SlotRequest,
};

use super::{
    actions::ActionScheme,
    commands::{MOST_COMMANDS, command_bounds},
    error::TradingError,
};

/// Settings of the agent from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct ExternalAgentConfig {
    /// Endowment and limits. Without [`allow_short`](Self::allow_short) the short limit is 0.
    pub account: AccountConfig,
    /// Ticks between a decision and the arrival of its orders. 0 arrives at the start of the next
    /// tick.
    pub latency_ticks: u32,
    /// Shares of a full-size order, from 1 to the order limit.
    pub order_size: i32,
    /// Price ticks by which a market order may trade worse than the touch, 1 to 1,000,000.
    pub max_slippage: i32,
    /// Price ticks from the touch at the largest quote offset, 1 to 1,000,000.
    pub max_offset: i32,
    /// Whether the agent may sell more than it holds.
    pub allow_short: bool,
    /// Meaning of an action.
    pub actions: ActionScheme,
    /// Commands of an action for one symbol with [`ActionScheme::LimitOrders`], 1 to 16.
    pub commands: u32,
}

impl Default for ExternalAgentConfig {
    /// Returns an agent with the default account that sells, holds or buys 100 shares.
    fn default() -> Self {
        Self {
            account: AccountConfig::default(),
            latency_ticks: 0,
            order_size: 100,
            max_slippage: 50,
            max_offset: 20,
            allow_short: true,
            actions: ActionScheme::default(),
            commands: 4,
        }
    }
}

impl ExternalAgentConfig {
    /// Checks the settings. `frame_skip`: ticks between two decisions; `symbols`: number of
    /// symbols.
    pub(super) fn check(&self, frame_skip: u32, symbols: u16) -> Result<(), TradingError> {
        let Limits { order: limit, .. } = self.account.limits;
        for (option, value) in [
            ("order_size", self.order_size),
            ("max_slippage", self.max_slippage),
            ("max_offset", self.max_offset),
        ] {
            if value < 1 {
                let rule = "at least 1";
                return Err(TradingError::BadOption { option, value: value.into(), rule });
            }
        }
        for (option, value) in
            [("max_slippage", self.max_slippage), ("max_offset", self.max_offset)]
        {
            if value > 1_000_000 {
                let rule = "at most 1000000 price ticks";
                return Err(TradingError::BadOption { option, value: value.into(), rule });
            }
        }
        if self.actions.has_order_size() && self.order_size > limit {
            let order_size = self.order_size;
            return Err(TradingError::OrderAboveLimit { order_size, limit });
        }
        if !(1..=MOST_COMMANDS).contains(&self.commands) {
            let (option, value) = ("commands", self.commands.into());
            return Err(TradingError::BadOption { option, value, rule: "1 to 16" });
        }
        let decisions = u64::from(self.latency_ticks / frame_skip.max(1)) + 1;
        let each = self.requests() * u64::from(symbols);
        let requests = decisions * each;
        if requests > IN_FLIGHT as u64 {
            return Err(TradingError::TooManyInFlight {
                requests,
                limit: IN_FLIGHT as u64,
                latency_ticks: self.latency_ticks,
                symbols,
                each,
                commands: self.actions == ActionScheme::LimitOrders,
            });
        }
        Ok(())
    }

    /// Returns the maximum number of requests of one action for one symbol.
    const fn requests(&self) -> u64 {
        match self.actions {
            ActionScheme::Quotes => 3,
            ActionScheme::LimitOrders => self.commands as u64,
            _ => 1,
        }
    }

    /// Returns how many numbers an action has for one symbol.
    #[must_use]
    pub const fn numbers(&self) -> usize {
        match self.actions {
            ActionScheme::LimitOrders => self.commands as usize * self.actions.numbers(),
            _ => self.actions.numbers(),
        }
    }

    /// Returns the lowest and the highest value of number `at` of an action.
    #[must_use]
    pub const fn bounds(&self, at: usize) -> (f64, f64) {
        let (_, low, high) = self.named_bounds(at);
        (low, high)
    }

    const fn named_bounds(&self, at: usize) -> (&'static str, f64, f64) {
        if matches!(self.actions, ActionScheme::LimitOrders) {
            return command_bounds(at, self.account.limits.order);
        }
        let (low, high) = self.actions.bounds();
        ("action", low, high)
    }

    /// Refuses numbers outside their bounds, and choices and commands that are not whole.
    #[inline]
    pub(super) fn check_action<A: Copy + Into<f64>>(
        &self,
        env: usize,
        action: &[A],
    ) -> Result<(), TradingError> {
        let scheme = self.actions;
        for (at, &number) in action.iter().enumerate() {
            let value: f64 = number.into();
            let (what, low, high) = self.named_bounds(at);
            let whole = !scheme.is_whole() || value.fract() == 0.0;
            if !(low..=high).contains(&value) || !whole {
                return Err(TradingError::BadAction { env, what, value, low, high, scheme });
            }
        }
        Ok(())
    }

    /// Returns the configuration of the agent's market slot. Without `allow_short` its short limit
    /// is 0.
    pub(super) fn slot(&self) -> SlotConfig {
        let mut account = self.account;
        if !self.allow_short {
            account.limits.short = 0;
        }
        SlotConfig { account, latency_ticks: self.latency_ticks, ..SlotConfig::default() }
    }
}

/// Counts of one decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Requests sent.
    pub(super) requests: u32,
    /// Orders that were not sent, since limits, cash or open orders left no room for them.
    pub(super) masked: u32,
}

/// The agent from outside, which sends the orders of one account.
///
/// The market checks its orders like those of any other agent. Sizes are clipped beforehand to the
/// limits, cash and initial margin of the account, so that few orders are refused on arrival.
#[derive(Clone, Copy, Debug)]
pub struct ExternalAgent {
    config: ExternalAgentConfig,
    limits: Limits,
    /// Slot of the market that the agent owns.
    slot: usize,
}

/// Shares and cash that the account can still use in one symbol, after its pending and open orders.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Shares that may be bought within the limits and the initial margin.
    buy: i64,
    /// Shares that may be sold within the limits and the initial margin.
    sell: i64,
    /// Cash that no open or pending purchase needs, in cash units.
    cash: i64,
    /// Position if all pending and open orders trade. Orders towards a target are open only while
    /// they wait for an auction.
    expected: i64,
    /// Whether a place for open orders is free, which every order needs on arrival.
    can_trade: bool,
    /// Whether a place is left if all pending orders rest.
    can_rest: bool,
}

impl ExternalAgent {
    /// Returns the agent of a checked configuration, which owns slot `slot` of the market.
    pub(super) fn new(config: ExternalAgentConfig, slot: usize) -> Self {
        Self { limits: config.slot().account.limits, config, slot }
    }

    /// Returns the slot of the market that the agent owns.
    #[must_use]
    pub const fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the settings.
    #[must_use]
    pub const fn config(&self) -> &ExternalAgentConfig {
        &self.config
    }

    /// Prepares a decision: quotes begin by cancelling the open orders of all symbols, which frees
    /// their cash before the first new order arrives.
    pub(super) fn prepare(&self, market: &mut Market) {
        if self.config.actions == ActionScheme::Quotes {
            self.withdraw(market);
        }
    }

    /// Sends the orders of one action in one symbol. `numbers` were checked by
    /// [`ExternalAgentConfig::check_action`]. Commands are sent one by one instead.
    pub(super) fn act(&self, market: &mut Market, symbol: u16, numbers: &[f64]) -> Sent {
        let mut sent = Sent::default();
        let size = i64::from(self.config.order_size);
        match self.config.actions {
            ActionScheme::Discrete => match choice(numbers[0]) {
                0 => self.trade(market, symbol, -size, &mut sent),
                2 => self.trade(market, symbol, size, &mut sent),
                _ => {}
            },
            ActionScheme::DiscreteLimit => match choice(numbers[0]) {
                0 => self.trade(market, symbol, -size, &mut sent),
                2 => self.trade(market, symbol, size, &mut sent),
                3 => self.rest(market, symbol, Side::Sell, 0, size, &mut sent),
                4 => self.rest(market, symbol, Side::Buy, 0, size, &mut sent),
                5 => self.cancel(market, symbol, &mut sent),
                _ => {}
            },
            ActionScheme::DiscreteTarget => {
                self.approach(market, symbol, numbers[0] - 1.0, &mut sent);
            }
            ActionScheme::Target => self.approach(market, symbol, numbers[0], &mut sent),
            ActionScheme::OrderSize => {
                self.trade(market, symbol, whole(numbers[0] * size as f64), &mut sent);
            }
            ActionScheme::Quotes => {
                let scaled = |number: f64, most: i32| whole((number * f64::from(most)).round());
                for (side, offset, part) in
                    [(Side::Buy, numbers[0], numbers[2]), (Side::Sell, numbers[1], numbers[3])]
                {
                    let offset = scaled(offset, self.config.max_offset) as i32;
                    let shares = scaled(part, self.config.order_size);
                    if shares > 0 {
                        self.rest(market, symbol, side, offset, shares, &mut sent);
                    }
                }
            }
            ActionScheme::LimitOrders => {}
        }
        sent
    }

    /// Writes a mask of the choices of a discrete scheme: false for a choice that limits, cash or
    /// open orders rule out now. Writes true for a continuous scheme.
    pub(super) fn mask(&self, market: &Market, symbol: u16, out: &mut [bool]) {
        out.fill(true);
        let room = self.room(market, symbol);
        let can_buy = self.shares_to_buy(market, symbol, room, i64::MAX) > 0;
        let can_sell = room.sell > 0;
        let (rest, trade) = (room.can_rest, room.can_trade);
        let open = self.open_orders(market, symbol) > 0;
        match self.config.actions {
            // Its orders are open only while they wait for an auction.
            ActionScheme::Discrete => (out[0], out[2]) = (can_sell && trade, can_buy && trade),
            ActionScheme::DiscreteLimit => {
                (out[0], out[2]) = (can_sell && trade, can_buy && trade);
                (out[3], out[4]) = (can_sell && rest, can_buy && rest);
                out[5] = open;
            }
            ActionScheme::DiscreteTarget => {
                (out[0], out[2]) = (self.limits.short > 0, self.limits.long > 0);
            }
            _ => {}
        }
    }

    /// Trades towards a position, given as a fraction of the limit of its side.
    fn approach(&self, market: &mut Market, symbol: u16, fraction: f64, sent: &mut Sent) {
        let limit = if fraction < 0.0 { self.limits.short } else { self.limits.long };
        let target = whole((fraction * f64::from(limit)).round());
        let missing = target - self.room(market, symbol).expected;
        if missing != 0 {
            self.trade(market, symbol, missing, sent);
        }
    }

    /// Sends a marketable order of `signed` shares, clipped to the limits and, for a purchase, to
    /// the cash.
    fn trade(&self, market: &mut Market, symbol: u16, signed: i64, sent: &mut Sent) {
        if signed == 0 {
            return;
        }
        let room = self.room(market, symbol);
        let (side, shares) = if signed > 0 {
            (Side::Buy, self.shares_to_buy(market, symbol, room, signed))
        } else {
            (Side::Sell, room.sell.min(-signed))
        };
        let shares = if room.can_trade { shares } else { 0 };
        let price = self.limit_price(market, symbol, side);
        self.submit(market, symbol, (side, OrderKind::Marketable, price), shares, sent);
    }

    /// Sends a post-only order `offset` price ticks behind the touch, clipped to the limits and,
    /// for a purchase, to the cash.
    fn rest(
        &self,
        market: &mut Market,
        symbol: u16,
        side: Side,
        offset: i32,
        shares: i64,
        sent: &mut Sent,
    ) {
        let room = self.room(market, symbol);
        let price = touch(market, symbol, side) - side.sign() * offset;
        let shares = match side {
            Side::Buy => affordable(market, room, price, shares),
            Side::Sell => room.sell.min(shares),
        };
        let shares = if room.can_rest && price >= 1 { shares } else { 0 };
        self.submit(market, symbol, (side, OrderKind::PostOnly, price), shares, sent);
    }

    fn submit(
        &self,
        market: &mut Market,
        symbol: u16,
        (side, kind, price): (Side, OrderKind, i32),
        shares: i64,
        sent: &mut Sent,
    ) {
        let quantity = shares.min(self.limits.order.into()) as i32;
        if quantity <= 0 {
            sent.masked += 1;
            return;
        }
        let request = SlotRequest::Submit { side, kind, price, quantity };
        match market.send(self.slot, symbol, request) {
            Ok(_) => sent.requests += 1,
            // The checks of the configuration rule out every refusal. A refusal is counted all the
            // same, so that it is not hidden.
            Err(_) => sent.masked += 1,
        }
    }

    fn room(&self, market: &Market, symbol: u16) -> Room {
        let ledger = market.ledger();
        let position = i64::from(market.position(self.slot, symbol).unwrap_or_default());
        let (buys, sells) = market.pending_shares(self.slot, symbol).unwrap_or_default();
        let pending = market.in_flight(self.slot).unwrap_or_default();
        let reserved = market.pending_cash(self.slot).unwrap_or(i64::MAX);
        // The cancels that quotes begin with free the room and the cash of all open orders.
        let cleared = self.config.actions == ActionScheme::Quotes;
        let ((bid, offered), cash, open) = if cleared {
            ((0, 0), ledger.cash(self.account()), 0)
        } else {
            let open = self.open_orders(market, symbol);
            let shares = ledger.open_shares(self.account(), symbol);
            (shares, ledger.free_cash(self.account()), open)
        };
        let limit = i64::from(self.limits.order);
        let long = i64::from(self.limits.long) - position - i64::from(bid) - buys;
        let short = i64::from(self.limits.short) + position - i64::from(offered) - sells;
        let margin = |side| market.margin_room(self.slot, symbol, side, cleared).unwrap_or(0);
        Room {
            cash: cash.saturating_sub(reserved),
            buy: long.min(margin(Side::Buy)).clamp(0, limit),
            sell: short.min(margin(Side::Sell)).clamp(0, limit),
            expected: position + i64::from(bid) - i64::from(offered) + buys - sells,
            can_trade: open < OPEN_ORDERS,
            can_rest: cleared || open + pending < OPEN_ORDERS,
        }
    }

    /// Returns the worst price of a marketable order: `max_slippage` beyond the best price of the
    /// other side, or beyond the mid-price if that side is empty. The price is at least 1.
    fn limit_price(&self, market: &Market, symbol: u16, side: Side) -> i32 {
        let across = match side {
            Side::Buy => market.best_ask(symbol),
            Side::Sell => market.best_bid(symbol),
        };
        let across = across.unwrap_or(market.mid(symbol) as i32);
        (across + side.sign() * self.config.max_slippage).max(1)
    }

    fn shares_to_buy(&self, market: &Market, symbol: u16, room: Room, wanted: i64) -> i64 {
        let price = self.limit_price(market, symbol, Side::Buy);
        affordable(market, room, price, wanted)
    }

    /// Cancels all open orders.
    pub(super) fn withdraw(&self, market: &mut Market) {
        for symbol in 0..market.symbols() {
            self.cancel(market, symbol, &mut Sent::default());
        }
    }

    /// Cancels all open orders in one symbol, if there can be any on arrival.
    fn cancel(&self, market: &mut Market, symbol: u16, sent: &mut Sent) {
        let on_their_way = market.in_flight(self.slot).is_ok_and(|count| count > 0);
        if self.open_orders(market, symbol) > 0 || on_their_way {
            let cancelled = market.send(self.slot, symbol, SlotRequest::CancelAll);
            sent.requests += u32::from(cancelled.is_ok());
        }
    }

    /// Returns the number of open orders in one symbol.
    fn open_orders(&self, market: &Market, symbol: u16) -> usize {
        market.ledger().open_count(self.account(), symbol)
    }

    /// Returns the account of the agent: slots own the first accounts.
    const fn account(&self) -> u16 {
        self.slot as u16
    }
}

/// Returns the best price of `side`, or the price beside the mid-price if that side is empty.
fn touch(market: &Market, symbol: u16, side: Side) -> i32 {
    let own = match side {
        Side::Buy => market.best_bid(symbol),
        Side::Sell => market.best_ask(symbol),
    };
    let mid = market.mid(symbol);
    own.unwrap_or(match side {
        Side::Buy => (mid.ceil() as i32) - 1,
        Side::Sell => (mid.floor() as i32) + 1,
    })
}

/// Cuts a purchase at `price` to the limits and the free cash, fees included.
fn affordable(market: &Market, room: Room, price: i32, wanted: i64) -> i64 {
    let ppm = i128::from(market.config().fees.largest_ppm());
    let share = i128::from(price.max(1)) * i128::from(CASH_PER_TICK);
    // One unit more a share covers every rounding of the fee.
    let share = share + share * ppm / 1_000_000 + 1;
    let paid = (i128::from(room.cash) / share).clamp(0, i128::from(i32::MAX)) as i64;
    room.buy.min(wanted).min(paid)
}

/// Returns the number of a discrete choice.
fn choice(number: f64) -> usize {
    number as usize
}

/// Returns a number of shares, cut toward zero.
fn whole(number: f64) -> i64 {
    number as i64
}
