//! Interface of a market that the battery can measure.

use crate::book::Side;

/// Kinds of background agents: makers, noise, value, signal, executors.
pub const KINDS: usize = 5;
/// Outside accounts of a market.
pub const OUTSIDE_ACCOUNTS: usize = 2;

/// Cash and shares of one or several accounts, since the start of the market.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Holding {
    /// Cash in price ticks times shares, after fees.
    pub cash: f64,
    /// Shares; negative is short.
    pub shares: f64,
}

/// Kind of an order of an outside account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideKind {
    /// Trades on arrival; the part that does not trade is dropped.
    Market,
    /// Limit order behind the best price of its own side, which rests if it does not trade.
    Limit {
        /// Price ticks behind the best price.
        behind: i32,
    },
}

/// Order of an outside account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideOrder {
    /// Number of the account, below [`OUTSIDE_ACCOUNTS`].
    pub account: usize,
    /// Side.
    pub side: Side,
    /// Shares.
    pub shares: i32,
    /// Kind.
    pub kind: OutsideKind,
}

/// Best quotes after a tick, and the trading in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TickView {
    /// Best buy price in price ticks, if any order buys.
    pub bid: Option<i32>,
    /// Best sell price in price ticks, if any order sells.
    pub ask: Option<i32>,
    /// Shares traded in this tick.
    pub volume: u64,
    /// Hidden fundamental in price ticks.
    pub fundamental: f64,
}

impl TickView {
    /// Returns the middle of the best quotes in price ticks, if both sides have orders.
    #[must_use]
    pub fn mid(&self) -> Option<f64> {
        Some(f64::midpoint(f64::from(self.bid?), f64::from(self.ask?)))
    }

    /// Returns the distance of the best quotes in price ticks, if both sides have orders.
    #[must_use]
    pub fn spread(&self) -> Option<i32> {
        Some(self.ask? - self.bid?)
    }
}

/// A market with one symbol and two outside accounts, driven tick by tick.
///
/// A clone must continue exactly as its original would: impact is the difference between two
/// clones. An order of an outside account must not shift the random draws of other accounts.
pub trait Subject: Clone + Send {
    /// Starts over with `seed`, warm-up included. The market must equal one that was built with
    /// `seed`.
    fn reset(&mut self, seed: u64);

    /// Advances one tick. The first outside account sends a market order of `order` shares before
    /// it: a buy if positive, a sell if negative, none if zero.
    fn step(&mut self, order: i32);

    /// Sends an order of an outside account, which arrives in the next tick before all others.
    fn send(&mut self, order: OutsideOrder);

    /// Cancels the resting orders of the outside accounts in the next tick.
    fn withdraw(&mut self);

    /// Returns the holding of the outside accounts together.
    fn outside(&self) -> Holding;

    /// Returns the holding of each kind of background agent.
    fn holdings(&self) -> [Holding; KINDS];

    /// Appends the features that a trader observes after the last tick.
    fn observe(&self, features: &mut Vec<f64>);

    /// Returns quotes and trading of the last tick.
    fn view(&self) -> TickView;

    /// Appends the signs (+1 buy, -1 sell) of the orders of the last tick that took liquidity, in
    /// the order in which they traded.
    fn append_signs(&self, signs: &mut Vec<i8>);

    /// Returns the shares in buys and in sells, each `distance` price ticks behind its best price.
    fn depth(&self, distance: i32) -> [u64; 2];

    /// Returns the fee of an order that takes liquidity, as a fraction of the money traded.
    fn taker_fee(&self) -> f64;

    /// Returns a hash of the whole state. Markets in equal states must have equal hashes.
    fn state_hash(&self) -> u64;

    /// Returns whether cash (fees included) and shares still sum to their amounts at the start.
    fn is_conserved(&self) -> bool;
}
