//! Turns steps into the bytes of rows.
//!
//! `append`, `extend`, `reserve` and `finish` describe their steps. [`reset_policy`] decides what
//! they become, the writer makes room for the plans, and `write` writes them. Most steps continue
//! every lane: `fast` writes those without a plan. Tests compare both paths with each other and
//! with a separate model.

mod episode_clock;
mod fast;
pub(super) mod kept;
mod reset_policy;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use self::episode_clock::EpisodeClock;
pub(super) use self::reset_policy::{Continuation, MAX_ROWS};
pub(crate) use self::reset_policy::{LanePlan, LaneState, LaneStep};
use crate::autoreset::AutoresetMode;
use crate::row_flags::{TERMINATED, TRUNCATED};

/// Returns the flags of a row whose action ended the episode, or 0.
pub(super) fn end_flags(terminated: bool, truncated: bool) -> u32 {
    (u32::from(terminated) * TERMINATED) | (u32::from(truncated) * TRUNCATED)
}

/// Observations that are given with a step. One slice per column of role obs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenObs<'a> {
    /// Observations that the step led to.
    pub(super) next: Option<&'a [&'a [u8]]>,
    /// Observations of the FINAL rows of episodes that the step ends.
    pub(super) last: Option<&'a [&'a [u8]]>,
}

impl<'a> GivenObs<'a> {
    /// Returns the observations of a step by `next_obs` and `final_obs`. In disabled mode
    /// `next_obs` stands in for a missing `final_obs`. In same-step mode it is the observation of
    /// the reset.
    pub(super) fn of(
        mode: AutoresetMode,
        next: Option<&'a [&'a [u8]]>,
        last: Option<&'a [&'a [u8]]>,
    ) -> Self {
        Self { next, last: last.or(next.filter(|_| mode == AutoresetMode::Disabled)) }
    }
}
