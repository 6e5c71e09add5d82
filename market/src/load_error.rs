//! Errors of loading a table: problem, place and remedy.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::fmt::{self, Display};

use backcast_core::plumbing::ShownNumber;
use thiserror::Error;

use crate::{
    calendar::Calendar,
    header_hints::{date_hint, missing_options, nameless_index, number_hint},
};

/// Place of a row in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RowPlace {
    /// A line of a CSV, counted from 1, the header included.
    Line(u64),
    /// A row of a Parquet file or of a table in memory, counted from 0 over all row groups, as
    /// `DataFrame.iloc` counts.
    Row(u64),
}

impl Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row} (from 0)"),
        }
    }
}

/// Reason why a panel cannot hold the number of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberProblem {
    /// An empty cell, a null, or a word such as `NA`.
    Missing,
    /// The float NaN.
    Nan,
    /// Text that is no decimal number.
    NotANumber,
    /// An infinity.
    Infinite,
    /// A number beyond the largest 32-bit float; a panel has a copy in 32 bits.
    TooLarge,
}

impl NumberProblem {
    /// Returns whether the number is missing, so that the row may count as absent.
    pub(crate) fn is_missing(self) -> bool {
        matches!(self, Self::Missing | Self::Nan)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Missing => "is missing",
            Self::Nan => "is NaN",
            Self::NotANumber => "is not a number",
            Self::Infinite => "is not finite",
            Self::TooLarge => "is beyond the largest 32-bit float, 3.4e38",
        }
    }

    fn hint(self, column: &str, text: &str) -> String {
        if self == Self::NotANumber { number_hint(column, text) } else { String::new() }
    }

    fn remedy(self) -> &'static str {
        if self.is_missing() {
            "write a number, drop the row or the column, or load with nan = \"mask\" to count such \
             rows as absent"
        } else {
            "write a finite number, or drop the row (a missing row is masked) or the column"
        }
    }
}

/// Reason why a cell holds no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeProblem {
    /// A null, or text that is no ISO timestamp.
    NotATime,
    /// A null, or text that is no time of day.
    NotAClock,
    /// Text that is no whole number, where a unit is set.
    NotANumber,
    /// An instant outside the years 1 to 9999.
    OutOfRange,
    /// Digits below a microsecond.
    TooFine,
    /// A time without a zone, where none is set.
    NoZone,
    /// A time with a zone of its own, where one is set.
    HasZone,
    /// A local time that clocks show twice, since they are set back.
    Ambiguous,
    /// A local time that clocks never show, since they are set forward.
    Skipped,
}

impl TimeProblem {
    fn text(self) -> &'static str {
        match self {
            Self::NotATime => {
                "is no timestamp; write 2024-01-02T14:30:00Z, or set the unit of numbers since 1970"
            }
            Self::NotAClock => "is no time of day; write HH:MM or HH:MM:SS",
            Self::NotANumber => {
                "is no whole number since 1970, as `unit` asks for; leave `unit` out, or write \
                 whole numbers"
            }
            Self::OutOfRange => "leaves the years 1 to 9999; check the unit",
            Self::TooFine => {
                "has digits below a microsecond, the finest that a panel keeps; round it"
            }
            Self::NoZone => {
                "has no time zone; set `zone`, such as \"UTC\" or \"America/New_York\", or write \
                 the offset"
            }
            Self::HasZone => {
                "has a time zone of its own beside `zone`; leave `zone` out, or write all times \
                 without one"
            }
            Self::Ambiguous => {
                "is shown twice by the clocks of the zone, which are set back then; write the \
                 offset, or times in UTC"
            }
            Self::Skipped => {
                "is never shown by the clocks of the zone, which are set forward then; correct the \
                 zone, or write times in UTC"
            }
        }
    }
}

/// Role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnRole {
    /// The column `date`.
    Date,
    /// The column `time`.
    Clock,
    /// The column `timestamp`.
    Timestamp,
    /// The column `tic`.
    Ticker,
    /// A price, the volume or an indicator.
    Number,
}

impl ColumnRole {
    fn wanted(self) -> &'static str {
        match self {
            Self::Date => {
                "a day is a date, a timestamp, text YYYY-MM-DD or an integer YYYYMMDD; cast it"
            }
            Self::Clock => "a time of day is a time or text HH:MM[:SS]; cast it",
            Self::Timestamp => {
                "an instant is a timestamp, an ISO text or an integer with a unit; cast it, or \
                 call the column date if it holds days"
            }
            Self::Ticker => "a ticker is text or an integer; cast it",
            Self::Number => {
                "prices and indicators are numbers; cast it to an integer or a float, or leave the \
                 column out by renaming it to nothing"
            }
        }
    }
}

/// Damaged part of a Parquet file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilePart {
    /// The last bytes, which locate the footer.
    End,
    /// The description of columns and row groups.
    Footer,
    /// One column's pages in one row group.
    Column {
        /// Name of the column.
        column: String,
        /// Row group, counted from 0.
        row_group: usize,
    },
}

impl Display for FilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("the end of the file"),
            Self::Footer => f.write_str("the footer"),
            Self::Column { column, row_group } => {
                write!(f, "column {column:?} in row group {row_group} (from 0)")
            }
        }
    }
}

/// Format of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// Text, or an unknown format.
    Csv,
    /// `PAR1` at the beginning, or `PARE` if its footer is encrypted.
    Parquet,
    /// A compressed file or an archive.
    Compressed,
}

impl FileFormat {
    /// Returns the format of a file with these first bytes.
    #[must_use]
    pub fn of(first_bytes: &[u8]) -> Self {
        let compressed: [&[u8]; 5] =
            [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zXZ"];
        if first_bytes.starts_with(b"PAR1") || first_bytes.starts_with(b"PARE") {
            Self::Parquet
        } else if compressed.iter().any(|magic| first_bytes.starts_with(magic)) {
            Self::Compressed
        } else {
            Self::Csv
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Csv => {
                "no Parquet file: it does not begin with PAR1; load it as CSV if it is one"
            }
            Self::Parquet => "a Parquet file; load it as Parquet",
            Self::Compressed => "a compressed file; unpack it first",
        }
    }
}

/// Error of loading a file or a table as a panel. Nothing was created.
///
/// Columns carry the file's names. See [`RowPlace`] for how rows are counted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PanelLoadError {
    /// The file is of another format.
    #[error("this is {}", found.remedy())]
    Format {
        /// Format of the file.
        found: FileFormat,
    },
    /// The CSV parser failed.
    #[error("line {line}: not readable as CSV: {message}")]
    Syntax { line: u64, message: String },
    /// The cells have another separator than the expected one.
    #[error(
        "the header is one cell with {found:?} in it: the cells of this file are separated by \
         {found:?}; load it with the separator {found:?}"
    )]
    Separator { found: char },
    /// The file has a header row of fields and one of tickers.
    #[error(
        "the file has two header rows, fields {} and tickers {}, as yfinance writes it: a panel \
         needs a row per ticker and day; in Python, Panel.from_frame(df) takes the frame itself; \
         or write it in long form first, with df.stack(level=1).to_csv(path), and load it with \
         columns {{\"Date\": \"date\", \"Ticker\": \"tic\", \"Open\": \"open\", ...}}",
        quoted(first),
        quoted(second)
    )]
    TwoHeaders {
        /// Cells of the first line.
        first: Vec<String>,
        /// Cells of the second line.
        second: Vec<String>,
    },
    /// Bytes that are not UTF-8 text.
    #[error("line {line}, column {column}: not UTF-8 text; save the file as UTF-8")]
    NotUtf8 { line: u64, column: usize },
    /// A damaged part of a Parquet file.
    #[error("{part} is damaged: {message}; write or copy the file again")]
    Damaged { part: FilePart, message: String },
    /// A column is compressed with a codec that is not built in.
    #[error(
        "column {column:?} is compressed with {codec}, which is not built in; write the file with \
         zstd, snappy, lz4, gzip or no compression"
    )]
    Codec { column: String, codec: String },
    /// The file claims to unpack to more than a file of its size, or a panel, may hold.
    #[error(
        "{rows} rows x {columns} columns unpack to {bytes} bytes, and a file of this size may have \
         {limit}; write it again, or split it"
    )]
    Bomb { rows: u64, columns: usize, bytes: u64, limit: u64 },
    /// No header, no rows, or only rows that count as absent.
    #[error("no data row{}; a panel needs one, and a CSV a header before it", masked_rows(*masked))]
    NoRows {
        /// Rows that count as absent because they lack a number.
        masked: u64,
    },
    /// The file lacks columns that every panel has.
    #[error(
        "the header lacks {}; it has {}; rename columns when loading (columns: theirs to ours) or \
         add them{}{}{}{}",
        quoted(missing),
        quoted(found),
        if *any_case { "" } else { " (names are case-sensitive)" },
        did_you_mean(missing, closest),
        nameless_index(missing, found),
        missing_options(missing, *any_case)
    )]
    MissingColumns {
        /// Names that are required and absent.
        missing: Vec<String>,
        /// For each missing name, the most similar of the file's other columns; `None` if none is
        /// similar.
        closest: Vec<Option<String>>,
        /// The file's columns.
        found: Vec<String>,
        /// Whether names in other cases would do, by the options.
        any_case: bool,
    },
    /// Two columns share a name.
    #[error(
        "columns {first} and {second} are both called {name:?}; the file has {}; rename or drop \
         one",
        quoted(found)
    )]
    DuplicateColumn {
        name: String,
        first: usize,
        second: usize,
        /// The file's columns.
        found: Vec<String>,
    },
    /// A ticker for all rows of a table that has a column of tickers.
    #[error(
        "column {column:?} holds the tickers, and `ticker` names {ticker:?} for all rows; leave \
         `ticker` out, or the column with columns {{{column:?}: \"\"}}"
    )]
    TickerTwice {
        column: String,
        /// The ticker for all rows.
        ticker: String,
    },
    /// A name for the ticker of all rows that no ticker can have.
    #[error("`ticker` is {ticker:?}, which cannot be a ticker; give another name")]
    TickerName { ticker: String },
    /// A derived column that the table has.
    #[error(
        "column {column:?} is in the table, and `derive` asks to compute it; leave it out of \
         `derive`, or leave the column out with columns {{{column:?}: \"\"}}"
    )]
    DerivedTwice { column: String },
    /// A ticker with a single row and a derived open.
    #[error(
        "{ticker:?} has one row, and an open that is derived is the close of the row before; give \
         it more rows, or leave the ticker out"
    )]
    NoOpen { ticker: String },
    /// A table in memory whose rows cannot be read.
    #[error("the table cannot be read from row {row} (from 0) on: {message}")]
    Batch {
        /// First row of the batch.
        row: u64,
        message: String,
    },
    /// A rename of a column that the file lacks.
    #[error(
        "cannot rename column {theirs:?}: the file has {}{}",
        quoted(found),
        did_you_mean(std::slice::from_ref(theirs), std::slice::from_ref(closest))
    )]
    UnknownRename {
        theirs: String,
        /// The most similar of the file's columns, if one is similar.
        closest: Option<String>,
        /// The file's columns.
        found: Vec<String>,
    },
    /// A column whose type does not fit its role.
    #[error("column {column:?} holds {found}; {}", role.wanted())]
    ColumnType {
        column: String,
        found: String,
        /// Role of the column.
        role: ColumnRole,
    },
    /// Timestamps in an unknown time zone.
    #[error(
        "column {column:?} is in the time zone {zone:?}, which this machine's time zone database \
         does not know; give \"UTC\", an offset such as \"-05:00\", or a name such as \
         \"America/New_York\"; or install the database"
    )]
    UnknownZone { column: String, zone: String },
    /// A record with more or fewer cells than the header.
    #[error(
        "line {line}, column {column:?}: {found} cells where the header has {expected}; \
         look for a missing cell, a stray separator or an unclosed quote"
    )]
    Ragged { line: u64, column: String, expected: usize, found: usize },
    /// A cell of a numeric column holds no usable number.
    #[error(
        "{place}, column {column:?}: {text:?} {}; {}{}",
        problem.text(),
        problem.remedy(),
        problem.hint(column, text)
    )]
    BadNumber {
        place: RowPlace,
        column: String,
        text: String,
        /// Problem.
        problem: NumberProblem,
    },
    /// A price of a tradable ticker that is not above zero.
    #[error(
        "{place}, column {column:?}: price {} of {ticker:?} is not above 0; correct it, drop \
         the row, or declare {ticker:?} a macro ticker if it is not traded",
        ShownNumber(*value)
    )]
    PriceNotPositive {
        place: RowPlace,
        column: String,
        ticker: String,
        /// The price.
        value: f64,
    },
    /// A price of a tradable ticker that is above zero, but not in the panel's 32-bit copy.
    #[error(
        "{place}, column {column:?}: price {value:e} of {ticker:?} is 0 in single precision, in \
         which a \
         panel holds its numbers too, and where the least price is {:e}; correct it, drop the \
         row, or \
         declare {ticker:?} a macro ticker if it is not traded",
        f32::from_bits(1)
    )]
    PriceTooSmall { place: RowPlace, column: String, ticker: String, value: f64 },
    /// A high below its low.
    #[error(
        "{place}, column {column:?}: high {} of {ticker:?} is below its low {}; correct or \
         drop the row",
        ShownNumber(*high),
        ShownNumber(*low)
    )]
    HighBelowLow {
        place: RowPlace,
        column: String,
        ticker: String,
        /// The high.
        high: f64,
        /// The low.
        low: f64,
    },
    /// A volume of a tradable ticker below zero.
    #[error(
        "{place}, column {column:?}: volume {} of {ticker:?} is below 0; correct it, drop \
         the row, or declare \
         {ticker:?} a macro ticker if it is not traded",
        ShownNumber(*value)
    )]
    NegativeVolume {
        place: RowPlace,
        column: String,
        ticker: String,
        /// The volume.
        value: f64,
    },
    /// A date that is no calendar day.
    #[error(
        "{place}, column {column:?}: {text:?} is no calendar day from 0001-01-01 to 9999-12-31; \
         write YYYY-MM-DD{}",
        date_hint(text)
    )]
    BadDate { place: RowPlace, column: String, text: String },
    /// A cell that holds no instant.
    #[error("{place}, column {column:?}: {text:?} {}", problem.text())]
    BadTime {
        place: RowPlace,
        column: String,
        text: String,
        /// Problem.
        problem: TimeProblem,
    },
    /// Times without a zone.
    #[error(
        "column {column:?} holds times without a time zone; set `zone`, such as \"UTC\" or \
         \"America/New_York\"; for a panel by day leave times of day out"
    )]
    NoZone { column: String },
    /// Timestamps with a zone, for which one is set.
    #[error(
        "column {column:?} is in the time zone {own:?}, and `zone` is {zone:?}; leave `zone` out"
    )]
    TwoZones {
        column: String,
        /// Zone of the column.
        own: String,
        /// Zone of the option.
        zone: String,
    },
    /// A zone for numbers since 1970, which count in UTC.
    #[error(
        "column {column:?} holds numbers since 1970 by `unit`, which count in UTC; leave `zone` out"
    )]
    ZoneOfNumbers { column: String },
    /// Integers in a column of instants without a unit.
    #[error(
        "column {column:?} holds integers; set `unit` to \"s\", \"ms\", \"us\" or \"ns\" if they \
         count from 1970"
    )]
    NoUnit { column: String },
    /// An option that says how to read times of another kind than the table has.
    #[error("`{option}` does not apply to the column {column:?}; leave it out")]
    UnusedOption { option: &'static str, column: String },
    /// A column of instants beside one of days or times of day.
    #[error(
        "the columns {:?} and {:?} both say when a row is; leave one out with \
         columns {{{:?}: \"\"}}",
        columns[0],
        columns[1],
        columns[0]
    )]
    TwoTimes { columns: Box<[String; 2]> },
    /// A number of bars of a year that none has.
    #[error("bars_per_year is {value}; give a finite number above 0, such as 252")]
    BarsPerYear { value: f64 },
    /// A ticker that is empty or the reserved word `<CASH>`.
    #[error(
        "{place}, column {column:?}: {text:?} cannot be a ticker; give the row a name of its own"
    )]
    BadTicker { place: RowPlace, column: String, text: String },
    /// Two rows of one ticker on one day, or at one instant.
    #[error(
        "{first} and {second}, column(s) {}: both hold {ticker:?} on {date}; keep one of them: {}",
        quoted(columns.as_slice()),
        match calendar {
            Calendar::Days => {
                "a panel of days has one row per ticker and day, and drops times of day; for a \
                 panel of bars call the column \"timestamp\", or add a column \"time\""
            }
            Calendar::Bars => "a panel of bars has one row per ticker and instant",
        }
    )]
    DuplicateRow {
        /// Labels of the rows.
        calendar: Calendar,
        /// Names of the columns of days or instants, of times of day, and of tickers, as far as the
        /// table has them.
        columns: Vec<String>,
        ticker: String,
        /// The day or the instant.
        date: String,
        first: RowPlace,
        second: RowPlace,
    },
    /// Macro tickers without a row.
    #[error(
        "macro ticker(s) {} have no row; the data holds {}; correct the names or leave them out",
        quoted(missing),
        quoted(found)
    )]
    UnknownMacroTicker {
        /// Names without a row.
        missing: Vec<String>,
        /// Tickers of the data.
        found: Vec<String>,
    },
    /// The dense table would be larger than a panel may be, or than memory allows.
    #[error(
        "{tickers} tickers x {days} days x {columns} columns exceed the {limit} values of a panel \
         of {rows} rows; split the file, or drop columns or rare tickers"
    )]
    TooLarge {
        tickers: usize,
        days: usize,
        columns: usize,
        rows: usize,
        /// Maximum number of values of a panel with `rows` rows. If memory does not suffice, the
        /// number of values loaded so far.
        limit: u64,
    },
}

fn masked_rows(masked: u64) -> String {
    match masked {
        0 => String::new(),
        _ => format!(" is whole: each of the {masked} lacks a number"),
    }
}

fn did_you_mean(missing: &[String], closest: &[Option<String>]) -> String {
    let pairs: Vec<String> = missing
        .iter()
        .zip(closest)
        .filter_map(|(ours, theirs)| Some((ours, theirs.as_ref()?)))
        .map(|(ours, theirs)| format!("{theirs:?} for {ours:?}"))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("; did you mean {}?", pairs.join(", ")) }
}

/// Returns the first 12 names of a list, quoted, and the number of the others: a panel can have
/// thousands.
fn quoted(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len() {
        0 => shown.push("nothing".to_owned()),
        many if many > SHOWN => shown.push(format!("and {} more", many - SHOWN)),
        _ => {}
    }
    shown.join(", ")
}
