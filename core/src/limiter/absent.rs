//! Behaviour of one side of a limiter while the other side has no live process.

use crate::variant_words::variant_words;

/// Behaviour of a writer that the limiter stops while no sampler is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NoLearner {
    /// The writer waits, and reports the wait after 10 s. The default.
    #[default]
    Wait,
    /// The writer appends as if the limiter allowed it.
    Pass,
    /// The append fails.
    Error,
}

variant_words! {
    /// Returns `"wait"`, `"pass"` or `"error"`.
    NoLearner { Wait = "wait", Pass = "pass", Error = "error" }

    /// A word that does not name a [`NoLearner`].
    #[error("no_learner is `{0}`; use \"wait\", \"pass\" or \"error\"")]
    BadNoLearner(pub String)
}

/// Behaviour of a draw that the limiter stops while no writer is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NoWriter {
    /// The draw waits, and reports the wait after 10 s. The default.
    #[default]
    Wait,
    /// The draw takes what the ring has, as if the limiter allowed it.
    Pass,
    /// The draw fails.
    Error,
}

variant_words! {
    /// Returns `"wait"`, `"pass"` or `"error"`.
    NoWriter { Wait = "wait", Pass = "pass", Error = "error" }

    /// A word that does not name a [`NoWriter`].
    #[error("no_writer is `{0}`; use \"wait\", \"pass\" or \"error\"")]
    BadNoWriter(pub String)
}
