//! Background agents of one symbol: how many of each archetype, and how they act.

use crate::ledger::Limits;

/// Kind of a background agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Archetype {
    /// Quotes both sides.
    Maker = 0,
    /// Trades at random.
    Noise = 1,
    /// Trades towards a private valuation.
    Value = 2,
    /// Follows or fades an indicator.
    Signal = 3,
    /// Works large parent orders.
    Executor = 4,
}

impl Archetype {
    /// All archetypes, in the order of [`Population::counts`].
    pub const ALL: [Self; 5] =
        [Self::Maker, Self::Noise, Self::Value, Self::Signal, Self::Executor];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Maker => "maker",
            Self::Noise => "noise",
            Self::Value => "value",
            Self::Signal => "signal",
            Self::Executor => "executor",
        }
    }
}

/// Background agents of one symbol. Times are ticks, quantities shares, prices price ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Population {
    /// Agents that quote both sides.
    pub maker: MakerConfig,
    /// Agents that trade at random.
    pub noise: NoiseConfig,
    /// Agents that trade towards a private valuation.
    pub value: ValueConfig,
    /// Agents that follow or fade an indicator.
    pub signal: SignalConfig,
    /// Agents that execute large parent orders.
    pub executor: ExecutorConfig,
    /// Cash of one agent at the start, in cash units.
    pub cash: i64,
    /// Shares of one agent at the start.
    pub shares: i32,
    /// Limits of one agent.
    pub limits: Limits,
}

/// Settings of makers, which cancel and requote both sides around a price.
///
/// Half-spread: `half_spread + spread_per_vol * v`, `v` the short-term volatility in ticks. Centre:
/// `price - skew * inventory + flow_shift * flow + root_shift * pressure`. `price` is the latent
/// price, or the last mid-price where [`LatentConfig`](crate::LatentConfig) is off. `flow` is the
/// recent signed volume; `pressure` is the recent sum of the signed square roots of order sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MakerConfig {
    /// Number of makers.
    pub count: u16,
    /// Mean ticks between requotes around the mid-price. Around the latent price makers requote at
    /// the end of every tick.
    pub wait: f64,
    /// Half-spread while the price does not move.
    pub half_spread: f64,
    /// Half-spread per unit of volatility.
    pub spread_per_vol: f64,
    /// Shift against inventory, in price ticks per share.
    pub skew: f64,
    /// Shift with recent signed flow, in price ticks per share.
    pub flow_shift: f64,
    /// Shift with recent signed orders, in price ticks per square root of an order's shares.
    pub root_shift: f64,
    /// Distance between the levels of a quote.
    pub level_step: f64,
    /// Shares at the first level. Each further level adds half of `size`.
    pub size: f64,
}

/// Settings of noise traders, which draw market orders, limit orders and cancels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NoiseConfig {
    /// Number of noise traders.
    pub count: u16,
    /// Mean ticks between actions.
    pub wait: f64,
    /// Probability of a market order.
    pub market: f64,
    /// Probability of a cancel.
    pub cancel: f64,
    /// Median size of an order.
    pub size: f64,
    /// Sigma of the logarithm of the size.
    pub size_sigma: f64,
    /// Tail exponent of the distance of limit orders from the opposite touch.
    pub depth_exponent: f64,
    /// Age in ticks above which a limit order is cancelled at its owner's next action.
    pub life: u32,
}

/// Settings of value traders, which move their position towards `strength * gap * |gap|`, gap in
/// per cent.
///
/// The gap leads from the mid-price to the trader's own valuation. The valuation is the fundamental
/// with a slowly renewed relative error, moved by `learning` towards the mid-price.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ValueConfig {
    /// Number of value traders.
    pub count: u16,
    /// Mean ticks between actions.
    pub wait: f64,
    /// Shares of target position at a gap of one per cent.
    pub strength: f64,
    /// Standard deviation of the relative error of a valuation.
    pub error_sd: f64,
    /// Mean ticks between renewals of the error.
    pub error_ticks: f64,
    /// Weight of the market price in the valuation, `0..1`.
    pub learning: f64,
    /// Largest order in shares.
    pub slice: f64,
    /// Gap in per cent from which an order crosses the spread.
    pub aggressive: f64,
}

/// Settings of signal traders, which follow or fade an indicator at a horizon of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SignalConfig {
    /// Number of signal traders.
    pub count: u16,
    /// Mean ticks between actions.
    pub wait: f64,
    /// Shortest drawn horizon in ticks. Draws are log-uniform; a trader takes the nearest horizon
    /// that the tape computes.
    pub horizon_low: f64,
    /// Longest drawn horizon in ticks.
    pub horizon_high: f64,
    /// Fraction of the traders that follow the indicator; the others fade it.
    pub followers: f64,
    /// Signal strength, in standard deviations, below which the target position is 0.
    pub threshold: f64,
    /// Largest position in shares.
    pub inventory: f64,
    /// Largest order in shares.
    pub size: f64,
}

/// Settings of executors, which work Pareto-distributed parent orders in slices.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExecutorConfig {
    /// Number of executors.
    pub count: u16,
    /// Mean ticks between slices.
    pub wait: f64,
    /// Mean ticks between two parent orders.
    pub idle: f64,
    /// Smallest parent order.
    pub parent_minimum: f64,
    /// Tail exponent of the size of parent orders.
    pub parent_exponent: f64,
    /// Largest parent order.
    pub parent_maximum: f64,
    /// Median size of a slice.
    pub slice: f64,
    /// Fraction of the slices that cross the spread; the others join the touch.
    pub aggressive: f64,
}

impl Population {
    /// Returns the number of agents of each archetype.
    #[must_use]
    pub const fn counts(&self) -> [(Archetype, u16); 5] {
        [
            (Archetype::Maker, self.maker.count),
            (Archetype::Noise, self.noise.count),
            (Archetype::Value, self.value.count),
            (Archetype::Signal, self.signal.count),
            (Archetype::Executor, self.executor.count),
        ]
    }

    /// Returns the number of agents.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.counts().iter().map(|(_, count)| u32::from(*count)).sum()
    }

    /// Returns this population with about `total` agents in nearly the same proportions.
    ///
    /// Every archetype that had an agent keeps at least one. Together, makers quote about as many
    /// shares as before. Each of the other agents acts less often if there are more of them, so
    /// that the market stays about as active.
    #[must_use]
    pub fn scaled(&self, total: u16) -> Self {
        let factor = f64::from(total) / f64::from(self.total().max(1));
        let mut scaled = *self;
        let resize = |count: &mut u16| {
            if *count > 0 {
                *count = ((f64::from(*count) * factor).round() as u16).max(1);
            }
        };
        resize(&mut scaled.maker.count);
        resize(&mut scaled.value.count);
        resize(&mut scaled.signal.count);
        resize(&mut scaled.executor.count);
        let others = u32::from(scaled.maker.count)
            + u32::from(scaled.value.count)
            + u32::from(scaled.signal.count)
            + u32::from(scaled.executor.count);
        if self.noise.count > 0 {
            scaled.noise.count = u32::from(total).saturating_sub(others).max(1) as u16;
        }
        scaled.maker.size = (scaled.maker.size / factor).max(1.0);
        scaled.noise.wait = (scaled.noise.wait * factor).max(1.0);
        scaled.value.wait = (scaled.value.wait * factor).max(1.0);
        scaled.signal.wait = (scaled.signal.wait * factor).max(1.0);
        scaled.executor.idle = (scaled.executor.idle * factor).max(1.0);
        scaled
    }
}
