//! Reset policy of a writer: decides which rows a step becomes, their flags, and the observation
//! that a FINAL row holds.
//!
//! [`LaneState::plan`] is the only place that decides about a step, [`LaneState::finish`] and
//! [`LaneState::restart`] about the end of an episode that no step brings. They are pure functions
//! of the autoreset mode, the state of a lane, and a step.

use super::episode_clock::{EpisodeClock, HeaderFields};
use super::kept::KeptKind;
use crate::autoreset::AutoresetMode;
use crate::writer::warnings::ResetHint;

/// Maximum rows of a step: the FINAL row of an episode that is cut, the step's own, and the FINAL
/// row of the episode that it ends.
pub(in crate::writer) const MAX_ROWS: u64 = 3;

/// State of a lane between two appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneState {
    pub(crate) clock: EpisodeClock,
    /// Meaning of the observation that the lane keeps.
    pub(crate) kept: KeptKind,
}

/// Properties of a step on one lane that decide about its rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneStep {
    /// [`TERMINATED`], [`TRUNCATED`], both, or 0.
    pub(crate) ends: u32,
    /// Whether its observation equals the kept one.
    pub(crate) shows_kept: bool,
    /// Whether it has a reward other than zero. Read only if the lane awaits a FINAL row.
    pub(crate) is_rewarded: bool,
    /// Whether it has a `next_obs`.
    pub(crate) has_next: bool,
}

/// Plan for one lane: the rows to write, oldest first, and the state after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePlan {
    /// FINAL row that holds the kept observation. If the row of a step follows it, the step cuts
    /// the episode.
    pub(in crate::writer) kept_final: Option<HeaderFields>,
    /// Row of the step.
    pub(in crate::writer) row: Option<HeaderFields>,
    /// FINAL row after `row`, which holds the given final observation. If `row` is `None`, it holds
    /// the observation of the step, whose other columns are dropped.
    pub(in crate::writer) last: Option<HeaderFields>,
    pub(crate) after: LaneState,
    /// Hint at a wrong mode.
    pub(in crate::writer) hint: Option<ResetHint>,
    /// Rows of the step that are not written. A lease leaves no room for them, or the step is the
    /// FINAL row of an episode whose end was dropped.
    pub(in crate::writer) dropped: u64,
}

/// Condition under which a step that ends no episode becomes one row, without a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::writer) enum Continuation {
    /// Any step.
    Plain,
    /// A step whose observation equals the kept one.
    IfShown,
    /// None: all need a [plan](LaneState::plan).
    Planned,
}

impl LaneState {
    /// Returns the state of a lane that keeps no observation.
    pub(crate) fn of(clock: EpisodeClock) -> Self {
        Self { clock, kept: KeptKind::Nothing }
    }

    /// Decides which steps the fast path takes.
    #[inline]
    pub(in crate::writer) fn continuation(self) -> Continuation {
        if self.clock.awaits_final() {
            return Continuation::Planned;
        }
        match self.kept {
            KeptKind::Nothing => Continuation::Plain,
            KeptKind::Next => Continuation::IfShown,
            // An equal observation hints at a wrong mode.
            KeptKind::Final => Continuation::Planned,
        }
    }

    /// Plans the rows of a step.
    pub(crate) fn plan(self, mode: AutoresetMode, step: LaneStep) -> LanePlan {
        if self.clock.is_ended() {
            return self.plan_final(step);
        }
        if self.clock.awaits_final() {
            let after = LaneState::of(self.clock.without_final());
            return LanePlan { dropped: 1, ..LanePlan::empty(after) };
        }
        let mut plan = LanePlan::empty(self);
        let LaneState { clock, kept } = &mut plan.after;
        match kept {
            KeptKind::Next if !step.shows_kept => {
                plan.kept_final = Some(clock.final_row());
                *clock = clock.cut();
            }
            KeptKind::Final if step.shows_kept => plan.hint = Some(ResetHint::Repeated),
            _ => {}
        }
        let mut row = clock.step();
        row.flags |= step.ends;
        plan.row = Some(row);
        *kept = if step.has_next { KeptKind::Next } else { KeptKind::Nothing };
        if step.ends != 0 {
            if mode.ends_with_final() {
                plan.last = Some(clock.final_row());
                *clock = clock.next_episode();
                *kept = KeptKind::Final;
            } else {
                *clock = clock.ended();
            }
        }
        plan
    }

    /// Plans the step after an end in next-step mode, which brings the FINAL row.
    fn plan_final(self, step: LaneStep) -> LanePlan {
        let mut plan = self.end(self.clock.next_episode());
        if self.kept == KeptKind::Next && !step.shows_kept {
            plan.hint = Some(ResetHint::Differs);
        } else if step.ends != 0 || step.is_rewarded {
            plan.hint = Some(ResetHint::Acted);
        }
        plan
    }

    /// Plans the end of an episode that no step brings: a `next_obs` that waits for its successor
    /// becomes the FINAL row of its episode.
    pub(in crate::writer) fn finish(self) -> LanePlan {
        if self.kept != KeptKind::Next {
            return LanePlan::empty(self);
        }
        let clock = self.clock;
        self.end(if clock.is_ended() { clock.next_episode() } else { clock.cut() })
    }

    /// Plans a reset in mid-episode: a [`finish`](Self::finish), after which a new episode begins.
    pub(crate) fn restart(self) -> LanePlan {
        let plan = self.finish();
        LanePlan { after: LaneState::of(plan.after.clock.restarted()), ..plan }
    }

    /// Plans the FINAL row of the episode, with `clock` as the clock after it.
    fn end(self, clock: EpisodeClock) -> LanePlan {
        let mut plan = LanePlan::empty(LaneState::of(clock));
        let last = if self.kept == KeptKind::Next { &mut plan.kept_final } else { &mut plan.last };
        *last = Some(self.clock.final_row());
        plan
    }

    /// Returns the maximum number of rows of a step of which nothing is known yet.
    pub(in crate::writer) fn max_rows(self, mode: AutoresetMode) -> u64 {
        let may_cut = self.kept == KeptKind::Next && !self.clock.is_ended();
        1 + u64::from(may_cut) + u64::from(mode.ends_with_final())
    }
}

impl LanePlan {
    /// Returns a plan without rows.
    pub(in crate::writer) fn empty(after: LaneState) -> Self {
        let (kept_final, row, last) = (None, None, None);
        Self { kept_final, row, last, after, hint: None, dropped: 0 }
    }

    /// Returns whether it cuts an episode before the row of the step.
    pub(in crate::writer) fn cuts(&self) -> bool {
        self.kept_final.is_some() && self.row.is_some()
    }

    /// Returns the headers of the rows to write, oldest first.
    pub(crate) fn headers(&self) -> impl Iterator<Item = HeaderFields> {
        [self.kept_final, self.row, self.last].into_iter().flatten()
    }

    /// Returns the number of rows to write.
    pub(in crate::writer) fn count(&self) -> u64 {
        self.headers().count() as u64
    }

    /// Returns the transitions that the rows complete: one for each that begins no episode.
    pub(in crate::writer) fn transitions(&self) -> u64 {
        self.headers().filter(|row| row.t > 0).count() as u64
    }

    /// Returns the plan of a lane whose rows are dropped, since a lease leaves no room for them.
    /// `before` is the state of the lane.
    pub(crate) fn without_rows(self, before: LaneState) -> Self {
        if self.count() == 0 {
            return self;
        }
        let after = LaneState::of(before.clock.without(self.after.clock));
        Self { dropped: self.count(), ..Self::empty(after) }
    }
}

impl AutoresetMode {
    /// Returns whether the step that ends an episode brings its FINAL row too, and may bring final
    /// observations. Otherwise the next step brings that row.
    pub(in crate::writer) fn ends_with_final(self) -> bool {
        self != AutoresetMode::NextStep
    }
}
