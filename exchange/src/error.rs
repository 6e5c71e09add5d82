//! Errors of exports and imports.

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
    Exists {
        /// Path given.
        path: PathBuf,
    },
    /// The path holds a file or folder that no export of this format wrote. Overwriting does not
    /// replace it.
    #[error("{path} is not replaced: {why}; choose another path, or move away what is there")]
    NotReplaced {
        /// Path given.
        path: PathBuf,
        /// Kind of the existing file, and what can be replaced.
        why: String,
    },
    /// The path ends in a slash, but the format is a file.
    #[error("{path} ends in a slash, and {format} is written to a file; leave the slash out")]
    NamesFolder {
        /// Path given.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
    },
    /// The file system refused a write.
    #[error(
        "cannot write {path}: {source}; nothing was left; {}",
        IoCause::of(source).remedy()
    )]
    Write {
        /// Path given.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file system refused a write and the removal of the written files.
    #[error(
        "cannot write {path}: {source}; {}; {left} was left: export again, or run `backcast gc` in \
         that folder, which also restores a dataset that was to be replaced",
        IoCause::of(source).remedy()
    )]
    Unfinished {
        /// Path given.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
        /// Folder with the written files.
        left: PathBuf,
    },
    /// The format is read only.
    #[error("{format} cannot be exported; export parquet, csv or minari")]
    OnlyRead {
        /// Name of the format.
        format: &'static str,
    },
    /// The ring lacks columns that a dataset of episodes needs.
    #[error(
        "a Minari dataset has observations, actions and rewards, so the ring needs a column \
         {wanted}; it has {found}; export parquet, which takes any columns"
    )]
    NoColumn {
        /// Description of the missing column.
        wanted: &'static str,
        /// Columns of the ring.
        found: String,
    },
    /// No Gymnasium space has elements of the type.
    #[error(
        "column `{column}` has the dtype {dtype}, which no Gymnasium space has, and a Minari \
         dataset is made of spaces; export parquet, which keeps its bits as uint16, or write the \
         column as f4"
    )]
    NoSpace {
        /// Column of the ring.
        column: String,
        /// Type of the column.
        dtype: DType,
    },
    /// A Discrete space cannot hold the range of an integer column.
    #[error(
        "column `{column}` has {value}, and values from {least} to {most}: in a Minari dataset a \
         scalar integer is one of at most {limit} choices of 63 bits; export parquet, which takes \
         any values, or give the column the shape (1,), whose space is a Box"
    )]
    TooManyChoices {
        /// Column of the ring.
        column: String,
        /// Value that exceeds the range.
        value: i128,
        /// Smallest value, at most 0.
        least: i128,
        /// Largest value, at least 0.
        most: i128,
        /// Maximum choices of a space.
        limit: u64,
    },
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] ReadError),
    /// Another export to the path is running.
    #[error("another export to {path} is running; wait for it, or choose another path")]
    Busy {
        /// Path given.
        path: PathBuf,
    },
    /// The name of the temporary folder is taken.
    #[error(
        "{folder} exists, but is not the temporary folder of an export; move it away, or choose \
         another path"
    )]
    NotPartial {
        /// Path of the temporary folder.
        folder: PathBuf,
    },
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
    #[error("cannot read {path}: {source}; {}", IoCause::of(source).remedy())]
    Read {
        /// Path given.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is cut, changed or of another format.
    #[error("{path} is damaged or of another format: {part}: {what}")]
    Damaged {
        /// Offending file.
        path: PathBuf,
        /// Part of the file.
        part: String,
        /// Problem found there.
        what: String,
    },
    /// A Parquet file that was not exported from a ring.
    #[error(
        "{path} is a Parquet file that was not exported from a ring: {what}; import plain steps \
         from .npz, or a Minari dataset"
    )]
    NotARing {
        /// Offending file.
        path: PathBuf,
        /// Missing parts.
        what: String,
    },
    /// The file has a newer format.
    #[error("{path} was exported in format {found}; this build reads formats up to {supported}")]
    WrongVersion {
        /// Offending file.
        path: PathBuf,
        /// Version in the file.
        found: u64,
        /// Newest version that this build reads.
        supported: u32,
    },
    /// The file describes an impossible ring.
    #[error("{path} describes an impossible ring: {source}")]
    Description {
        /// Offending file.
        path: PathBuf,
        /// Problem of the description.
        source: BadDescription,
    },
    /// The columns are no valid schema.
    #[error("the columns of {path} are not a valid schema: {source}{}", or_leave_out(source))]
    Schema {
        /// Offending file.
        path: PathBuf,
        /// Problem of the columns.
        source: SchemaError,
    },
    /// An array that cannot be imported; `what` says why.
    #[error("{path}: `{name}` {what}")]
    Array {
        /// Offending file.
        path: PathBuf,
        /// Name of the array.
        name: String,
        /// Problem and remedy.
        what: String,
    },
    /// A complete file of an unsupported kind.
    #[error("{path} is not supported: {what}")]
    NotRead {
        /// Offending file.
        path: PathBuf,
        /// Kind of the file, and the remedy.
        what: String,
    },
    /// The file does not have a name to leave out.
    #[error("cannot leave out `{name}`, which {path} does not have: it has {known}")]
    NotThere {
        /// File given.
        path: PathBuf,
        /// Name given.
        name: String,
        /// Names in the file.
        known: String,
    },
    /// Part of an exported table was to be left out.
    #[error(
        "{path} is an exported table, whose rows are checked as a whole; import it without leaving \
         anything out"
    )]
    ComesWhole {
        /// File given.
        path: PathBuf,
    },
    /// The format is write only.
    #[error("{format} cannot be imported; import parquet, npz or minari")]
    OnlyWritten {
        /// Name of the format.
        format: &'static str,
    },
    /// The capacity asked for is smaller than the data.
    #[error(
        "the capacity is {asked} rows over all lanes, but the file needs {rows}; ask for at least \
         as many, or leave it out"
    )]
    Capacity {
        /// Rows asked for, over all lanes.
        asked: u64,
        /// Rows that the file needs, with all lanes as long as its longest one.
        rows: u64,
    },
    /// Error of creating the ring.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The caller asked to stop.
    #[error("the import was interrupted; nothing was left")]
    Interrupted,
}

/// Returns the remedy for a column that no ring can have. A file cannot rename it.
fn or_leave_out(source: &SchemaError) -> String {
    match source {
        SchemaError::Reserved { name } => format!(
            ", or leave it out with `--leave-out {name}` (in Python, `leave_out=[\"{name}\"]`)"
        ),
        _ => String::new(),
    }
}
