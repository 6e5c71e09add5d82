//! Observations without look-ahead, values in gaps, and vectors equal to their single environments.

use crate::market::{Market, actions};
use backcast_gym::{AutoresetMode, PortfolioOptions, PortfolioVectorEnv, ResetSeed};
use proptest::prelude::*;

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(200)))]

    #[test]
    fn a_batch_is_its_members_bit_for_bit(
        seed in any::<u64>(),
        n in 1..12_usize,
        // Fewer tickers than a line, exactly a line, and more than two lines.
        tickers in prop::sample::select(vec![4_usize, 16, 33]),
        mode in prop::sample::select(vec![
            AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled,
        ]),
        holes in prop::collection::vec((0..4_usize, 5..40_usize), 0..12),
        limit in prop::option::of(1..20_u32),
    ) {
        let mut market = Market::random(seed % 1_000, tickers, 40);
        for (ticker, day) in holes {
            market = market.without(ticker, [day]);
        }
        let settings = PortfolioOptions {
            hmax: 80,
            failure_threshold: 29_000.0,
            autoreset_mode: mode,
            max_episode_steps: limit,
            ..PortfolioOptions::default()
        };
        let panel = market.panel();
        let mut batch = PortfolioVectorEnv::new(panel.clone(), n, settings.clone()).unwrap();
        let mut singles: Vec<_> =
            (0..n)
                .map(|_| PortfolioVectorEnv::new(panel.clone(), 1, settings.clone()).unwrap())
                .collect();
        batch.reset(ResetSeed::One(seed), None, None).unwrap();
        for (env, single) in singles.iter_mut().enumerate() {
            single.reset(ResetSeed::One(seed.wrapping_add(env as u64)), None, None).unwrap();
        }
        let mut ends = 0;
        for step in 0..60 {
            let all = actions(seed ^ step, n * tickers);
            batch.step(&all).unwrap();
            for (env, single) in singles.iter_mut().enumerate() {
                let mine = env * tickers..(env + 1) * tickers;
                let shown = mine.start * 2..mine.end * 2;
                single.step(&all[mine.clone()]).unwrap();
                for (whole, part, last) in [
                    (batch.obs(), single.obs(), false),
                    (batch.final_obs(), single.final_obs(), true),
                ] {
                    if last && (mode != AutoresetMode::SameStep || !single.ended()[0]) {
                        continue;
                    }
                    prop_assert_eq!(whole.day[env], part.day[0]);
                    prop_assert_eq!(whole.cash[env].to_bits(), part.cash[0].to_bits());
                    let assets = [whole.total_asset[env], part.total_asset[0]].map(f64::to_bits);
                    prop_assert_eq!(assets[0], assets[1]);
                    prop_assert_eq!(&whole.shares[mine.clone()], &part.shares[..]);
                    prop_assert_eq!(
                        bits(&whole.avg_buy_price[mine.clone()]), bits(&part.avg_buy_price)
                    );
                    prop_assert_eq!(bits(&whole.open[mine.clone()]), bits(&part.open));
                    prop_assert_eq!(bits(&whole.indicators[shown.clone()]), bits(&part.indicators));
                }
                prop_assert_eq!(batch.rewards()[env].to_bits(), single.rewards()[0].to_bits());
                prop_assert_eq!(batch.terminated()[env], single.terminated()[0]);
                prop_assert_eq!(batch.truncated()[env], single.truncated()[0]);
                prop_assert_eq!(batch.ended()[env], single.ended()[0]);
                prop_assert!(single.obs().cash[0] >= 0.0);
                ends += usize::from(single.ended()[0]);
            }
            if mode == AutoresetMode::Disabled && batch.ended().contains(&true) {
                let mask = batch.ended().to_vec();
                batch.reset(ResetSeed::Keep, Some(&mask), None).unwrap();
                for (single, _) in singles.iter_mut().zip(mask).filter(|(_, ended)| *ended) {
                    single.reset(ResetSeed::Keep, None, None).unwrap();
                }
            }
        }
        prop_assert!(ends > 0, "60 steps on 40 days end an episode");
    }

    /// Changes everything of a day but its open. No observation up to that day changes.
    #[test]
    fn an_observation_has_only_the_open_of_its_day(
        seed in 0..1_000_u64,
        day in 2..30_usize,
        factor in 1.01..3.0_f64,
    ) {
        let market = Market::random(seed, 3, 32);
        let mut changed = market.clone();
        for row in changed.rows[day].iter_mut().flatten() {
            let [open, _, _, close, ..] = *row;
            *row = [open, open * 9.0, open / 9.0, close * factor, 5.0, 77.0, 88.0];
        }
        let settings =
            PortfolioOptions { hmax: 50, failure_threshold: 0.0, ..PortfolioOptions::default() };
        let [mut original, mut changed] = [market, changed]
            .map(|market| PortfolioVectorEnv::new(market.panel(), 1, settings.clone()).unwrap());
        for env in [&mut original, &mut changed] {
            env.reset(ResetSeed::Keep, None, Some(&[1])).unwrap();
        }
        for today in 1..=day {
            prop_assert_eq!(usize::try_from(original.obs().day[0]).unwrap(), today);
            prop_assert_eq!(original.obs(), changed.obs());
            let today = actions(seed + today as u64, 3);
            original.step(&today).unwrap();
            changed.step(&today).unwrap();
        }
        prop_assert_ne!(original.obs(), changed.obs(), "the day after shows yesterday's \
                                                        indicators");
    }

    /// Rewards add up to the log return of the value at the close. A portfolio of cash earns
    /// nothing.
    #[test]
    fn rewards_add_up_to_the_change_of_value(seed in 0..1_000_u64) {
        let settings =
            PortfolioOptions { hmax: 50, failure_threshold: 0.0, ..PortfolioOptions::default() };
        let panel = Market::random(seed, 3, 40).panel();
        let mut env = PortfolioVectorEnv::new(panel, 2, settings).unwrap();
        env.reset(ResetSeed::One(seed), None, None).unwrap();
        let mut sums = [0.0_f64; 2];
        while !env.ended().contains(&true) {
            let mut today = actions(seed.wrapping_add(sums[0].to_bits()), 6);
            today[3..].fill(0.0);
            env.step(&today).unwrap();
            for (sum, reward) in sums.iter_mut().zip(env.rewards()) {
                *sum += reward;
            }
        }
        prop_assert!((sums[0] - (env.total_asset_at_close()[0] / 30_000.0).ln()).abs() < 1e-9);
        prop_assert_eq!(sums[1].to_bits(), 0.0_f64.to_bits());
    }
}

#[test]
fn lag_zero_shows_the_indicators_of_the_day_and_lag_two_those_of_two_days_before() {
    let market = Market::random(4, 2, 12);
    for lag in [0, 1, 2] {
        let settings = PortfolioOptions { indicator_lag: lag, ..PortfolioOptions::default() };
        let mut env = PortfolioVectorEnv::new(market.panel(), 1, settings).unwrap();
        env.reset(ResetSeed::Keep, None, Some(&[4])).unwrap();
        for day in 4..8 {
            let expected: Vec<f64> = (0..2)
                .flat_map(|ticker| market.rows[day - lag][ticker].unwrap()[5..].to_vec())
                .collect();
            assert_eq!(bits(&env.obs().indicators), bits(&expected));
            env.step(&[0.0; 2]).unwrap();
        }
    }
}

#[test]
fn a_holding_in_a_gap_is_not_traded_and_is_worth_its_last_close() {
    let market = Market::random(1, 2, 20)
        .flat(0, &[100.0; 20])
        .flat(1, &(0..20).map(|day| 10.0 + f64::from(day)).collect::<Vec<_>>())
        .without(1, [6, 7]);
    let settings = PortfolioOptions {
        hmax: 100,
        buy_cost_pct: 0.0,
        sell_cost_pct: 0.0,
        ..PortfolioOptions::default()
    };
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, settings).unwrap();
    env.reset(ResetSeed::Keep, None, Some(&[4])).unwrap();
    env.step(&[0.0, 1.0]).unwrap(); // 100 shares at 14; day 5 opens at 15
    assert!((env.obs().total_asset[0] - 30_100.0).abs() < 1e-9);
    env.step(&[0.0, 0.0]).unwrap(); // day 6: no row, still worth 15
    assert_eq!((env.obs().day[0], env.obs().open[1].to_bits()), (6, 0));
    assert!((env.obs().total_asset[0] - 30_100.0).abs() < 1e-9);
    assert_eq!(env.rewards()[0].to_bits(), 0.0_f64.to_bits());
    env.step(&[0.0, -1.0]).unwrap(); // no row, so no sale
    assert_eq!((env.obs().day[0], env.obs().shares[1]), (7, 100));
    assert!(env.obs().indicators[2..].iter().all(|value| value.to_bits() == 0));
    env.step(&[0.0, 1.0]).unwrap(); // no row, so no purchase; day 8 is back at 18
    assert_eq!(env.obs().shares[1], 100);
    assert!((env.obs().total_asset[0] - 30_400.0).abs() < 1e-9);
    assert!((env.rewards()[0] - (30_400.0_f64 / 30_100.0).ln()).abs() < 1e-12);
    env.step(&[0.0, -1.0]).unwrap();
    assert_eq!(env.obs().shares[1], 0);
    assert!((env.obs().cash[0] - 30_400.0).abs() < 1e-9);
}

#[test]
fn macro_tickers_are_left_out_and_the_order_of_tickers_is_the_callers() {
    let panel = Market::random(1, 4, 30).panel_with_macros(&["T01"]);
    let env = PortfolioVectorEnv::new(panel.clone(), 1, PortfolioOptions::default()).unwrap();
    assert_eq!(
        (env.tickers(0).collect::<Vec<_>>(), env.tokens()),
        (vec!["T00", "T02", "T03"], &[1, 3, 4][..])
    );
    let settings = PortfolioOptions {
        tickers: Some(["T03", "T00"].map(str::to_owned).to_vec()),
        ..PortfolioOptions::default()
    };
    let mut env = PortfolioVectorEnv::new(panel.clone(), 1, settings).unwrap();
    assert_eq!((env.tokens(), env.n_tickers()), (&[4, 1][..], 2));
    env.reset(ResetSeed::Keep, None, Some(&[5])).unwrap();
    assert_eq!(Some(env.obs().open[0]), panel.value(3, 5, 0));
    assert_eq!(Some(env.obs().open[1]), panel.value(0, 5, 0));
}

#[test]
fn single_and_double_precision_actions_mean_the_same() {
    let panel = Market::random(6, 3, 30).panel();
    let mut env = PortfolioVectorEnv::new(panel, 2, PortfolioOptions::default()).unwrap();
    env.reset(ResetSeed::One(2), None, None).unwrap();
    let mut other = env.clone();
    env.step(&[0.25_f32, -1.0, 1.0, 0.5, 0.0, 0.75]).unwrap();
    other.step(&[0.25_f64, -1.0, 1.0, 0.5, 0.0, 0.75]).unwrap();
    assert_eq!(env.obs(), other.obs());
}
