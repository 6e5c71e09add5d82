//! Macro tickers, chosen indicators and earlier days in observations, flat rows and histories, with
//! and without tables that many portfolios share.

use crate::market::{Market, Row, actions};
use backcast_gym::{
    AutoresetMode, EpisodeError, Observation, PortfolioOptions, PortfolioVectorEnv, ResetSeed,
};

/// Days of a history.
const HISTORY: usize = 4;
/// Columns of the panel.
const COLUMNS: usize = 7;

/// Five tickers, of which the last two are macro tickers; two tickers have gaps.
fn market() -> Market {
    Market::random(12, 5, 30).without(1, [6, 7]).without(3, [9])
}

fn options(lag: usize) -> PortfolioOptions {
    PortfolioOptions {
        tickers: Some(["T02", "T00", "T01"].map(str::to_owned).to_vec()),
        macro_tickers: ["T04", "T03"].map(str::to_owned).to_vec(),
        indicator_lag: lag,
        history: HISTORY,
        max_episode_steps: Some(5),
        failure_threshold: 0.0,
        hmax: 40,
        ..PortfolioOptions::default()
    }
}

/// Positions in the market of the tickers and the macro tickers shown.
const SHOWN: [usize; 5] = [2, 0, 1, 4, 3];

fn env(num_envs: usize, options: PortfolioOptions) -> PortfolioVectorEnv {
    let panel = market().panel_with_macros(&["T03", "T04"]);
    PortfolioVectorEnv::new(panel, num_envs, options).unwrap()
}

fn row(market: &Market, day: usize, shown: usize) -> Row {
    market.rows[day][SHOWN[shown]].unwrap_or_default()
}

fn begin(env: &mut PortfolioVectorEnv) {
    let starts: Vec<usize> = (0..env.num_envs()).map(|at| 4 + at).collect();
    env.reset(ResetSeed::One(3), None, Some(&starts)).unwrap();
}

fn day_of(env: &PortfolioVectorEnv, at: usize) -> usize {
    usize::try_from(env.obs().day[at]).unwrap()
}

#[expect(clippy::cast_possible_truncation, reason = "flat rows are in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Returns numbers and flags of the days before `day`, `[H, X, C]` and `[H, X]`.
fn days_before(market: &Market, day: usize, history: usize) -> (Vec<f32>, Vec<u8>) {
    let (mut numbers, mut flags) = (Vec::new(), Vec::new());
    for back in (1..=history).rev() {
        for shown in SHOWN {
            let known = day.checked_sub(back).and_then(|day| market.rows[day][shown]);
            flags.push(u8::from(known.is_some()));
            numbers.extend(known.unwrap_or_default().map(single));
        }
    }
    (numbers, flags)
}

#[test]
fn macro_tickers_and_chosen_indicators_are_shown_in_the_order_that_names_them() {
    let market = market();
    for (num_envs, lag) in [(1, 1), (9, 1), (1, 3), (9, 3), (9, 0)] {
        // Columns of the indicators shown.
        for (names, columns) in [(None, vec![5, 6]), (Some(["y", "x"]), vec![6, 5])] {
            let indicators = names.map(|names: [&str; 2]| names.map(str::to_owned).to_vec());
            let mut env = env(num_envs, PortfolioOptions { indicators, ..options(lag) });
            begin(&mut env);
            for step in 0..12 {
                for at in 0..num_envs {
                    let (day, shown) = (day_of(&env, at), env.obs().row(at).unwrap());
                    let of = |shown: std::ops::Range<usize>, day, columns: &[usize]| {
                        let cells = shown.flat_map(|shown| {
                            let row = row(&market, day, shown);
                            columns.iter().map(move |&column| row[column]).collect::<Vec<_>>()
                        });
                        cells.collect::<Vec<f64>>()
                    };
                    assert_eq!(shown.open, of(0..3, day, &[0]), "day {day}");
                    assert_eq!(shown.macro_open, of(3..5, day, &[0]), "day {day}");
                    assert_eq!(shown.indicators, of(0..3, day - lag, &columns), "day {day}");
                    assert_eq!(shown.macro_indicators, of(3..5, day - lag, &columns), "day {day}");
                }
                env.step(&actions(step, 3 * num_envs)).unwrap();
            }
            let names: Vec<&str> = env.macro_tickers().collect();
            assert_eq!(names, ["T04", "T03"]);
            assert_eq!(env.indicators().len(), 2);
        }
    }
}

#[test]
fn a_history_holds_all_columns_of_the_days_before_and_zeros_before_the_first() {
    let market = market();
    for num_envs in [1, 9] {
        let env = env(num_envs, options(1));
        assert_eq!(env.history_shape(), [HISTORY, 5, COLUMNS]);
        for day in [0, 1, 3, 4, 9, 10, 29] {
            for history in [1, 2, HISTORY, 12] {
                let cells = history * SHOWN.len();
                let (mut numbers, mut flags) = (vec![7.0; cells * COLUMNS], vec![7; cells]);
                env.history_into(num_envs - 1, day, &mut numbers, &mut flags).unwrap();
                let expected = days_before(&market, day, history);
                assert_eq!((numbers, flags), expected, "day {day}, {history} days");
            }
        }
        for (out, mask, what, expected) in
            [(70, 11, "mask", 10), (69, 10, "out", 70), (71, 10, "out", 70)]
        {
            let found = if what == "out" { out } else { mask };
            let (mut numbers, mut flags) = (vec![7.0; out], vec![7; mask]);
            let refused = env.history_into(0, 9, &mut numbers, &mut flags);
            assert_eq!(refused, Err(EpisodeError::BadLength { what, expected, found }.into()));
            assert!(flags.iter().all(|&flag| flag == 7));
        }
    }
}

/// Returns the flat row of one environment, field by field in the order of their names.
fn plainly_flat(market: &Market, obs: &Observation, history: usize) -> Vec<f32> {
    let mut flat: Vec<f32> = obs.avg_buy_price.iter().map(|&price| single(price)).collect();
    flat.extend([single(obs.cash[0]), single(f64::from(obs.day[0]))]);
    let (numbers, flags) = days_before(market, usize::try_from(obs.day[0]).unwrap(), history);
    // Tickers come before days here.
    for shown in 0..SHOWN.len() {
        for day in 0..history {
            let cell = day * SHOWN.len() + shown;
            flat.extend(&numbers[cell * COLUMNS..(cell + 1) * COLUMNS]);
        }
    }
    for shown in 0..SHOWN.len() {
        flat.extend((0..history).map(|day| f32::from(flags[day * SHOWN.len() + shown])));
    }
    for field in [&obs.indicators, &obs.macro_indicators, &obs.macro_open, &obs.open, &obs.units] {
        flat.extend(field.iter().map(|&number| single(number)));
    }
    flat.extend(obs.shares.iter().map(|&held| single(f64::from(held))));
    flat.push(single(obs.total_asset[0]));
    flat
}

#[test]
fn a_flat_row_has_histories_macro_tickers_and_units_in_their_places() {
    let market = market();
    for (num_envs, history, fractional) in
        [(1, HISTORY, false), (9, HISTORY, false), (1, HISTORY, true), (9, 0, true)]
    {
        let made = || env(num_envs, PortfolioOptions { history, fractional, ..options(1) });
        let (mut whole, mut without) = (made(), made().without_indicators_in_obs());
        begin(&mut whole);
        begin(&mut without);
        let width = whole.flat_width();
        assert_eq!(width, 3 * 5 + 2 * 3 + 3 + history * 5 * (COLUMNS + 1));
        for step in 0..9 {
            let rows: Vec<Vec<f32>> = (0..num_envs)
                .map(|at| plainly_flat(&market, &whole.obs().row(at).unwrap(), history))
                .collect();
            for env in [&whole, &without] {
                let mut flat = vec![f32::NAN; num_envs * width];
                env.flatten_into(&mut flat).unwrap();
                assert_eq!(flat, rows.concat(), "step {step}");
                let last = num_envs - 1;
                let mut flat = vec![f32::NAN; width];
                env.flatten_of(last..num_envs, &mut flat).unwrap();
                assert_eq!(flat, rows[last], "step {step}");
            }
            if num_envs == 1 {
                let (numbers, flags) = days_before(&market, day_of(&whole, 0), history);
                let mut flat = vec![f32::NAN; width];
                let shape = whole.history_shape();
                whole.obs().flatten_with_history(&numbers, &flags, shape, &mut flat).unwrap();
                assert_eq!(flat, rows[0], "step {step}");
            }
            let today = actions(step, 3 * num_envs);
            whole.step(&today).unwrap();
            without.step(&today).unwrap();
        }
    }
}

#[test]
fn indicators_that_the_observation_leaves_out_are_read_from_the_table() {
    let settings = || PortfolioOptions { autoreset_mode: AutoresetMode::SameStep, ..options(2) };
    let mut plain = env(9, settings());
    let mut omits = env(9, settings()).without_indicators_in_obs();
    begin(&mut plain);
    begin(&mut omits);
    let mut ends = 0;
    for step in 0..18 {
        let today = actions(step, 27);
        plain.step(&today).unwrap();
        omits.step(&today).unwrap();
        assert!(omits.obs().indicators.iter().all(|number| number.to_bits() == 0));
        for at in 0..9 {
            let shown = plain.obs().row(at).unwrap();
            for env in [&plain, &omits] {
                let [indicators, macros] = env.shown(at);
                assert_eq!((indicators, macros), (&*shown.indicators, &*shown.macro_indicators));
            }
            if plain.ended()[at] {
                let last = plain.final_obs().row(at);
                assert_eq!((plain.final_row(at), omits.final_row(at)), (last.clone(), last));
                ends += 1;
            }
        }
        for env in [&plain, &omits] {
            assert_eq!(env.final_row(9), None);
            let (mut some, mut macros) = (vec![f64::NAN; 3 * 6], vec![f64::NAN; 3 * 4]);
            env.indicators_of(4..7, &mut some, &mut macros).unwrap();
            assert!(some.iter().eq(&plain.obs().indicators[4 * 6..7 * 6]));
            assert!(macros.iter().eq(&plain.obs().macro_indicators[4 * 4..7 * 4]));
            let refused = env.indicators_of(4..7, &mut some, &mut macros[1..]);
            let (what, expected, found) = ("macros", 12, 11);
            assert_eq!(refused, Err(EpisodeError::BadLength { what, expected, found }.into()));
        }
    }
    assert!(ends > 20, "{ends}");
}
