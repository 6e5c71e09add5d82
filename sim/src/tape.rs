//! Public record of one symbol: prices, volume, flow, volatility, indicators by horizon.

use crate::{book::Side, config::ArousalConfig, ledger::CASH_PER_TICK};

/// Time constants of the shared indicators, in ticks. Neighbours differ by a factor of 2.
pub const HORIZONS: [f64; 8] = [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1_920.0];
const FLOW_TICKS: f64 = 20.0;
const VOLATILITY_TICKS: f64 = 60.0;

/// One order that traded when it arrived, or all trades of a call auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketOrder {
    /// Side of the order. For a call auction, the side that has more shares at the price.
    pub side: Side,
    /// Shares traded.
    pub quantity: i32,
    /// Sum of price times shares, in ticks.
    pub notional: i64,
    /// Account that sent it; `u16::MAX` for the trades of a call auction.
    pub account: u16,
}

/// Decaying moments of the mid-price at one horizon.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Horizon {
    /// Mean of the mid-price.
    pub(crate) mean: f64,
    /// Variance about the mean.
    pub(crate) variance: f64,
    /// Mean of upward changes in one tick.
    up: f64,
    /// Mean of downward changes in one tick.
    down: f64,
    /// Signal line: decaying mean of the gap between the next shorter mean and this one.
    signal: f64,
    high: f64,
    low: f64,
}

/// Indicator that a signal trader watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indicator {
    /// Gap between two means of the price, which shows a trend.
    MeanGap,
    /// Relative strength: mean upward against mean downward changes.
    Strength,
    /// Gap between two means of the price, minus the gap's own mean.
    Divergence,
    /// Distance of the mid-price from its mean, in standard deviations.
    Band,
    /// Position in the channel of decaying extremes.
    Channel,
}

impl Indicator {
    pub(crate) const ALL: [Self; 5] =
        [Self::MeanGap, Self::Strength, Self::Divergence, Self::Band, Self::Channel];
}

/// Public record of one symbol.
#[derive(Clone, Debug)]
pub struct Tape {
    /// Twice the mid-price, in ticks. It keeps its last value while a side is empty.
    pub(crate) mid2: i32,
    pub(crate) previous_mid2: i32,
    pub(crate) last_price: i32,
    pub(crate) one_sided: bool,
    pub(crate) volume: i64,
    pub(crate) signed_volume: i64,
    pub(crate) trades: u32,
    pub(crate) notional: i64,
    pub(crate) total_volume: i64,
    pub(crate) total_trades: u64,
    pub(crate) total_notional: i128,
    pub(crate) high: i32,
    pub(crate) low: i32,
    /// Decaying sum of shares bought minus sold by incoming orders.
    pub(crate) flow: f64,
    /// Decaying sum of the square roots of the sizes of orders that traded on arrival, with signs.
    pub(crate) pressure: f64,
    /// Shares of latent orders that incoming orders consumed and that have not recovered: positive
    /// after buys.
    pub(crate) consumed: f64,
    /// Price around which makers quote, in ticks.
    pub(crate) reference: f64,
    /// Decaying mean of volume per tick.
    pub(crate) pace: f64,
    /// Decaying sum of volume, with the time constant of `flow`.
    activity: f64,
    /// Decaying mean of trades per tick.
    rate: f64,
    /// Decaying mean of squared changes of the mid-price in ticks.
    pub(crate) variance: f64,
    pub(crate) fast: f64,
    pub(crate) slow: f64,
    pub(crate) arousal: f64,
    pub(crate) horizons: [Horizon; HORIZONS.len()],
    pub(crate) orders: Vec<MarketOrder>,
    pub(crate) orders_missed: u64,
}

impl Tape {
    pub(crate) fn new(order_room: usize) -> Self {
        Self {
            mid2: 0,
            previous_mid2: 0,
            last_price: 0,
            one_sided: true,
            volume: 0,
            signed_volume: 0,
            trades: 0,
            notional: 0,
            total_volume: 0,
            total_trades: 0,
            total_notional: 0,
            high: 0,
            low: 0,
            flow: 0.0,
            pressure: 0.0,
            consumed: 0.0,
            reference: 0.0,
            pace: 0.0,
            activity: 0.0,
            rate: 0.0,
            variance: 0.0,
            fast: 0.0,
            slow: 0.0,
            arousal: 1.0,
            horizons: [Horizon::default(); HORIZONS.len()],
            orders: Vec::with_capacity(order_room),
            orders_missed: 0,
        }
    }

    pub(crate) fn reset(&mut self, price: i32, arousal: &ArousalConfig) {
        let mut orders = std::mem::take(&mut self.orders);
        orders.clear();
        *self = Self::new(0);
        self.orders = orders;
        self.mid2 = 2 * price;
        self.previous_mid2 = 2 * price;
        self.last_price = price;
        self.reference = f64::from(price);
        self.high = price;
        self.low = price;
        self.fast = arousal.typical;
        self.slow = arousal.typical;
        self.variance = arousal.typical.powi(2);
        self.renew_arousal(arousal);
        for horizon in &mut self.horizons {
            let price = f64::from(price);
            *horizon = Horizon { mean: price, high: price, low: price, ..Horizon::default() };
        }
    }

    pub(crate) fn copy_from(&mut self, source: &Self) {
        let mut orders = std::mem::take(&mut self.orders);
        orders.clone_from(&source.orders);
        *self = Self { orders, ..*source };
    }

    fn renew_arousal(&mut self, config: &ArousalConfig) {
        let excited = config.fast * self.fast + config.slow * self.slow;
        self.arousal = (config.floor + excited / config.typical).min(config.ceiling);
    }

    #[inline]
    pub(crate) fn begin_tick(&mut self) {
        self.volume = 0;
        self.signed_volume = 0;
        self.trades = 0;
        self.notional = 0;
        self.high = 0;
        self.low = i32::MAX;
        self.orders.clear();
    }

    #[inline]
    pub(crate) fn trade(&mut self, price: i32, quantity: i32, taker_side: Side) {
        let shares = i64::from(quantity);
        self.volume += shares;
        self.signed_volume += i64::from(taker_side.sign()) * shares;
        self.notional += i64::from(price) * shares;
        self.trades += 1;
        self.last_price = price;
        self.high = self.high.max(price);
        self.low = self.low.min(price);
    }

    /// Records an order that traded on arrival. Its side counts as pressure on the price.
    #[inline]
    pub(crate) fn arrival(&mut self, order: MarketOrder) {
        let shares = f64::from(order.quantity);
        self.pressure += f64::from(order.side.sign()) * shares.sqrt();
        self.consumed += f64::from(order.side.sign()) * shares;
        self.market_order(order);
    }

    /// Records a market order without a change of `pressure` and `consumed`. A call auction calls
    /// this directly, since neither of its sides initiates the trades.
    #[inline]
    pub(crate) fn market_order(&mut self, order: MarketOrder) {
        if self.orders.len() < self.orders.capacity() {
            self.orders.push(order);
        } else {
            self.orders_missed += 1;
        }
    }

    /// Returns the mid-price in ticks.
    #[inline]
    pub(crate) fn mid(&self) -> f64 {
        f64::from(self.mid2) * 0.5
    }

    #[inline]
    pub(crate) fn end_tick(&mut self, bid: Option<i32>, ask: Option<i32>, config: &ArousalConfig) {
        self.previous_mid2 = self.mid2;
        self.one_sided = bid.is_none() || ask.is_none();
        if let (Some(bid), Some(ask)) = (bid, ask) {
            self.mid2 = bid + ask;
        }
        self.total_volume += self.volume;
        self.total_trades += u64::from(self.trades);
        self.total_notional += i128::from(self.notional);
        if self.trades == 0 {
            self.high = self.last_price;
            self.low = self.last_price;
        }
        let change = f64::from(self.mid2 - self.previous_mid2) * 0.5;
        self.flow += self.signed_volume as f64 - self.flow / FLOW_TICKS;
        self.pressure -= self.pressure / FLOW_TICKS;
        self.activity += self.volume as f64 - self.activity / FLOW_TICKS;
        self.rate += (f64::from(self.trades) - self.rate) / FLOW_TICKS;
        self.pace += (self.volume as f64 - self.pace) / (5.0 * FLOW_TICKS);
        self.variance += (change * change - self.variance) / VOLATILITY_TICKS;
        self.fast += (change.abs() - self.fast) / config.fast_ticks;
        self.slow += (change.abs() - self.slow) / config.slow_ticks;
        self.renew_arousal(config);
        self.renew_horizons(change);
    }

    fn renew_horizons(&mut self, change: f64) {
        let mid = self.mid();
        let (up, down) = (change.max(0.0), (-change).max(0.0));
        let mut shorter = mid;
        for (horizon, time) in self.horizons.iter_mut().zip(HORIZONS) {
            let weight = 1.0 / time;
            let gap = mid - horizon.mean;
            horizon.mean += weight * gap;
            horizon.variance += weight * ((1.0 - weight) * gap * gap - horizon.variance);
            horizon.up += weight * (up - horizon.up);
            horizon.down += weight * (down - horizon.down);
            let line = shorter - horizon.mean;
            horizon.signal += 2.0 * weight * (line - horizon.signal);
            horizon.high = mid.max(horizon.high - weight * (horizon.high - mid));
            horizon.low = mid.min(horizon.low + weight * (mid - horizon.low));
            shorter = horizon.mean;
        }
    }

    /// Returns the strength of an indicator at one horizon: about -2 to 2, positive in a rising
    /// market.
    pub(crate) fn indicator(&self, which: Indicator, at: usize) -> f64 {
        let horizon = &self.horizons[at];
        let shorter = if at == 0 { self.mid() } else { self.horizons[at - 1].mean };
        let sd = horizon.variance.sqrt().max(0.25);
        match which {
            Indicator::MeanGap => (shorter - horizon.mean) / sd,
            Indicator::Strength => {
                let sum = (horizon.up + horizon.down).max(1e-9);
                // For a random walk the ratio scatters like 1/sqrt(time), so this has a standard
                // deviation near 1.
                (horizon.up - horizon.down) / sum * HORIZONS[at].sqrt()
            }
            Indicator::Divergence => 2.0 * (shorter - horizon.mean - horizon.signal) / sd,
            Indicator::Band => (self.mid() - horizon.mean) / sd,
            Indicator::Channel => {
                let width = (horizon.high - horizon.low).max(0.5);
                (self.mid() - 0.5 * (horizon.high + horizon.low)) / width * 3.0
            }
        }
    }

    /// Returns the volume-weighted mean price since the start in ticks; before any trade, the last
    /// price.
    #[must_use]
    pub fn mean_price(&self) -> f64 {
        if self.total_volume == 0 {
            f64::from(self.last_price)
        } else {
            self.total_notional as f64 / self.total_volume as f64
        }
    }

    /// Returns (bought - sold) / (bought + sold) by incoming orders, over about 20 ticks; `None`
    /// without recent trades.
    #[must_use]
    pub fn flow_imbalance(&self) -> Option<f64> {
        (self.activity > 1e-6).then(|| self.flow / self.activity)
    }

    /// Returns the mean number of trades per tick, over about 20 ticks.
    #[must_use]
    pub const fn trade_rate(&self) -> f64 {
        self.rate
    }

    /// Returns the mean volume per tick in shares, over about 100 ticks.
    #[must_use]
    pub const fn volume_rate(&self) -> f64 {
        self.pace
    }

    /// Returns the arousal after this tick: the factor on the wake rates of background agents.
    #[must_use]
    pub const fn arousal(&self) -> f64 {
        self.arousal
    }

    /// Returns the notional of this tick in cash units.
    #[must_use]
    pub const fn turnover(&self) -> i64 {
        self.notional * CASH_PER_TICK
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word((self.mid2 as u64) << 32 | self.last_price as u64 & 0xFFFF_FFFF);
        word(self.total_volume as u64);
        word(self.total_trades);
        for real in [
            self.flow,
            self.pressure,
            self.consumed,
            self.reference,
            self.pace,
            self.activity,
            self.rate,
            self.variance,
            self.fast,
            self.slow,
            self.arousal,
        ] {
            word(real.to_bits());
        }
        for horizon in &self.horizons {
            word(horizon.mean.to_bits());
            word(horizon.variance.to_bits() ^ horizon.signal.to_bits().rotate_left(17));
            word(horizon.up.to_bits() ^ horizon.down.to_bits().rotate_left(17));
            word(horizon.high.to_bits() ^ horizon.low.to_bits().rotate_left(17));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AROUSAL: ArousalConfig = ArousalConfig {
        floor: 0.5,
        fast: 0.3,
        slow: 0.2,
        fast_ticks: 10.0,
        slow_ticks: 100.0,
        typical: 1.0,
        ceiling: 4.0,
    };

    /// Returns a tape after some mid-prices, which begin at 1,000.
    fn tape(mids: &[i32]) -> Tape {
        let mut tape = Tape::new(0);
        tape.reset(1_000, &AROUSAL);
        for mid in mids {
            tape.begin_tick();
            tape.end_tick(Some(mid - 1), Some(mid + 1), &AROUSAL);
        }
        tape
    }

    /// Returns pseudo-random mid-prices, with a drift in ticks.
    fn walk(drift: i32) -> Vec<i32> {
        let step = |state: &mut (i32, i32), _| {
            state.1 = (state.1 * 75 + 74) % 8_191;
            state.0 += state.1 % 7 - 3 + drift;
            Some(state.0)
        };
        (0..400).scan((1_000, 7), step).collect()
    }

    /// Returns all indicators at all horizons from decaying means of the whole history.
    fn indicators(mids: &[i32]) -> Vec<[f64; 5]> {
        let mids: Vec<f64> = mids.iter().map(|mid| f64::from(*mid)).collect();
        let faded = |values: &[f64], weight: f64, first: f64| {
            values
                .iter()
                .scan(first, |mean, value| {
                    *mean = (1.0 - weight) * *mean + weight * value;
                    Some(*mean)
                })
                .collect::<Vec<f64>>()
        };
        let last = |values: &[f64]| *values.last().unwrap();
        let before = std::iter::once(&1_000.0).chain(&mids);
        let changes: Vec<f64> = mids.iter().zip(before).map(|(mid, before)| mid - before).collect();
        let (mut shorter, mut found) = (mids.clone(), Vec::new());
        for time in HORIZONS {
            let weight = 1.0 / time;
            let means = faded(&mids, weight, 1_000.0);
            let old = std::iter::once(&1_000.0).chain(&means);
            // The gap to the mean before: the variance of a mixture of the old values and the new.
            let variance = mids.iter().zip(old).fold(0.0, |variance, (mid, old)| {
                (1.0 - weight) * (variance + weight * (mid - old) * (mid - old))
            });
            let sd = f64::max(variance.sqrt(), 0.25);
            let of = |sign: f64| {
                let part: Vec<f64> =
                    changes.iter().map(|change| (sign * change).max(0.0)).collect();
                last(&faded(&part, weight, 0.0))
            };
            let (up, down) = (of(1.0), of(-1.0));
            let lines: Vec<f64> =
                shorter.iter().zip(&means).map(|(shorter, mean)| shorter - mean).collect();
            let signal = last(&faded(&lines, 2.0 * weight, 0.0));
            let edge = |further: fn(f64, f64) -> f64| {
                mids.iter().fold(1_000.0, |edge, mid| further(*mid, edge + weight * (mid - edge)))
            };
            let (high, low) = (edge(f64::max), edge(f64::min));
            let (mid, mean, line) = (last(&mids), last(&means), last(&lines));
            found.push([
                line / sd,
                (up - down) / (up + down).max(1e-9) * time.sqrt(),
                2.0 * (line - signal) / sd,
                (mid - mean) / sd,
                3.0 * (mid - f64::midpoint(high, low)) / (high - low).max(0.5),
            ]);
            shorter = means;
        }
        found
    }

    fn shown(mids: &[i32]) -> Vec<[f64; 5]> {
        let tape = tape(mids);
        let of = |at| Indicator::ALL.map(|which| tape.indicator(which, at));
        (0..HORIZONS.len()).map(of).collect()
    }

    #[test]
    fn indicators_are_those_of_decaying_means_of_the_whole_history() {
        for mids in [walk(0), walk(1), walk(-1), vec![1_000; 20], vec![1_000, 1_001]] {
            for (at, (found, expected)) in shown(&mids).iter().zip(indicators(&mids)).enumerate() {
                for (which, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let near = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
                    assert!(near, "{which} at {at}: {found}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn indicators_rise_with_the_market_and_change_their_sign_with_it() {
        let rising: Vec<i32> = (1_001..1_201).collect();
        assert!(shown(&rising).as_flattened().iter().all(|strength| *strength > 0.0));
        let mids = walk(0);
        let mirrored: Vec<i32> = mids.iter().map(|mid| 2_000 - mid).collect();
        for (one, other) in shown(&mids).iter().zip(shown(&mirrored)) {
            for (one, other) in one.iter().zip(other) {
                assert!((one + other).abs() < 1e-9, "{one} and {other}");
            }
        }
    }
}
