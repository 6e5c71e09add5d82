//! How a ring is followed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::followed::Keep;
use crate::layout::{BATCH_BYTES, FILE_BYTES};

/// What is done by itself to have a ring on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing.
    #[default]
    Off,
    /// A snapshot every so often, of which the newest few are kept.
    Periodic,
    /// Each lane is followed: at most the newest rows are not on disk. A writer that is faster than
    /// the disk laps rows that were not copied yet; they are counted.
    Continuous,
    /// The same, and no row is lapped: a writer that comes up to a row that is not on disk yet does
    /// what the ring's lane policy says about a lease.
    Block,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Periodic, Self::Continuous, Self::Block];

    /// `"off"`, `"periodic"`, `"continuous"` or `"block"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Periodic => "periodic",
            Self::Continuous => "continuous",
            Self::Block => "block",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`Mode`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("persist mode is `{0}`; use \"off\", \"periodic\", \"continuous\" or \"block\"")]
pub struct BadMode(pub String);

impl FromStr for Mode {
    type Err = BadMode;

    fn from_str(text: &str) -> Result<Self, BadMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| BadMode(text.to_owned()))
    }
}

/// How a ring is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowOptions {
    /// What is done.
    pub mode: Mode,
    /// Between two periodic snapshots.
    pub every: Duration,
    /// Periodic snapshots that are kept.
    pub newest: usize,
    /// A row is on disk after so long, even if few others are to go with it.
    pub flush: Duration,
    /// How long rows stay on disk that the ring does not keep any more.
    pub keep: Keep,
    /// Bytes of a batch, about.
    pub batch_bytes: u64,
    /// Bytes of a file, about.
    pub file_bytes: u64,
}

impl Default for FollowOptions {
    /// Continuous, with rows on disk after two seconds; or a snapshot every ten minutes, of which
    /// three are kept.
    fn default() -> Self {
        Self {
            mode: Mode::Continuous,
            every: Duration::from_secs(600),
            newest: 3,
            flush: Duration::from_secs(2),
            keep: Keep::default(),
            batch_bytes: BATCH_BYTES,
            file_bytes: FILE_BYTES,
        }
    }
}
