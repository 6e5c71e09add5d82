//! Behaviour of one side of a limiter while the other side has no live process.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Behaviour of a writer that the limiter stops while no sampler is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NoLearner {
    /// The writer waits, and reports the wait after 10 s.
    #[default]
    Wait,
    /// The writer appends as if the limiter allowed it.
    Pass,
    /// The append fails.
    Error,
}

impl NoLearner {
    pub(super) const ALL: [NoLearner; 3] = [NoLearner::Wait, NoLearner::Pass, NoLearner::Error];

    /// Returns `"wait"`, `"pass"` or `"error"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            NoLearner::Wait => "wait",
            NoLearner::Pass => "pass",
            NoLearner::Error => "error",
        }
    }
}

impl fmt::Display for NoLearner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that does not name a [`NoLearner`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no_learner is `{0}`; use \"wait\", \"pass\" or \"error\"")]
pub struct BadNoLearner(pub String);

impl FromStr for NoLearner {
    type Err = BadNoLearner;

    fn from_str(text: &str) -> Result<Self, BadNoLearner> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.as_str() == text).ok_or_else(|| BadNoLearner(text.to_owned()))
    }
}

/// Behaviour of a draw that the limiter stops while no writer is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NoWriter {
    /// The draw waits, and reports the wait after 10 s.
    #[default]
    Wait,
    /// The draw takes what the ring has, as if the limiter allowed it.
    Pass,
    /// The draw fails.
    Error,
}

impl NoWriter {
    pub(super) const ALL: [NoWriter; 3] = [NoWriter::Wait, NoWriter::Pass, NoWriter::Error];

    /// Returns `"wait"`, `"pass"` or `"error"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            NoWriter::Wait => "wait",
            NoWriter::Pass => "pass",
            NoWriter::Error => "error",
        }
    }
}

impl fmt::Display for NoWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that does not name a [`NoWriter`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no_writer is `{0}`; use \"wait\", \"pass\" or \"error\"")]
pub struct BadNoWriter(pub String);

impl FromStr for NoWriter {
    type Err = BadNoWriter;

    fn from_str(text: &str) -> Result<Self, BadNoWriter> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.as_str() == text).ok_or_else(|| BadNoWriter(text.to_owned()))
    }
}
