//! Splits that columns tell: which columns do, and whether prices move as they say.

use std::ops::Range;

use crate::{Panel, PriceColumn};

/// Logarithm of the smallest split that a price tells from a usual move between bars.
const SURE_SPLIT: f64 = 0.4;

/// Bars on which a column tells a split of 3 to 2 or more, by what the prices do on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToldSplits {
    /// Bars on which the price moves as the split says.
    pub moved: SplitBars,
    /// Bars on which it does not.
    pub still: SplitBars,
}

/// Bars with a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitBars {
    /// Ticker and day of the earliest; of several, that of the first ticker.
    pub first: Option<(usize, usize)>,
    /// Number of them.
    pub count: usize,
}

impl SplitBars {
    fn add(&mut self, ticker: usize, day: usize) {
        self.count += 1;
        if self.first.is_none_or(|(_, first)| day < first) {
            self.first = Some((ticker, day));
        }
    }
}

/// Returns whether a column tells splits by its name: "split" is in it, in any case.
pub(crate) fn is_named_after_splits(name: &str) -> bool {
    name.to_lowercase().contains("split")
}

/// Returns whether a price that opens at `moved` times its last close moves by the split of
/// `ratio`. Returns `None` if there is no split, which is a ratio of 0 or 1, or one that is too
/// small to be seen in a price.
pub(crate) fn moves_by(ratio: f64, moved: f64) -> Option<bool> {
    if ratio <= 0.0 || ratio.ln().abs() < SURE_SPLIT {
        return None;
    }
    Some((moved.ln() + ratio.ln()).abs() < moved.ln().abs())
}

impl Panel {
    /// Compares the splits of a column with the prices of some tickers on a range of days.
    ///
    /// # Panics
    ///
    /// If there is no such column, ticker or day, as with any slice.
    #[must_use]
    pub fn told_splits(&self, column: usize, tickers: &[usize], days: Range<usize>) -> ToldSplits {
        let rows = self.rows();
        let (open, close) = (PriceColumn::Open as usize, PriceColumn::Close as usize);
        let mut told = ToldSplits::default();
        for &ticker in tickers {
            let mut before = 0.0;
            for day in days.clone() {
                let row = rows.row(ticker, day);
                if row.value(open) <= 0.0 {
                    continue;
                }
                if before > 0.0 {
                    match moves_by(row.value(column), row.value(open) / before) {
                        Some(true) => told.moved.add(ticker, day),
                        Some(false) => told.still.add(ticker, day),
                        None => {}
                    }
                }
                before = row.value(close);
            }
        }
        told
    }

    /// Returns the first column with "split" in its name by which prices of these tickers move, and
    /// the bars on which they do. Takes one pass over each such column.
    ///
    /// # Panics
    ///
    /// If there is no such ticker or day, as with any slice.
    #[must_use]
    pub fn splits_by_name(
        &self,
        tickers: &[usize],
        days: Range<usize>,
    ) -> Option<(usize, SplitBars)> {
        let all = self.columns().iter().enumerate();
        let mut named = all.filter(|(_, name)| is_named_after_splits(name));
        named.find_map(|(column, _)| {
            let bars = self.told_splits(column, tickers, days.clone()).moved;
            (bars.count > 0).then_some((column, bars))
        })
    }
}
