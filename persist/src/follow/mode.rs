//! Modes and options of following.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::followed::Keep;
use crate::layout::{BATCH_BYTES, FILE_BYTES};

/// Mode of the automatic persistence of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PersistMode {
    /// No automatic persistence. The default.
    #[default]
    Off,
    /// Periodic snapshots, of which the newest are kept.
    Periodic,
    /// Every lane is followed, so that only the newest rows are not on disk. A writer that is
    /// faster than the disk laps rows; they are counted.
    Continuous,
    /// Saves continuously without lapped rows: a writer treats rows that are not on disk like
    /// leased ones, by the ring's lane policy.
    Block,
}

impl PersistMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Off, Self::Periodic, Self::Continuous, Self::Block];

    /// Returns `"off"`, `"periodic"`, `"continuous"` or `"block"`.
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

impl fmt::Display for PersistMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`PersistMode`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("persist mode is `{0}`; use \"off\", \"periodic\", \"continuous\" or \"block\"")]
pub struct BadPersistMode(pub String);

impl FromStr for PersistMode {
    type Err = BadPersistMode;

    fn from_str(text: &str) -> Result<Self, BadPersistMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| BadPersistMode(text.to_owned()))
    }
}

/// Options of following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowOptions {
    /// Mode of the persistence.
    pub mode: PersistMode,
    /// Time between two periodic snapshots.
    pub every: Duration,
    /// Periodic snapshots to keep.
    pub newest: usize,
    /// Maximum time until a step writes a published row, in continuous and block mode.
    pub flush: Duration,
    /// Limits of rows kept on disk after the ring has overwritten them.
    pub keep: Keep,
    /// Approximate bytes of a batch.
    pub batch_bytes: u64,
    /// Approximate bytes of a file.
    pub file_bytes: u64,
}

impl Default for FollowOptions {
    /// Returns options for continuous mode, with rows on disk after two seconds. In periodic mode
    /// they save every ten minutes and keep three snapshots.
    fn default() -> Self {
        Self {
            mode: PersistMode::Continuous,
            every: Duration::from_secs(600),
            newest: 3,
            flush: Duration::from_secs(2),
            keep: Keep::default(),
            batch_bytes: BATCH_BYTES,
            file_bytes: FILE_BYTES,
        }
    }
}
