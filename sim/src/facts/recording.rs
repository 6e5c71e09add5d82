//! Recording of a run: the series that the facts need.

use super::gains::GainMeter;
use super::sample::std_dev;
use super::scaling::returns;
use super::subject::{KINDS, Subject};

/// Ticks of a trading day: one per second from 9:30 to 16:00.
pub const TICKS_PER_DAY: usize = crate::DAY_TICKS as usize;
/// Number of distances from the best price at which depth is kept.
pub const DEPTH_LEVELS: usize = 24;
/// Ticks between two readings of the book's depth.
const DEPTH_EVERY: usize = 10;

/// Series of one seed, after warm-up.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recording {
    /// Log of the mid-price. A tick with a one-sided book repeats the last one.
    pub log_mid: Vec<f64>,
    /// Best buy price in price ticks; a one-sided book repeats the last quotes.
    pub bid: Vec<i32>,
    /// Best sell price in price ticks; a one-sided book repeats the last quotes.
    pub ask: Vec<i32>,
    /// Shares traded in the tick.
    pub volume: Vec<f64>,
    /// Fundamental in price ticks.
    pub fundamental: Vec<f64>,
    /// Signs of the orders that took liquidity, one per order.
    pub signs: Vec<i8>,
    /// Number of ticks at whose end a side of the book was empty.
    pub one_sided_ticks: usize,
    /// Mean shares in orders at each distance from the best price, both sides together.
    pub depth: Vec<f64>,
    /// Gain of each kind of agent for each share that the market traded, in price ticks: trades
    /// valued at the mid-price one to two minutes later.
    pub gains: [f64; KINDS],
    /// Whether cash and shares added up at the end.
    pub conserved: bool,
}

impl Recording {
    /// Runs `market` for `ticks` ticks without outside orders and records its series. O(ticks).
    pub fn take<S: Subject>(market: &mut S, ticks: usize) -> Self {
        let mut recording = Self { depth: vec![0.0; DEPTH_LEVELS], ..Self::default() };
        let mut looks = 0.0;
        let mut gains = GainMeter::default();
        let (mut bid, mut ask) = last_quotes(market);
        for tick in 0..ticks {
            market.step(0);
            let view = market.view();
            if let (Some(new_bid), Some(new_ask)) = (view.bid, view.ask) {
                (bid, ask) = (new_bid, new_ask);
            } else {
                recording.one_sided_ticks += 1;
            }
            recording.log_mid.push(f64::midpoint(f64::from(bid), f64::from(ask)).ln());
            recording.bid.push(bid);
            recording.ask.push(ask);
            recording.volume.push(view.volume as f64);
            recording.fundamental.push(view.fundamental);
            market.append_signs(&mut recording.signs);
            gains.read(market, tick, f64::midpoint(f64::from(bid), f64::from(ask)));
            if tick % DEPTH_EVERY == 0 {
                looks += 1.0;
                for (distance, sum) in (0..).zip(&mut recording.depth) {
                    *sum += market.depth(distance).iter().sum::<u64>() as f64;
                }
            }
        }
        recording.depth.iter_mut().for_each(|sum| *sum /= looks);
        recording.gains = gains.per_share(recording.volume.iter().sum());
        recording.conserved = market.is_conserved();
        recording
    }

    /// Returns the number of ticks.
    #[must_use]
    pub fn ticks(&self) -> usize {
        self.log_mid.len()
    }

    /// Returns log returns of the mid-price over `horizon` ticks, without overlap.
    #[must_use]
    pub fn returns(&self, horizon: usize) -> Vec<f64> {
        returns(&self.log_mid, horizon)
    }

    /// Returns the absolute values of [`Self::returns`].
    #[must_use]
    pub fn sizes(&self, horizon: usize) -> Vec<f64> {
        self.returns(horizon).into_iter().map(f64::abs).collect()
    }

    /// Returns the volume of each interval that [`Self::returns`] covers.
    ///
    /// # Panics
    ///
    /// If `horizon` is 0.
    #[must_use]
    pub fn volumes(&self, horizon: usize) -> Vec<f64> {
        // The first return begins at the end of the first tick, so the volume of that tick is left
        // out.
        let traded = self.volume.get(1..).unwrap_or_default();
        traded.chunks_exact(horizon).map(|part| part.iter().sum()).collect()
    }

    /// Returns the spread after each tick in price ticks.
    #[must_use]
    pub fn spreads(&self) -> Vec<f64> {
        self.bid.iter().zip(&self.ask).map(|(bid, ask)| f64::from(ask - bid)).collect()
    }

    /// Returns the standard deviation of `ln(mid / fundamental)`.
    #[must_use]
    pub fn anchor(&self) -> f64 {
        let gaps: Vec<f64> = self
            .log_mid
            .iter()
            .zip(&self.fundamental)
            .map(|(mid, value)| mid - value.ln())
            .collect();
        std_dev(&gaps)
    }
}

/// Returns the quotes before the first tick. A one-sided book counts as quoting its fundamental.
fn last_quotes<S: Subject>(market: &S) -> (i32, i32) {
    let view = market.view();
    #[expect(clippy::cast_possible_truncation, reason = "a price in ticks")]
    let value = view.fundamental.round().max(1.0) as i32;
    match (view.bid, view.ask) {
        (Some(bid), Some(ask)) => (bid, ask),
        _ => (value, value + 1),
    }
}
