//! Named configurations.

use std::{fmt, str::FromStr};

use super::{
    ArousalConfig, ConfigError, ExecutorConfig, FeatureConfig, FundamentalConfig, MakerConfig,
    MarketConfig, Matching, NewsConfig, NoiseConfig, Population, SignalConfig, SlotConfig,
    ValueConfig,
};
use crate::ledger::{FeeSchedule, Limits};

/// A market by name.
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
            fast_sd: 0.52,
            slow_ticks: 12_000.0,
            slow_sd: 0.22,
            jumps_per_day: 2.0,
            jump_sd: 0.003_3,
            drift_per_day: 0.0,
            reversion_per_day: 0.0,
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
            typical: 1.0,
            ceiling: 5.0,
        },
        population: Population {
            maker: MakerConfig {
                count: 4,
                wait: 3.0,
                half_spread: 0.65,
                spread_per_vol: 0.24,
                skew: 0.000_9,
                flow_shift: 0.0,
                root_shift: 0.27,
                level_step: 1.1,
                size: 80.0,
            },
            noise: NoiseConfig {
                count: 32,
                wait: 9.4,
                market: 0.13,
                cancel: 0.25,
                size: 6.6,
                size_sigma: 0.83,
                depth_exponent: 0.81,
                life: 1_200,
            },
            value: ValueConfig {
                count: 36,
                wait: 3.0,
                strength: 2_400.0,
                error_sd: 0.009_6,
                error_ticks: 2_550.0,
                learning: 0.088,
                slice: 15.0,
                aggressive: 0.15,
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
                count: 10,
                wait: 9.0,
                idle: 400.0,
                parent_minimum: 400.0,
                parent_exponent: 1.1,
                parent_maximum: 100_000.0,
                slice: 21.0,
                aggressive: 1.0,
            },
            cash: 20_000_000_000_000,
            shares: 0,
            limits: Limits { long: 5_000_000, short: 5_000_000, order: 100_000 },
        },
        fees: FeeSchedule { maker_ppm: 0, taker_ppm: 50, borrow_ppm_per_day: 20 },
        lendable_shares: 1_000_000_000,
        slots: vec![SlotConfig::default()],
        features: FeatureConfig { candle_ticks: 4, reveal_fundamental: None },
    }
}

/// Sets the values of the learnable market that must stay when the other presets are tuned.
const fn teachable(config: &mut MarketConfig) {
    let MarketConfig { fundamental, arousal, population, .. } = config;
    fundamental.drift_per_day = 0.0;
    fundamental.volatility = 0.000_22;
    fundamental.fast_sd = 0.58;
    fundamental.slow_sd = 0.31;
    fundamental.jump_sd = 0.002_5;
    arousal.fast = 0.475;
    arousal.slow = 0.495;
    population.maker.skew = 0.002;
    population.maker.flow_shift = 0.017;
    population.maker.root_shift = 0.0;
    population.maker.size = 45.0;
    population.noise.market = 0.23;
    population.value.strength = 4_000.0;
    population.executor.wait = 6.0;
    population.executor.parent_minimum = 200.0;
    population.executor.parent_maximum = 25_000.0;
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
