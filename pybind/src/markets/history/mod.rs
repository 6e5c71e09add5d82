//! `backcast.sim.History` and `Replay`: recorded order books, and an agent against them.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers were checked when they were read, or are bounded by those of a history"
)]

mod replay;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backcast_core::IoCause;
use backcast_pybind_macros::exact_arguments;
use backcast_sim::{
    Differences, HistoricBook, History as CoreHistory, HistoryError, MessageKind, NANOS_PER_SECOND,
    Side,
};
use numpy::prelude::*;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

pub(crate) use self::replay::Replay;
use crate::argument::{Argument, count_in, no_constructor};
use crate::error::{ErrorClass, Failure, class_of_io};

/// Maximum number of price levels of one side of a book.
const MOST_LEVELS: u32 = 1_000;
/// Levels of a book that are shown unless asked for others.
const LEVELS: usize = 10;
/// Price of an empty level, of asks; bids have its negative.
const EMPTY_LEVEL: i64 = 9_999_999_999;
/// Keys of the counts of messages.
const KINDS: [&str; 7] =
    ["submitted", "cancelled", "deleted", "executed", "executed_hidden", "crosses", "halts"];

/// A recorded day of the order book of one stock: checked messages, in memory.
///
/// Made by :meth:`read`. The files are those that LOBSTER documents. Prices are whole numbers of
/// 1/10,000 dollars, as in the files. Times are seconds after midnight. Immutable: any number of
/// :class:`Replay` objects share one.
///
/// Examples
/// --------
/// >>> import pathlib, tempfile
/// >>> from backcast import sim
/// >>> with tempfile.TemporaryDirectory() as folder:
/// ...     path = pathlib.Path(folder, "messages.csv")
/// ...     size = path.write_text("34200.5,1,7,100,1000000,1\n34201,4,7,40,1000000,1\n")
/// ...     history = sim.History.read(path)
/// >>> len(history), history.start, history.end
/// (2, 34200.5, 34201.0)
/// >>> history.book(levels=1)
/// array([[9999999999,          0,    1000000,         60]])
#[pyclass(module = "backcast.sim", name = "History", frozen)]
pub(crate) struct History {
    core: Arc<CoreHistory>,
    source: Arc<Source>,
}

/// Value of `__reduce__`: a function and its arguments.
type ByFiles<'py> = (Bound<'py, PyAny>, (PathBuf, Option<PathBuf>, bool));

/// Files that a history was read from.
#[derive(Debug)]
struct Source {
    messages: PathBuf,
    book: Option<PathBuf>,
    differences: Differences,
}

impl Source {
    fn read(&self) -> Result<CoreHistory, Failure> {
        let messages = open(&self.messages)?;
        Ok(match &self.book {
            None => CoreHistory::read(messages)?,
            Some(book) => CoreHistory::read_with_book(messages, open(book)?, self.differences)?,
        })
    }
}

#[exact_arguments]
#[pymethods]
impl History {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, Failure> {
        Err(no_constructor("History", "call History.read(messages, book)"))
    }

    /// Read a message file and, for orders from before it, the order book file of the same day.
    ///
    /// Parameters
    /// ----------
    /// messages : path
    ///     CSV file without a header: seconds after midnight, type (1 submission, 2 cancellation of
    ///     a part, 3 deletion, 4 execution, 5 hidden execution, 6 cross, 7 halt), order id, shares,
    ///     price, direction (1 buy, -1 sell). A seventh column is not read.
    /// book : path, optional
    ///     CSV file with a line for each message: ask price, ask shares, bid price, bid shares of
    ///     every level. Its first line has the orders from before the messages, and every other
    ///     line is compared with them. None for messages since the book was empty.
    /// differences : {"raise", "follow"}
    ///     Treatment of a line of ``book`` that differs from the messages. It is an error, or it is
    ///     counted and the level is taken from it.
    ///
    /// Returns
    /// -------
    /// History
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If a file cannot be opened, or a line is damaged or contradicts the lines before; with
    ///     the line, the value and its limits.
    /// StorageError
    ///     If a file system fails.
    #[staticmethod]
    #[pyo3(signature = (messages=Argument::Missing, book=None, *, differences="raise".into()))]
    #[pyo3(text_signature = "(messages, book=None, *, differences=\"raise\")")]
    fn read(
        py: Python<'_>,
        messages: Argument<PathBuf>,
        book: Option<Argument<PathBuf>>,
        differences: Argument<String>,
    ) -> Result<Self, Failure> {
        let messages = messages.get("messages", "the path of a message file")?;
        let book = book.map(|book| book.get("book", "the path of an order book file, or None"));
        let book = book.transpose()?;
        let words = "\"raise\" or \"follow\"";
        let differences = match differences.get("differences", words)?.as_str() {
            "raise" => Differences::Raise,
            "follow" => Differences::Follow,
            other => {
                let message = format!("differences is \"{other}\"; write {words}");
                return Err(Failure::new(ErrorClass::Sim, message));
            }
        };
        Self::of(py, Source { messages, book, differences })
    }

    /// Pickle by the files: the copy reads them again.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<ByFiles<'py>, Failure> {
        let read = py.import("backcast._native")?.getattr("_read_history")?;
        let Source { messages, book, differences } = &*self.source;
        let follow = *differences == Differences::Follow;
        Ok((read, (messages.clone(), book.clone(), follow)))
    }

    /// Return another handle on the same history.
    fn __copy__(&self) -> Self {
        self.again()
    }

    /// Return another handle on the same history, which never changes.
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.again()
    }

    fn __len__(&self) -> usize {
        self.core.messages().len()
    }

    /// Time of the first message in seconds after midnight.
    #[getter]
    fn start(&self) -> f64 {
        seconds(self.core.span().0)
    }

    /// Time of the last message in seconds after midnight.
    #[getter]
    fn end(&self) -> f64 {
        seconds(self.core.span().1)
    }

    /// Time in seconds after midnight from which there is a price to value a position at.
    ///
    /// It is the first message after which both sides have orders, or the first execution; None if
    /// there is none.
    #[getter]
    fn priced_from(&self) -> Option<f64> {
        self.core.priced_from().map(seconds)
    }

    /// Levels of each side in the order book file; None without one.
    #[getter]
    fn levels(&self) -> Option<usize> {
        self.core.levels()
    }

    /// Numbers of messages of each kind, of traded shares, and of differences between the files.
    ///
    /// Keys: ``submitted``, ``cancelled``, ``deleted``, ``executed``, ``executed_hidden``,
    /// ``crosses``, ``halts``, ``traded_shares`` and ``differences``. A cross is the total of
    /// executions that have messages of their own, and adds no traded shares.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let counts = self.core.counts();
        let found = PyDict::new(py);
        for (key, count) in KINDS.iter().zip(counts.kinds) {
            found.set_item(key, count)?;
        }
        found.set_item("traded_shares", counts.traded_shares)?;
        found.set_item("differences", counts.differences)?;
        Ok(found)
    }

    /// Return the messages as arrays.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Arrays of one length: ``time`` (int64, nanoseconds after midnight), ``type`` (int8),
    ///     ``id`` (int64; negative for crosses), ``shares`` (int64), ``price`` (int64; 0 for a
    ///     halt), ``side`` (int8, 1 buy, -1 sell).
    #[pyo3(signature = (), text_signature = "($self)")]
    fn messages<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let messages = self.core.messages();
        let kind = |kind| match kind {
            MessageKind::Submit => 1_i8,
            MessageKind::Cancel => 2,
            MessageKind::Delete => 3,
            MessageKind::Execute => 4,
            MessageKind::ExecuteHidden => 5,
            MessageKind::Cross => 6,
            MessageKind::Halt | MessageKind::Quote | MessageKind::Resume => 7,
        };
        let columns = PyDict::new(py);
        let times = messages.iter().map(|message| message.time as i64);
        columns.set_item("time", PyArray1::from_iter(py, times))?;
        let kinds = messages.iter().map(|message| kind(message.kind));
        columns.set_item("type", PyArray1::from_iter(py, kinds))?;
        let ids = messages.iter().map(|message| message.id);
        columns.set_item("id", PyArray1::from_iter(py, ids))?;
        let shares = messages.iter().map(|message| message.shares);
        columns.set_item("shares", PyArray1::from_iter(py, shares))?;
        let prices = messages.iter().map(|message| message.price.0);
        columns.set_item("price", PyArray1::from_iter(py, prices))?;
        let sides = messages.iter().map(|message| message.side.sign() as i8);
        columns.set_item("side", PyArray1::from_iter(py, sides))?;
        Ok(columns)
    }

    /// Return the recorded book after some messages.
    ///
    /// Parameters
    /// ----------
    /// messages : int, optional
    ///     Number of messages; None for all of them.
    /// levels : int, optional
    ///     Price levels of each side, at most those of the order book file; None for 10, or for
    ///     those of the file if it has fewer.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     int64 ``[levels, 4]``: ask price, ask shares, bid price, bid shares, as in a line of an
    ///     order book file. An empty level has the prices 9999999999 and -9999999999, and 0 shares.
    ///
    /// Raises
    /// ------
    /// SimError
    ///     If a number is out of range.
    #[pyo3(signature = (messages=None, *, levels=None))]
    #[pyo3(text_signature = "($self, messages=None, *, levels=None)")]
    fn book<'py>(
        &self,
        py: Python<'py>,
        messages: Option<Argument<i128>>,
        levels: Option<Argument<i128>>,
    ) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
        let all = self.core.messages().len() as u32;
        let messages = messages
            .map(|messages| count_in(messages, "messages", 1..=all, ErrorClass::Sim))
            .transpose()?;
        let levels = levels_of(levels, &self.core)?;
        let book = py.detach(|| self.core.book_after(messages.unwrap_or(all) as usize));
        depth(py, &book, levels)
    }

    fn __repr__(&self) -> String {
        let (start, end) = self.core.span();
        format!(
            "<backcast.sim.History: {} messages, {} s to {} s>",
            self.core.messages().len(),
            seconds(start),
            seconds(end)
        )
    }
}

impl History {
    fn of(py: Python<'_>, source: Source) -> Result<Self, Failure> {
        let history = py.detach(|| source.read())?;
        Ok(Self { core: Arc::new(history), source: Arc::new(source) })
    }

    /// Returns another handle on the same history.
    pub(super) fn again(&self) -> Self {
        Self { core: Arc::clone(&self.core), source: Arc::clone(&self.source) }
    }
}

/// Reads the files of a pickled history again.
#[pyfunction]
pub(crate) fn _read_history(
    py: Python<'_>,
    messages: PathBuf,
    book: Option<PathBuf>,
    follow: bool,
) -> Result<History, Failure> {
    let differences = if follow { Differences::Follow } else { Differences::Raise };
    History::of(py, Source { messages, book, differences })
}

/// Opens a file for reading.
fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path).map_err(|error| {
        let message = format!(
            "{} cannot be opened: {error}; give the path of a file that can be read",
            path.display()
        );
        Failure::new(class_of_file(&error), message)
    })?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Read { ref source, .. } => Self::of(class_of_file(source), error),
            error => Self::of(ErrorClass::Sim, error),
        }
    }
}

/// Returns the class of an error of a file: that of the file system, or of the path.
fn class_of_file(error: &io::Error) -> ErrorClass {
    if IoCause::of(error).is_of_path() { ErrorClass::Sim } else { class_of_io(error) }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND as f64
}

/// Reads a number of levels: at most those that the order book file has.
fn levels_of(given: Option<Argument<i128>>, history: &CoreHistory) -> Result<usize, Failure> {
    let most = history.levels().unwrap_or(MOST_LEVELS as usize);
    match given {
        None => Ok(most.min(LEVELS)),
        Some(given) => Ok(count_in(given, "levels", 1..=most as u32, ErrorClass::Sim)? as usize),
    }
}

/// Returns the best levels of a book in the columns of an order book file.
fn depth<'py>(
    py: Python<'py>,
    book: &HistoricBook,
    levels: usize,
) -> Result<Bound<'py, PyArray2<i64>>, Failure> {
    let mut rows = Vec::with_capacity(4 * levels);
    let side = |side, empty| {
        let found = book.levels(side).map(|(price, level)| (price.0, level.shares()));
        found.chain(std::iter::repeat((empty, 0)))
    };
    let pairs = side(Side::Sell, EMPTY_LEVEL).zip(side(Side::Buy, -EMPTY_LEVEL));
    for ((ask, ask_shares), (bid, bid_shares)) in pairs.take(levels) {
        rows.extend([ask, ask_shares, bid, bid_shares]);
    }
    Ok(PyArray1::from_vec(py, rows).reshape([levels, 4])?)
}

/// Reads seconds after midnight as nanoseconds.
fn nanos_of(given: Argument<f64>, what: &str) -> Result<u64, Failure> {
    const MOST: f64 = 86_400.0;
    let wanted = "seconds from 0 to 86400";
    let seconds = given.get(what, wanted)?;
    if !(0.0..=MOST).contains(&seconds) {
        let message = format!("{what} is {seconds}; give {wanted}");
        return Err(Failure::new(ErrorClass::Sim, message));
    }
    Ok((seconds * NANOS_PER_SECOND as f64).round() as u64)
}

/// Reads a history of Python.
fn history_of(given: &Bound<'_, PyAny>) -> Result<History, Failure> {
    match given.cast::<History>() {
        Ok(history) => Ok(history.get().again()),
        Err(_) => Err(crate::argument::wrong_type(given, "history", "a backcast.sim.History")),
    }
}
