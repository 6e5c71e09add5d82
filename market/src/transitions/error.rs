//! Errors of a ring of transitions.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::{io, path::PathBuf};

use backcast_core::{
    AppendError, HeldLane, IoCause, ReadError, RingError, SchemaError, WriterError,
};
use thiserror::Error;

use crate::error::{PanelError, WindowError};

/// Error of a call on a ring of transitions. Nothing was added, removed or drawn.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// A size that a transition cannot have.
    #[error("{what} is {value}; give from 1 to {limit}")]
    BadShape { what: &'static str, value: usize, limit: usize },
    /// A capacity below one transition per adding process.
    #[error(
        "capacity is {capacity} for {lanes} adding processes; give at least one transition for each"
    )]
    BadCapacity { capacity: u64, lanes: u32 },
    /// A column of a batch with the wrong length.
    #[error("{what} holds {got} numbers for {transitions} transitions; give {expected}")]
    WrongLength { what: &'static str, got: usize, expected: usize, transitions: usize },
    /// A day that the panel does not have.
    #[error(
        "{what} {env} is on day {day}, but the panel has days 0 to {last}; add states of its own"
    )]
    BadDay { what: &'static str, env: usize, day: i32, last: usize },
    /// A token that is no ticker of the panel.
    #[error(
        "state {env} holds token {token}, but the panel has tickers 1 to {last}; \
         take tokens from it"
    )]
    BadToken { env: usize, token: u16, last: usize },
    /// A ticker named twice in one portfolio.
    #[error("state {env} holds {name:?} twice; name each ticker once")]
    TwiceTheTicker { env: usize, name: String },
    /// A NaN or an infinity.
    #[error("{what} of environment {env} is {value}; give finite numbers that float32 can hold")]
    NotFinite { what: &'static str, env: usize, value: f32 },
    /// The buffer is empty.
    #[error("the buffer is empty; add transitions first")]
    Empty,
    /// A batch size of 0.
    #[error("batch_size is 0; draw at least 1")]
    NoBatch,
    /// An index outside the stored transitions.
    #[error("index {index} {}", match size.checked_sub(1) {
        Some(last) => format!("is outside the {size} transitions stored; give 0 to {last}"),
        None => "names no transition: the buffer is empty; add transitions first".to_owned(),
    })]
    NoSuchIndex { index: i128, size: u64 },
    /// Writers overwrote the rows in every attempt.
    #[error("rows were overwritten while they were read, {attempts} times; make the buffer larger")]
    Lapped { attempts: u32 },
    /// A window or batch that memory cannot hold.
    #[error("{batch} samples x {tickers} tickers x {days} days cannot be addressed; ask for less")]
    TooLarge { batch: usize, tickers: usize, days: usize },
    /// A row that no correct writer wrote.
    #[error("row {seq} of lane {lane} is damaged: {what}; create the buffer again")]
    Damaged { lane: u32, seq: u64, what: &'static str },
    /// A ring that does not hold trading transitions.
    #[error(
        "ring {name:?} does not hold trading transitions ({what}); give the name of one that does"
    )]
    NotTransitions { name: String, what: String },
    /// An existing ring whose sizes differ from the requested ones.
    #[error(
        "the buffer named `{name}` differs from the requested one: it has {found}, but {requested} \
         was requested; ask for the same, choose another name, or use exist \"replace\""
    )]
    Different { name: String, found: String, requested: String },
    /// A panel that is not the one whose days and tokens are stored.
    #[error(
        "{what} belongs to the panel {expected}, not to this one, {found}; load the same data, or \
         attach to it"
    )]
    OtherPanel { what: String, expected: String, found: String },
    /// The panel whose days and tokens are stored, with other macro tickers.
    #[error(
        "{what} belongs to the panel with {}, this one has {}; name the same where the prices are \
         loaded (macro_tickers, or macro of a Panel)",
        macro_tickers(expected),
        macro_tickers(found)
    )]
    OtherMacroTickers {
        what: String,
        /// Macro tickers there.
        expected: Vec<String>,
        /// Macro tickers here.
        found: Vec<String>,
    },
    /// An operation on all lanes while other processes hold some.
    #[error(
        "cannot {operation}: {} of its places for adders held by {}; have the buffer closed there \
         first",
        .held.len(), HeldLane::names(.held)
    )]
    HeldByOthers { operation: &'static str, held: Vec<HeldLane> },
    /// Every lane is held.
    #[error(
        "no place for adders is free: all {places} held by {}; close the buffer there (a process \
         that ends does), or make it with a larger n_adders", HeldLane::names(.held)
    )]
    NoPlace { places: u32, held: Vec<HeldLane> },
    /// A system call on a file failed.
    #[error(
        "cannot {operation} {}: {source}; {}",
        path.display(),
        IoCause::of(source).remedy_or("check the path and its folder")
    )]
    File {
        operation: &'static str,
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// A file that is not a saved buffer.
    #[error("{} is no saved buffer: {problem}; give a file that `save` wrote", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        problem: String,
    },
    /// A file whose transitions do not fit this buffer.
    #[error(
        "{} holds {what} of {found}, this buffer has {expected}; make one like it", path.display()
    )]
    OtherShape {
        /// The file.
        path: PathBuf,
        what: &'static str,
        found: String,
        expected: String,
    },
    /// Error of the ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Error of claiming a lane.
    #[error(transparent)]
    Writer(#[from] WriterError),
    /// The ring refused to append.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The ring could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The windows are refused.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The panel could not be attached.
    #[error(transparent)]
    Panel(#[from] PanelError),
}

impl From<SchemaError> for TransitionError {
    fn from(error: SchemaError) -> Self {
        RingError::from(error).into()
    }
}

/// Formats the names of macro tickers.
fn macro_tickers(names: &[String]) -> String {
    match names {
        [] => "no macro tickers".to_owned(),
        [only] => format!("the macro ticker {only}"),
        names => format!("the macro tickers {}", names.join(", ")),
    }
}
