//! `--format` of exports and imports.

use std::fmt;
use std::path::{Path, PathBuf};

use backcast_exchange::Format;
use thiserror::Error;

use crate::cli::exit_status::{Exit, Fails};

/// Formats that a command writes or reads. Shown as `parquet, csv or minari`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formats(pub(crate) [Format; 3]);

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, last] = self.0;
        write!(f, "{first}, {second} or {last}")
    }
}

/// Error of a path whose extension names no format.
#[derive(Debug, Error)]
#[error("the extension of {} names no format; give --format {formats}", path.display())]
pub(crate) struct UnknownFormat {
    path: PathBuf,
    formats: Formats,
}

impl Fails for UnknownFormat {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

/// Returns a parser of the names of `formats`. Its error lists them.
pub(crate) fn named(
    formats: Formats,
) -> impl Fn(&str) -> Result<Format, String> + Clone + Send + Sync + 'static {
    move |text| {
        let format = text.parse().ok().filter(|format| formats.0.contains(format));
        format.ok_or_else(|| format!("no such format; give {formats}"))
    }
}

/// Returns the requested format, or infers it from the path. Errors list `formats`.
pub(crate) fn format_of(
    asked: Option<Format>,
    path: &Path,
    formats: Formats,
) -> Result<Format, UnknownFormat> {
    asked
        .or_else(|| Format::of_path(path))
        .ok_or_else(|| UnknownFormat { path: path.to_owned(), formats })
}
