//! Errors of loading, sharing, attaching and reading panels.

use std::{
    io,
    path::{Path, PathBuf},
};

use backcast_layout::{IoCause, SegmentError};
use thiserror::Error;

use crate::load_error::PanelLoadError;

/// Error of loading, sharing or attaching a panel.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PanelError {
    /// The file cannot be opened or read.
    #[error(
        "cannot read {}: {source}; {}",
        path.display(),
        IoCause::of(source).remedy_or("check the path")
    )]
    Read {
        /// The requested file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The path is a folder instead of a file.
    #[error(
        "{} is a folder, and a panel is loaded from one file; write its parts as one first, in \
         pandas with \
         pd.read_parquet(folder).to_parquet(\"prices.parquet\")",
        path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The reader passed to `from_reader` failed.
    #[error("cannot read the stream: {source}")]
    Stream {
        /// Error of the reader.
        source: io::Error,
    },
    /// A file that cannot be loaded as a panel.
    #[error("{}{problem}", prefix(path.as_deref()))]
    Load {
        /// The file; `None` for a stream.
        path: Option<PathBuf>,
        /// Problem, and where in the file it is.
        problem: Box<PanelLoadError>,
    },
    /// A segment whose description does not describe a panel.
    #[error("panel {name:?} is damaged: {problem}; remove it and load it again")]
    Damaged {
        /// The panel's name; empty for one in private memory.
        name: String,
        /// Problem.
        problem: String,
    },
    /// Error of the panel's segment.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// Error of refused windows of a panel. Nothing was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowError {
    /// A day that the panel does not have.
    #[error(
        "days[{position}] is {day}, but the panel has days 0 to {last}; windows may reach beyond \
         its \
         edges, their own day may not"
    )]
    BadDay {
        /// Position in `days`.
        position: usize,
        /// The requested day.
        day: i64,
        /// The panel's last day.
        last: usize,
    },
    /// A token that names no ticker of this panel.
    #[error(
        "tokens[{position}] is {token}, but the panel has tokens 0 (<CASH>) to {last}; `tokens` \
         of this panel gives them by name"
    )]
    BadToken {
        /// Position in `tokens`.
        position: usize,
        /// The requested token.
        token: i64,
        /// The panel's last token.
        last: usize,
    },
    /// A slice of the wrong length.
    #[error("`{what}` holds {found} elements, but must hold {expected} for the shape {shape:?}")]
    BadLength {
        /// Name of the argument.
        what: &'static str,
        /// Shape of the argument.
        shape: Vec<usize>,
        /// Number of elements of that shape.
        expected: usize,
        /// Number of elements given.
        found: usize,
    },
    /// A window that is many times longer than the panel.
    #[error(
        "`{what}` is {days} days, of a panel that has {panel_days}; give at most {limit}: what \
         lies beyond the \
         panel is masked"
    )]
    TooLong {
        /// Name of the argument.
        what: &'static str,
        /// Requested number of days.
        days: usize,
        /// Number of days of the panel.
        panel_days: usize,
        /// Maximum number of days.
        limit: usize,
    },
    /// Windows larger than the address space.
    #[error(
        "{batch} samples x {tokens} tokens x {days} days x {columns} columns cannot be addressed; \
         ask for shorter windows or smaller batches"
    )]
    TooLarge {
        /// Samples, `B`.
        batch: usize,
        /// Tokens per sample, `T`.
        tokens: usize,
        /// Days of a window: history, the day itself and the future; saturating.
        days: usize,
        /// Columns of the panel, `C`.
        columns: usize,
    },
}

impl PanelError {
    /// Returns the error for a path that cannot be read, or is a folder.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if path.is_dir() { Self::Folder { path } } else { Self::Read { path, source } }
    }
}

fn prefix(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!("{}: ", path.display()))
}
