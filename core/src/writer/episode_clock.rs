//! The life of an episode on a lane: which rows an append makes, and what their flags say.
//!
//! An episode of n transitions takes n + 1 rows in every autoreset mode; the last is FINAL.

use crate::autoreset::AutoresetMode;
use crate::episode::{FINAL, GAP, TERMINATED, TRUNCATED};
use crate::row_header::RowHeader;

/// Where a lane stands between two appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The next row begins an episode.
    Start,
    /// The next row continues one.
    Running,
    /// The next row is the FINAL row of an episode that ended (next-step mode only).
    Ended,
    /// The same, and the row that ended it was dropped: the final observation has nothing to end.
    Orphaned,
}

/// The built-in columns of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowMarks {
    pub(crate) episode: u64,
    pub(crate) t: u32,
    pub(crate) flags: u32,
}

impl RowMarks {
    /// What row `seq` says of itself.
    #[inline]
    pub(crate) fn at(self, seq: u64) -> RowHeader {
        let Self { episode, t, flags } = self;
        RowHeader { seq, episode, t, flags }
    }
}

/// The rows that one append makes on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The transition's row.
    Step(RowMarks),
    /// The transition's row and the FINAL row after it.
    StepAndFinal(RowMarks, RowMarks),
    /// The observation of this append is the final one; the rest is dropped.
    Final(RowMarks),
    /// The observation of this append is the final one of rows that were dropped: nothing is
    /// written.
    Nothing,
}

impl Rows {
    pub(crate) fn count(self) -> u64 {
        match self {
            Rows::Step(_) | Rows::Final(_) => 1,
            Rows::StepAndFinal(..) => 2,
            Rows::Nothing => 0,
        }
    }
}

/// An episode's counters on one lane. Copied, asked and put back, so that an append that fails
/// changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpisodeClock {
    phase: Phase,
    /// Of the next row to begin, once it begins.
    episode: u64,
    t: u32,
    gap: bool,
}

impl EpisodeClock {
    /// A lane nobody has written yet.
    pub(crate) fn fresh() -> Self {
        Self { phase: Phase::Start, episode: 0, t: 0, gap: false }
    }

    /// A lane whose last writer left it in `last` episode: a new one begins, after a gap.
    pub(crate) fn after(last: u64) -> Self {
        Self { phase: Phase::Start, episode: last.wrapping_add(1), t: 0, gap: true }
    }

    /// The caller began a new episode without ending the one before.
    pub(crate) fn restart(&mut self) {
        match self.phase {
            Phase::Start => {}
            // Its number is the next episode's already.
            Phase::Orphaned => self.phase = Phase::Start,
            Phase::Running | Phase::Ended => *self = Self::after(self.episode),
        }
    }

    /// The clock when the rows that [`advance`](Self::advance) planned, with `planned` after them,
    /// are dropped: what comes next does not continue what came before.
    pub(crate) fn without(self, planned: Self) -> Self {
        let episode = match self.phase {
            // Nothing of this episode was published: its number is still to be used, so that
            // episodes are counted without holes.
            Phase::Start | Phase::Orphaned => self.episode,
            Phase::Running | Phase::Ended => self.episode.wrapping_add(1),
        };
        let orphaned = planned.phase == Phase::Ended;
        let phase = if orphaned { Phase::Orphaned } else { Phase::Start };
        Self { phase, episode, t: 0, gap: true }
    }

    /// Returns the FINAL row that ends the episode in its middle, and the clock after it: the next row
    /// begins another episode, after a gap.
    pub(crate) fn cut(self) -> (RowMarks, Self) {
        let last = RowMarks { episode: self.episode, t: self.t, flags: FINAL };
        (last, Self::after(self.episode))
    }

    /// The same, or the FINAL row that an ended episode waits for.
    pub(crate) fn finish(self) -> (RowMarks, Self) {
        let (last, after) = self.cut();
        (last, if self.is_ended() { self.next_episode() } else { after })
    }

    /// Whether the next append brings the FINAL row of an episode that ended.
    pub(crate) fn is_ended(self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether the next append is taken as a final observation.
    #[inline]
    pub(crate) fn awaits_final(self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Orphaned)
    }

    /// The row of a step that ends no episode, where [`awaits_final`](Self::awaits_final) is `false`:
    /// what [`advance`](Self::advance) makes of most steps, without a copy.
    #[inline]
    pub(crate) fn step(&mut self) -> RowMarks {
        let flags = if std::mem::take(&mut self.gap) { GAP } else { 0 };
        let marks = RowMarks { episode: self.episode, t: self.t, flags };
        self.t = self.t.saturating_add(1);
        self.phase = Phase::Running;
        marks
    }

    /// The rows of the next append, and the clock after it.
    pub(crate) fn advance(
        mut self,
        mode: AutoresetMode,
        terminated: bool,
        truncated: bool,
    ) -> (Rows, Self) {
        let last = |clock: &Self| RowMarks { episode: clock.episode, t: clock.t, flags: FINAL };
        if self.phase == Phase::Ended {
            let rows = Rows::Final(last(&self));
            return (rows, self.next_episode());
        }
        if self.phase == Phase::Orphaned {
            return (Rows::Nothing, Self { phase: Phase::Start, ..self });
        }
        let mut step = self.step();
        step.flags |= (u32::from(terminated) * TERMINATED) | (u32::from(truncated) * TRUNCATED);
        if !(terminated || truncated) {
            return (Rows::Step(step), self);
        }
        if mode == AutoresetMode::NextStep {
            self.phase = Phase::Ended;
            return (Rows::Step(step), self);
        }
        (Rows::StepAndFinal(step, last(&self)), self.next_episode())
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
                Rows::Step(a) | Rows::Final(a) => written.push(a),
                Rows::StepAndFinal(a, b) => written.extend([a, b]),
                Rows::Nothing => {}
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
        // Next-step: the append after an end is the FINAL row, whatever its flags.
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
                Rows::Step(a) | Rows::Final(a) => written.push(a),
                Rows::StepAndFinal(a, b) => written.extend([a, b]),
                Rows::Nothing => {}
            }
        }
        written.into_iter().map(|m| (m.episode, m.t, m.flags)).collect()
    }

    #[test]
    fn what_follows_a_dropped_row_is_a_gap_and_no_final_row_stands_alone() {
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
        // The FINAL row alone: the transition before it has lost its successor.
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
        assert_eq!(rows, Rows::Step(RowMarks { episode: 1, t: 0, flags: GAP }));
        let (rows, _) = clock.advance(AutoresetMode::NextStep, false, false);
        assert_eq!(rows, Rows::Step(RowMarks { episode: 1, t: 1, flags: 0 }));
    }
}
