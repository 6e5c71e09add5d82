//! The default set: 40 features of one symbol that do not depend on the price level.
//!
//! Returns are in standard deviations, price gaps in average true ranges, volumes in logarithms of
//! ratios. So a policy carries over between episodes, symbols and price levels.

use super::{
    Feature, FeatureGroup, FeatureSet, FeatureWriter, LAGS, ObserveError, check, depth_imbalance,
    log_ratio,
};
use crate::{book::Side, fundamental::News, market::Market};

/// The 40 normalised features: the default observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NormalisedFeatures;

const fn feature(
    name: &'static str,
    group: FeatureGroup,
    unit: &'static str,
    bound: f32,
) -> Feature {
    Feature { name, group, unit, low: -bound, high: bound, missing: 0.0 }
}

const fn z_return(name: &'static str) -> Feature {
    feature(name, FeatureGroup::Price, "sd", 5.0)
}

const fn in_ranges(name: &'static str) -> Feature {
    feature(name, FeatureGroup::Technical, "atr", 10.0)
}

const FEATURES: [Feature; 40] = {
    use FeatureGroup::{Book, News, Technical, Value, Volatility};
    [
        z_return("z_return_1"),
        z_return("z_return_2"),
        z_return("z_return_3"),
        z_return("z_return_4"),
        z_return("z_return_6"),
        z_return("z_return_8"),
        z_return("z_return_12"),
        z_return("z_return_16"),
        z_return("z_return_24"),
        z_return("z_return_32"),
        z_return("z_return_48"),
        z_return("z_return_64"),
        in_ranges("sma_8_gap"),
        in_ranges("sma_16_gap"),
        in_ranges("ema_8_gap"),
        in_ranges("ema_16_gap"),
        feature("rsi_8", Technical, "-1..1", 1.0),
        in_ranges("macd_line"),
        in_ranges("macd_signal"),
        in_ranges("macd_histogram"),
        feature("band_position", Technical, "half-widths", 5.0),
        in_ranges("band_width"),
        in_ranges("trend_strength"),
        feature("news_active", News, "0/1", 1.0),
        feature("news_sentiment", News, "-1..1", 1.0),
        feature("news_magnitude", News, "0..1", 1.0),
        feature("news_left", News, "log ticks", 10.0),
        feature("spread", Book, "log ticks", 10.0),
        feature("imbalance_1", Book, "-1..1", 1.0),
        feature("imbalance_5", Book, "-1..1", 1.0),
        feature("microprice_gap", Book, "half-spreads", 1.0),
        feature("order_flow", Book, "-1..1", 1.0),
        feature("touch_size", Book, "log ratio", 10.0),
        feature("volume_surge", Book, "log ratio", 5.0),
        feature("trade_rate", Book, "log", 10.0),
        feature("volatility", Volatility, "log bp", 10.0),
        feature("volatility_ratio", Volatility, "log ratio", 5.0),
        feature("activity", Volatility, "log ratio", 5.0),
        feature("value_gap", Value, "percent", 10.0),
        feature("sentiment_gap", Value, "percent", 10.0),
    ]
};

impl FeatureSet for NormalisedFeatures {
    fn features(&self) -> &'static [Feature] {
        &FEATURES
    }

    fn observe(&self, market: &Market, symbol: u16, out: &mut [f32]) -> Result<(), ObserveError> {
        check(market, symbol, out, FEATURES.len())?;
        let mut writer = FeatureWriter::new(&FEATURES, out);
        returns(market, symbol, &mut writer);
        technicals(market, symbol, &mut writer);
        news(market, symbol, &mut writer);
        book(market, symbol, &mut writer);
        values(market, symbol, &mut writer);
        Ok(())
    }
}

fn returns(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let candles = market.candles(symbol);
    let sd = candles.volatility32().map(|sd| sd.max(0.25 / market.mid(symbol)));
    for lag in LAGS {
        let prices = candles.close_at(0).zip(candles.close_at(lag));
        writer.put(
            prices
                .zip(sd)
                .map(|((now, then), sd)| log_ratio(now, then) / (sd * (lag as f64).sqrt())),
        );
    }
}

fn technicals(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let candles = market.candles(symbol);
    let mid = market.mid(symbol);
    // At least half a tick, since a market without trades has no range.
    let range = candles.atr8().map(|range| range.max(0.5));
    let mut gap = |distance: Option<f64>| {
        writer.put(distance.zip(range).map(|(distance, range)| distance / range));
    };
    for mean in [candles.sma8(), candles.sma16(), candles.ema8(), candles.ema16()] {
        gap(mean.map(|mean| mid - mean));
    }
    writer.put(candles.rsi8().map(|rsi| rsi / 50.0 - 1.0));
    let macd = candles.macd_line().zip(candles.macd_signal());
    let mut gap = |distance: Option<f64>| {
        writer.put(distance.zip(range).map(|(distance, range)| distance / range));
    };
    gap(macd.map(|(line, _)| line));
    gap(macd.map(|(_, signal)| signal));
    gap(macd.map(|(line, signal)| line - signal));
    let bands = candles.bands();
    writer
        .put(bands.filter(|(_, width)| *width > 0.0).map(|(middle, width)| (mid - middle) / width));
    writer.put(bands.zip(range).map(|((_, width), range)| width / range));
    writer.put(candles.macd_line().zip(range).map(|(line, range)| line.abs() / range));
}

fn news(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let now = market.now();
    let newest: Option<&News> = market.news(symbol).last();
    writer.put(f64::from(u8::from(newest.is_some())));
    writer.put(newest.map(|news| news.faded(now)));
    writer.put(newest.map(|news| news.magnitude));
    writer.put(newest.map(|news| (news.left(now) as f64).ln_1p()));
}

fn book(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let (tape, book) = (market.tape(symbol), market.book(symbol));
    let touch = book.best_bid().zip(book.best_ask());
    writer.put(touch.map(|(bid, ask)| f64::from(ask - bid).ln()));
    let at_touch = depth_imbalance(book, 1);
    writer.put(at_touch);
    writer.put(depth_imbalance(book, 5));
    // The microprice weights each side's price by the other side's shares. So its distance from the
    // mid-price is the imbalance times half the spread.
    writer.put(touch.and(at_touch));
    writer.put(tape.flow_imbalance());
    let size = touch.map(|(bid, ask)| {
        let shares = book.quantity_at(Side::Buy, bid) + book.quantity_at(Side::Sell, ask);
        (f64::from(shares) / (1.0 + tape.volume_rate())).ln()
    });
    writer.put(size);
    writer.put(market.candles(symbol).volume_surge().map(f64::ln));
    writer.put(tape.trade_rate().ln_1p());
}

fn values(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let candles = market.candles(symbol);
    let floor = 1e-7;
    writer.put(candles.volatility32().map(|sd| (1e4 * sd.max(floor)).ln()));
    let both = candles.volatility8().zip(candles.volatility32());
    writer.put(both.map(|(short, long)| (short.max(floor) / long.max(floor)).ln()));
    writer.put(market.tape(symbol).arousal().ln());
    let gap = 100.0 * (market.mid(symbol) / market.shown_value(symbol) - 1.0);
    writer.put(gap);
    let sentiment: f64 = market.news(symbol).map(|news| news.faded(market.now())).sum();
    writer.put(sentiment * gap);
}
