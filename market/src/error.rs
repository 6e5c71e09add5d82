//! Errors of loading, sharing, attaching and reading panels.
#![expect(missing_docs, reason = "the messages show the fields")]

use std::{
    io,
    path::{Path, PathBuf},
};

use backcast_layout::{IoCause, SegmentError};
use thiserror::Error;

use crate::{calendar::Calendar, load_error::PanelLoadError};

/// Text that names no day or instant of a panel's calendar.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{when:?} is no {}",
    match calendar {
        Calendar::Days => "day; give a date, 2024-01-02",
        Calendar::Bars => {
            "instant of a panel of bars; give a date, or a time with its offset, \
             2024-01-02T14:30:00Z"
        }
    }
)]
pub struct LookupError {
    pub when: String,
    /// Labels of the panel's rows.
    pub calendar: Calendar,
}

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
        source: io::Error,
    },
    /// The path is a folder instead of a file.
    #[error(
        "{} is a folder, and a panel is loaded from one file; write its parts as one first, or \
         load them as record batches, in Python with \
         Panel.from_frame(pyarrow.dataset.dataset(folder, partitioning=\"hive\"))",
        path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The reader passed to `from_reader` failed.
    #[error("cannot read the stream: {source}")]
    Stream { source: io::Error },
    /// A file that cannot be loaded as a panel.
    #[error("{}{problem}", prefix(path.as_deref()))]
    Load {
        /// The file; `None` for a stream.
        path: Option<PathBuf>,
        problem: Box<PanelLoadError>,
    },
    /// A segment whose description does not describe a panel.
    #[error("panel {name:?} is damaged: {problem}; remove it and load it again")]
    Damaged { name: String, problem: String },
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
    BadDay { position: usize, day: i64, last: usize },
    /// A token that names no ticker of this panel.
    #[error(
        "tokens[{position}] is {token}, but the panel has tokens 0 (<CASH>) to {last}; `tokens` \
         of this panel gives them by name"
    )]
    BadToken { position: usize, token: i64, last: usize },
    /// A slice of the wrong length.
    #[error("`{what}` holds {found} elements, but must hold {expected} for the shape {shape:?}")]
    BadLength { what: &'static str, shape: Vec<usize>, expected: usize, found: usize },
    /// A window that is many times longer than the panel.
    #[error(
        "`{what}` is {days} days, of a panel that has {panel_days}; give at most {limit}: what \
         lies beyond the \
         panel is masked"
    )]
    TooLong { what: &'static str, days: usize, panel_days: usize, limit: usize },
    /// Windows larger than the address space.
    #[error(
        "{batch} samples x {tokens} tokens x {days} days x {columns} columns cannot be addressed; \
         ask for shorter windows or smaller batches"
    )]
    TooLarge { batch: usize, tokens: usize, days: usize, columns: usize },
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
