//! Gains of each kind of agent from its trades, valued a little later.
//!
//! The profit of a position over days is mostly the luck of its holder. A trade is judged better by
//! the price soon after it: makers earn what the price keeps of the spread and lose what it moves
//! against them (Huang and Stoll 1996, realised spread).

use super::subject::{Holding, KINDS, Subject};

/// Ticks between two readings of the holdings.
const EVERY: usize = 60;

/// Collects the gains of each kind of agent during a run.
#[derive(Clone, Debug, Default)]
pub(super) struct GainMeter {
    /// Holdings at the last two readings; the older first.
    held: Option<[[Holding; KINDS]; 2]>,
    gains: [f64; KINDS],
}

impl GainMeter {
    /// Reads the holdings every minute. Values the trades of the minute before the last one at the
    /// mid-price `mid`.
    pub(super) fn read<S: Subject>(&mut self, market: &S, tick: usize, mid: f64) {
        if !tick.is_multiple_of(EVERY) {
            return;
        }
        let now = market.holdings();
        let Some([older, last]) = self.held else {
            self.held = Some([now, now]);
            return;
        };
        for (gain, (before, after)) in self.gains.iter_mut().zip(older.iter().zip(&last)) {
            *gain += after.cash - before.cash + (after.shares - before.shares) * mid;
        }
        self.held = Some([last, now]);
    }

    /// Returns the gain of each kind for each share that the market traded, in price ticks.
    pub(super) fn per_share(&self, volume: f64) -> [f64; KINDS] {
        self.gains.map(|gain| gain / volume)
    }
}
