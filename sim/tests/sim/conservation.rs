//! Cash, shares and open orders add up to the unit.

use backcast_sim::{
    Archetype, GroupTotals, Market, Preset, RandomStream, Side, SlotRequest, StreamRole,
};

#[test]
fn every_preset_conserves_cash_and_shares_to_the_unit() {
    for preset in Preset::ALL {
        let mut config = preset.config();
        config.fees.maker_ppm = -7;
        config.fees.taker_ppm = 33;
        let mut market = Market::new(&config, 11).unwrap();
        let mut draw = RandomStream::new(1, StreamRole::Other, 0);
        for step in 0..3_000 {
            let side = if draw.chance(0.5) { Side::Buy } else { Side::Sell };
            let request = match draw.below(3) {
                0 => SlotRequest::market(side, 1 + draw.below(200) as i32),
                1 => SlotRequest::limit(side, market.last_price(0) - 2 * side.sign(), 30),
                _ => SlotRequest::CancelAll,
            };
            market.send(0, 0, request).unwrap();
            market.tick();
            if step % 25 == 0 {
                market.check().unwrap_or_else(|error| panic!("{preset} {step}: {error}"));
            }
        }
        assert!(market.ledger().fees_taken() > 0, "{preset}: nobody traded");
        assert!(market.totals(0).unwrap().fills > 0, "{preset}: the slot never traded");
    }
}

#[test]
fn several_symbols_share_one_ledger() {
    let mut config = Preset::Normal.config();
    config.symbols = 4;
    config.slots[0].account.shares = 10;
    let mut market = Market::new(&config, 3).unwrap();
    let before = market.equity(0).unwrap();
    assert_eq!(before, market.initial_equity(0).unwrap());
    market.run(300);
    for symbol in 0..4 {
        market.send(0, symbol, SlotRequest::market(Side::Buy, 1 + i32::from(symbol))).unwrap();
    }
    market.run(200);
    for symbol in 0..4 {
        assert_eq!(market.position(0, symbol).unwrap(), 11 + i32::from(symbol));
        assert_eq!(market.ledger().issued(symbol), 10);
    }
    market.check().unwrap();
}

#[test]
fn short_positions_pay_for_borrowed_shares_and_longs_do_not() {
    for (side, pays) in [(Side::Sell, true), (Side::Buy, false)] {
        let mut config = Preset::Normal.config();
        // Other accounts may be short as well, and then pay for borrowing too.
        config.fees.borrow_ppm_per_day = 1_000_000;
        let mut market = Market::new(&config, 4).unwrap();
        market.run(59);
        market.send(0, 0, SlotRequest::market(side, 50)).unwrap();
        market.run(2);
        assert_eq!(market.position(0, 0).unwrap(), 50 * side.sign());
        let (cash, taken) = (market.cash(0).unwrap(), market.ledger().borrowing_taken());
        market.run(60);
        assert_eq!(market.cash(0).unwrap() < cash, pays);
        assert!(market.ledger().borrowing_taken() >= taken);
        market.check().unwrap();
    }
}

#[test]
fn no_account_borrows_more_than_the_lender_has() {
    let mut config = Preset::Normal.config();
    config.lendable_shares = 300;
    let mut market = Market::new(&config, 9).unwrap();
    for _ in 0..2_000 {
        market.tick();
        let ledger = market.ledger();
        let short: i64 = (0..ledger.accounts() as u16)
            .map(|account| i64::from(ledger.position(account, 0).min(0)).abs())
            .sum();
        assert!(short <= 300, "{short} shares are short");
    }
}

#[test]
fn totals_of_the_archetypes_add_up_to_the_fees() {
    let mut config = Preset::Normal.config();
    config.symbols = 2;
    let mut market = Market::new(&config, 8).unwrap();
    market.run(5_000);
    let (mut profit, mut agents) = (0, 0);
    for symbol in 0..2 {
        let groups = Archetype::ALL.map(|archetype| market.group_totals(symbol, archetype));
        let sum = |of: fn(&GroupTotals) -> i64| groups.iter().map(of).sum::<i64>();
        assert!(sum(|group| group.long) > 0);
        assert_eq!(sum(|group| group.long), sum(|group| group.short), "every share is owed");
        let open = market.book(symbol).live_orders() as u64;
        assert_eq!(groups.iter().map(|group| group.open_orders).sum::<u64>(), open);
        profit += sum(|group| group.profit);
        agents += groups.iter().map(|group| group.agents).sum::<u32>();
    }
    assert_eq!(agents, 200);
    let taken = market.ledger().fees_taken() + market.ledger().borrowing_taken();
    assert_eq!(profit, -taken, "what the agents lose together is what the market takes");
    let first = market.market_orders(0).first().map(|order| order.account);
    assert!(first.is_none_or(|account| market.archetype_of(0, account).is_some()));
    assert_eq!(market.archetype_of(0, 0), None, "a slot");
}
