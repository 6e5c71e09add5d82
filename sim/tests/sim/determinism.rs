//! Equal markets by seed: fresh, reset, cloned, on any thread, beside any silent agent.

use std::{sync::Arc, thread};

use backcast_sim::{
    AccountConfig, Agent, Book, BookEvents, BookFill, Floor, Market, MarketConfig, MemoryVisitor,
    Order, OrderKind, Preset, Removal, Side, SlotConfig, SlotRequest,
};

fn traded(config: &MarketConfig, seed: u64, ticks: u64) -> u64 {
    let mut market = Market::new(config, seed).unwrap();
    market.run(ticks);
    market.state_hash()
}

#[test]
fn fresh_reset_and_cloned_markets_of_one_seed_are_equal() {
    for preset in Preset::ALL {
        let config = preset.config();
        let expected = traded(&config, 7, 2_000);
        assert_ne!(expected, traded(&config, 8, 2_000), "{preset}: seeds do nothing");

        let mut used = Market::new(&config, 99).unwrap();
        used.send(0, 0, SlotRequest::market(Side::Buy, 100)).unwrap();
        used.run(777);
        let mut other = used.clone();
        used.reset(7);
        used.run(2_000);
        assert_eq!(used.state_hash(), expected, "{preset}: reset");

        let mut half = Market::new(&config, 7).unwrap();
        half.run(1_000);
        other.clone_from(&half);
        let mut copy = half.clone();
        for market in [&mut half, &mut other, &mut copy] {
            market.run(1_000);
            assert_eq!(market.state_hash(), expected, "{preset}: clone");
        }
    }
}

#[test]
fn threads_do_not_change_a_market() {
    let config = Arc::new(Preset::Normal.config());
    let alone: Vec<u64> = (0..4).map(|seed| traded(&config, seed, 1_000)).collect();
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let config = Arc::clone(&config);
            thread::spawn(move || traded(&config, seed, 1_000))
        })
        .collect();
    let together: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(alone, together);
}

#[test]
fn a_warm_snapshot_reseeds_into_different_but_repeatable_episodes() {
    let mut warm = Market::new(&Preset::Normal.config(), 1).unwrap();
    warm.run(500);
    let episode = |seed: u64| {
        let mut market = warm.clone();
        market.reseed(seed);
        market.run(500);
        market.check().unwrap();
        market.state_hash()
    };
    assert_eq!(episode(5), episode(5));
    assert_ne!(episode(5), episode(6));
}

/// An agent that looks and never trades.
#[derive(Clone, Debug)]
struct Silent;

impl Agent for Silent {
    fn reset(&mut self) {}

    fn act(&mut self, floor: &mut Floor<'_>) -> u64 {
        let draw = floor.random().below(5);
        assert!(floor.mid(0).is_some());
        u64::from(draw)
    }
}

/// Mid-price, volume and fundamental after each tick.
fn course(market: &mut Market, ticks: u64) -> Vec<(f64, i64, u64)> {
    (0..ticks)
        .map(|_| {
            market.tick();
            (market.mid(0), market.volume(0), market.fundamental(0).to_bits())
        })
        .collect()
}

#[test]
fn a_silent_agent_or_slot_does_not_change_the_draws_of_the_others() {
    let config = Preset::Normal.config();
    let expected = course(&mut Market::new(&config, 3).unwrap(), 3_000);

    let mut more = config.clone();
    more.slots.push(SlotConfig::default());
    assert_eq!(course(&mut Market::new(&more, 3).unwrap(), 3_000), expected, "one more slot");

    let agents = vec![(AccountConfig::default(), Box::new(Silent) as Box<dyn Agent>)];
    let mut watched = Market::with_agents(Arc::new(config.clone()), 3, agents).unwrap();
    assert_eq!(course(&mut watched, 3_000), expected, "one more agent");

    let mut more = config.clone();
    more.symbols = 2;
    // News of all symbols come from a stream of their own.
    assert_eq!(course(&mut Market::new(&more, 3).unwrap(), 3_000), expected, "one more symbol");

    let mut revealed = config;
    revealed.features.reveal_fundamental = Some(0.01);
    assert_eq!(course(&mut Market::new(&revealed, 3).unwrap(), 3_000), expected, "an analyst");
}

/// An agent that buys one share and sells it again.
#[derive(Clone, Debug, Default)]
struct RoundTrip {
    turns: u32,
}

impl Agent for RoundTrip {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn act(&mut self, floor: &mut Floor<'_>) -> u64 {
        self.turns += 1;
        let side = if floor.position(0) > 0 { Side::Sell } else { Side::Buy };
        let price = if side == Side::Buy { i32::MAX } else { 1 };
        // The book may be empty in the first ticks.
        let _placed = floor.submit(0, side, OrderKind::Marketable, price, 1).is_ok();
        10
    }

    fn digest(&self) -> u64 {
        u64::from(self.turns)
    }
}

#[test]
fn user_agents_trade_reset_and_clone_with_their_market() {
    let config = Arc::new(Preset::Normal.config());
    let agents = || vec![(AccountConfig::default(), Box::<RoundTrip>::default() as Box<dyn Agent>)];
    let build = || Market::with_agents(Arc::clone(&config), 6, agents()).unwrap();
    let mut market = build();
    market.run(1_000);
    market.check().unwrap();
    let account = config.slots.len() as u16;
    let paid = AccountConfig::default().cash - market.ledger().cash(account);
    assert!(paid != 0, "the agent never traded");
    let expected = market.state_hash();
    let mut copy = market.clone();
    copy.run(5);
    market.reset(6);
    market.run(1_000);
    assert_eq!(market.state_hash(), expected);
    assert_ne!(copy.state_hash(), expected);
}

/// An agent with a mark that `clone_from` keeps.
#[derive(Debug)]
struct Marked(u64);

impl Clone for Marked {
    fn clone(&self) -> Self {
        Self(self.0)
    }

    fn clone_from(&mut self, _source: &Self) {}
}

impl Agent for Marked {
    fn reset(&mut self) {}

    fn act(&mut self, _floor: &mut Floor<'_>) -> u64 {
        1
    }

    fn digest(&self) -> u64 {
        self.0
    }
}

#[test]
fn a_market_that_becomes_a_copy_calls_clone_from_of_agents_of_the_same_type() {
    let build = |agent: Box<dyn Agent>| {
        let agents = vec![(AccountConfig::default(), agent)];
        Market::with_agents(Arc::new(Preset::Normal.config()), 6, agents).unwrap()
    };
    let source = build(Box::new(Marked(1)));
    let mut own = build(Box::new(Marked(2)));
    let expected = own.state_hash();
    own.clone_from(&source);
    assert_eq!(own.state_hash(), expected, "the agent keeps its mark");
    let mut other = build(Box::new(Silent));
    other.clone_from(&source);
    assert_eq!(other.state_hash(), source.state_hash());
    assert_ne!(other.state_hash(), expected);
}

/// Counts the fills that a book reports.
#[derive(Default)]
struct Counted {
    fills: u64,
}

impl BookEvents for Counted {
    fn traded(&mut self, _fill: BookFill) {
        self.fills += 1;
    }

    fn removed(&mut self, _order: &Order, _why: Removal) {}
}

#[test]
fn a_book_that_repeats_the_log_of_a_market_ends_equal() {
    let config = Preset::Stressed.config();
    let mut market = Market::new(&config, 6).unwrap();
    market.log_book(0);
    market.reset(6);
    market.run(20_000);
    let mut book = Book::new(config.book_levels, config.book_orders, config.initial_price);
    let mut counted = Counted::default();
    for op in market.book_log(0) {
        book.apply(*op, &mut counted);
    }
    let orders = |book: &Book| {
        let mut orders = Vec::new();
        for side in [Side::Buy, Side::Sell] {
            book.for_each_order(side, |slot, order| orders.push((slot, *order)));
        }
        orders
    };
    assert!(counted.fills > 20_000 && !orders(&book).is_empty());
    assert_eq!(orders(&book), orders(market.book(0)));
    assert_eq!(
        (book.next_id(), book.window()),
        (market.book(0).next_id(), market.book(0).window())
    );
    let copy = market.clone();
    assert!(copy.book_log(0).is_empty() && copy.state_hash() == market.state_hash());
}

/// Sums the sizes of what it visits.
struct Bytes(usize);

impl MemoryVisitor for Bytes {
    fn visit<V>(&mut self, memory: &[V]) {
        self.0 += size_of_val(memory);
    }
}

#[test]
fn a_market_whose_memory_is_read_ahead_stays_equal() {
    for symbols in [1, 2] {
        let config = MarketConfig { symbols, ..Preset::Normal.config() };
        let [mut plain, mut ahead] = [(); 2].map(|()| Market::new(&config, 8).unwrap());
        // Nothing rests in the first ticks, and the window moves in later ones.
        for _ in 0..3_000 {
            let mut parts = Bytes(0);
            ahead.visit_parts(&mut parts);
            ahead.read_ahead();
            assert!((1_000..16_384).contains(&(parts.0 / usize::from(symbols))), "{}", parts.0);
            plain.tick();
            ahead.tick();
        }
        assert_eq!(plain.state_hash(), ahead.state_hash());
    }
}
