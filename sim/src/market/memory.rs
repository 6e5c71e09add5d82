//! Memory that the next tick of a market reads, for callers that step many markets in turn.
//!
//! A market that was not stepped for a while is not in the caches, and a tick would wait for about
//! a hundred cache lines, one after the other. Two calls load them in advance:
//! [`Market::visit_parts`] while an earlier market is stepped, then [`Market::read_ahead`].

use std::hint::black_box;

use super::{Market, symbol::SymbolModel};
use crate::venue::Venue;

/// Receiver of memory that the next tick reads.
pub trait MemoryVisitor {
    /// Takes one contiguous part of the memory.
    fn visit<V>(&mut self, memory: &[V]);
}

impl Market {
    /// Visits the fixed parts of the market, which point to the rest. Reads the market itself only.
    #[inline]
    pub fn visit_parts(&self, visitor: &mut impl MemoryVisitor) {
        visitor.visit(&self.venues);
        visitor.visit(&self.models);
        visitor.visit(&self.slots);
    }

    /// Reads one number of each cache line of agents, their schedule, accounts, orders, and the
    /// price levels near the mid-price. O(accounts + orders).
    ///
    /// The loads are independent, so that the processor overlaps them. Prefetches would be dropped,
    /// since there are more cache lines than a core can have in flight.
    #[inline]
    pub fn read_ahead(&self) {
        black_box(self.ledger.read_ahead());
        for (Venue { book, tape, .. }, model) in self.venues.iter().zip(&self.models) {
            let SymbolModel { agents, wheel, .. } = model;
            black_box(agents.read_ahead() ^ wheel.read_ahead());
            black_box(book.read_ahead(tape.mid2 / 2));
        }
    }
}
