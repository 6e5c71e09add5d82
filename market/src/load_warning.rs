//! Warnings about data that loading keeps: bars of two lengths, a year that was guessed, and splits
//! that no column names.

use std::collections::HashMap;

use thiserror::Error;

use crate::{
    assemble::PanelData,
    blocks::is_marked,
    calendar::year_of,
    meta::Meta,
    moment::Moment,
    splits::{is_named_after_splits, moves_by},
    symbols::PriceColumn,
};

/// Steps between the rows of a ticker that are looked at, from its first row on.
const STEPS: usize = 10_000;
/// Least number of equal steps that tell the length of a ticker's bars.
const LEAST_STEPS: usize = 5;
/// Bars that are this many times longer than others are of another length.
const LONGER: f64 = 1.5;
/// Least number of rows of a ticker that tell its usual moves between bars.
const LEAST_ROWS: usize = 20;
/// Ratios of splits that are recognised, and their inverses.
const RATIOS: [f64; 8] = [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0];
/// Largest distance of the logarithm of a move from that of a split.
const NEAR: f64 = 0.03;
/// Logarithm of a move between bars that is no split.
const SMALL: f64 = 0.4;
/// A split moves the price this many times further than the mean of the small moves.
const UNUSUAL: f64 = 10.0;

/// Doubt about a loaded panel.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum LoadWarning {
    /// Two tickers have bars of different lengths.
    #[error(
        "{long:?} has a bar every {}, and {short:?} one every {}: a bar that is labelled by its \
         begin shows its close before it ends, among the shorter bars; load tickers of one length \
         as one panel, or label the bars of {long:?} by their end",
        duration(*long_micros),
        duration(*short_micros)
    )]
    MixedBars {
        /// Ticker with the longest bars.
        long: String,
        /// Its most frequent step, in microseconds.
        long_micros: i64,
        /// Ticker with the shortest bars.
        short: String,
        /// Its most frequent step, in microseconds.
        short_micros: i64,
    },
    /// The calendar does not tell the bars of a year.
    #[error(
        "the calendar of {bars} bars is too short or too irregular to tell how many a year has; \
         bars_per_year, which annualises ratios, is taken as {guess:.0}: state bars_per_year"
    )]
    GuessedYear {
        /// Number of bars.
        bars: usize,
        /// Bars of a year that are assumed.
        guess: f64,
    },
    /// A price moves between two bars as a split would move it, and no column says so.
    #[error(
        "{ticker:?} opens on {date} at {ratio:.3} times its last close, as after a split, and no \
         column of the panel tells it ({count} such move(s) in all): load adjusted prices, or a \
         column of splits with \"split\" in its name, and name it where the environment is made"
    )]
    UnadjustedSplit {
        /// Ticker of the first such move.
        ticker: String,
        /// Its date or time.
        date: String,
        /// Open over the last close.
        ratio: f64,
        /// Number of such moves of all tickers.
        count: usize,
    },
}

impl PanelData {
    /// Returns what is doubtful about the panel, which is kept as it is. Empty for most panels.
    ///
    /// The length of a ticker's bars is the most frequent step between its rows, so that gaps,
    /// sessions and bars without trades do not count. A ticker that trades once a day, such as in
    /// an auction, cannot be told from one with bars of a day.
    #[must_use]
    pub fn warnings(&self) -> Vec<LoadWarning> {
        let all = self.mixed_bars().into_iter().chain(self.guessed_year());
        all.chain(self.unadjusted_split()).collect()
    }

    fn guessed_year(&self) -> Option<LoadWarning> {
        let meta = self.meta();
        if meta.bars_per_year.is_some() {
            return None;
        }
        let year = year_of(meta.calendar(), &meta.micros());
        let warning = LoadWarning::GuessedYear { bars: meta.len(), guess: year.bars };
        (!year.is_certain).then_some(warning)
    }

    fn unadjusted_split(&self) -> Option<LoadWarning> {
        let meta = self.meta();
        let columns = &meta.columns;
        let all = columns.iter().enumerate();
        let named: Vec<usize> =
            all.filter(|(_, name)| is_named_after_splits(name)).map(|(column, _)| column).collect();
        let (open, close) = (PriceColumn::Open as usize, PriceColumn::Close as usize);
        let (mut first, mut count) = (None, 0);
        let tickers = meta.tickers.iter().zip(&meta.is_macro).zip(self.marks());
        for (((ticker, is_macro), marks), rows) in tickers.zip(self.by_ticker()) {
            let rows: Vec<(usize, &[f64])> = rows
                .chunks_exact(columns.len())
                .enumerate()
                .filter(|(bar, row)| is_marked(marks, *bar) && row[open] > 0.0 && row[close] > 0.0)
                .collect();
            if rows.len() < LEAST_ROWS || *is_macro {
                continue;
            }
            let pairs = rows.windows(2);
            let moves = pairs.map(|pair| (pair[1].1[open] / pair[0].1[close]).ln().abs());
            let small: Vec<f64> = moves.filter(|moved| *moved < SMALL).collect();
            #[expect(clippy::cast_precision_loss, reason = "a mean")]
            let usual = small.iter().sum::<f64>() / small.len().max(1) as f64;
            for pair in rows.windows(2) {
                let ((_, before), (bar, row)) = (pair[0], pair[1]);
                let ratio = row[open] / before[close];
                let is_told = named.iter().any(|&at| moves_by(row[at], ratio) == Some(true));
                if !is_told && is_split(ratio, row[close] / row[open], usual) {
                    count += 1;
                    first.get_or_insert((ticker, bar, ratio));
                }
            }
        }
        first.map(|(ticker, bar, ratio)| LoadWarning::UnadjustedSplit {
            ticker: ticker.clone(),
            date: label_of(meta, bar),
            ratio,
            count,
        })
    }

    fn mixed_bars(&self) -> Option<LoadWarning> {
        let meta = self.meta();
        let lengths: Vec<(i64, &String)> = meta
            .tickers
            .iter()
            .zip(self.marks())
            .filter_map(|(ticker, marks)| {
                let rows = meta.times.iter().enumerate().filter(|(bar, _)| is_marked(marks, *bar));
                Some((usual_step(rows.map(|(_, time)| *time))?, ticker))
            })
            .collect();
        let ((short_micros, short), (long_micros, long)) =
            (*lengths.iter().min()?, *lengths.iter().max()?);
        let is_longer = seconds(long_micros) >= LONGER * seconds(short_micros);
        is_longer.then(|| LoadWarning::MixedBars {
            long: long.clone(),
            long_micros,
            short: short.clone(),
            short_micros,
        })
    }
}

/// Returns the text of a day or bar.
fn label_of(meta: &Meta, bar: usize) -> String {
    let instant = || Some(Moment::from_micros(*meta.times.get(bar)?)?.to_string());
    meta.dates.get(bar).cloned().or_else(instant).unwrap_or_default()
}

/// Returns whether a price that opens at `ratio` times the last close, and then moves by `within`
/// until the close, may have been split. `usual`: mean size of the small moves. It is 0 for made-up
/// prices that do not move.
fn is_split(ratio: f64, within: f64, usual: f64) -> bool {
    let moved = ratio.ln().abs();
    let is_ratio = RATIOS.iter().any(|split| (moved - split.ln()).abs() <= NEAR);
    is_ratio && usual > 0.0 && moved > UNUSUAL * usual && within.ln().abs() < moved / 2.0
}

/// Returns the most frequent step between instants, if it is at least a third of the steps.
fn usual_step(times: impl Iterator<Item = i64>) -> Option<i64> {
    let mut counts = HashMap::new();
    let (mut before, mut all) = (None, 0);
    for time in times.take(STEPS + 1) {
        if let Some(before) = before.replace(time) {
            all += 1;
            *counts.entry(time - before).or_insert(0_usize) += 1;
        }
    }
    let (step, count) = counts.into_iter().max_by_key(|&(step, count)| (count, -step))?;
    (count >= LEAST_STEPS && 3 * count >= all).then_some(step)
}

#[expect(clippy::cast_precision_loss, reason = "steps are compared roughly")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Writes `1 min`, `24 h` or `0.5 s`.
fn duration(micros: i64) -> String {
    let seconds = seconds(micros);
    for (unit, size) in [("h", 3600.0), ("min", 60.0)] {
        if seconds >= size && (seconds % size).abs() < 0.5 {
            return format!("{:.0} {unit}", seconds / size);
        }
    }
    format!("{seconds} s")
}
