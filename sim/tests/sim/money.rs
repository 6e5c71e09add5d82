//! Money of slots: borrowing by the tick, initial margin, liquidation, and all fills of a tick.

use backcast_sim::{
    CASH_PER_TICK, DAY_TICKS, FeeSchedule, Limits, Market, MarketConfig, OrderReject, Preset,
    RandomStream, Side, SlotConfig, SlotRequest, StreamRole,
};

const NO_FEES: FeeSchedule = FeeSchedule { maker_ppm: 0, taker_ppm: 0, borrow_ppm_per_day: 0 };

/// Returns settings without background trade, and with `slots` slots.
pub(super) fn quiet(symbols: u16, slots: usize, fees: FeeSchedule) -> MarketConfig {
    let mut config = Preset::Normal.config();
    let population = &mut config.population;
    population.maker.count = 0;
    population.noise.count = 1;
    population.noise.wait = 1e7;
    population.value.count = 0;
    population.signal.count = 0;
    population.executor.count = 0;
    config.symbols = symbols;
    config.slots = vec![SlotConfig::default(); slots];
    config.fees = fees;
    config
}

fn limit(market: &mut Market, slot: usize, side: Side, price: i32, quantity: i32) {
    market.send(slot, 0, SlotRequest::limit(side, price, quantity)).unwrap();
    market.tick();
}

/// Returns a market in which slot 0 is short in symbol 0, at a mid-price of 100.00 that stays.
fn short(shares: i32, borrow_ppm_per_day: i32) -> Market {
    let mut config = quiet(1, 2, FeeSchedule { borrow_ppm_per_day, ..NO_FEES });
    config.slots[0].account.shares = -shares;
    let mut market = Market::new(&config, 1).unwrap();
    market.send(1, 0, SlotRequest::limit(Side::Buy, 9_999, 500)).unwrap();
    market.send(1, 0, SlotRequest::limit(Side::Sell, 10_001, 500)).unwrap();
    market
}

#[test]
fn borrowing_costs_what_accrues_by_the_tick_rounded_up_once() {
    for (shares, ppm) in [(1, 1), (1, 20), (7, 3_001), (999, 1_000_000)] {
        let mut market = short(shares, ppm);
        for tick in 1..=2_000_u64 {
            market.tick();
            let value = u128::from(tick) * 10_000 * CASH_PER_TICK as u128 * shares as u128;
            let cost = (value * ppm as u128).div_ceil(1_000_000 * u128::from(DAY_TICKS)) as i64;
            assert_eq!(market.borrowing(0), Ok(cost), "{shares} {ppm} {tick}");
            assert_eq!(market.cash(0), Ok(1_000_000_000 - cost));
            assert_eq!(market.ledger().borrowing_taken(), cost);
        }
        assert_eq!(market.borrowing(1), Ok(0), "a slot that is not short pays nothing");
        market.check().unwrap();
    }
}

#[test]
fn borrowing_in_several_symbols_accrues_while_positions_change() {
    let ppm = 400_000;
    let mut config = quiet(3, 2, FeeSchedule { borrow_ppm_per_day: ppm, ..NO_FEES });
    config.slots[0].account.shares = -200;
    let mut market = Market::new(&config, 1).unwrap();
    for symbol in 0..3 {
        market.send(1, symbol, SlotRequest::limit(Side::Buy, 9_999, 1_000)).unwrap();
        market.send(1, symbol, SlotRequest::limit(Side::Sell, 10_001, 1_000)).unwrap();
    }
    let mut accrued = 0_u128;
    for tick in 0..600_u16 {
        if tick % 7 == 3 {
            let side = if tick % 2 == 0 { Side::Buy } else { Side::Sell };
            market.send(0, tick % 3, SlotRequest::market(side, 30)).unwrap();
        }
        market.tick();
        for symbol in 0..3 {
            let borrowed = market.position(0, symbol).unwrap().min(0).unsigned_abs();
            let value = u128::from(borrowed) * (market.mid(symbol) * CASH_PER_TICK as f64) as u128;
            accrued += value * ppm as u128;
        }
        let cost = accrued.div_ceil(1_000_000 * u128::from(DAY_TICKS)) as i64;
        assert_eq!(market.borrowing(0), Ok(cost), "{tick}");
    }
    market.check().unwrap();
}

#[test]
fn borrowing_ends_with_the_short_position_and_begins_anew_with_the_slot() {
    let mut market = short(300, 1_000_000);
    market.run(10);
    let paid = market.borrowing(0).unwrap();
    assert!(paid > 0);
    // Slot 0 buys in the tick, and is long when it ends.
    market.send(0, 0, SlotRequest::market(Side::Buy, 400)).unwrap();
    market.run(100);
    assert_eq!((market.position(0, 0), market.borrowing(0)), (Ok(100), Ok(paid)));
    // Slot 1 has sold what it did not have, and pays from then on.
    assert!(market.borrowing(1).unwrap() > 0);
    let mut copy = market.clone();
    market.restart_slot(0).unwrap();
    assert_eq!(market.borrowing(0), Ok(0));
    copy.run(50);
    assert_eq!(copy.borrowing(0), Ok(paid));
    market.reset(3);
    assert_eq!((market.borrowing(0), market.borrowing(1)), (Ok(0), Ok(0)));
    market.check().unwrap();
    copy.check().unwrap();
}

/// Returns a market in which slot 0 has 100 currency units and an initial margin, and slot 1 bids
/// and offers in every symbol.
fn margin(symbols: u16, initial_margin_ppm: i32) -> Market {
    let mut config = quiet(symbols, 2, NO_FEES);
    config.slots[0].account.cash = 1_000_000;
    config.slots[0].initial_margin_ppm = initial_margin_ppm;
    config.slots[1].account.limits = Limits { long: 10_000, short: 10_000, order: 5_000 };
    config.slots[1].account.cash = 1_000_000_000_000;
    let mut market = Market::new(&config, 1).unwrap();
    for symbol in 0..symbols {
        market.send(1, symbol, SlotRequest::limit(Side::Buy, 9_999, 5_000)).unwrap();
        market.send(1, symbol, SlotRequest::limit(Side::Sell, 10_001, 5_000)).unwrap();
    }
    market.tick();
    market
}

/// Sends an order of slot 0, runs a tick, and returns what became of it.
fn sent(market: &mut Market, symbol: u16, request: SlotRequest) -> Result<i32, OrderReject> {
    market.send(0, symbol, request).unwrap();
    market.tick();
    market.check().unwrap();
    market.reports(0).unwrap().last().unwrap().result.map(|placed| placed.filled)
}

#[test]
fn shorts_are_worth_at_most_the_equity_over_the_initial_margin() {
    // A share is worth the whole equity, so that half a margin allows two.
    for (ppm, most) in [(500_000, 2), (1_000_000, 1), (250_000, 4)] {
        let mut market = margin(1, ppm);
        assert_eq!(market.margin_room(0, 0, Side::Sell, false), Ok(most));
        let one_more = most as i32 + 1;
        let refused = Err(OrderReject::NoMargin { quantity: most + 1, limit: most });
        assert_eq!(sent(&mut market, 0, SlotRequest::market(Side::Sell, one_more)), refused);
        let resting = SlotRequest::limit(Side::Sell, 10_050, one_more);
        assert_eq!(sent(&mut market, 0, resting), refused, "an order that would rest");
        // The sale below the mid-price costs a tick a share.
        assert_eq!(sent(&mut market, 0, SlotRequest::market(Side::Sell, 1)), Ok(1));
        let next = sent(&mut market, 0, SlotRequest::market(Side::Sell, one_more - 1));
        assert!(matches!(next, Err(OrderReject::NoMargin { .. })), "{next:?}");
        assert_eq!(sent(&mut market, 0, SlotRequest::market(Side::Buy, 1)), Ok(1), "a cover");
    }
    let mut free = margin(1, 0);
    assert_eq!(free.margin_room(0, 0, Side::Sell, false), Ok(i64::MAX));
    assert_eq!(sent(&mut free, 0, SlotRequest::market(Side::Sell, 994)), Ok(994));
}

#[test]
fn what_a_short_brings_buys_no_more_than_the_margin_of_both_allows() {
    let mut market = margin(2, 500_000);
    assert_eq!(sent(&mut market, 0, SlotRequest::market(Side::Sell, 1)), Ok(1));
    // 199.99 of cash, and an equity of 99.99: less than what two shares need at the mid-price.
    let refused = sent(&mut market, 1, SlotRequest::market(Side::Buy, 1));
    assert_eq!(refused, Err(OrderReject::NoMargin { quantity: 1, limit: 0 }));
    assert_eq!(market.margin_room(0, 0, Side::Buy, false), Ok(2), "to turn round");
    let sold = sent(&mut market, 1, SlotRequest::market(Side::Sell, 1));
    assert_eq!(sold, Err(OrderReject::NoMargin { quantity: 1, limit: 0 }));
    assert_eq!(sent(&mut market, 0, SlotRequest::market(Side::Buy, 1)), Ok(1));
    // Cash alone limits a slot that is short nowhere.
    assert_eq!(market.margin_room(0, 1, Side::Buy, false), Ok(i64::MAX));
}

#[test]
fn open_orders_and_requests_on_their_way_take_up_margin() {
    let mut market = margin(2, 250_000);
    assert_eq!(market.margin_room(0, 1, Side::Sell, false), Ok(4));
    market.send(0, 0, SlotRequest::limit(Side::Sell, 10_050, 1)).unwrap();
    assert_eq!(market.margin_room(0, 1, Side::Sell, false), Ok(3), "on its way");
    market.tick();
    assert_eq!(market.margin_room(0, 1, Side::Sell, false), Ok(3), "open");
    assert_eq!(market.margin_room(0, 1, Side::Sell, true), Ok(4), "to be cancelled");
    market.send(0, 0, SlotRequest::CancelAll).unwrap();
    market.tick();
    assert_eq!(market.margin_room(0, 1, Side::Sell, false), Ok(4));
    assert!(market.margin_room(0, 2, Side::Sell, false).is_err());
    assert!(market.margin_room(2, 0, Side::Sell, false).is_err());
}

/// Returns the margin room of slot 0 by the rule of [`Market::margin_room`], share by share.
fn room_by_rule(market: &Market, symbol: u16, side: Side, cleared: bool) -> i64 {
    let open = |symbol| if cleared { (0, 0) } else { market.ledger().open_shares(0, symbol) };
    // Shares if all buys trade, and sold short if all sells do.
    let sides = |symbol| {
        let (held, (buys, sells)) = (market.position(0, symbol).unwrap(), open(symbol));
        (i64::from(held + buys), i64::from(sells - held))
    };
    let symbols = 0..market.symbols();
    if side == Side::Buy && symbols.clone().all(|symbol| sides(symbol).1 <= 0) {
        return i64::MAX;
    }
    let value = |symbol, shares: i64| {
        i128::from(shares) * (market.mid(symbol) * 2.0) as i128 * i128::from(CASH_PER_TICK / 2)
    };
    let larger = |symbol| value(symbol, sides(symbol).0.max(sides(symbol).1));
    let others: i128 = symbols.filter(|other| *other != symbol).map(larger).sum();
    let equity = i128::from(market.equity(0).unwrap().max(0)) * 1_000_000;
    let ppm = i128::from(market.config().slots[0].initial_margin_ppm);
    let passes = |more: &i64| {
        let after = more + if side == Side::Buy { sides(symbol).0 } else { sides(symbol).1 };
        after <= 0 || (others + value(symbol, after)) * ppm <= equity
    };
    (1..1_000).take_while(passes).count() as i64
}

#[test]
fn the_room_of_the_margin_is_that_of_its_rule_for_any_positions_and_orders() {
    let mut market = margin(3, 80_000);
    let mut random = RandomStream::new(5, StreamRole::Other, 0);
    let (mut bounded, mut traded) = (0, 0);
    for step in 0..600 {
        let symbol = random.below(3) as u16;
        let side = if random.chance(0.5) { Side::Buy } else { Side::Sell };
        let quantity = 1 + random.below(3) as i32;
        let request = match random.below(8) {
            0 => SlotRequest::CancelAll,
            1..4 => SlotRequest::limit(side, 10_000 - side.sign() * 40, quantity),
            _ => SlotRequest::market(side, quantity),
        };
        traded += sent(&mut market, symbol, request).unwrap_or(0);
        for (symbol, side) in (0..3).flat_map(|at| [(at, Side::Buy), (at, Side::Sell)]) {
            for cleared in [false, true] {
                let room = market.margin_room(0, symbol, side, cleared).unwrap();
                let wanted = room_by_rule(&market, symbol, side, cleared);
                assert_eq!(room, wanted, "{step}: {side:?} of {symbol}, cleared: {cleared}");
                bounded += u32::from((1..1_000).contains(&room));
            }
        }
    }
    assert!(bounded > 1_000 && traded > 100, "{bounded} {traded}");
}

#[test]
fn liquidation_walks_the_book_pays_fees_and_meets_no_own_order() {
    let fees = FeeSchedule { taker_ppm: 1_000, ..NO_FEES };
    let mut config = quiet(1, 3, fees);
    config.slots[0].account.shares = 12;
    let mut market = Market::new(&config, 1).unwrap();
    let (value, mid) = (|price: i64, shares: i64| price * shares * CASH_PER_TICK, 10_000);
    let taken = |value: i64| value - value / 1_000;
    assert_eq!(market.liquidation_value(0, 0), Ok(taken(value(mid, 12))), "an empty book");
    limit(&mut market, 1, Side::Buy, 9_990, 5);
    limit(&mut market, 2, Side::Buy, 9_980, 4);
    let two = taken(value(9_990, 5)) + taken(value(9_980, 4));
    let beyond = taken(value(9_980, 3));
    assert_eq!(market.liquidation_value(0, 0), Ok(two + beyond), "the rest at the last price");
    // A bid of its own does not raise what its shares bring.
    limit(&mut market, 0, Side::Buy, 9_995, 100);
    limit(&mut market, 0, Side::Buy, 9_990, 100);
    assert_eq!(market.liquidation_value(0, 0), Ok(two + beyond));
    // A sale of 12 shares brings the stated value: 9 are sold, and 3 find no buyer.
    market.send(0, 0, SlotRequest::market(Side::Sell, 12)).unwrap();
    let cash = market.cash(0).unwrap();
    market.tick();
    assert_eq!((market.cash(0), market.position(0, 0)), (Ok(cash + two), Ok(3)));
    // Slot 2 bought four shares, for which nobody bids.
    assert_eq!(
        market.liquidation_value(2, 0),
        Ok(taken((market.mid(0) * 4.0) as i64 * CASH_PER_TICK))
    );
}

#[test]
fn every_fill_of_a_tick_is_recorded() {
    const MAKERS: usize = 60;
    let mut config = quiet(1, MAKERS + 1, Preset::Normal.config().fees);
    config.book_orders = 2_048;
    let mut market = Market::new(&config, 1).unwrap();
    for maker in 1..=MAKERS {
        for price in 0..8 {
            market.send(maker, 0, SlotRequest::limit(Side::Sell, 10_010 + price, 1)).unwrap();
        }
    }
    market.tick();
    market.send(0, 0, SlotRequest::market(Side::Buy, 8 * MAKERS as i32)).unwrap();
    let cash = market.cash(0).unwrap();
    market.tick();
    let fills = market.fills(0).unwrap();
    assert_eq!(fills.len(), 480);
    let paid = |fill: &backcast_sim::SlotFill| {
        i64::from(fill.price) * i64::from(fill.quantity) * CASH_PER_TICK + fill.fee
    };
    assert_eq!(market.cash(0), Ok(cash - fills.iter().map(paid).sum::<i64>()));
    assert!(fills.iter().all(|fill| !fill.maker && fill.tick == 2 && fill.quantity == 1));
    assert!((1..=MAKERS).all(|maker| market.fills(maker).unwrap().len() == 8));
    assert!(market.fills(7).unwrap().iter().all(|fill| fill.maker));
}
