//! Begin and end of episodes: starts, seeds, flags, and the three autoreset modes.

use crate::market::Market;
use backcast_gym::{
    AutoresetMode, EpisodeError, Generator, PortfolioError, PortfolioOptions, PortfolioVectorEnv,
    ResetSeed,
};

const MODES: [AutoresetMode; 3] =
    [AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled];

/// One ticker at 100, then at half of it from day `crash` on.
fn crash(days: usize, crash: usize) -> Market {
    let prices: Vec<f64> = (0..days).map(|day| if day < crash { 100.0 } else { 50.0 }).collect();
    Market::random(1, 1, days).flat(0, &prices)
}

fn env(market: &Market, n: usize, options: PortfolioOptions) -> PortfolioVectorEnv {
    PortfolioVectorEnv::new(market.panel(), n, options).unwrap()
}

fn options(mode: AutoresetMode) -> PortfolioOptions {
    PortfolioOptions { autoreset_mode: mode, hmax: 1_000, ..PortfolioOptions::default() }
}

#[test]
fn falling_to_the_threshold_terminates_with_the_last_reward() {
    for mode in MODES {
        let mut env = env(&crash(20, 7), 1, options(mode));
        env.reset(ResetSeed::One(3), None, Some(&[5])).unwrap();
        env.step(&[1.0]).unwrap(); // 297 shares at 101 each
        assert_eq!((env.terminated()[0], env.truncated()[0]), (false, false));
        let before = env.total_asset_at_close()[0];
        assert!((before - (30_000.0 - 297.0)).abs() < 1e-9);
        env.step(&[0.0]).unwrap();
        assert_eq!((env.terminated()[0], env.truncated()[0], env.ended()[0]), (true, false, true));
        let after = before - 297.0 * 50.0;
        assert!((env.rewards()[0] - (after / before).ln()).abs() < 1e-12);
    }
}

#[test]
fn the_threshold_itself_terminates_and_a_cent_above_does_not() {
    for (threshold, ends) in [(14_853.0, true), (14_852.99, false)] {
        let settings =
            PortfolioOptions { failure_threshold: threshold, ..options(AutoresetMode::Disabled) };
        let mut env = env(&crash(20, 7), 1, settings);
        env.reset(ResetSeed::Keep, None, Some(&[5])).unwrap();
        env.step(&[1.0]).unwrap();
        env.step(&[0.0]).unwrap();
        assert_eq!(env.total_asset_at_close()[0].to_bits(), 14_853.0_f64.to_bits());
        assert_eq!(env.terminated()[0], ends);
    }
}

#[test]
fn the_last_day_truncates_and_so_does_the_step_limit() {
    for (days, limit, start, steps) in [
        (None, None, 5, 14),         // to day 19 of 20
        (Some((0, 10)), None, 5, 4), // to day 9
        (None, Some(3), 5, 3),
        (None, Some(99), 18, 1),
    ] {
        let settings =
            PortfolioOptions { days, max_episode_steps: limit, ..options(AutoresetMode::Disabled) };
        let mut env = env(&crash(20, 99), 1, settings);
        env.reset(ResetSeed::Keep, None, Some(&[start])).unwrap();
        for step in 1..=steps {
            env.step(&[0.0]).unwrap();
            assert_eq!((env.truncated()[0], env.terminated()[0]), (step == steps, false));
        }
        assert_eq!(env.step(&[0.0]), Err(EpisodeError::Finished { env: 0 }.into()));
    }
}

#[test]
fn an_end_can_be_both() {
    let mut env = env(&crash(20, 19), 1, options(AutoresetMode::Disabled));
    env.reset(ResetSeed::Keep, None, Some(&[18])).unwrap();
    env.step(&[1.0]).unwrap();
    assert_eq!((env.terminated()[0], env.truncated()[0]), (true, true));
}

/// Two environments, the first of which ends in the second step.
fn first_of_two_ends(mode: AutoresetMode) -> PortfolioVectorEnv {
    let mut env = env(&crash(20, 99), 2, options(mode));
    env.reset(ResetSeed::One(5), None, Some(&[17, 1])).unwrap();
    env.step(&[0.5, 0.5]).unwrap();
    env.step(&[0.0, 0.0]).unwrap();
    assert_eq!(env.ended(), [true, false]);
    assert_eq!(env.truncated(), [true, false]);
    env
}

#[test]
fn next_step_resets_in_the_step_after_the_end_and_ignores_its_action() {
    let mut env = first_of_two_ends(AutoresetMode::NextStep);
    assert_eq!(env.obs().day, [19, 3], "the observation is the final one");
    assert_eq!(env.obs().shares[0], 297);
    env.step(&[f64::NAN, 0.0]).unwrap();
    assert_eq!(
        (env.rewards()[0].to_bits(), env.terminated()[0], env.truncated()[0]),
        (0, false, false)
    );
    assert_eq!(env.ended(), [false, false]);
    assert_eq!((env.obs().shares[0], env.obs().cash[0].to_bits()), (0, 30_000.0_f64.to_bits()));
    assert!(env.obs().day[0] < 16, "a start day again");
    assert_eq!(env.obs().day[1], 4, "the other one went on");
    let start = env.obs().day[0];
    env.step(&[1.0, 0.0]).unwrap();
    assert_eq!((env.obs().day[0], env.obs().shares[0]), (start + 1, 297));
}

#[test]
fn same_step_shows_the_next_episode_and_keeps_the_final_observation() {
    let env = first_of_two_ends(AutoresetMode::SameStep);
    assert_eq!((env.obs().shares[0], env.obs().cash[0].to_bits()), (0, 30_000.0_f64.to_bits()));
    assert!(env.obs().day[0] < 16);
    let last = env.final_obs();
    assert_eq!((last.day[0], last.shares[0]), (19, 297));
    assert!((last.total_asset[0] - (30_000.0 - 297.0)).abs() < 1e-9);
    assert!((last.cash[0] - (30_000.0 - 297.0 * 101.0)).abs() < 1e-9);
    let mut env = env;
    let start = env.obs().day[0];
    env.step(&[1.0, 0.0]).unwrap();
    assert_eq!((env.ended()[0], env.obs().day[0], env.obs().shares[0]), (false, start + 1, 297));
}

#[test]
fn disabled_refuses_a_step_until_the_mask_resets_the_finished_one() {
    let mut env = first_of_two_ends(AutoresetMode::Disabled);
    let before = env.obs().clone();
    assert_eq!(env.step(&[0.0, 1.0]), Err(EpisodeError::Finished { env: 0 }.into()));
    assert_eq!(env.obs(), &before, "nothing has changed");
    env.reset(ResetSeed::Keep, Some(&[true, false]), None).unwrap();
    assert_eq!((env.obs().day[1], env.obs().shares[1]), (3, before.shares[1]));
    assert_eq!((env.ended()[0], env.truncated()[0]), (false, false));
    env.step(&[0.0, 0.0]).unwrap();
}

#[test]
fn in_every_mode_the_same_actions_give_the_same_episodes() {
    // NEXT_STEP takes two steps for what SAME_STEP does in one and DISABLED with a reset.
    let days = |mode: AutoresetMode| {
        let settings = PortfolioOptions { max_episode_steps: Some(3), ..options(mode) };
        let mut env = env(&crash(60, 99), 3, settings);
        env.reset(ResetSeed::One(11), None, None).unwrap();
        let mut starts = vec![env.obs().day.clone()];
        while starts.len() < 6 {
            env.step(&[0.0; 3]).unwrap();
            let ended = env.ended().to_vec();
            if ended[0] {
                match mode {
                    AutoresetMode::NextStep => env.step(&[0.0; 3]).unwrap(),
                    AutoresetMode::SameStep => {}
                    AutoresetMode::Disabled => {
                        env.reset(ResetSeed::Keep, Some(&ended), None).unwrap();
                    }
                }
                starts.push(env.obs().day.clone());
            }
        }
        starts
    };
    let starts = days(AutoresetMode::NextStep);
    assert_eq!(starts, days(AutoresetMode::SameStep));
    assert_eq!(starts, days(AutoresetMode::Disabled));
    assert!(starts.windows(2).any(|pair| pair[0] != pair[1]), "episodes differ");
}

#[test]
fn streams_depend_on_the_seed_of_their_environment_alone() {
    let starts = |n: usize, seed: ResetSeed<'_>| {
        let mut env = env(&crash(300, 999), n, PortfolioOptions::default());
        env.reset(seed, None, None).unwrap();
        let first = env.obs().day.clone();
        env.reset(ResetSeed::Keep, None, None).unwrap();
        first.into_iter().zip(env.obs().day.clone()).collect::<Vec<_>>()
    };
    let eight = starts(8, ResetSeed::One(40));
    assert_eq!(eight, starts(8, ResetSeed::One(40)));
    assert_ne!(eight, starts(8, ResetSeed::One(50)));
    for (env, pair) in eight.iter().enumerate() {
        assert_eq!(&starts(1, ResetSeed::One(40 + env as u64))[0], pair);
    }
    assert_eq!(starts(2, ResetSeed::Each(&[Some(47), Some(40)])), [eight[7], eight[0]]);
    let spread = starts(3, ResetSeed::Spread(9));
    assert_eq!(starts(3, ResetSeed::EachOrSpread(&[None; 3], 9)), spread);
    let mixed = [spread[0], eight[7], spread[2]];
    assert_eq!(starts(3, ResetSeed::EachOrSpread(&[None, Some(47), None], 9)), mixed);
    assert_eq!(starts(2, ResetSeed::One(u64::MAX))[1], starts(1, ResetSeed::One(0))[0]);
    let distinct: std::collections::HashSet<_> = eight.iter().map(|pair| pair.0).collect();
    assert!(distinct.len() > 4, "neighbouring seeds start apart: {eight:?}");
}

#[test]
fn a_masked_or_unnamed_stream_stays_where_it_is() {
    let mut kept = env(&crash(300, 999), 2, PortfolioOptions::default());
    kept.reset(ResetSeed::One(1), None, None).unwrap();
    let mut touched = kept.clone();
    touched.reset(ResetSeed::One(77), Some(&[true, false]), None).unwrap();
    assert_eq!(touched.obs().day[1], kept.obs().day[1]);
    touched.reset(ResetSeed::Each(&[Some(78), None]), Some(&[true, false]), None).unwrap();
    for env in [&mut kept, &mut touched] {
        env.reset(ResetSeed::Each(&[None, None]), None, None).unwrap();
    }
    assert_eq!(touched.obs().day[1], kept.obs().day[1]);
}

#[test]
fn streams_continue_those_of_another_or_derive_from_its_first() {
    let generators = [Generator::SplitMix64, Generator::Mt19937];
    let begun = |n: usize, generator: Generator, seed: u64| {
        let options = PortfolioOptions { generator, ..PortfolioOptions::default() };
        let mut env = env(&crash(300, 999), n, options);
        env.reset(ResetSeed::One(seed), None, None).unwrap();
        env
    };
    // The next three starts of each sub-environment.
    let starts = |env: &mut PortfolioVectorEnv| {
        let mut of = vec![[0; 3]; env.num_envs()];
        for draw in 0..3 {
            env.reset(ResetSeed::Keep, None, None).unwrap();
            of.iter_mut().zip(&env.obs().day).for_each(|(starts, day)| starts[draw] = *day);
        }
        of
    };
    for (from, to) in generators.into_iter().flat_map(|from| generators.map(|to| (from, to))) {
        let case = format!("{from:?} {to:?}");
        let after = |old: &PortfolioVectorEnv, seed: u64| {
            let mut new = begun(4, to, seed);
            new.continue_streams_of(old);
            starts(&mut new)
        };
        let mut old = begun(2, from, 5);
        let found = after(&old, 900);
        assert_eq!(found, after(&old, 901), "{case}: the own seed is forgotten");
        let rest = starts(&mut old);
        let kept = if from == to { 2 } else { 0 };
        assert_eq!(found[..kept], rest[..kept], "{case}");
        let derived = &found[kept..];
        assert!(derived.windows(2).all(|pair| pair[0] != pair[1]), "{case}: {derived:?}");
        assert!(derived.iter().all(|starts| !rest.contains(starts)), "{case}: {derived:?}");
        // They follow from the seed of the first stream, and from where it stands.
        for other in [&begun(2, from, 6), &old] {
            let others = after(other, 900);
            let pairs = derived.iter().zip(&others[kept..]);
            assert!(pairs.into_iter().all(|(one, other)| one != other), "{case}");
        }
    }
}

#[test]
fn starts_are_uniform_between_the_latest_listing_and_four_fifths() {
    // 40 days; T01 is listed on day 10 and has a gap on days 20 and 21.
    let market = Market::random(1, 3, 40).without(1, (0..10).chain(20..22)).without(2, 0..13);
    let panel = market.panel_with_macros(&["T02"]);
    let starts = |tickers: &[&str], lag: usize, days: Option<(usize, usize)>| {
        let settings = PortfolioOptions {
            tickers: Some(tickers.iter().map(|&name| name.to_owned()).collect()),
            indicator_lag: lag,
            days,
            ..PortfolioOptions::default()
        };
        let mut env = PortfolioVectorEnv::new(panel.clone(), 2_000, settings).unwrap();
        env.reset(ResetSeed::One(9), None, None).unwrap();
        let mut starts = env.obs().day.clone();
        starts.sort_unstable();
        starts.dedup();
        starts
    };
    let expected = |days: std::ops::RangeInclusive<i32>, holes: &[i32]| {
        days.filter(|day| !holes.contains(day)).collect::<Vec<_>>()
    };
    // The macro ticker T02 is listed on day 13; floor(0.8 * 40) - 1 is 31.
    assert_eq!(starts(&["T00"], 0, None), expected(13..=31, &[]));
    assert_eq!(starts(&["T00", "T01"], 0, None), expected(13..=31, &[20, 21]));
    assert_eq!(starts(&["T00", "T01"], 1, None), expected(13..=31, &[20, 21, 22]));
    assert_eq!(starts(&["T01"], 5, None), expected(15..=31, &[20, 21, 25, 26]));
    // The first four fifths of days 15..35 end with day 30. Indicators before day 15 may be shown.
    assert_eq!(starts(&["T00"], 1, Some((15, 35))), expected(15..=30, &[]));
    // Two days are the smallest range: start on the first.
    assert_eq!(starts(&["T00"], 1, Some((38, 40))), [38]);
}

#[test]
fn every_bad_reset_or_step_is_refused_and_changes_nothing() {
    let market = Market::random(2, 3, 20).without(1, [7]).without(0, [7]);
    let tickers = Some(["T00", "T01"].map(str::to_owned).to_vec());
    let mut env = env(&market, 2, PortfolioOptions { tickers, ..PortfolioOptions::default() });
    assert_eq!(env.step(&[0.0; 4]), Err(EpisodeError::NotReset { env: 0 }.into()));
    let some = env.reset(ResetSeed::One(1), Some(&[true, false]), None);
    assert_eq!(some, Err(EpisodeError::LeftOut { env: 1 }.into()));
    assert_eq!(env.step(&[0.0; 4]), Err(EpisodeError::NotReset { env: 0 }.into()));
    env.reset(ResetSeed::One(1), None, Some(&[3, 4])).unwrap();
    env.step(&[0.3, 0.4, 0.5, 0.6]).unwrap();
    let before = env.clone();

    let short = |what, expected, found| -> PortfolioError {
        EpisodeError::BadLength { what, expected, found }.into()
    };
    let bad_day =
        |env, day| PortfolioError::BadStartDay { env, day, first: 1, last: 18, indicator_lag: 1 };
    for (mask, starts, expected) in [
        (Some(&[true][..]), None, short("mask", 2, 1)),
        (Some(&[false, false]), None, EpisodeError::EmptyMask { num_envs: 2 }.into()),
        (None, Some(&[3][..]), short("start_day", 2, 1)),
        (None, Some(&[3, 19]), bad_day(1, 19)),
        (None, Some(&[0, 3]), bad_day(0, 0)),
        (None, Some(&[3, 7]), PortfolioError::StartNotListed { env: 1, day: 7, tickers: 2 }),
        (None, Some(&[usize::MAX, 3]), bad_day(0, usize::MAX)),
    ] {
        assert_eq!(env.reset(ResetSeed::One(99), mask, starts), Err(expected));
    }
    let refused = env.reset(ResetSeed::Each(&[None]), None, None);
    assert_eq!(refused, Err(short("seed", 2, 1)));
    // Start days of environments that are not reset are not checked.
    before.clone().reset(ResetSeed::Keep, Some(&[true, false]), Some(&[3, 999])).unwrap();

    assert_eq!(env.step(&[0.0; 3]), Err(short("actions", 4, 3)));
    for (actions, env_of, ticker_of, number) in [
        (&[0.0, f64::NAN, 0.0, 2.0], 0, "T01", "NaN"),
        (&[0.9, 0.0, f64::INFINITY, 0.0], 1, "T00", "inf"),
        (&[0.9, 0.0, f64::NEG_INFINITY, 0.0], 1, "T00", "-inf"),
        (&[0.9, 0.0, 0.0, 1.000_001], 1, "T01", "1.000001"),
        (&[0.9, 0.0, 0.0, -1.5], 1, "T01", "-1.5"),
    ] {
        let error = env.step(actions).unwrap_err();
        let text = error.to_string();
        let PortfolioError::BadAction { env, ticker, value, .. } = error else { panic!("{text}") };
        assert_eq!((env, &*ticker, &*value.to_string()), (env_of, ticker_of, number), "{text}");
        assert!(text.contains(number), "{text}");
    }
    assert_eq!(env.obs(), before.obs());
    let mut before = before;
    for env in [&mut env, &mut before] {
        env.reset(ResetSeed::Keep, None, None).unwrap();
    }
    assert_eq!(env.obs(), before.obs(), "no stream has moved either");
}

#[test]
fn every_bad_setting_is_refused_with_its_value_and_rule() {
    type Change = fn(&mut PortfolioOptions);
    type IsRight = fn(&PortfolioError) -> bool;
    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }
    /// Returns whether an error is of an option, and names it and the value.
    fn of_option(error: &PortfolioError, name: &str, shown: &str) -> bool {
        let text = error.to_string();
        matches!(error, PortfolioError::BadOption { option, .. } if *option == name)
            && text.contains(&format!("`{name}`"))
            && text.contains(&format!(" {shown},"))
    }
    let market = Market::random(3, 3, 20).without(1, 0..18);
    let panel = market.panel_with_macros(&["T02"]);
    let cases: [(Change, IsRight); 20] = [
        (|o| o.initial_amount = 0.0, |error| of_option(error, "initial_amount", "0")),
        (|o| o.initial_amount = f64::NAN, |error| of_option(error, "initial_amount", "NaN")),
        (
            |o| o.failure_threshold = 30_000.0,
            |error| of_option(error, "failure_threshold", "30000"),
        ),
        (
            |o| o.failure_threshold = f64::NEG_INFINITY,
            |error| of_option(error, "failure_threshold", "-inf"),
        ),
        (|o| o.hmax = 0, |error| of_option(error, "hmax", "0")),
        (|o| o.hmax = 1 << 31, |error| of_option(error, "hmax", "2147483648")),
        (|o| o.buy_cost_pct = 1.0, |error| of_option(error, "buy_cost_pct", "1")),
        (|o| o.buy_cost_pct = -0.01, |error| of_option(error, "buy_cost_pct", "-0.01")),
        (|o| o.sell_cost_pct = f64::NAN, |error| of_option(error, "sell_cost_pct", "NaN")),
        (|o| o.max_episode_steps = Some(0), |error| of_option(error, "max_episode_steps", "0")),
        (
            |o| o.days = Some((0, 21)),
            |error| *error == PortfolioError::BadDays { start: 0, end: 21, panel_days: 20 },
        ),
        (
            |o| o.days = Some((5, 6)),
            |error| matches!(error, PortfolioError::BadDays { start: 5, end: 6, .. }),
        ),
        (
            |o| o.days = Some((9, 3)),
            |error| matches!(error, PortfolioError::BadDays { start: 9, end: 3, .. }),
        ),
        (|o| o.tickers = Some(names(&[])), |error| *error == PortfolioError::NoTickers),
        (
            |o| o.tickers = Some(names(&["T00", "X"])),
            |error| {
                matches!(error, PortfolioError::UnknownTicker { ticker, count: 3, first, .. }
                if ticker == "X" && first == "T00")
            },
        ),
        (
            |o| o.tickers = Some(names(&["<CASH>"])),
            |error| matches!(error, PortfolioError::UnknownTicker { ticker, .. } if ticker == "<CASH>"),
        ),
        (
            |o| o.tickers = Some(names(&["T02"])),
            |error| *error == PortfolioError::MacroTicker { ticker: "T02".to_owned() },
        ),
        (
            |o| o.tickers = Some(names(&["T00", "T00"])),
            |error| {
                matches!(error, PortfolioError::DuplicateTicker { ticker, first: 0, second: 1, .. }
                if ticker == "T00")
            },
        ),
        (
            |o| o.tickers = Some(names(&["T01"])),
            |error| {
                matches!(error, PortfolioError::NoStartDay { low: 19, listed: 18, earliest, .. }
                if earliest == "T01")
            },
        ),
        (
            |o| o.indicator_lag = usize::MAX,
            |error| matches!(error, PortfolioError::NoStartDay { indicator_lag: usize::MAX, .. }),
        ),
    ];
    for (change, is_right) in cases {
        let mut settings =
            PortfolioOptions { tickers: Some(names(&["T00"])), ..PortfolioOptions::default() };
        assert!(PortfolioVectorEnv::new(panel.clone(), 1, settings.clone()).is_ok());
        change(&mut settings);
        let error = PortfolioVectorEnv::new(panel.clone(), 1, settings).unwrap_err();
        assert!(is_right(&error), "{error:?}");
    }
    let limit = (1 << 30) / (8 * 8);
    for num_envs in [0, limit + 1, usize::MAX, usize::MAX / 8] {
        let settings =
            PortfolioOptions { tickers: Some(names(&["T00"])), ..PortfolioOptions::default() };
        let error = PortfolioVectorEnv::new(panel.clone(), num_envs, settings).unwrap_err();
        assert_eq!(
            error,
            PortfolioError::BadNumEnvs { num_envs, limit, tickers: 1, indicators: 2 }
        );
    }
}
