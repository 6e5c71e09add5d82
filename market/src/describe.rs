//! Summary of a panel: contents, coverage, and missing rows.

use serde::Serialize;

use crate::{
    assemble::PanelData, blocks::is_listed, calendar::Calendar, panel::Panel, symbols::PriceColumn,
};

/// Summary of a panel. Days are numbered from 0. Prices are those of the file, per share.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PanelSummary {
    /// Labels of the rows: days or instants.
    pub calendar: Calendar,
    /// Number of days or bars, `D`.
    pub days: usize,
    /// Number of days or bars of a year, from [`Panel::bars_per_year`].
    pub bars_per_year: f64,
    /// The first day, `YYYY-MM-DD`, or bar, `2024-01-02T14:30:00Z`.
    pub first_date: Option<String>,
    /// The last day or bar, in the same form.
    pub last_date: Option<String>,
    /// All tickers, macro ones included, sorted by their bytes.
    pub tickers: Vec<String>,
    /// Tickers that are shown but never traded.
    pub macro_tickers: Vec<String>,
    /// Open, high, low, close, volume, then the indicators.
    pub columns: Vec<String>,
    /// Columns after the first five.
    pub indicators: Vec<String>,
    /// Number of pairs of ticker and day that have a row.
    pub rows: usize,
    /// Number of pairs of ticker and day that have no row.
    pub masked_rows: usize,
    /// Number of rows of tradable tickers whose open or close lies below their low or above their
    /// high.
    pub inconsistent_rows: usize,
    /// Bytes of the panel's numbers, in shared or private memory.
    pub data_bytes: usize,
    /// Lowest `low` of the tradable tickers; `None` if there are none.
    pub min_price: Option<f64>,
    /// Highest `high` of the tradable tickers; `None` if there are none.
    pub max_price: Option<f64>,
    /// Fingerprint, from [`Panel::fingerprint`].
    pub fingerprint: String,
    /// One entry for each ticker, in the order of `tickers`.
    pub coverage: Vec<Coverage>,
}

/// Days and prices of one ticker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Coverage {
    /// The ticker.
    pub ticker: String,
    /// True for a macro ticker, which is shown and never traded.
    pub is_macro: bool,
    /// Number of days on which the ticker has a row.
    pub rows: usize,
    /// First of these days; `None` if there are none.
    pub first_day: Option<usize>,
    /// Last of these days; `None` if there are none.
    pub last_day: Option<usize>,
    /// Date of the first day, as in the summary.
    pub first_date: Option<String>,
    /// Date of the last day, as in the summary.
    pub last_date: Option<String>,
    /// Number of days between the first and the last on which the ticker has no row.
    pub missing_days: usize,
    /// Lowest `low` of its rows; `None` without rows.
    pub min_price: Option<f64>,
    /// Highest `high` of its rows; `None` without rows.
    pub max_price: Option<f64>,
}

/// Returns whether the open or the close of a row lies below its low or above its high.
fn contradicts(value: impl Fn(PriceColumn) -> f64) -> bool {
    let range = value(PriceColumn::Low)..=value(PriceColumn::High);
    !(range.contains(&value(PriceColumn::Open)) && range.contains(&value(PriceColumn::Close)))
}

impl PanelData {
    /// Returns the same count as [`Panel::inconsistent_rows`], before the panel is made.
    #[must_use]
    pub fn inconsistent_rows(&self) -> usize {
        // Missing rows are all zeros, so they are consistent.
        self.traded_rows().filter(|row| contradicts(|column| row[column as usize])).count()
    }
}

impl Panel {
    /// Summarises the panel. Passes twice over the rows of the tradable tickers.
    #[must_use]
    pub fn describe(&self) -> PanelSummary {
        let coverage: Vec<Coverage> =
            (0..self.tickers().len()).map(|ticker| self.coverage(ticker)).collect();
        let rows = coverage.iter().map(|ticker| ticker.rows).sum();
        let tradable = || coverage.iter().filter(|ticker| !ticker.is_macro);
        let macros = coverage.iter().filter(|ticker| ticker.is_macro);
        PanelSummary {
            calendar: self.calendar(),
            days: self.days(),
            bars_per_year: self.bars_per_year(),
            first_date: self.date(0),
            last_date: self.date(self.days().wrapping_sub(1)),
            tickers: self.tickers().to_vec(),
            macro_tickers: macros.map(|ticker| ticker.ticker.clone()).collect(),
            columns: self.columns().to_vec(),
            indicators: self.indicators().to_vec(),
            rows,
            masked_rows: self.tickers().len() * self.days() - rows,
            inconsistent_rows: self.inconsistent_rows(),
            data_bytes: self.data_bytes(),
            min_price: tradable().filter_map(|ticker| ticker.min_price).reduce(f64::min),
            max_price: tradable().filter_map(|ticker| ticker.max_price).reduce(f64::max),
            fingerprint: self.fingerprint().to_owned(),
            coverage,
        }
    }

    /// Counts the rows of tradable tickers whose open or close lies below their low or above their
    /// high, in one pass.
    ///
    /// A panel keeps such rows, since vendors adjust and round each price separately. Fill prices
    /// are drawn from these numbers unchanged.
    #[must_use]
    pub fn inconsistent_rows(&self) -> usize {
        let inconsistent = |ticker: usize, day: usize| {
            let row = self.rows().row(ticker, day);
            contradicts(|column| row.value(column as usize))
        };
        let tradable = (0..self.tickers().len()).filter(|&ticker| !self.is_macro(ticker));
        tradable
            .map(|ticker| {
                let marks = self.marks(ticker);
                let days = (0..self.days()).filter(|&day| is_listed(marks, day));
                days.filter(|&day| inconsistent(ticker, day)).count()
            })
            .sum()
    }

    fn coverage(&self, ticker: usize) -> Coverage {
        let marks = self.marks(ticker);
        let (mut rows, mut last_day) = (0, None);
        let (mut min_price, mut max_price) = (None, None);
        for day in (0..self.days()).filter(|&day| is_listed(marks, day)) {
            rows += 1;
            last_day = Some(day);
            let row = self.rows().row(ticker, day);
            let (low, high) =
                (row.value(PriceColumn::Low as usize), row.value(PriceColumn::High as usize));
            min_price = Some(min_price.map_or(low, |lowest: f64| lowest.min(low)));
            max_price = Some(max_price.map_or(high, |highest: f64| highest.max(high)));
        }
        let first_day = self.first_day(ticker);
        let date = |day: Option<usize>| day.and_then(|day| self.date(day));
        let span = first_day.zip(last_day).map_or(0, |(first, last)| last - first + 1);
        Coverage {
            ticker: self.tickers()[ticker].clone(),
            is_macro: self.is_macro(ticker),
            rows,
            first_day,
            last_day,
            first_date: date(first_day),
            last_date: date(last_day),
            missing_days: span - rows,
            min_price,
            max_price,
        }
    }
}
