//! Cash, shares and open orders add up to the unit.

use backcast_sim::{Market, Preset, RandomStream, Side, SlotRequest, StreamRole};

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
        // Only the slot is certain to be short; other accounts pay for borrowing too.
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
