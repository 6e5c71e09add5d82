//! The full set: 55 features of one symbol.
//!
//! The indices and names are those of the trading note that this project started from. That note
//! counts 54 features, one too few: a vector of 54 ends at index 53 and loses index 54,
//! `f_sentiment_price_gap`.
//!
//! Some definitions differ from the note, where they were constant, redundant or wrong:
//!
//! - 39-41 show the newest event, not the oldest;
//! - 42 and 43 are computed from a book in which orders rest from tick to tick;
//! - 44 uses the true side of every trade;
//! - 48, 49 and 54 measure against the volume-weighted mean price, unless the fundamental is
//!   revealed;
//! - 53 is a rate that does not saturate.

use super::{
    Feature, FeatureGroup, FeatureSet, FeatureWriter, LAGS, ObserveError, check, imbalance,
    log_ratio,
};
use crate::{book::Side, fundamental::News, market::Market};

/// The 55 features, in currency, per cent and their own units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullFeatures;

const PRICE: f32 = 1e9;

const fn price(name: &'static str) -> Feature {
    let group = FeatureGroup::Technical;
    Feature { name, group, unit: "price", low: -PRICE, high: PRICE, missing: 0.0 }
}

const fn bounded(
    name: &'static str,
    group: FeatureGroup,
    unit: &'static str,
    (low, high): (f32, f32),
    missing: f32,
) -> Feature {
    Feature { name, group, unit, low, high, missing }
}

const fn change(name: &'static str) -> Feature {
    bounded(name, FeatureGroup::Price, "percent", (-100.0, 1e6), 0.0)
}

const fn log_return(name: &'static str) -> Feature {
    bounded(name, FeatureGroup::Price, "log", (-20.0, 20.0), 0.0)
}

const FEATURES: [Feature; 55] = {
    use FeatureGroup::{Book, News, Price, Technical, Value, Volatility};
    [
        bounded("f_mid_price", Price, "price", (0.0, PRICE), 0.0),
        change("f_price_change_1"),
        change("f_price_change_2"),
        change("f_price_change_3"),
        change("f_price_change_4"),
        change("f_price_change_6"),
        change("f_price_change_8"),
        change("f_price_change_12"),
        change("f_price_change_16"),
        change("f_price_change_24"),
        change("f_price_change_32"),
        change("f_price_change_48"),
        change("f_price_change_64"),
        log_return("f_log_return_1"),
        log_return("f_log_return_2"),
        log_return("f_log_return_3"),
        log_return("f_log_return_4"),
        log_return("f_log_return_6"),
        log_return("f_log_return_8"),
        log_return("f_log_return_12"),
        log_return("f_log_return_16"),
        log_return("f_log_return_24"),
        log_return("f_log_return_32"),
        log_return("f_log_return_48"),
        log_return("f_log_return_64"),
        price("f_sma_8"),
        price("f_sma_16"),
        price("f_ema_8"),
        price("f_ema_16"),
        bounded("f_rsi_8", Technical, "0-100", (0.0, 100.0), 50.0),
        price("f_macd_line"),
        price("f_macd_signal"),
        price("f_macd_histogram"),
        price("f_bb_upper"),
        price("f_bb_middle"),
        price("f_bb_lower"),
        bounded("f_bb_percent_b", Technical, "fraction", (-100.0, 100.0), 0.5),
        price("f_atr_8"),
        bounded("f_has_active_news", News, "0/1", (0.0, 1.0), 0.0),
        bounded("f_news_sentiment", News, "-1..1", (-1.0, 1.0), 0.0),
        bounded("f_news_magnitude", News, "0..1", (0.0, 1.0), 0.0),
        bounded("f_news_ticks_remaining", News, "ticks", (0.0, 1e7), 0.0),
        bounded("f_spread_bps", Book, "bp", (0.0, 1e5), 0.0),
        bounded("f_book_imbalance", Book, "-1..1", (-1.0, 1.0), 0.0),
        bounded("f_net_order_flow", Book, "-1..1", (-1.0, 1.0), 0.0),
        bounded("f_realized_vol_8", Volatility, "log per candle", (0.0, 20.0), 0.0),
        bounded("f_realized_vol_32", Volatility, "log per candle", (0.0, 20.0), 0.0),
        bounded("f_vol_ratio", Volatility, "ratio", (0.0, 100.0), 1.0),
        bounded("f_fair_value_dev", Value, "fraction", (-1.0, 1e3), 0.0),
        bounded("f_price_to_fair", Value, "ratio", (0.0, 1e3), 1.0),
        bounded("f_trend_strength", Technical, "atr", (0.0, 100.0), 0.0),
        bounded("f_rsi_divergence", Technical, "-50..50", (-50.0, 50.0), 0.0),
        bounded("f_volume_surge", Book, "ratio", (0.0, 100.0), 1.0),
        bounded("f_trade_intensity", Book, "trades per tick", (0.0, 1e4), 0.0),
        bounded("f_sentiment_price_gap", Value, "fraction", (-1e3, 1e3), 0.0),
    ]
};

impl FeatureSet for FullFeatures {
    fn features(&self) -> &'static [Feature] {
        &FEATURES
    }

    fn observe(&self, market: &Market, symbol: u16, out: &mut [f32]) -> Result<(), ObserveError> {
        check(market, symbol, out, FEATURES.len())?;
        let mut writer = FeatureWriter::new(&FEATURES, out);
        prices(market, symbol, &mut writer);
        technicals(market, symbol, &mut writer);
        news(market, symbol, &mut writer);
        microstructure(market, symbol, &mut writer);
        Ok(())
    }
}

fn prices(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let candles = market.candles(symbol);
    writer.put(market.mid(symbol) * market.config().tick_size);
    let pairs = LAGS.map(|lag| candles.close_at(0).zip(candles.close_at(lag)));
    for pair in pairs {
        writer.put(pair.map(|(now, then)| 100.0 * (f64::from(now) / f64::from(then) - 1.0)));
    }
    for pair in pairs {
        writer.put(pair.map(|(now, then)| log_ratio(now, then)));
    }
}

fn technicals(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let candles = market.candles(symbol);
    let money = |ticks: Option<f64>| ticks.map(|ticks| ticks * market.config().tick_size);
    writer.put(money(candles.sma8()));
    writer.put(money(candles.sma16()));
    writer.put(money(candles.ema8()));
    writer.put(money(candles.ema16()));
    writer.put(candles.rsi8());
    // All three MACD entries wait for the signal, which needs four values of the line.
    let macd = candles.macd_line().zip(candles.macd_signal());
    writer.put(money(macd.map(|(line, _)| line)));
    writer.put(money(macd.map(|(_, signal)| signal)));
    writer.put(money(macd.map(|(line, signal)| line - signal)));
    let bands = candles.bands();
    writer.put(money(bands.map(|(middle, width)| middle + width)));
    writer.put(money(bands.map(|(middle, _)| middle)));
    writer.put(money(bands.map(|(middle, width)| middle - width)));
    writer.put(
        bands
            .filter(|(_, width)| *width > 1e-10)
            .map(|(middle, width)| (market.mid(symbol) - middle + width) / (2.0 * width)),
    );
    writer.put(money(candles.atr8()));
}

fn news(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let now = market.now();
    let newest: Option<&News> = market.news(symbol).last();
    writer.put(f64::from(u8::from(newest.is_some())));
    writer.put(newest.map(|news| news.faded(now)));
    writer.put(newest.map(|news| news.magnitude));
    writer.put(newest.map(|news| news.left(now) as f64));
}

fn microstructure(market: &Market, symbol: u16, writer: &mut FeatureWriter<'_>) {
    let (candles, tape) = (market.candles(symbol), market.tape(symbol));
    let mid = market.mid(symbol);
    let touch = market.best_bid(symbol).zip(market.best_ask(symbol));
    writer.put(touch.map(|(bid, ask)| 1e4 * f64::from(ask - bid) / mid));
    let book = market.book(symbol);
    writer.put(imbalance(book.shares(Side::Buy), book.shares(Side::Sell)));
    writer.put(tape.flow_imbalance());
    writer.put(candles.volatility8());
    writer.put(candles.volatility32());
    let volatilities = candles.volatility8().zip(candles.volatility32());
    writer.put(volatilities.filter(|(_, long)| *long > 0.0).map(|(short, long)| short / long));
    let fair = market.shown_value(symbol);
    let deviation = mid / fair - 1.0;
    writer.put(deviation);
    writer.put(mid / fair);
    let gap = candles.macd_line().zip(candles.atr8()).filter(|(_, range)| *range > 0.0);
    writer.put(gap.map(|(gap, range)| gap.abs() / range));
    writer.put(candles.rsi8().map(|rsi| rsi - 50.0));
    writer.put(candles.volume_surge());
    writer.put(tape.trade_rate());
    let sentiment: f64 = market.news(symbol).map(|news| news.faded(market.now())).sum();
    writer.put(sentiment * deviation);
}
