//! Numbers the rows of a lane: its episodes, the steps in them, and the gaps between them.

use crate::row_flags::{FINAL, GAP};
use crate::row_header::RowHeader;

/// Position in an episode between two appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The next row begins an episode.
    Start,
    /// The next row continues one.
    Running,
    /// The next row is the FINAL row of an episode that ended (next-step mode only).
    Ended,
    /// The next append brings the final observation of an episode whose end was dropped, and writes
    /// no row.
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

/// Counters of an episode on one lane. An append advances a copy and stores it once it succeeds.
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

    /// Returns the clock of a lane whose newest row belongs to episode `last`, which no row
    /// continues: a new episode begins, after a gap.
    pub(crate) fn after(last: u64) -> Self {
        Self { phase: Phase::Start, episode: last.wrapping_add(1), t: 0, gap: true }
    }

    /// Returns whether the next row continues an episode, and so completes a transition.
    fn has_begun(self) -> bool {
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

    /// Returns the header of a step's row, if [`awaits_final`](Self::awaits_final) is `false`, and
    /// moves on to the next row.
    #[inline]
    pub(crate) fn step(&mut self) -> HeaderFields {
        let flags = if std::mem::take(&mut self.gap) { GAP } else { 0 };
        let fields = HeaderFields { episode: self.episode, t: self.t, flags };
        self.t = self.t.saturating_add(1);
        self.phase = Phase::Running;
        fields
    }

    /// Returns the header of the FINAL row that ends the episode here.
    pub(super) fn final_row(self) -> HeaderFields {
        HeaderFields { episode: self.episode, t: self.t, flags: FINAL }
    }

    /// Returns the clock after the FINAL row of an episode that ended.
    pub(super) fn next_episode(self) -> Self {
        Self { phase: Phase::Start, episode: self.episode.wrapping_add(1), t: 0, gap: false }
    }

    /// Returns the clock after the FINAL row of an episode that was cut.
    pub(super) fn cut(self) -> Self {
        Self::after(self.episode)
    }

    /// Returns the clock after the row that ended the episode, if the next append brings its FINAL
    /// row.
    pub(super) fn ended(self) -> Self {
        Self { phase: Phase::Ended, ..self }
    }

    /// Returns the clock after the final observation of an episode whose end was dropped.
    pub(super) fn without_final(self) -> Self {
        Self { phase: Phase::Start, ..self }
    }

    /// Returns the clock after a reset. It begins a new episode without an end of the one before.
    pub(super) fn restarted(self) -> Self {
        if self.has_begun() { self.cut() } else { self.without_final() }
    }

    /// Returns the clock after dropping planned rows, with `planned` as the clock after them. The
    /// next row does not continue the rows before.
    pub(super) fn without(self, planned: Self) -> Self {
        let phase = if planned.is_ended() { Phase::Orphaned } else { Phase::Start };
        // An episode without published rows gives its number to the next one, so that episodes are
        // counted without holes.
        Self { phase, episode: self.begun(), t: 0, gap: true }
    }
}
