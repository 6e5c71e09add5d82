//! `--format` of exports and imports.

use std::path::{Path, PathBuf};

use backcast_exchange::Format;
use thiserror::Error;

use crate::cli::exit_status::{Exit, Fails};

/// Error of a path whose extension names no format.
#[derive(Debug, Error)]
#[error("the extension of {} names no format; give --format {formats}", path.display())]
pub(crate) struct UnknownFormat {
    path: PathBuf,
    formats: &'static str,
}

impl Fails for UnknownFormat {
    fn exit(&self) -> Exit {
        Exit::WrongUsage
    }
}

/// Returns a parser of format names. Its error lists `formats`.
pub(crate) fn named(
    formats: &'static str,
) -> impl Fn(&str) -> Result<Format, String> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_err(|_| format!("no such format; give {formats}"))
}

/// Returns the requested format, or infers it from the path. Errors list `formats`.
pub(crate) fn format_of(
    asked: Option<Format>,
    path: &Path,
    formats: &'static str,
) -> Result<Format, UnknownFormat> {
    asked
        .or_else(|| Format::of_path(path))
        .ok_or_else(|| UnknownFormat { path: path.to_owned(), formats })
}
