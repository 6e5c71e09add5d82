//! Costs of trading, tradable days, and initial cash and shares.

use std::collections::{BTreeMap, BTreeSet};

use crate::market::{Market, actions};
use backcast_gym::{
    AutoresetMode, Bidding, PortfolioError, PortfolioOptions, PortfolioVectorEnv, ResetSeed,
    StopLossDay, StopLossPrice,
};
use proptest::prelude::*;

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// Two tickers at 100 and at 10 every day.
fn steady(days: usize) -> Market {
    Market::random(1, 2, days).flat(0, &vec![100.0; days]).flat(1, &vec![10.0; days])
}

fn begun(market: &Market, options: PortfolioOptions) -> PortfolioVectorEnv {
    let options =
        PortfolioOptions { hmax: 100, autoreset_mode: AutoresetMode::Disabled, ..options };
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, options).unwrap();
    env.reset(ResetSeed::One(1), None, Some(&[2])).unwrap();
    env
}

#[test]
fn fees_are_those_of_the_ticker() {
    let ticker_costs = BTreeMap::from([("T01".to_owned(), (0.05, 0.5))]);
    let mut env = begun(&steady(20), PortfolioOptions { ticker_costs, ..Default::default() });
    env.step(&[1.0, 1.0]).unwrap();
    assert!(near(env.obs().cash[0], 30_000.0 - 100.0 * 101.0 - 100.0 * 10.5));
    assert!(near(env.obs().avg_buy_price[1], 10.5));
    env.step(&[-1.0, -1.0]).unwrap();
    assert!(near(env.obs().cash[0], 30_000.0 - 100.0 - 50.0 - 100.0 - 500.0));
    assert!(near(env.metrics_so_far(0).unwrap().costs, 750.0));
}

#[test]
fn a_fixed_fee_is_paid_per_order_and_counts_in_what_cash_pays_for() {
    let options = PortfolioOptions {
        fixed_fee: 7.0,
        buy_cost_pct: 0.0,
        sell_cost_pct: 0.0,
        ..Default::default()
    };
    let mut env = begun(&steady(20), options.clone());
    env.step(&[0.5, 1.0]).unwrap();
    assert!(near(env.obs().cash[0], 30_000.0 - 5_000.0 - 1_000.0 - 14.0));
    assert!(near(env.obs().avg_buy_price[0], (5_000.0 + 7.0) / 50.0));
    env.step(&[-0.5, 0.0]).unwrap();
    assert!(near(env.obs().cash[0], 30_000.0 - 1_000.0 - 21.0));

    let poor =
        PortfolioOptions { initial_amount: 206.0, failure_threshold: 0.0, ..options.clone() };
    let mut env = begun(&steady(20), poor);
    env.step(&[1.0, 0.0]).unwrap();
    assert_eq!(env.obs().shares, [1, 0], "two and the fee would be 207");

    // A fee above the price of a share counts too when cash binds, with fills recorded or not.
    for record in [false, true] {
        let dear = PortfolioOptions {
            initial_amount: 1_000.0,
            failure_threshold: 0.0,
            fixed_fee: 150.0,
            record,
            ..options.clone()
        };
        let mut env = begun(&steady(20), dear);
        env.step(&[0.01, 1.0]).unwrap();
        // 85 shares at 10 and the fee of 150 use up the cash.
        assert_eq!(env.obs().shares, [0, 85]);
        assert_eq!(env.obs().cash[0].to_bits(), 0);
    }

    // A sale that brings less than its fee, with nothing to pay the rest from, is not executed.
    let options = PortfolioOptions {
        initial_amount: 107.0,
        failure_threshold: -1e9,
        fixed_fee: 7.0,
        sell_cost_pct: 0.99,
        buy_cost_pct: 0.0,
        ..Default::default()
    };
    let mut env = begun(&steady(20), options);
    env.step(&[1.0, 0.0]).unwrap();
    assert_eq!((env.obs().shares[0], env.obs().cash[0].to_bits()), (1, 0));
    env.step(&[-1.0, 0.0]).unwrap();
    assert_eq!((env.obs().shares[0], env.obs().cash[0].to_bits()), (1, 0));
}

#[test]
fn slippage_moves_every_price_against_the_trader() {
    let options = PortfolioOptions {
        slippage_bps: 50.0,
        buy_cost_pct: 0.0,
        sell_cost_pct: 0.0,
        record: true,
        ..Default::default()
    };
    let mut env = begun(&steady(20), options);
    env.step(&[1.0, 0.0]).unwrap();
    assert!(near(env.obs().cash[0], 30_000.0 - 100.0 * 100.5));
    assert!(near(env.fills()[0].price, 100.5));
    env.step(&[-1.0, 0.0]).unwrap();
    assert!(near(env.obs().cash[0], 30_000.0 - 100.0));
    assert!(near(env.metrics_so_far(0).unwrap().costs, 100.0));
    assert!(near(env.metrics_so_far(0).unwrap().turnover, (10_050.0 + 9_950.0) / 30_000.0));
}

#[test]
fn untradable_tickers_are_neither_bought_nor_sold_nor_stopped() {
    let market = steady(20).flat(1, &[[10.0; 8].as_slice(), &[1.0; 12]].concat());
    // The second ticker can be traded on day 2 and from day 12 on.
    let tradable: Vec<bool> = (0..40).map(|at| at < 20 || at == 22 || at >= 32).collect();
    let options = PortfolioOptions {
        tradable: Some(tradable),
        stop_loss_tolerance: 0.8,
        failure_threshold: 0.0,
        ..Default::default()
    };
    let mut env = begun(&market, options);
    env.step(&[0.1, 1.0]).unwrap();
    for _ in 3..12 {
        assert_eq!(env.obs().shares[1], 100);
        env.step(&[0.0, -1.0]).unwrap();
    }
    assert_eq!((env.obs().day[0], env.obs().shares[1]), (12, 100));
    env.step(&[0.0, 0.0]).unwrap();
    assert_eq!((env.obs().shares[1], env.metrics_so_far(0).unwrap().stop_losses), (0, 1));
    assert!(env.traded(0).1 > 0.0);
}

#[test]
fn an_episode_begins_with_the_shares_given_at_the_open() {
    let market = Market::random(5, 3, 30);
    let initial_shares = BTreeMap::from([("T02".to_owned(), 40)]);
    let mut env = begun(&market, PortfolioOptions { initial_shares, ..Default::default() });
    let open = env.obs().open[2];
    assert_eq!(env.obs().shares, [0, 0, 40]);
    assert_eq!(env.obs().avg_buy_price[2].to_bits(), open.to_bits());
    assert!(near(env.obs().total_asset[0], 30_000.0 + 40.0 * open));
    let value = env.total_asset_at_close()[0];
    env.step(&[0.0, 0.0, 0.0]).unwrap();
    assert!(near(
        env.metrics_so_far(0).unwrap().total_return,
        env.total_asset_at_close()[0] / value - 1.0
    ));
    env.reset(ResetSeed::Keep, None, Some(&[4])).unwrap();
    assert_eq!(env.obs().shares, [0, 0, 40]);
}

#[test]
fn shares_of_untraded_tickers_are_refused_unless_they_may_be_drawn() {
    let panel = Market::random(5, 3, 30).panel();
    let held = |tickers: Option<&[&str]>, num_tickers, shuffle_tickers, play_on| {
        let options = PortfolioOptions {
            initial_shares: BTreeMap::from([("T00".to_owned(), 0), ("T02".to_owned(), 40)]),
            tickers: tickers.map(|names| names.iter().map(ToString::to_string).collect()),
            num_tickers,
            shuffle_tickers,
            play_on,
            ..Default::default()
        };
        PortfolioVectorEnv::new(panel.clone(), 2, options)
    };
    let lost = PortfolioError::SharesNotTraded { ticker: "T02".to_owned() };
    assert_eq!(held(Some(&["T00", "T01"]), 0, false, false).unwrap_err(), lost);
    assert_eq!(held(None, 2, false, false).unwrap_err(), lost);
    held(None, 2, true, false).unwrap();
    held(Some(&["T02"]), 0, false, false).unwrap();
    // With `play_on`, the check takes place at the reset.
    let mut env = held(None, 2, false, true).unwrap();
    assert_eq!(env.reset(ResetSeed::Keep, None, None).unwrap_err(), lost);
}

#[test]
fn a_threshold_is_compared_with_the_shares_at_the_start_too() {
    let panel = steady(30).panel();
    let made = |failure_threshold| {
        let options = PortfolioOptions {
            initial_amount: 1000.0,
            initial_shares: BTreeMap::from([("T00".to_owned(), 7), ("T01".to_owned(), 0)]),
            failure_threshold,
            ..Default::default()
        };
        PortfolioVectorEnv::new(panel.clone(), 1, options)
    };
    assert!(near(made(1699.0).unwrap().most_at_start(), 1700.0));
    let refused = made(1700.0).unwrap_err();
    let PortfolioError::BadOption { option, value, .. } = refused else { panic!("{refused}") };
    assert_eq!((option, value.to_bits()), ("failure_threshold", 1700.0_f64.to_bits()));
}

#[test]
fn more_cash_than_float32_can_grow_from_is_refused_in_few_digits() {
    let made = |initial_amount| {
        let options = PortfolioOptions { initial_amount, ..Default::default() };
        PortfolioVectorEnv::new(steady(9).panel(), 1, options)
    };
    made(1e30).unwrap();
    for amount in [1.1e30, f64::INFINITY, f64::NAN, 0.0] {
        assert!(matches!(
            made(amount),
            Err(PortfolioError::BadOption { option: "initial_amount", .. })
        ));
    }
    let refused = made(1e300).unwrap_err().to_string();
    for value in ["`initial_amount`", " 1e300,", " 1e30"] {
        assert!(refused.contains(value), "{refused} lacks {value}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(150)))]

    /// Under all rules, cash never falls below zero, fill prices lie in the day's range, and the
    /// metrics count all fees.
    #[test]
    fn cash_is_never_negative_and_every_fill_lies_in_its_range(
        seed in 0..1_000_u64,
        bidding in prop::sample::select(Bidding::ALL.to_vec()),
        stop_loss_calculation in prop::sample::select(StopLossPrice::ALL.to_vec()),
        tolerance in prop_oneof![Just(0.0), 0.9..1.0_f64],
        fee in prop_oneof![Just(0.0), 0.0..50.0_f64],
        slippage in prop_oneof![Just(0.0), 0.0..100.0_f64],
        draws in any::<bool>(),
    ) {
        let market = Market::random(seed, 5, 50).without(2, [11, 12, 30]);
        let options = PortfolioOptions {
            initial_amount: 5_000.0,
            failure_threshold: 0.0,
            bidding,
            stop_loss_tolerance: tolerance,
            stop_loss_calculation,
            fixed_fee: fee,
            slippage_bps: slippage,
            num_tickers: 3,
            shuffle_tickers: draws,
            hmax: 30,
            record: true,
            ..Default::default()
        };
        let panel = market.panel();
        let mut env = PortfolioVectorEnv::new(panel.clone(), 3, options).unwrap();
        env.reset(ResetSeed::Spread(seed), None, None).unwrap();
        let mut costs = [0.0; 3];
        for step in 0..45 {
            let days = env.obs().day.clone();
            let tickers: Vec<Vec<String>> =
                (0..3).map(|at| env.tickers(at).map(str::to_owned).collect()).collect();
            env.step(&actions(seed ^ step, 9)).unwrap();
            for fill in env.fills() {
                let name = &tickers[fill.env][fill.ticker];
                let ticker = panel.tickers().binary_search(name).unwrap();
                let day = usize::try_from(days[fill.env]).unwrap();
                let value = |column| panel.value(ticker, day, column).unwrap();
                let [high, low, close] = [1, 2, 3].map(value);
                let slip = 1.0 + slippage / 10_000.0 * fill.quantity.signum();
                let price = fill.price / slip;
                if bidding == Bidding::Default {
                    prop_assert!(near(price, close));
                }
                prop_assert!((low - 1e-9..=high + 1e-9).contains(&price));
                costs[fill.env] += fill.fee;
            }
            for (at, cost) in costs.iter_mut().enumerate() {
                prop_assert!(env.obs().cash[at] >= 0.0);
                if env.ended()[at] {
                    prop_assert!(env.metrics()[at].costs >= *cost - 1e-6);
                    *cost = 0.0;
                }
            }
        }
    }

    /// The stream of a sub-environment is its own: the number of others changes nothing.
    #[test]
    fn drawn_tickers_days_and_prices_are_equal_under_any_number_of_environments(
        seed in any::<u64>(),
        few in 1..5_usize,
    ) {
        let panel = Market::random(seed % 100, 6, 40).panel();
        let options = PortfolioOptions {
            bidding: Bidding::AdvUniform,
            num_tickers: 2,
            shuffle_tickers: true,
            max_episode_steps: Some(4),
            hmax: 50,
            ..Default::default()
        };
        let make = |n| PortfolioVectorEnv::new(panel.clone(), n, options.clone()).unwrap();
        let (mut many, mut few_envs) = (make(6), make(few));
        many.reset(ResetSeed::Spread(seed), None, None).unwrap();
        few_envs.reset(ResetSeed::Spread(seed), None, None).unwrap();
        for step in 0..15 {
            for at in 0..few {
                prop_assert_eq!(many.obs().row(at), few_envs.obs().row(at));
                prop_assert!(many.tickers(at).eq(few_envs.tickers(at)));
            }
            let today = actions(seed ^ step, 12);
            many.step(&today).unwrap();
            few_envs.step(&today[..few * 2]).unwrap();
        }
    }
}

#[test]
fn drawn_tickers_are_uniform_and_keep_their_order() {
    let market = Market::random(2, 4, 40);
    let options = PortfolioOptions { num_tickers: 2, shuffle_tickers: true, ..Default::default() };
    let mut env = PortfolioVectorEnv::new(market.panel(), 6_000, options).unwrap();
    env.reset(ResetSeed::Spread(3), None, None).unwrap();
    let mut counts = BTreeMap::<(String, String), u32>::new();
    for at in 0..6_000 {
        let names: Vec<String> = env.tickers(at).map(str::to_owned).collect();
        assert!(names[0] < names[1]);
        let tokens: Vec<i32> = names
            .iter()
            .map(|name| i32::try_from(env.panel().token(name).unwrap()).unwrap())
            .collect();
        assert_eq!(env.tokens()[at * 2..at * 2 + 2], tokens);
        *counts.entry((names[0].clone(), names[1].clone())).or_default() += 1;
    }
    assert_eq!(counts.len(), 6);
    // 1,000 each; five standard deviations are 144.
    assert!(counts.values().all(|count| count.abs_diff(1_000) < 144), "{counts:?}");
}

#[test]
fn tickers_that_never_meet_start_anywhere_and_are_traded_where_they_are_listed() {
    let market = Market::random(2, 3, 60).without(0, 20..60).without(1, 0..50);
    let alone = PortfolioOptions { num_tickers: 1, shuffle_tickers: true, ..Default::default() };
    let mut env = PortfolioVectorEnv::new(market.panel(), 40, alone).unwrap();
    env.reset(ResetSeed::Spread(1), None, None).unwrap();
    for at in 0..40 {
        let first = env.tickers(at).next().unwrap() == "T00";
        let day = env.obs().day[at];
        assert!(if first { (1..20).contains(&day) } else { (1..48).contains(&day) }, "{day}");
    }
    // T01 is listed so late that it has no start day.
    let tickers = Some(vec!["T01".to_owned()]);
    let late = PortfolioOptions { tickers, ..Default::default() };
    let refused = PortfolioVectorEnv::new(market.panel(), 1, late.clone());
    assert!(matches!(refused, Err(PortfolioError::NoStartDay { .. })));
    let later = PortfolioOptions { play_on: true, ..late };
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, later).unwrap();
    for refused in
        [env.reset(ResetSeed::Keep, None, None), env.reset_shifted(ResetSeed::Keep, None, 0)]
    {
        assert!(matches!(refused, Err(PortfolioError::NoStartDay { .. })));
    }
}

#[test]
fn a_shift_holds_for_tickers_that_are_drawn_or_is_refused_for_all_of_them() {
    // T00 goes at day 30, T01 comes at 60; starts are drawn up to day 79.
    let market = Market::random(2, 4, 100).without(0, 30..100).without(1, 0..60);
    let drawn = PortfolioOptions { num_tickers: 2, shuffle_tickers: true, ..Default::default() };
    let mut env = PortfolioVectorEnv::new(market.panel(), 200, drawn.clone()).unwrap();
    let absent = [(15, &[][..]), (20, &["T01"]), (40, &["T00", "T01"]), (78, &["T00", "T01"])];
    for (shift, absent) in absent {
        env.reset_shifted(ResetSeed::One(4), None, shift).unwrap();
        let mut names = BTreeSet::new();
        for at in 0..200 {
            let day = usize::try_from(env.obs().day[at]).unwrap();
            assert!((shift + 1..=79).contains(&day), "shift {shift}: {day}");
            names.extend(env.tickers(at).map(str::to_owned));
            if env.tickers(at).any(|ticker| ticker == "T01") {
                assert!(day >= 61 + shift, "shift {shift}: {day}");
            }
        }
        assert!(names.len() >= 2 && absent.iter().all(|name| !names.contains(*name)), "{names:?}");
    }
    // No two tickers have a start day left. The refused resets change nothing.
    let mut other = env.clone();
    for shift in [79, 5_000, usize::MAX] {
        for seed in 0..20 {
            let refused = env.reset_shifted(ResetSeed::One(seed), None, shift);
            assert_eq!(
                refused,
                Err(PortfolioError::ShiftTooLarge { env: 0, shift, first: 1, last: 79 })
            );
        }
    }
    assert_eq!((env.obs(), env.tokens()), (other.obs(), other.tokens()));
    for env in [&mut env, &mut other] {
        env.reset(ResetSeed::Keep, None, None).unwrap();
    }
    assert_eq!((env.obs(), env.tokens()), (other.obs(), other.tokens()));

    // Drawn tickers without a common start day start on any day that the shift allows.
    let market = Market::random(2, 3, 100).without(0, 50..100).without(1, 20..50);
    let mut env = PortfolioVectorEnv::new(market.panel(), 200, drawn.clone()).unwrap();
    env.reset_shifted(ResetSeed::One(4), None, 30).unwrap();
    assert!(env.obs().day.iter().all(|day| (31..=79).contains(day)));
    assert!((0..200).any(|at| env.tickers(at).eq(["T00", "T01"])));
    // Two tickers have start days left, but none in common.
    let market = market.without(2, 10..100);
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, drawn).unwrap();
    let refused = env.reset_shifted(ResetSeed::Keep, None, 30);
    assert_eq!(
        refused,
        Err(PortfolioError::ShiftTooLarge { env: 0, shift: 30, first: 1, last: 79 })
    );
}

#[test]
fn a_stop_loss_waits_for_a_price_below_the_tolerated_one() {
    // Without fees the average is the price paid; half of it is exact.
    for (price, stopped) in [(50.0, false), (49.99, true)] {
        for &stop_loss_day in StopLossDay::ALL {
            for stop_loss_calculation in [StopLossPrice::Close, StopLossPrice::Low] {
                let prices = (0..20).map(|day| if day < 4 { 100.0 } else { price });
                let market = Market::random(1, 2, 20).flat(0, &prices.collect::<Vec<f64>>());
                let options = PortfolioOptions {
                    buy_cost_pct: 0.0,
                    stop_loss_tolerance: 0.5,
                    stop_loss_day,
                    stop_loss_calculation,
                    failure_threshold: 0.0,
                    ..Default::default()
                };
                let mut env = begun(&market, options);
                env.step(&[1.0, 0.0]).unwrap();
                for _ in 3..6 {
                    env.step(&[0.0, 0.0]).unwrap();
                }
                let shares = env.obs().shares[0];
                assert_eq!(shares, if stopped { 0 } else { 100 }, "{price} {stop_loss_day}");
            }
        }
    }
}

/// Every day opens and closes at 100, with a low of 70.
fn deep_lows() -> Market {
    let mut market = steady(20);
    for rows in &mut market.rows {
        rows[0] = Some([100.0, 100.0, 70.0, 100.0, 1.0, 0.0, 0.0]);
    }
    market
}

#[test]
fn a_stop_loss_as_recorded_sells_on_the_day_of_a_purchase_too() {
    // One share is added to 66. The low is below four fifths of what was paid for them.
    for (stop_loss_day, left) in [(StopLossDay::Same, 67), (StopLossDay::SameAlways, 0)] {
        let options = PortfolioOptions {
            stop_loss_tolerance: 0.8,
            stop_loss_calculation: StopLossPrice::Low,
            stop_loss_day,
            initial_shares: BTreeMap::from([("T00".to_owned(), 66)]),
            record: true,
            ..Default::default()
        };
        let mut env = begun(&deep_lows(), options);
        env.step(&[0.01, 0.0]).unwrap();
        assert_eq!(env.obs().shares[0], left, "{stop_loss_day}");
        let traded: Vec<_> = env.fills().iter().map(|fill| fill.quantity).collect();
        assert_eq!(traded, if left == 0 { vec![1.0, -67.0] } else { vec![1.0] }, "{stop_loss_day}");
    }
}

#[test]
fn a_stop_loss_by_the_close_is_the_same_on_days_with_and_without_purchases() {
    let falling: Vec<f64> = (0..20).map(|day| 100.0 - 4.0 * f64::from(day)).collect();
    let market = Market::random(1, 2, 20).flat(0, &falling);
    let run = |stop_loss_day| {
        let options = PortfolioOptions {
            stop_loss_tolerance: 0.9,
            stop_loss_day,
            failure_threshold: 0.0,
            ..Default::default()
        };
        let mut env = begun(&market, options);
        let step = |_| {
            env.step(&[0.3, 0.0]).unwrap();
            (env.obs().shares[0], env.obs().cash[0].to_bits(), env.rewards()[0].to_bits())
        };
        (0..12).map(step).collect::<Vec<_>>()
    };
    let safe = run(StopLossDay::Same);
    assert!(safe.windows(2).any(|days| days[1].0 < days[0].0), "something is sold");
    assert_eq!(safe, run(StopLossDay::SameAlways));
}

#[test]
fn a_stop_loss_does_not_look_at_a_low_from_before_the_purchase() {
    let options = PortfolioOptions {
        stop_loss_tolerance: 0.8,
        stop_loss_calculation: StopLossPrice::Low,
        stop_loss_day: StopLossDay::Same,
        ..Default::default()
    };
    let mut env = begun(&deep_lows(), options);
    // Bought, then added to: both times the low may be older.
    for held in [50, 100] {
        env.step(&[0.5, 0.0]).unwrap();
        assert_eq!((env.obs().shares[0], env.metrics_so_far(0).unwrap().stop_losses), (held, 0));
    }
    // After a sale, the stop loss compares the low of the day: the rest was held all day.
    env.step(&[-0.1, 0.0]).unwrap();
    assert_eq!((env.obs().shares[0], env.metrics_so_far(0).unwrap().stop_losses), (0, 1));
}
