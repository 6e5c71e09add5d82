//! Autoreset modes: the step in which an environment resets after an end. The reset policy of a
//! writer, `writer::rows::reset_policy`, decides which rows each mode makes of an end.

use crate::variant_words::variant_words;

/// Step in which a vector environment resets a sub-environment that ended.
///
/// These are the three modes of Gymnasium's vector environments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum AutoresetMode {
    /// Resets in the step after the end. That step ignores its action. Its append writes the FINAL
    /// row, from the last observation of the episode. The default of this type, but not of a
    /// writer.
    #[default]
    NextStep,
    /// Resets in the same step. The returned observation is the first of the next episode, and the
    /// final one is given separately.
    SameStep,
    /// Never resets: the caller does.
    Disabled,
}

variant_words! {
    /// Returns `"next_step"`, `"same_step"` or `"disabled"`.
    AutoresetMode { NextStep = "next_step", SameStep = "same_step", Disabled = "disabled" }

    /// A word that names no [`AutoresetMode`].
    #[error("autoreset_mode is `{0}`; use \"next_step\", \"same_step\" or \"disabled\"")]
    BadAutoresetMode(pub String)
}
