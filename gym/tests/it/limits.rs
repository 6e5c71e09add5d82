//! Rules that cut orders, and calls of the margin.

use crate::market::Market;
use crate::units::{begun, flat, near, options};
use backcast_gym::{Actions, Margin, OrderLimit, PortfolioOptions, PortfolioVectorEnv, RUIN_FLOOR};

#[test]
fn limits_cut_orders_and_say_which_of_them_did() {
    // `flat` has a volume of 1; this market has one of 1,000.
    let market = Market::random(3, 1, 12);
    let close = market.rows[1][0].unwrap()[3];
    let volume = PortfolioOptions { max_volume: Some(0.05), ..options() };
    let mut env = begun(&market, volume, 1);
    env.step(&[1.0]).unwrap();
    let details = env.details().unwrap();
    assert_eq!((details.orders[0], details.fills[0]), (100.0, 50.0));
    assert_eq!(details.limits[0], OrderLimit::Volume);

    let position = PortfolioOptions { max_position: Some(0.1), ..options() };
    let mut env = begun(&market, position, 1);
    env.step(&[1.0]).unwrap();
    let details = env.details().unwrap();
    assert!(near(details.fills[0], (3_000.0 / close).trunc()));
    assert_eq!(details.limits[0], OrderLimit::Position);
    env.step(&[-1.0]).unwrap();
    assert_eq!(env.details().unwrap().limits[0], OrderLimit::Holding);
    assert_eq!(env.obs().shares[0], 0);
    env.step(&[-1.0]).unwrap();
    let details = env.details().unwrap();
    assert_eq!((details.orders[0], details.fills[0]), (-100.0, 0.0));

    let poor = PortfolioOptions { initial_amount: 500.0, ..options() };
    let mut env = begun(&market, poor, 1);
    env.step(&[1.0]).unwrap();
    assert_eq!(env.details().unwrap().limits[0], OrderLimit::Funds);
}

#[test]
fn a_fall_below_maintenance_closes_everything_and_ruin_ends_the_episode() {
    let margin = Some(Margin { initial: 0.5, maintenance: 0.3, ..Margin::default() });
    let settings = PortfolioOptions {
        actions: Actions::Weights { leverage: 2.0 },
        hmax: 15,
        margin,
        ..options()
    };
    // 6,000 shares at 10 with 30,000 owed: at 7 the equity is 12,000 of 42,000.
    let mut env = begun(&flat(&[10.0, 10.0, 7.0, 7.0, 7.0]), settings.clone(), 1);
    env.step(&[2.0]).unwrap();
    assert_eq!((env.obs().shares[0], env.obs().cash[0]), (6_000, -30_000.0));
    assert!(!env.details().unwrap().liquidated[0]);
    // The order of the day would make the position smaller; here it keeps it.
    env.step(&[2.0]).unwrap();
    let details = env.details().unwrap();
    // 2 * 12,000 / 7 = 3,428.6 is the target, so the order alone brings the margin back.
    assert_eq!((details.liquidated[0], env.obs().shares[0]), (false, 3_429));

    let shares = PortfolioOptions { actions: Actions::Shares, hmax: 6_000, ..settings.clone() };
    let mut env = begun(&flat(&[10.0, 10.0, 7.0, 7.0, 7.0]), shares, 1);
    env.step(&[1.0]).unwrap();
    env.step(&[0.0]).unwrap();
    assert!(env.details().unwrap().liquidated[0]);
    assert_eq!((env.obs().shares[0], env.obs().cash[0]), (0, 12_000.0));

    let mut env = begun(&flat(&[10.0, 10.0, 4.0, 4.0, 4.0]), settings, 1);
    env.step(&[2.0]).unwrap();
    assert!(env.terminated()[0]);
    assert!((env.rewards()[0] - RUIN_FLOOR.ln()).abs() < 1e-12);
}

#[test]
fn orders_without_a_row_or_a_price_say_so_and_fill_nothing() {
    let gap = Market::random(3, 2, 8).without(0, [2]);
    let mut forbidden = vec![true; 16];
    forbidden[2] = false;
    let margin = Some(Margin::default());
    let plain = Market::random(3, 2, 8);
    let mut still = plain.clone();
    still.rows[2][0].as_mut().unwrap()[4] = 0.0;
    let table = [
        ("no row", &gap, options(), OrderLimit::Listing),
        (
            "not tradable",
            &plain,
            PortfolioOptions { tradable: Some(forbidden), ..options() },
            OrderLimit::Listing,
        ),
        (
            "a sale below nothing",
            &plain,
            PortfolioOptions { slippage_per_share: 1e4, margin, ..options() },
            OrderLimit::Price,
        ),
        (
            "an impact without a volume",
            &still,
            PortfolioOptions { impact_bps: 10.0, margin, ..options() },
            OrderLimit::Price,
        ),
    ];
    for (case, market, options, expected) in table {
        let mut env = begun(market, options, 1);
        env.step(&[0.0, 0.0]).unwrap();
        assert_eq!(env.details().unwrap().limits[0], OrderLimit::None, "{case}");
        env.step(&[-1.0, 0.0]).unwrap();
        let details = env.details().unwrap();
        assert_eq!((details.limits[0], details.orders[0]), (expected, -100.0), "{case}");
        assert_eq!((details.fills[0].to_bits(), env.obs().shares[0]), (0, 0), "{case}");
        assert_eq!(env.obs().cash[0].to_bits(), 30_000.0_f64.to_bits(), "{case}");
    }
}

#[test]
fn positions_that_cannot_be_traded_are_not_liquidated() {
    let shares = PortfolioOptions {
        hmax: 6_000,
        margin: Some(Margin { initial: 0.5, maintenance: 0.3, ..Margin::default() }),
        ..options()
    };
    // 6,000 shares at 10 with 30,000 owed. At 7 on day 3 the equity is 12,000 of 42,000.
    let mut prices = Market::random(1, 2, 7).flat(0, &[10.0, 10.0, 10.0, 7.0, 7.0, 7.0, 7.0]);
    prices = prices.flat(1, &[1.0; 7]);
    let mut closed = vec![true; 14];
    closed[3] = false;
    let tradable = PortfolioOptions { tradable: Some(closed), ..shares.clone() };
    let mut unmoved = prices.clone();
    unmoved.rows[3][0].as_mut().unwrap()[4] = 0.0;
    let impact = PortfolioOptions { impact_bps: 1e-9, ..shares };
    for (market, options) in [(&prices, tradable), (&unmoved, impact)] {
        let mut env = begun(market, options, 2);
        env.step(&[1.0, 0.0]).unwrap();
        assert!((5_990..=6_000).contains(&env.obs().shares[0]));
        env.step(&[0.0, 0.0]).unwrap();
        let details = env.details().unwrap();
        assert_eq!((details.liquidated[0], details.fills[0].to_bits()), (false, 0));
        // The next day everything is closed.
        env.step(&[0.0, 0.0]).unwrap();
        let details = env.details().unwrap();
        assert!(details.liquidated[0] && details.fills[0] < 0.0);
        assert_eq!(env.obs().shares[0], 0);
    }
}

#[test]
fn a_liquidation_closes_longs_before_shorts_and_keeps_what_cannot_be_traded() {
    // 30,000 of equity and 50,000 of positions. On day 3 it is 10,000 of 50,000.
    let market = Market::random(1, 4, 7)
        .flat(0, &[10.0, 10.0, 10.0, 15.0, 15.0, 15.0, 15.0])
        .flat(1, &[10.0, 10.0, 10.0, 5.0, 5.0, 5.0, 5.0])
        .flat(2, &[10.0; 7])
        .flat(3, &[10.0; 7]);
    let mut tradable = vec![true; 28];
    tradable[2 * 7 + 3] = false;
    let options = PortfolioOptions {
        hmax: 2_000,
        margin: Some(Margin { initial: 0.5, maintenance: 0.3, ..Margin::default() }),
        tradable: Some(tradable),
        record: true,
        ..options()
    };
    let mut env = begun(&market, options, 2);
    let filled = |env: &PortfolioVectorEnv| -> Vec<(usize, f64)> {
        env.fills().iter().map(|fill| (fill.ticker, fill.quantity)).collect()
    };
    env.step(&[-1.0, 1.0, 0.5, 0.0]).unwrap();
    assert_eq!(filled(&env), [(0, -2_000.0), (1, 2_000.0), (2, 1_000.0)]);
    env.step(&[0.0; 4]).unwrap();
    assert_eq!(filled(&env), [(1, -2_000.0), (0, 2_000.0)]);
    assert_eq!(env.obs().shares, [0, 0, 1_000, 0]);
    assert!(env.details().unwrap().liquidated[0]);
}

#[test]
fn a_position_without_a_row_waits_for_one_while_the_others_are_liquidated() {
    // 3,000 shares of each at 10, with 30,000 owed. On day 3 the second falls to 4, so that the
    // equity is 12,000 of 42,000, and the first has no row.
    let market = Market::random(1, 2, 7)
        .flat(0, &[10.0; 7])
        .flat(1, &[10.0, 10.0, 10.0, 4.0, 4.0, 4.0, 4.0])
        .without(0, [3]);
    let options = PortfolioOptions {
        hmax: 3_000,
        margin: Some(Margin { initial: 0.5, maintenance: 0.3, ..Margin::default() }),
        ..options()
    };
    let mut env = begun(&market, options, 2);
    env.step(&[1.0, 1.0]).unwrap();
    assert_eq!(env.obs().shares, [3_000, 3_000]);
    env.step(&[0.0, 0.0]).unwrap();
    let details = env.details().unwrap();
    assert!(details.liquidated[0]);
    assert!(near(details.fills[0], 0.0) && near(details.fills[1], -3_000.0));
    assert_eq!(env.obs().shares, [3_000, 0]);
    assert!(near(env.obs().cash[0], -18_000.0));
}
