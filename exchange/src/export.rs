//! From a ring to a file: which format, and what was written.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;

use backcast_core::Ring;
use backcast_files::{OnProgress, Progress};
use thiserror::Error;

use crate::error::ExportError;
use crate::walk::Walk;
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

/// How a ring is exported.
#[must_use]
#[derive(Default)]
pub struct ExportOptions<'a> {
    pub(crate) overwrite: bool,
    pub(crate) progress: Option<OnProgress<'a>>,
}

impl fmt::Debug for ExportOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportOptions").field("overwrite", &self.overwrite).finish_non_exhaustive()
    }
}

impl<'a> ExportOptions<'a> {
    /// Replace what is at the path, once the new file is whole.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
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
    /// Rows that writers overwrote before they were read; none of a snapshot.
    pub rows_lapped: u64,
    /// Bytes of the file, or of all files.
    pub bytes: u64,
    /// Episodes, of a dataset of such.
    pub episodes: Option<u64>,
}

/// Writes the rows of a ring, as many as are readable now, to a file. Writers go on meanwhile.
///
/// The file appears whole or not at all; it is on disk when the call returns. Needs memory for some
/// megabytes of rows, not for all.
pub fn export(
    ring: &Ring,
    to: &Path,
    format: Format,
    options: ExportOptions<'_>,
) -> Result<ExportReport, ExportError> {
    if !options.overwrite && to.symlink_metadata().is_ok() {
        return Err(ExportError::Exists { path: to.to_owned() });
    }
    let walk = Walk::new(ring, options.progress);
    match format {
        Format::Parquet => parquet_file::write(walk, to),
        Format::Csv => csv_file::write(walk, to),
        Format::Minari => minari::write(walk, to),
        Format::Npz => Err(ExportError::OnlyRead { format: "npz" }),
    }
}
