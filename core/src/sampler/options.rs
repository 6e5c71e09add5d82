//! What a sampler draws: windows, n-step returns, and what happens at the ends of an episode.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What becomes of windows that reach beyond the first or last transition of their episode.
///
/// The newest row published and the last row before a gap count as ends too, and so does the oldest row
/// kept, except where [`Clamp`](Boundary::Clamp) would repeat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// Every transition is drawn; places beyond the ends are zero and their mask is false.
    #[default]
    Mask,
    /// Only transitions whose whole history and whole future lie within are drawn, uniformly over
    /// those; every mask is true.
    Reject,
    /// In observation columns, places before the first transition of an episode repeat its
    /// observation and places after the last one repeat the observation that followed it, as frame
    /// stacks do. Step columns are zero there, and the mask is false. Transitions of which some of the
    /// history was overwritten are not drawn: the oldest row kept is not where its episode begins.
    Clamp,
}

impl Boundary {
    /// `"mask"`, `"reject"` or `"clamp"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Boundary::Mask => "mask",
            Boundary::Reject => "reject",
            Boundary::Clamp => "clamp",
        }
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`Boundary`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("boundary is `{0}`; use \"mask\", \"reject\" or \"clamp\"")]
pub struct BadBoundary(pub String);

impl FromStr for Boundary {
    type Err = BadBoundary;

    fn from_str(text: &str) -> Result<Self, BadBoundary> {
        [Boundary::Mask, Boundary::Reject, Boundary::Clamp]
            .into_iter()
            .find(|boundary| boundary.as_str() == text)
            .ok_or_else(|| BadBoundary(text.to_owned()))
    }
}

/// What a sampler draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerOptions {
    pub(crate) seed: u64,
    /// Drawn before the first: a sampler that goes on begins there.
    pub(crate) batches: u64,
    pub(crate) history: Option<u32>,
    pub(crate) future: u32,
    pub(crate) n_step: Option<u32>,
    pub(crate) gamma: Option<f64>,
    /// Discounts are those of a column.
    pub(crate) discounts: bool,
    pub(crate) boundary: Boundary,
    pub(crate) copy: bool,
}

impl SamplerOptions {
    /// Single transitions; the same seed gives the same draws on the same data.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            batches: 0,
            history: None,
            future: 0,
            n_step: None,
            gamma: None,
            discounts: false,
            boundary: Boundary::Mask,
            copy: false,
        }
    }

    /// Single transitions, seeded by the operating system.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self::seeded(rand::random())
    }

    /// Windows of `h` transitions ending with and including the drawn one: arrays `[B, h, ...]`.
    #[must_use]
    pub fn history(mut self, h: u32) -> Self {
        self.history = Some(h);
        self
    }

    /// Windows of the `f` transitions after the drawn one: `future/...`, arrays `[B, f, ...]`.
    #[must_use]
    pub fn future(mut self, f: u32) -> Self {
        self.future = f;
        self
    }

    /// Adds the discounted return of `n` transitions from the drawn one on: `n_reward` and
    /// `n_discount`, `[B]`, and `n_next_*` of the observation columns, `[B, ...]`. Needs
    /// [`gamma`](Self::gamma), or [discounts](Self::discount_column), and a column `reward`, one `f4` or `f8` a row. Which transitions are
    /// drawn, and all other columns, stay as they are.
    ///
    /// With `k` the transitions used, `k = n` unless the episode, or what is published of it, has
    /// fewer:
    ///
    /// - `n_reward` is `r[t] + gamma r[t+1] + ... + gamma^(k-1) r[t+k-1]`;
    /// - `n_discount` is `gamma^k`, and 0 if transition `t+k-1` terminated;
    /// - `n_next_obs` is the observation after transition `t+k-1`: the final one of an episode
    ///   that ended there, the newest one of an episode that goes on.
    ///
    /// So `n_reward + n_discount * V(n_next_obs)` is the target (Sutton, "Learning to predict by
    /// the methods of temporal differences", Machine Learning 3, 1988; as used in Hessel et al.,
    /// "Rainbow", AAAI 2018, section "Multi-step learning"). Truncated episodes bootstrap from
    /// their final observation, and a return cut short by the newest row, or by a writer that
    /// died, bootstraps from the last observation there is; Rainbow's assumes that `n` follow.
    /// Sums are made in `f64`, oldest first, and rounded once.
    #[must_use]
    pub fn n_step(mut self, n: u32) -> Self {
        self.n_step = Some(n);
        self
    }

    /// Discount per transition of n-step returns, within `0..=1`. No default: a learner's targets
    /// are wrong if it differs from the learner's own.
    #[must_use]
    pub fn gamma(mut self, gamma: f64) -> Self {
        self.gamma = Some(gamma);
        self
    }

    /// Takes the discounts of n-step returns from the column `discount`, one `f4` or `f8` a row, in place of
    /// [`gamma`](Self::gamma): transition `t` discounts what follows it by its own `discount[t]`, as
    /// environments with a discount of their own give it.
    ///
    /// With `d` that column, `n_reward` is `r[t] + d[t] r[t+1] + d[t] d[t+1] r[t+2] + ...`, and `n_discount`
    /// is the product of the discounts of all transitions used, or 0 if the last one terminated.
    #[must_use]
    pub fn discount_column(mut self) -> Self {
        self.discounts = true;
        self
    }

    /// What becomes of windows that reach beyond their episode; masked by default.
    #[must_use]
    pub fn boundary(mut self, boundary: Boundary) -> Self {
        self.boundary = boundary;
        self
    }

    /// Independent arrays instead of overlapping views of one arena.
    #[must_use]
    pub fn copy(mut self, copy: bool) -> Self {
        self.copy = copy;
        self
    }
}
