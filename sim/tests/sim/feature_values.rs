//! Values of features: those of the market, and those of the two sets compared with each other.

use backcast_sim::{
    DepthLevel, FeatureSet, FullFeatures, Market, NormalisedFeatures, Preset, Side,
};

const LAGS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Observation of one set, by name.
struct Seen<'a> {
    set: &'a dyn FeatureSet,
    values: Vec<f32>,
}

impl<'a> Seen<'a> {
    fn of(market: &Market, set: &'a dyn FeatureSet) -> Self {
        let mut values = vec![0.0; set.count()];
        set.observe(market, 0, &mut values).unwrap();
        Self { set, values }
    }

    fn at(&self, name: &str) -> f64 {
        let at = self.set.features().iter().position(|feature| feature.name == name);
        f64::from(self.values[at.unwrap_or_else(|| panic!("no feature {name}"))])
    }

    /// Compares a feature with its value before it is clipped.
    fn is(&self, name: &str, value: f64) {
        let feature = self.set.features().iter().find(|feature| feature.name == name).unwrap();
        let expected = value.clamp(feature.low.into(), feature.high.into());
        let found = self.at(name);
        // Differences of numbers of single precision.
        let near = (found - expected).abs() <= 2e-3 * expected.abs().max(1.0);
        assert!(near, "{name}: {found} and not {expected}");
    }
}

/// Runs markets whose features are all defined, and checks them every few ticks.
fn check(ticks: u64, mut check: impl FnMut(&Market)) {
    for preset in [Preset::Normal, Preset::Stressed, Preset::Teaching] {
        let mut config = preset.config();
        config.news.symbol_per_day = 400.0;
        let mut market = Market::new(&config, 21).unwrap();
        while market.candles(0).count() <= 66 {
            market.tick();
        }
        for _ in 0..ticks {
            market.run(7);
            let one_sided = market.best_bid(0).is_none() || market.best_ask(0).is_none();
            if !one_sided {
                check(&market);
            }
        }
    }
}

#[test]
fn features_of_the_price_and_of_the_book_are_those_of_the_market() {
    let mut with_news = 0;
    check(200, |market| {
        let (full, normalised) =
            (Seen::of(market, &FullFeatures), Seen::of(market, &NormalisedFeatures));
        let (mid, size, candles) = (market.mid(0), market.config().tick_size, market.candles(0));
        full.is("f_mid_price", mid * size);
        full.is("f_fair_value_dev", mid / market.shown_value(0) - 1.0);
        for lag in LAGS {
            let close = |back: u32| f64::from(candles.close_at(back.into()).unwrap());
            full.is(&format!("f_log_return_{lag}"), (close(0) / close(lag)).ln());
        }
        for (name, mean) in [("8", candles.sma8()), ("16", candles.sma16())] {
            full.is(&format!("f_sma_{name}"), mean.unwrap() * size);
        }
        for (name, mean) in [("8", candles.ema8()), ("16", candles.ema16())] {
            full.is(&format!("f_ema_{name}"), mean.unwrap() * size);
        }
        let (middle, width) = candles.bands().unwrap();
        full.is("f_bb_upper", (middle + width) * size);
        full.is("f_bb_lower", (middle - width) * size);
        full.is("f_macd_line", candles.macd_line().unwrap() * size);
        full.is("f_macd_signal", candles.macd_signal().unwrap() * size);
        full.is("f_rsi_8", candles.rsi8().unwrap());
        full.is("f_atr_8", candles.atr8().unwrap() * size);
        full.is("f_realized_vol_8", candles.volatility8().unwrap());
        full.is("f_realized_vol_32", candles.volatility32().unwrap());
        full.is("f_volume_surge", candles.volume_surge().unwrap_or(1.0));
        full.is("f_trade_intensity", market.tape(0).trade_rate());
        full.is("f_net_order_flow", market.tape(0).flow_imbalance().unwrap_or(0.0));

        let news: Vec<_> = market.news(0).collect();
        let newest = news.last();
        let now = market.now();
        full.is("f_has_active_news", f64::from(u8::from(newest.is_some())));
        full.is("f_news_sentiment", newest.map_or(0.0, |news| news.faded(now)));
        full.is("f_news_magnitude", newest.map_or(0.0, |news| news.magnitude));
        full.is("f_news_ticks_remaining", newest.map_or(0.0, |news| news.left(now) as f64));
        let sentiment: f64 = news.iter().map(|news| news.faded(now)).sum();
        full.is("f_sentiment_price_gap", sentiment * (mid / market.shown_value(0) - 1.0));
        with_news += u32::from(news.len() > 1);

        let depth = |side: Side, levels: usize| -> f64 {
            let mut found = vec![DepthLevel::default(); levels];
            let count = market.depth(0, side, &mut found);
            found[..count].iter().map(|level| f64::from(level.quantity)).sum()
        };
        let imbalance = |levels: usize| {
            let (bids, asks) = (depth(Side::Buy, levels), depth(Side::Sell, levels));
            (bids - asks) / (bids + asks)
        };
        full.is("f_book_imbalance", imbalance(100_000));
        normalised.is("imbalance_1", imbalance(1));
        normalised.is("imbalance_5", imbalance(5));
        normalised.is("microprice_gap", imbalance(1));
        let touch = depth(Side::Buy, 1) + depth(Side::Sell, 1);
        normalised.is("touch_size", (touch / (1.0 + market.tape(0).volume_rate())).ln());
        normalised.is("activity", market.tape(0).arousal().ln());
        let spread = f64::from(market.best_ask(0).unwrap() - market.best_bid(0).unwrap());
        full.is("f_spread_bps", 1e4 * spread / mid);
        normalised.is("spread", spread.ln());
    });
    assert!(with_news > 0, "no two news at a time");
}

#[test]
fn both_sets_of_features_show_the_same_market() {
    check(300, |market| {
        let (full, normalised) =
            (Seen::of(market, &FullFeatures), Seen::of(market, &NormalisedFeatures));
        let size = market.config().tick_size;
        let of = |name: &str| full.at(name);
        let ticks = |name: &str| of(name) / size;
        let mid = ticks("f_mid_price");
        for lag in LAGS {
            let grown = of(&format!("f_log_return_{lag}"));
            full.is(&format!("f_price_change_{lag}"), 100.0 * grown.exp_m1());
            let sd = of("f_realized_vol_32").max(0.25 / mid);
            normalised.is(&format!("z_return_{lag}"), grown / sd / f64::from(lag).sqrt());
        }
        let range = ticks("f_atr_8").max(0.5);
        for mean in ["sma_8", "sma_16", "ema_8", "ema_16"] {
            let gap = mid - ticks(&format!("f_{mean}"));
            normalised.is(&format!("{mean}_gap"), gap / range);
        }
        for name in ["macd_line", "macd_signal", "macd_histogram"] {
            normalised.is(name, ticks(&format!("f_{name}")) / range);
        }
        full.is("f_macd_histogram", of("f_macd_line") - of("f_macd_signal"));
        let half = 0.5 * (of("f_bb_upper") - of("f_bb_lower"));
        full.is("f_bb_middle", of("f_bb_upper") - half);
        normalised.is("band_width", half / size / range);
        if half > size {
            full.is("f_bb_percent_b", (of("f_mid_price") - of("f_bb_lower")) / (2.0 * half));
            normalised.is("band_position", 2.0 * of("f_bb_percent_b") - 1.0);
        }
        if ticks("f_atr_8") > 0.5 {
            full.is("f_trend_strength", of("f_macd_line").abs() / of("f_atr_8"));
            normalised.is("trend_strength", of("f_trend_strength"));
        }
        normalised.is("rsi_8", of("f_rsi_8") / 50.0 - 1.0);
        full.is("f_rsi_divergence", of("f_rsi_8") - 50.0);
        normalised.is("news_active", of("f_has_active_news"));
        normalised.is("news_sentiment", of("f_news_sentiment"));
        normalised.is("news_magnitude", of("f_news_magnitude"));
        normalised.is("news_left", of("f_news_ticks_remaining").ln_1p());
        normalised.is("order_flow", of("f_net_order_flow"));
        normalised.is("volume_surge", of("f_volume_surge").ln());
        normalised.is("trade_rate", of("f_trade_intensity").ln_1p());
        let (short, long) = (of("f_realized_vol_8"), of("f_realized_vol_32"));
        normalised.is("volatility", (1e4 * long).ln());
        full.is("f_vol_ratio", short / long);
        normalised.is("volatility_ratio", (short.max(1e-7) / long).ln());
        full.is("f_price_to_fair", 1.0 + of("f_fair_value_dev"));
        normalised.is("value_gap", 100.0 * of("f_fair_value_dev"));
        normalised.is("sentiment_gap", 100.0 * of("f_sentiment_price_gap"));
    });
}
