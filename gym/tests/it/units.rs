//! Weights, fractions of shares, short positions, limits, payments and rewards.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use crate::market::{Market, actions};
use backcast_gym::{
    Actions, AutoresetMode, Bidding, Margin, PortfolioError, PortfolioOptions, PortfolioReward,
    PortfolioSteps, PortfolioVectorEnv, ResetSeed, Reward, StopLossDay, StopLossPrice,
};
use proptest::prelude::*;

pub(crate) fn options() -> PortfolioOptions {
    PortfolioOptions {
        failure_threshold: 0.0,
        buy_cost_pct: 0.0,
        sell_cost_pct: 0.0,
        hmax: 100,
        step_info: true,
        ..PortfolioOptions::default()
    }
}

pub(crate) fn begun(market: &Market, options: PortfolioOptions, day: usize) -> PortfolioVectorEnv {
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, options).unwrap();
    env.reset(ResetSeed::One(1), None, Some(&[day])).unwrap();
    env
}

/// One ticker whose opens and closes are `prices`.
pub(crate) fn flat(prices: &[f64]) -> Market {
    Market::random(1, 1, prices.len()).flat(0, prices)
}

pub(crate) fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(200)))]

    /// `step_info` alone sends whole long shares through the books of units.
    #[test]
    fn whole_long_shares_are_equal_to_the_last_bit_in_units(
        seed in any::<u64>(),
        bidding in prop::sample::select(Bidding::ALL.to_vec()),
        stop_loss_calculation in prop::sample::select(StopLossPrice::ALL.to_vec()),
        stop_loss_day in prop::sample::select(StopLossDay::ALL.to_vec()),
        tolerance in prop_oneof![Just(0.0), 0.9..1.0_f64],
        fixed_fee in prop_oneof![Just(0.0), 0.0..50.0_f64],
        slippage_bps in prop_oneof![Just(0.0), 0.0..100.0_f64],
        mode in prop::sample::select(vec![AutoresetMode::NextStep, AutoresetMode::SameStep]),
        discrete in any::<bool>(),
    ) {
        let market = Market::random(seed % 1_000, 5, 40).without(2, [11, 12, 30]);
        let settings = PortfolioOptions {
            initial_amount: 5_000.0,
            failure_threshold: 4_000.0,
            bidding,
            stop_loss_tolerance: tolerance,
            stop_loss_calculation,
            stop_loss_day,
            fixed_fee,
            slippage_bps,
            hmax: 30,
            autoreset_mode: mode,
            actions: if discrete { Actions::sell_hold_buy() } else { Actions::Shares },
            record: true,
            ..PortfolioOptions::default()
        };
        let make = |step_info| {
            let settings = PortfolioOptions { step_info, ..settings.clone() };
            let mut env = PortfolioVectorEnv::new(market.panel(), 3, settings).unwrap();
            env.reset(ResetSeed::One(seed), None, None).unwrap();
            env
        };
        let (mut plain, mut units) = (make(false), make(true));
        prop_assert!(plain.details().is_none());
        for step in 0..60 {
            let mut acts = actions(seed ^ step, 15);
            if discrete {
                for act in &mut acts {
                    *act = act.round() + 1.0;
                }
            }
            plain.step(&acts).unwrap();
            units.step(&acts).unwrap();
            prop_assert_eq!(plain.obs(), units.obs());
            prop_assert_eq!(plain.final_obs(), units.final_obs());
            let bits = |env: &PortfolioVectorEnv| -> Vec<u64> {
                env.rewards().iter().map(|reward| reward.to_bits()).collect()
            };
            prop_assert_eq!(bits(&plain), bits(&units));
            prop_assert_eq!(plain.fills(), units.fills());
            prop_assert_eq!(plain.ended(), units.ended());
            for env in 0..3 {
                prop_assert_eq!(plain.metrics_so_far(env), units.metrics_so_far(env));
                prop_assert_eq!(plain.traded(env), units.traded(env));
                prop_assert_eq!(plain.history(env, true), units.history(env, true));
            }
        }
    }

    /// Shuffling every bar after `t` changes nothing that was returned up to the step that ends
    /// with bar `t`.
    #[test]
    fn no_feature_action_or_reward_looks_ahead(
        seed in 0..1_000_u64,
        t in 6..28_usize,
        kind in 0..4_usize,
        reward in 0..5_usize,
        margin in any::<bool>(),
        fractional in any::<bool>(),
        limits in any::<bool>(),
        bidding in prop::sample::select(Bidding::ALL.to_vec()),
        stops in any::<bool>(),
        splits in any::<bool>(),
    ) {
        let mut market = Market::random(seed, 4, 32).without(1, [9, 10]);
        for row in market.rows.iter_mut().flatten().flatten() {
            row[6] = row[6].abs();
        }
        let mut shuffled = market.clone();
        shuffled.rows[t + 1..].reverse();
        let split = 1 + usize::try_from(seed).unwrap() % 3;
        shuffled.rows[t + 1..].rotate_left(split);
        let leverage = if margin { 2.0 } else { 1.0 };
        let kind = if kind == 3 && fractional { 0 } else { kind };
        let options = PortfolioOptions {
            actions: match kind {
                0 | 1 => Actions::Shares,
                2 => Actions::Weights { leverage },
                _ => Actions::sell_hold_buy(),
            },
            hmax: if kind == 2 { 15 } else { 60 },
            fractional,
            margin: margin.then(|| Margin {
                borrow_rate: 0.5,
                loan_rate: 0.5,
                ..Margin::default()
            }),
            max_position: limits.then_some(0.5),
            max_volume: limits.then_some(0.05),
            impact_bps: if limits { 100.0 } else { 0.0 },
            slippage_per_share: 0.01,
            dividends: Some("x".to_owned()),
            splits: splits.then(|| "y".to_owned()),
            stop_loss_tolerance: if stops && !margin && !limits { 0.95 } else { 0.0 },
            bidding,
            reward: match reward {
                0 => Reward::LogReturn,
                1 => Reward::Pnl,
                2 => Reward::DifferentialSharpe { rate: 0.1 },
                3 => Reward::Drawdown { weight: 2.0 },
                _ => Reward::Excess { ticker: "T03".to_owned() },
            },
            history: 3,
            max_episode_steps: None,
            ..options()
        };
        let make = |market: &Market| {
            let mut env = PortfolioVectorEnv::new(market.panel(), 1, options.clone()).unwrap();
            env.reset(ResetSeed::One(seed), None, Some(&[4])).unwrap();
            env
        };
        let (mut one, mut other) = (make(&market), make(&shuffled));
        let mut flat = [vec![0.0_f32; one.flat_width()], vec![0.0_f32; one.flat_width()]];
        for day in 5..=t {
            let mut acts = actions(seed + day as u64, 4);
            match kind {
                2 if margin => acts.iter_mut().for_each(|act| *act *= 2.0),
                2 => acts.iter_mut().for_each(|act| *act = act.abs()),
                3 => acts.iter_mut().for_each(|act| *act = act.round() + 1.0),
                _ => {}
            }
            one.step(&acts).unwrap();
            other.step(&acts).unwrap();
            one.flatten_into(&mut flat[0]).unwrap();
            other.flatten_into(&mut flat[1]).unwrap();
            prop_assert_eq!(&flat[0], &flat[1]);
            prop_assert_eq!(one.obs(), other.obs());
            prop_assert_eq!(one.details(), other.details());
            prop_assert_eq!(one.rewards()[0].to_bits(), other.rewards()[0].to_bits());
            prop_assert_eq!(one.ended(), other.ended());
            prop_assert_eq!(one.metrics_so_far(0), other.metrics_so_far(0));
            if one.ended()[0] {
                break;
            }
        }
    }

    /// The equity changes by the moves of prices, the costs and the dividends, and by nothing else.
    #[test]
    fn money_is_conserved(
        seed in 0..1_000_u64,
        weights in any::<bool>(),
        fractional in any::<bool>(),
        impact_bps in prop_oneof![Just(0.0), 1.0..2_000.0_f64],
        fixed_fee in prop_oneof![Just(0.0), 0.0..20.0_f64],
    ) {
        let market = Market::random(seed, 3, 60);
        let options = PortfolioOptions {
            actions: if weights { Actions::Weights { leverage: 2.0 } } else { Actions::Shares },
            hmax: if weights { 15 } else { 100 },
            fractional,
            margin: Some(Margin { borrow_rate: 2.0, loan_rate: 1.0, ..Margin::default() }),
            max_volume: Some(0.3),
            impact_bps,
            fixed_fee,
            slippage_bps: 3.0,
            slippage_per_share: 0.02,
            buy_cost_pct: 0.001,
            sell_cost_pct: 0.002,
            dividends: Some("x".to_owned()),
            ..options()
        };
        let mut env = begun(&market, options, 2);
        let (mut shorts, mut owed) = (0, 0);
        for step in 0..50 {
            let day = usize::try_from(env.obs().day[0]).unwrap();
            let before = env.total_asset_at_close()[0];
            let acts: Vec<f64> = actions(seed ^ step, 3)
                .into_iter()
                .map(|act| if weights { 2.0 * act } else { act })
                .collect();
            env.step(&acts).unwrap();
            let details = env.details().unwrap();
            let held: Vec<f64> = if fractional {
                env.obs().units.clone()
            } else {
                env.obs().shares.iter().map(|&shares| f64::from(shares)).collect()
            };
            let moved: f64 = held.iter().enumerate().map(|(at, held)| {
                let close = |day: usize| market.rows[day][at].unwrap()[3];
                held * (close(day + 1) - close(day))
            }).sum();
            let expected = before + moved - details.costs(0) + details.dividends[0];
            prop_assert!(near(env.total_asset_at_close()[0], expected));
            shorts += i32::from(held.iter().any(|&held| held < 0.0));
            owed += i32::from(env.obs().cash[0] < 0.0);
            if env.ended()[0] {
                break;
            }
        }
        prop_assert!(shorts > 0 || weights, "{shorts} {owed}");
    }
}

#[test]
fn weights_are_reached_scaled_and_left_alone_where_they_are_already() {
    let market = flat(&[10.0; 12]);
    let settings = PortfolioOptions { actions: Actions::weights(), hmax: 15, ..options() };
    let mut env = begun(&market, PortfolioOptions { fractional: true, ..settings.clone() }, 1);
    env.step(&[0.55]).unwrap();
    assert_eq!((env.obs().units[0], env.obs().cash[0]), (1_650.0, 13_500.0));
    env.step(&[0.55]).unwrap();
    assert_eq!(env.details().unwrap().orders[0].to_bits(), 0, "no order for a rounding error");
    // Whole shares are cut towards zero: 0.00055 of 30,000 is 1.65 shares.
    let mut env = begun(&market, settings.clone(), 1);
    env.step(&[0.00055]).unwrap();
    assert_eq!((env.obs().shares[0], env.obs().cash[0]), (1, 29_990.0));

    let two = Market::random(1, 2, 12).flat(0, &[10.0; 12]).flat(1, &[20.0; 12]);
    let mut env = begun(&two, PortfolioOptions { fractional: true, ..settings }, 1);
    env.step(&[1.0, 1.0]).unwrap();
    assert!(near(env.obs().units[0], 1_500.0) && near(env.obs().units[1], 750.0));
    assert!(env.obs().cash[0].abs() < 1e-9);
    assert!(env.obs().shares.is_empty());
}

#[test]
fn a_short_sale_pays_borrowing_and_dividends_and_is_bought_back() {
    let mut market = flat(&[10.0, 10.0, 10.0, 8.0, 8.0, 8.0]);
    market.rows[2][0].as_mut().unwrap()[5] = 0.25; // column x
    let rate = 0.252;
    let margin = Margin { borrow_rate: rate, ..Margin::default() };
    let options =
        PortfolioOptions { margin: Some(margin), dividends: Some("x".to_owned()), ..options() };
    let mut env = begun(&market, options, 1);
    let a_bar = rate / env.panel().bars_per_year();
    env.step(&[-1.0]).unwrap();
    let details = env.details().unwrap();
    assert_eq!((env.obs().shares[0], details.fills[0]), (-100, -100.0));
    assert!(near(details.borrow[0], 1_000.0 * a_bar) && near(details.dividends[0], -25.0));
    let cash = 30_000.0 + 1_000.0 - 25.0 - 1_000.0 * a_bar;
    assert!(near(env.obs().cash[0], cash));
    env.step(&[0.0]).unwrap();
    // At 8 the short position is worth 200 more.
    assert!(near(env.total_asset_at_close()[0], cash - 1_000.0 * a_bar - 800.0));
    env.step(&[1.0]).unwrap();
    assert_eq!((env.obs().shares[0], env.obs().avg_buy_price[0].to_bits()), (0, 0));
}

#[test]
fn splits_multiply_whole_and_fractional_units_and_conserve_the_value() {
    let mut market = flat(&[10.0, 10.0, 4.0, 4.0, 4.0]);
    market.rows[2][0].as_mut().unwrap()[5] = 2.5;
    for (fractional, held, cash) in
        [(false, 252.0, 30_000.0 - 1_010.0 + 2.0), (true, 252.5, 28_990.0)]
    {
        let options =
            PortfolioOptions { fractional, splits: Some("x".to_owned()), hmax: 101, ..options() };
        let mut env = begun(&market, options, 1);
        env.step(&[1.0]).unwrap();
        let found = if fractional { env.obs().units[0] } else { f64::from(env.obs().shares[0]) };
        assert_eq!((found, env.obs().cash[0]), (held, cash), "{fractional}");
        assert!(near(env.obs().avg_buy_price[0], 4.0));
        assert_eq!((env.total_asset_at_close()[0], env.rewards()[0].abs()), (30_000.0, 0.0));
    }
}

#[test]
fn the_excess_over_a_ticker_counts_its_splits_and_dividends() {
    let mut market = flat(&[10.0, 10.0, 4.0, 3.8, 3.8]);
    market.rows[2][0].as_mut().unwrap()[5] = 2.5;
    market.rows[3][0].as_mut().unwrap()[6] = 0.2;
    let options = PortfolioOptions {
        splits: Some("x".to_owned()),
        dividends: Some("y".to_owned()),
        reward: Reward::Excess { ticker: "T00".to_owned() },
        ..options()
    };
    // All in cash: the reward is the benchmark's return, negated.
    let mut env = begun(&market, options, 1);
    for day in 2..=4 {
        env.step(&[0.0]).unwrap();
        assert!(env.rewards()[0].abs() < 1e-12, "{day}: {}", env.rewards()[0]);
    }
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let margin = Some(Margin::default());
    let table = [
        (
            PortfolioOptions { fractional: true, actions: Actions::sell_hold_buy(), ..options() },
            "fractional",
        ),
        (PortfolioOptions { margin, stop_loss_tolerance: 0.9, ..options() }, "stop_loss_tolerance"),
        (
            PortfolioOptions { max_volume: Some(0.1), stop_loss_tolerance: 0.9, ..options() },
            "stop_loss_tolerance",
        ),
        (PortfolioOptions { actions: Actions::weights(), hmax: 100, ..options() }, "hmax"),
        (
            PortfolioOptions {
                dividends: Some("x".to_owned()),
                splits: Some("x".to_owned()),
                ..options()
            },
            "dividends",
        ),
    ];
    let panel = Market::random(1, 2, 12).panel();
    for (options, name) in table {
        let error = PortfolioVectorEnv::new(panel.clone(), 1, options).unwrap_err();
        assert!(
            matches!(error, PortfolioError::Together { option, .. } if option == name),
            "{error}"
        );
    }
}

#[test]
fn settings_out_of_their_range_are_refused() {
    let panel = Market::random(1, 2, 12).panel();
    let leverage = |leverage, margin| PortfolioOptions {
        actions: Actions::Weights { leverage },
        hmax: 15,
        margin,
        ..options()
    };
    let numbers = [
        (leverage(1.5, None), "Weights.leverage"),
        (leverage(2.5, Some(Margin::default())), "Weights.leverage"),
        (leverage(f64::NAN, None), "Weights.leverage"),
        (
            PortfolioOptions {
                margin: Some(Margin { initial: 0.0, ..Margin::default() }),
                ..options()
            },
            "Margin.initial",
        ),
        (
            PortfolioOptions {
                margin: Some(Margin { maintenance: 0.6, ..Margin::default() }),
                ..options()
            },
            "Margin.maintenance",
        ),
        (
            PortfolioOptions {
                margin: Some(Margin { borrow_rate: -0.1, ..Margin::default() }),
                ..options()
            },
            "Margin.borrow_rate",
        ),
        (
            PortfolioOptions {
                margin: Some(Margin { loan_rate: f64::NAN, ..Margin::default() }),
                ..options()
            },
            "Margin.loan_rate",
        ),
        (PortfolioOptions { max_position: Some(0.0), ..options() }, "max_position"),
        (PortfolioOptions { max_volume: Some(1.5), ..options() }, "max_volume"),
        (PortfolioOptions { slippage_per_share: -1.0, ..options() }, "slippage_per_share"),
        (PortfolioOptions { impact_bps: 10_000.0, ..options() }, "impact_bps"),
        (
            PortfolioOptions { actions: Actions::Discrete { choices: vec![0.0] }, ..options() },
            "Discrete.choices",
        ),
        (
            PortfolioOptions {
                actions: Actions::Discrete { choices: vec![0.0, 0.0] },
                ..options()
            },
            "Discrete.choices",
        ),
        (
            PortfolioOptions { reward: Reward::DifferentialSharpe { rate: 1.0 }, ..options() },
            "DifferentialSharpe.rate",
        ),
        (
            PortfolioOptions { reward: Reward::Drawdown { weight: -1.0 }, ..options() },
            "Drawdown.weight",
        ),
    ];
    for (options, name) in numbers {
        let error = PortfolioVectorEnv::new(panel.clone(), 1, options).unwrap_err();
        assert!(
            matches!(error, PortfolioError::BadOption { option, .. } if option == name),
            "{name}: {error}"
        );
    }
    let missing = |options| PortfolioVectorEnv::new(panel.clone(), 1, options).unwrap_err();
    let column = missing(PortfolioOptions { dividends: Some("div".to_owned()), ..options() });
    assert!(matches!(column, PortfolioError::UnknownColumn { option: "dividends", .. }));
    // Column y is negative.
    let cell = missing(PortfolioOptions { splits: Some("y".to_owned()), ..options() });
    assert!(matches!(cell, PortfolioError::BadCell { option: "splits", .. }), "{cell}");
    let reward = Reward::Excess { ticker: "SPY".to_owned() };
    let benchmark = missing(PortfolioOptions { reward, ..options() });
    assert!(matches!(benchmark, PortfolioError::UnknownBenchmark { .. }));
}

#[test]
fn settings_that_need_volumes_are_refused_where_none_is_traded() {
    let mut market = Market::random(1, 3, 12);
    for row in market.rows.iter_mut().flat_map(|rows| &mut rows[..2]) {
        row.as_mut().unwrap()[4] = 0.0;
    }
    let panel = market.panel();
    let of = |names: &[&str], options: PortfolioOptions| {
        let tickers = Some(names.iter().map(|&name| name.to_owned()).collect());
        PortfolioVectorEnv::new(panel.clone(), 1, PortfolioOptions { tickers, ..options })
    };
    let limit = PortfolioOptions { max_volume: Some(0.1), ..options() };
    let impact = PortfolioOptions { impact_bps: 10.0, ..options() };
    for (set, name) in [(&limit, "max_volume"), (&impact, "impact_bps")] {
        for names in [&["T00"][..], &["T01", "T00"]] {
            let error = of(names, set.clone()).unwrap_err();
            let PortfolioError::NoVolume { option, tickers, start, end, .. } = error else {
                panic!("{error}")
            };
            assert_eq!((option, tickers, start, end), (name, names.len(), 0, 11));
        }
        let some = of(&["T00", "T02"], set.clone()).unwrap().price_warnings();
        let [text] = &some[..] else { panic!("{some:?}") };
        assert!(text.contains("\"T00\"") && text.contains(name) && !text.contains("T02"), "{text}");
        assert_eq!(of(&["T02"], set.clone()).unwrap().price_warnings(), Vec::<String>::new());
    }
    assert_eq!(of(&["T00"], options()).unwrap().price_warnings(), Vec::<String>::new());
    // The volumes of other days do not count.
    market.rows[9][0].as_mut().unwrap()[4] = 5.0;
    let days =
        |days| PortfolioOptions { days, tickers: Some(vec!["T00".to_owned()]), ..limit.clone() };
    let made = |options| PortfolioVectorEnv::new(market.panel(), 1, options);
    assert!(made(days(None)).is_ok());
    assert!(matches!(made(days(Some((0, 9)))), Err(PortfolioError::NoVolume { end: 8, .. })));
}

#[test]
fn actions_outside_their_range_are_refused_before_anything_changes() {
    let market = Market::random(1, 2, 12);
    let weights = PortfolioOptions { actions: Actions::weights(), hmax: 15, ..options() };
    let discrete = PortfolioOptions { actions: Actions::sell_hold_buy(), ..options() };
    for (options, acts) in [
        (weights.clone(), [-0.1, 0.0]),
        (weights, [0.0, 1.1]),
        (discrete.clone(), [3.0, 0.0]),
        (discrete.clone(), [0.5, 0.0]),
        (discrete, [f64::NAN, 0.0]),
    ] {
        let mut env = begun(&market, options, 1);
        let before = env.obs().clone();
        let error = env.step(&acts).unwrap_err();
        assert!(matches!(error, PortfolioError::BadAction { .. }), "{error}");
        assert_eq!(env.obs(), &before);
    }
}

/// Counts its calls, and rewards with the costs of the step.
#[derive(Clone, Debug)]
struct Counted(Arc<AtomicU32>);

impl PortfolioReward for Counted {
    fn rewards(&mut self, step: &PortfolioSteps<'_>, out: &mut [f64]) {
        self.0.fetch_add(1, Ordering::Relaxed);
        for (out, cost) in out.iter_mut().zip(step.costs) {
            *out = 1.0 + cost;
        }
    }

    fn boxed(&self) -> Box<dyn PortfolioReward> {
        Box::new(self.clone())
    }
}

#[test]
fn a_reward_of_the_caller_is_called_once_a_step_for_all() {
    let options = PortfolioOptions { max_episode_steps: Some(2), fixed_fee: 3.0, ..options() };
    let mut env = PortfolioVectorEnv::new(Market::random(1, 1, 40).panel(), 50, options).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    env.set_reward(Box::new(Counted(Arc::clone(&calls))));
    env.reset(ResetSeed::One(1), None, None).unwrap();
    env.step(&vec![1.0; 50]).unwrap();
    assert!(env.rewards().iter().all(|&reward| near(reward, 4.0)));
    env.step(&vec![0.0; 50]).unwrap();
    assert!(env.rewards().iter().all(|&reward| near(reward, 1.0)));
    env.step(&vec![1.0; 50]).unwrap();
    assert!(env.rewards().iter().all(|&reward| reward == 0.0), "a step that only reset");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}
