//! Observations of an agent: named, bounded features, written into the caller's slice.
//!
//! [`FullFeatures`] has 55 entries per symbol in currency and per cent. [`NormalisedFeatures`] has
//! 40 entries that do not depend on the price level. [`PrivateFeatures`] has the state of one slot.
//! A set is a pure function of its own fields and of the market's state after a tick.

mod full;
mod normalised;
mod private;

use std::{iter, slice};

use thiserror::Error;

pub use full::FullFeatures;
pub use normalised::NormalisedFeatures;
pub use private::PrivateFeatures;

use crate::{
    book::{Book, Side},
    market::Market,
    rng::mix,
};

/// Subject of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FeatureGroup {
    /// Prices and returns.
    Price,
    /// Indicators on candles.
    Technical,
    /// News.
    News,
    /// Order book and trades.
    Book,
    /// Volatility.
    Volatility,
    /// Distance from a fair value.
    Value,
    /// State of the agent itself.
    Private,
}

/// One named entry of a feature vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feature {
    /// Name, such as `"rsi_8"`.
    pub name: &'static str,
    /// Subject of the feature.
    pub group: FeatureGroup,
    /// Unit, such as `"log ticks"`.
    pub unit: &'static str,
    /// Lowest value; smaller ones are clipped.
    pub low: f32,
    /// Highest value; larger ones are clipped.
    pub high: f32,
    /// Value of a feature that is not defined, such as with too little history.
    pub missing: f32,
}

/// Error of observing a market.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum ObserveError {
    /// The slice has another length than the set.
    #[error("the slice has room for {given} features, the set has {expected}; pass exactly these")]
    Length { given: usize, expected: usize },
    /// There is no such symbol.
    #[error("symbol {symbol} does not exist; there are {symbols}, counted from 0")]
    UnknownSymbol { symbol: u16, symbols: u16 },
    /// There is no such slot.
    #[error("slot {slot} does not exist; there are {slots}, counted from 0")]
    UnknownSlot { slot: usize, slots: usize },
}

/// A set of features of one symbol.
pub trait FeatureSet {
    /// Returns the entries in the order of the vector.
    fn features(&self) -> &'static [Feature];

    /// Writes the features of `symbol` into `out`, without allocating.
    ///
    /// # Errors
    /// [`ObserveError`] for an unknown symbol or slot, or a slice of another length; `out` is
    /// unchanged then.
    fn observe(&self, market: &Market, symbol: u16, out: &mut [f32]) -> Result<(), ObserveError>;

    /// Returns the number of features.
    fn count(&self) -> usize {
        self.features().len()
    }

    /// Returns a hash of names, units, bounds, missing values and groups, to identify the version
    /// of the set.
    fn fingerprint(&self) -> u64 {
        let mut hash = mix(self.count() as u64);
        let mut word = |word: u64| hash = mix(hash.rotate_left(7) ^ word);
        for feature in self.features() {
            feature.name.bytes().chain(feature.unit.bytes()).for_each(|byte| word(byte.into()));
            for bound in [feature.low, feature.high, feature.missing] {
                word(bound.to_bits().into());
            }
            word(feature.group as u64);
        }
        hash
    }
}

fn check(market: &Market, symbol: u16, out: &[f32], expected: usize) -> Result<(), ObserveError> {
    if symbol >= market.symbols() {
        return Err(ObserveError::UnknownSymbol { symbol, symbols: market.symbols() });
    }
    if out.len() != expected {
        return Err(ObserveError::Length { given: out.len(), expected });
    }
    Ok(())
}

/// Writer of features one after the other, clipped to their bounds.
struct FeatureWriter<'a> {
    entries: iter::Zip<slice::Iter<'static, Feature>, slice::IterMut<'a, f32>>,
}

impl<'a> FeatureWriter<'a> {
    fn new(features: &'static [Feature], out: &'a mut [f32]) -> Self {
        Self { entries: features.iter().zip(out) }
    }

    /// Writes the next feature; `None` and NaN become the feature's missing value.
    #[inline]
    fn put(&mut self, value: impl Into<Option<f64>>) {
        let value = value.into().unwrap_or(f64::NAN) as f32;
        if let Some((feature, out)) = self.entries.next() {
            let clipped = value.max(feature.low).min(feature.high);
            *out = if value.is_nan() { feature.missing } else { clipped };
        }
    }
}

/// Look-backs of returns, in candles.
const LAGS: [u64; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Returns (V_bid - V_ask) / (V_bid + V_ask) over the first `levels` occupied levels; `None` for an
/// empty book.
#[expect(clippy::doc_markdown, reason = "a formula")]
fn depth_imbalance(book: &Book, levels: usize) -> Option<f64> {
    let sum = |side: Side| {
        let (mut sum, mut left) = (0_i64, levels);
        book.for_each_level(side, |_, quantity| {
            sum += i64::from(quantity);
            left -= 1;
            left > 0
        });
        sum
    };
    imbalance(sum(Side::Buy), sum(Side::Sell))
}

/// Returns `(bids - asks) / (bids + asks)`; `None` if both are 0.
fn imbalance(bids: i64, asks: i64) -> Option<f64> {
    let (bids, asks) = (bids as f64, asks as f64);
    (bids + asks > 0.0).then(|| (bids - asks) / (bids + asks))
}

/// Returns `ln(now / then)` of two prices.
///
/// Prices within a factor of 1.06 take the series of `2 artanh((now - then) / (now + then))`, whose
/// remainder after five terms is below 1e-16 of the result.
#[inline]
fn log_ratio(now: i32, then: i32) -> f64 {
    let (now, then) = (f64::from(now), f64::from(then));
    let (difference, sum) = (now - then, now + then);
    if difference.abs() * 32.0 > sum {
        return (now / then).ln();
    }
    let z = difference / sum;
    let square = z * z;
    let tail = square * (1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0 + square / 9.0)));
    2.0 * (z + z * tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_of_ratios_are_those_of_the_library() {
        for then in [1, 7, 640, 9_999, 10_000, 90_000_000] {
            for now in (then - then / 17..=then + then / 17).step_by((then / 500).max(1) as usize) {
                let expected = (f64::from(now - then) / f64::from(then)).ln_1p();
                let found = log_ratio(now, then);
                let close = (found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs();
                assert!(close, "{now} / {then}: {found} and not {expected}");
            }
        }
        // Prices further apart take the library's logarithm.
        for (now, then) in [(3, 1), (10_700, 10_000), (1, 90_000_000)] {
            let expected = f64::from(now).ln() - f64::from(then).ln();
            assert!((log_ratio(now, then) - expected).abs() < 1e-14, "{now} / {then}");
        }
    }
}
