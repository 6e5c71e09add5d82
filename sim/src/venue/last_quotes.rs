//! Orders that a book held before the end of a session cancelled them.

use crate::book::{Book, Side};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quote {
    side: Side,
    price: i32,
    shares: i32,
    owner: u16,
}

/// Orders of the book when a session last emptied it. They say what positions bring until the book
/// has orders again.
#[derive(Debug)]
pub(crate) struct LastQuotes {
    room: usize,
    /// Twice the mid-price at that time.
    mid2: i32,
    quotes: Vec<Quote>,
}

impl Clone for LastQuotes {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.room);
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        let Self { room, mid2, quotes } = source;
        (self.room, self.mid2) = (*room, *mid2);
        self.quotes.clone_from(quotes);
    }
}

impl LastQuotes {
    /// Allocates memory for a book of `room` orders.
    pub(super) fn new(room: usize) -> Self {
        Self { room, mid2: 0, quotes: Vec::with_capacity(room) }
    }

    pub(super) fn clear(&mut self) {
        self.quotes.clear();
    }

    /// Keeps the orders of a book that is about to be emptied.
    pub(super) fn keep(&mut self, book: &Book, mid2: i32) {
        let Self { quotes, .. } = self;
        quotes.clear();
        self.mid2 = mid2;
        for side in [Side::Buy, Side::Sell] {
            book.for_each_order(side, |_, order| {
                let (price, shares, owner) = (order.price, order.quantity, order.owner);
                quotes.push(Quote { side, price, shares, owner });
            });
        }
    }

    /// Returns twice the price, and the shares of all but `account`, of the levels of one side, the
    /// best first. Prices moved with the mid-price since, and are at least half a tick.
    pub(crate) fn levels(
        &self,
        side: Side,
        account: u16,
        mid2: i32,
    ) -> impl Iterator<Item = (i64, i32)> {
        let moved = i64::from(mid2) - i64::from(self.mid2);
        let same = |a: &Quote, b: &Quote| (a.side, a.price) == (b.side, b.price);
        let levels = self.quotes.chunk_by(same).filter(move |level| level[0].side == side);
        levels.map(move |level| {
            let others = level.iter().filter(|quote| quote.owner != account);
            let twice = (2 * i64::from(level[0].price) + moved).max(1);
            (twice, others.map(|quote| quote.shares).sum())
        })
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        for Quote { side, price, shares, owner } in &self.quotes {
            word((*price as u64) << 32 | u64::from(*owner) << 1 | u64::from(*side == Side::Buy));
            word((*shares as u64) << 32 ^ self.mid2 as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> LastQuotes {
        let quote = |side, price, shares, owner| Quote { side, price, shares, owner };
        let quotes = vec![
            quote(Side::Buy, 99, 5, 1),
            quote(Side::Buy, 99, 7, 0),
            quote(Side::Buy, 98, 2, 0),
            quote(Side::Sell, 101, 4, 2),
        ];
        LastQuotes { room: 8, mid2: 200, quotes }
    }

    fn levels(quotes: &LastQuotes, side: Side, account: u16, mid2: i32) -> Vec<(i64, i32)> {
        quotes.levels(side, account, mid2).collect()
    }

    #[test]
    fn levels_move_with_the_mid_price_and_leave_out_the_account() {
        let quotes = kept();
        assert_eq!(levels(&quotes, Side::Buy, 9, 200), [(198, 12), (196, 2)]);
        assert_eq!(levels(&quotes, Side::Buy, 1, 203), [(201, 7), (199, 2)]);
        assert_eq!(levels(&quotes, Side::Buy, 0, 200), [(198, 5), (196, 0)]);
        assert_eq!(levels(&quotes, Side::Sell, 0, 190), [(192, 4)]);
        assert_eq!(levels(&quotes, Side::Sell, 0, -9), [(1, 4)]);
    }

    #[test]
    fn copies_have_the_quotes_and_their_room() {
        let mut copy = LastQuotes::new(0);
        copy.clone_from(&kept());
        for copy in [copy.clone(), copy] {
            assert_eq!(levels(&copy, Side::Buy, 1, 203), [(201, 7), (199, 2)]);
            assert_eq!(copy.room, 8);
        }
    }
}
