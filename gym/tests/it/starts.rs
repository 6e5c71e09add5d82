//! Start days with histories, tickers of single portfolios, episodes that play on, changed modes,
//! the price of a valuation, and warnings about prices.

use std::collections::BTreeMap;

use crate::market::{Market, actions};
use backcast_gym::{
    AutoresetMode, EpisodeError, PortfolioError, PortfolioOptions, PortfolioVectorEnv, ResetSeed,
    Valuation,
};

/// A change of settings.
type Change = fn(&mut PortfolioOptions);

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

#[test]
fn start_days_have_their_history_where_the_data_allow_it() {
    // T00 has a gap on day 10, T01 on day 22; starts are drawn up to day 31.
    let panel = Market::random(1, 2, 40).without(0, [10]).without(1, [22]).panel();
    let starts = |tickers: &[&str], history_length, history, shift| {
        let options = PortfolioOptions {
            tickers: Some(named(tickers)),
            history_length,
            history,
            ..PortfolioOptions::default()
        };
        let mut env = PortfolioVectorEnv::new(panel.clone(), 2_000, options).unwrap();
        env.reset_shifted(ResetSeed::One(9), None, shift).unwrap();
        let mut starts = env.obs().day.clone();
        starts.sort_unstable();
        starts.dedup();
        starts
    };
    let all = |ranges: &[std::ops::RangeInclusive<i32>]| -> Vec<i32> {
        ranges.iter().cloned().flatten().collect()
    };
    assert_eq!(starts(&["T00"], 0, 0, 0), all(&[1..=9, 12..=31]));
    for (history_length, history) in [(5, 0), (0, 5), (5, 2), (2, 5)] {
        assert_eq!(starts(&["T00"], history_length, history, 0), all(&[5..=9, 16..=31]));
        let both = starts(&["T00", "T01"], history_length, history, 0);
        assert_eq!(both, all(&[5..=9, 16..=21, 28..=31]));
    }
    assert_eq!(starts(&["T00"], 1, 0, 0), all(&[1..=9, 12..=31]));
    // The first start day is day 1, and a shift counts from it.
    assert_eq!(starts(&["T00"], 5, 0, 3), all(&[5..=9, 16..=31]));
    assert_eq!(starts(&["T00"], 5, 0, 7), all(&[8..=9, 16..=31]));
    assert_eq!(starts(&["T00"], 5, 0, 12), all(&[16..=30, 31..=31]));
    assert_eq!(starts(&["T00"], 0, 0, 12), all(&[13..=30, 31..=31]));
    assert_eq!(starts(&["T00"], 5, 0, 30), [31]);
    // No day has so many days before it: their number is not asked for then.
    assert_eq!(starts(&["T00"], 35, 0, 0), all(&[1..=9, 12..=31]));
    assert_eq!(starts(&["T00", "T01"], 12, 0, 0), all(&[1..=9, 12..=21, 24..=31]));
}

#[test]
fn portfolios_have_the_tickers_of_their_own_lists_in_their_order() {
    let market = Market::random(3, 3, 30);
    let options =
        PortfolioOptions { tickers: Some(named(&["T00", "T01"])), ..PortfolioOptions::default() };
    let lists = [named(&["T02", "T00"]), Vec::new(), named(&["T01", "T02"])];
    let mut env = PortfolioVectorEnv::with_tickers(market.panel(), &lists, options).unwrap();
    assert_eq!((env.num_envs(), env.n_tickers(), env.tickers_vary()), (3, 2, true));
    assert_eq!(env.tokens(), [3, 1, 1, 2, 2, 3]);
    env.reset(ResetSeed::One(1), None, Some(&[4, 9, 14])).unwrap();
    let open = |day: usize, ticker: usize| market.rows[day][ticker].unwrap()[0];
    let opens = [open(4, 2), open(4, 0), open(9, 0), open(9, 1), open(14, 1), open(14, 2)];
    assert!(env.obs().open.iter().eq(&opens));
    let unequal = [named(&["T00"]), Vec::new(), named(&["T01", "T02"])];
    let made = |lists: &[Vec<String>]| {
        PortfolioVectorEnv::with_tickers(market.panel(), lists, PortfolioOptions::default())
    };
    let error = PortfolioError::UnequalTickers { env: 2, found: 2, expected: 1 };
    assert_eq!(made(&unequal).unwrap_err(), error);
    let equal = [named(&["T02"]), named(&["T02"])];
    assert!(!made(&equal).unwrap().tickers_vary());
    let other = [named(&["T02"]), named(&["T01"])];
    assert!(made(&other).unwrap().tickers_vary());
    for (shuffle_tickers, num_tickers, vary) in
        [(true, 2, true), (true, 0, false), (false, 2, false)]
    {
        let options =
            PortfolioOptions { shuffle_tickers, num_tickers, ..PortfolioOptions::default() };
        let env = PortfolioVectorEnv::new(market.panel(), 2, options).unwrap();
        assert_eq!(env.tickers_vary(), vary, "{shuffle_tickers} {num_tickers}");
    }
}

#[test]
fn an_episode_plays_on_after_its_end_until_there_are_no_days() {
    let panel = Market::random(3, 1, 12).panel();
    for days in [None, Some((0, 10))] {
        let last = days.map_or(11, |(_, end): (usize, usize)| end - 1);
        let options = PortfolioOptions {
            autoreset_mode: AutoresetMode::Disabled,
            play_on: true,
            max_episode_steps: Some(2),
            failure_threshold: 0.0,
            days,
            ..PortfolioOptions::default()
        };
        let mut env = PortfolioVectorEnv::new(panel.clone(), 2, options).unwrap();
        env.reset(ResetSeed::One(1), None, Some(&[3, 5])).unwrap();
        for day in 6..=last {
            env.step(&[0.5, -0.5]).unwrap();
            assert_eq!(usize::try_from(env.obs().day[1]), Ok(day));
            assert_eq!(env.ended(), [day >= 7; 2], "day {day}");
        }
        let before = env.obs().clone();
        let day = i32::try_from(last).unwrap();
        assert_eq!(env.step(&[0.5, 0.5]), Err(PortfolioError::OutOfDays { env: 1, day }));
        assert_eq!(*env.obs(), before, "nothing has changed");
        // The first portfolio has days left.
        env.reset(ResetSeed::Keep, Some(&[false, true]), Some(&[3, 2])).unwrap();
        env.step(&[0.5, 0.5]).unwrap();
        assert_eq!(env.obs().day, [day - 1, 3]);
    }
}

#[test]
fn a_changed_autoreset_mode_is_that_of_an_environment_made_with_it() {
    let panel = Market::random(3, 2, 60).panel();
    let modes = [AutoresetMode::NextStep, AutoresetMode::SameStep];
    let made = |autoreset_mode| {
        let options = PortfolioOptions {
            autoreset_mode,
            max_episode_steps: Some(3),
            ..PortfolioOptions::default()
        };
        let mut env = PortfolioVectorEnv::new(panel.clone(), 3, options).unwrap();
        env.reset(ResetSeed::One(8), None, None).unwrap();
        env
    };
    for (from, to) in [(modes[0], modes[1]), (modes[1], modes[0])] {
        let (mut changed, mut other) = (made(from), made(to));
        changed.set_autoreset_mode(to).unwrap();
        assert_eq!(changed.options().autoreset_mode, to);
        let mut ends = 0;
        for step in 0..20 {
            let today = actions(step, 6);
            changed.step(&today).unwrap();
            other.step(&today).unwrap();
            assert_eq!(changed.obs(), other.obs(), "{from} {to}, step {step}");
            assert_eq!((changed.ended(), changed.began()), (other.ended(), other.began()));
            if to == AutoresetMode::SameStep {
                assert_eq!(changed.final_obs(), other.final_obs());
            }
            ends += other.ended().iter().filter(|&&ended| ended).count();
        }
        assert!(ends >= 12, "{ends}");
    }
    // An episode that has ended waits for a reset, and begins anew once the mode says so.
    let mut env = made(modes[0]);
    for _ in 0..3 {
        env.step(&[0.0; 6]).unwrap();
    }
    assert_eq!(env.ended(), [true; 3]);
    env.set_autoreset_mode(AutoresetMode::Disabled).unwrap();
    assert_eq!(env.step(&[0.0; 6]), Err(EpisodeError::Finished { env: 0 }.into()));
    env.set_autoreset_mode(AutoresetMode::SameStep).unwrap();
    env.step(&[0.0; 6]).unwrap();
    assert_eq!((env.began(), env.ended()), (&[true; 3][..], &[false; 3][..]));
}

#[test]
fn holdings_are_valued_at_the_price_that_is_asked_for() {
    let market = Market::random(7, 2, 30);
    // The lag of the indicators says which price is meant if none is named.
    for (valuation, lag, column) in [
        (None, 1, 0),
        (None, 0, 3),
        (Some(Valuation::Open), 0, 0),
        (Some(Valuation::Open), 2, 0),
        (Some(Valuation::Close), 0, 3),
        (Some(Valuation::Close), 1, 3),
    ] {
        for num_envs in [1, 9] {
            let options = PortfolioOptions {
                valuation,
                indicator_lag: lag,
                hmax: 90,
                failure_threshold: 0.0,
                ..PortfolioOptions::default()
            };
            let mut env = PortfolioVectorEnv::new(market.panel(), num_envs, options).unwrap();
            env.reset(ResetSeed::One(1), None, Some(&vec![5; num_envs])).unwrap();
            for step in 0..8 {
                env.step(&actions(step, 2 * num_envs)).unwrap();
                for at in 0..num_envs {
                    let obs = env.obs().row(at).unwrap();
                    let rows = &market.rows[usize::try_from(obs.day[0]).unwrap()];
                    let worth = |column: usize| -> f64 {
                        let shares = obs.shares.iter().zip(rows);
                        let held =
                            shares.map(|(&held, row)| f64::from(held) * row.unwrap()[column]);
                        obs.cash[0] + held.sum::<f64>()
                    };
                    assert!(near(obs.total_asset[0], worth(column)), "{valuation:?} {lag}");
                    assert!(near(env.total_asset_at_close()[at], worth(3)));
                }
            }
        }
    }
}

#[test]
fn the_most_at_the_start_has_the_initial_shares_at_their_highest_closes() {
    let market = Market::random(7, 3, 30);
    let shares = BTreeMap::from([("T00".to_owned(), 10), ("T02".to_owned(), 3)]);
    let options = PortfolioOptions { initial_shares: shares, ..PortfolioOptions::default() };
    let env = PortfolioVectorEnv::new(market.panel(), 1, options).unwrap();
    let highest =
        |ticker: usize| market.rows.iter().map(|rows| rows[ticker].unwrap()[3]).fold(0.0, f64::max);
    assert!(near(env.most_at_start(), 30_000.0 + 10.0 * highest(0) + 3.0 * highest(2)));
}

#[test]
fn tickers_of_which_no_share_can_be_bought_are_warned_of() {
    // At 97 a share costs 97 * 1.01 * 1.01 + 1, which is 99.95; at 97.1 it costs 100.05.
    let mut market = Market::random(1, 7, 20).flat(0, &[97.0; 20]).flat(1, &[97.1; 20]);
    // This one is cheap on one day.
    let once: Vec<f64> = (0..20).map(|day| if day == 15 { 50.0 } else { 500.0 }).collect();
    market = market.flat(2, &once);
    for (ticker, price) in [(3, 200.0), (4, 300.0), (5, 400.0), (6, 600.0)] {
        market = market.flat(ticker, &[price; 20]);
    }
    let warned = |tickers: &[&str], change: Change| {
        let mut options = PortfolioOptions {
            initial_amount: 100.0,
            failure_threshold: 0.0,
            buy_cost_pct: 0.01,
            fixed_fee: 1.0,
            slippage_bps: 100.0,
            tickers: Some(named(tickers)),
            ..PortfolioOptions::default()
        };
        change(&mut options);
        PortfolioVectorEnv::new(market.panel(), 1, options).unwrap().price_warnings()
    };
    let none = Vec::<String>::new();
    assert_eq!(warned(&["T00", "T02"], |_| {}), none);
    let [text] = &warned(&["T00", "T01", "T02"], |_| {})[..] else { panic!() };
    assert!(text.contains("\"T01\" at 97.1") && text.contains("no order for it "), "{text}");
    assert!(!text.contains("T00") && !text.contains("T02") && !text.contains(" more;"), "{text}");
    // A day outside the range does not count.
    let [text] = &warned(&["T02"], |options| options.days = Some((0, 15)))[..] else { panic!() };
    assert!(text.contains("\"T02\" at 500"), "{text}");
    assert_eq!(warned(&["T02"], |options| options.days = Some((0, 16))), none);
    let changes: [(Change, bool); 6] = [
        (|options| options.fractional = true, true),
        (|options| options.initial_amount = 100.1, true),
        (|options| options.fixed_fee = 0.9, true),
        (|options| options.buy_cost_pct = 0.009, true),
        (|options| options.slippage_bps = 90.0, true),
        (|options| options.sell_cost_pct = 0.0, false),
    ];
    for (change, helps) in changes {
        assert_eq!(warned(&["T01"], change).is_empty(), helps);
    }
    // Three are named.
    let three = warned(&["T03", "T04", "T05"], |_| {});
    assert!(three[0].contains("\"T05\" at 400;") && three[0].contains("no order for them "));
    let five = warned(&["T01", "T03", "T04", "T05", "T06"], |_| {});
    assert!(five[0].contains("\"T04\" at 300, and 2 more;"), "{}", five[0]);
}

#[test]
fn tickers_of_which_the_largest_holding_is_too_small_are_warned_of() {
    // 2,147,483,647 shares are worth 2,147,483.647 at 0.001.
    let market = Market::random(1, 2, 20).flat(0, &[0.001; 20]).flat(1, &[0.01; 20]);
    for (initial_amount, warnings) in [(2_147_483.0, 0), (2_147_484.0, 1)] {
        let options = PortfolioOptions { initial_amount, ..PortfolioOptions::default() };
        let env = PortfolioVectorEnv::new(market.panel(), 1, options).unwrap();
        let found = env.price_warnings();
        assert_eq!(found.len(), warnings, "{found:?}");
        let names = |text: &String| text.contains("\"T00\" at 0.001;") && !text.contains("T01");
        assert!(found.iter().all(names), "{found:?}");
    }
}
