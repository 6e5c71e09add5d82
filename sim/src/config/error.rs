//! Errors of a configuration.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::fmt;

use thiserror::Error;

/// Error of a configuration, of a preset's name or of a slot's endowment. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no preset of that name.
    #[error("there is no preset `{name}`; choose calm, normal, stressed, flash or teaching")]
    UnknownPreset { name: String },
    /// A number is outside its range.
    #[error(
        "`{field}` is {}, outside {} to {}; choose a value in between",
        Shown(*value),
        Shown(*low),
        Shown(*high)
    )]
    OutOfRange {
        field: &'static str,
        /// Value given.
        value: f64,
        /// Lowest value.
        low: f64,
        /// Highest value.
        high: f64,
    },
    /// Cash of an account is outside its range.
    #[error(
        "`{field}` is {cash} cash units, outside 0 to {limit}; choose an amount in between, in \
         cash units, 100 to a price tick"
    )]
    CashOutOfRange { field: &'static str, cash: i64, limit: i64 },
    /// Days have a length, and nothing that divides them.
    #[error(
        "`session.ticks` is {ticks}, but has no effect while `u_shape`, `auction_ticks` and \
         `overnight_sd` of the session are 0; set one of them above 0, or leave `ticks` at {off}"
    )]
    IdleSession { ticks: u32, off: u32 },
    /// A market in which every tick is an auction has auctions of sessions too.
    #[error(
        "`session.auction_ticks` is {auction_ticks}, but in a call auction market every tick is an \
         auction; leave it 0, or choose `matching` \"continuous\""
    )]
    AuctionsInCalls { auction_ticks: u32 },
    /// The population is empty and there are no user agents.
    #[error(
        "the population has no agents, so nothing would ever trade; give at least one count above \
         0, or add an agent of your own"
    )]
    NoAgents,
    /// The agents and slots need more accounts than a market can have.
    #[error("{accounts} accounts exceed the limit of {limit}; use fewer agents or symbols")]
    TooManyAccounts { accounts: u64, limit: u64 },
    /// The book has too little room for all orders that agents and slots may have open.
    #[error(
        "{needed} orders may be open in one book, which has room for {room}; raise `book_orders` \
         to {needed}"
    )]
    BookTooSmall { needed: u64, room: u64 },
    /// A size that agents send exceeds the limit for one order.
    #[error(
        "`{field}` lets agents send {} shares at once, above the order limit of {limit}; lower it \
         or raise `limits.order`",
        Shown(*size)
    )]
    OrderAboveLimit {
        field: &'static str,
        /// Largest order that agents derive from the field, in shares.
        size: f64,
        limit: i32,
    },
    /// There is no such slot.
    #[error("slot {slot} does not exist; there are {slots}, counted from 0")]
    UnknownSlot { slot: usize, slots: usize },
    /// An account starts with shares outside its own limits.
    #[error(
        "the account starts with {shares} shares, outside its limits of -{short} to {long}; \
         change its shares or the limits"
    )]
    OutsideLimits { shares: i32, long: i32, short: i32 },
    /// The account of one slot or user agent.
    #[error("`{list}[{index}]`: {error}")]
    Account {
        /// `slots`, or `agents` for user agents.
        list: &'static str,
        index: usize,
        error: Box<ConfigError>,
    },
}

impl ConfigError {
    /// Names the slot or user agent with the account that the error is about.
    pub(crate) fn of_account(self, list: &'static str, index: usize) -> Self {
        Self::Account { list, index, error: Box::new(self) }
    }
}

/// A number in a message. Very large and very small ones are written with an exponent.
struct Shown(f64);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size >= 1e16 || (size > 0.0 && size < 1e-5) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_far_from_one_are_shown_with_an_exponent() {
        for (number, shown) in [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (1e-5, "0.00001"),
            (9.5e-6, "9.5e-6"),
            (-9.5e-6, "-9.5e-6"),
            (9e15, "9000000000000000"),
            (1e16, "1e16"),
            (-3e300, "-3e300"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(Shown(number).to_string(), shown);
        }
    }
}
