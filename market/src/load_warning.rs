//! Warnings about data that loading keeps: times in a wrong unit, times of day that are dropped,
//! bars of two lengths or that begin at other times, a year that was guessed, and splits that no
//! column names.

use std::collections::HashMap;

use thiserror::Error;

use crate::{
    assemble::PanelData,
    blocks::is_marked,
    calendar::{Calendar, year_of},
    meta::Meta,
    moment::{EpochUnit, Moment},
    splits::{is_named_after_splits, moves_by},
    symbols::PriceColumn,
};

/// Steps between the rows of a ticker that are looked at, from its first row on.
const STEPS: usize = 10_000;
/// Least number of equal steps that tell the length of a ticker's bars.
const LEAST_STEPS: usize = 5;
/// Bars that are this many times longer than others are of another length.
const LONGER: f64 = 1.5;
/// Least number of bars within which another ticker trades that are warned of.
const LEAST_OVERLAPS: usize = 5;
/// 1970-02-01.
const JANUARY_END: Moment = Moment::day_of_1970(31);
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
    /// All dates are as early as those of numbers that are read in too fine a unit.
    #[error(
        "all {rows} {calendar} are in 1970 or before, the last is {last}: {}",
        early_remedy(*unit, *better)
    )]
    FirstYear {
        /// Labels of the rows.
        calendar: Calendar,
        /// Number of days or bars.
        rows: usize,
        /// Last day or bar.
        last: String,
        /// Unit in which the times were read; `None` if they were no numbers.
        unit: Option<EpochUnit>,
        /// Unit in which the last time is later than 1970.
        better: Option<EpochUnit>,
    },
    /// Times of day in the column of days.
    #[error(
        "column {column:?} has times of day, which are dropped, in {count} row(s), the first \
         {first}: if they are midnights of another time zone, these rows are on a wrong day, so \
         convert them to that zone first, as df[{column:?}].dt.tz_convert(\"Asia/Tokyo\") does; \
         if they are times of bars, call the column \"timestamp\", with `zone` for times without \
         a zone; else write days"
    )]
    DroppedTimes {
        /// Column of days.
        column: String,
        /// First time of day with its day, as its column shows it.
        first: String,
        /// Number of rows with such a time.
        count: u64,
    },
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
    /// A ticker trades within bars of another one that are not longer than its own.
    #[error(
        "{early:?} has a bar every {}, and {late:?} bars that begin within them, the first at \
         {date} ({count} such bar(s) of {early:?}): if bars are labelled by their begin, windows \
         at that time show a close of {early:?} that is known later; label all bars by their end, \
         resample one ticker to the times of the other, or load them as two panels",
        duration(*micros)
    )]
    OverlappingBars {
        /// Ticker whose bars have not ended.
        early: String,
        /// Its most frequent step, in microseconds.
        micros: i64,
        /// Ticker that is traded within such a bar.
        late: String,
        /// Time of its first such bar.
        date: String,
        /// Number of bars of `early` within which another ticker is traded.
        count: usize,
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
        let lengths = self.bar_lengths();
        let bars = self.mixed_bars(&lengths).into_iter().chain(self.overlapping_bars(&lengths));
        let times = self.first_year().into_iter().chain(self.dropped_times());
        let all = times.chain(bars).chain(self.guessed_year());
        all.chain(self.unadjusted_split()).collect()
    }

    fn first_year(&self) -> Option<LoadWarning> {
        let (meta, unit) = (self.meta(), self.times_read().unit);
        let micros = meta.micros();
        let [first, last] = [micros.first(), micros.last()].map(|at| Moment::from_micros(*at?));
        let (first, last) = (first?, last?);
        // Without a unit, times of 1970 may be meant, but hardly its first month and nothing else.
        let is_early = match unit {
            Some(_) => last < Moment::YEAR_1971,
            None => {
                meta.calendar() == Calendar::Bars
                    && first >= Moment::default()
                    && last < JANUARY_END
            }
        };
        is_early.then(|| LoadWarning::FirstYear {
            calendar: meta.calendar(),
            rows: meta.len(),
            last: label_of(meta, meta.len() - 1),
            unit,
            better: unit.and_then(|unit| unit.after_1970(last)),
        })
    }

    fn dropped_times(&self) -> Option<LoadWarning> {
        let read = self.times_read();
        Some(LoadWarning::DroppedTimes {
            column: read.dates.clone()?,
            first: read.dropped.first?.to_string().trim_end_matches('Z').to_owned(),
            count: read.dropped.count,
        })
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

    /// Returns the length of the bars of each ticker; `None` where its rows do not tell, as in a
    /// panel of days.
    fn bar_lengths(&self) -> Vec<Option<i64>> {
        let times = &self.meta().times;
        let steps = self.marks().map(|marks| {
            let rows = times.iter().enumerate().filter(|(bar, _)| is_marked(marks, *bar));
            usual_step(rows.map(|(_, time)| *time))
        });
        steps.collect()
    }

    fn mixed_bars(&self, lengths: &[Option<i64>]) -> Option<LoadWarning> {
        let named = lengths.iter().zip(&self.meta().tickers);
        let known = named.filter_map(|(length, ticker)| Some(((*length)?, ticker)));
        let ((short_micros, short), (long_micros, long)) = (known.clone().min()?, known.max()?);
        is_longer(long_micros, short_micros).then(|| LoadWarning::MixedBars {
            long: long.clone(),
            long_micros,
            short: short.clone(),
            short_micros,
        })
    }

    /// Finds the ticker with most bars that have not ended when another ticker trades. Leaves out
    /// other tickers that are macro, since no order is placed at their times, and those of much
    /// shorter bars, which [`mixed_bars`](Self::mixed_bars) names.
    fn overlapping_bars(&self, lengths: &[Option<i64>]) -> Option<LoadWarning> {
        let meta = self.meta();
        let times = &meta.times;
        let least = times.windows(2).map(|pair| pair[1] - pair[0]).min()?;
        if lengths.iter().flatten().all(|length| *length <= least) {
            return None;
        }
        // For each bar the longest of the tickers that trade at its time, and its length. Tickers
        // of unknown length count as the longest.
        let mut longest: Vec<Option<(i64, usize)>> = vec![None; times.len()];
        for (ticker, (length, marks)) in lengths.iter().zip(self.marks()).enumerate() {
            if meta.is_macro[ticker] {
                continue;
            }
            let length = length.unwrap_or(i64::MAX);
            for (bar, found) in longest.iter_mut().enumerate() {
                let is_longest = found.is_none_or(|(other, _)| other < length);
                if is_longest && is_marked(marks, bar) {
                    *found = Some((length, ticker));
                }
            }
        }
        let overlaps = lengths.iter().zip(self.marks()).enumerate().filter_map(|(ticker, of)| {
            let (&Some(micros), marks) = of else { return None };
            let (mut first, mut count) = (None, 0);
            for bar in (0..times.len()).filter(|&bar| is_marked(marks, bar)) {
                let end = times[bar].saturating_add(micros);
                // A next bar of the ticker itself ends this one, as where clocks are changed.
                let late = (bar + 1..times.len())
                    .take_while(|&other| times[other] < end && !is_marked(marks, other))
                    .filter_map(|other| Some((longest[other]?, other)))
                    .find(|((length, _), _)| !is_longer(micros, *length));
                if let Some(((_, late), other)) = late {
                    count += 1;
                    first.get_or_insert((late, other));
                }
            }
            let (late, bar) = first?;
            (count >= LEAST_OVERLAPS).then_some((count, ticker, micros, late, bar))
        });
        // The first ticker of those with most.
        let most = overlaps.max_by_key(|&(count, ticker, ..)| (count, usize::MAX - ticker));
        most.map(|(count, ticker, micros, late, bar)| LoadWarning::OverlappingBars {
            early: meta.tickers[ticker].clone(),
            micros,
            late: meta.tickers[late].clone(),
            date: label_of(meta, bar),
            count,
        })
    }
}

/// Returns whether bars of one length count as longer than others.
fn is_longer(micros: i64, others: i64) -> bool {
    seconds(micros) >= LONGER * seconds(others)
}

/// Returns what to do about dates that are too early.
fn early_remedy(unit: Option<EpochUnit>, better: Option<EpochUnit>) -> String {
    match (unit.map(EpochUnit::word), better.map(EpochUnit::word)) {
        (Some(unit), Some(better)) => {
            format!("they were read as {unit:?} since 1970; set `unit` to {better:?}")
        }
        (Some(unit), None) => format!("they were read as {unit:?} since 1970; check `unit`"),
        (None, _) => "timestamps become so if they are made of numbers without their unit; say it \
                      there, as pandas.to_datetime(numbers, unit=\"ms\") does"
            .to_owned(),
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
