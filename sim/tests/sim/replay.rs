//! Orders in a recorded book: places in queues, fills, latency and money.

use std::sync::Arc;

use backcast_sim::{
    Differences, History, HistoryPrice, OrderKind, Replay, ReplayReject, ReplayRules, Side,
};

use crate::history::{Draws, Plain};

fn replay(messages: &str, rules: ReplayRules) -> Replay {
    Replay::new(Arc::new(History::read(messages.as_bytes()).unwrap()), rules).unwrap()
}

fn fills(replay: &Replay) -> Vec<(u64, i64, i64, bool)> {
    let fill = |fill: &backcast_sim::OwnFill| (fill.id, fill.price.0, fill.shares, fill.maker);
    replay.fills().iter().map(fill).collect()
}

const SECOND: u64 = 1_000_000_000;

/// Orders of others at prices of 900, 1000 and 1100, two of them at 1000.
const OPENING: &str = "1,1,1,100,1000,1\n1,1,2,50,900,1\n1,1,3,100,1100,-1\n1,1,4,60,1000,1\n";

/// Sends an order at second 10, between the opening and the rest of history, and checks its fills,
/// the shares ahead of it if it rests, and the money.
fn check(
    name: &str,
    order: (Side, OrderKind, i64, i64),
    rest: &str,
    expected: &[(u64, i64, i64, bool)],
    ahead: Option<i64>,
) {
    let rules = ReplayRules { taker_fee: 3, maker_fee: -2, ..ReplayRules::default() };
    let mut replay = replay(&(OPENING.to_owned() + rest), rules);
    replay.run_until(10 * SECOND);
    let (side, kind, price, shares) = order;
    replay.order(side, kind, HistoryPrice(price), shares).unwrap();
    replay.run_until(20 * SECOND);
    assert_eq!(replay.refused(), [], "{name}");
    assert_eq!(fills(&replay), expected, "{name}");
    let found = replay.orders().first().map(|order| order.ahead(replay.book()));
    assert_eq!(found, ahead, "{name}");
    let paid: i64 = expected.iter().map(|fill| fill.2 * if fill.3 { -2 } else { 3 }).sum();
    let bought: i64 = expected.iter().map(|fill| fill.2).sum();
    let cash: i64 = expected.iter().map(|fill| fill.1 * fill.2).sum();
    let sign = i64::from(side.sign());
    assert_eq!(replay.account().traded, bought.unsigned_abs(), "{name}");
    assert_eq!(replay.account().fees, i128::from(paid), "{name}");
    assert_eq!(replay.orders().len(), usize::from(bought < shares), "{name}");
    assert_eq!(replay.account().cash, i128::from(-sign * cash - paid), "{name}");
    assert_eq!(replay.account().position, sign * bought, "{name}");
    // History is as it was without the agent.
    let whole = replay.history().book_after(usize::MAX);
    let levels = |book: &backcast_sim::HistoricBook, side| {
        book.levels(side).map(|(price, level)| (price, level.shares())).collect::<Vec<_>>()
    };
    for side in [Side::Buy, Side::Sell] {
        assert_eq!(levels(replay.book(), side), levels(&whole, side), "{name}");
    }
}

/// Each line of history at its second, one of the agent's orders at second 10, and its fills.
#[test]
fn orders_are_filled_as_the_queue_in_front_of_them_is_consumed() {
    let bid = (Side::Buy, OrderKind::Limit, 1_000, 30);
    for (name, order, rest, expected, ahead) in [
        ("an execution in front", bid, "11,4,1,40,1000,1", vec![], Some(120)),
        ("a cancel in front", bid, "11,2,4,10,1000,1", vec![], Some(150)),
        ("an order behind", bid, "11,1,5,10,1000,1\n12,3,5,10,1000,1", vec![], Some(160)),
        ("the queue consumed exactly", bid, "11,4,1,100,1000,1\n12,4,4,60,1000,1", vec![], Some(0)),
        (
            "an execution behind it",
            bid,
            "11,1,5,20,1000,1\n12,4,1,100,1000,1\n13,4,4,60,1000,1\n14,4,5,15,1000,1",
            vec![(0, 1_000, 15, true)],
            Some(0),
        ),
        (
            "an execution behind with shares in front",
            bid,
            "11,1,5,20,1000,1\n12,4,5,15,1000,1",
            vec![],
            Some(160),
        ),
        ("a trade through", bid, "11,4,2,20,900,1", vec![(0, 1_000, 20, true)], Some(160)),
        (
            "a trade at a better price",
            (Side::Buy, OrderKind::Limit, 950, 30),
            "11,4,1,40,1000,1",
            vec![],
            Some(0),
        ),
        ("a hidden trade through", bid, "11,5,0,9,999,-1", vec![(0, 1_000, 9, true)], Some(160)),
        ("a hidden trade at its price", bid, "11,5,0,9,1000,1", vec![], Some(160)),
        ("a cross through", bid, "11,6,-1,500,999,-1", vec![], Some(160)),
        ("a trade of the other side", bid, "11,4,3,20,1100,-1", vec![], Some(160)),
        ("a seller that comes", bid, "11,1,5,20,1000,-1", vec![(0, 1_000, 20, true)], Some(160)),
        (
            "a seller that comes in a halt",
            bid,
            "11,7,0,0,-1,-1\n12,1,5,20,1000,-1\n13,7,0,0,0,-1",
            vec![],
            Some(160),
        ),
        (
            "a seller who is there when trading resumes",
            bid,
            "11,7,0,0,-1,-1\n12,1,5,20,1000,-1\n13,7,0,0,1,-1",
            vec![(0, 1_000, 20, true)],
            Some(160),
        ),
        (
            "an order inside the spread",
            (Side::Buy, OrderKind::PostOnly, 1_050, 30),
            "11,4,1,12,1000,1",
            vec![(0, 1_050, 12, true)],
            Some(0),
        ),
        (
            "an order that crosses, and rests",
            (Side::Buy, OrderKind::Limit, 1_100, 130),
            "11,1,5,7,1100,-1\n12,4,3,100,1100,-1",
            vec![(0, 1_100, 100, false), (0, 1_100, 7, true)],
            Some(0),
        ),
        (
            "a sale at any price",
            (Side::Sell, OrderKind::Marketable, 1, 190),
            "11,4,1,100,1000,1",
            vec![(0, 1_000, 160, false), (0, 900, 30, false)],
            None,
        ),
    ] {
        check(name, order, rest, &expected, ahead);
    }
}

#[test]
fn orders_trade_with_those_that_cross_them_when_trading_resumes() {
    let bid = (Side::Buy, OrderKind::Limit, 1_000, 30);
    for (name, order, rest, expected, ahead) in [
        (
            "too few sellers of two prices when trading resumes",
            bid,
            "11,7,0,0,-1,-1\n12,1,5,10,990,-1\n12,1,6,15,1000,-1\n13,7,0,0,1,-1",
            vec![(0, 1_000, 10, true), (0, 1_000, 15, true)],
            Some(160),
        ),
        (
            "more sellers than it needs when trading resumes",
            bid,
            "11,7,0,0,-1,-1\n12,1,5,10,990,-1\n12,1,6,25,1000,-1\n12,1,7,40,1000,-1\n\
             13,7,0,0,1,-1",
            vec![(0, 1_000, 10, true), (0, 1_000, 20, true)],
            None,
        ),
        (
            "a dearer seller when trading resumes",
            bid,
            "11,7,0,0,-1,-1\n12,1,5,20,1010,-1\n13,7,0,0,1,-1",
            vec![],
            Some(160),
        ),
    ] {
        check(name, order, rest, &expected, ahead);
    }
}

#[test]
fn no_share_is_taken_twice_and_own_orders_share_an_execution() {
    let opening = "1,1,1,100,1000,1\n1,1,3,40,1100,-1\n";
    let mut twice = replay(opening, ReplayRules::default());
    twice.run_until(2 * SECOND);
    for _ in 0..3 {
        twice.market(Side::Buy, 30).unwrap();
    }
    twice.run_until(3 * SECOND);
    assert_eq!(twice.account().position, 40);
    let mut shared = replay(&(opening.to_owned() + "9,4,1,100,1000,1\n"), ReplayRules::default());
    shared.run_until(2 * SECOND);
    for price in [1_010, 1_020, 1_010] {
        shared.order(Side::Buy, OrderKind::Limit, HistoryPrice(price), 45).unwrap();
    }
    shared.run_until(9 * SECOND);
    assert_eq!(fills(&shared), [(1, 1_020, 45, true), (0, 1_010, 45, true), (2, 1_010, 10, true)]);
}

#[test]
fn orders_arrive_after_the_latency_and_are_checked_then() {
    let lines = "1,1,1,100,1000,1\n1,1,3,40,1100,-1\n3,3,3,40,1100,-1\n5,1,4,10,1090,-1\n\
                 7,7,0,0,-1,-1\n9,7,0,0,1,-1\n";
    let rules = ReplayRules { latency: 2 * SECOND, max_orders: 2, ..ReplayRules::default() };
    let mut late = replay(lines, rules);
    late.run_until(SECOND);
    late.market(Side::Buy, 30).unwrap();
    late.run_until(3 * SECOND);
    // The seller left at the moment of arrival, before the order.
    assert_eq!(late.account().position, 0);
    let order = |replay: &mut Replay, kind, price, shares| {
        replay.order(Side::Buy, kind, HistoryPrice(price), shares).unwrap()
    };
    let crossing = order(&mut late, OrderKind::PostOnly, 1_090, 5);
    let first = order(&mut late, OrderKind::Limit, 1_000, 600);
    let second = order(&mut late, OrderKind::Limit, 999, 401);
    late.cancel(77).unwrap();
    late.run_until(6 * SECOND);
    let refused: Vec<_> = late.refused().to_vec();
    assert_eq!(
        refused[0],
        (crossing, ReplayReject::WouldTrade { price: HistoryPrice(1_090), with: Side::Sell })
    );
    assert_eq!(refused[1], (second, ReplayReject::PositionLimit { position: 1_001, limit: 1_000 }));
    assert_eq!(refused[2].1, ReplayReject::NotOpen);
    assert_eq!(late.orders()[0].id, first);
    order(&mut late, OrderKind::Limit, 1_000, 1);
    late.run_until(8 * SECOND);
    assert_eq!(late.refused()[0].1, ReplayReject::Halted);
    assert!(late.order(Side::Buy, OrderKind::Limit, HistoryPrice(0), 1).is_err());
    assert!(late.order(Side::Buy, OrderKind::Limit, HistoryPrice(1), 0).is_err());
    late.start(SECOND);
    assert_eq!((late.orders().len(), late.messages(), late.account().cash), (0, 2, 0));
}

#[test]
fn an_order_cancels_the_own_ones_that_it_reaches_in_price_and_time_order() {
    let lines = "1,1,1,100,1000,1\n1,1,3,40,1100,-1\n3,1,4,40,1100,-1\n";
    for (shares, bought, left) in [
        // 10 shares before the own order at 1,090 do not exist: it is reached at once.
        (5, 5, vec![1_100, 1_200]),
        (40, 40, vec![1_100, 1_200]),
        (41, 41, vec![1_200]),
        (80, 80, vec![1_200]),
        (81, 80, vec![]),
    ] {
        let mut own = replay(lines, ReplayRules::default());
        own.run_until(SECOND);
        for price in [1_200, 1_090, 1_100] {
            own.order(Side::Sell, OrderKind::Limit, HistoryPrice(price), 10).unwrap();
        }
        own.run_until(4 * SECOND);
        own.market(Side::Buy, shares).unwrap();
        own.run_until(5 * SECOND);
        let prices: Vec<i64> = own.orders().iter().map(|order| order.price.0).collect();
        assert_eq!((own.account().position, prices), (bought, left), "{shares} shares");
    }
    let mut post = replay(lines, ReplayRules::default());
    post.run_until(SECOND);
    post.order(Side::Sell, OrderKind::Limit, HistoryPrice(1_050), 10).unwrap();
    post.order(Side::Buy, OrderKind::PostOnly, HistoryPrice(1_060), 10).unwrap();
    post.run_until(2 * SECOND);
    let reject =
        ReplayReject::WouldMeetOwn { price: HistoryPrice(1_060), own: HistoryPrice(1_050) };
    assert_eq!(post.refused(), [(1, reject)]);
    assert_eq!(post.orders().len(), 1);
}

#[test]
fn a_position_is_valued_alike_however_a_run_is_cut() {
    let lines = "1,1,1,100,1000,1\n1,1,2,10,1100,-1\n2,3,2,10,1100,-1\n3,3,1,100,1000,1\n\
                 4,1,3,10,2000,-1\n5,5,0,7,1900,1\n6,1,4,10,1980,1\n6,3,4,10,1980,1\n";
    let marks = [(1, 2_100), (2, 2_100), (3, 2_100), (4, 2_100), (5, 3_800), (6, 3_980)];
    let mut steps = replay(lines, ReplayRules::default());
    for (second, mark2) in marks {
        steps.run_until(second * SECOND);
        let mut whole = replay(lines, ReplayRules::default());
        whole.run_until(second * SECOND);
        let mut started = replay(lines, ReplayRules::default());
        started.start(second * SECOND);
        for found in [steps.mid2(), whole.mid2(), started.mid2()] {
            assert_eq!(found, mark2, "second {second}");
        }
    }
    assert_eq!(steps.history().priced_from(), Some(SECOND));
}

#[test]
fn no_order_is_taken_before_there_is_a_price_to_value_it_at() {
    let mut asks = replay("1,1,1,100,1000,-1\n3,4,1,10,1000,-1\n", ReplayRules::default());
    assert_eq!(asks.history().priced_from(), Some(3 * SECOND));
    asks.run_until(SECOND);
    asks.market(Side::Buy, 10).unwrap();
    asks.run_until(2 * SECOND);
    assert_eq!(asks.refused(), [(0, ReplayReject::NoPrice)]);
    asks.run_until(3 * SECOND);
    asks.market(Side::Buy, 10).unwrap();
    asks.run_until(4 * SECOND);
    assert_eq!((asks.account().position, asks.profit2()), (10, 0));
    // The first line is an execution, whose price is known though its order is gone.
    let (line, row) = ("1,4,7,10,1000,-1\n", "1000,90,-9999999999,0\n");
    let history =
        History::read_with_book(line.as_bytes(), row.as_bytes(), Differences::Raise).unwrap();
    assert_eq!(history.priced_from(), Some(SECOND));
    assert_eq!(history.book_after(1).mark2(), Some(2_000));
}

#[test]
fn nothing_beyond_the_levels_of_the_file_is_traded() {
    let lines = "1,1,1,10,990,1\n2,1,2,10,1000,-1\n";
    let rows = "1000,10,990,10\n1000,20,990,10\n";
    let history = |lines: &str, rows: &str| {
        History::read_with_book(lines.as_bytes(), rows.as_bytes(), Differences::Raise).unwrap()
    };
    // A seller at 995 hides the level of 1000, of which the book still knows.
    let (lines, rows) = (lines.to_owned() + "3,1,3,5,995,-1\n", rows.to_owned() + "995,5,990,10\n");
    let mut replay = Replay::new(Arc::new(history(&lines, &rows)), ReplayRules::default()).unwrap();
    replay.run_until(3 * SECOND);
    assert_eq!(replay.book().levels(Side::Sell).count(), 2);
    replay.market(Side::Buy, 25).unwrap();
    replay.run_until(4 * SECOND);
    assert_eq!(fills(&replay), [(0, 995, 5, false)]);
}

#[test]
fn rules_that_could_exceed_the_bits_of_money_are_refused() {
    let history = Arc::new(History::read(&b"1,1,1,100,1000,1\n"[..]).unwrap());
    let good = ReplayRules::default();
    for (rules, words) in [
        (ReplayRules { maker_fee: i64::MIN, ..good }, "maker_fee is -9223372036854775808; give"),
        (ReplayRules { taker_fee: 1_000_001, ..good }, "taker_fee is 1000001; give -1000000 to"),
        (ReplayRules { latency: u64::MAX, ..good }, "latency is"),
        (ReplayRules { max_position: i64::MAX, ..good }, "give 1 to 2147483647"),
        (ReplayRules { max_orders: 0, ..good }, "max_orders is 0; give 1 to 1024"),
    ] {
        let error = Replay::new(Arc::clone(&history), rules).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// The orders of the first row are a block without ids: executions take it from the front, and
/// cancels from behind the own order while there are shares.
#[test]
fn an_order_behind_a_block_waits_for_it() {
    let first = "1,1,1,10,1100,-1\n";
    let row = |bids: i64| format!("1100,10,1000,{bids}\n");
    for (rest, bids, expected, ahead) in [
        ("3,4,70,40,1000,1\n", vec![60], vec![], Some(60)),
        ("3,4,70,100,1000,1\n", vec![0], vec![], Some(0)),
        ("3,2,70,30,1000,1\n", vec![70], vec![], Some(70)),
        ("3,1,5,50,1000,1\n4,2,70,30,1000,1\n", vec![150, 120], vec![], Some(70)),
        ("3,1,5,50,1000,1\n4,4,70,100,1000,1\n", vec![150, 50], vec![], Some(0)),
        (
            "3,1,5,50,1000,1\n4,4,70,100,1000,1\n5,4,5,20,1000,1\n",
            vec![150, 50, 30],
            vec![(0, 1_000, 20, true)],
            Some(0),
        ),
    ] {
        let lines = first.to_owned() + rest;
        let rows = bids.iter().map(|bids| match bids {
            0 => "1100,10,-9999999999,0\n".to_owned(),
            bids => row(*bids),
        });
        let rows = row(100) + &rows.collect::<String>();
        let history =
            History::read_with_book(lines.as_bytes(), rows.as_bytes(), Differences::Raise).unwrap();
        let mut replay = Replay::new(Arc::new(history), ReplayRules::default()).unwrap();
        replay.run_until(2 * SECOND);
        replay.order(Side::Buy, OrderKind::Limit, HistoryPrice(1_000), 30).unwrap();
        replay.run_until(9 * SECOND);
        assert_eq!(fills(&replay), expected, "{rest}");
        let found = replay.orders().first().map(|order| order.ahead(replay.book()));
        assert_eq!(found, ahead, "{rest}");
    }
}

#[test]
fn no_more_is_filled_by_an_event_than_traded_in_it() {
    for seed in 0..6 {
        let plain = Plain::run(seed, 64, 0, 1_500);
        let history = Arc::new(History::read(plain.messages.as_bytes()).unwrap());
        let rules = ReplayRules { max_position: 1 << 30, max_orders: 64, ..Default::default() };
        let mut replay = Replay::new(Arc::clone(&history), rules).unwrap();
        let mut draws = Draws(seed + 50);
        let mut filled = 0;
        let mut at = 0;
        while at < history.messages().len() {
            let time = history.messages()[at].time;
            let until = history.messages_until(time);
            replay.run_until(time);
            // Each message of a moment can fill its own shares only.
            let most: i64 = history.messages()[at..until].iter().map(|m| m.shares).sum();
            let got: i64 =
                replay.fills().iter().filter(|fill| fill.maker).map(|fill| fill.shares).sum();
            assert!(got <= most, "seed {seed}: {got} of {most} shares at {time}");
            filled += got;
            let side = [Side::Buy, Side::Sell][draws.below(2)];
            let price =
                HistoryPrice(1_000_000 - i64::from(side.sign()) * 100 * draws.below(6) as i64);
            replay.order(side, OrderKind::PostOnly, price, 1 + draws.below(40) as i64).unwrap();
            replay.run_until(time);
            at = until;
        }
        assert!(filled > 100, "{filled}");
    }
}
