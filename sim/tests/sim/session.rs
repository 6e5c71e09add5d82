//! Trading days: their pattern, auctions and nights, and values with a common part.

use backcast_sim::{
    AuctionRule, CASH_PER_TICK, DAY_TICKS, FeeSchedule, Limits, Market, MarketConfig, Matching,
    OrderId, OrderKind, OrderReject, Preset, SessionConfig, Side, SlotRequest,
};

use super::money::quiet;

/// Returns the preset `normal` with days.
fn with_days(session: SessionConfig) -> MarketConfig {
    let mut config = Preset::Normal.config();
    config.session = session;
    config
}

const DAY: SessionConfig =
    SessionConfig { ticks: 600, u_shape: 0.6, auction_ticks: 60, overnight_sd: 0.005 };

#[test]
fn orders_wait_for_one_price_at_open_and_close_and_end_with_the_day() {
    let mut market = Market::new(&with_days(DAY), 3).unwrap();
    let mut auctions = 0;
    for tick in 1..=6 * 600_u64 {
        market.tick();
        market.check().unwrap();
        let time = (tick - 1) % 600;
        let traded = market.volume(0);
        if (60..540).contains(&time) {
            // Open orders end before the auction at the close.
            assert_eq!(market.book(0).live_orders() == 0, time == 539, "tick {tick}");
        } else if time == 59 || time == 599 {
            auctions += u64::from(traded > 0);
            assert!(market.market_orders(0).len() <= 1, "an auction has one price");
            assert_eq!(market.book(0).live_orders(), 0);
        } else {
            assert_eq!((traded, market.book(0).live_orders()), (0, 0), "tick {tick}");
        }
    }
    assert!(auctions >= 11, "{auctions} of 12 auctions traded");
}

/// A night that moves the value out of the window of the book leaves no quote there. The window
/// follows the value, so that makers quote again.
#[test]
fn a_night_beyond_the_window_of_the_book_does_not_close_the_market() {
    let wide = SessionConfig { ticks: 600, u_shape: 0.0, auction_ticks: 0, overnight_sd: 0.2 };
    let mut far = 0;
    for (auction_ticks, seed) in [0, 30].into_iter().flat_map(|of| (0..8).map(move |n| (of, n))) {
        let config = with_days(SessionConfig { auction_ticks, ..wide });
        let mut market = Market::new(&config, seed).unwrap();
        let settled = u64::from(auction_ticks) + 60..600 - u64::from(auction_ticks) - 1;
        let (mut one_sided, mut value) = (0, market.fundamental(0));
        for tick in 0..5 * 600_u64 {
            market.tick();
            let night = tick > 0 && tick.is_multiple_of(600);
            far += u32::from(night && (market.fundamental(0) - value).abs() > 1_024.0);
            value = market.fundamental(0);
            let book = market.book(0);
            let is_one_sided = book.best_bid().is_none() || book.best_ask().is_none();
            one_sided += u32::from(settled.contains(&(tick % 600)) && is_one_sided);
        }
        market.check().unwrap();
        assert!(one_sided <= 30, "{one_sided} ticks, seed {seed}, auctions {auction_ticks}");
        let mid = market.mid(0);
        assert!((mid / value).ln().abs() < 0.05, "{mid} and {value}, seed {seed}");
    }
    assert!(far > 10, "{far} nights went beyond the window");
}

#[test]
fn the_first_price_of_a_day_holds_the_night() {
    let night = SessionConfig { overnight_sd: 0.03, ..DAY };
    let (mut together, mut gaps) = (0.0, 0.0);
    for seed in 0..20 {
        let mut market = Market::new(&with_days(night), seed).unwrap();
        market.run(600);
        let (close, value) = (market.mid(0), market.fundamental(0));
        market.run(60);
        let price = (market.mid(0) / close).ln();
        let change = (market.fundamental(0) / value).ln();
        together += price * change;
        gaps += change * change;
    }
    let slope = together / gaps;
    assert!((0.8..1.2).contains(&slope), "the opening price takes {slope} of the night");
}

#[test]
fn more_is_traded_near_open_and_close_than_at_noon() {
    let session = SessionConfig { ticks: 3_000, u_shape: 0.6, ..SessionConfig::OFF };
    let mut market = Market::new(&with_days(session), 4).unwrap();
    market.run(3_000);
    let mut shares = [0_i64; 3];
    for tick in 0..5 * 3_000 {
        market.tick();
        shares[(tick % 3_000) / 1_000] += market.volume(0);
    }
    let noon = shares[1] as f64;
    for (at, name) in [(0, "morning"), (2, "afternoon")] {
        let ratio = shares[at] as f64 / noon;
        assert!(ratio > 1.4, "the {name} trades {ratio} of what noon does");
    }
}

#[test]
fn an_outside_order_waits_for_the_auction_can_be_cancelled_and_is_dropped_at_the_call() {
    let mut market = Market::new(&with_days(DAY), 5).unwrap();
    let mut auction_of = |shares: [i32; 3], cancelled: &[OrderId]| {
        let before = market.position(0, 0).unwrap();
        let numbers = shares.map(|quantity| {
            market.send(0, 0, SlotRequest::limit(Side::Buy, 10_600, quantity)).unwrap()
        });
        market.tick();
        let placed = market.reports(0).unwrap();
        let resting: Vec<_> =
            placed.iter().map(|one| one.result.unwrap().resting.unwrap()).collect();
        let cancelled = if cancelled.is_empty() { &resting[1..2] } else { cancelled };
        for order in cancelled {
            market.send(0, 0, SlotRequest::Cancel(*order)).unwrap();
        }
        market.run(58);
        assert_eq!(market.position(0, 0).unwrap(), before, "nothing trades before the call");
        market.tick();
        let bought = market.position(0, 0).unwrap() - before;
        let filled = market.fills(0).unwrap();
        assert_eq!(filled.iter().map(|fill| fill.quantity).sum::<i32>(), bought);
        for fill in filled {
            let order = numbers.iter().position(|number| *number == fill.order).unwrap();
            assert_eq!(fill.quantity, shares[order]);
        }
        market.run(480);
        (bought, resting)
    };
    let (bought, first) = auction_of([10, 20, 30], &[]);
    assert_eq!(bought, 40);
    // Numbers of an auction that is over cancel nothing.
    let (bought, _) = auction_of([1, 2, 3], &first);
    assert_eq!(bought, 6);
}

#[test]
fn both_sides_of_an_auction_pay_its_price_and_the_fee_of_a_maker() {
    for maker_ppm in [0, 400, -100] {
        let fees = FeeSchedule { maker_ppm, taker_ppm: 700, borrow_ppm_per_day: 0 };
        let mut config = quiet(1, 2, fees);
        config.session = DAY;
        config.slots[1].account.shares = 100;
        let mut market = Market::new(&config, 1).unwrap();
        let cash = |market: &Market| [0, 1].map(|slot| market.cash(slot).unwrap());
        let before = cash(&market);
        market.send(0, 0, SlotRequest::limit(Side::Buy, 10_010, 100)).unwrap();
        market.send(1, 0, SlotRequest::limit(Side::Sell, 9_990, 100)).unwrap();
        market.run(60);
        let fill = market.fills(0).unwrap()[0];
        assert!((9_990..=10_010).contains(&fill.price) && fill.quantity == 100);
        let money = i64::from(fill.price) * 100 * CASH_PER_TICK;
        let fee = money * i64::from(maker_ppm) / 1_000_000;
        assert_eq!(cash(&market), [before[0] - money - fee, before[1] + money - fee]);
        assert_eq!((fill.fee, market.fills(1).unwrap()[0].fee), (fee, fee));
        assert_eq!([0, 1].map(|slot| market.position(slot, 0).unwrap()), [100, 0]);
        market.check().unwrap();
    }
}

#[test]
fn positions_are_worth_in_an_auction_what_the_book_before_it_paid() {
    let mut config = with_days(DAY);
    config.slots[0].account.cash = 1_000_000_000_000;
    config.slots[0].account.limits = Limits { long: 10_000, short: 10_000, order: 10_000 };
    let mut market = Market::new(&config, 6).unwrap();
    // Cash between the value at the mid-price and that of closing.
    let cost = |market: &Market| {
        let value = f64::from(market.position(0, 0).unwrap()) * market.mid(0) * 100.0;
        value - market.liquidation_value(0, 0).unwrap() as f64
    };
    market.run(530);
    market.send(0, 0, SlotRequest::market(Side::Buy, 3_000)).unwrap();
    market.run(9);
    let before = cost(&market);
    let fee = 3_000.0 * market.mid(0) * 100.0 * 50e-6;
    assert!(before > 2.0 * fee, "3,000 shares cost more than the fee");
    for tick in 540..600 {
        market.tick();
        let empty = cost(&market);
        assert!((0.4..2.5).contains(&(empty / before)), "{before} before, {empty} in tick {tick}");
        let mut other = Market::new(&config, 1).unwrap();
        other.clone_from(&market);
        assert_eq!(other.liquidation_value(0, 0), market.liquidation_value(0, 0));
        assert_eq!(other.state_hash(), market.state_hash());
    }
}

#[test]
fn symbols_with_a_common_part_move_together_the_more_the_longer_one_looks() {
    let correlation = |common: f64, ticks: usize| {
        let mut config = Preset::Normal.config();
        config.symbols = 2;
        config.news.market_per_day = 0.0;
        config.fundamental.common = common;
        let mut sums = [0.0; 3];
        for seed in 0..4 {
            let mut market = Market::new(&config, seed).unwrap();
            market.run(3_600);
            let mut before = [market.mid(0), market.mid(1)];
            for _ in 0..DAY_TICKS as usize / ticks {
                market.run(ticks as u64);
                let now = [market.mid(0), market.mid(1)];
                let [a, b] = [0, 1].map(|at| (now[at] / before[at]).ln());
                sums = [sums[0] + a * b, sums[1] + a * a, sums[2] + b * b];
                before = now;
            }
        }
        sums[0] / (sums[1] * sums[2]).sqrt()
    };
    let (short, long) = (correlation(0.8, 1), correlation(0.8, 300));
    assert!((0.3..0.9).contains(&long), "{long} over 300 ticks");
    assert!(short < 0.8 * long, "{short} in one tick, {long} over 300");
    let none = correlation(0.0, 300);
    assert!(none.abs() < 0.2, "{none} without a common part");
}

#[test]
fn a_reseeded_copy_draws_another_common_part() {
    let mut config = Preset::Normal.config();
    config.fundamental.common = 1.0;
    let mut market = Market::new(&config, 1).unwrap();
    market.run(100);
    let mut copy = market.clone();
    copy.run(1);
    market.reseed(2);
    market.run(1);
    let values = [market.fundamental(0), copy.fundamental(0)];
    assert_ne!(values[0].to_bits(), values[1].to_bits());
}

#[test]
fn a_number_of_an_auction_cancels_no_order_of_the_book() {
    let mut config = quiet(1, 1, Preset::Normal.config().fees);
    config.session = DAY;
    let mut market = Market::new(&config, 6).unwrap();
    let bid = |market: &mut Market| {
        market.send(0, 0, SlotRequest::limit(Side::Buy, 9_900, 5)).unwrap();
        market.tick();
        market.reports(0).unwrap()[0].result.unwrap().resting.unwrap()
    };
    // One is the first order of the auction, in tick 1; the other is the first order of the book.
    let waited = bid(&mut market);
    market.run(59);
    let rests = bid(&mut market);
    assert_ne!(waited, rests);
    for (order, left) in [(waited, 1), (rests, 0)] {
        market.send(0, 0, SlotRequest::Cancel(order)).unwrap();
        market.tick();
        assert_eq!(market.ledger().open_count(0, 0), left);
    }
}

#[test]
fn orders_that_wait_for_an_auction_are_part_of_the_state_hash() {
    let mut config = quiet(1, 1, Preset::Normal.config().fees);
    config.session = DAY;
    let hashes = [9_990, 9_991].map(|price| {
        let mut market = Market::new(&config, 6).unwrap();
        market.send(0, 0, SlotRequest::limit(Side::Sell, price, 5)).unwrap();
        market.run(3);
        market.state_hash()
    });
    assert_ne!(hashes[0], hashes[1]);
}

#[test]
fn markets_that_are_copied_or_reset_within_an_auction_go_on_alike() {
    let config = with_days(DAY);
    let after = |mut market: Market, ticks| {
        market.run(ticks);
        market.check().unwrap();
        market.state_hash()
    };
    let mut market = Market::new(&config, 3).unwrap();
    market.run(570);
    let mut other = Market::new(&config, 4).unwrap();
    other.run(20);
    other.clone_from(&market);
    let (copy, mut again) = (market.clone(), market.clone());
    again.reset(3);
    let expected = after(market, 700);
    assert_eq!(after(copy, 700), expected, "a clone");
    assert_eq!(after(other, 700), expected, "a copy over another market");
    assert_eq!(after(again, 570 + 700), expected, "a reset");
}

#[test]
fn in_an_auction_positions_are_liquidated_at_the_mid_price_and_a_restart_withdraws_orders() {
    let mut config = quiet(1, 1, Preset::Normal.config().fees);
    config.session = DAY;
    config.slots[0].account.shares = -7;
    let mut market = Market::new(&config, 6).unwrap();
    market.send(0, 0, SlotRequest::limit(Side::Sell, 10_100, 5)).unwrap();
    market.run(2);
    let notional = 7 * 10_000 * CASH_PER_TICK;
    let closing = -notional - config.fees.of(notional, false);
    assert_eq!(market.liquidation_value(0, 0), Ok(closing));
    assert_eq!(market.ledger().open_count(0, 0), 1);
    market.restart_slot(0).unwrap();
    assert_eq!(market.ledger().open_count(0, 0), 0);
    market.check().unwrap();
    market.run(DAY.ticks.into());
    assert_eq!((market.position(0, 0), market.totals(0).unwrap().fills), (Ok(-7), 0));
    market.check().unwrap();
}

#[test]
fn an_auction_refuses_prices_outside_the_window_of_the_book() {
    let mut called = Preset::Normal.config();
    called.matching = Matching::CallAuction(AuctionRule::PricePriority);
    for config in [with_days(DAY), called] {
        let mut market = Market::new(&config, 5).unwrap();
        let (low, high) = market.book(0).window();
        for kind in [OrderKind::Limit, OrderKind::PostOnly] {
            // No cash pays for a buy at the highest price.
            for (side, inside, last) in [(Side::Buy, low, high + 2), (Side::Sell, high, i32::MAX)] {
                let outside = [low - 1, high + 1, last];
                for price in [inside].into_iter().chain(outside) {
                    let request = SlotRequest::Submit { side, kind, price, quantity: 1 };
                    market.send(0, 0, request).unwrap();
                }
                market.tick();
                let reports = market.reports(0).unwrap();
                let found: Vec<_> = reports.iter().map(|report| report.result).collect();
                assert!(found[0].is_ok(), "{side:?} {kind:?} {:?}", found[0]);
                let refused = |price| Err(OrderReject::OutOfWindow { price, low, high });
                assert_eq!(found[1..], outside.map(refused), "{side:?} {kind:?}");
            }
        }
        market.check().unwrap();
    }
}

#[test]
fn the_largest_orders_of_an_auction_leave_prices_and_cash_as_they_are() {
    let mut config = quiet(1, 2, with_days(DAY).fees);
    config.session = DAY;
    config.lendable_shares = 100_000_000;
    let most = Limits { long: 100_000_000, short: 100_000_000, order: 100_000_000 };
    config.slots.iter_mut().for_each(|slot| slot.account.limits = most);
    config.slots[0].initial_margin_ppm = 0;
    let mut market = Market::new(&config, 5).unwrap();
    for kind in [OrderKind::Marketable, OrderKind::Limit] {
        let (side, price, quantity) = (Side::Sell, i32::MAX, most.order / 2);
        market.send(0, 0, SlotRequest::Submit { side, kind, price, quantity }).unwrap();
    }
    market.send(1, 0, SlotRequest::limit(Side::Buy, 10_000, 1)).unwrap();
    market.run(u64::from(DAY.auction_ticks) + 1);
    market.check().unwrap();
    assert!((market.mid(0) - 10_000.0).abs() < f64::EPSILON, "{}", market.mid(0));
    assert_eq!(market.cash(0), Ok(1_000_000_000));
    assert_eq!(market.position(0, 0), Ok(0));
}
