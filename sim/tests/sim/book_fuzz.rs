//! The book against a naive one: a list of orders, searched from end to end.

use backcast_budget::budget_or;
use backcast_sim::{
    Book, BookEvents, BookFill, BookReject, NewOrder, Order, OrderKind, RandomStream, Removal,
    Side, StreamRole,
};

const LEVELS: i32 = 128;
const ROOM: usize = 48;
const OWNERS: u32 = 5;

/// Reports of a book, without the details of its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Traded { price: i32, quantity: i32, maker: u16, taker: u16, maker_id: u32, left: i32 },
    Removed { id: u32, quantity: i32, why: Removal },
}

#[derive(Default)]
struct Log(Vec<Event>);

impl BookEvents for Log {
    fn traded(&mut self, fill: BookFill) {
        let BookFill { price, quantity, maker, taker, maker_id, maker_left: left, .. } = fill;
        self.0.push(Event::Traded { price, quantity, maker, taker, maker_id, left });
    }

    fn removed(&mut self, order: &Order, why: Removal) {
        self.0.push(Event::Removed { id: order.id, quantity: order.quantity, why });
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    id: u32,
    owner: u16,
    side: Side,
    price: i32,
    quantity: i32,
}

/// The specification: orders in the sequence of their arrival.
struct Naive {
    base: i32,
    orders: Vec<Open>,
    next_id: u32,
    log: Log,
}

impl Naive {
    fn best(&self, side: Side) -> Option<Open> {
        let of_side = self.orders.iter().copied().filter(|order| order.side == side);
        // At equal prices, the order that arrived first.
        of_side.min_by_key(|order| (-order.price * side.sign(), order.id))
    }

    fn crosses(&self, side: Side, price: i32) -> bool {
        let best = self.best(side.opposite());
        best.is_some_and(|best| (price - best.price) * side.sign() >= 0)
    }

    fn submit(&mut self, new: NewOrder) -> Result<(i32, i32), BookReject> {
        let rests = new.kind != OrderKind::Marketable;
        if new.quantity <= 0 {
            return Err(BookReject::NoQuantity);
        }
        if rests && self.orders.len() == ROOM {
            return Err(BookReject::Full);
        }
        if rests && !(self.base..self.base + LEVELS).contains(&new.price) {
            return Err(BookReject::OutOfWindow);
        }
        if new.kind == OrderKind::PostOnly && self.crosses(new.side, new.price) {
            return Err(BookReject::WouldTrade);
        }
        let id = self.next_id;
        self.next_id += 1;
        let mut left = new.quantity;
        while left > 0 && self.crosses(new.side, new.price) {
            let best = self.best(new.side.opposite()).unwrap();
            let at = self.orders.iter().position(|order| order.id == best.id).unwrap();
            if best.owner == new.owner {
                self.take_out(at, Removal::SelfTrade);
                continue;
            }
            let quantity = left.min(best.quantity);
            left -= quantity;
            self.orders[at].quantity -= quantity;
            self.log.0.push(Event::Traded {
                price: best.price,
                quantity,
                maker: best.owner,
                taker: new.owner,
                maker_id: best.id,
                left: best.quantity - quantity,
            });
            self.orders.retain(|order| order.quantity > 0);
        }
        let filled = new.quantity - left;
        if !rests || left == 0 {
            return Ok((filled, 0));
        }
        let NewOrder { owner, side, price, .. } = new;
        self.orders.push(Open { id, owner, side, price, quantity: left });
        Ok((filled, left))
    }

    fn take_out(&mut self, at: usize, why: Removal) {
        let Open { id, quantity, .. } = self.orders.remove(at);
        self.log.0.push(Event::Removed { id, quantity, why });
    }

    fn cancel(&mut self, id: u32) {
        if let Some(at) = self.orders.iter().position(|order| order.id == id) {
            self.take_out(at, Removal::Cancelled);
        }
    }

    fn recentre(&mut self, centre: i32) -> Vec<u32> {
        self.base = (centre - LEVELS / 2).max(1);
        let window = self.base..self.base + LEVELS;
        let (kept, gone) = self.orders.iter().partition(|order| window.contains(&order.price));
        self.orders = kept;
        let gone: Vec<Open> = gone;
        let mut ids: Vec<u32> = gone.iter().map(|order| order.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Orders of one side in the sequence in which they would trade.
    fn queue(&self, side: Side) -> Vec<(u32, i32, i32)> {
        let mut queue: Vec<Open> =
            self.orders.iter().copied().filter(|order| order.side == side).collect();
        queue.sort_by_key(|order| (-order.price * side.sign(), order.id));
        queue.iter().map(|order| (order.id, order.price, order.quantity)).collect()
    }
}

fn queue(book: &Book, side: Side) -> Vec<(u32, i32, i32)> {
    let mut queue = Vec::new();
    book.for_each_order(side, |_, order| queue.push((order.id, order.price, order.quantity)));
    queue
}

/// Runs `count` random operations on both books and compares every event.
fn compare(seed: u64, count: u64) {
    let mut draw = RandomStream::new(seed, StreamRole::Other, 1);
    let mut centre = 1_000;
    let mut book = Book::new(LEVELS as usize, ROOM, centre);
    let mut naive =
        Naive { base: centre - LEVELS / 2, orders: Vec::new(), next_id: 1, log: Log::default() };
    let mut log = Log::default();
    for step in 0..count {
        log.0.clear();
        naive.log.0.clear();
        match draw.below(100) {
            0..72 => {
                let side = if draw.chance(0.5) { Side::Buy } else { Side::Sell };
                let kind = [OrderKind::Limit, OrderKind::Marketable, OrderKind::PostOnly]
                    [draw.below(3) as usize];
                let spread = if draw.chance(0.02) { 3 * LEVELS } else { 12 };
                let price = centre + draw.below(2 * spread as u32 + 1) as i32 - spread;
                let quantity = draw.below(30) as i32 - i32::from(draw.chance(0.01));
                let new = NewOrder {
                    owner: draw.below(OWNERS) as u16,
                    place: draw.below(8) as u8,
                    side,
                    kind,
                    price,
                    quantity,
                    now: 0,
                };
                let found = book.submit(new, &mut log);
                let expected = naive.submit(new);
                let found = found.map(|outcome| (outcome.filled, outcome.resting));
                assert_eq!(found, expected, "seed {seed} step {step}: {new:?}");
            }
            72..99 => {
                let mut open = Vec::new();
                for side in [Side::Buy, Side::Sell] {
                    book.for_each_order(side, |slot, order| open.push((slot, order.id)));
                }
                if !open.is_empty() {
                    let (slot, id) = open[draw.below(open.len() as u32) as usize];
                    assert!(book.cancel(slot, &mut log));
                    naive.cancel(id);
                }
            }
            _ => {
                centre = (centre + draw.below(61) as i32 - 30).max(LEVELS);
                book.recentre(centre, &mut log);
                let expelled = naive.recentre(centre);
                let mut found: Vec<u32> = log
                    .0
                    .drain(..)
                    .map(|event| match event {
                        Event::Removed { id, why: Removal::OutOfWindow, .. } => id,
                        other => panic!("seed {seed} step {step}: {other:?}"),
                    })
                    .collect();
                found.sort_unstable();
                assert_eq!(found, expelled, "seed {seed} step {step}");
            }
        }
        assert_eq!(log.0, naive.log.0, "seed {seed} step {step}");
        let best = |side| naive.best(side).map(|order| order.price);
        assert_eq!((book.best_bid(), book.best_ask()), (best(Side::Buy), best(Side::Sell)));
        assert_eq!(book.live_orders(), naive.orders.len());
        if step % 64 == 0 {
            for side in [Side::Buy, Side::Sell] {
                assert_eq!(queue(&book, side), naive.queue(side), "seed {seed} step {step}");
                book.for_each_level(side, |price, shares| {
                    let at = naive.orders.iter().filter(|o| o.side == side && o.price == price);
                    assert_eq!(shares, at.map(|order| order.quantity).sum::<i32>());
                    assert_eq!(shares, book.quantity_at(side, price));
                    true
                });
                let all = naive.orders.iter().filter(|order| order.side == side);
                let all: i64 = all.map(|order| i64::from(order.quantity)).sum();
                assert_eq!(book.shares(side), all, "seed {seed} step {step}");
            }
        }
    }
}

/// `BACKCAST_FUZZ_CASES` sets the number of operations; 10 million take under a minute in release.
#[test]
fn a_book_trades_exactly_like_a_list_of_orders() {
    const RUN: u64 = 5_000;
    let operations = budget_or("BACKCAST_FUZZ_CASES", 300_000);
    for seed in 0..operations.div_ceil(RUN) {
        compare(seed, RUN.min(operations));
    }
}
