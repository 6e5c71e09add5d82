//! Books of portfolios with a margin, against books that the test keeps by the written rules.

use crate::market::{Market, actions};
use crate::units::{begun, flat, near, options};
use backcast_gym::{Actions, Margin, OrderLimit, PortfolioOptions, PortfolioVectorEnv, ResetSeed};
use proptest::prelude::*;

/// Terms of the books below.
struct Terms {
    hmax: f64,
    buy_pct: f64,
    sell_pct: f64,
    fixed: f64,
    slippage: f64,
    per_share: f64,
    impact: f64,
    initial: f64,
    borrow: f64,
    loan: f64,
}

/// Result of one step of the books.
#[derive(Clone, Debug, Default)]
struct Step {
    orders: [f64; 2],
    fills: [f64; 2],
    cut: [bool; 2],
    fees: f64,
    slippage: f64,
    impact: f64,
    borrow: f64,
    interest: f64,
    traded: f64,
    shares: f64,
    executed: u32,
}

/// Cash, positions and average prices of two tickers.
#[derive(Clone, Debug)]
struct Books {
    cash: f64,
    held: [f64; 2],
    average: [f64; 2],
}

impl Books {
    /// Returns the equity and the value of all positions at the closes.
    fn balance(&self, closes: [f64; 2]) -> (f64, f64) {
        let value = |at: usize| self.held[at] * closes[at];
        (self.cash + value(0) + value(1), value(0).abs() + value(1).abs())
    }

    /// Returns the books after `signed` shares were traded for `flow` of cash.
    fn after(&self, ticker: usize, signed: f64, flow: f64) -> Self {
        let mut after = self.clone();
        after.cash += flow;
        after.held[ticker] += signed;
        let (held, left) = (self.held[ticker], after.held[ticker]);
        after.average[ticker] = if held * signed >= 0.0 {
            (held.abs() * self.average[ticker] + flow.abs()) / left.abs()
        } else if left == 0.0 {
            0.0
        } else if held * left > 0.0 {
            self.average[ticker]
        } else {
            flow.abs() / signed.abs()
        };
        after
    }

    /// Executes one order: as many shares as leave the initial margin, and those that make the
    /// position smaller in any case. Every number of shares is tried, from the largest.
    fn execute(&mut self, terms: &Terms, ticker: usize, closes: [f64; 2], step: &mut Step) {
        let (order, close) = (step.orders[ticker], closes[ticker]);
        let side = order.signum();
        let impact = close * terms.impact * (order.abs() / 1_000.0).sqrt();
        let worse = close * terms.slippage + terms.per_share;
        let price = close + side * (worse + impact);
        let pct = if order > 0.0 { terms.buy_pct } else { terms.sell_pct };
        let closing = if self.held[ticker] * order < 0.0 { self.held[ticker].abs() } else { 0.0 };
        let mut count = order.abs();
        while count > 0.0 {
            let fee = price * count * pct + terms.fixed;
            let after = self.after(ticker, side * count, -side * price * count - fee);
            let (equity, gross) = after.balance(closes);
            if count <= closing || equity >= terms.initial * gross {
                *self = after;
                step.fees += fee;
                step.slippage += worse * count;
                step.impact += impact * count;
                step.fills[ticker] = side * count;
                step.traded += price * count;
                step.shares += count;
                step.executed += 1;
                break;
            }
            count -= 1.0;
        }
        step.cut[ticker] = count < order.abs();
    }

    /// Takes one day: sales first, then purchases, both the largest first; then what short
    /// positions and owed cash cost.
    fn step(&mut self, terms: &Terms, actions: &[f64], closes: [f64; 2]) -> Step {
        let mut step = Step::default();
        for (order, action) in step.orders.iter_mut().zip(actions) {
            *order = (action * terms.hmax).trunc();
        }
        let mut sequence: Vec<usize> = (0..2).filter(|&at| step.orders[at].abs() > 0.0).collect();
        let [first, second] = step.orders;
        let sides_differ = (first > 0.0) != (second > 0.0);
        let second_is_first = if sides_differ { first > 0.0 } else { second.abs() > first.abs() };
        if second_is_first {
            sequence.reverse();
        }
        for ticker in sequence {
            self.execute(terms, ticker, closes, &mut step);
        }
        let short: f64 = (0..2).map(|at| (-self.held[at]).max(0.0) * closes[at]).sum();
        step.borrow = short * terms.borrow;
        step.interest = (-self.cash).max(0.0) * terms.loan;
        self.cash -= step.borrow + step.interest;
        step
    }
}

/// Compares one portfolio of two with its books after a step.
fn same(env: &PortfolioVectorEnv, at: usize, books: &Books, step: &Step) -> Result<(), String> {
    let (obs, details) = (env.obs(), env.details().unwrap());
    let mut pairs = vec![
        ("cash", obs.cash[at], books.cash),
        ("fees", details.fees[at], step.fees),
        ("slippage", details.slippage[at], step.slippage),
        ("impact", details.impact[at], step.impact),
        ("borrow", details.borrow[at], step.borrow),
        ("interest", details.interest[at], step.interest),
        ("traded value", env.steps().traded[at], step.traded),
        ("costs", env.steps().costs[at], details.costs(at)),
    ];
    for ticker in 0..2 {
        let place = 2 * at + ticker;
        pairs.extend([
            ("held", f64::from(obs.shares[place]), books.held[ticker]),
            ("average", obs.avg_buy_price[place], books.average[ticker]),
            ("order", details.orders[place], step.orders[ticker]),
            ("fill", details.fills[place], step.fills[ticker]),
        ]);
        let limit = if step.cut[ticker] { OrderLimit::Funds } else { OrderLimit::None };
        if details.limits[place] != limit {
            return Err(format!("limit {limit:?}, found {:?}", details.limits[place]));
        }
    }
    let wrong = pairs
        .into_iter()
        .find(|&(_, found, expected)| (found - expected).abs() > 1e-6 * expected.abs().max(1.0));
    wrong.map_or(Ok(()), |(name, found, expected)| {
        Err(format!("{name} of {at}: {found}, not {expected}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(backcast_budget::cases(100)))]

    #[test]
    fn every_order_gets_the_most_shares_that_leave_the_initial_margin(
        seed in 0..1_000_u64,
        initial in 0.3..1.0_f64,
        fixed in prop_oneof![Just(0.0), 0.0..30.0_f64],
        buy_pct in 0.0..0.01_f64,
        sell_pct in 0.0..0.01_f64,
        slippage_bps in 0.0..50.0_f64,
        per_share in 0.0..0.1_f64,
        impact_bps in prop_oneof![Just(0.0), 1.0..50.0_f64],
    ) {
        let market = Market::random(seed, 2, 40);
        let margin = Margin { initial, maintenance: 0.0, borrow_rate: 0.9, loan_rate: 0.6 };
        let settings = PortfolioOptions {
            hmax: 500,
            margin: Some(margin),
            fixed_fee: fixed,
            buy_cost_pct: buy_pct,
            sell_cost_pct: sell_pct,
            slippage_bps,
            slippage_per_share: per_share,
            impact_bps,
            ..options()
        };
        let mut env = PortfolioVectorEnv::new(market.panel(), 2, settings).unwrap();
        let starts = [2, 7];
        env.reset(ResetSeed::One(seed), None, Some(&starts)).unwrap();
        let a_year = env.panel().bars_per_year();
        let terms = Terms {
            hmax: 500.0,
            buy_pct,
            sell_pct,
            fixed,
            slippage: slippage_bps / 10_000.0,
            per_share,
            impact: impact_bps / 10_000.0,
            initial,
            borrow: 0.9 / a_year,
            loan: 0.6 / a_year,
        };
        let empty = Books { cash: 30_000.0, held: [0.0; 2], average: [0.0; 2] };
        let mut books = [empty.clone(), empty];
        let (mut costs, mut trades) = ([0.0; 2], [0; 2]);
        'days: for day in 0..25 {
            let today = actions(seed ^ (day as u64), 4);
            env.step(&today).unwrap();
            for (at, books) in books.iter_mut().enumerate() {
                let rows = &market.rows[starts[at] + day];
                let closes = [0, 1].map(|ticker: usize| rows[ticker].unwrap()[3]);
                let step = books.step(&terms, &today[2 * at..2 * at + 2], closes);
                if books.balance(closes).0 <= 0.0 {
                    break 'days;
                }
                let compared = same(&env, at, books, &step);
                prop_assert!(compared.is_ok(), "day {day}: {compared:?}");
                prop_assert!(near(f64_of(env.traded(at).0), step.shares));
                costs[at] += env.details().unwrap().costs(at);
                trades[at] += step.executed;
                let metrics = env.metrics_so_far(at).unwrap();
                prop_assert!(near(metrics.costs, costs[at]));
                prop_assert_eq!(metrics.trades, trades[at]);
            }
            if env.ended().contains(&true) {
                break;
            }
        }
        prop_assert!(trades[0] > 0 && trades[1] > 0);
    }
}

fn f64_of(shares: i64) -> f64 {
    f64::from(i32::try_from(shares).unwrap())
}

#[test]
fn an_equity_of_just_the_maintenance_margin_is_enough() {
    // All of the initial margin is used, and the maintenance margin is as large.
    let margin = Some(Margin { initial: 0.5, maintenance: 0.5, ..Margin::default() });
    for (second, liquidated) in [(10.0, false), (9.99, true)] {
        let settings = PortfolioOptions { hmax: 6_000, margin, ..options() };
        let mut env = begun(&flat(&[10.0, 10.0, second, second, second]), settings, 1);
        env.step(&[1.0]).unwrap();
        assert_eq!((env.obs().shares[0], env.obs().cash[0]), (6_000, -30_000.0));
        assert!(!env.details().unwrap().liquidated[0]);
        env.step(&[0.0]).unwrap();
        assert_eq!(env.details().unwrap().liquidated[0], liquidated);
        assert_eq!(env.obs().shares[0], if liquidated { 0 } else { 6_000 });
    }
}

#[test]
fn an_equity_of_nothing_ends_the_episode_whatever_the_threshold() {
    // 6,000 shares with 30,000 owed are worth nothing at 5.
    for (price, ends) in [(5.0, true), (5.01, false), (4.0, true)] {
        let settings = PortfolioOptions {
            hmax: 6_000,
            margin: Some(Margin::default()),
            failure_threshold: -1e9,
            ..options()
        };
        let mut env = begun(&flat(&[10.0, 10.0, price, price, price]), settings, 1);
        env.step(&[1.0]).unwrap();
        assert_eq!((env.terminated()[0], env.truncated()[0]), (ends, false), "{price}");
        assert!(near(env.total_asset_at_close()[0], 6_000.0 * price - 30_000.0));
    }
}

#[test]
fn the_most_of_a_position_and_of_a_volume_cut_both_sides_and_never_reverse_an_order() {
    // Closes are 10, then 20 from day 3 on; 1,000 are traded a day.
    let mut market = flat(&[10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 20.0, 20.0]);
    for rows in &mut market.rows {
        rows[0].as_mut().unwrap()[4] = 1_000.0;
    }
    let limited = PortfolioOptions {
        margin: Some(Margin::default()),
        max_position: Some(0.25),
        hmax: 1_000,
        ..options()
    };
    // A quarter of 30,000 is 750 shares at 10.
    for side in [1.0, -1.0] {
        let mut env = begun(&market, limited.clone(), 1);
        env.step(&[side]).unwrap();
        let details = env.details().unwrap();
        assert_eq!((details.fills[0], details.limits[0]), (750.0 * side, OrderLimit::Position));
        env.step(&[-0.75 * side]).unwrap();
        assert_eq!(env.details().unwrap().limits[0], OrderLimit::None);
        // An order that just reaches the limit is not cut.
        env.step(&[0.375 * side]).unwrap();
        assert_eq!(env.details().unwrap().limits[0], OrderLimit::None);
        let equity = env.total_asset_at_close()[0];
        assert!(near(equity, 30_000.0) && env.obs().shares[0].abs() == 375, "{equity}");
    }
    // 750 shares bought at 10 are worth 15,000 at 20, of 37,500: the limit is 468 shares.
    let mut env = begun(&market, limited, 2);
    env.step(&[1.0]).unwrap();
    env.step(&[0.1]).unwrap();
    let details = env.details().unwrap();
    assert_eq!((details.fills[0].to_bits(), details.limits[0]), (0, OrderLimit::Position));
    env.step(&[-0.1]).unwrap();
    let details = env.details().unwrap();
    assert_eq!((details.fills[0], details.limits[0]), (-100.0, OrderLimit::None));
    env.step(&[-1.0]).unwrap();
    let filled = env.details().unwrap().fills[0];
    assert!(near(filled, -1_000.0), "short by 350, within the limit");

    let volume = PortfolioOptions {
        margin: Some(Margin::default()),
        max_volume: Some(0.05),
        hmax: 1_000,
        ..options()
    };
    for side in [1.0, -1.0] {
        let mut env = begun(&market, volume.clone(), 1);
        for step in 1..4 {
            env.step(&[side]).unwrap();
            let details = env.details().unwrap();
            assert_eq!((details.fills[0], details.limits[0]), (50.0 * side, OrderLimit::Volume));
            assert!(near(details.orders[0], 1_000.0 * side));
            assert!(near(f64::from(env.obs().shares[0]), 50.0 * side * f64::from(step)));
        }
        env.step(&[0.05 * side]).unwrap();
        assert_eq!(env.details().unwrap().limits[0], OrderLimit::None);
    }
}

#[test]
fn splits_that_leave_part_of_a_share_pay_for_it_and_come_before_dividends() {
    // Ratio of the split, dividend of the day after the order, shares ordered, shares left.
    for (ratio, dividend, ordered, left) in [
        (0.1, 0.0, 15_i32, 1),
        (0.1, 0.0, 9, 0),
        (0.1, 0.0, -15, -1),
        (0.1, 0.0, -9, 0),
        // A third, rounded: three shares become a whole one.
        (0.333_333_333_333, 0.0, 3, 1),
        (2.0, 0.5, 100, 200),
        (2.0, 0.5, -100, -200),
        (0.0, 0.5, 40, 40),
        (1.0, 0.0, 7, 7),
    ] {
        let case = format!("{ratio} {dividend} {ordered}");
        let after = if ratio > 0.0 { 10.0 / ratio } else { 10.0 };
        let mut market = flat(&[10.0, 10.0, after, after, after]);
        let row = market.rows[2][0].as_mut().unwrap();
        (row[5], row[6]) = (ratio, dividend);
        let settings = PortfolioOptions {
            margin: Some(Margin::default()),
            splits: Some("x".to_owned()),
            dividends: Some("y".to_owned()),
            hmax: 1_000,
            ..options()
        };
        let mut env = begun(&market, settings, 1);
        // Half a share more is cut towards zero.
        env.step(&[f64::from(2 * ordered + ordered.signum()) / 2_000.0]).unwrap();
        let details = env.details().unwrap();
        assert_eq!((details.fills[0], env.obs().shares[0]), (f64::from(ordered), left), "{case}");
        let paid = dividend * f64::from(left);
        assert!((details.dividends[0] - paid).abs() < 1e-9, "{case}");
        // A split changes no value, and a dividend adds to it.
        let value = env.total_asset_at_close()[0];
        assert!((value - 30_000.0 - paid).abs() < 1e-4, "{case}: {value}");
        let average = if left == 0 { 0.0 } else { after };
        assert!((env.obs().avg_buy_price[0] - average).abs() < 1e-6, "{case}");
        assert!(near(env.details().unwrap().costs(0), 0.0), "{case}");
    }
}

#[test]
fn a_weight_of_a_ticker_that_has_had_no_price_is_refused_and_one_of_nothing_is_none() {
    let market = Market::random(1, 2, 20).flat(0, &[10.0; 20]).without(1, 0..10);
    let settings =
        PortfolioOptions { actions: Actions::Weights { leverage: 1.0 }, hmax: 15, ..options() };
    let mut env = begun(&market, settings, 2);
    for (weight, limit) in [(0.5, OrderLimit::Listing), (0.0, OrderLimit::None)] {
        env.step(&[0.5, weight]).unwrap();
        let details = env.details().unwrap();
        assert_eq!((details.orders[1].to_bits(), details.fills[1].to_bits()), (0, 0));
        assert_eq!(details.limits, [OrderLimit::None, limit]);
        assert_eq!((env.obs().shares[0], env.obs().cash[0]), (1_500, 15_000.0));
    }
}
