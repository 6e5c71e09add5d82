//! What can go wrong when a panel is loaded, shared, attached or read.

use std::{io, path::PathBuf};

use backcast_layout::SegmentError;
use thiserror::Error;

/// Why a cell of a numeric column is no number that a panel can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberProblem {
    /// Nothing between the separators.
    Empty,
    /// Text that is no decimal number.
    NotANumber,
    /// NaN or an infinity.
    NotFinite,
    /// Beyond what the panel's 32-bit copy can hold.
    TooLarge,
}

impl NumberProblem {
    fn text(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::NotANumber => "is not a number",
            Self::NotFinite => "is not finite",
            Self::TooLarge => "is beyond the largest 32-bit float, 3.4e38",
        }
    }
}

/// Loading, sharing or attaching a panel failed. Lines count from 1, the header included.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PanelError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}; check the path", path.display())]
    Read {
        /// The file asked for.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The stream given to `from_reader` broke.
    #[error("cannot read the CSV stream: {source}")]
    Stream {
        /// The reader's answer.
        source: io::Error,
    },
    /// The CSV parser itself gave up.
    #[error("line {line}: not readable as CSV: {message}")]
    Syntax {
        /// Line of the record.
        line: u64,
        /// The parser's words.
        message: String,
    },
    /// Bytes that are no UTF-8 text.
    #[error("line {line}, column {column}: not UTF-8 text; save the file as UTF-8")]
    NotUtf8 {
        /// Line of the record.
        line: u64,
        /// Column, counted from 1.
        column: usize,
    },
    /// No header, or a header and no rows.
    #[error("the CSV has {lines} line(s) and no data row; a panel needs a header and one row")]
    NoRows {
        /// Lines that are there.
        lines: u64,
    },
    /// The header lacks columns that every panel has.
    #[error(
        "the header lacks {}; found {}; rename or add them (names are case-sensitive)",
        quoted(missing),
        quoted(found)
    )]
    MissingColumns {
        /// Names that are required and absent.
        missing: Vec<String>,
        /// Names that are there.
        found: Vec<String>,
    },
    /// Two columns share a name.
    #[error("columns {first} and {second} are both called {name:?}; rename or drop one")]
    DuplicateColumn {
        /// The name.
        name: String,
        /// The first one's position, from 1.
        first: usize,
        /// The second one's position, from 1.
        second: usize,
    },
    /// A record with more or fewer cells than the header.
    #[error(
        "line {line}: {found} cells where the header has {expected}; \
         look for a missing cell, a stray separator or an unclosed quote"
    )]
    Ragged {
        /// Line of the record.
        line: u64,
        /// Cells of the header.
        expected: usize,
        /// Cells of the record.
        found: usize,
    },
    /// A cell of a numeric column holds no usable number.
    #[error(
        "line {line}, column {column:?}: {text:?} {}; write a finite number, drop the row \
         (a missing row is masked), or drop the column",
        problem.text()
    )]
    BadNumber {
        /// Line of the record.
        line: u64,
        /// Name of the column.
        column: String,
        /// The cell.
        text: String,
        /// What is wrong with it.
        problem: NumberProblem,
    },
    /// A price of a tradable ticker that is not above zero.
    #[error(
        "line {line}, column {column:?}: price {value} of {ticker:?} is not above 0; correct it, \
         drop the row, or declare {ticker:?} a macro ticker if it is not traded"
    )]
    PriceNotPositive {
        /// Line of the record.
        line: u64,
        /// Name of the column.
        column: String,
        /// The ticker.
        ticker: String,
        /// The price.
        value: f64,
    },
    /// A high below its low.
    #[error(
        "line {line}: high {high} of {ticker:?} is below its low {low}; correct or drop the row"
    )]
    HighBelowLow {
        /// Line of the record.
        line: u64,
        /// The ticker.
        ticker: String,
        /// The high.
        high: f64,
        /// The low.
        low: f64,
    },
    /// A date that is no calendar day in ISO form.
    #[error("line {line}, column \"date\": {text:?} is no calendar day; write YYYY-MM-DD")]
    BadDate {
        /// Line of the record.
        line: u64,
        /// The cell.
        text: String,
    },
    /// A ticker that is empty or the reserved word `<CASH>`.
    #[error(
        "line {line}, column \"tic\": {text:?} cannot be a ticker; give the row a name of its own"
    )]
    BadTicker {
        /// Line of the record.
        line: u64,
        /// The cell.
        text: String,
    },
    /// One ticker twice on one day.
    #[error(
        "lines {first_line} and {second_line} both hold {ticker:?} on {date}; keep one of them"
    )]
    DuplicateRow {
        /// The ticker.
        ticker: String,
        /// The day.
        date: String,
        /// Where it stands first.
        first_line: u64,
        /// Where it stands again.
        second_line: u64,
    },
    /// Macro tickers without a single row.
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
    /// The dense table would be larger than a panel may be.
    #[error(
        "{tickers} tickers x {days} days x {columns} columns exceed the {limit} values of a panel; \
         split the file, or drop columns or rare tickers"
    )]
    TooLarge {
        /// Tickers in the data.
        tickers: usize,
        /// Distinct dates in the data.
        days: usize,
        /// Value columns.
        columns: usize,
        /// Most values a panel holds, or that memory was there for.
        limit: u64,
    },
    /// A segment whose description does not describe a panel.
    #[error("panel {name:?} is damaged: {problem}; remove it and load it again")]
    Damaged {
        /// The panel's name; empty for one in private memory.
        name: String,
        /// What does not fit.
        problem: String,
    },
    /// The segment layer refused.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// Asking a panel for windows failed; nothing was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowError {
    /// A day that the panel does not have.
    #[error(
        "days[{position}] is {day}, but the panel has days 0 to {last}; windows may reach beyond its \
         edges, their own day may not"
    )]
    BadDay {
        /// Position in `days`.
        position: usize,
        /// The day asked for.
        day: i64,
        /// The panel's last day.
        last: usize,
    },
    /// A token that names no ticker of this panel.
    #[error(
        "tokens[{position}] is {token}, but the panel has tokens 0 (<CASH>) to {last}; `tokens` \
         of this panel gives them by name"
    )]
    BadToken {
        /// Position in `tokens`.
        position: usize,
        /// The token asked for.
        token: i64,
        /// The panel's last token.
        last: usize,
    },
    /// A slice of the wrong length.
    #[error("`{what}` holds {found} elements, but must hold {expected} for the shape {shape:?}")]
    BadLength {
        /// The argument.
        what: &'static str,
        /// Its shape.
        shape: Vec<usize>,
        /// Elements of that shape.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// Windows larger than the address space.
    #[error(
        "{batch} samples x {tokens} tokens x {days} days x {columns} columns cannot be addressed; \
         ask for shorter windows or smaller batches"
    )]
    TooLarge {
        /// Samples, `B`.
        batch: usize,
        /// Tokens per sample, `T`.
        tokens: usize,
        /// History, the day and future; saturating.
        days: usize,
        /// Columns of the panel, `C`.
        columns: usize,
    },
}

/// The first names of a list, quoted; a panel can have thousands.
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
