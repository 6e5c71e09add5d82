//! Autoreset modes: the step in which an environment resets after an end. The reset policy of a
//! writer, `writer::rows::reset_policy`, decides which rows each mode makes of an end.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Step in which a vector environment resets a sub-environment that ended.
///
/// These are the three modes of Gymnasium's vector environments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum AutoresetMode {
    /// Resets in the step after the end. That step ignores its action. Its append writes the FINAL
    /// row, from the last observation of the episode.
    #[default]
    NextStep,
    /// Resets in the same step. The returned observation is the first of the next episode, and the
    /// final one is given separately.
    SameStep,
    /// Never resets: the caller does.
    Disabled,
}

impl AutoresetMode {
    /// Returns `"next_step"`, `"same_step"` or `"disabled"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AutoresetMode::NextStep => "next_step",
            AutoresetMode::SameStep => "same_step",
            AutoresetMode::Disabled => "disabled",
        }
    }
}

impl fmt::Display for AutoresetMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`AutoresetMode`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("autoreset_mode is `{0}`; use \"next_step\", \"same_step\" or \"disabled\"")]
pub struct BadAutoresetMode(pub String);

impl FromStr for AutoresetMode {
    type Err = BadAutoresetMode;

    fn from_str(text: &str) -> Result<Self, BadAutoresetMode> {
        [AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| BadAutoresetMode(text.to_owned()))
    }
}
