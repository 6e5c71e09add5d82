//! Cash, shares, fees, borrowing and limits of every account, in integers.
//!
//! Cash is counted in hundredths of the value of one price tick on one share ([`CASH_PER_TICK`]).
//! So a price times shares is exact, and fees have two more digits. Money only moves between
//! accounts, the exchange (fees) and the lender (borrowing costs), and shares only between
//! accounts. [`Ledger::check`] verifies the sums.

mod borrowing;
mod error;
mod margin;
mod together;

use borrowing::Borrowing;
pub use error::{ConservationError, OrderReject};
pub(crate) use margin::Exposure;

use crate::book::Side;
use crate::clone_in_place::clone_in_place;

/// Cash units of one price tick on one share.
pub const CASH_PER_TICK: i64 = 100;
/// Maximum open orders of one account in one symbol.
pub const OPEN_ORDERS: usize = 8;
/// Ticks of one trading day: 6.5 hours of one-second ticks.
pub const DAY_TICKS: u64 = 23_400;

const NO_ORDER: u16 = u16::MAX;
const ALL_SYMBOLS: u16 = u16::MAX;

/// Limits of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Largest long position, open buys included, in shares.
    pub long: i32,
    /// Largest short position, open sells included, in shares.
    pub short: i32,
    /// Largest single order in shares.
    pub order: i32,
}

/// Fees and borrowing costs, in parts per million (1 basis point is 100).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FeeSchedule {
    /// Fee on the notional of a resting order that trades; negative pays a rebate.
    pub maker_ppm: i32,
    /// Fee on the notional of an incoming order that trades.
    pub taker_ppm: i32,
    /// Cost of a borrowed share per day, on its value.
    pub borrow_ppm_per_day: i32,
}

impl FeeSchedule {
    /// Returns the larger of the two fees on the notional, at least 0. An order may trade on
    /// arrival or later.
    #[must_use]
    pub const fn largest_ppm(&self) -> i32 {
        let larger = if self.maker_ppm > self.taker_ppm { self.maker_ppm } else { self.taker_ppm };
        if larger > 0 { larger } else { 0 }
    }

    /// Returns the fee on `notional` cash units, of a resting order or of an incoming one.
    #[must_use]
    #[inline]
    pub const fn of(&self, notional: i64, maker: bool) -> i64 {
        fee(notional, if maker { self.maker_ppm } else { self.taker_ppm })
    }
}

/// Returns `notional * ppm / 10^6`, rounded towards zero. So the fees on the parts of an order
/// never add up to more, in absolute value, than the fee on the whole.
#[inline]
const fn fee(notional: i64, ppm: i32) -> i64 {
    if ppm == 0 {
        return 0;
    }
    let (whole, part) = (notional / 1_000_000, notional % 1_000_000);
    whole * ppm as i64 + part * ppm as i64 / 1_000_000
}

/// One account; a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Account {
    cash: i64,
    /// Cash reserved for open buys.
    reserved: i64,
    limits: Limits,
    /// Holding in `home`, or in symbol 0 if it trades all symbols.
    holding: Holding,
    home: u16,
}

const _: () = assert!(size_of::<Account>() == 64);

/// Position and open orders of one account in one symbol.
#[derive(Clone, Copy, Debug)]
struct Holding {
    position: i32,
    /// Shares in open buys and in open sells.
    shares: [i32; 2],
    /// Book slots of the open orders; [`NO_ORDER`] in unused places.
    open: [u16; OPEN_ORDERS],
    /// Bits of the used places of `open`.
    used: u8,
}

const _: () = assert!(OPEN_ORDERS == u8::BITS as usize);

const NO_HOLDING: Holding =
    Holding { position: 0, shares: [0; 2], open: [NO_ORDER; OPEN_ORDERS], used: 0 };

impl Holding {
    /// Returns the shares that would be short if every open sell traded and no open buy did.
    fn shortable(&self) -> i64 {
        (i64::from(self.shares[Side::Sell as usize]) - i64::from(self.position)).max(0)
    }
}

/// Cash, shares and open orders of all accounts.
#[derive(Debug)]
pub struct Ledger {
    fees: FeeSchedule,
    accounts: Vec<Account>,
    /// Holdings of the accounts that trade all symbols, in symbols 1 and above.
    others: Vec<Holding>,
    /// Shares that may be borrowed, for each symbol.
    lendable: Vec<i64>,
    /// Sum of `shortable` over all accounts, for each symbol.
    shortable: Vec<i64>,
    /// Shares at the start, for each symbol.
    issued: Vec<i64>,
    /// Twice the mid-price of each symbol, in ticks, at which shares are borrowed and margins
    /// asked.
    marks: Vec<i32>,
    /// Costs of short positions.
    borrowing: Borrowing,
    /// Initial margins of the first accounts in parts per million; 0 asks for none.
    margins: Vec<i32>,
    exchange: i64,
    lender: i64,
    endowment: i128,
}

clone_in_place! {
    Ledger {
        fees, accounts, others, lendable, shortable, issued, marks, borrowing, margins, exchange,
        lender, endowment,
    }
}

impl Ledger {
    /// Creates a ledger without accounts for `lendable.len()` symbols.
    pub(crate) fn new(fees: FeeSchedule, lendable: Vec<i64>) -> Self {
        let symbols = lendable.len();
        Self {
            fees,
            accounts: Vec::new(),
            others: Vec::new(),
            lendable,
            shortable: vec![0; symbols],
            issued: vec![0; symbols],
            marks: vec![0; symbols],
            borrowing: Borrowing::new(symbols),
            margins: Vec::new(),
            exchange: 0,
            lender: 0,
            endowment: 0,
        }
    }

    /// Adds an account that trades one symbol, and returns its number.
    pub(crate) fn open_local(&mut self, symbol: u16, limits: Limits) -> u16 {
        self.open(symbol, limits)
    }

    /// Adds an account that trades all symbols, and returns its number. These accounts come first.
    pub(crate) fn open_global(&mut self, limits: Limits) -> u16 {
        debug_assert!(self.accounts.iter().all(|account| account.home == ALL_SYMBOLS));
        self.others.resize(self.others.len() + self.lendable.len() - 1, NO_HOLDING);
        self.open(ALL_SYMBOLS, limits)
    }

    fn open(&mut self, home: u16, limits: Limits) -> u16 {
        let account = self.accounts.len() as u16;
        self.accounts.push(Account { cash: 0, reserved: 0, limits, holding: NO_HOLDING, home });
        self.borrowing.open(self.others.len());
        account
    }

    /// Asks for an initial margin of an account that trades all symbols, in parts per million.
    pub(crate) fn ask_margin(&mut self, account: u16, initial_margin_ppm: i32) {
        let count = self.margins.len().max(usize::from(account) + 1);
        self.margins.resize(count, 0);
        self.margins[usize::from(account)] = initial_margin_ppm;
    }

    /// Empties every account and all totals. Every share is worth `price` ticks.
    pub(crate) fn clear(&mut self, price: i32) {
        for account in &mut self.accounts {
            account.cash = 0;
            account.reserved = 0;
            account.holding = NO_HOLDING;
        }
        self.others.fill(NO_HOLDING);
        self.shortable.fill(0);
        self.issued.fill(0);
        self.marks.fill(price * 2);
        self.borrowing.clear();
        self.exchange = 0;
        self.lender = 0;
        self.endowment = 0;
    }

    /// Adds cash to an account, and to the total that is conserved.
    pub(crate) fn endow_cash(&mut self, account: u16, cash: i64) {
        self.accounts[usize::from(account)].cash += cash;
        self.endowment += i128::from(cash);
    }

    /// Adds issued shares to an account. A negative number starts the account short.
    pub(crate) fn endow_shares(&mut self, account: u16, symbol: u16, shares: i32) {
        self.transfer(account, symbol, shares);
        self.issued[usize::from(symbol)] += i64::from(shares);
    }

    /// Returns the index in `others` of a holding; `None` if the account itself stores it.
    #[inline]
    fn elsewhere(&self, account: u16, symbol: u16) -> Option<usize> {
        if symbol == 0 || self.accounts[usize::from(account)].home != ALL_SYMBOLS {
            return None;
        }
        Some(usize::from(account) * (self.lendable.len() - 1) + usize::from(symbol) - 1)
    }

    #[inline]
    fn holding(&self, account: u16, symbol: u16) -> &Holding {
        match self.elsewhere(account, symbol) {
            None => &self.accounts[usize::from(account)].holding,
            Some(at) => &self.others[at],
        }
    }

    /// Changes a holding, and updates the sum of shortable shares.
    #[inline]
    fn shift(&mut self, account: u16, symbol: u16, change: impl FnOnce(&mut Holding)) {
        let holding = match self.elsewhere(account, symbol) {
            None => &mut self.accounts[usize::from(account)].holding,
            Some(at) => &mut self.others[at],
        };
        let before = holding.shortable();
        change(holding);
        self.shortable[usize::from(symbol)] += holding.shortable() - before;
    }

    /// Adds shares to a position. Charges what was borrowed until now.
    #[inline]
    fn transfer(&mut self, account: u16, symbol: u16, shares: i32) {
        let position = self.position(account, symbol);
        if position < 0 || position + shares < 0 {
            self.charge(account);
        }
        self.shift(account, symbol, |holding| holding.position += shares);
    }

    /// Sets twice the mid-price of a symbol, in ticks.
    #[inline]
    pub(crate) fn mark(&mut self, symbol: u16, twice_mid: i32) {
        self.marks[usize::from(symbol)] = twice_mid;
    }

    /// Loads one number of each account, which brings the accounts into the caches. The result has
    /// no meaning.
    pub(crate) fn read_ahead(&self) -> i64 {
        self.accounts.iter().fold(0, |sum, account| sum ^ account.cash)
    }

    /// Returns the number of accounts.
    #[must_use]
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Returns the cash of an account in cash units.
    #[must_use]
    pub fn cash(&self, account: u16) -> i64 {
        self.accounts[usize::from(account)].cash - self.owed_cash(account)
    }

    /// Returns the cash of an account that is not reserved for open buys, in cash units.
    #[must_use]
    pub fn free_cash(&self, account: u16) -> i64 {
        self.cash(account) - self.accounts[usize::from(account)].reserved
    }

    /// Returns the limits of an account.
    #[must_use]
    pub fn limits(&self, account: u16) -> Limits {
        self.accounts[usize::from(account)].limits
    }

    /// Returns the position of an account in shares; negative is short.
    #[must_use]
    #[inline]
    pub fn position(&self, account: u16, symbol: u16) -> i32 {
        self.holding(account, symbol).position
    }

    /// Returns the shares in an account's open buys and in its open sells of one symbol.
    #[must_use]
    pub fn open_shares(&self, account: u16, symbol: u16) -> (i32, i32) {
        self.holding(account, symbol).shares.into()
    }

    /// Returns the book slots of an account's open orders.
    #[inline]
    pub fn open_slots(&self, account: u16, symbol: u16) -> impl Iterator<Item = u16> + use<> {
        let Holding { open, mut used, .. } = *self.holding(account, symbol);
        std::iter::from_fn(move || {
            let place = used.trailing_zeros() as usize;
            used &= used.wrapping_sub(1);
            open.get(place).copied()
        })
    }

    /// Returns the number of open orders of an account in one symbol.
    #[must_use]
    #[inline]
    pub fn open_count(&self, account: u16, symbol: u16) -> usize {
        self.holding(account, symbol).used.count_ones() as usize
    }

    /// Returns the fees that the exchange has taken, in cash units.
    #[must_use]
    pub const fn fees_taken(&self) -> i64 {
        self.exchange
    }

    /// Returns the shares issued in `symbol`, which all positions always sum to.
    #[must_use]
    pub fn issued(&self, symbol: u16) -> i64 {
        self.issued[usize::from(symbol)]
    }

    /// Checks an order against limits, free cash, lendable shares and initial margin. Returns a
    /// free place in the list of open orders.
    ///
    /// `worst` is the highest price in ticks at which a buy may trade.
    #[inline]
    pub(crate) fn admit(
        &self,
        account: u16,
        symbol: u16,
        side: Side,
        quantity: i32,
        worst: i32,
    ) -> Result<u8, OrderReject> {
        let entry = &self.accounts[usize::from(account)];
        let holding = self.holding(account, symbol);
        if quantity <= 0 {
            return Err(OrderReject::NoQuantity { quantity });
        }
        if quantity > entry.limits.order {
            return Err(OrderReject::TooLarge { quantity, limit: entry.limits.order });
        }
        let place = holding.used.trailing_ones();
        if place == OPEN_ORDERS as u32 {
            return Err(OrderReject::TooManyOpen { limit: OPEN_ORDERS as u32 });
        }
        let quantity = i64::from(quantity);
        let position = i64::from(holding.position);
        match side {
            Side::Buy => {
                let long = position + i64::from(holding.shares[Side::Buy as usize]) + quantity;
                if long > i64::from(entry.limits.long) {
                    return Err(OrderReject::LongLimit {
                        position: long,
                        limit: entry.limits.long,
                    });
                }
                let needed = quantity.saturating_mul(i64::from(worst) * CASH_PER_TICK);
                let needed = needed.saturating_add(fee(needed, self.fees.largest_ppm()));
                let free = self.cash(account) - entry.reserved;
                if needed > free {
                    return Err(OrderReject::NoCash { needed, free });
                }
            }
            Side::Sell => {
                let short = i64::from(holding.shares[Side::Sell as usize]) + quantity - position;
                if short > i64::from(entry.limits.short) {
                    return Err(OrderReject::ShortLimit { short, limit: entry.limits.short });
                }
                let more = short.max(0) - holding.shortable();
                let free = self.lendable[usize::from(symbol)] - self.shortable[usize::from(symbol)];
                if more > free.max(0) {
                    return Err(OrderReject::NoShares { needed: more, free });
                }
            }
        }
        self.admit_margin(account, symbol, side, quantity)?;
        Ok(place as u8)
    }

    /// Returns the fee on `quantity` shares at `price` ticks, in cash units.
    #[inline]
    pub(crate) fn fee_for(&self, price: i32, quantity: i32, maker: bool) -> i64 {
        self.fees.of(i64::from(price) * i64::from(quantity) * CASH_PER_TICK, maker)
    }

    /// Settles one fill of a uniform-price auction, in which buys and sells have equal sums. Takes
    /// the maker fee.
    pub(crate) fn settle_side(
        &mut self,
        account: u16,
        symbol: u16,
        side: Side,
        price: i32,
        quantity: i32,
    ) {
        let notional = i64::from(price) * i64::from(quantity) * CASH_PER_TICK;
        let fee = self.fees.of(notional, true);
        let sign = side.sign();
        self.accounts[usize::from(account)].cash -= i64::from(sign) * notional + fee;
        self.exchange += fee;
        self.transfer(account, symbol, sign * quantity);
    }

    /// Settles one trade between two accounts.
    #[inline]
    pub(crate) fn settle(&mut self, symbol: u16, trade: Trade) {
        let notional = i64::from(trade.price) * i64::from(trade.quantity) * CASH_PER_TICK;
        let maker_fee = self.fees.of(notional, true);
        let taker_fee = self.fees.of(notional, false);
        let sign = trade.taker_side.sign();
        let (maker, taker) = (usize::from(trade.maker), usize::from(trade.taker));
        self.accounts[taker].cash -= i64::from(sign) * notional + taker_fee;
        self.accounts[maker].cash += i64::from(sign) * notional - maker_fee;
        self.exchange += maker_fee + taker_fee;
        self.transfer(trade.taker, symbol, sign * trade.quantity);
        self.transfer(trade.maker, symbol, -sign * trade.quantity);
    }

    /// Adds an order that has begun to rest to its account.
    #[inline]
    pub(crate) fn opened(&mut self, account: u16, symbol: u16, resting: Resting) {
        let reserve = self.reserve(resting.side, resting.price, resting.quantity);
        self.accounts[usize::from(account)].reserved += reserve;
        self.shift(account, symbol, |holding| {
            holding.shares[resting.side as usize] += resting.quantity;
            holding.open[usize::from(resting.place)] = resting.slot;
            holding.used |= 1 << resting.place;
        });
    }

    /// Removes `gone` of `had` shares of an open order, after a trade or a cancel.
    #[inline]
    pub(crate) fn reduced(&mut self, account: u16, symbol: u16, order: Reduced) {
        let Reduced { side, price, had, gone, .. } = order;
        let left = had - gone;
        let freed = self.reserve(side, price, had) - self.reserve(side, price, left);
        self.accounts[usize::from(account)].reserved -= freed;
        self.shift(account, symbol, |holding| {
            holding.shares[side as usize] -= gone;
            let slot = &mut holding.open[usize::from(order.place)];
            *slot = if left == 0 { NO_ORDER } else { *slot };
            holding.used &= !(u8::from(left == 0) << order.place);
        });
    }

    /// Returns the cash that an open order of `quantity` shares at `price` ticks may need: 0 for a
    /// sell, without a branch, since sides are random.
    #[inline]
    pub(crate) fn reserve(&self, side: Side, price: i32, quantity: i32) -> i64 {
        // The notional of a buy fits, since `admit` compared it with the cash. That of a sell may
        // not.
        let bought = i64::from(quantity) * i64::from(side == Side::Buy);
        let notional = i64::from(price) * bought * CASH_PER_TICK;
        notional + self.fees.of(notional, true).max(0)
    }

    /// Verifies that cash, shares and shortable shares add up. `O(accounts * symbols)`.
    ///
    /// # Errors
    /// [`ConservationError`] if a sum differs by a single unit.
    pub fn check(&self) -> Result<(), ConservationError> {
        let cash: i128 = self.accounts.iter().map(|account| i128::from(account.cash)).sum();
        let found = cash + i128::from(self.exchange) + i128::from(self.lender);
        if found != self.endowment {
            return Err(ConservationError::Cash { found, expected: self.endowment });
        }
        for symbol in 0..self.lendable.len() as u16 {
            let held = |account: u16| self.holding(account, symbol);
            let locals = (0..self.accounts.len() as u16).filter(|account| {
                let home = self.accounts[usize::from(*account)].home;
                home == symbol || home == ALL_SYMBOLS
            });
            let found: i64 = locals.clone().map(|account| i64::from(held(account).position)).sum();
            let expected = self.issued[usize::from(symbol)];
            if found != expected {
                return Err(ConservationError::Shares { symbol, found, expected });
            }
            let found: i64 = locals.map(|account| held(account).shortable()).sum();
            let expected = self.shortable[usize::from(symbol)];
            if found != expected {
                return Err(ConservationError::Borrowed { symbol, found, expected });
            }
        }
        Ok(())
    }

    /// Passes the state of all accounts to `word`.
    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        for (number, account) in (0..).zip(&self.accounts) {
            word(self.cash(number) as u64);
            word(account.reserved as u64);
        }
        let others = usize::max(self.lendable.len(), 2) - 1;
        let mut others = self.others.chunks(others);
        for account in &self.accounts {
            let others = if account.home == ALL_SYMBOLS { others.next() } else { None };
            for holding in std::iter::once(&account.holding).chain(others.unwrap_or_default()) {
                word(holding.position as u64);
                word((holding.shares[0] as u64) << 32 | holding.shares[1] as u64 & 0xFFFF_FFFF);
                holding.open.iter().for_each(|slot| word(u64::from(*slot)));
            }
        }
        self.digest_borrowing(&mut word);
        word(self.exchange as u64);
        word(self.borrowing_taken() as u64);
    }
}

/// One trade to settle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trade {
    pub(crate) price: i32,
    pub(crate) quantity: i32,
    pub(crate) maker: u16,
    pub(crate) taker: u16,
    pub(crate) taker_side: Side,
}

/// An order that begins to rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resting {
    pub(crate) side: Side,
    pub(crate) price: i32,
    pub(crate) quantity: i32,
    pub(crate) slot: u16,
    pub(crate) place: u8,
}

/// Part of an open order that was traded or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduced {
    pub(crate) side: Side,
    pub(crate) price: i32,
    pub(crate) had: i32,
    pub(crate) gone: i32,
    pub(crate) place: u8,
}
