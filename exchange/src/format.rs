//! Names of the file formats.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

/// Format of a file that is written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Table of the exported rows as stored: `lane`, `seq`, `episode`, `t`, `flags`, then the
    /// ring's columns, with arrays as fixed-size lists. The file describes its ring, so that an
    /// import restores it exactly.
    Parquet,
    /// Table as text, one column per element: `obs[0]`, `obs[1]`. Write only.
    Csv,
    /// Folder with a dataset of episodes that Minari loads.
    Minari,
    /// Arrays of plain steps: `obs`, `action`, `reward`, `terminated`, `truncated`, `next_obs`.
    /// Read only.
    Npz,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::Parquet, Format::Csv, Format::Minari, Format::Npz];

    /// Returns `"parquet"`, `"csv"`, `"minari"` or `"npz"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Minari => "minari",
            Format::Npz => "npz",
        }
    }

    /// Returns the format that the path's extension names; a path without one is a Minari folder.
    /// Returns `None` for an unknown extension.
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
