//! Tickers that are listed or delisted within an episode, for one portfolio and for many.
#![expect(clippy::float_cmp, reason = "settled to the cent: whole shares at round prices")]

use std::collections::BTreeMap;

use crate::market::{Market, actions};
use backcast_gym::{
    AutoresetMode, Delisting, Margin, PortfolioError, PortfolioOptions, PortfolioVectorEnv,
    ResetSeed,
};

/// T00 is there throughout, T01 leaves after day 29, T02 comes on day 70 of 100: no day has all
/// three.
fn universe() -> Market {
    let market = Market::random(3, 3, 100).without(1, 30..100).without(2, 0..70);
    market.flat(1, &[[10.0; 29].as_slice(), &[12.5]].concat())
}

fn free(options: PortfolioOptions) -> PortfolioOptions {
    PortfolioOptions {
        buy_cost_pct: 0.0,
        sell_cost_pct: 0.0,
        failure_threshold: 0.0,
        hmax: 100,
        autoreset_mode: AutoresetMode::Disabled,
        ..options
    }
}

/// Returns options that trade T00 and T01 only.
fn first_two() -> PortfolioOptions {
    let tickers = Some(vec!["T00".to_owned(), "T01".to_owned()]);
    PortfolioOptions { tickers, ..PortfolioOptions::default() }
}

fn on_day(market: &Market, options: PortfolioOptions, day: usize) -> PortfolioVectorEnv {
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, options).unwrap();
    env.reset(ResetSeed::One(1), None, Some(&[day])).unwrap();
    env
}

#[test]
fn unlisted_tickers_are_masked_and_not_traded() {
    let mut env = on_day(&universe(), free(PortfolioOptions::default()), 68);
    assert!(env.obs().open[0] > 0.0);
    assert_eq!(env.obs().open[1..], [0.0; 2]);
    env.step(&[0.0, 1.0, 1.0]).unwrap();
    assert_eq!((env.obs().shares.as_slice(), env.obs().cash[0]), (&[0; 3][..], 30_000.0));
    env.step(&[0.0, 1.0, 1.0]).unwrap();
    assert!(env.obs().open[2] > 0.0, "listed on day 70");
    env.step(&[0.0, 1.0, 1.0]).unwrap();
    assert_eq!(env.obs().shares, [0, 0, 100]);
}

#[test]
fn a_delisted_holding_is_settled_at_its_last_close_for_nothing() {
    for record in [false, true] {
        let options = PortfolioOptions { record, sell_cost_pct: 0.5, ..Default::default() };
        let options = PortfolioOptions { sell_cost_pct: 0.5, ..free(options) };
        let mut env = on_day(&universe(), options, 28);
        env.step(&[0.0, 1.0, 0.0]).unwrap();
        assert_eq!((env.obs().shares[1], env.obs().cash[0]), (100, 29_000.0));
        // On the ticker's last day, the order for 50 shares is filled at the close, and all 150
        // shares are settled at that close.
        env.step(&[0.0, 0.5, 0.0]).unwrap();
        assert_eq!((env.obs().shares[1], env.obs().avg_buy_price[1]), (0, 0.0));
        assert_eq!(env.obs().cash[0], 29_000.0 - 50.0 * 12.5 + 150.0 * 12.5);
        assert_eq!(env.total_asset_at_close()[0], 30_250.0);
        let metrics = env.metrics_so_far(0).unwrap();
        assert_eq!((metrics.trades, metrics.stop_losses), (2, 0), "a settlement is no order");
        assert_eq!((metrics.costs, env.traded(0)), (0.0, (50, 0.0)));
        if record {
            let settled: Vec<_> = env.fills().iter().filter(|fill| fill.is_settlement).collect();
            assert_eq!((settled.len(), settled[0].quantity, settled[0].price), (1, -150.0, 12.5));
        }
        let reward = env.rewards()[0];
        assert!(
            (reward - (30_250.0_f64 / 30_250.0).ln()).abs() < 1e-12,
            "close to close: {reward}"
        );
    }
}

#[test]
fn a_delisted_position_in_units_is_settled_at_its_last_close_be_it_short_or_a_fraction() {
    let margin = Some(Margin { borrow_rate: 0.0, loan_rate: 0.0, ..Margin::default() });
    let base = free(PortfolioOptions::default());
    let plain = PortfolioOptions { step_info: true, record: true, ..base };
    let fractional = PortfolioOptions { fractional: true, ..plain.clone() };
    let table = [
        ("whole", plain.clone(), 1.0, 100.0),
        ("fraction", fractional.clone(), 0.255, 25.5),
        ("short", PortfolioOptions { margin, ..plain }, -1.0, -100.0),
        ("short fraction", PortfolioOptions { margin, ..fractional }, -0.255, -25.5),
    ];
    for (case, options, action, held) in table {
        let mut env = on_day(&universe(), options, 28);
        env.step(&[0.0, action, 0.0]).unwrap();
        assert_eq!(env.obs().cash[0], 30_000.0 - held * 10.0, "{case}");
        env.step(&[0.0; 3]).unwrap();
        let cash = 30_000.0 + held * 2.5;
        assert_eq!((env.obs().cash[0], env.total_asset_at_close()[0]), (cash, cash), "{case}");
        let kept = env.obs().units.get(1).copied().unwrap_or_else(|| env.obs().shares[1].into());
        assert_eq!((kept, env.obs().avg_buy_price[1]), (0.0, 0.0), "{case}");
        let [fill] = env.fills() else { panic!("{case}: {:?}", env.fills()) };
        let is = (fill.ticker, fill.price, fill.fee, fill.quantity, fill.is_settlement);
        assert_eq!(is, (1, 12.5, 0.0, -held, true), "{case}");
        assert_eq!(env.metrics_so_far(0).unwrap().trades, 1, "{case}: a settlement is no order");
        // Nothing is left that a later day could pay.
        env.step(&[0.0; 3]).unwrap();
        assert_eq!((env.obs().cash[0], env.fills().len()), (cash, 0), "{case}");
    }
}

#[test]
fn units_of_other_tickers_stay_when_one_leaves() {
    let base = free(PortfolioOptions::default());
    let options = PortfolioOptions { fractional: true, ..base };
    let mut env = on_day(&universe(), options, 28);
    env.step(&[0.1, 0.255, 0.0]).unwrap();
    let held = env.obs().units.clone();
    assert!(held[0] > 0.0 && held[1] > 0.0, "{held:?}");
    env.step(&[0.0; 3]).unwrap();
    assert_eq!(*env.obs().units, [held[0], 0.0, 0.0]);
}

#[test]
fn a_delisted_holding_that_is_held_keeps_its_last_close_and_cannot_be_sold() {
    let options = PortfolioOptions { delisting: Delisting::Hold, ..Default::default() };
    let mut env = on_day(&universe(), free(options), 28);
    env.step(&[0.0, 1.0, 0.0]).unwrap();
    env.step(&[0.0, 0.0, 0.0]).unwrap();
    for _ in 30..99 {
        assert_eq!((env.obs().shares[1], env.obs().cash[0]), (100, 29_000.0));
        assert_eq!(env.total_asset_at_close()[0], 30_250.0);
        env.step(&[0.0, -1.0, 0.0]).unwrap();
    }
    assert_eq!((env.obs().day[0], env.obs().shares[1], env.truncated()[0]), (99, 100, true));
}

#[test]
fn a_ticker_that_has_a_row_on_the_last_day_has_left_nothing() {
    // The gap of T01 reaches beyond the days of the environment, but ends before the panel does.
    let market = Market::random(5, 2, 60).without(1, 20..59);
    let options = PortfolioOptions { days: Some((0, 40)), ..Default::default() };
    let mut env = on_day(&market, free(options), 18);
    env.step(&[0.0, 1.0]).unwrap();
    for _ in 19..39 {
        env.step(&[0.0, 0.0]).unwrap();
        assert_eq!(env.obs().shares[1], 100, "a gap, however long");
    }
    assert!(env.truncated()[0]);
}

#[test]
fn drawn_starts_are_days_on_which_some_ticker_is_listed_and_common_ones_where_there_are_any() {
    // Neither T00 nor T01 is listed on days 20 to 29: T00 leaves before, T01 comes after.
    let market = Market::random(4, 3, 100).without(0, 20..100).without(1, 0..30);
    let mut env = PortfolioVectorEnv::new(market.panel(), 400, first_two()).unwrap();
    env.reset(ResetSeed::One(3), None, None).unwrap();
    let days: Vec<i32> = env.obs().day.clone();
    assert!(days.iter().all(|day| (1..20).contains(day) || (31..80).contains(day)), "{days:?}");
    assert!(days.iter().any(|&day| day < 20) && days.iter().any(|&day| day > 30));
    let common = Market::random(4, 3, 100).without(0, 60..100).without(1, 0..30);
    let mut env = PortfolioVectorEnv::new(common.panel(), 400, first_two()).unwrap();
    env.reset(ResetSeed::One(3), None, None).unwrap();
    assert!(env.obs().day.iter().all(|day| (31..60).contains(day)));
}

#[test]
fn a_start_day_needs_one_listed_ticker_and_a_price_for_the_shares_given() {
    let market = Market::random(4, 3, 100).without(0, 20..100).without(1, 0..30);
    let mut env = PortfolioVectorEnv::new(market.panel(), 1, first_two()).unwrap();
    for day in [1, 19, 30, 98] {
        env.reset(ResetSeed::One(1), None, Some(&[day])).unwrap();
    }
    let refused = env.reset(ResetSeed::One(1), None, Some(&[25]));
    assert_eq!(refused, Err(PortfolioError::StartNotListed { env: 0, day: 25, tickers: 2 }));
    let initial_shares = BTreeMap::from([("T01".to_owned(), 10)]);
    let given = PortfolioOptions { initial_shares, ..first_two() };
    let mut env = PortfolioVectorEnv::new(market.panel(), 200, given).unwrap();
    env.reset(ResetSeed::One(1), None, None).unwrap();
    assert!(env.obs().day.iter().all(|&day| day >= 31));
    let refused = env.reset(ResetSeed::One(1), None, Some(&[10; 200]));
    let ticker = "T01".to_owned();
    assert_eq!(
        refused,
        Err(PortfolioError::SharesNotListed { env: 0, day: 10, ticker, listed: 30 })
    );
}

#[test]
fn shares_given_of_a_ticker_that_has_left_are_settled_or_held_at_its_last_close() {
    for (delisting, cash, shares) in
        [(Delisting::Settle, 30_125.0, 0), (Delisting::Hold, 30_000.0, 10)]
    {
        let initial_shares = BTreeMap::from([("T01".to_owned(), 10)]);
        let options = PortfolioOptions { delisting, initial_shares, ..Default::default() };
        let mut env = on_day(&universe(), free(options), 50);
        for _ in 0..2 {
            assert_eq!((env.obs().cash[0], env.obs().shares[1]), (cash, shares));
            assert_eq!(env.total_asset_at_close()[0], 30_125.0);
            env.step(&[0.0, -1.0, 0.0]).unwrap();
        }
    }
}

#[test]
fn one_portfolio_and_each_of_many_are_equal_to_the_last_bit() {
    let market = Market::random(8, 5, 120)
        .without(0, 40..120)
        .without(1, 0..60)
        .without(2, 90..120)
        .without(3, 50..55);
    for delisting in [Delisting::Settle, Delisting::Hold] {
        let options = PortfolioOptions { delisting, ..free(PortfolioOptions::default()) };
        // Sixteen portfolios share a table of their days. A single portfolio reads the panel.
        let mut many = PortfolioVectorEnv::new(market.panel(), 16, options.clone()).unwrap();
        let starts: Vec<usize> = (0..16).map(|env| 1 + env * 4).collect();
        many.reset(ResetSeed::One(9), None, Some(&starts)).unwrap();
        let mut alone: Vec<PortfolioVectorEnv> =
            starts.iter().map(|&day| on_day(&market, options.clone(), day)).collect();
        for step in 0..55 {
            let actions = actions(step, 16 * 5);
            many.step(&actions).unwrap();
            for (at, env) in alone.iter_mut().enumerate() {
                env.step(&actions[at * 5..][..5]).unwrap();
                assert_eq!(many.obs().row(at).as_ref(), Some(env.obs()), "step {step}, {at}");
                assert_eq!(many.rewards()[at].to_bits(), env.rewards()[0].to_bits());
            }
        }
    }
}

#[test]
fn a_ticker_has_its_own_terms_wherever_it_stands_among_those_of_the_panel() {
    let all = Market::random(5, 5, 40).without(3, 30..40);
    let mut alone = all.clone();
    alone.tickers = vec!["T01".to_owned(), "T03".to_owned()];
    alone.rows = all.rows.iter().map(|rows| vec![rows[1], rows[3]]).collect();
    for (record, step_info) in [(false, false), (true, false), (true, true)] {
        for (buy, sell) in [(0.0, 0.5), (0.05, 0.0), (0.05, 0.5)] {
            let options = PortfolioOptions {
                ticker_costs: BTreeMap::from([("T03".to_owned(), (buy, sell))]),
                initial_shares: BTreeMap::from([("T01".to_owned(), 40)]),
                tickers: Some(alone.tickers.clone()),
                stop_loss_tolerance: 0.95,
                failure_threshold: 0.0,
                hmax: 100,
                record,
                step_info,
                ..PortfolioOptions::default()
            };
            let mut among = on_day(&all, options.clone(), 2);
            let mut alone = on_day(&alone, options, 2);
            for step in 0..30 {
                let today = actions(step, 2);
                among.step(&today).unwrap();
                alone.step(&today).unwrap();
                let case = format!("{record} {step_info} {buy} {sell}, step {step}");
                let money = |env: &PortfolioVectorEnv| {
                    let obs = env.obs();
                    let costs = env.metrics_so_far(0).unwrap().costs;
                    (obs.shares.clone(), obs.avg_buy_price.clone(), obs.cash[0], costs)
                };
                assert_eq!(money(&among), money(&alone), "{case}");
            }
            assert!(among.metrics_so_far(0).unwrap().costs > 0.0);
        }
    }
}
