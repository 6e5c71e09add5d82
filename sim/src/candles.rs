//! Candles of one symbol with the indicators on them, updated once a candle.
//!
//! Prices are whole ticks, so that the moving sums are exact. Means follow their textbook
//! recursions. Exponential means start from the simple mean of their first `n` values. RSI and ATR
//! use Wilder's smoothing (*New Concepts in Technical Trading Systems*, 1978).

/// Number of closes kept: a power of two above the longest look-back.
const KEPT: usize = 128;
const RETURNS: usize = 32;
/// Candles over which the mean volume is taken.
const VOLUMES: usize = 8;

/// One candle; prices in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candle {
    /// First price: the close of the previous candle.
    pub open: i32,
    /// Highest price.
    pub high: i32,
    /// Lowest price.
    pub low: i32,
    /// Last price.
    pub close: i32,
    /// Shares traded.
    pub volume: i64,
}

/// An exponential mean that starts from a simple one.
#[derive(Clone, Copy, Debug, Default)]
struct Smooth {
    sum: f64,
    seen: u32,
    value: f64,
}

impl Smooth {
    /// Adds `x`. The first `length` values form a simple mean; a later one has weight `weight`.
    fn push(&mut self, x: f64, length: u32, weight: f64) {
        if self.seen < length {
            self.seen += 1;
            self.sum += x;
            self.value = self.sum / f64::from(self.seen);
        } else {
            self.value += weight * (x - self.value);
        }
    }

    fn get(&self, length: u32) -> Option<f64> {
        (self.seen >= length).then_some(self.value)
    }
}

/// Candles and indicators of one symbol. All prices are ticks. An indicator is `None` until enough
/// candles have closed.
#[derive(Clone, Copy, Debug)]
pub struct Candles {
    ticks: u32,
    current: Candle,
    last: Candle,
    count: u64,
    closes: [i32; KEPT],
    returns: [f64; RETURNS],
    volumes: [i64; VOLUMES],
    sum8: i64,
    sum12: i64,
    squares12: i64,
    sum16: i64,
    ema8: Smooth,
    ema16: Smooth,
    signal: Smooth,
    gain: Smooth,
    loss: Smooth,
    range: Smooth,
    volatility8: f64,
    volatility32: f64,
}

const fn exponential(length: u32) -> f64 {
    2.0 / (length as f64 + 1.0)
}

impl Candles {
    pub(crate) fn new(price: i32) -> Self {
        let flat = Candle { open: price, high: price, low: price, close: price, volume: 0 };
        Self {
            ticks: 0,
            current: flat,
            last: flat,
            count: 0,
            closes: [0; KEPT],
            returns: [0.0; RETURNS],
            volumes: [0; VOLUMES],
            sum8: 0,
            sum12: 0,
            squares12: 0,
            sum16: 0,
            ema8: Smooth::default(),
            ema16: Smooth::default(),
            signal: Smooth::default(),
            gain: Smooth::default(),
            loss: Smooth::default(),
            range: Smooth::default(),
            volatility8: 0.0,
            volatility32: 0.0,
        }
    }

    /// Adds one tick, and closes the candle after `length` ticks. A tick without trades changes no
    /// price.
    #[inline]
    pub(crate) fn tick(&mut self, length: u32, high: i32, low: i32, last: i32, volume: i64) {
        if volume > 0 {
            self.current.high = self.current.high.max(high);
            self.current.low = self.current.low.min(low);
            self.current.close = last;
            self.current.volume += volume;
        }
        self.ticks += 1;
        if self.ticks >= length {
            self.close();
        }
    }

    fn close(&mut self) {
        let candle = self.current;
        let Candle { close, high, low, .. } = candle;
        let before = self.last.close;
        self.ticks = 0;
        self.move_sums(close);
        self.closes[self.count as usize % KEPT] = close;
        self.volumes[self.count as usize % VOLUMES] = candle.volume;
        if self.count > 0 {
            let at = (self.count - 1) as usize % RETURNS;
            self.returns[at] = (f64::from(close) / f64::from(before)).ln();
            let change = f64::from(close - before);
            self.gain.push(change.max(0.0), 8, 1.0 / 8.0);
            self.loss.push((-change).max(0.0), 8, 1.0 / 8.0);
            let range = high.max(before) - low.min(before);
            self.range.push(f64::from(range), 8, 1.0 / 8.0);
        }
        self.ema8.push(f64::from(close), 8, exponential(8));
        self.ema16.push(f64::from(close), 16, exponential(16));
        self.count += 1;
        if let Some(line) = self.macd_line() {
            self.signal.push(line, 4, exponential(4));
        }
        self.volatility8 = self.deviation(8);
        self.volatility32 = self.deviation(32);
        self.last = candle;
        self.current = Candle { open: close, high: close, low: close, close, volume: 0 };
    }

    fn move_sums(&mut self, close: i32) {
        let old = |back: u64| {
            let at = self.count.checked_sub(back)?;
            Some(i64::from(self.closes[at as usize % KEPT]))
        };
        let (old8, old12, old16) = (old(8), old(12), old(16));
        let close = i64::from(close);
        self.sum8 += close - old8.unwrap_or(0);
        self.sum12 += close - old12.unwrap_or(0);
        self.squares12 += close * close - old12.unwrap_or(0).pow(2);
        self.sum16 += close - old16.unwrap_or(0);
    }

    /// Returns the sample standard deviation of the last `length` returns; 0 while there are fewer.
    fn deviation(&self, length: u64) -> f64 {
        if self.count <= length {
            return 0.0;
        }
        let newest = self.count - 2;
        let returns = (0..length).map(|back| self.returns[(newest - back) as usize % RETURNS]);
        let mean = returns.clone().sum::<f64>() / length as f64;
        let squares: f64 = returns.map(|x| (x - mean).powi(2)).sum();
        (squares / (length - 1) as f64).sqrt()
    }

    /// Returns the number of closed candles.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last closed candle. Before there is one, returns a flat candle at the initial
    /// price.
    #[must_use]
    pub const fn last(&self) -> Candle {
        self.last
    }

    /// Returns the close `back` candles before the newest; `None` if it is not kept.
    #[must_use]
    pub fn close_at(&self, back: u64) -> Option<i32> {
        if back >= self.count.min(KEPT as u64) {
            return None;
        }
        Some(self.closes[(self.count - 1 - back) as usize % KEPT])
    }

    /// Returns the mean of the last 8 closes.
    #[must_use]
    pub fn sma8(&self) -> Option<f64> {
        (self.count >= 8).then(|| self.sum8 as f64 / 8.0)
    }

    /// Returns the mean of the last 16 closes.
    #[must_use]
    pub fn sma16(&self) -> Option<f64> {
        (self.count >= 16).then(|| self.sum16 as f64 / 16.0)
    }

    /// Returns the exponential mean of length 8.
    #[must_use]
    pub fn ema8(&self) -> Option<f64> {
        self.ema8.get(8)
    }

    /// Returns the exponential mean of length 16.
    #[must_use]
    pub fn ema16(&self) -> Option<f64> {
        self.ema16.get(16)
    }

    /// Returns the relative strength index of length 8, 0 to 100; 50 in a market without changes.
    #[must_use]
    pub fn rsi8(&self) -> Option<f64> {
        let (gain, loss) = (self.gain.get(8)?, self.loss.get(8)?);
        Some(if gain + loss == 0.0 { 50.0 } else { 100.0 * gain / (gain + loss) })
    }

    /// Returns the MACD line: exponential mean 8 minus 16.
    #[must_use]
    pub fn macd_line(&self) -> Option<f64> {
        Some(self.ema8()? - self.ema16()?)
    }

    /// Returns the MACD signal: exponential mean 4 of the line.
    #[must_use]
    pub fn macd_signal(&self) -> Option<f64> {
        self.signal.get(4)
    }

    /// Returns the middle and the half-width of the Bollinger bands (12, 2 standard deviations).
    #[must_use]
    pub fn bands(&self) -> Option<(f64, f64)> {
        if self.count < 12 {
            return None;
        }
        // The variance times 144, exact in integers: 12 * sum of squares - square of the sum.
        let spread = 12 * i128::from(self.squares12) - i128::from(self.sum12).pow(2);
        Some((self.sum12 as f64 / 12.0, 2.0 * (spread as f64).sqrt() / 12.0))
    }

    /// Returns the average true range of length 8.
    #[must_use]
    pub fn atr8(&self) -> Option<f64> {
        self.range.get(8)
    }

    /// Returns the standard deviation of the last 8 one-candle log returns.
    #[must_use]
    pub fn volatility8(&self) -> Option<f64> {
        (self.count > 8).then_some(self.volatility8)
    }

    /// Returns the standard deviation of the last 32 one-candle log returns.
    #[must_use]
    pub fn volatility32(&self) -> Option<f64> {
        (self.count > 32).then_some(self.volatility32)
    }

    /// Returns the volume of the last candle over the mean of the last 8, or fewer at the start.
    /// `None` if these candles have no volume.
    #[must_use]
    pub fn volume_surge(&self) -> Option<f64> {
        let kept = self.count.min(VOLUMES as u64);
        let sum: i64 = self.volumes[..kept as usize].iter().sum();
        (sum > 0).then(|| self.last.volume as f64 * kept as f64 / sum as f64)
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word(self.count << 16 | u64::from(self.ticks));
        word((self.current.close as u64) << 32 | self.current.high as u64 & 0xFFFF_FFFF);
        word(self.current.volume as u64 ^ (self.current.low as u64) << 32);
        word(self.sum16 as u64);
        for smooth in [self.ema8, self.ema16, self.signal, self.gain, self.loss, self.range] {
            word(smooth.value.to_bits());
        }
        word(self.volatility32.to_bits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{RandomStream, StreamRole};

    fn random_walk(count: usize) -> Vec<Candle> {
        let mut stream = RandomStream::new(9, StreamRole::Other, 0);
        let mut price = 1_000;
        let mut before = price;
        (0..count)
            .map(|_| {
                price += stream.below(21) as i32 - 10;
                let high = price.max(before) + stream.below(5) as i32;
                let low = price.min(before) - stream.below(5) as i32;
                let volume = i64::from(1 + stream.below(100));
                let candle = Candle { open: before, high, low, close: price, volume };
                before = price;
                candle
            })
            .collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// Returns the exponential mean of all values, from its definition.
    fn smooth(values: &[f64], length: usize, weight: f64) -> f64 {
        let first = mean(&values[..length]);
        values[length..].iter().fold(first, |value, x| value + weight * (x - value))
    }

    fn close_to(left: Option<f64>, right: f64) -> bool {
        left.is_some_and(|left| (left - right).abs() <= 1e-9 * right.abs().max(1.0))
    }

    #[test]
    fn indicators_equal_their_definitions_over_the_whole_history() {
        let series = random_walk(300);
        let mut candles = Candles::new(1_000);
        for (at, candle) in series.iter().enumerate() {
            candles.tick(1, candle.high, candle.low, candle.close, candle.volume);
            let closes: Vec<f64> =
                series[..=at].iter().map(|candle| f64::from(candle.close)).collect();
            let n = closes.len();
            let changes: Vec<f64> = closes.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(candles.close_at(0), Some(candle.close));
            assert_eq!(candles.close_at(64).is_some(), n > 64);
            if n < 40 {
                let known = [
                    (candles.sma8(), 8),
                    (candles.ema8(), 8),
                    (candles.rsi8(), 9),
                    (candles.atr8(), 9),
                    (candles.volatility8(), 9),
                    (candles.bands().map(|(middle, _)| middle), 12),
                    (candles.sma16(), 16),
                    (candles.ema16(), 16),
                    (candles.macd_line(), 16),
                    (candles.macd_signal(), 19),
                    (candles.volatility32(), 33),
                ];
                for (value, first) in known {
                    assert_eq!(value.is_some(), n >= first, "{n} candles, {first} needed");
                }
                continue;
            }
            assert!(close_to(candles.sma8(), mean(&closes[n - 8..])));
            assert!(close_to(candles.sma16(), mean(&closes[n - 16..])));
            assert!(close_to(candles.ema8(), smooth(&closes, 8, 2.0 / 9.0)));
            let lines: Vec<f64> = (16..=n)
                .map(|end| {
                    smooth(&closes[..end], 8, 2.0 / 9.0) - smooth(&closes[..end], 16, 2.0 / 17.0)
                })
                .collect();
            assert!(close_to(candles.macd_line(), lines[lines.len() - 1]));
            assert!(close_to(candles.macd_signal(), smooth(&lines, 4, 0.4)));
            let up: Vec<f64> = changes.iter().map(|x| x.max(0.0)).collect();
            let down: Vec<f64> = changes.iter().map(|x| (-x).max(0.0)).collect();
            let (up, down) = (smooth(&up, 8, 0.125), smooth(&down, 8, 0.125));
            assert!(close_to(candles.rsi8(), 100.0 * up / (up + down)));
            let ranges: Vec<f64> = (1..n)
                .map(|i| {
                    let before = series[i - 1].close;
                    f64::from(series[i].high.max(before) - series[i].low.min(before))
                })
                .collect();
            assert!(close_to(candles.atr8(), smooth(&ranges, 8, 0.125)));
            let (middle, width) = candles.bands().unwrap();
            let last = &closes[n - 12..];
            let variance = mean(&last.iter().map(|x| (x - mean(last)).powi(2)).collect::<Vec<_>>());
            assert!(close_to(Some(middle), mean(last)));
            assert!(close_to(Some(width), 2.0 * variance.sqrt()));
            let returns: Vec<f64> =
                closes.windows(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
            let deviation = |length: usize| {
                let last = &returns[returns.len() - length..];
                let squares: f64 = last.iter().map(|x| (x - mean(last)).powi(2)).sum();
                (squares / (length - 1) as f64).sqrt()
            };
            assert!(close_to(candles.volatility8(), deviation(8)));
            assert!(close_to(candles.volatility32(), deviation(32)));
            assert!(close_to(candles.ema16(), smooth(&closes, 16, 2.0 / 17.0)));
        }
    }

    #[test]
    fn a_candle_without_trades_is_flat_at_the_last_price() {
        let mut candles = Candles::new(500);
        for _ in 0..4 {
            candles.tick(4, 0, i32::MAX, 0, 0);
        }
        let flat = Candle { open: 500, high: 500, low: 500, close: 500, volume: 0 };
        assert_eq!((candles.count(), candles.last()), (1, flat));
        assert_eq!(candles.volume_surge(), None);
    }
}
