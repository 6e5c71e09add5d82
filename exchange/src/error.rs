//! Errors of exports and imports.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::io;
use std::path::PathBuf;

use backcast_core::{DType, IoCause, ReadError, RestoreError, SchemaError};
use backcast_files::BadDescription;
use thiserror::Error;

/// Error of an export.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The path exists.
    #[error(
        "{path} exists; choose another path, or replace it with `--overwrite` (in Python, \
         `overwrite=True`)"
    )]
    Exists { path: PathBuf },
    /// The path holds what is never overwritten: a folder where the format is a file, a file where
    /// it is a folder, or a folder with entries that a Minari dataset does not have.
    #[error("{path} is not replaced: {why}; choose another path, or move away what is there")]
    NotReplaced { path: PathBuf, why: String },
    /// The path ends in a slash, but the format is a file.
    #[error("{path} ends in a slash, and {format} is written to a file; leave the slash out")]
    NamesFolder { path: PathBuf, format: &'static str },
    /// The file system refused a write.
    #[error(
        "cannot write {path}: {source}; nothing was left; {}",
        IoCause::of(source).remedy()
    )]
    Write { path: PathBuf, source: io::Error },
    /// The file system refused a write and the removal of the written files.
    #[error(
        "cannot write {path}: {source}; {}; {left} was left: export again, or run `backcast gc` in \
         that folder, which also restores a dataset that was to be replaced",
        IoCause::of(source).remedy()
    )]
    Unfinished { path: PathBuf, source: io::Error, left: PathBuf },
    /// The format is read only.
    #[error("{format} cannot be exported; export parquet, csv or minari")]
    OnlyRead { format: &'static str },
    /// The ring lacks columns that a dataset of episodes needs.
    #[error(
        "a Minari dataset has observations, actions and rewards, so the ring needs a column \
         {wanted}; it has {found}; export parquet, which takes any columns"
    )]
    NoColumn { wanted: &'static str, found: String },
    /// No Gymnasium space has elements of the type.
    #[error(
        "column `{column}` has the dtype {dtype}, which no Gymnasium space has, and a Minari \
         dataset is made of spaces; export parquet, which keeps its bits as uint16, or write the \
         column as f4"
    )]
    NoSpace { column: String, dtype: DType },
    /// A Discrete space cannot hold the range of an integer column.
    #[error(
        "column `{column}` has {value}, and values from {least} to {most}: in a Minari dataset a \
         scalar integer is one of at most {limit} choices of 63 bits; export parquet, which takes \
         any values, or give the column the shape (1,), whose space is a Box"
    )]
    TooManyChoices { column: String, value: i128, least: i128, most: i128, limit: u64 },
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] ReadError),
    /// Another export to the path is running.
    #[error("another export to {path} is running; wait for it, or choose another path")]
    Busy { path: PathBuf },
    /// The name of the temporary folder is taken.
    #[error(
        "{folder} exists, but is not the temporary folder of an export; move it away, or choose \
         another path"
    )]
    NotPartial { folder: PathBuf },
    /// The caller asked to stop.
    #[error("the export was interrupted; nothing was left")]
    Interrupted,
}

impl ExportError {
    /// Adds the staging folder that could not be removed to a failed write.
    pub(crate) fn and_left(self, folder: Option<PathBuf>) -> Self {
        match (self, folder) {
            (Self::Write { path, source }, Some(left)) => Self::Unfinished { path, source, left },
            (error, _) => error,
        }
    }
}

/// Error of writing a file: of the file system, or of any other part of the export.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    Io(io::Error),
    Export(ExportError),
}

impl From<io::Error> for WriteFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ExportError> for WriteFailure {
    fn from(error: ExportError) -> Self {
        Self::Export(error)
    }
}

/// Error of an import.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}; {}", IoCause::of(source).remedy_or("check the path"))]
    Read { path: PathBuf, source: io::Error },
    /// The file is cut, changed or of another format.
    #[error("{path} is damaged or of another format: {part}: {what}")]
    Damaged { path: PathBuf, part: String, what: String },
    /// A Parquet file that was not exported from a ring.
    #[error(
        "{path} is a Parquet file that was not exported from a ring: {what}; import plain steps \
         from .npz, or a Minari dataset"
    )]
    NotARing { path: PathBuf, what: String },
    /// The file has a format version that this build does not read.
    #[error("{path} was exported in format {found}; this build reads formats up to {supported}")]
    WrongVersion { path: PathBuf, found: u64, supported: u32 },
    /// The file describes an impossible ring.
    #[error("{path} describes an impossible ring: {source}")]
    Description { path: PathBuf, source: BadDescription },
    /// The columns are no valid schema.
    #[error("the columns of {path} are not a valid schema: {source}{}", or_leave_out(source))]
    Schema { path: PathBuf, source: SchemaError },
    /// An array that cannot be imported; `what` says why.
    #[error("{path}: `{name}` {what}")]
    Array { path: PathBuf, name: String, what: String },
    /// A complete file of an unsupported kind.
    #[error("{path} is not supported: {what}")]
    NotRead { path: PathBuf, what: String },
    /// A name that is to be left out is not in the file.
    #[error("cannot leave out `{name}`, which {path} does not have: it has {known}")]
    NotThere { path: PathBuf, name: String, known: String },
    /// Part of an exported table was to be left out.
    #[error(
        "{path} is an exported table, whose rows are checked as a whole; import it without leaving \
         anything out"
    )]
    ComesWhole { path: PathBuf },
    /// The format is write only.
    #[error("{format} cannot be imported; import parquet, npz or minari")]
    OnlyWritten { format: &'static str },
    /// The capacity asked for is smaller than the data.
    #[error(
        "the capacity is {asked} rows over all lanes, but the file needs {rows}; ask for at least \
         as many, or leave it out"
    )]
    Capacity { asked: u64, rows: u64 },
    /// Error of creating or filling the ring.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The caller asked to stop.
    #[error("the import was interrupted; nothing was left")]
    Interrupted,
}

/// Returns the remedy for a column whose name is reserved, else an empty text.
fn or_leave_out(source: &SchemaError) -> String {
    match source {
        SchemaError::Reserved { name } => format!(
            ", or leave it out with `--leave-out {name}` (in Python, `leave_out=[\"{name}\"]`)"
        ),
        _ => String::new(),
    }
}
