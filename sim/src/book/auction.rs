//! Call auction: one uniform price for all orders of a tick.
//!
//! The price maximises the volume. Ties go to the smallest imbalance, then to the price nearest the
//! reference, then to the lower price. [`AuctionRule`] says how the side with more shares is
//! rationed. Orders get whole shares; fractions go to the orders with the largest remainders.

use super::{NewOrder, Side};

/// Rationing of a call auction on the side that has more shares than trade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum AuctionRule {
    /// Better prices first, pro rata among equals. The default.
    #[default]
    PricePriority,
    /// Pro rata among all orders that the price satisfies.
    ProRata,
}

/// Orders that wait for a call auction.
#[derive(Debug)]
pub struct CallAuction {
    orders: Vec<NewOrder>,
    /// Maximum number of orders.
    room: usize,
    filled: Vec<i32>,
    /// Number of orders that came before each.
    arrivals: Vec<u32>,
    arrived: u32,
    /// Working space of `clear`: order numbers, sorted by price.
    sorted: Vec<u32>,
    /// Working space of the proportional fill: remainder and order number.
    remainders: Vec<(i64, u32)>,
    rule: AuctionRule,
}

impl Clone for CallAuction {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.room, self.rule);
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        let Self { orders, room, filled, arrivals, arrived, sorted: _, remainders: _, rule } =
            source;
        self.room = *room;
        self.orders.clone_from(orders);
        self.filled.clone_from(filled);
        self.arrivals.clone_from(arrivals);
        self.arrived = *arrived;
        self.rule = *rule;
    }
}

/// Result of one auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleared {
    /// Price in ticks.
    pub price: i32,
    /// Shares traded.
    pub volume: i64,
    /// Shares bid at or above the price minus shares offered at or below it.
    pub imbalance: i64,
}

impl CallAuction {
    /// Creates an auction for at most `room` orders; nothing is allocated afterwards.
    #[must_use]
    pub fn new(room: usize, rule: AuctionRule) -> Self {
        Self {
            orders: Vec::with_capacity(room),
            room,
            filled: Vec::with_capacity(room),
            arrivals: Vec::with_capacity(room),
            arrived: 0,
            sorted: Vec::with_capacity(room),
            remainders: Vec::with_capacity(room),
            rule,
        }
    }

    /// Adds an order and returns its number: a new one, or if there is no room for more, that of a
    /// withdrawn order of an earlier tick. Returns `None` if there is neither, or for an order
    /// without shares.
    ///
    /// So number and tick together identify an order.
    pub fn push(&mut self, order: NewOrder) -> Option<u16> {
        if order.quantity <= 0 {
            return None;
        }
        let number = if self.orders.len() < self.room {
            self.orders.push(order);
            self.filled.push(0);
            self.arrivals.push(0);
            self.orders.len() - 1
        } else {
            let free = |old: &NewOrder| old.quantity == 0 && old.now != order.now;
            let withdrawn = self.orders.iter().position(free)?;
            self.orders[withdrawn] = order;
            withdrawn
        };
        self.arrivals[number] = self.arrived;
        self.arrived += 1;
        Some(number as u16)
    }

    /// Returns order `number`, or `None` if it is unknown or withdrawn.
    #[must_use]
    pub fn order(&self, number: u16) -> Option<&NewOrder> {
        self.orders.get(usize::from(number)).filter(|order| order.quantity > 0)
    }

    /// Withdraws order `number` and returns it. Returns `None` if it is unknown or
    /// was withdrawn before.
    pub fn withdraw(&mut self, number: u16) -> Option<NewOrder> {
        let order = self.orders.get_mut(usize::from(number)).filter(|order| order.quantity > 0)?;
        let old = *order;
        order.quantity = 0;
        Some(old)
    }

    /// Drops all orders.
    pub fn clear_orders(&mut self) {
        self.orders.clear();
        self.filled.clear();
        self.arrivals.clear();
        self.arrived = 0;
    }

    /// Returns the orders that were not withdrawn, each with its number and the shares that the
    /// last auction gave it.
    pub fn results(&self) -> impl Iterator<Item = (u16, &NewOrder, i32)> {
        self.orders
            .iter()
            .zip(&self.filled)
            .enumerate()
            .filter(|(_, (order, _))| order.quantity > 0)
            .map(|(number, (order, filled))| (number as u16, order, *filled))
    }

    /// Passes the orders that wait to `word`.
    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        for (number, order, _) in self.results() {
            word(u64::from(number) << 32 | u64::from(order.now));
            word((order.price as u64) << 32 | order.quantity as u64);
            word(u64::from(order.owner) << 16 | u64::from(order.place) << 8 | order.side as u64);
            word(u64::from(self.arrivals[usize::from(number)]));
        }
    }

    /// Finds the price and fills the orders. Returns `None` if no bid meets an offer. `reference`
    /// is a price in ticks that breaks ties.
    ///
    /// `O(n log n)` in the orders.
    pub fn clear(&mut self, reference: i32) -> Option<Cleared> {
        self.filled.fill(0);
        let cleared = self.price(reference)?;
        for side in [Side::Buy, Side::Sell] {
            self.fill(side, cleared);
        }
        Some(cleared)
    }

    fn price(&mut self, reference: i32) -> Option<Cleared> {
        let Self { orders, sorted, .. } = self;
        sorted.clear();
        sorted.extend((0..orders.len() as u32).filter(|at| orders[*at as usize].quantity > 0));
        sorted.sort_unstable_by_key(|at| (orders[*at as usize].price, *at));
        let sum = |side: Side| -> i64 {
            let of_side = orders.iter().filter(|order| order.side == side && order.quantity > 0);
            of_side.map(|order| i64::from(order.quantity)).sum()
        };
        // Walks up the limit prices. The offers at a price join the supply at that price. The bids
        // at a price leave the demand above it.
        let (mut demand, mut supply) = (sum(Side::Buy), 0_i64);
        let mut best: Option<Cleared> = None;
        let mut consider = |price: i32, demand: i64, supply: i64| {
            let volume = demand.min(supply);
            if volume == 0 {
                return;
            }
            let imbalance = demand - supply;
            let better = best.is_none_or(|old: Cleared| {
                let distance = |price: i32| i64::from(price).abs_diff(i64::from(reference));
                let rank = |volume: i64, imbalance: i64, price: i32| {
                    (-volume, imbalance.abs(), distance(price), price)
                };
                rank(volume, imbalance, price) < rank(old.volume, old.imbalance, old.price)
            });
            if better {
                best = Some(Cleared { price, volume, imbalance });
            }
        };
        let mut at = 0;
        let mut previous: Option<i32> = None;
        while at < sorted.len() {
            let price = orders[sorted[at] as usize].price;
            // Between two limit prices the volume is constant, so the price nearest the reference
            // represents them all.
            if let Some(low) = previous.filter(|low| i64::from(price) - i64::from(*low) > 1) {
                consider(reference.clamp(low + 1, price - 1), demand, supply);
            }
            let end = at
                + sorted[at..].iter().take_while(|o| orders[**o as usize].price == price).count();
            let mut leaving = 0;
            for order in &sorted[at..end] {
                let order = &orders[*order as usize];
                match order.side {
                    Side::Buy => leaving += i64::from(order.quantity),
                    Side::Sell => supply += i64::from(order.quantity),
                }
            }
            consider(price, demand, supply);
            demand -= leaving;
            previous = Some(price);
            at = end;
        }
        best
    }

    /// Gives `cleared.volume` shares to the orders of one side.
    fn fill(&mut self, side: Side, cleared: Cleared) {
        let Self { orders, filled, arrivals, sorted, remainders, rule, .. } = self;
        sorted.clear();
        sorted.extend((0..orders.len() as u32).filter(|at| {
            let order = &orders[*at as usize];
            let satisfied = match side {
                Side::Buy => order.price >= cleared.price,
                Side::Sell => order.price <= cleared.price,
            };
            order.side == side && order.quantity > 0 && satisfied
        }));
        let urgency = |at: &u32| -i64::from(side.sign()) * i64::from(orders[*at as usize].price);
        let arrival = |at: &u32| arrivals[*at as usize];
        sorted.sort_unstable_by_key(|at| (urgency(at), arrival(at)));
        let mut left = cleared.volume;
        let mut at = 0;
        while at < sorted.len() && left > 0 {
            let group = match rule {
                AuctionRule::ProRata => sorted.len(),
                AuctionRule::PricePriority => {
                    let first = urgency(&sorted[at]);
                    at + sorted[at..].iter().take_while(|o| urgency(o) == first).count()
                }
            };
            let quantity = |at: &u32| i64::from(orders[*at as usize].quantity);
            let total: i64 = sorted[at..group].iter().map(quantity).sum();
            let give = left.min(total);
            let mut rest = give;
            remainders.clear();
            for order in &sorted[at..group] {
                let product = i128::from(quantity(order)) * i128::from(give);
                let share = (product / i128::from(total)) as i64;
                filled[*order as usize] = share as i32;
                rest -= share;
                remainders.push(((product % i128::from(total)) as i64, *order));
            }
            // The largest remainders come first; among equals, the earlier order.
            remainders.sort_unstable_by_key(|(remainder, order)| (-remainder, arrival(order)));
            for (_, order) in remainders.iter().take(rest as usize) {
                filled[*order as usize] += 1;
            }
            left -= give;
            at = group;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::OrderKind;

    /// Name, orders, price and volume, shares of each order.
    type Case<'a> = (&'a str, &'a [(Side, i32, i32)], Option<(i32, i64)>, &'a [i32]);

    fn auction(orders: &[(Side, i32, i32)], rule: AuctionRule) -> CallAuction {
        let mut auction = CallAuction::new(64, rule);
        for (owner, (side, price, quantity)) in orders.iter().enumerate() {
            let order = NewOrder {
                owner: owner as u16,
                place: 0,
                side: *side,
                kind: OrderKind::Limit,
                price: *price,
                quantity: *quantity,
                now: 0,
            };
            assert!(auction.push(order).is_some());
        }
        auction
    }

    fn fills(auction: &CallAuction) -> Vec<i32> {
        auction.results().map(|(_, _, filled)| filled).collect()
    }

    #[test]
    fn auctions_whose_waiting_order_differs_in_anything_have_different_digests() {
        let plain = NewOrder {
            owner: 3,
            place: 1,
            side: Side::Buy,
            kind: OrderKind::Limit,
            price: 100,
            quantity: 5,
            now: 8,
        };
        // `order` takes number 0 or 1 of an auction that has room for two, after others that are
        // withdrawn.
        let digest = |number: u16, more: usize, order: NewOrder| {
            let mut auction = CallAuction::new(2, AuctionRule::default());
            (0..2).for_each(|_| assert!(auction.push(NewOrder { now: 1, ..plain }).is_some()));
            for tick in 0..more as u32 {
                auction.withdraw(0);
                assert_eq!(auction.push(NewOrder { now: 2 + tick, ..plain }), Some(0));
            }
            auction.withdraw(number);
            assert_eq!(auction.push(order), Some(number));
            auction.withdraw(1 - number);
            let mut words = Vec::new();
            auction.digest(|word| words.push(word));
            words
        };
        let found = [
            ("nothing", digest(0, 0, plain)),
            ("number", digest(1, 0, plain)),
            ("arrival", digest(0, 1, plain)),
            ("owner", digest(0, 0, NewOrder { owner: 4, ..plain })),
            ("place", digest(0, 0, NewOrder { place: 2, ..plain })),
            ("side", digest(0, 0, NewOrder { side: Side::Sell, ..plain })),
            ("price", digest(0, 0, NewOrder { price: 101, ..plain })),
            ("quantity", digest(0, 0, NewOrder { quantity: 6, ..plain })),
            ("tick", digest(0, 0, NewOrder { now: 9, ..plain })),
        ];
        assert_eq!(found[0].1, digest(0, 0, plain));
        for (at, (one, words)) in found.iter().enumerate() {
            for (other, others) in &found[at + 1..] {
                assert_ne!(words, others, "{one} and {other}");
            }
        }
    }

    #[test]
    fn an_auction_trades_the_most_shares_at_one_price() {
        use Side::{Buy, Sell};
        let cases: [Case; 5] = [
            ("no cross", &[(Buy, 99, 5), (Sell, 101, 5)], None, &[0, 0]),
            (
                "one pair, gap to the reference",
                &[(Buy, 110, 5), (Sell, 90, 5)],
                Some((100, 5)),
                &[5, 5],
            ),
            (
                "better prices first",
                &[(Buy, 102, 10), (Buy, 101, 10), (Sell, 100, 12)],
                // At 100 and at 101, 12 shares trade and 8 bids are left over. At 102 only 10
                // trade.
                Some((100, 12)),
                &[10, 2, 12],
            ),
            (
                "equals share by largest remainder",
                &[(Buy, 100, 5), (Buy, 100, 3), (Buy, 100, 2), (Sell, 100, 4)],
                Some((100, 4)),
                &[2, 1, 1, 4],
            ),
            (
                "the smallest imbalance wins a tie",
                &[(Buy, 105, 10), (Buy, 103, 4), (Sell, 100, 10)],
                Some((104, 10)),
                &[10, 0, 10],
            ),
        ];
        for (name, orders, expected, filled) in cases {
            let mut auction = auction(orders, AuctionRule::PricePriority);
            let cleared = auction.clear(100).map(|cleared| (cleared.price, cleared.volume));
            assert_eq!(cleared, expected, "{name}");
            assert_eq!(fills(&auction), filled, "{name}");
        }
    }

    #[test]
    fn a_full_auction_uses_numbers_of_withdrawn_orders_again_but_not_in_their_own_tick() {
        let order = |owner: u16, now: u32| NewOrder {
            owner,
            place: 0,
            side: Side::Buy,
            kind: OrderKind::Limit,
            price: 100,
            quantity: 5,
            now,
        };
        let mut auction = CallAuction::new(8, AuctionRule::PricePriority);
        assert!((0..8).all(|owner| auction.push(order(owner, 1)) == Some(owner)));
        assert_eq!(auction.push(order(8, 1)), None, "full");
        assert!(auction.withdraw(3).is_some());
        assert_eq!(auction.push(order(8, 1)), None, "number 3 and tick 1 name another order");
        assert_eq!(auction.push(order(8, 2)), Some(3));
        assert_eq!(auction.order(3).map(|order| order.owner), Some(8));
    }

    #[test]
    fn pro_rata_ignores_price_among_satisfied_orders() {
        let orders = [(Side::Buy, 110, 30), (Side::Buy, 101, 10), (Side::Sell, 100, 35)];
        let mut auction = auction(&orders, AuctionRule::ProRata);
        auction.clear(100);
        assert_eq!(fills(&auction), [26, 9, 35]);
    }

    #[test]
    fn both_sides_of_every_random_auction_trade_the_same_and_no_price_trades_more() {
        let mut stream = crate::rng::RandomStream::new(5, crate::rng::StreamRole::Other, 0);
        for _ in 0..2_000 {
            let orders: Vec<(Side, i32, i32)> = (0..=stream.below(20))
                .map(|_| {
                    let side = if stream.chance(0.5) { Side::Buy } else { Side::Sell };
                    (side, 90 + stream.below(20) as i32, 1 + stream.below(50) as i32)
                })
                .collect();
            let volume = |price: i32| {
                let sum = |wanted: Side| -> i64 {
                    orders
                        .iter()
                        .filter(|(side, limit, _)| {
                            *side == wanted && (price - limit) * side.sign() <= 0
                        })
                        .map(|(_, _, quantity)| i64::from(*quantity))
                        .sum()
                };
                sum(Side::Buy).min(sum(Side::Sell))
            };
            let most = (80..120).map(volume).max().unwrap_or(0);
            for rule in [AuctionRule::PricePriority, AuctionRule::ProRata] {
                let mut auction = auction(&orders, rule);
                let cleared = auction.clear(100);
                assert_eq!(cleared.map_or(0, |cleared| cleared.volume), most);
                for side in [Side::Buy, Side::Sell] {
                    let sum: i64 = auction
                        .results()
                        .filter(|(_, order, _)| order.side == side)
                        .map(|(_, order, filled)| {
                            assert!((0..=order.quantity).contains(&filled));
                            i64::from(filled)
                        })
                        .sum();
                    assert_eq!(sum, most);
                }
            }
        }
    }
}
