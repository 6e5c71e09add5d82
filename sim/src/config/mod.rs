//! Configuration of a market: plain structs with public fields, checked once.

mod check;
mod error;
mod population;
mod preset;

pub(crate) use check::MOST_SYMBOLS;
pub use error::ConfigError;
pub use population::{
    Archetype, ExecutorConfig, MakerConfig, NoiseConfig, Population, SignalConfig, ValueConfig,
};
pub use preset::Preset;

use crate::{
    book::auction::AuctionRule,
    ledger::{FeeSchedule, Limits},
};

/// Matching of orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Matching {
    /// Continuous double auction, price-time priority. The default.
    Continuous,
    /// One call auction at the end of every tick. Shares that do not trade are dropped.
    CallAuction(AuctionRule),
}

/// A market: symbols, agents, news, fees and slots for orders from outside.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MarketConfig {
    /// Symbols, `1..=64`. Each has its own book, fundamental and background agents.
    pub symbols: u16,
    /// Price of every symbol at the start, in price ticks: 2 to 10^8.
    pub initial_price: i32,
    /// Currency units in one price tick. It only scales prices in features and readouts.
    pub tick_size: f64,
    /// Price levels of a book's window, `64..=4096`. Orders outside the window are refused.
    pub book_levels: usize,
    /// Maximum number of resting orders in a book.
    pub book_orders: usize,
    /// Matching of orders.
    pub matching: Matching,
    /// Hidden value of a share.
    pub fundamental: FundamentalConfig,
    /// Arrival and strength of news.
    pub news: NewsConfig,
    /// Effect of recent price moves on how often agents act.
    pub arousal: ArousalConfig,
    /// Price around which makers quote.
    pub latent: LatentConfig,
    /// Pattern of a trading day, its auctions, and the night between two days.
    pub session: SessionConfig,
    /// Background agents of every symbol.
    pub population: Population,
    /// Fees and borrowing costs.
    pub fees: FeeSchedule,
    /// Maximum shares of a symbol that all accounts together may be short, open sells included.
    pub lendable_shares: i64,
    /// Slots for orders from outside, such as an environment's agent.
    pub slots: Vec<SlotConfig>,
    /// Settings of the features.
    pub features: FeatureConfig,
}

/// Hidden fundamental value: a random walk with two-scale stochastic volatility and jumps.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FundamentalConfig {
    /// Root mean square of the logarithm's random-walk change in one tick.
    pub volatility: f64,
    /// Mean-reversion time of the fast part of log-volatility, in ticks.
    pub fast_ticks: f64,
    /// Stationary standard deviation of the fast part.
    pub fast_sd: f64,
    /// Mean-reversion time of the slow part of log-volatility, in ticks.
    pub slow_ticks: f64,
    /// Stationary standard deviation of the slow part.
    pub slow_sd: f64,
    /// Expected jumps per day.
    pub jumps_per_day: f64,
    /// Standard deviation of one jump of the logarithm.
    pub jump_sd: f64,
    /// Drift of the logarithm per day.
    pub drift_per_day: f64,
    /// Rate per day at which the logarithm returns to its start; 0 for a pure random walk.
    pub reversion_per_day: f64,
    /// Share of the random walk's variance, and of that of a night, that all symbols have in
    /// common, `0..=1`: the correlation between the values of two symbols.
    pub common: f64,
}

/// News: shocks to the fundamental with a sentiment that fades linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NewsConfig {
    /// Expected events of one symbol per day.
    pub symbol_per_day: f64,
    /// Expected events per day that concern all symbols.
    pub market_per_day: f64,
    /// Standard deviation of the permanent change of the logarithm.
    pub shock_sd: f64,
    /// Fraction of the events of one symbol that do not change the value.
    pub rumour_share: f64,
    /// Mean life of an event, in ticks.
    pub life_ticks: f64,
    /// Bias of noise orders towards buying at a sentiment of 1, `0..=1`: P(buy) = (1 +
    /// `sentiment_tilt` * sentiment) / 2.
    pub sentiment_tilt: f64,
}

/// Settings of the factor on every wake rate: `floor + fast * x_fast + slow * x_slow`, at most
/// `ceiling`.
///
/// `x` is the decaying mean of absolute changes of the mid-price in ticks, divided by `typical`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ArousalConfig {
    /// Factor while the price does not move.
    pub floor: f64,
    /// Weight of the fast mean.
    pub fast: f64,
    /// Weight of the slow mean.
    pub slow: f64,
    /// Time constant of the fast mean, in ticks.
    pub fast_ticks: f64,
    /// Time constant of the slow mean, in ticks.
    pub slow_ticks: f64,
    /// Change of the mid-price in one tick, in price ticks, that counts as 1.
    pub typical: f64,
    /// Largest factor.
    pub ceiling: f64,
}

/// Settings of the latent order book, which sets the price around which makers quote.
///
/// Makers quote around a common opinion of the value, displaced by the orders of the last minutes.
/// They requote at the end of every tick. At `y` ticks from that opinion the latent order book has
/// `depth + slope * y` shares a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LatentConfig {
    /// Shares in one price tick at the opinion. 0 turns the latent order book off: makers quote
    /// around the last mid-price, and requote when they wake up.
    pub depth: f64,
    /// Growth of the shares in one tick with the distance in ticks.
    pub slope: f64,
    /// Ticks in which the consumed shares fall to 1/e.
    pub recovery_ticks: f64,
    /// Standard deviation of the opinion's error, in the logarithm.
    pub error_sd: f64,
    /// Time constant of the error, in ticks.
    pub error_ticks: f64,
}

impl LatentConfig {
    /// The latent order book turned off.
    pub const OFF: Self =
        Self { depth: 0.0, slope: 0.0, recovery_ticks: 1.0, error_sd: 0.0, error_ticks: 1.0 };

    /// Returns whether makers quote around the latent price.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.depth > 0.0
    }
}

/// Settings of sessions: what divides days. All zero but for `ticks`, the market never closes.
///
/// A day is a session of `ticks` ticks. Open orders end with it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SessionConfig {
    /// Ticks from the open to the close, `60..=10^7`.
    pub ticks: u32,
    /// Depth of the U over a day, `0..=0.9`: wake rates and volatility are `1 + 2 * u_shape` times
    /// as large at open and close, and `1 - u_shape` times in the middle. The mean rate and the
    /// mean variance stay.
    pub u_shape: f64,
    /// Ticks of the auctions at open and close, in which orders wait for one common price. Less
    /// than half of `ticks`. What does not trade is dropped.
    pub auction_ticks: u32,
    /// Standard deviation of the change of the value's logarithm over a night.
    pub overnight_sd: f64,
}

/// Endowment and limits of one account from outside: a slot or a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AccountConfig {
    /// Cash at the start, in cash units.
    pub cash: i64,
    /// Shares of every symbol at the start; negative starts short.
    pub shares: i32,
    /// Limits on orders and positions.
    pub limits: Limits,
}

impl Default for AccountConfig {
    /// Returns an account with 100,000.00 in cash at a tick of 0.01, limited to 1,000 shares.
    fn default() -> Self {
        Self {
            cash: 1_000_000_000,
            shares: 0,
            limits: Limits { long: 1_000, short: 1_000, order: 1_000 },
        }
    }
}

/// One slot for orders from outside, such as those of an environment's agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlotConfig {
    /// Endowment and limits.
    pub account: AccountConfig,
    /// Ticks between sending an order and its arrival. 0 arrives at the start of the next tick.
    pub latency_ticks: u32,
    /// Equity that positions and open orders need at least, as a fraction of their value in parts
    /// per million, `0..=1_000_000`: see [`Market::margin_room`](crate::Market::margin_room). 0
    /// asks for none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub initial_margin_ppm: i32,
}

/// Settings of the features.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FeatureConfig {
    /// Ticks of one candle, at least 1.
    pub candle_ticks: u32,
    /// Standard deviation of the error, in the logarithm, with which the fundamental is shown,
    /// `0..=1`. `None` shows the volume-weighted mean price instead.
    pub reveal_fundamental: Option<f64>,
}
