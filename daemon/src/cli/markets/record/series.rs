//! One simulation as arrays of candles and features.

use std::sync::Arc;

use backcast_sim::{
    Candle, Feature, FeatureSet, FullFeatures, Market, MarketConfig, NormalisedFeatures,
};

use super::{Args, FeatureArg};

/// Numbers of a candle: open, high, low, close, volume.
pub(super) const CANDLE: usize = 5;

/// Market, length and features of every simulation.
#[derive(Debug)]
pub(super) struct SeriesPlan {
    pub(super) config: Arc<MarketConfig>,
    /// Candles of each symbol.
    pub(super) candles: u64,
    /// Ticks before the first candle, a multiple of `interval`.
    pub(super) warm_up: u64,
    interval: u64,
    features: FeatureArg,
}

/// One simulation: candles and features of every symbol.
#[derive(Debug)]
pub(super) struct Series {
    /// `[candles, symbols, CANDLE]`: prices in currency, shares.
    pub(super) candles: Vec<f32>,
    /// `[candles, symbols, features]`; empty without features.
    pub(super) features: Vec<f32>,
}

impl SeriesPlan {
    pub(super) fn new(args: &Args, candles: u64) -> Self {
        let interval = u64::from(args.interval);
        let mut config = args.preset.config();
        config.symbols = args.symbols;
        config.slots.clear();
        config.features.candle_ticks = args.interval;
        Self {
            config: Arc::new(config),
            candles,
            warm_up: args.warm_up.next_multiple_of(interval),
            interval,
            features: args.features,
        }
    }

    pub(super) fn symbols(&self) -> usize {
        usize::from(self.config.symbols)
    }

    /// Returns the names of the features, in the order of their columns.
    pub(super) fn feature_names(&self) -> impl Iterator<Item = &'static str> {
        let features: &'static [Feature] = self.set().map_or(&[], FeatureSet::features);
        features.iter().map(|feature| feature.name)
    }

    /// Returns the number of features.
    pub(super) fn width(&self) -> usize {
        self.set().map_or(0, FeatureSet::count)
    }

    fn set(&self) -> Option<&'static dyn FeatureSet> {
        match self.features {
            FeatureArg::None => None,
            FeatureArg::Normalised => Some(&NormalisedFeatures),
            FeatureArg::Full => Some(&FullFeatures),
        }
    }

    /// Returns the count of numbers in one simulation: candles and features of all symbols.
    pub(super) fn values(&self) -> u64 {
        self.candles * self.symbols() as u64 * (CANDLE + self.width()) as u64
    }

    /// Simulates one seed. Calls `go_on` after every candle, also during the warm-up, and returns
    /// `None` once `go_on` returns false.
    pub(super) fn simulate(&self, seed: u64, go_on: impl Fn() -> bool) -> Option<Series> {
        let market = Market::with_agents(Arc::clone(&self.config), seed, Vec::new());
        let mut market =
            market.unwrap_or_else(|error| unreachable!("checked before the start: {error}"));
        for _ in 0..self.warm_up / self.interval {
            market.run(self.interval);
            if !go_on() {
                return None;
            }
        }
        let width = self.width();
        let rows = usize::try_from(self.candles).unwrap_or(usize::MAX) * self.symbols();
        let mut series = Series {
            candles: Vec::with_capacity(rows * CANDLE),
            features: Vec::with_capacity(rows * width),
        };
        let mut features = vec![0.0; width];
        for _ in 0..self.candles {
            market.run(self.interval);
            for symbol in 0..self.config.symbols {
                let candle = market.candles(symbol).last();
                series.candles.extend(numbers(candle, self.config.tick_size));
                if let Some(set) = self.set() {
                    let observed = set.observe(&market, symbol, &mut features);
                    debug_assert!(observed.is_ok(), "{observed:?}");
                    series.features.extend_from_slice(&features);
                }
            }
            if !go_on() {
                return None;
            }
        }
        Some(series)
    }
}

/// Returns a candle in currency units.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "recorded in single precision"
)]
fn numbers(candle: Candle, tick_size: f64) -> [f32; CANDLE] {
    let Candle { open, high, low, close, volume } = candle;
    let [open, high, low, close] =
        [open, high, low, close].map(|price| (f64::from(price) * tick_size) as f32);
    [open, high, low, close, volume as f32]
}
