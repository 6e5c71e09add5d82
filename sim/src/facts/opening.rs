//! Ticks after a reset, compared with the long run.
//!
//! An episode should begin in a market that has settled. A market that is still on its way from its
//! start moves and trades more, or less, than it does later.

use super::recording::Recording;
use super::sample::mean;
use super::subject::Subject;

/// Ticks after a reset that are compared with the long run.
pub const OPENING_TICKS: usize = 600;

/// Means over a number of ticks of one market.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Activity {
    /// Absolute change of the mid-price in one tick, in price ticks.
    pub change: f64,
    /// Square of that change.
    pub variance: f64,
    /// Shares traded in one tick.
    pub volume: f64,
    /// Spread in price ticks.
    pub spread: f64,
    /// Shares at the best prices, both sides together.
    pub depth: f64,
}

impl Activity {
    /// Measures the ticks after a reset. Returns `None` if a side of the book is empty at first.
    pub fn after_reset<S: Subject>(market: &mut S) -> Option<Self> {
        let mut last = market.view().mid()?;
        let mut sums = Self::default();
        for _ in 0..OPENING_TICKS {
            market.step(0);
            let view = market.view();
            let mid = view.mid().unwrap_or(last);
            sums.change += (mid - last).abs();
            sums.variance += (mid - last).powi(2);
            sums.volume += view.volume as f64;
            sums.spread += f64::from(view.spread().unwrap_or(0));
            sums.depth += market.depth(0).iter().sum::<u64>() as f64;
            last = mid;
        }
        Some(sums.scaled(1.0 / OPENING_TICKS as f64))
    }

    /// Measures a recording.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let mids: Vec<f64> = recording.log_mid.iter().map(|log| log.exp()).collect();
        let changes: Vec<f64> = mids.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
        Self {
            change: mean(&changes),
            variance: mean(&changes.iter().map(|change| change * change).collect::<Vec<_>>()),
            volume: mean(&recording.volume),
            spread: mean(&recording.spreads()),
            depth: recording.depth.first().copied().unwrap_or(0.0),
        }
    }

    /// Returns the mean of several measurements.
    #[must_use]
    pub fn average(all: &[Self]) -> Self {
        let sum = all.iter().fold(Self::default(), |sum, one| Self {
            change: sum.change + one.change,
            variance: sum.variance + one.variance,
            volume: sum.volume + one.volume,
            spread: sum.spread + one.spread,
            depth: sum.depth + one.depth,
        });
        sum.scaled(1.0 / all.len() as f64)
    }

    fn scaled(self, by: f64) -> Self {
        let Self { change, variance, volume, spread, depth } = self;
        Self {
            change: change * by,
            variance: variance * by,
            volume: volume * by,
            spread: spread * by,
            depth: depth * by,
        }
    }
}
