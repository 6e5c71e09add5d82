//! Treatment of windows that reach beyond their episode: masked, rejected or clamped. `window` finds
//! where a window ends, `selection::windows` rejects, and `gather` masks and repeats.

use crate::variant_words::variant_words;

/// Treatment of windows that reach beyond the first or last transition of their episode.
///
/// The newest published row and the last row before a GAP count as ends too. So does the oldest row
/// kept, except for [`Clamp`](Boundary::Clamp), which would repeat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Boundary {
    /// Every transition may be drawn. Places beyond the ends have a false mask, and are zero,
    /// except for two that [`copy`](crate::SamplerOptions::copy) describes. The default.
    #[default]
    Mask,
    /// Only transitions whose whole history and future lie in the episode are drawn; every mask is
    /// true.
    Reject,
    /// In observation columns, places before the first transition of an episode repeat its
    /// observation, as frame stacks do. Places after the last one repeat the observation that
    /// followed it. Step columns are zero there, and the mask is false. Transitions with a partly
    /// overwritten history are not drawn: the oldest row kept is not the first of its episode.
    Clamp,
}

variant_words! {
    /// Returns `"mask"`, `"reject"` or `"clamp"`.
    Boundary { Mask = "mask", Reject = "reject", Clamp = "clamp" }

    /// A word that names no [`Boundary`].
    #[error("boundary is `{0}`; use \"mask\", \"reject\" or \"clamp\"")]
    BadBoundary(pub String)
}
