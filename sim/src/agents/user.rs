//! Agents written by users of the crate.

use std::any::Any;

use crate::{
    book::{OrderKind, Side},
    ledger::{Ledger, OrderReject},
    rng::RandomStream,
    tape::Tape,
    venue::{OrderId, Pit, Placed, Slot, Venue},
};

/// Cloning of boxed agents, implemented for every `Agent + Clone`.
pub trait CloneAgent: Any {
    /// Returns a copy in a box of its own.
    fn clone_boxed(&self) -> Box<dyn Agent>;

    /// Copies `source` into this agent with its `clone_from`. Returns false, and changes nothing,
    /// if `source` is of another type.
    fn copy_from(&mut self, source: &dyn Agent) -> bool;
}

impl<T: Agent + Clone + 'static> CloneAgent for T {
    fn clone_boxed(&self) -> Box<dyn Agent> {
        Box::new(self.clone())
    }

    fn copy_from(&mut self, source: &dyn Agent) -> bool {
        let source: &dyn Any = source;
        let source = source.downcast_ref::<T>();
        source.is_some_and(|source| {
            self.clone_from(source);
            true
        })
    }
}

/// An agent that a user of the crate writes, beside the built-in archetypes.
///
/// A user agent acts in the first tick and then in the ticks that it has chosen, after the orders
/// of slots and before the background agents. User agents act in the order in which they were
/// added.
pub trait Agent: CloneAgent + std::fmt::Debug + Send + Sync {
    /// Resets the agent to its state before the first tick.
    fn reset(&mut self);

    /// Acts, and returns the ticks until the next call; 0 counts as 1.
    fn act(&mut self, floor: &mut Floor<'_>) -> u64;

    /// Returns a hash of the agent's own state, for
    /// [`Market::state_hash`](crate::Market::state_hash).
    fn digest(&self) -> u64 {
        0
    }
}

impl Clone for Box<dyn Agent> {
    fn clone(&self) -> Self {
        // `self.clone_boxed()` would call the implementation for the box itself.
        (**self).clone_boxed()
    }

    fn clone_from(&mut self, source: &Self) {
        if !(**self).copy_from(&**source) {
            *self = source.clone();
        }
    }
}

/// Access of a user agent to the market during its turn.
#[derive(Debug)]
pub struct Floor<'a> {
    pub(crate) now: u64,
    pub(crate) account: u16,
    pub(crate) stream: &'a mut RandomStream,
    pub(crate) venues: &'a mut [Venue],
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) slots: &'a mut [Slot],
}

impl Floor<'_> {
    /// Returns the current tick.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Returns the agent's own random stream.
    pub const fn random(&mut self) -> &mut RandomStream {
        self.stream
    }

    /// Returns the number of symbols.
    #[must_use]
    pub const fn symbols(&self) -> u16 {
        self.venues.len() as u16
    }

    fn venue(&self, symbol: u16) -> Result<&Venue, OrderReject> {
        self.venues.get(usize::from(symbol)).ok_or(unknown(symbol, self.venues.len()))
    }

    /// Returns the mid-price at the end of the last tick, in price ticks. It keeps its last value
    /// while a side is empty. Returns `None` for an unknown symbol.
    #[must_use]
    pub fn mid(&self, symbol: u16) -> Option<f64> {
        self.venue(symbol).ok().map(|venue| venue.tape.mid())
    }

    /// Returns the highest bid at this moment, in price ticks. `None` without bids, or for an
    /// unknown symbol.
    #[must_use]
    pub fn best_bid(&self, symbol: u16) -> Option<i32> {
        self.venue(symbol).ok()?.book.best_bid()
    }

    /// Returns the lowest ask at this moment, in price ticks. `None` without asks, or for an
    /// unknown symbol.
    #[must_use]
    pub fn best_ask(&self, symbol: u16) -> Option<i32> {
        self.venue(symbol).ok()?.book.best_ask()
    }

    /// Returns the public record of a symbol; `None` for an unknown symbol.
    #[must_use]
    pub fn tape(&self, symbol: u16) -> Option<&Tape> {
        self.venue(symbol).ok().map(|venue| &venue.tape)
    }

    /// Returns the agent's position in shares; 0 for an unknown symbol.
    #[must_use]
    pub fn position(&self, symbol: u16) -> i32 {
        if usize::from(symbol) < self.venues.len() {
            self.ledger.position(self.account, symbol)
        } else {
            0
        }
    }

    /// Returns the agent's cash in cash units.
    #[must_use]
    pub fn cash(&self) -> i64 {
        self.ledger.cash(self.account)
    }

    /// Submits an order, which enters the book or the auction before the call returns.
    ///
    /// # Errors
    /// [`OrderReject`], before anything changes.
    pub fn submit(
        &mut self,
        symbol: u16,
        side: Side,
        kind: OrderKind,
        price: i32,
        quantity: i32,
    ) -> Result<Placed, OrderReject> {
        let account = self.account;
        self.pit(symbol)?.submit(account, side, kind, price, quantity)
    }

    /// Cancels one of the agent's own orders. Returns false if `order` is not an open order of the
    /// agent.
    ///
    /// # Errors
    /// [`OrderReject::Unknown`] for an unknown symbol.
    pub fn cancel(&mut self, order: OrderId) -> Result<bool, OrderReject> {
        let account = self.account;
        Ok(self.pit(order.symbol)?.cancel_id(account, order))
    }

    /// Cancels all of the agent's orders in one symbol.
    ///
    /// # Errors
    /// [`OrderReject::Unknown`] for an unknown symbol.
    pub fn cancel_all(&mut self, symbol: u16) -> Result<(), OrderReject> {
        let account = self.account;
        self.pit(symbol)?.cancel_all(account);
        Ok(())
    }

    fn pit(&mut self, symbol: u16) -> Result<Pit<'_>, OrderReject> {
        let count = self.venues.len();
        let venue = self.venues.get_mut(usize::from(symbol)).ok_or(unknown(symbol, count))?;
        Ok(venue.pit(symbol, self.now, self.ledger, self.slots))
    }
}

fn unknown(symbol: u16, count: usize) -> OrderReject {
    OrderReject::Unknown { what: "symbol", index: u64::from(symbol), count: count as u64 }
}
