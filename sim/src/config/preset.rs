//! Named configurations.

use std::{fmt, str::FromStr};

use super::{
    ArousalConfig, ConfigError, ExecutorConfig, FeatureConfig, FundamentalConfig, LatentConfig,
    MakerConfig, MarketConfig, Matching, NewsConfig, NoiseConfig, Population, SessionConfig,
    SignalConfig, SlotConfig, ValueConfig,
};
use crate::ledger::{FeeSchedule, Limits};

/// Named configuration of a market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Low volatility, little news.
    Calm,
    /// The default: matches the stylised facts.
    Normal,
    /// High volatility, much news, thin quotes.
    Stressed,
    /// Rare liquidity droughts and large parent orders.
    Flash,
    /// Made to be learnable: trends that last, low fees.
    Teaching,
}

impl Preset {
    /// All presets, in the order of their documentation.
    pub const ALL: [Self; 5] =
        [Self::Calm, Self::Normal, Self::Stressed, Self::Flash, Self::Teaching];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Normal => "normal",
            Self::Stressed => "stressed",
            Self::Flash => "flash",
            Self::Teaching => "teaching",
        }
    }

    /// Returns the configuration: one symbol, 100 background agents (98 in `Flash`), one slot.
    #[must_use]
    pub fn config(self) -> MarketConfig {
        let mut config = normal();
        match self {
            Self::Normal => {}
            Self::Calm => {
                config.fundamental.volatility *= 0.6;
                config.fundamental.jumps_per_day = 0.5;
                config.news.symbol_per_day = 2.0;
                config.news.shock_sd *= 0.6;
            }
            Self::Stressed => {
                config.fundamental.volatility *= 2.0;
                config.fundamental.jumps_per_day *= 3.0;
                config.news.symbol_per_day *= 3.0;
                config.news.shock_sd *= 1.5;
                config.population.maker.size *= 0.6;
                config.population.maker.spread_per_vol *= 1.5;
            }
            Self::Flash => {
                config.population.maker.count = 2;
                config.population.maker.spread_per_vol *= 2.0;
                config.population.executor.parent_exponent = 1.15;
                config.population.executor.parent_maximum = 125_000.0;
                config.fundamental.jumps_per_day *= 2.0;
            }
            Self::Teaching => {
                teachable(&mut config);
                config.fundamental.reversion_per_day = 30.0;
                config.features.reveal_fundamental = Some(0.001);
                config.fees.taker_ppm = 10;
                config.fees.maker_ppm = 0;
            }
        }
        config
    }
}

/// Returns the configuration that the other presets vary.
fn normal() -> MarketConfig {
    MarketConfig {
        symbols: 1,
        initial_price: 10_000,
        tick_size: 0.01,
        book_levels: 2_048,
        book_orders: 1_024,
        matching: Matching::Continuous,
        fundamental: FundamentalConfig {
            volatility: 0.000_125,
            fast_ticks: 900.0,
            fast_sd: 0.55,
            slow_ticks: 12_000.0,
            slow_sd: 0.35,
            jumps_per_day: 2.0,
            jump_sd: 0.003_3,
            drift_per_day: 0.0,
            reversion_per_day: 0.0,
            common: 0.0,
        },
        news: NewsConfig {
            symbol_per_day: 5.0,
            market_per_day: 1.0,
            shock_sd: 0.003_3,
            rumour_share: 0.3,
            life_ticks: 600.0,
            sentiment_tilt: 0.27,
        },
        arousal: ArousalConfig {
            floor: 0.4,
            fast: 0.42,
            slow: 0.44,
            fast_ticks: 30.0,
            slow_ticks: 1_200.0,
            typical: 2.9,
            ceiling: 5.0,
        },
        latent: LatentConfig {
            depth: 40.0,
            slope: 80.0,
            recovery_ticks: 1_200.0,
            error_sd: 0.001_8,
            error_ticks: 10_000.0,
        },
        session: SessionConfig::OFF,
        population: population(),
        fees: FeeSchedule { maker_ppm: 0, taker_ppm: 50, borrow_ppm_per_day: 20 },
        lendable_shares: 1_000_000_000,
        slots: vec![SlotConfig::default()],
        features: FeatureConfig { candle_ticks: 4, reveal_fundamental: None },
    }
}

/// Returns the background agents of [`normal`].
const fn population() -> Population {
    Population {
        maker: MakerConfig {
            count: 4,
            wait: 3.0,
            half_spread: 0.55,
            spread_per_vol: 0.15,
            skew: 0.001_5,
            flow_shift: 0.0,
            root_shift: 0.0,
            level_step: 1.1,
            size: 80.0,
        },
        noise: NoiseConfig {
            count: 54,
            wait: 15.0,
            market: 0.15,
            cancel: 0.45,
            size: 6.6,
            size_sigma: 0.83,
            depth_exponent: 1.2,
            life: 1_200,
        },
        value: ValueConfig {
            count: 20,
            wait: 3.0,
            strength: 300.0,
            error_sd: 0.009_6,
            error_ticks: 2_550.0,
            learning: 0.088,
            slice: 15.0,
            aggressive: 0.3,
        },
        signal: SignalConfig {
            count: 18,
            wait: 10.0,
            horizon_low: 30.0,
            horizon_high: 1_800.0,
            followers: 0.41,
            threshold: 1.0,
            inventory: 140.0,
            size: 36.0,
        },
        executor: ExecutorConfig {
            count: 4,
            wait: 1.0,
            idle: 60.0,
            parent_minimum: 150.0,
            parent_exponent: 1.3,
            parent_maximum: 20_000.0,
            slice: 12.0,
            aggressive: 1.0,
        },
        cash: 20_000_000_000_000,
        shares: 0,
        limits: Limits { long: 5_000_000, short: 5_000_000, order: 100_000 },
    }
}

/// Sets the values of the learnable market: makers that quote around the last mid-price, so that
/// prices trend towards the value.
const fn teachable(config: &mut MarketConfig) {
    let MarketConfig { fundamental, arousal, population, latent, .. } = config;
    *latent = LatentConfig::OFF;
    fundamental.volatility = 0.000_22;
    fundamental.fast_sd = 0.58;
    fundamental.slow_sd = 0.31;
    fundamental.jump_sd = 0.002_5;
    arousal.fast = 0.475;
    arousal.slow = 0.495;
    arousal.typical = 1.0;
    let Population { maker, noise, value, executor, .. } = population;
    maker.half_spread = 0.65;
    maker.spread_per_vol = 0.24;
    maker.skew = 0.002;
    maker.flow_shift = 0.017;
    maker.size = 45.0;
    noise.count = 32;
    noise.wait = 9.4;
    noise.market = 0.23;
    noise.cancel = 0.25;
    noise.depth_exponent = 0.81;
    value.count = 36;
    value.strength = 4_000.0;
    value.aggressive = 0.15;
    executor.count = 10;
    executor.wait = 6.0;
    executor.idle = 400.0;
    executor.parent_minimum = 200.0;
    executor.parent_exponent = 1.1;
    executor.parent_maximum = 25_000.0;
    executor.slice = 21.0;
}

impl Default for MarketConfig {
    /// Returns [`Preset::Normal`].
    fn default() -> Self {
        normal()
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL
            .into_iter()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| ConfigError::UnknownPreset { name: name.to_owned() })
    }
}
