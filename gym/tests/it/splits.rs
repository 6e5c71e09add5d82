//! Splits in the prices of an environment: what is warned of, and what units become over them.

use crate::market::Market;
use crate::units::{begun, flat, near, options};
use backcast_gym::{PortfolioOptions, PortfolioVectorEnv};

#[test]
fn a_column_of_splits_that_the_prices_contradict_is_warned_of() {
    let mut raw = flat(&[10.0, 10.0, 4.0, 4.1, 4.2]);
    raw.rows[2][0].as_mut().unwrap()[5] = 2.5;
    let mut adjusted = flat(&[4.0, 4.0, 4.0, 4.1, 4.2]);
    adjusted.rows[2][0].as_mut().unwrap()[5] = 2.5;
    let warned = |market: &Market, splits: Option<&str>| {
        let splits = splits.map(str::to_owned);
        let options = PortfolioOptions { splits, ..options() };
        PortfolioVectorEnv::new(market.panel(), 1, options).unwrap().price_warnings()
    };
    assert_eq!(warned(&raw, Some("x")), Vec::<String>::new());
    assert_eq!(warned(&adjusted, None), Vec::<String>::new(), "no name says that x are splits");
    let [text] = &warned(&adjusted, Some("x"))[..] else { panic!() };
    assert!(text.contains("column \"x\" has a split of \"T00\""), "{text}");
}

#[test]
fn units_that_are_held_follow_splits_and_earn_dividends() {
    let mut market = Market::random(1, 2, 8).flat(0, &[10.0, 10.0, 4.0, 3.8, 3.8, 3.8, 3.8, 3.8]);
    market.rows[2][0].as_mut().unwrap()[5] = 2.5;
    market.rows[3][0].as_mut().unwrap()[6] = 0.2;
    market = market.without(0, [4]).flat(1, &[5.0; 8]).without(1, [0, 1, 2]);
    // The second ticker has its first bar after a split, and with a dividend.
    let first = market.rows[3][1].as_mut().unwrap();
    (first[5], first[6]) = (2.0, 0.5);
    let record = PortfolioOptions { record: true, ..options() };
    let named = PortfolioOptions {
        splits: Some("x".to_owned()),
        dividends: Some("y".to_owned()),
        ..record.clone()
    };
    for (options, units, worth) in [
        (named, [1.0, 2.5, 2.5, 2.5], [10.0, 10.0, 10.0, 10.0]),
        (record, [1.0; 4], [10.0, 4.0, 3.8, 3.8]),
    ] {
        let mut env = begun(&market, options, 1);
        for _ in 0..3 {
            env.step(&[0.0, 0.0]).unwrap();
        }
        let held = env.held_units(0, false).unwrap();
        let of = |numbers: &[f64], at| -> Vec<f64> {
            numbers.chunks(2).map(|day: &[f64]| day[at]).collect()
        };
        for (found, expected) in [
            (of(&held.units, 0), units),
            (of(&held.worth, 0), worth),
            (of(&held.units, 1), [1.0; 4]),
            (of(&held.worth, 1), [0.0, 0.0, 5.0, 5.0]),
        ] {
            let same = found.iter().zip(expected).all(|(&one, other)| near(one, other));
            assert!(same && found.len() == 4, "{found:?} {expected:?}");
        }
        assert_eq!(env.held_units(1, false), None);
    }
    assert_eq!(begun(&market, options(), 1).held_units(0, false), None, "not recorded");
}
