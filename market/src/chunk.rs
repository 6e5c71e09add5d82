//! Chunks: rows of a file as typed columns, which every reader produces.

use std::{borrow::Cow, collections::HashMap};

use crate::{
    load_error::{NumberProblem, TimeProblem},
    moment::Moment,
    options::PanelOptions,
    symbols::CASH,
};

/// Maximum rows in a chunk.
pub(crate) const CHUNK_ROWS: usize = 4096;

/// Some rows, column by column. All lists but `flaws` have one entry per row.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Line of each row in a CSV, or its number in a Parquet file.
    pub(crate) places: Vec<u64>,
    pub(crate) times: Vec<Moment>,
    /// Microseconds since midnight, if the table has a column of times of day.
    pub(crate) clocks: Vec<i64>,
    /// Numbers of the tickers, from [`Tickers`].
    pub(crate) tickers: Vec<u32>,
    /// Values, one list for each column of the panel.
    pub(crate) values: Vec<Vec<f64>>,
    /// Times of day of the days, which a panel does not keep.
    pub(crate) dropped: DroppedTimes,
    /// Cells without a usable value; their elements in the lists above are undefined.
    pub(crate) flaws: Vec<BadCell>,
}

/// Times in a column of days that are not midnight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DroppedTimes {
    /// The first one, on the clocks of its zone.
    pub(crate) first: Option<Moment>,
    pub(crate) count: u64,
}

impl DroppedTimes {
    /// Adds those of later rows, and leaves none there.
    pub(crate) fn take_from(&mut self, later: &mut Self) {
        let later = std::mem::take(later);
        self.first = self.first.or(later.first);
        self.count += later.count;
    }
}

/// A cell without a usable value.
#[derive(Debug)]
pub(crate) struct BadCell {
    /// Row within the chunk.
    pub(crate) row: usize,
    /// Column of the file.
    pub(crate) column: usize,
    pub(crate) text: Cow<'static, str>,
    pub(crate) kind: BadCellKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadCellKind {
    Date,
    Time(TimeProblem),
    Ticker,
    Number(NumberProblem),
}

impl Chunk {
    pub(crate) fn new(columns: usize) -> Self {
        Self { values: vec![Vec::with_capacity(CHUNK_ROWS); columns], ..Self::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.times.clear();
        self.clocks.clear();
        self.tickers.clear();
        self.flaws.clear();
        self.values.iter_mut().for_each(Vec::clear);
    }

    /// Adds a day. Its time of day is dropped, and noted if it is not midnight.
    pub(crate) fn push_day(
        &mut self,
        column: usize,
        time: Option<Moment>,
        text: impl FnOnce() -> Cow<'static, str>,
    ) {
        let day = time.map(Moment::midnight);
        if day != time {
            self.dropped.first = self.dropped.first.or(time);
            self.dropped.count += 1;
        }
        if day.is_none() {
            let row = self.times.len();
            self.flaws.push(BadCell { row, column, text: text(), kind: BadCellKind::Date });
        }
        self.times.push(day.unwrap_or_default());
    }

    pub(crate) fn push_time(
        &mut self,
        column: usize,
        time: Result<Moment, TimeProblem>,
        text: impl FnOnce() -> Cow<'static, str>,
    ) {
        if let Err(problem) = time {
            let row = self.times.len();
            let kind = BadCellKind::Time(problem);
            self.flaws.push(BadCell { row, column, text: text(), kind });
        }
        self.times.push(time.unwrap_or_default());
    }

    /// Adds a time of day in nanoseconds since midnight.
    pub(crate) fn push_clock(
        &mut self,
        column: usize,
        nanos: Option<i64>,
        text: impl FnOnce() -> Cow<'static, str>,
    ) {
        let problem = match nanos {
            None => Some(TimeProblem::NotAClock),
            Some(nanos) => (nanos % 1000 != 0).then_some(TimeProblem::TooFine),
        };
        if let Some(problem) = problem {
            let row = self.clocks.len();
            let kind = BadCellKind::Time(problem);
            self.flaws.push(BadCell { row, column, text: text(), kind });
        }
        self.clocks.push(nanos.unwrap_or_default() / 1000);
    }

    pub(crate) fn push_ticker(&mut self, column: usize, name: &str, tickers: &mut Tickers) {
        let number = tickers.number(name);
        if number.is_none() {
            let (row, text) = (self.tickers.len(), shown(name));
            self.flaws.push(BadCell { row, column, text, kind: BadCellKind::Ticker });
        }
        self.tickers.push(number.unwrap_or_default());
    }

    /// Adds a number; instead of an error, adds 0 and a flaw. `column` is a position among the
    /// file's columns, `value` one among the panel's.
    pub(crate) fn push_number(
        &mut self,
        column: usize,
        value: usize,
        number: Result<f64, NumberProblem>,
        text: impl FnOnce() -> Cow<'static, str>,
    ) {
        let numbers = &mut self.values[value];
        if let Err(problem) = number {
            let row = numbers.len();
            self.flaws.push(BadCell {
                row,
                column,
                text: text(),
                kind: BadCellKind::Number(problem),
            });
        }
        numbers.push(number.unwrap_or_default());
    }
}

/// Returns the text of a cell for an error message, cut after 80 characters.
pub(crate) fn shown(text: &str) -> Cow<'static, str> {
    const MOST_CHARS: usize = 80;
    Cow::Owned(match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    })
}

/// Returns a number that a panel can hold. Refuses NaN, infinities, and numbers beyond the largest
/// 32-bit float.
pub(crate) fn checked(value: f64) -> Result<f64, NumberProblem> {
    if value.is_nan() {
        Err(NumberProblem::Nan)
    } else if value.is_infinite() {
        Err(NumberProblem::Infinite)
    } else if to_single(value).is_infinite() {
        Err(NumberProblem::TooLarge)
    } else {
        Ok(value)
    }
}

/// Tickers of a file, numbered by their first appearance.
#[derive(Debug)]
pub(crate) struct Tickers<'a> {
    options: &'a PanelOptions,
    numbers: HashMap<String, u32>,
    known: Vec<(String, bool)>,
}

impl<'a> Tickers<'a> {
    pub(crate) fn new(options: &'a PanelOptions) -> Self {
        Self { options, numbers: HashMap::new(), known: Vec::new() }
    }

    /// Returns the number of a ticker, or `None` if the name is empty or `<CASH>`.
    pub(crate) fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        if name.is_empty() || name == CASH {
            return None;
        }
        let number = u32::try_from(self.known.len()).ok()?;
        self.known.push((name.to_owned(), self.options.macro_tickers.contains(name)));
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.known.get(number as usize).map_or("", |(name, _)| name)
    }

    pub(crate) fn is_macro(&self, number: u32) -> bool {
        self.known.get(number as usize).is_some_and(|(_, is_macro)| *is_macro)
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

/// Returns a value in the single precision of a panel's copy.
#[expect(clippy::cast_possible_truncation, reason = "the copy is in single precision")]
pub(crate) fn to_single(value: f64) -> f32 {
    value as f32
}
