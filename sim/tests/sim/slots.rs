//! Orders from outside: latency, fills, limits, profit.

use backcast_sim::{
    CASH_PER_TICK, FeeSchedule, Limits, Market, MarketConfig, OrderKind, OrderReject, Preset, Side,
    SlotRequest,
};

fn market(config: &MarketConfig) -> Market {
    let mut market = Market::new(config, 21).unwrap();
    market.run(300);
    market
}

#[test]
fn an_order_arrives_after_its_latency_and_not_before() {
    for latency in [0, 1, 5] {
        let mut config = Preset::Normal.config();
        config.slots[0].latency_ticks = latency;
        let mut market = market(&config);
        let number = market.send(0, 0, SlotRequest::market(Side::Buy, 3)).unwrap();
        for _ in 0..latency {
            market.tick();
            assert_eq!(market.position(0, 0), Ok(0));
            assert_eq!(market.in_flight(0), Ok(1));
        }
        market.tick();
        assert_eq!(market.position(0, 0), Ok(3), "latency {latency}");
        let report = market.reports(0).unwrap()[0];
        assert_eq!((report.number, report.result.map(|placed| placed.filled)), (number, Ok(3)));
        market.tick();
        assert!(market.reports(0).unwrap().is_empty() && market.fills(0).unwrap().is_empty());
    }
}

#[test]
fn markets_whose_request_on_its_way_differs_in_anything_have_different_hashes() {
    let mut config = Preset::Normal.config();
    config.symbols = 2;
    config.slots[0].latency_ticks = 5;
    let mut market = market(&config);
    let resting = |market: &mut Market, symbol| {
        let price = market.best_bid(symbol).unwrap() - 200;
        market.send(0, symbol, SlotRequest::limit(Side::Buy, price, 1)).unwrap();
        market.run(6);
        market.reports(0).unwrap()[0].result.unwrap().resting.unwrap()
    };
    let orders = [resting(&mut market, 0), resting(&mut market, 0), resting(&mut market, 1)];
    let order = |side, kind, price, quantity| SlotRequest::Submit { side, kind, price, quantity };
    let plain = order(Side::Buy, OrderKind::Limit, 9_000, 2);
    let sent = [
        ("nothing", 0, plain),
        ("symbol", 1, plain),
        ("side", 0, order(Side::Sell, OrderKind::Limit, 9_000, 2)),
        ("kind", 0, order(Side::Buy, OrderKind::Marketable, 9_000, 2)),
        ("another kind", 0, order(Side::Buy, OrderKind::PostOnly, 9_000, 2)),
        ("price", 0, order(Side::Buy, OrderKind::Limit, 9_001, 2)),
        ("quantity", 0, order(Side::Buy, OrderKind::Limit, 9_000, 3)),
        ("cancel", 0, SlotRequest::Cancel(orders[0])),
        ("another cancel", 0, SlotRequest::Cancel(orders[1])),
        ("cancel in another symbol", 0, SlotRequest::Cancel(orders[2])),
        ("cancel of a number", 0, SlotRequest::CancelNumber(0)),
        ("cancel of another number", 0, SlotRequest::CancelNumber(1)),
        ("cancel of all", 0, SlotRequest::CancelAll),
    ];
    let hash = |symbol, request| {
        let mut copy = market.clone();
        copy.send(0, symbol, request).unwrap();
        copy.state_hash()
    };
    let found = sent.map(|(name, symbol, request)| (name, hash(symbol, request)));
    assert_eq!(found[0].1, hash(0, plain));
    for (at, (one, hash)) in found.iter().enumerate() {
        for (other, others) in &found[at + 1..] {
            assert_ne!(hash, others, "{one} and {other}");
        }
    }
}

#[test]
fn a_buy_without_latency_is_the_first_of_its_tick_and_pays_the_shown_ask() {
    let mut market = market(&Preset::Normal.config());
    let ask = market.best_ask(0).unwrap();
    market.send(0, 0, SlotRequest::market(Side::Buy, 1)).unwrap();
    market.tick();
    let fill = market.fills(0).unwrap()[0];
    assert_eq!((fill.price, fill.quantity, fill.maker), (ask, 1, false));
    let notional = i64::from(ask) * CASH_PER_TICK;
    let fee = notional * i64::from(market.config().fees.taker_ppm) / 1_000_000;
    assert_eq!(fill.fee, fee);
    let start = market.config().slots[0].account.cash;
    assert_eq!(market.cash(0), Ok(start - notional - fee));
    assert_eq!(market.cost(0, 0), Ok(notional));
}

#[test]
fn equity_is_cash_plus_the_position_at_mid_and_splits_into_profit_and_fees() {
    let mut market = market(&Preset::Stressed.config());
    let start = market.initial_equity(0).unwrap();
    for step in 0..400 {
        let side = if step / 20 % 2 == 0 { Side::Buy } else { Side::Sell };
        market.send(0, 0, SlotRequest::market(side, 7 + step % 5)).unwrap();
        market.tick();
        let position = i64::from(market.position(0, 0).unwrap());
        let value = position * (market.mid(0) * 2.0) as i64 * (CASH_PER_TICK / 2);
        let equity = market.equity(0).unwrap();
        assert_eq!(equity, market.cash(0).unwrap() + value);
        // The difference is what short positions paid for borrowing.
        let unrealised = value - market.cost(0, 0).unwrap() * position.signum();
        let totals = market.totals(0).unwrap();
        let parts = market.realised(0).unwrap() + unrealised - totals.fees;
        let borrowing = parts - (equity - start);
        assert!((0..=market.ledger().borrowing_taken()).contains(&borrowing), "{borrowing}");
        assert_eq!(totals.bought - totals.sold, position);
    }
}

#[test]
fn limits_are_checked_on_arrival_with_open_orders_counted() {
    let mut config = Preset::Normal.config();
    config.slots[0].account.limits.long = 20;
    config.slots[0].account.limits.short = 10;
    let mut market = market(&config);
    let far_bid = market.best_bid(0).unwrap() - 300;
    let far_ask = market.best_ask(0).unwrap() + 300;
    let cases = [
        (SlotRequest::limit(Side::Buy, far_bid, 15), None),
        (
            SlotRequest::limit(Side::Buy, far_bid, 6),
            Some(OrderReject::LongLimit { position: 21, limit: 20 }),
        ),
        (SlotRequest::limit(Side::Sell, far_ask, 10), None),
        (
            SlotRequest::limit(Side::Sell, far_ask, 1),
            Some(OrderReject::ShortLimit { short: 11, limit: 10 }),
        ),
        (
            SlotRequest::Submit {
                side: Side::Buy,
                kind: OrderKind::PostOnly,
                price: far_ask - 100,
                quantity: 1,
            },
            Some(OrderReject::WouldTrade { price: far_ask - 100 }),
        ),
        (SlotRequest::CancelAll, None),
        (SlotRequest::limit(Side::Buy, far_bid, 20), None),
    ];
    for (request, expected) in cases {
        market.send(0, 0, request).unwrap();
        market.tick();
        let result = market.reports(0).unwrap()[0].result;
        assert_eq!(result.err(), expected, "{request:?}");
        market.check().unwrap();
    }
    assert_eq!(market.totals(0).unwrap().refused, 3);
}

#[test]
fn a_slot_cannot_spend_more_than_its_cash() {
    let mut config = Preset::Normal.config();
    // Enough for nine shares near 100.00, with fees.
    config.slots[0].account.cash = 9_500_000;
    let mut market = market(&config);
    for (quantity, accepted) in [(10, false), (9, true), (1, false)] {
        market.send(0, 0, SlotRequest::market(Side::Buy, quantity)).unwrap();
        market.tick();
        assert_eq!(market.reports(0).unwrap()[0].result.is_ok(), accepted, "{quantity} shares");
    }
    assert!(market.cash(0).unwrap() >= 0);
}

#[test]
fn one_order_can_be_cancelled_by_its_name_and_only_by_its_owner() {
    let mut config = Preset::Normal.config();
    config.slots.push(config.slots[0]);
    let mut market = market(&config);
    let price = market.best_bid(0).unwrap() - 200;
    for quantity in [4, 6] {
        market.send(0, 0, SlotRequest::limit(Side::Buy, price, quantity)).unwrap();
    }
    market.tick();
    let orders: Vec<_> = market
        .reports(0)
        .unwrap()
        .iter()
        .map(|report| report.result.unwrap().resting.unwrap())
        .collect();
    market.send(1, 0, SlotRequest::Cancel(orders[0])).unwrap();
    market.tick();
    assert_eq!(market.ledger().open_shares(0, 0), (10, 0), "a stranger's cancel does nothing");
    market.send(0, 0, SlotRequest::Cancel(orders[0])).unwrap();
    market.send(0, 0, SlotRequest::Cancel(orders[0])).unwrap();
    market.tick();
    assert_eq!(market.ledger().open_shares(0, 0), (6, 0));
    // The second cancel finds nothing.
    let results: Vec<_> =
        market.reports(0).unwrap().iter().map(|report| report.result.is_ok()).collect();
    assert_eq!(results, [true, false]);
    assert_eq!(market.totals(0).unwrap().refused, 1);
    market.check().unwrap();
}

#[test]
fn an_own_order_in_the_way_is_cancelled_instead_of_traded_with() {
    let mut market = market(&Preset::Normal.config());
    // Waits for a spread wide enough for a new best ask inside it.
    while market.best_ask(0).unwrap() - market.best_bid(0).unwrap() == 1 {
        market.tick();
    }
    let price = market.best_ask(0).unwrap() - 1;
    market.send(0, 0, SlotRequest::limit(Side::Sell, price, 5)).unwrap();
    market.send(0, 0, SlotRequest::market(Side::Buy, 500)).unwrap();
    market.tick();
    let fills = market.fills(0).unwrap();
    assert!(fills.iter().all(|fill| !fill.maker && fill.side == Side::Buy), "{fills:?}");
    assert_eq!(market.ledger().open_shares(0, 0).1, 0, "the sell order is gone");
    market.check().unwrap();
}

/// Returns a market with two slots and one agent that hardly ever acts. Each slot has an ask of 10
/// shares: the first at 100.10, the second at 100.20.
fn two_asks(cash: i64, fees: FeeSchedule) -> Market {
    let mut config = Preset::Normal.config();
    let population = &mut config.population;
    population.maker.count = 0;
    population.noise.count = 1;
    population.noise.wait = 1e7;
    population.value.count = 0;
    population.signal.count = 0;
    population.executor.count = 0;
    config.fees = fees;
    config.slots.push(config.slots[0]);
    config.slots[0].account.cash = cash;
    let mut market = Market::new(&config, 1).unwrap();
    market.send(0, 0, SlotRequest::limit(Side::Sell, 10_010, 10)).unwrap();
    market.send(1, 0, SlotRequest::limit(Side::Sell, 10_020, 10)).unwrap();
    market.tick();
    market
}

const FREE: FeeSchedule = FeeSchedule { maker_ppm: 0, taker_ppm: 0, borrow_ppm_per_day: 0 };

#[test]
fn a_market_buy_goes_on_past_an_own_order_as_far_as_a_limit_allows() {
    let limited = SlotRequest::Submit {
        side: Side::Buy,
        kind: OrderKind::Marketable,
        price: 10_020,
        quantity: 10,
    };
    for request in [limited, SlotRequest::market(Side::Buy, 10)] {
        let mut market = two_asks(1_000_000_000, FREE);
        market.send(0, 0, request).unwrap();
        market.tick();
        let fills: Vec<_> =
            market.fills(0).unwrap().iter().map(|fill| (fill.price, fill.quantity)).collect();
        assert_eq!(fills, [(10_020, 10)], "{request:?}");
        assert_eq!(market.ledger().open_shares(0, 0), (0, 0), "the own order is gone");
        market.check().unwrap();
    }
}

#[test]
fn an_immediate_buy_needs_the_cash_of_the_highest_price_at_which_it_trades() {
    let price = 10_020 * 10 * CASH_PER_TICK;
    for (cash, filled) in [(price - 1, None), (price, Some(10))] {
        for limit in [10_020, 10_050, 10_090, i32::MAX] {
            let mut market = two_asks(cash, FREE);
            let (side, kind) = (Side::Buy, OrderKind::Marketable);
            let request = SlotRequest::Submit { side, kind, price: limit, quantity: 10 };
            market.send(0, 0, request).unwrap();
            market.tick();
            let placed = market.reports(0).unwrap()[0].result;
            assert_eq!(placed.ok().map(|placed| placed.filled), filled, "{cash} {limit}");
        }
    }
}

#[test]
fn an_order_needs_cash_for_the_larger_of_the_two_fees() {
    let price = 10_000 * 10 * CASH_PER_TICK;
    for (maker_ppm, taker_ppm, fee) in [(300, 100, 300), (100, 300, 300), (-100, 100, 100)] {
        let needed = price + price * fee / 1_000_000;
        for (cash, accepted) in [(needed - 1, false), (needed, true)] {
            let mut market = two_asks(cash, FeeSchedule { maker_ppm, taker_ppm, ..FREE });
            market.send(0, 0, SlotRequest::limit(Side::Buy, 10_000, 10)).unwrap();
            market.tick();
            market.send(1, 0, SlotRequest::market(Side::Sell, 10)).unwrap();
            market.tick();
            let filled = market.totals(0).unwrap().bought;
            assert_eq!(filled, if accepted { 10 } else { 0 }, "{maker_ppm} {taker_ppm} {cash}");
            assert!(market.cash(0).unwrap() >= 0);
        }
    }
}

#[test]
fn open_orders_are_listed_and_cancelled_by_the_numbers_of_their_requests() {
    let mut config = Preset::Normal.config();
    (config.symbols, config.slots) = (2, vec![config.slots[0]; 2]);
    let mut market = market(&config);
    let bid = |market: &Market, symbol: u16| market.best_bid(symbol).unwrap() - 200;
    let listed = |market: &Market, slot: usize| -> Vec<(u64, u16, i32)> {
        let open = market.open_orders(slot).unwrap();
        open.map(|order| (order.number, order.symbol, order.quantity)).collect()
    };
    // Far more orders than may be open, so that those that have left make room in the list.
    let mut wanted = Vec::new();
    for round in 0..40 {
        for symbol in 0..2 {
            let request = SlotRequest::limit(Side::Buy, bid(&market, symbol), 1 + round);
            let number = market.send(0, symbol, request).unwrap();
            wanted.push((number, symbol, 1 + round));
        }
        if round >= 5 {
            for (number, ..) in wanted.drain(..2) {
                market.send(1, 0, SlotRequest::CancelNumber(number)).unwrap();
                // The order's symbol counts, and not that of the request.
                market.send(0, 1, SlotRequest::CancelNumber(number)).unwrap();
            }
        }
        market.tick();
        assert_eq!(listed(&market, 0), wanted, "round {round}");
        assert!(listed(&market, 1).is_empty());
        market.check().unwrap();
    }
    let hash = market.state_hash();
    let mut overwritten = Market::new(&config, 1).unwrap();
    overwritten.clone_from(&market);
    for mut copy in [market.clone(), overwritten] {
        assert_eq!((listed(&copy, 0), copy.state_hash()), (wanted.clone(), hash));
        copy.send(0, 0, SlotRequest::CancelNumber(wanted[0].0)).unwrap();
        copy.tick();
        assert_eq!(listed(&copy, 0), wanted[1..]);
    }
    market.restart_slot(0).unwrap();
    assert!(listed(&market, 0).is_empty());
    let unknown = market.open_orders(2).err();
    assert_eq!(unknown, Some(OrderReject::Unknown { what: "slot", index: 2, count: 2 }));
}

#[test]
fn fills_carry_the_numbers_of_orders_at_one_price() {
    let mut market = two_asks(10_000_000, FREE);
    let numbered = |market: &Market, slot: usize| -> Vec<(u64, i32, bool)> {
        let fills = market.fills(slot).unwrap().iter();
        fills.map(|fill| (fill.order, fill.quantity, fill.maker)).collect()
    };
    let bids = [4, 5, 6]
        .map(|shares| market.send(1, 0, SlotRequest::limit(Side::Buy, 10_000, shares)).unwrap());
    market.tick();
    market.send(1, 0, SlotRequest::CancelNumber(bids[1])).unwrap();
    market.tick();
    let sale = market.send(0, 0, SlotRequest::limit(Side::Sell, 10_000, 12)).unwrap();
    market.tick();
    assert_eq!(numbered(&market, 0), [(sale, 4, false), (sale, 6, false)]);
    assert_eq!(numbered(&market, 1), [(bids[0], 4, true), (bids[2], 6, true)]);
    // The rest of the sale keeps its number.
    let taken = market.send(1, 0, SlotRequest::limit(Side::Buy, 10_000, 3)).unwrap();
    market.tick();
    assert_eq!(numbered(&market, 0), [(sale, 2, true)]);
    assert_eq!(numbered(&market, 1), [(taken, 2, false)]);
}

#[test]
fn a_full_queue_refuses_the_next_request() {
    let mut config = Preset::Normal.config();
    config.slots[0].latency_ticks = 1_000;
    let mut market = market(&config);
    for _ in 0..backcast_sim::IN_FLIGHT {
        market.send(0, 0, SlotRequest::CancelAll).unwrap();
    }
    let full = OrderReject::QueueFull { limit: backcast_sim::IN_FLIGHT as u32 };
    assert_eq!(market.send(0, 0, SlotRequest::CancelAll), Err(full));
}

#[test]
fn a_market_order_in_an_empty_book_trades_nothing_and_needs_no_cash() {
    let mut config = Preset::Normal.config();
    config.slots[0].account.cash = 0;
    let mut market = Market::new(&config, 1).unwrap();
    assert_eq!(market.best_ask(0), None);
    market.send(0, 0, SlotRequest::market(Side::Buy, 100)).unwrap();
    market.tick();
    let report = market.reports(0).unwrap()[0];
    assert_eq!(report.result.map(|placed| (placed.filled, placed.resting)), Ok((0, None)));
}

#[test]
fn slots_take_turns_in_an_order_that_favours_none_and_that_others_do_not_change() {
    let firsts = |slots: usize| -> Vec<usize> {
        let mut config = Preset::Normal.config();
        let account = &mut config.slots[0].account;
        account.cash *= 1_000;
        account.limits = Limits { long: 100_000, short: 100_000, order: 100_000 };
        config.slots = vec![config.slots[0]; slots];
        let mut market = market(&config);
        (0..400)
            .map(|_| {
                // Each order takes all shares at the best ask, so that the first one gets the
                // better price.
                let ask = market.best_ask(0).unwrap();
                let shares = market.book(0).quantity_at(Side::Sell, ask);
                for slot in 0..2 {
                    market.send(slot, 0, SlotRequest::market(Side::Buy, shares)).unwrap();
                }
                market.tick();
                let price = |slot| market.fills(slot).unwrap()[0].price;
                let first = usize::from(price(1) < price(0));
                for slot in 0..2 {
                    let sold = market.position(slot, 0).unwrap();
                    market.send(slot, 0, SlotRequest::market(Side::Sell, sold)).unwrap();
                }
                market.run(5);
                first
            })
            .collect()
    };
    let two = firsts(2);
    let second = two.iter().sum::<usize>();
    // Within four standard deviations of a fair coin.
    assert!((160..=240).contains(&second), "slot 1 was first in {second} of 400 ticks");
    assert_eq!(firsts(3), two, "a silent slot changes who is first");
}

#[test]
fn a_slot_that_starts_over_has_its_endowment_and_no_history() {
    let mut market = market(&Preset::Normal.config());
    let bid = market.best_bid(0).unwrap();
    let rest = SlotRequest::limit(Side::Buy, bid - 3, 9);
    for request in [rest, SlotRequest::market(Side::Sell, 40), rest] {
        market.send(0, 0, request).unwrap();
    }
    market.run(130);
    market.send(0, 0, SlotRequest::market(Side::Buy, 5)).unwrap();
    let (fees, lent) = (market.ledger().fees_taken(), market.ledger().borrowing_taken());
    assert!(market.totals(0).unwrap().fills > 0 && fees > 0 && lent > 0);
    for shares in [0, 70, -30] {
        market.set_endowment(0, 5_000_000, shares).unwrap();
        market.restart_slot(0).unwrap();
        assert_eq!((market.cash(0), market.position(0, 0)), (Ok(5_000_000), Ok(shares)));
        let price = i64::from(market.best_bid(0).unwrap() + market.best_ask(0).unwrap()) / 2;
        assert_eq!(market.cost(0, 0), Ok(i64::from(shares.abs()) * price * CASH_PER_TICK));
        assert_eq!((market.realised(0), market.in_flight(0)), (Ok(0), Ok(0)));
        assert_eq!(market.totals(0), Ok(backcast_sim::SlotTotals::default()));
        assert!(market.last_fill(0).unwrap().is_none() && market.fills(0).unwrap().is_empty());
        assert_eq!(market.ledger().open_shares(0, 0), (0, 0));
        // The exchange keeps the fees that the slot paid before the restart.
        assert_eq!(market.ledger().fees_taken(), fees);
        market.check().unwrap();
    }
    market.run(100);
    market.check().unwrap();
    let slots = market.config().slots.len();
    let unknown = backcast_sim::ConfigError::UnknownSlot { slot: slots, slots };
    assert_eq!(market.restart_slot(slots), Err(unknown));
}
