//! Errors of reading recorded order books.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::{fmt, io};

use thiserror::Error;

use super::message::HistoryPrice;
use crate::book::Side;

/// One of the two files of a recorded day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryFile {
    /// Events, one a line.
    Messages,
    /// State of the book after each event.
    Book,
}

impl fmt::Display for HistoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Messages => "message file",
            Self::Book => "order book file",
        })
    }
}

/// Error of reading a message file or an order book file. Nothing of the files is kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A file that cannot be read.
    #[error("line {line} of the {file} cannot be read: {source}")]
    Read { file: HistoryFile, line: u64, source: io::Error },
    /// A line longer than any valid one.
    #[error(
        "line {line} of the {file} is longer than {limit} bytes; give a CSV file with one event a \
         line"
    )]
    LineTooLong { file: HistoryFile, line: u64, limit: u64 },
    /// A file that is no text of digits: compressed, or with a byte order mark.
    #[error("the {file} begins with {found}; {advice}")]
    NotPlain { file: HistoryFile, found: &'static str, advice: &'static str },
    /// An empty line before the last one.
    #[error("line {line} of the {file} is empty; only lines after the last event may be")]
    EmptyLine { file: HistoryFile, line: u64 },
    /// A line with another number of columns.
    #[error("line {line} of the {file} has {found} columns, but must have {expected}")]
    Columns { file: HistoryFile, line: u64, found: usize, expected: String },
    /// A cell that is no number, or a number outside its range.
    #[error("line {line} of the {file}: {column} is `{value}`, but must be {rule}")]
    BadValue { file: HistoryFile, line: u64, column: String, value: String, rule: &'static str },
    /// An event before the event of the line above.
    #[error(
        "line {line} of the message file: time is `{value}`, before the event of the line above; \
         sort the lines by time"
    )]
    TimeWentBack { line: u64, value: String },
    /// A message that does not fit the orders that rest.
    #[error("line {line} of the message file: {reject}")]
    Message { line: u64, reject: MessageReject },
    /// More messages than a history takes.
    #[error("the message file has more than {limit} messages; divide it by time")]
    TooLong { limit: u64 },
    /// A message file without a message.
    #[error("the message file is empty; give a file with at least one message")]
    Empty,
    /// Files with different numbers of lines.
    #[error(
        "the message file has {messages} lines and the order book file {rows}; give the two files \
         of one stock, day and number of levels"
    )]
    Lengths { messages: u64, rows: u64 },
    /// Levels of a row that are not in price order.
    #[error(
        "line {line} of the order book file: {side} level {level} has the price {price} after \
         {previous}; levels go from the best price outwards, and empty ones come last"
    )]
    Unsorted {
        line: u64,
        /// `ask` or `bid`.
        side: &'static str,
        level: usize,
        price: HistoryPrice,
        previous: HistoryPrice,
    },
    /// A row that differs from the book that the messages make.
    #[error(
        "line {line} of the order book file has {found} shares at the {side} price {price}, but \
         the messages leave {expected}; give the two files of one stock, day and number of \
         levels, or choose `differences` \"follow\""
    )]
    BookDiffers {
        line: u64,
        /// `ask` or `bid`.
        side: &'static str,
        price: HistoryPrice,
        /// Shares of the row.
        found: i64,
        /// Shares of the messages.
        expected: i64,
    },
}

/// Reason for which a message cannot be applied to the recorded orders. Nothing has changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageReject {
    /// A submission of an order that rests already.
    #[error("order {id} is submitted, but rests already")]
    Duplicate { id: i64 },
    /// An order that was never submitted.
    #[error(
        "order {id} at {price} is not in the book, which has {left} shares from before the file \
         there, and the message is about {shares}; give the order book file too, which has the \
         orders from before"
    )]
    UnknownOrder { id: i64, price: HistoryPrice, shares: i64, left: i64 },
    /// More shares than the order has.
    #[error("order {id} has {left} shares left, but the message is about {shares}")]
    TooLarge { id: i64, shares: i64, left: i64 },
    /// A deletion of a part of an order.
    #[error("order {id} is deleted with {shares} shares, but has {left} left")]
    PartialDelete { id: i64, shares: i64, left: i64 },
    /// Another side or price than that of the order.
    #[error(
        "order {id} rests as a {} at {price}, but the message is about a {} at {found}",
        word(*side),
        word(*found_side)
    )]
    OtherPlace { id: i64, side: Side, price: HistoryPrice, found_side: Side, found: HistoryPrice },
}

const fn word(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    }
}

/// Returns the word for a side of the book.
pub(super) const fn side_word(side: Side) -> &'static str {
    match side {
        Side::Buy => "bid",
        Side::Sell => "ask",
    }
}

/// Returns the cell of a file for a message, cut to a length that fits a line.
pub(super) fn shown(cell: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text: String = String::from_utf8_lossy(cell)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}
