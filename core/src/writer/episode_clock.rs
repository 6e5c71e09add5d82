//! Episodes on a lane: the rows that an append makes, and their flags.
//!
//! An episode of n transitions takes n + 1 rows in every autoreset mode; the last is FINAL.

use crate::autoreset::AutoresetMode;
use crate::row_flags::{FINAL, GAP, TERMINATED, TRUNCATED};
use crate::row_header::RowHeader;

/// State of a lane between two appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The next row begins an episode.
    Start,
    /// The next row continues one.
    Running,
    /// The next row is the FINAL row of an episode that ended (next-step mode only).
    Ended,
    /// The next row is the FINAL row of an ended episode whose last row was dropped: it has nothing
    /// to end.
    Orphaned,
}

/// Built-in columns of one row, without its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderFields {
    pub(crate) episode: u64,
    pub(crate) t: u32,
    pub(crate) flags: u32,
}

impl HeaderFields {
    /// Returns the header of row `seq`.
    #[inline]
    pub(crate) fn at(self, seq: u64) -> RowHeader {
        let Self { episode, t, flags } = self;
        RowHeader { seq, episode, t, flags }
    }
}

/// Rows that one append makes on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendedRows {
    /// The transition's row.
    Step(HeaderFields),
    /// The transition's row and the FINAL row after it.
    StepAndFinal(HeaderFields, HeaderFields),
    /// The observation of this append is the final one; its other columns are dropped.
    Final(HeaderFields),
    /// The observation of this append is the final one of dropped rows: nothing is written.
    Nothing,
}

impl AppendedRows {
    pub(crate) fn count(self) -> u64 {
        match self {
            AppendedRows::Step(_) | AppendedRows::Final(_) => 1,
            AppendedRows::StepAndFinal(..) => 2,
            AppendedRows::Nothing => 0,
        }
    }
}

/// Counters of an episode on one lane. Copied, advanced and put back, so that an append that fails
/// changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpisodeClock {
    phase: Phase,
    /// Number of the current episode, or of the next one between two.
    episode: u64,
    t: u32,
    gap: bool,
}

impl EpisodeClock {
    /// Returns the clock of a lane without rows.
    pub(crate) fn fresh() -> Self {
        Self { phase: Phase::Start, episode: 0, t: 0, gap: false }
    }

    /// Returns the clock of a lane whose last writer left it in episode `last`: a new episode
    /// begins, after a gap.
    pub(crate) fn after(last: u64) -> Self {
        Self { phase: Phase::Start, episode: last.wrapping_add(1), t: 0, gap: true }
    }

    /// Begins a new episode without an end of the one before.
    pub(crate) fn restart(&mut self) {
        match self.phase {
            Phase::Start => {}
            // Its number is already that of the next episode.
            Phase::Orphaned => self.phase = Phase::Start,
            Phase::Running | Phase::Ended => *self = Self::after(self.episode),
        }
    }

    /// Returns the clock after dropping the rows that [`advance`](Self::advance) planned, with
    /// `planned` as the clock after them. The next row does not continue the rows before.
    pub(crate) fn without(self, planned: Self) -> Self {
        let episode = match self.phase {
            // No row of this episode was published: its number is used again, so that episodes are
            // counted without holes.
            Phase::Start | Phase::Orphaned => self.episode,
            Phase::Running | Phase::Ended => self.episode.wrapping_add(1),
        };
        let orphaned = planned.phase == Phase::Ended;
        let phase = if orphaned { Phase::Orphaned } else { Phase::Start };
        Self { phase, episode, t: 0, gap: true }
    }

    /// Returns the FINAL row that cuts the episode, and the clock after it: the next row begins
    /// another episode, after a gap.
    pub(crate) fn cut(self) -> (HeaderFields, Self) {
        let last = HeaderFields { episode: self.episode, t: self.t, flags: FINAL };
        (last, Self::after(self.episode))
    }

    /// Returns the FINAL row that cuts the episode, or that an ended episode waits for, and the
    /// clock after it.
    pub(crate) fn finish(self) -> (HeaderFields, Self) {
        let (last, after) = self.cut();
        (last, if self.is_ended() { self.next_episode() } else { after })
    }

    /// Returns whether the next row continues an episode, and so completes a transition.
    pub(crate) fn has_begun(self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Ended)
    }

    /// Returns the episodes that have begun on the lane.
    pub(crate) fn begun(self) -> u64 {
        self.episode.wrapping_add(self.has_begun().into())
    }

    /// Returns whether the next append brings the FINAL row of an episode that ended.
    pub(crate) fn is_ended(self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns whether the next append is taken as a final observation.
    #[inline]
    pub(crate) fn awaits_final(self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Orphaned)
    }

    /// Returns the row of a step that ends no episode, if [`awaits_final`](Self::awaits_final) is
    /// `false`. The result of [`advance`](Self::advance) for most steps, without a copy.
    #[inline]
    pub(crate) fn step(&mut self) -> HeaderFields {
        let flags = if std::mem::take(&mut self.gap) { GAP } else { 0 };
        let marks = HeaderFields { episode: self.episode, t: self.t, flags };
        self.t = self.t.saturating_add(1);
        self.phase = Phase::Running;
        marks
    }

    /// Returns the rows of the next append, and the clock after it.
    pub(crate) fn advance(
        mut self,
        mode: AutoresetMode,
        terminated: bool,
        truncated: bool,
    ) -> (AppendedRows, Self) {
        let last = |clock: &Self| HeaderFields { episode: clock.episode, t: clock.t, flags: FINAL };
        if self.phase == Phase::Ended {
            let rows = AppendedRows::Final(last(&self));
            return (rows, self.next_episode());
        }
        if self.phase == Phase::Orphaned {
            return (AppendedRows::Nothing, Self { phase: Phase::Start, ..self });
        }
        let mut step = self.step();
        step.flags |= (u32::from(terminated) * TERMINATED) | (u32::from(truncated) * TRUNCATED);
        if !(terminated || truncated) {
            return (AppendedRows::Step(step), self);
        }
        if mode == AutoresetMode::NextStep {
            self.phase = Phase::Ended;
            return (AppendedRows::Step(step), self);
        }
        (AppendedRows::StepAndFinal(step, last(&self)), self.next_episode())
    }

    fn next_episode(self) -> Self {
        Self { phase: Phase::Start, episode: self.episode.wrapping_add(1), t: 0, gap: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(mode: AutoresetMode, ends: &[bool]) -> Vec<(u64, u32, u32)> {
        let mut clock = EpisodeClock::fresh();
        let mut written = Vec::new();
        for end in ends {
            let (rows, next) = clock.advance(mode, *end, false);
            clock = next;
            match rows {
                AppendedRows::Step(a) | AppendedRows::Final(a) => written.push(a),
                AppendedRows::StepAndFinal(a, b) => written.extend([a, b]),
                AppendedRows::Nothing => {}
            }
        }
        written.into_iter().map(|m| (m.episode, m.t, m.flags)).collect()
    }

    #[test]
    fn an_episode_takes_the_same_rows_in_every_mode() {
        let expected = [
            (0, 0, 0),
            (0, 1, TERMINATED),
            (0, 2, FINAL),
            (1, 0, TERMINATED),
            (1, 1, FINAL),
            (2, 0, 0),
        ];
        // Next-step: the append after an end is the FINAL row, with any flags.
        assert_eq!(
            play(AutoresetMode::NextStep, &[false, true, false, true, false, false]),
            expected
        );
        for mode in [AutoresetMode::SameStep, AutoresetMode::Disabled] {
            assert_eq!(play(mode, &[false, true, true, false]), expected);
        }
    }

    /// Plays an episode of three steps and the beginning of the next, dropping append `lost`.
    fn play_without(mode: AutoresetMode, lost: usize) -> Vec<(u64, u32, u32)> {
        let mut clock = EpisodeClock::fresh();
        let mut written = Vec::new();
        let ends = [false, false, true].into_iter();
        let reset = (mode == AutoresetMode::NextStep).then_some(false);
        for (i, end) in ends.chain(reset).chain([false, false]).enumerate() {
            let (rows, next) = clock.advance(mode, end, false);
            clock = if i == lost { clock.without(next) } else { next };
            match rows {
                _ if i == lost => {}
                AppendedRows::Step(a) | AppendedRows::Final(a) => written.push(a),
                AppendedRows::StepAndFinal(a, b) => written.extend([a, b]),
                AppendedRows::Nothing => {}
            }
        }
        written.into_iter().map(|m| (m.episode, m.t, m.flags)).collect()
    }

    #[test]
    fn a_dropped_row_leaves_a_gap_and_no_lone_final_row() {
        let next = AutoresetMode::NextStep;
        let rest = [(1, 0, 0), (1, 1, 0)];
        let gone = |rows: &[(u64, u32, u32)], rest: &[(u64, u32, u32)]| [rows, rest].concat();
        // The first step: the episode's number is not used up.
        let first = gone(&[(0, 0, GAP), (0, 1, TERMINATED), (0, 2, FINAL)], &rest);
        assert_eq!(play_without(next, 0), first);
        assert_eq!(play_without(AutoresetMode::SameStep, 0), first);
        // One in the middle.
        let middle = [(0, 0, 0), (1, 0, GAP | TERMINATED), (1, 1, FINAL), (2, 0, 0), (2, 1, 0)];
        assert_eq!(play_without(next, 1), middle);
        assert_eq!(play_without(AutoresetMode::SameStep, 1), middle);
        // The end: its final observation goes with it, in one append or in the next.
        let end = [(0, 0, 0), (0, 1, 0), (1, 0, GAP), (1, 1, 0)];
        assert_eq!(play_without(next, 2), end);
        assert_eq!(play_without(AutoresetMode::Disabled, 2), end);
        // Only the FINAL row is dropped: the transition before it has no successor.
        let last = [(0, 0, 0), (0, 1, 0), (0, 2, TERMINATED), (1, 0, GAP), (1, 1, 0)];
        assert_eq!(play_without(next, 3), last);
    }

    #[test]
    fn a_restart_marks_a_gap_and_a_new_episode_once() {
        let mut clock = EpisodeClock::fresh();
        clock.restart();
        assert_eq!(clock, EpisodeClock::fresh(), "nothing was begun");
        let (_, mut clock) = clock.advance(AutoresetMode::NextStep, true, false);
        assert!(clock.awaits_final());
        clock.restart();
        let (rows, clock) = clock.advance(AutoresetMode::NextStep, false, false);
        assert_eq!(rows, AppendedRows::Step(HeaderFields { episode: 1, t: 0, flags: GAP }));
        let (rows, _) = clock.advance(AutoresetMode::NextStep, false, false);
        assert_eq!(rows, AppendedRows::Step(HeaderFields { episode: 1, t: 1, flags: 0 }));
    }
}
