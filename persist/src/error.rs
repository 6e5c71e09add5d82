//! Errors of saves and of loads, and the errors of the store that both share.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::io;
use std::path::{Path, PathBuf};

use backcast_core::{
    IoCause, LearnedError, LimiterError, ParamsError, PriorityError, RestoreError, RingError,
    SchemaError, SegmentError,
};
use thiserror::Error;

use crate::damage::Damage;

/// Error of using a store.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The name or label is not valid.
    #[error(
        "{what} `{name}` is refused: {reason}; use 1 to {limit} of A-Z a-z 0-9 _ - . and no dot in \
         front, as in `pong` or `pong@epoch-10`"
    )]
    BadName { what: &'static str, name: String, reason: &'static str, limit: usize },
    /// The store has no such ring or snapshot.
    #[error(
        "{what} `{name}` is not in the store {}{}",
        store.display(),
        hint(suggestion.as_deref())
    )]
    NotFound {
        what: &'static str,
        name: String,
        /// Directory of the store.
        store: PathBuf,
        /// Most similar name, if there is one.
        suggestion: Option<String>,
    },
    /// Another process changes the directory.
    #[error(
        "{} is still being changed by {holder} after {waited_ms} ms; wait longer, let that \
         process continue (`kill -CONT PID` if it is stopped), or end it",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        holder: String,
        waited_ms: u128,
    },
    /// The disk is full.
    #[error(
        "no space left to {operation} {}; free some space, or remove snapshots with `backcast rm \
         NAME@LABEL`. Nothing that was saved before is lost",
        path.display()
    )]
    NoSpace {
        operation: &'static str,
        /// File of the operation.
        path: PathBuf,
    },
    /// The system refused an operation, which says nothing about the content of the file.
    #[error("cannot {operation} {}: {source}; {}", path.display(), remedy(source))]
    Io {
        operation: &'static str,
        /// File of the operation.
        path: PathBuf,
        source: io::Error,
    },
    /// A manifest cannot be read. It may be the newer one, so it is not overwritten.
    #[error(
        "cannot read {}: {problem}; nothing was changed. Try again, or remove the file if it is \
         lost, to use the other manifest",
        path.display()
    )]
    Unreadable {
        /// The manifest.
        path: PathBuf,
        problem: String,
    },
    /// No manifest is valid.
    #[error(
        "no manifest of {} can be used ({}); restore the directory from a backup, or remove it",
        path.display(),
        list(damages)
    )]
    NoManifest {
        /// The directory.
        path: PathBuf,
        /// Damage of each manifest.
        damages: Vec<Damage>,
    },
    /// A manifest has another format version.
    #[error(
        "{} has version {found}, this program knows version {known}; use the program that saved \
         it, or a newer one",
        path.display()
    )]
    OtherVersion {
        /// The manifest.
        path: PathBuf,
        found: u64,
        known: u64,
    },
    /// No directory was given and there is no default.
    #[error(
        "no directory for the store: neither BACKCAST_STORE nor XDG_DATA_HOME nor HOME is set; \
         name a directory, or set BACKCAST_STORE"
    )]
    NoPlace,
}

/// Error of saving a ring. Earlier snapshots are unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SaveError {
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The label is taken.
    #[error(
        "`{name}@{label}` exists; choose another label, replace it with `--replace` (in Python, \
         `replace=True`), or remove it with `backcast rm {name}@{label}`"
    )]
    LabelTaken { name: String, label: String },
    /// The label is reserved for automatic snapshots.
    #[error(
        "the label `{label}` is reserved for automatic snapshots (live, before, evicted and \
         auto-…); choose another one"
    )]
    LabelReserved { label: String },
    /// The mode is off.
    #[error("persist mode `off` follows no ring; use periodic, continuous or block")]
    NotFollowed,
    /// Rows that are not on disk yet cannot be pinned.
    #[error("{0}; mode `continuous` follows the ring without making its writers wait")]
    Guard(#[from] backcast_core::LeaseError),
    /// The ring has no name and none was given.
    #[error("the ring has no name; name it for the store")]
    NoName,
    /// Rows cannot be read although no writer laps them.
    #[error("row {seq} of lane {lane} cannot be read: {problem}; create the ring again")]
    Unreadable { lane: u32, seq: u64, problem: String },
    /// Error of reading a table of priorities or claims, or of listing the tables.
    #[error(transparent)]
    Table(#[from] PriorityError),
    /// Error of reading a table of learned columns.
    #[error(transparent)]
    Learned(#[from] LearnedError),
    /// Error of reading the rate limiter.
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    /// Error of reading parameters.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// The parameters have no name.
    #[error(
        "parameters in private memory have no name to be found by; create them with one, or save \
         their arrays in a file of yours"
    )]
    NamelessParams,
    /// Parameters are given twice.
    #[error("the parameters `{name}` are given twice; give each once")]
    ParamsTwice { name: String },
    /// An array of the parameters does not fit a file.
    #[error(
        "array `{array}` of the parameters `{name}` has more elements than the limit of {} in a \
         file; split it",
        i32::MAX
    )]
    ArrayTooLarge { name: String, array: String },
    /// The state is too large for a manifest.
    #[error(
        "the state has {bytes} bytes as JSON, the limit is {limit}; save it in a file of its own"
    )]
    StateTooLarge { bytes: usize, limit: usize },
    /// The state is nested too deeply.
    #[error("the state is {depth} levels deep, the limit is {limit}; save flatter data")]
    StateTooDeep { depth: usize, limit: usize },
    /// The store has a ring of the same identity with other columns or lanes.
    #[error(
        "the store has rows of this ring, but with other columns or lanes: {} or the ring was \
         changed; save it under another name",
        path.display()
    )]
    OtherRing {
        /// Directory of the saved ring.
        path: PathBuf,
    },
    /// The caller stopped the operation.
    #[error("the save was stopped; nothing was saved")]
    Cancelled,
}

/// Error of loading or verifying a snapshot. No ring and no parameters were made or replaced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file is damaged.
    #[error(
        "`{snapshot}` is damaged: {damage}; load another snapshot (`backcast ls` lists them), or \
         restore the file from a backup"
    )]
    Damaged { snapshot: String, damage: Damage },
    /// Error of creating the ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Error of filling the ring.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The saved columns are not a valid schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The snapshot has no such parameters.
    #[error("the snapshot `{snapshot}` has no parameters `{name}`; {}", saved_params(known))]
    NoParams {
        snapshot: String,
        name: String,
        /// Names of its parameters.
        known: Vec<String>,
    },
    /// Error of creating the parameters.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// Shared memory has another snapshot of this name.
    #[error(
        "shared memory has another snapshot named `{name}`, which a process has open; close it, or \
         load this one under another name"
    )]
    OtherSnapshot { name: String },
    /// The caller stopped the operation.
    #[error("the load was stopped; no ring was made")]
    Cancelled,
}

impl From<SegmentError> for SaveError {
    fn from(error: SegmentError) -> Self {
        Self::Table(error.into())
    }
}

/// Error of filling a ring or parameters.
pub(crate) enum NotFilled {
    Damaged(Damage),
    Other(LoadError),
}

impl NotFilled {
    /// Returns the error of loading that snapshot.
    pub(crate) fn of(self, snapshot: &str) -> LoadError {
        match self {
            Self::Damaged(damage) => LoadError::Damaged { snapshot: snapshot.to_owned(), damage },
            Self::Other(error) => error,
        }
    }
}

impl From<Damage> for NotFilled {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<RestoreError> for NotFilled {
    fn from(error: RestoreError) -> Self {
        Self::Other(error.into())
    }
}

impl From<ParamsError> for NotFilled {
    fn from(error: ParamsError) -> Self {
        Self::Other(error.into())
    }
}

impl StoreError {
    /// Returns a function for `map_err` that converts an error of the system.
    pub(crate) fn io<'a>(
        operation: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| {
            let path = path.to_owned();
            match IoCause::of(&source) {
                IoCause::Space => Self::NoSpace { operation, path },
                _ => Self::Io { operation, path, source },
            }
        }
    }
}

fn remedy(source: &io::Error) -> String {
    match IoCause::of(source) {
        IoCause::Access => "ask its owner for access, or name another directory (`--store`, \
                            BACKCAST_STORE)"
            .to_owned(),
        cause => cause.remedy(),
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || "; `backcast ls` lists the snapshots".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    )
}

fn saved_params(known: &[String]) -> String {
    if known.is_empty() {
        return "it was saved without any: name them in the save".to_owned();
    }
    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("it has {}", known.join(", "))
}

fn list(damages: &[Damage]) -> String {
    damages.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
