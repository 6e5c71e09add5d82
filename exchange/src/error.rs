//! What can go wrong with files of other programs: one enum to write them, one to read them.

use std::io;
use std::path::{Path, PathBuf};

use backcast_core::{ReadError, RestoreError, SchemaError};
use backcast_files::BadDescription;
use thiserror::Error;

/// Why nothing was exported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Something is there already.
    #[error(
        "{path} exists; choose another path, or replace it with `--overwrite` (in Python, \
         `overwrite=True`)"
    )]
    Exists {
        /// Path given.
        path: PathBuf,
    },
    /// Something is there that no export of this format wrote: it is not replaced, asked or not.
    #[error("{path} is not replaced: {why}; choose another path, or move away what is there")]
    NotReplaced {
        /// Path given.
        path: PathBuf,
        /// What is there, and what would be replaced.
        why: String,
    },
    /// A path that ends as folders do, for a format of one file.
    #[error(
        "{path} ends in a slash, as folders do, and {format} is written to a file; leave it out"
    )]
    NamesFolder {
        /// Path given.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
    },
    /// The file system refused.
    #[error("cannot write {path}: {source}; nothing of it is left")]
    Write {
        /// Path given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file system refused, and then refused to clear up, too.
    #[error(
        "cannot write {path}: {source}; {left} is left, with what was written, and what was there \
         before if it had been moved there; export again, which takes up both"
    )]
    Unfinished {
        /// Path given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// Folder that is left.
        left: PathBuf,
    },
    /// A format that is only read.
    #[error("{format} is read and not written; export parquet, csv or minari")]
    OnlyRead {
        /// Name of the format.
        format: &'static str,
    },
    /// A dataset of episodes wants columns that the ring lacks.
    #[error(
        "a Minari dataset has observations, actions and rewards, so the ring needs a column {wanted}; \
         it has {found}; export parquet, which takes any columns"
    )]
    NoColumn {
        /// Column looked for, in words.
        wanted: &'static str,
        /// Columns there are.
        found: String,
    },
    /// Integers that no space of choices has room for.
    #[error(
        "column `{column}` has {value}, and values from {least} to {most}: in a Minari dataset an integer of \
         one element is one of {limit} choices at most, of 63 bits; export parquet, which takes any values, \
         or give the column the shape (1,), whose space is a Box"
    )]
    TooManyChoices {
        /// Column of the ring.
        column: String,
        /// The value that was one too many.
        value: i128,
        /// The least value, or 0.
        least: i128,
        /// The largest value, or 0.
        most: i128,
        /// Most choices of a space.
        limit: u64,
    },
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] ReadError),
    /// Somebody else is at it.
    #[error("another export to {path} is under way; wait for it, or choose another path")]
    Busy {
        /// Path given.
        path: PathBuf,
    },
    /// The place for what is not whole yet is taken.
    #[error(
        "{folder} is there, where the unfinished part of the export would be, and no export left it; \
         move it away, or choose another path"
    )]
    NotPartial {
        /// What is there.
        folder: PathBuf,
    },
    /// Somebody asked to stop.
    #[error("the export was interrupted; {}", left(.partial.as_deref()))]
    Interrupted {
        /// The folder from which the same export goes on; `None`: nothing of it is left.
        partial: Option<PathBuf>,
    },
}

impl ExportError {
    /// The same, if nothing could be written and that folder was not removed.
    pub(crate) fn and_left(self, folder: Option<PathBuf>) -> Self {
        match (self, folder) {
            (Self::Write { path, source }, Some(left)) => Self::Unfinished { path, source, left },
            (error, _) => error,
        }
    }
}

fn left(partial: Option<&Path>) -> String {
    match partial {
        Some(folder) => {
            let folder = folder.display();
            format!("the same one goes on from where it was, with what is in {folder}")
        }
        None => "nothing of it is left".to_owned(),
    }
}

/// Why no ring was made of a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is not what it is called, or was cut or changed.
    #[error("{path} is damaged or of another format: {part}: {what}")]
    Damaged {
        /// Offending file.
        path: PathBuf,
        /// Part of it.
        part: String,
        /// What was found there.
        what: String,
    },
    /// A Parquet file of something else.
    #[error(
        "{path} is a Parquet file that no ring was exported to: {what}; import plain steps from .npz, \
         or a Minari dataset"
    )]
    NotARing {
        /// Offending file.
        path: PathBuf,
        /// What it lacks.
        what: String,
    },
    /// Written by another version.
    #[error("{path} was exported in format {found}, this build reads those up to {supported}")]
    WrongVersion {
        /// Offending file.
        path: PathBuf,
        /// Version in the file.
        found: u64,
        /// The newest that this build reads.
        supported: u32,
    },
    /// What the file says of its ring cannot be.
    #[error("{path} describes a ring that cannot be: {source}")]
    Description {
        /// Offending file.
        path: PathBuf,
        /// What is wrong.
        source: BadDescription,
    },
    /// Columns that make no ring.
    #[error("the columns of {path} make no ring: {source}")]
    Schema {
        /// Offending file.
        path: PathBuf,
        /// What is wrong.
        source: SchemaError,
    },
    /// An array or a column that no ring can hold, or of another length than the others.
    #[error("{path}: `{name}` {what}")]
    Array {
        /// Offending file.
        path: PathBuf,
        /// Name of the array.
        name: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A file that is whole, in a format or of a kind that is not read.
    #[error("{path} is not read: {what}")]
    NotRead {
        /// Offending file.
        path: PathBuf,
        /// What it is, and what to do.
        what: String,
    },
    /// A name to leave out that the file does not have.
    #[error("cannot leave out `{name}`, which {path} does not have: it has {known}")]
    NotThere {
        /// File given.
        path: PathBuf,
        /// Name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A table of a ring, of which a part was to be left out.
    #[error(
        "{path} is a table of a ring, of which nothing can be left out: its rows are checked as a whole; import \
         all of it"
    )]
    ComesWhole {
        /// File given.
        path: PathBuf,
    },
    /// A format that is only written.
    #[error("{format} is written and not read; import parquet, npz or minari")]
    OnlyWritten {
        /// Name of the format.
        format: &'static str,
    },
    /// Larger than what can be asked for.
    #[error(
        "the capacity is {asked} rows over all lanes, the file needs {rows}; ask for at least as many, or leave \
         it out"
    )]
    Capacity {
        /// Rows asked for, over all lanes.
        asked: u64,
        /// Rows that the file needs: as many in each lane as in its longest one.
        rows: u64,
    },
    /// The ring could not be made.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Somebody else is at it.
    #[error(
        "another import to a ring named `{name}` is under way; wait for it, or choose another name"
    )]
    Busy {
        /// Name given.
        name: String,
    },
    /// Somebody asked to stop.
    #[error("the import was interrupted; {}", left(.partial.as_deref()))]
    Interrupted {
        /// The folder from which the same import goes on; `None`: nothing of it is left.
        partial: Option<PathBuf>,
    },
}
