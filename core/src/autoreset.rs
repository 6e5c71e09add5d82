//! Autoreset modes: when an environment resets after an end.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// When a vector environment resets a sub-environment that ended.
///
/// The three modes of Gymnasium's vector environments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AutoresetMode {
    /// In the step after: that step's action is ignored, and the append of the observation it
    /// began with is the FINAL row.
    #[default]
    NextStep,
    /// In the same step: the returned observation is the first of the next episode, and the final
    /// one is handed over beside it.
    SameStep,
    /// Never: the caller resets.
    Disabled,
}

impl AutoresetMode {
    /// `"next_step"`, `"same_step"` or `"disabled"`.
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
