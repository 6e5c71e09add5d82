//! Which neighbours of a row belong to its window: the rules of §"What a row is", in one place.
//!
//! A transition starts at row `t` iff `t` is not FINAL, row `t + 1` is published, and `t + 1` is
//! not GAP. Windows hold transitions of one episode.

use std::ops::Range;

use crate::episode::{FINAL, GAP};
use crate::mark::Mark;

/// How far a window may reach from the drawn row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Transitions before the drawn one: history - 1.
    pub(crate) back: u64,
    /// Transitions after it: future.
    pub(crate) ahead: u64,
    /// Transitions of an n-step return, the drawn one included; 0 without one.
    pub(crate) steps: u64,
}

impl Reach {
    /// Transitions after the drawn one that have to be looked at.
    pub(crate) fn far(&self) -> u64 {
        self.ahead.max(self.steps.saturating_sub(1))
    }

    /// Transitions of an n-step return that nothing cuts short.
    pub(crate) fn run(&self) -> u64 {
        (self.far() + 1).min(self.steps.max(1))
    }

    /// The readable rows that a window around `seq` may touch.
    pub(crate) fn rows(&self, seq: u64, readable: &Range<u64>) -> Range<u64> {
        let first = seq.saturating_sub(self.back).max(readable.start);
        first..(seq + self.far() + 2).min(readable.end)
    }

    /// Rows that a whole window looks at after its first.
    pub(crate) fn after_first(&self) -> u64 {
        self.back + self.far() + 1
    }

    /// The most rows that [`rows`](Self::rows) names.
    pub(crate) fn most_rows(&self) -> usize {
        usize::try_from(self.after_first() + 1).unwrap_or(usize::MAX)
    }
}

/// The marks of consecutive rows. Private copies; nothing is believed before the caller has
/// validated the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks<'a> {
    pub(crate) first: u64,
    pub(crate) rows: &'a [Mark],
}

/// The part of a window that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The drawn row.
    pub(crate) seq: u64,
    /// Transitions of the episode before it, at most the history asked for less one.
    pub(crate) back: u64,
    /// Transitions of the episode after it, at most the future asked for.
    pub(crate) ahead: u64,
    /// Transitions of the n-step return, at least the drawn one.
    pub(crate) run: u64,
}

impl Window {
    /// Whether the marks of row `row` and of the one so many rows after it say that nothing happens between
    /// them: they are so many steps of one episode apart, and of an episode only the first row can be a GAP,
    /// only the last FINAL, and only the one before that an end.
    #[inline]
    pub(crate) fn is_quiet(first: &Mark, last: &Mark, row: u64, after: u64) -> bool {
        // One question and not five, of which a processor would have to foresee each.
        let others = (first.seq ^ row) | (last.seq ^ (row + after));
        let flags = u64::from(first.flags | last.flags);
        let steps = u64::from(last.t) ^ (u64::from(first.t) + after);
        others | flags | (first.episode ^ last.episode) | steps == 0
    }

    /// The window around `seq` of which nothing is missing.
    pub(crate) fn whole(seq: u64, reach: Reach) -> Self {
        Self { seq, back: reach.back, ahead: reach.ahead, run: reach.run() }
    }

    /// Whether nothing of what was asked for is missing.
    pub(crate) fn is_whole(&self, reach: Reach) -> bool {
        (self.back, self.ahead) == (reach.back, reach.ahead)
    }

    /// First row of the window: what validation must protect.
    pub(crate) fn first(&self) -> u64 {
        self.seq - self.back
    }
}

impl Marks<'_> {
    /// Whether the copied rows say that they are the rows asked for, which is not so of a lapped copy
    /// or a lying peer; and all their flags together.
    #[inline]
    pub(crate) fn look(&self) -> (bool, u32) {
        let rows = self.rows.iter().zip(self.first..);
        let (wrong, flags) = rows.fold((0, 0), |(wrong, flags), (row, seq)| {
            (wrong | (row.seq ^ seq), flags | row.flags)
        });
        (wrong == 0, flags)
    }

    /// The window around `seq`, or `None` when no transition starts there. `flags` are those of all
    /// rows together.
    #[inline]
    pub(crate) fn window(&self, seq: u64, reach: Reach, flags: u32) -> Option<Window> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        let (Some(drawn), [first, .., last]) = (self.rows.get(at), self.rows) else { return None };
        // Most windows lie in the middle of an episode.
        let whole = flags & (FINAL | GAP) == 0
            && self.rows.len() == reach.most_rows()
            && u64::from(drawn.t) >= reach.back
            && (first.episode, last.episode) == (drawn.episode, drawn.episode);
        if whole {
            return Some(Window::whole(seq, reach));
        }
        self.cut_window(seq, at, reach)
    }

    fn cut_window(&self, seq: u64, at: usize, reach: Reach) -> Option<Window> {
        let drawn = self.rows.get(at)?;
        if !self.starts_transition(at) {
            return None;
        }
        let back = reach.back.min(u64::from(drawn.t)).min(at as u64);
        let rows = self.rows.iter().enumerate().skip(at + 1);
        let after = (1..=reach.far())
            .zip(rows)
            .take_while(|(_, (at, row))| {
                row.episode == drawn.episode && self.starts_transition(*at)
            })
            .last()
            .map_or(0, |(after, _)| after);
        let run = 1 + after.min(reach.steps.saturating_sub(1));
        Some(Window { seq, back, ahead: after.min(reach.ahead), run })
    }

    /// Flags of a copied row.
    pub(crate) fn flags(&self, seq: u64) -> Option<u32> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        self.rows.get(at).map(|row| row.flags)
    }

    fn starts_transition(&self, at: usize) -> bool {
        matches!(self.rows.get(at..at + 2), Some([row, next])
            if row.flags & FINAL == 0 && next.flags & GAP == 0)
    }
}
