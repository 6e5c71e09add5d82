//! Units that are bought at the first close of a recorded episode and held.

use super::PortfolioVectorEnv;
use crate::portfolio::setup::CLOSE;

/// Units after splits, and their worth with dividends reinvested, over a recorded episode,
/// `[S + 1, T]`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HeldUnits {
    /// Units after splits; 1 until the first close.
    pub units: Vec<f64>,
    /// Worth at the last known close of the episode: of the units, and of the dividends, each
    /// invested again at the close of its day. 0 before the first close.
    pub worth: Vec<f64>,
}

impl PortfolioVectorEnv {
    /// Returns units after splits, and their worth with dividends reinvested, if one unit of each
    /// ticker is bought at its first close of an episode and held. The episode is the running one
    /// of a sub-environment, or the previous one if `before` is true. Splits and dividends count if
    /// settings name their columns.
    ///
    /// Returns `None` beyond the last sub-environment, or unless
    /// [`PortfolioOptions::record`](crate::PortfolioOptions::record) is set. Takes one pass over
    /// the days of the episode.
    #[must_use]
    pub fn held_units(&self, env: usize, before: bool) -> Option<HeldUnits> {
        let episode = self.history(env, before)?;
        let (rows, terms) = (self.setup.panel.rows(), &self.setup.rules.terms);
        let mut held = HeldUnits::default();
        // Units after splits, units with the dividends, and the last known close.
        let mut state = vec![(1.0, 1.0, 0.0); episode.tickers.len()];
        for &day in &episode.day {
            // Recorded days are positions in the panel.
            let day = usize::try_from(day).unwrap_or_default();
            for ((units, grown, known), &ticker) in state.iter_mut().zip(&episode.tickers) {
                let row = rows.row(ticker, day);
                let close = row.value(CLOSE);
                if close > 0.0 {
                    // Before its first close a ticker is not held.
                    if *known > 0.0 {
                        *units *= terms.units_of_old_unit(row);
                        *grown *= terms.worth_of_old_unit(row) / close;
                    }
                    *known = close;
                }
                held.units.push(*units);
                held.worth.push(*grown * *known);
            }
        }
        Some(held)
    }
}
