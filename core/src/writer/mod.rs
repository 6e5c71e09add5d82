//! Writer of some lanes: one step of every lane per append.

mod append;
mod check;
mod claim;
mod counts;
mod extend;
mod finish;
pub(crate) mod lease_backoff;
mod limited;
mod notices;
pub(crate) mod options;
mod reserve;
mod room;
pub(crate) mod rows;
pub(crate) mod step;
mod warnings;

use std::mem;
use std::sync::Arc;

pub use self::counts::WriterCounts;
pub use self::reserve::{ColumnMut, Ends, Reserved, Suspended};
pub use self::warnings::{ResetHint, WriterWarning};
use backcast_layout::protocol::LaneWriter;
use backcast_layout::{ClaimedLane, DType};

use self::notices::FollowedNotices;
use self::room::Planned;
use self::rows::kept::{KeptObservation, ObsColumn};
use self::rows::{Continuation, EpisodeClock};
use self::warnings::WriterWarnings;
use crate::autoreset::AutoresetMode;
use crate::index::RowIndex;
use crate::limiter::gate::InsertGate;
use crate::ring::Ring;
use crate::ring::notices::Notice;
use crate::schema::Schema;
use crate::writer::lease_backoff::{LeaseBackoff, Stall};

/// Writes the lanes it has claimed. Dropping it, or the death of the process, frees them.
///
/// A `next_obs` that still waits for its successor becomes the FINAL row of its episode when the
/// writer is dropped, unless a lease blocks that row or the thread panics. [`finish`](Self::finish)
/// handles a lease by the lane policy instead.
#[derive(Debug)]
pub struct Writer {
    // Dropped before `ring`: the claims hold the ring too, and its last holder removes it.
    lanes: Vec<OwnLane>,
    ring: Ring,
    /// Fingerprint of the ring's schema.
    fingerprint: u64,
    /// Gate of the rate limiter, if the ring has one.
    gate: Option<Box<InsertGate>>,
    mode: AutoresetMode,
    numbers: Vec<u32>,
    /// Plan of the call for each lane, made before anything is written.
    planned: Vec<Planned>,
    indices: Vec<RowIndex>,
    /// Zeros, one for each byte of the widest column.
    zeros: Vec<u8>,
    /// Copy of a column of the reserved row, as long as the widest column.
    scratch: Vec<u8>,
    /// Whether each column of the reserved row was lent or written.
    asked: Vec<bool>,
    rows_written: u64,
    counts: Arc<WriterCounts>,
    stall: Option<Stall>,
    warnings: WriterWarnings,
    /// Whether [`stall`](Self::stall) or [`warnings`](Self::warnings) have something to report.
    has_warnings: bool,
    notices: FollowedNotices,
    /// Columns of role obs.
    obs: Box<[ObsColumn]>,
    /// Place and dtype of the column `reward`.
    reward: Option<(usize, DType)>,
    /// Process that made the writer: a forked child appends nothing when it drops its copy.
    pid: u32,
}

#[derive(Debug)]
struct OwnLane {
    memory: LaneWriter<ClaimedLane>,
    clock: EpisodeClock,
    backoff: LeaseBackoff,
    kept: KeptObservation,
    /// Steps that the fast path takes next.
    continuation: Continuation,
}

impl Writer {
    /// Takes a lease that made an append wait or drop rows, for a warning: the first new one since
    /// the last call. A wait that an interrupt ended is not reported.
    pub fn take_stall(&mut self) -> Option<Stall> {
        let stall = mem::take(&mut self.stall);
        self.has_warnings = self.warnings.has_warnings();
        stall
    }

    /// Returns whether [`take_stall`](Self::take_stall), [`take_warning`](Self::take_warning) or
    /// [`Ring::take_unlinked`] has something to report.
    #[must_use]
    #[inline]
    pub fn has_warnings(&self) -> bool {
        self.has_warnings || self.ring.has_unlinked_warning()
    }

    /// Takes the warning of a suspected misuse, after which rows may not mean what the caller
    /// intends. Each kind is reported once per writer.
    pub fn take_warning(&mut self) -> Option<WriterWarning> {
        let warning = self.warnings.take();
        self.has_warnings = self.stall.is_some() || self.warnings.has_warnings();
        warning
    }

    /// Returns the warnings of the ring handle, those of this writer included: see
    /// [`Ring::notices`].
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.ring.notices()
    }

    /// Returns the rows that this writer dropped because of a lease. They include the FINAL row of
    /// an episode whose end was dropped, even if no lease stops it any more.
    #[must_use]
    pub fn rows_dropped(&self) -> u64 {
        self.counts.rows_dropped()
    }

    /// Returns counters that other threads may read while the writer appends.
    #[must_use]
    pub fn counts(&self) -> Arc<WriterCounts> {
        Arc::clone(&self.counts)
    }

    /// Returns the claimed lanes, in the order of the lane axis of a step's arrays.
    #[must_use]
    pub fn lanes(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns the autoreset mode.
    #[must_use]
    pub fn autoreset_mode(&self) -> AutoresetMode {
        self.mode
    }

    /// Returns the indices of the rows that the last `append` or `extend` has appended. After
    /// [`AppendError::After`](crate::AppendError::After) these are the rows of the steps before the
    /// error. After any other error there are none.
    #[must_use]
    pub fn appended(&self) -> &[RowIndex] {
        &self.indices
    }

    /// Returns the rows published by this writer, FINAL rows included.
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.rows_written
    }

    /// Returns for each lane whether the next append is taken as a final observation. `false`
    /// outside next-step mode.
    pub fn awaits_final(&self) -> impl Iterator<Item = bool> + '_ {
        self.lanes.iter().map(|lane| lane.clock.awaits_final())
    }

    /// Returns the columns of a row.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.ring.schema()
    }

    /// Returns the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}

/// Returns row `i` of the bytes of a column, whose length was checked.
#[inline]
fn row(bytes: &[u8], width: usize, i: usize) -> &[u8] {
    &bytes[i * width..(i + 1) * width]
}
