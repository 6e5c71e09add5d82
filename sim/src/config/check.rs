//! Checks of a configuration, before anything is built.

use super::{AccountConfig, ConfigError, MarketConfig, Matching, SessionConfig};
use crate::{
    book::Book,
    ledger::{CASH_PER_TICK, Limits, OPEN_ORDERS},
};

/// Maximum number of symbols.
pub(crate) const MOST_SYMBOLS: usize = 64;
/// Maximum number of slots.
const MOST_SLOTS: usize = 4_096;
/// Maximum cash of one account, in cash units.
const MOST_CASH: i64 = 10_i64.pow(16);
const MOST_SHARES: f64 = 1e8;

fn within(field: &'static str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::OutOfRange { field, value, low, high })
    }
}

impl MarketConfig {
    /// Returns the currency units in one cash unit.
    #[must_use]
    pub fn cash_unit(&self) -> f64 {
        self.tick_size / CASH_PER_TICK as f64
    }

    /// Returns `ticks` price ticks in currency units: the number nearest to the decimal fraction,
    /// where `tick_size` is one of at most nine decimals.
    #[must_use]
    pub fn price(&self, ticks: i32) -> f64 {
        let ticks = f64::from(ticks);
        let mut scale = 1.0;
        for _ in 0..10 {
            let whole = (self.tick_size * scale).round();
            if (whole / scale).to_bits() == self.tick_size.to_bits() {
                return ticks * whole / scale;
            }
            scale *= 10.0;
        }
        ticks * self.tick_size
    }

    /// Returns how many orders may be open in one book at once, with `users` user agents.
    #[must_use]
    pub fn open_orders(&self, users: usize) -> u64 {
        let outside = self.slots.len() as u64 + users as u64;
        (u64::from(self.population.total()) + outside) * OPEN_ORDERS as u64
    }

    /// Checks the ranges of the fields, and whether accounts and orders have room.
    ///
    /// `users` is the number of user agents that will be added.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self, users: usize) -> Result<(), ConfigError> {
        within("symbols", f64::from(self.symbols), 1.0, MOST_SYMBOLS as f64)?;
        within("initial_price", f64::from(self.initial_price), 2.0, 1e8)?;
        within("tick_size", self.tick_size, 1e-9, 1e9)?;
        within("book_levels", self.book_levels as f64, 64.0, Book::MAX_LEVELS as f64)?;
        within("book_orders", self.book_orders as f64, 1.0, Book::MAX_ORDERS as f64)?;
        within("lendable_shares", self.lendable_shares as f64, 0.0, 1e15)?;
        within("features.candle_ticks", f64::from(self.features.candle_ticks), 1.0, 1e6)?;
        if let Some(sd) = self.features.reveal_fundamental {
            within("features.reveal_fundamental", sd, 0.0, 1.0)?;
        }
        self.check_processes()?;
        self.check_session()?;
        self.check_fees()?;
        self.check_population()?;
        self.check_slots()?;
        self.check_room(users)
    }

    fn check_processes(&self) -> Result<(), ConfigError> {
        let f = &self.fundamental;
        within("fundamental.volatility", f.volatility, 0.0, 0.1)?;
        within("fundamental.fast_ticks", f.fast_ticks, 1.0, 1e9)?;
        within("fundamental.fast_sd", f.fast_sd, 0.0, 2.0)?;
        within("fundamental.slow_ticks", f.slow_ticks, 1.0, 1e9)?;
        within("fundamental.slow_sd", f.slow_sd, 0.0, 2.0)?;
        within("fundamental.jumps_per_day", f.jumps_per_day, 0.0, 1e4)?;
        within("fundamental.jump_sd", f.jump_sd, 0.0, 0.5)?;
        within("fundamental.drift_per_day", f.drift_per_day, -1.0, 1.0)?;
        within("fundamental.reversion_per_day", f.reversion_per_day, 0.0, 1e4)?;
        within("fundamental.common", f.common, 0.0, 1.0)?;
        let n = &self.news;
        within("news.symbol_per_day", n.symbol_per_day, 0.0, 1e4)?;
        within("news.market_per_day", n.market_per_day, 0.0, 1e4)?;
        within("news.shock_sd", n.shock_sd, 0.0, 0.5)?;
        within("news.rumour_share", n.rumour_share, 0.0, 1.0)?;
        within("news.life_ticks", n.life_ticks, 1.0, 1e7)?;
        within("news.sentiment_tilt", n.sentiment_tilt, 0.0, 1.0)?;
        let l = &self.latent;
        within("latent.depth", l.depth, 0.0, MOST_SHARES)?;
        within("latent.slope", l.slope, 0.0, MOST_SHARES)?;
        within("latent.recovery_ticks", l.recovery_ticks, 1.0, 1e9)?;
        within("latent.error_sd", l.error_sd, 0.0, 1.0)?;
        within("latent.error_ticks", l.error_ticks, 1.0, 1e9)?;
        let a = &self.arousal;
        within("arousal.floor", a.floor, 1e-3, 100.0)?;
        within("arousal.fast", a.fast, 0.0, 100.0)?;
        within("arousal.slow", a.slow, 0.0, 100.0)?;
        within("arousal.fast_ticks", a.fast_ticks, 1.0, 1e6)?;
        within("arousal.slow_ticks", a.slow_ticks, 1.0, 1e6)?;
        within("arousal.typical", a.typical, 1e-6, 1e6)?;
        within("arousal.ceiling", a.ceiling, a.floor, 1e3)
    }

    fn check_session(&self) -> Result<(), ConfigError> {
        let s = &self.session;
        within("session.ticks", f64::from(s.ticks), 60.0, 1e7)?;
        within("session.u_shape", s.u_shape, 0.0, 0.9)?;
        within("session.overnight_sd", s.overnight_sd, 0.0, 0.5)?;
        let auction_ticks = s.auction_ticks;
        if auction_ticks > 0 && matches!(self.matching, Matching::CallAuction(_)) {
            return Err(ConfigError::AuctionsInCalls { auction_ticks });
        }
        let (ticks, off) = (s.ticks, SessionConfig::OFF.ticks);
        if ticks != off && !s.is_on() {
            return Err(ConfigError::IdleSession { ticks, off });
        }
        let longest = f64::from((s.ticks - 1) / 2);
        within("session.auction_ticks", f64::from(auction_ticks), 0.0, longest)
    }

    fn check_fees(&self) -> Result<(), ConfigError> {
        let fees = &self.fees;
        // A rebate above the taker's fee would let two accounts of one owner earn money by trading
        // with each other.
        within("fees.taker_ppm", f64::from(fees.taker_ppm), 0.0, 100_000.0)?;
        let low = -f64::from(fees.taker_ppm);
        within("fees.maker_ppm", f64::from(fees.maker_ppm), low, 100_000.0)?;
        within("fees.borrow_ppm_per_day", f64::from(fees.borrow_ppm_per_day), 0.0, 1e6)
    }

    fn check_population(&self) -> Result<(), ConfigError> {
        let population = &self.population;
        let Limits { long, short, .. } = population.limits;
        check_limits(&population.limits, "population.limits.order")?;
        check_cash("population.cash", population.cash)?;
        let shares = f64::from(population.shares);
        within("population.shares", shares, -f64::from(short), f64::from(long))?;
        self.check_makers()?;
        self.check_noise()?;
        self.check_value()?;
        self.check_signal()?;
        self.check_executors()
    }

    /// Checks an order size, and `largest`, the largest order that agents derive from it.
    fn sized(&self, field: &'static str, size: f64, largest: f64) -> Result<(), ConfigError> {
        within(field, size, 1.0, MOST_SHARES)?;
        let limit = self.population.limits.order;
        if largest > f64::from(limit) {
            return Err(ConfigError::OrderAboveLimit { field, size: largest, limit });
        }
        Ok(())
    }

    fn check_makers(&self) -> Result<(), ConfigError> {
        let maker = &self.population.maker;
        within("maker.wait", maker.wait, 1.0, 1e7)?;
        within("maker.half_spread", maker.half_spread, 0.0, 1e4)?;
        within("maker.spread_per_vol", maker.spread_per_vol, 0.0, 1e4)?;
        within("maker.skew", maker.skew, 0.0, 1e3)?;
        within("maker.flow_shift", maker.flow_shift, 0.0, 1e3)?;
        within("maker.root_shift", maker.root_shift, 0.0, 1e3)?;
        within("maker.level_step", maker.level_step, 0.0, 1e4)?;
        // The third level has twice as many shares as the first.
        self.sized("maker.size", maker.size, maker.size * 2.0)
    }

    fn check_noise(&self) -> Result<(), ConfigError> {
        let noise = &self.population.noise;
        within("noise.wait", noise.wait, 1.0, 1e7)?;
        within("noise.market", noise.market, 0.0, 1.0)?;
        within("noise.cancel", noise.cancel, 0.0, 1.0 - noise.market)?;
        within("noise.size_sigma", noise.size_sigma, 0.0, 3.0)?;
        within("noise.depth_exponent", noise.depth_exponent, 0.1, 10.0)?;
        within("noise.life", f64::from(noise.life), 1.0, 1e9)?;
        self.sized("noise.size", noise.size, noise.size)
    }

    fn check_value(&self) -> Result<(), ConfigError> {
        let value = &self.population.value;
        within("value.wait", value.wait, 1.0, 1e7)?;
        within("value.strength", value.strength, 0.0, MOST_SHARES)?;
        within("value.error_sd", value.error_sd, 0.0, 1.0)?;
        within("value.error_ticks", value.error_ticks, 1.0, 1e9)?;
        within("value.learning", value.learning, 0.0, 0.999)?;
        within("value.aggressive", value.aggressive, 0.0, 1e3)?;
        self.sized("value.slice", value.slice, value.slice)
    }

    fn check_signal(&self) -> Result<(), ConfigError> {
        let signal = &self.population.signal;
        within("signal.wait", signal.wait, 1.0, 1e7)?;
        within("signal.horizon_low", signal.horizon_low, 1.0, 1e6)?;
        within("signal.horizon_high", signal.horizon_high, signal.horizon_low, 1e6)?;
        within("signal.followers", signal.followers, 0.0, 1.0)?;
        within("signal.threshold", signal.threshold, 1e-6, 100.0)?;
        within("signal.inventory", signal.inventory, 0.0, MOST_SHARES)?;
        self.sized("signal.size", signal.size, signal.size)
    }

    fn check_executors(&self) -> Result<(), ConfigError> {
        let executor = &self.population.executor;
        within("executor.wait", executor.wait, 1.0, 1e7)?;
        within("executor.idle", executor.idle, 1.0, 1e7)?;
        within("executor.parent_minimum", executor.parent_minimum, 1.0, MOST_SHARES)?;
        within("executor.parent_exponent", executor.parent_exponent, 0.1, 10.0)?;
        let (low, high) = (executor.parent_minimum, executor.parent_maximum);
        within("executor.parent_maximum", high, low, MOST_SHARES)?;
        within("executor.aggressive", executor.aggressive, 0.0, 1.0)?;
        self.sized("executor.slice", executor.slice, executor.slice)
    }

    fn check_slots(&self) -> Result<(), ConfigError> {
        within("slots", self.slots.len() as f64, 0.0, MOST_SLOTS as f64)?;
        for (slot, config) in self.slots.iter().enumerate() {
            within("slots.latency_ticks", f64::from(config.latency_ticks), 0.0, 1e6)?;
            let margin = f64::from(config.initial_margin_ppm);
            within("slots.initial_margin_ppm", margin, 0.0, 1e6)?;
            config.account.check().map_err(|error| error.of_account("slots", slot))?;
        }
        Ok(())
    }

    fn check_room(&self, users: usize) -> Result<(), ConfigError> {
        let agents = u64::from(self.population.total());
        if agents == 0 && users == 0 {
            return Err(ConfigError::NoAgents);
        }
        let outside = self.slots.len() as u64 + users as u64;
        let accounts = agents * u64::from(self.symbols) + outside;
        let limit = u64::from(u16::MAX) - 1;
        if accounts > limit {
            return Err(ConfigError::TooManyAccounts { accounts, limit });
        }
        let needed = self.open_orders(users);
        let room = self.book_orders as u64;
        if needed > room {
            return Err(ConfigError::BookTooSmall { needed, room });
        }
        Ok(())
    }
}

impl AccountConfig {
    /// Checks the account.
    ///
    /// # Errors
    /// [`ConfigError`] for limits, cash or shares outside their ranges.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_limits(&self.limits, "account.limits.order")?;
        check_cash("account.cash", self.cash)?;
        let Limits { long, short, .. } = self.limits;
        if (-short..=long).contains(&self.shares) {
            return Ok(());
        }
        Err(ConfigError::OutsideLimits { shares: self.shares, long, short })
    }
}

fn check_cash(field: &'static str, cash: i64) -> Result<(), ConfigError> {
    if (0..=MOST_CASH).contains(&cash) {
        return Ok(());
    }
    Err(ConfigError::CashOutOfRange { field, cash, limit: MOST_CASH })
}

fn check_limits(limits: &Limits, order: &'static str) -> Result<(), ConfigError> {
    within(order, f64::from(limits.order), 1.0, MOST_SHARES)?;
    within("limits.long", f64::from(limits.long), 0.0, MOST_SHARES)?;
    within("limits.short", f64::from(limits.short), 0.0, MOST_SHARES)
}
