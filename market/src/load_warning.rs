//! Warnings about data that loading keeps: bars of two lengths, and a year that was guessed.

use std::collections::HashMap;

use thiserror::Error;

use crate::{assemble::PanelData, blocks::is_marked, calendar::year_of};

/// Steps between the rows of a ticker that are looked at, from its first row on.
const STEPS: usize = 10_000;
/// Least number of equal steps that tell the length of a ticker's bars.
const LEAST_STEPS: usize = 5;
/// Bars that are this many times longer than others are of another length.
const LONGER: f64 = 1.5;

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
}

impl PanelData {
    /// Returns what is doubtful about the panel, which is kept as it is. Empty for most panels.
    ///
    /// The length of a ticker's bars is the most frequent step between its rows, so that gaps,
    /// sessions and bars without trades do not count. A ticker that trades once a day, such as in
    /// an auction, cannot be told from one with bars of a day.
    #[must_use]
    pub fn warnings(&self) -> Vec<LoadWarning> {
        self.mixed_bars().into_iter().chain(self.guessed_year()).collect()
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
