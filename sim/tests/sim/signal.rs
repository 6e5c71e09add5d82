//! Signal traders: the position that they take as the price moves.

use backcast_sim::{FeeSchedule, Limits, Market, MarketConfig, Side, SignalConfig, SlotRequest};

use super::money::quiet;

const COUNT: u16 = 20;
const INVENTORY: i32 = 12;

/// Returns settings in which slot 0 quotes for signal traders that all follow what they see.
fn followers() -> MarketConfig {
    let fees = FeeSchedule { maker_ppm: 0, taker_ppm: 0, borrow_ppm_per_day: 0 };
    let mut config = quiet(1, 1, fees);
    let limits = Limits { long: 1_000_000, short: 1_000_000, order: 100_000 };
    config.slots[0].account.limits = limits;
    config.slots[0].account.cash = 10_000_000_000_000;
    config.population.limits = limits;
    config.population.signal = SignalConfig {
        count: COUNT,
        wait: 2.0,
        horizon_low: 15.0,
        horizon_high: 60.0,
        followers: 1.0,
        threshold: 0.4,
        inventory: f64::from(INVENTORY),
        size: 2.0,
    };
    config
}

/// Quotes around `mid` and lets one tick pass.
fn quote(market: &mut Market, mid: i32) {
    market.send(0, 0, SlotRequest::CancelAll).unwrap();
    for side in [Side::Buy, Side::Sell] {
        market.send(0, 0, SlotRequest::limit(side, mid - side.sign(), 50_000)).unwrap();
    }
    market.tick();
}

#[test]
fn followers_hold_what_the_trend_says_and_nothing_without_one() {
    let mut market = Market::new(&followers(), 3).unwrap();
    let start = market.position(0, 0).unwrap();
    let held = |market: &Market| start - market.position(0, 0).unwrap();
    for _ in 0..300 {
        quote(&mut market, 10_000);
    }
    assert_eq!(held(&market), 0, "the price does not move");
    let all = i32::from(COUNT) * INVENTORY;
    for step in 1..=200 {
        quote(&mut market, 10_000 + step);
    }
    // An indicator that compares the trend with its own mean sees nothing in a steady one.
    assert!(held(&market) > all / 2, "{} of {all} in a rise", held(&market));
    for step in 1..=300 {
        quote(&mut market, 10_200 - step);
    }
    assert!(held(&market) < -all / 2, "{} of -{all} in a fall", held(&market));
    for _ in 0..2_000 {
        quote(&mut market, 9_900);
    }
    assert!(held(&market).abs() < all / 10, "{} of {all} in a rest", held(&market));
}
