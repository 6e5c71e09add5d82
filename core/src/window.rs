//! Which neighbours of a row belong to its window: the rules of §"What a row is", in one place.
//!
//! A transition starts at row `t` iff `t` is not FINAL, row `t + 1` is published, and `t + 1` is
//! not GAP. Windows hold transitions of one episode.

use std::ops::Range;

use backcast_layout::Lane;
use backcast_layout::protocol::Words;

use crate::episode::{FINAL, GAP};
use crate::schema::{EPISODE, FLAGS, SEQ, T};

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
}

/// What the built-in columns say about the rows around a drawn one. Private copies; nothing is
/// believed before the caller has validated the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    first: u64,
    seqs: Vec<u64>,
    episodes: Vec<u64>,
    flags: Vec<u32>,
    t: u32,
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
    /// Whether nothing of what was asked for is missing.
    pub(crate) fn is_whole(&self, reach: Reach) -> bool {
        (self.back, self.ahead) == (reach.back, reach.ahead)
    }

    /// First row of the window: what validation must protect.
    pub(crate) fn first(&self) -> u64 {
        self.seq - self.back
    }
}

impl Marks {
    /// Copies the built-in columns of the rows that a window around `seq` may touch.
    pub(crate) fn read(&mut self, lane: &Lane, readable: &Range<u64>, seq: u64, reach: Reach) {
        self.first = seq.saturating_sub(reach.back).max(readable.start);
        let end = (seq + reach.far() + 2).min(readable.end);
        let rows = end - self.first;
        let slot = self.first % lane.slots();
        let len = usize::try_from(rows).unwrap_or(0);
        self.seqs.resize(len, 0);
        self.episodes.resize(len, 0);
        self.flags.resize(len, 0);
        lane.copy_out(SEQ, slot, rows, bytemuck::cast_slice_mut(&mut self.seqs));
        lane.copy_out(EPISODE, slot, rows, bytemuck::cast_slice_mut(&mut self.episodes));
        lane.copy_out(FLAGS, slot, rows, bytemuck::cast_slice_mut(&mut self.flags));
        let mut t = [0; 4];
        lane.copy_out(T, seq % lane.slots(), 1, &mut t);
        self.t = u32::from_ne_bytes(t);
    }

    /// The window around `seq`, or `None` when no transition starts there.
    pub(crate) fn window(&self, seq: u64, reach: Reach) -> Option<Window> {
        if !self.starts_transition(seq) {
            return None;
        }
        let back = reach.back.min(u64::from(self.t)).min(seq - self.first);
        let episode = self.episode(seq)?;
        let after = (1..=reach.far())
            .take_while(|j| {
                self.episode(seq + j) == Some(episode) && self.starts_transition(seq + j)
            })
            .last()
            .unwrap_or(0);
        let run = 1 + after.min(reach.steps.saturating_sub(1));
        Some(Window { seq, back, ahead: after.min(reach.ahead), run })
    }

    /// Whether the copied rows say that they are the rows asked for: false for a lapped copy or a
    /// lying peer.
    pub(crate) fn seqs_match(&self) -> bool {
        self.seqs.iter().copied().eq(self.first..self.first + self.seqs.len() as u64)
    }

    /// First row copied.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Flags of a copied row.
    pub(crate) fn flags(&self, seq: u64) -> Option<u32> {
        self.flags.get(self.at(seq)?).copied()
    }

    fn episode(&self, seq: u64) -> Option<u64> {
        self.episodes.get(self.at(seq)?).copied()
    }

    fn at(&self, seq: u64) -> Option<usize> {
        usize::try_from(seq.checked_sub(self.first)?).ok()
    }

    fn starts_transition(&self, seq: u64) -> bool {
        let published = |row, without| self.flags(row).is_some_and(|flags| flags & without == 0);
        published(seq, FINAL) && published(seq + 1, GAP)
    }
}
