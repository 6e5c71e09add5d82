//! Features: the registry, bounds, equality by seed, no dead entries, what is hidden.

use backcast_sim::{
    FeatureSet, FullFeatures, Market, NormalisedFeatures, ObserveError, Preset, PrivateFeatures,
    Side, SlotRequest,
};

const PRIVATE: PrivateFeatures = PrivateFeatures { slot: 0, time_left: 0.25 };

fn sets() -> [(&'static str, &'static dyn FeatureSet, usize); 3] {
    [
        ("full", &FullFeatures, 55),
        ("normalised", &NormalisedFeatures, 40),
        ("private", &PRIVATE, 11),
    ]
}

#[test]
fn every_registry_has_unique_names_and_finite_bounds_around_its_missing_value() {
    for (name, set, count) in sets() {
        assert_eq!(set.count(), count, "{name}");
        let mut names: Vec<&str> = set.features().iter().map(|feature| feature.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{name}: a name stands twice");
        for feature in set.features() {
            assert!(feature.low.is_finite() && feature.high.is_finite(), "{}", feature.name);
            assert!((feature.low..=feature.high).contains(&feature.missing), "{}", feature.name);
        }
    }
    assert_ne!(FullFeatures.fingerprint(), NormalisedFeatures.fingerprint());
}

#[test]
fn the_full_set_keeps_the_indices_of_the_note_and_the_one_it_does_not_count() {
    let name = |index: usize| FullFeatures.features()[index].name;
    for (index, expected) in [
        (0, "f_mid_price"),
        (1, "f_price_change_1"),
        (12, "f_price_change_64"),
        (13, "f_log_return_1"),
        (24, "f_log_return_64"),
        (29, "f_rsi_8"),
        (37, "f_atr_8"),
        (41, "f_news_ticks_remaining"),
        (42, "f_spread_bps"),
        (53, "f_trade_intensity"),
        (54, "f_sentiment_price_gap"),
    ] {
        assert_eq!(name(index), expected);
    }
}

#[test]
fn observations_are_finite_within_bounds_and_equal_for_equal_seeds() {
    for preset in Preset::ALL {
        let config = preset.config();
        let mut left = Market::new(&config, 4).unwrap();
        let mut right = Market::new(&config, 4).unwrap();
        for tick in 0..1_500 {
            for market in [&mut left, &mut right] {
                market.send(0, 0, SlotRequest::market(Side::Buy, 1 + tick % 3)).unwrap();
                market.tick();
            }
            for (name, set, count) in sets() {
                let (mut one, mut two) = ([0.0; 55], [0.0; 55]);
                set.observe(&left, 0, &mut one[..count]).unwrap();
                set.observe(&right, 0, &mut two[..count]).unwrap();
                assert_eq!(one.map(f32::to_bits), two.map(f32::to_bits), "{preset} {name} {tick}");
                for (value, feature) in one.iter().zip(set.features()) {
                    let within = (feature.low..=feature.high).contains(value);
                    assert!(within, "{preset} {} at {tick}: {value}", feature.name);
                }
            }
        }
    }
}

#[test]
fn no_feature_is_dead() {
    let mut market = Market::new(&Preset::Stressed.config(), 12).unwrap();
    let mut low = [[f32::INFINITY; 55]; 3];
    let mut high = [[f32::NEG_INFINITY; 55]; 3];
    for tick in 0..30_000_u64 {
        market.tick();
        if tick % 350 == 0 {
            market.send(0, 0, SlotRequest::CancelAll).unwrap();
        }
        if tick % 7 == 0 {
            let side = if tick / 700 % 2 == 0 { Side::Buy } else { Side::Sell };
            market.send(0, 0, SlotRequest::market(side, 3)).unwrap();
            let far = market.last_price(0) - 50 * side.sign();
            market.send(0, 0, SlotRequest::limit(side, far, 1)).unwrap();
        }
        let mut out = [0.0; 55];
        for (at, (_, set, count)) in sets().into_iter().enumerate() {
            set.observe(&market, 0, &mut out[..count]).unwrap();
            for (index, value) in out[..count].iter().enumerate() {
                low[at][index] = low[at][index].min(*value);
                high[at][index] = high[at][index].max(*value);
            }
        }
    }
    for (at, (name, set, count)) in sets().into_iter().enumerate() {
        for (index, feature) in set.features().iter().enumerate().take(count) {
            // The caller sets `time_left`, which is constant here.
            let constant = low[at][index] >= high[at][index];
            assert!(!constant || feature.name == "time_left", "{name}: {}", feature.name);
        }
    }
}

#[test]
fn the_fundamental_is_hidden_unless_the_configuration_reveals_it() {
    let run = |reveal: Option<f64>| {
        let mut config = Preset::Normal.config();
        config.features.reveal_fundamental = reveal;
        let mut market = Market::new(&config, 2).unwrap();
        market.run(3_000);
        (market.shown_value(0), market.fundamental(0), market.tape(0).mean_price())
    };
    let (shown, hidden, mean) = run(None);
    assert!(shown.to_bits() == mean.to_bits() && (shown - hidden).abs() > 1e-9);
    let (shown, hidden, _) = run(Some(0.0));
    assert!((shown / hidden - 1.0).abs() < 1e-12);
    let (shown, hidden, _) = run(Some(0.01));
    let error = (shown / hidden).ln().abs();
    assert!(error > 0.0 && error < 0.06, "{error}");
}

#[test]
fn a_wrong_slice_symbol_or_slot_is_refused_and_nothing_is_written() {
    let market = Market::new(&Preset::Normal.config(), 1).unwrap();
    let mut out = [7.0; 54];
    let length = ObserveError::Length { given: 54, expected: 55 };
    assert_eq!(FullFeatures.observe(&market, 0, &mut out), Err(length));
    let symbol = ObserveError::UnknownSymbol { symbol: 1, symbols: 1 };
    assert_eq!(FullFeatures.observe(&market, 1, &mut out), Err(symbol));
    let slot = ObserveError::UnknownSlot { slot: 3, slots: 1 };
    let set = PrivateFeatures { slot: 3, time_left: 1.0 };
    assert_eq!(set.observe(&market, 0, &mut out[..11]), Err(slot));
    assert!(out.iter().all(|value| value.to_bits() == 7.0_f32.to_bits()));
}

#[test]
fn the_private_block_shows_position_cash_open_orders_and_the_last_fill() {
    let mut market = Market::new(&Preset::Normal.config(), 8).unwrap();
    market.run(300);
    market.send(0, 0, SlotRequest::market(Side::Buy, 100)).unwrap();
    let far = market.best_bid(0).unwrap() - 300;
    market.send(0, 0, SlotRequest::limit(Side::Buy, far, 50)).unwrap();
    market.tick();
    let mut out = [0.0_f32; 11];
    PRIVATE.observe(&market, 0, &mut out).unwrap();
    let value = |name: &str| {
        let at = PRIVATE.features().iter().position(|feature| feature.name == name).unwrap();
        f64::from(out[at])
    };
    let close = |name: &str, expected: f64| {
        assert!((value(name) - expected).abs() < 1e-6, "{name}: {} {expected}", value(name));
    };
    let start = market.initial_equity(0).unwrap() as f64;
    close("position", 0.1);
    close("open_buys", 0.05);
    close("open_sells", 0.0);
    close("cash", market.cash(0).unwrap() as f64 / start);
    close("equity_return", market.equity(0).unwrap() as f64 / start - 1.0);
    close("last_fill_age", 0.0);
    close("time_left", 0.25);
    assert!(value("last_fill_size") > 0.0 && value("unrealised") < 0.0);
}

/// A window that stayed, or moved too late, would refuse orders near the price.
#[test]
fn the_window_of_a_book_follows_the_price_before_it_reaches_the_edge() {
    let mut config = Preset::Normal.config();
    config.book_levels = 256;
    let (mut lows, mut highs) = (0, 0);
    for seed in 0..4 {
        let mut market = Market::new(&config, seed).unwrap();
        let mut before = market.book(0).window();
        for tick in 0..20_000 {
            market.tick();
            let (low, high) = market.book(0).window();
            let (mid, edge) = (market.mid(0), f64::from((high - low) / 4));
            // Half a tick of the mid-price is cut off, and a window has an even number of levels.
            let middle = f64::from(low) + edge - 2.0..=f64::from(high) - edge + 2.0;
            assert!(middle.contains(&mid), "seed {seed}, tick {tick}: {mid} in {low}..={high}");
            lows += u32::from(low < before.0);
            highs += u32::from(low > before.0);
            before = (low, high);
        }
    }
    assert!(lows > 0 && highs > 0, "no price neared an edge: {lows}, {highs}");
}
