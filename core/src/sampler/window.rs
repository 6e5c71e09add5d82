//! The rules of windows: at which rows transitions start, and which neighbours belong to them.
//!
//! A transition starts at row `t` iff `t` is not FINAL, row `t + 1` is published, and `t + 1` is
//! not GAP. Windows hold transitions of one episode.

use std::ops::Range;

use super::boundary::Boundary;
use crate::row_flags::{FINAL, GAP, transition_starts};
use crate::row_header::RowHeader;

/// Number of transitions that a window may have before and after the drawn one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowExtent {
    /// Transitions before the drawn one: history - 1.
    pub(crate) back: u64,
    /// Transitions after the drawn row: future, or the length of a sequence - 1.
    pub(crate) ahead: u64,
    /// Transitions of an n-step return, the drawn one included; 0 without one.
    pub(crate) steps: u64,
}

impl WindowExtent {
    /// Returns the number of transitions after the drawn one that are inspected.
    pub(crate) fn far(&self) -> u64 {
        self.ahead.max(self.steps.saturating_sub(1))
    }

    /// Returns the number of transitions of an n-step return that is not cut short; 1 without one.
    pub(crate) fn run(&self) -> u64 {
        (self.far() + 1).min(self.steps.max(1))
    }

    /// Returns the readable rows that a window around `seq` may touch.
    pub(crate) fn rows(&self, seq: u64, readable: &Range<u64>) -> Range<u64> {
        let first = seq.saturating_sub(self.back).max(readable.start);
        first..(seq + self.far() + 2).min(readable.end)
    }

    /// Returns the number of rows of a whole window after its first.
    pub(crate) fn after_first(&self) -> u64 {
        self.back + self.far() + 1
    }

    /// Returns the maximum length of the range that [`rows`](Self::rows) returns.
    pub(crate) fn most_rows(&self) -> usize {
        usize::try_from(self.after_first() + 1).unwrap_or(usize::MAX)
    }
}

/// Rule for the transitions of an episode that may be drawn: those whose step is `offset` modulo
/// `stride`, with exceptions at the end of the episode. Outside of sequences, the boundary may
/// refuse further ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartRule {
    stride: u64,
    offset: u64,
    near_end: NearEnd,
}

/// Exceptions from a rule at the end of an episode that terminated, was truncated or was cut. In
/// an episode that goes on there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NearEnd {
    /// No exception: every transition is allowed.
    All,
    /// The transition that has `ahead` others after it in the episode is allowed too, at any step.
    /// Without it, windows that look back would miss the transitions after the last multiple.
    Window {
        /// Transitions after the drawn one.
        ahead: u64,
    },
    /// Whole sequences, and those that reach beyond the end.
    Masked,
    /// Whole sequences alone.
    Whole,
    /// Whole sequences, and the one that ends with the episode. An episode that is shorter than a
    /// sequence has one, which starts at its first transition.
    Moved,
}

impl StartRule {
    /// Rule that allows every transition.
    pub(crate) const ALL: Self = Self { stride: 1, offset: 0, near_end: NearEnd::All };

    /// Returns the rule for windows of `back` transitions before the drawn one and `ahead` after it
    /// that start every `stride` transitions. A stride of 0 counts as 1.
    pub(crate) fn windows(stride: u32, back: u64, ahead: u64) -> Self {
        match u64::from(stride) {
            0 | 1 => Self::ALL,
            stride => Self { stride, offset: back % stride, near_end: NearEnd::Window { ahead } },
        }
    }

    /// Returns the rule for sequences that start every `stride` transitions, at least 1.
    pub(crate) fn sequences(stride: u32, boundary: Boundary) -> Self {
        let near_end = match boundary {
            Boundary::Mask => NearEnd::Masked,
            Boundary::Reject => NearEnd::Whole,
            Boundary::Clamp => NearEnd::Moved,
        };
        Self { stride: u64::from(stride.max(1)), offset: 0, near_end }
    }

    /// Returns whether every transition may be drawn.
    #[inline]
    pub(crate) fn is_all(self) -> bool {
        self.near_end == NearEnd::All
    }

    /// Returns the exceptions at the end of an episode.
    pub(crate) fn near_end(self) -> NearEnd {
        self.near_end
    }

    /// Returns whether the transition at step `t` of its episode may be drawn if its whole window
    /// lies in the episode.
    #[inline]
    pub(crate) fn allows(self, t: u64) -> bool {
        self.stride == 1 || t % self.stride == self.offset
    }

    /// Returns whether rows after the transition at step `t` can allow it.
    pub(crate) fn may_allow(self, t: u64) -> bool {
        matches!(self.near_end, NearEnd::Window { .. } | NearEnd::Moved) || self.allows(t)
    }

    /// Returns how many rows after the last transition of a window decide whether it is allowed:
    /// the successor, and for some rules the row that shows whether the episode is cut there.
    pub(crate) fn rows_after(self) -> u64 {
        match self.near_end {
            NearEnd::All | NearEnd::Masked | NearEnd::Whole => 1,
            NearEnd::Window { .. } | NearEnd::Moved => 2,
        }
    }

    /// Returns whether a window may be drawn. `headers` has one row more than the window, if it is
    /// published.
    pub(crate) fn accepts(
        self,
        window: Window,
        extent: WindowExtent,
        headers: RowHeaders<'_>,
    ) -> bool {
        let step = headers.step(window.seq).map_or(0, u64::from);
        let is_whole = window.ahead == extent.ahead;
        let ends_with_episode = || headers.ends_episode(window.seq + window.ahead);
        match self.near_end {
            NearEnd::All => true,
            NearEnd::Window { ahead } => {
                self.allows(step) || headers.ends_episode(window.seq + ahead)
            }
            NearEnd::Masked => self.allows(step) && (is_whole || ends_with_episode()),
            NearEnd::Whole => self.allows(step) && is_whole,
            NearEnd::Moved if is_whole => self.allows(step) || ends_with_episode(),
            NearEnd::Moved => step == 0 && ends_with_episode(),
        }
    }

    /// Returns the first step that may be drawn wherever the episode ends, and the transitions
    /// until the next one.
    pub(crate) fn parts(self) -> (u64, u64) {
        (self.offset, self.stride)
    }
}

/// Headers of consecutive rows: private copies, to be validated before they are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowHeaders<'a> {
    pub(crate) first: u64,
    pub(crate) rows: &'a [RowHeader],
}

/// The part of a window that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The drawn row.
    pub(crate) seq: u64,
    /// Transitions of the episode before the drawn row, at most the requested history less one.
    pub(crate) back: u64,
    /// Transitions of the episode after the drawn row, at most the requested future.
    pub(crate) ahead: u64,
    /// Transitions of the n-step return, at least the drawn one.
    pub(crate) run: u64,
}

impl Window {
    /// Returns whether a window surely holds no episode boundary, given the header of its last row.
    /// The last row is row `row`, and the window has `before` rows before it.
    ///
    /// The last header suffices, because at least `before` steps of its episode precede it. Only
    /// the first row of an episode can be a GAP, and only the last one FINAL. Only the row before
    /// the FINAL one can end the episode. A GAP on the window's first row cuts nothing off.
    #[inline]
    pub(crate) fn is_interior(last: &RowHeader, row: u64, before: u64) -> bool {
        // Merges three tests into one branch to avoid mispredictions.
        let starts_later = u64::from(u64::from(last.t) < before);
        (last.seq ^ row) | u64::from(last.flags) | starts_later == 0
    }

    /// Returns the whole window around `seq`.
    pub(crate) fn whole(seq: u64, extent: WindowExtent) -> Self {
        Self { seq, back: extent.back, ahead: extent.ahead, run: extent.run() }
    }

    /// Returns whether no transition of the history or the future is missing.
    pub(crate) fn is_whole(&self, extent: WindowExtent) -> bool {
        (self.back, self.ahead) == (extent.back, extent.ahead)
    }

    /// Returns the first row of the window, which is the first to be overwritten.
    pub(crate) fn first(&self) -> u64 {
        self.seq - self.back
    }
}

impl RowHeaders<'_> {
    /// Returns whether all headers have the expected sequence numbers, and the union of all flags.
    /// Headers that were overwritten during the copy, or that a faulty peer wrote, may have other
    /// sequence numbers.
    #[inline]
    pub(crate) fn check(&self) -> (bool, u32) {
        let rows = self.rows.iter().zip(self.first..);
        let (wrong, flags) = rows.fold((0, 0), |(wrong, flags), (row, seq)| {
            (wrong | (row.seq ^ seq), flags | row.flags)
        });
        (wrong == 0, flags)
    }

    /// Returns the window around `seq`, or `None` if no transition starts there. `flags` is the
    /// union of all rows' flags.
    #[inline]
    pub(crate) fn window(&self, seq: u64, extent: WindowExtent, flags: u32) -> Option<Window> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        let (Some(drawn), [first, .., last]) = (self.rows.get(at), self.rows) else { return None };
        // Most windows lie in the middle of an episode.
        let whole = flags & (FINAL | GAP) == 0
            && self.rows.len() == extent.most_rows()
            && u64::from(drawn.t) >= extent.back
            && (first.episode, last.episode) == (drawn.episode, drawn.episode);
        if whole {
            return Some(Window::whole(seq, extent));
        }
        self.cut_window(seq, at, extent)
    }

    fn cut_window(&self, seq: u64, at: usize, extent: WindowExtent) -> Option<Window> {
        let drawn = self.rows.get(at)?;
        if !self.starts_transition(at) {
            return None;
        }
        let back = extent.back.min(u64::from(drawn.t)).min(at as u64);
        let rows = self.rows.iter().enumerate().skip(at + 1);
        let after = (1..=extent.far())
            .zip(rows)
            .take_while(|(_, (at, row))| {
                row.episode == drawn.episode && self.starts_transition(*at)
            })
            .last()
            .map_or(0, |(after, _)| after);
        let run = 1 + after.min(extent.steps.saturating_sub(1));
        Some(Window { seq, back, ahead: after.min(extent.ahead), run })
    }

    /// Returns whether all of a window's history is in the copied rows. Then the window has `back`
    /// transitions before the drawn one, or begins where its episode does.
    pub(crate) fn has_history(&self, window: Window, back: u64) -> bool {
        let at = usize::try_from(window.first().saturating_sub(self.first)).ok();
        let begins = || at.and_then(|at| self.rows.get(at)).is_some_and(|row| row.t == 0);
        window.back == back || begins()
    }

    /// Returns the headers before row `end`.
    pub(crate) fn before(&self, end: u64) -> Self {
        let count = usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX);
        Self { rows: self.rows.get(..count).unwrap_or(self.rows), ..*self }
    }

    /// Returns whether the transition at row `seq` is the last one of an episode that ended, or
    /// that was cut: the row after it is FINAL, or comes right before a GAP. Needs the headers of
    /// the two rows after `seq`, of which the second may be unpublished.
    pub(crate) fn ends_episode(&self, seq: u64) -> bool {
        let at = seq.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let rows = at.and_then(|at| self.rows.get(at..)).unwrap_or_default();
        let has = |at: usize, flag| rows.get(at).is_some_and(|row| row.flags & flag != 0);
        has(1, FINAL) || has(2, GAP)
    }

    /// Returns the step in its episode of a copied row; `None` for a row that was not copied.
    pub(crate) fn step(&self, seq: u64) -> Option<u32> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.rows.get(at).map(|row| row.t)
    }

    /// Returns the flags of a copied row; `None` for a row that was not copied.
    pub(crate) fn flags(&self, seq: u64) -> Option<u32> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.rows.get(at).map(|row| row.flags)
    }

    fn starts_transition(&self, at: usize) -> bool {
        matches!(self.rows.get(at..at + 2), Some([row, next])
            if transition_starts(row.flags, next.flags))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::autoreset::AutoresetMode;
    use crate::row_flags::TERMINATED;
    use crate::writer::rows::{EpisodeClock, LaneState, LaneStep};

    /// Outcomes of an append; [`step`] weights them by frequency.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Plain,
        End,
        Dropped {
            end: bool,
        },
        Restart,
        /// The writer died, and another took the lane.
        Successor,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => Just(Step::Plain),
            3 => Just(Step::End),
            1 => any::<bool>().prop_map(|end| Step::Dropped { end }),
            1 => Just(Step::Restart),
            1 => Just(Step::Successor),
        ]
    }

    /// Returns the headers of a lane's rows after some steps.
    fn play(mode: AutoresetMode, steps: &[Step]) -> Vec<RowHeader> {
        let mut state = LaneState::of(EpisodeClock::fresh());
        let mut headers = Vec::<RowHeader>::new();
        for step in steps {
            let end = matches!(step, Step::End | Step::Dropped { end: true });
            match step {
                Step::Restart => state = state.restart().after,
                Step::Successor => {
                    if let Some(last) = headers.last() {
                        state = LaneState::of(EpisodeClock::after(last.episode));
                    }
                }
                Step::Plain | Step::End | Step::Dropped { .. } => {
                    let ends = if end { TERMINATED } else { 0 };
                    let mut plan = state.plan(mode, LaneStep { ends, ..LaneStep::default() });
                    if matches!(step, Step::Dropped { .. }) {
                        plan = plan.without_rows(state);
                    }
                    for row in plan.headers() {
                        headers.push(row.at(headers.len() as u64));
                    }
                    state = plan.after;
                }
            }
        }
        headers
    }

    proptest! {
        #[test]
        fn the_last_header_of_a_window_says_whether_it_is_interior(
            steps in prop::collection::vec(step(), 0..60),
            next_step in any::<bool>(),
            rows in 2..7_usize,
        ) {
            let mode = if next_step { AutoresetMode::NextStep } else { AutoresetMode::SameStep };
            let headers = play(mode, &steps);
            let before = rows as u64 - 1;
            for (window, row) in headers.windows(rows).zip(before..) {
                let [first, others @ ..] = window else { unreachable!() };
                // The reference inspects all headers together.
                let interior = first.flags & !GAP == 0
                    && others.iter().zip(1..).all(|(header, steps)| {
                        (header.flags, header.t) == (0, first.t + steps)
                            && header.episode == first.episode
                    });
                let last = window.last().unwrap();
                prop_assert_eq!(Window::is_interior(last, row, before), interior, "{:?}", window);
                prop_assert!(!Window::is_interior(last, row + 1, before), "another row's header");
            }
        }
    }
}
