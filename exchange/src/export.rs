//! From a ring to a file: which format, and what was written.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use backcast_core::Ring;
use backcast_files::{OnProgress, Progress};
use thiserror::Error;

use crate::error::ExportError;
use crate::partial::{self, Partial, ReadBack};
use crate::plan::{BeganAnew, Plan};
use crate::row_reader::{Halt, RowReader};
use crate::{csv_file, minari, parquet_file};

/// What a file is written or read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table of all rows, as they are: `lane`, `seq`, `episode`, `t`, `flags`, then the ring's columns,
    /// arrays as lists of one length. What the file says of the ring lets it be made again exactly.
    Parquet,
    /// The same table as text, a column per element: `obs[0]`, `obs[1]`. Only written.
    Csv,
    /// A folder with a dataset of episodes that Minari loads.
    Minari,
    /// Arrays of plain steps: `obs`, `action`, `reward`, `terminated`, `truncated`, `next_obs`. Only read.
    Npz,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Parquet, Format::Csv, Format::Minari, Format::Npz];

    /// `"parquet"`, `"csv"`, `"minari"` or `"npz"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Minari => "minari",
            Format::Npz => "npz",
        }
    }

    /// The format that a path's extension names; a path without one is a folder, for Minari.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let Some(extension) = path.extension() else { return Some(Format::Minari) };
        let known = [("parquet", Format::Parquet), ("pq", Format::Parquet), ("csv", Format::Csv)];
        let mut known = known.into_iter().chain([("npz", Format::Npz)]);
        known.find(|(name, _)| extension.eq_ignore_ascii_case(name)).map(|(_, format)| format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`Format`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("format is `{0}`; use \"parquet\", \"csv\", \"minari\" or \"npz\"")]
pub struct BadFormat(pub String);

impl FromStr for Format {
    type Err = BadFormat;

    fn from_str(text: &str) -> Result<Self, BadFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| BadFormat(text.to_owned()))
    }
}

/// Rows are read ahead up to this many bytes, so that writers do not overwrite them while others are packed.
const READ_AHEAD_BYTES: u64 = 64 << 20;

/// How a ring is exported.
#[must_use]
#[derive(Default)]
pub struct ExportOptions<'a> {
    overwrite: bool,
    group_rows: Option<u64>,
    read_ahead: Option<u64>,
    progress: Option<OnProgress<'a>>,
}

impl fmt::Debug for ExportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportOptions")
            .field("overwrite", &self.overwrite)
            .field("group_rows", &self.group_rows)
            .field("read_ahead", &self.read_ahead)
            .finish_non_exhaustive()
    }
}

impl<'a> ExportOptions<'a> {
    /// Replace what is at the path, once the new file is whole: a file, or for a dataset an empty folder
    /// or another dataset as it is written here. Any other folder is refused
    /// ([`ExportError::NotReplaced`]).
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Rows that are packed together, at least 1 and at most 2²⁰: a row group of a Parquet file. An export
    /// that is killed loses the rows of one. When left out, as many as have 32 MiB.
    pub fn group_rows(mut self, rows: u64) -> Self {
        self.group_rows = Some(rows);
        self
    }

    /// Bytes of rows that are read before they are packed. The more, the fewer rows does a fast writer overwrite
    /// before they are read; 0 reads a megabyte at a time. When left out, 64 MiB.
    pub fn read_ahead(mut self, bytes: u64) -> Self {
        self.read_ahead = Some(bytes);
        self
    }

    /// Is told how far it has come, and may stop it.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Rows written.
    pub rows: u64,
    /// Rows that writers overwrote before they were read: no more than they published during the export, and
    /// none of a snapshot.
    pub rows_lapped: u64,
    /// Rows that an earlier export to the same path had done when it was cut.
    pub rows_resumed: u64,
    /// Why what an earlier one had done was dropped, if there was any.
    pub began_anew: Option<BeganAnew>,
    /// Bytes of the file, or of all files.
    pub bytes: u64,
    /// Episodes, of a dataset of such.
    pub episodes: Option<u64>,
}

/// Writes the rows of a ring, as many as are readable when it begins, to a file. Writers go on meanwhile.
///
/// The lane whose rows are overwritten soonest is read first, and ahead of what is being packed. Rows that a
/// writer overwrites before they are read are missing from the file and counted
/// ([`ExportReport::rows_lapped`]); they are no more than were published during the export.
///
/// The file appears whole or not at all; it is on disk when the call returns. Needs memory for about a hundred
/// megabytes of rows, not for all; a dataset, for the episode of each lane that is being read.
///
/// An export that is killed or stopped leaves a folder beside the file, of the same name with `.partial`
/// after it. The same export of the same rows goes on from there, and gives the bytes that it would have
/// given at once; any other begins anew, and says why ([`ExportReport::began_anew`]). What was done is
/// read again and compared, which costs a small part of what making it did.
pub fn export(
    ring: &Ring,
    to: &Path,
    format: Format,
    options: ExportOptions<'_>,
) -> Result<ExportReport, ExportError> {
    let read_back: ReadBack = match format {
        Format::Parquet | Format::Csv => partial::read_file,
        Format::Minari => {
            minari::check(ring.schema())?;
            minari::read_back
        }
        Format::Npz => return Err(ExportError::OnlyRead { format: "npz" }),
    };
    if format != Format::Minari && !to.is_dir() && names_folder(to) {
        return Err(ExportError::NamesFolder { path: to.to_owned(), format: format.as_str() });
    }
    let unit_rows = Plan::unit_rows(ring, options.group_rows);
    let most_ahead = options.read_ahead.unwrap_or(READ_AHEAD_BYTES);
    let mut reader = RowReader::new(ring, unit_rows, most_ahead, options.progress);
    let plan = Plan::of(&reader, format);
    let mut partial = Partial::open(to, format, &plan, options.overwrite, &mut reader, read_back)
        .map_err(|halt| halted(halt, || Partial::left(to)))?;
    let (rows_resumed, began_anew) = (partial.rows(), partial.began_anew());
    if partial.units().is_empty() {
        reader.follow_writers();
    }
    let written = match format {
        Format::Csv => csv_file::write(&mut reader, &mut partial),
        Format::Minari => minari::write(&mut reader, &mut partial, to),
        _ => parquet_file::write(&mut reader, &mut partial),
    };
    let report = match written {
        Ok(report) => report,
        Err(Failure::Write(source)) => {
            let path = to.to_owned();
            return Err(ExportError::Write { path, source }.and_left(partial.give_up(false)));
        }
        Err(Failure::Halt(halt)) => {
            let keep = matches!(halt, Halt::Asked);
            let left = partial.give_up(keep);
            return Err(halted(halt, || left));
        }
    };
    partial.finish()?;
    Ok(ExportReport { rows_lapped: reader.lapped(), rows_resumed, began_anew, ..report })
}

/// Whether something comes after the last name: a slash, or a dot that is none.
fn names_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    !path.as_os_str().as_encoded_bytes().ends_with(name.as_encoded_bytes())
}

fn halted(halt: Halt, left: impl FnOnce() -> Option<PathBuf>) -> ExportError {
    match halt {
        Halt::Asked => ExportError::Interrupted { partial: left() },
        Halt::Export(error) => error,
    }
}

/// What ends the writing of a file: the file system, or whatever ends the walk over the rows.
#[derive(Debug)]
pub(crate) enum Failure {
    Write(io::Error),
    Halt(Halt),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}
