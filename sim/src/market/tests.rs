use super::*;
use crate::{
    book::{OrderKind, Quote, Side},
    config::Preset,
    ledger::Limits,
};

/// Quotes that rest at once leave the market as they do one after the other, and others change
/// nothing.
#[test]
fn quotes_that_come_together_equal_those_that_come_one_by_one() {
    let wide = Limits { long: 5_000, short: 5_000, order: 1_000 };
    for (limits, cash, lendable) in [
        (wide, 600_000_000, 1_000_000),
        (wide, 1_000_000_000_000, 8_000),
        (Limits { long: 400, ..wide }, 1_000_000_000_000, 1_000_000),
        (Limits { short: 400, ..wide }, 1_000_000_000_000, 1_000_000),
        (Limits { order: 250, ..wide }, 1_000_000_000_000, 1_000_000),
    ] {
        let mut config = Preset::Normal.config();
        config.lendable_shares = lendable;
        config.population.cash = cash;
        config.population.limits = limits;
        compare(Market::new(&config, 3).unwrap());
    }
}

fn compare(mut market: Market) {
    let (mut dice, mut together, mut apart) = (RandomStream::new(1, StreamRole::User, 0), 0, 0);
    for _ in 0..1_500 {
        market.tick();
        let account = 1 + dice.below(90) as u16;
        let mid = market.venues[0].tape.mid2 / 2;
        let mut pit = market.venues[0].pit(0, market.now, &mut market.ledger, &mut market.slots);
        if dice.chance(0.8) {
            pit.cancel_all(account);
        }
        let quotes: [Quote; 6] = std::array::from_fn(|at| {
            let side = if at % 2 == 0 { Side::Buy } else { Side::Sell };
            let far = if dice.chance(0.01) { 3_000 } else { 8 };
            let away = dice.below(far) as i32;
            let price = mid + side.sign() * (2 - away);
            Quote { side, price, quantity: dice.below(300) as i32 }
        });
        let kind = if dice.chance(0.5) { OrderKind::Limit } else { OrderKind::PostOnly };
        let mut other = market.clone();
        let before = market.state_hash();
        let mut pit = market.venues[0].pit(0, market.now, &mut market.ledger, &mut market.slots);
        let rested = pit.rest_all(account, kind, &quotes);
        let mut pit = other.venues[0].pit(0, other.now, &mut other.ledger, &mut other.slots);
        let placed = quotes.map(|Quote { side, price, quantity }| {
            let placed = pit.submit(account, side, kind, price, quantity);
            placed.is_ok_and(|placed| placed.filled == 0 && placed.resting.is_some())
        });
        if rested {
            together += 1;
            assert_eq!(placed, [true; 6]);
            assert_eq!(market.state_hash(), other.state_hash());
            market.ledger.check().unwrap();
        } else {
            apart += 1;
            assert_eq!(market.state_hash(), before);
        }
    }
    assert!(together > 20 && apart > 50, "{together} {apart}");
}
