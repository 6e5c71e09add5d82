//! Background agents by their rules: positions of signal and value traders, orders of executors.

use std::collections::BTreeMap;

use backcast_sim::{
    ExecutorConfig, FeeSchedule, Limits, Market, MarketConfig, Side, SignalConfig, SlotRequest,
    ValueConfig,
};

use super::money::quiet;

const COUNT: u16 = 20;

/// Returns settings with a value that stays, in which slot 0 quotes for agents without shares.
fn quoted() -> MarketConfig {
    let fees = FeeSchedule { maker_ppm: 0, taker_ppm: 0, borrow_ppm_per_day: 0 };
    let mut config = quiet(1, 1, fees);
    let limits = Limits { long: 1_000_000, short: 1_000_000, order: 100_000 };
    config.slots[0].account.limits = limits;
    config.slots[0].account.cash = 10_000_000_000_000;
    let population = &mut config.population;
    (population.limits, population.cash, population.shares) = (limits, 10_000_000_000_000, 0);
    let fundamental = &mut config.fundamental;
    (fundamental.volatility, fundamental.jumps_per_day, fundamental.drift_per_day) =
        (0.0, 0.0, 0.0);
    (config.news.symbol_per_day, config.news.market_per_day) = (0.0, 0.0);
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

/// Returns the shares of all agents together, which begin with none.
fn held(market: &Market) -> i32 {
    -market.position(0, 0).unwrap()
}

#[test]
fn followers_hold_what_the_trend_says_and_nothing_without_one() {
    const INVENTORY: i32 = 12;
    let mut config = quoted();
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
    let mut market = Market::new(&config, 3).unwrap();
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
    assert!(held(&market) <= all, "{} of {all} in a rise", held(&market));
    for step in 1..=300 {
        quote(&mut market, 10_200 - step);
    }
    assert!(held(&market) < -all / 2, "{} of -{all} in a fall", held(&market));
    assert!(held(&market) >= -all, "{} of -{all} in a fall", held(&market));
    for _ in 0..2_000 {
        quote(&mut market, 9_900);
    }
    assert!(held(&market).abs() < all / 10, "{} of {all} in a rest", held(&market));
}

/// Value traders without errors of valuation.
fn valued(aggressive: f64) -> Market {
    let mut config = quoted();
    config.population.value = ValueConfig {
        count: COUNT,
        wait: 2.0,
        strength: 100.0,
        error_sd: 0.0,
        error_ticks: 100.0,
        learning: 0.25,
        slice: 8.0,
        aggressive,
    };
    Market::new(&config, 3).unwrap()
}

#[test]
fn value_traders_hold_the_square_of_the_gap_that_they_see() {
    let mut market = valued(0.0);
    let value = market.fundamental(0);
    for mid in [9_950, 9_900, 9_800, 10_100, 10_250] {
        for _ in 0..200 {
            quote(&mut market, mid);
        }
        let gap = 75.0 * (value - f64::from(mid)) / f64::from(mid);
        let target = 100.0 * gap * gap.abs();
        let each = f64::from(held(&market)) / f64::from(COUNT);
        // They do not act for less than a quarter of an order, and trade whole shares.
        assert!((each - target).abs() <= 2.5, "{each} shares, not {target}, at {mid}");
    }
}

#[test]
fn value_traders_wait_at_the_touch_while_the_gap_is_small() {
    let mut market = valued(1.5);
    for (mid, side, trades) in [(9_900, Side::Buy, false), (9_700, Side::Buy, true)] {
        for _ in 0..100 {
            quote(&mut market, mid);
        }
        assert_eq!(held(&market) > 0, trades, "at {mid}");
        let mut waiting = 0;
        market.book(0).for_each_level(side, |price, shares| {
            assert!((price - mid).abs() <= 2, "an order at {price}, the quotes at {mid}");
            waiting += shares;
            true
        });
        assert_eq!(waiting > 50_000, !trades, "{waiting} shares wait at {mid}");
    }
}

#[test]
fn executors_work_parent_orders_of_one_size_and_lean_against_their_position() {
    const PARENT: i32 = 20;
    let mut config = quoted();
    config.population.executor = ExecutorConfig {
        count: COUNT,
        wait: 1.0,
        idle: 1.0,
        parent_minimum: f64::from(PARENT),
        parent_exponent: 2.0,
        parent_maximum: f64::from(PARENT),
        slice: 8.0,
        aggressive: 1.0,
    };
    let mut market = Market::new(&config, 5).unwrap();
    // By account: position before the parent order, and the part that is done.
    let mut parents = BTreeMap::<u16, (i32, i32)>::new();
    // By position in parent orders: parent orders, and those that buy.
    let mut drawn = BTreeMap::<i32, (u32, u32)>::new();
    let (mut slices, mut shares) = (0_u32, 0);
    for _ in 0..6_000 {
        quote(&mut market, 10_000);
        for order in market.market_orders(0) {
            let (position, done) = parents.entry(order.account).or_default();
            if *done == 0 {
                let (all, buys) = drawn.entry(*position / PARENT).or_default();
                *all += 1;
                *buys += u32::from(order.side == Side::Buy);
            }
            *done += order.side.sign() * order.quantity;
            assert_eq!(done.signum(), order.side.sign(), "a parent order has one side");
            assert!(done.abs() <= PARENT, "{done} of {PARENT} shares");
            (slices, shares) = (slices + 1, shares + order.quantity);
            if done.abs() == PARENT {
                (*position, *done) = (*position + *done, 0);
            }
        }
    }
    let all: u32 = drawn.values().map(|(all, _)| all).sum();
    assert!(all > 5_000, "{all} parent orders");
    // Slices have a median of 8 shares, and the last ones are what is left of 20.
    let mean = f64::from(shares) / f64::from(slices);
    assert!((5.0..8.0).contains(&mean), "{mean} shares a slice");
    for (position, (all, buys)) in drawn.into_iter().filter(|(_, (all, _))| *all > 300) {
        let expected = (0.5 - 0.25 * f64::from(position)).clamp(0.05, 0.95);
        let share = f64::from(buys) / f64::from(all);
        let error = 4.0 * (expected * (1.0 - expected) / f64::from(all)).sqrt();
        assert!((share - expected).abs() < error, "{share}, not {expected}, at {position}");
    }
}
