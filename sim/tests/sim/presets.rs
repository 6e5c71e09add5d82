//! Differences between the presets.

use backcast_sim::{Market, MarketConfig, Preset, Side, SlotRequest};

/// Root mean square of one-minute log returns over 200 minutes of each of three seeds, in basis
/// points.
fn minute_volatility(preset: Preset) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for seed in 0..3 {
        let mut market = Market::new(&preset.config(), seed).unwrap();
        market.run(600);
        let mut last = market.mid(0);
        for _ in 0..200 {
            market.run(60);
            sum += (market.mid(0) / last).ln().powi(2);
            count += 1.0;
            last = market.mid(0);
        }
    }
    1e4 * f64::sqrt(sum / count)
}

#[test]
fn calm_moves_less_than_normal_and_normal_less_than_stressed() {
    let [calm, normal, stressed] =
        [Preset::Calm, Preset::Normal, Preset::Stressed].map(minute_volatility);
    assert!(calm < normal && normal < stressed, "{calm} {normal} {stressed}");
}

/// Profit in cash units of a rule that holds 100 shares long below the shown value and short above.
fn follow_shown_value(config: &MarketConfig, seed: u64) -> i64 {
    let mut market = Market::new(config, seed).unwrap();
    market.run(300);
    for _ in 0..400 {
        let gap = market.shown_value(0) / market.mid(0) - 1.0;
        let position = market.position(0, 0).unwrap();
        let target = if gap.abs() < 0.001 { position } else { 100 * gap.signum() as i32 };
        let side = if target > position { Side::Buy } else { Side::Sell };
        if target != position {
            market.send(0, 0, SlotRequest::market(side, (target - position).abs())).unwrap();
        }
        market.run(10);
    }
    market.equity(0).unwrap() - market.initial_equity(0).unwrap()
}

#[test]
fn teaching_rewards_what_it_shows_and_normal_does_not() {
    let profits = |preset: Preset| -> Vec<i64> {
        (0..8).map(|seed| follow_shown_value(&preset.config(), seed)).collect()
    };
    let teaching = profits(Preset::Teaching);
    let gains = teaching.iter().filter(|profit| **profit > 0).count();
    assert!(gains >= 6, "{teaching:?}");
    let normal = profits(Preset::Normal);
    let (taught, plain) = (teaching.iter().sum::<i64>(), normal.iter().sum::<i64>());
    assert!(taught > 0 && taught > 2 * plain, "{teaching:?} {normal:?}");
}
