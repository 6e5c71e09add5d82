//! Treatment of windows that reach beyond their episode: masked, rejected or clamped.
//!
//! `window` finds where a window ends, `selection::windows` rejects windows, and `gather` masks
//! places and repeats observations.

use crate::variant_words::variant_words;

/// Treatment of windows that reach beyond the first or last transition of their episode.
///
/// The newest published row and the last row before a GAP count as ends too. So does the oldest row
/// kept, except with [`Clamp`](Boundary::Clamp), which draws no window that reaches beyond it.
/// [`Sequence`](crate::Sequence) says what each treatment does to sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Boundary {
    /// The default: draws windows that reach beyond the ends too. Places beyond the ends have a
    /// false mask, and are zero, except for two that [`copy`](crate::SamplerOptions::copy)
    /// describes.
    #[default]
    Mask,
    /// Only transitions whose whole history and future lie in the episode are drawn; every mask is
    /// true.
    Reject,
    /// In observation columns, places before the first transition of an episode repeat the first
    /// observation, as frame stacks do. Places after the last transition repeat the observation
    /// that follows it. Step columns are zero there, and the mask is false. Transitions with a
    /// partly overwritten history are not drawn, because the first observation is gone.
    Clamp,
}

variant_words! {
    /// Returns `"mask"`, `"reject"` or `"clamp"`.
    Boundary { Mask = "mask", Reject = "reject", Clamp = "clamp" }

    /// A word that names no [`Boundary`].
    #[error("boundary is `{0}`; use \"mask\", \"reject\" or \"clamp\"")]
    BadBoundary(pub String)
}
