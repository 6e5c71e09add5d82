//! Writer of some lanes: one step of every lane per append.

mod claim;
mod counts;
pub(crate) mod episode_clock;
mod extend;
mod finish;
mod kept;
pub(crate) mod lease_backoff;
mod limited;
mod notices;
pub(crate) mod options;
mod plan;
mod reserve;
mod room;
pub(crate) mod step;
mod warnings;

use std::mem;
use std::sync::Arc;

pub use self::counts::WriterCounts;
pub use self::reserve::{ColumnMut, Ends, Reserved, Suspended};
pub use self::warnings::{ResetHint, WriterWarning};
use backcast_layout::protocol::{LaneWriter, notify};
use backcast_layout::{ClaimedLane, Column, DType, Role};

use self::kept::{KeptKind, KeptObservation, ObsColumn};
use self::notices::FollowedNotices;
use self::plan::Planned;
use self::warnings::WriterWarnings;
use crate::autoreset::AutoresetMode;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::limiter::gate::InsertGate;
use crate::ring::Ring;
use crate::ring::notices::Notice;
use crate::row_header::ROW_HEADERS;
use crate::schema::{Schema, USER};
use crate::wait::WhenBlocked;
use crate::writer::episode_clock::{EpisodeClock, HeaderFields};
use crate::writer::lease_backoff::{LeaseBackoff, Stall};
use crate::writer::step::Step;

/// Writes the lanes it has claimed. Dropping it, or the death of the process, frees them.
///
/// A `next_obs` that still waits for its successor becomes the FINAL row of its episode when the
/// writer is dropped, unless a lease blocks it. [`finish`](Self::finish) waits for that.
#[derive(Debug)]
pub struct Writer {
    // Before the ring: the claims hold it too, and its last handle removes it.
    lanes: Vec<OwnLane>,
    ring: Ring,
    /// Fingerprint of the ring's schema.
    fingerprint: u64,
    /// Gate of the rate limiter, if the ring has one.
    gate: Option<Box<InsertGate>>,
    mode: AutoresetMode,
    numbers: Vec<u32>,
    /// Plan of the next append for each lane, made before anything is written.
    planned: Vec<Planned>,
    indices: Vec<RowIndex>,
    /// Zeros, one for each byte of the widest column.
    zeros: Vec<u8>,
    /// Columns of the reserved row that were written.
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
    /// Process that made it: a forked child appends nothing when it drops its copy.
    pid: u32,
}

#[derive(Debug)]
struct OwnLane {
    memory: LaneWriter<ClaimedLane>,
    clock: EpisodeClock,
    backoff: LeaseBackoff,
    kept: KeptObservation,
    /// Whether the next append makes one row, without an observation to compare it with.
    plain: bool,
}

impl Writer {
    /// Appends one step of every lane and returns the index of each row. In next-step mode the
    /// append after an end is the FINAL row; otherwise an ended lane advances by two rows in one
    /// publish. One copy, no system call. Lanes need not be in step.
    ///
    /// With `next_obs` the next append of a lane must show the same observation. Where it does not,
    /// the episode is cut: its FINAL row holds the `next_obs`, the new row is marked GAP, and
    /// [`LaneStats::cuts`](crate::LaneStats::cuts) counts it.
    ///
    /// Waits while the ring's rate limiter holds it back, at most
    /// [`WriterOptions::timeout`](crate::WriterOptions::timeout), and while a lease blocks a row,
    /// by the lane policy. The interrupt of the ring's handle
    /// ([`Ring::interrupted_by`](crate::Ring::interrupted_by)) ends a wait, and nothing is appended
    /// then.
    ///
    /// A lane whose rows were dropped in the end returns [`RowIndex::NONE`], and its next row is
    /// marked GAP. In next-step mode the FINAL row of an episode is dropped with the row that ended
    /// it, even if it comes later. If only the FINAL row is dropped, the row that ended the episode
    /// stays, and no transition begins with it, since it has no successor.
    #[inline]
    pub fn append<'s>(&mut self, step: impl Into<Step<'s>>) -> Result<&[RowIndex], AppendError> {
        self.append_or(&step.into(), WhenBlocked::Wait)
    }

    /// Appends one step like [`append`](Self::append) if that needs no wait. Fails with
    /// [`AppendError::WouldWait`] and appends nothing where `append` would wait. Makes no system
    /// call on the fast path.
    #[inline]
    pub fn try_append<'s>(
        &mut self,
        step: impl Into<Step<'s>>,
    ) -> Result<&[RowIndex], AppendError> {
        self.append_or(&step.into(), WhenBlocked::Fail)
    }

    fn append_or(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<&[RowIndex], AppendError> {
        if self.gate.is_some() {
            return self.append_limited(step, blocked);
        }
        self.append_now(step, blocked)?;
        notify(&self.ring.store().published());
        debug_assert_eq!(self.indices.len(), self.lanes.len());
        Ok(&self.indices)
    }

    /// Appends one step. Wakes no reader.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn append_now(&mut self, step: &Step<'_>, blocked: WhenBlocked) -> Result<(), AppendError> {
        // The slow path says how the schemas differ.
        let is_ours = step.schema.fingerprint() == self.fingerprint;
        let appended = is_ours
            && match (step.next_obs, step.final_obs) {
                (None, None) => self.append_plainly::<false>(step),
                (Some(next), None) => self.append_continuing::<false>(step, next),
                _ => false,
            };
        if appended { Ok(()) } else { self.append_with_care(step, blocked) }
    }

    /// Prefetches, for writing, the memory of the row after the next one of every lane.
    #[inline]
    pub fn ask_ahead(&self) {
        for OwnLane { memory, .. } in &self.lanes {
            memory.lane().ask_to_store_after(memory.slot());
        }
    }

    /// Appends any step, checking its sizes first. Wakes no reader.
    #[inline(never)]
    fn append_with_care(
        &mut self,
        step: &Step<'_>,
        blocked: WhenBlocked,
    ) -> Result<(), AppendError> {
        self.indices.clear();
        self.check_sizes(step, 1)?;
        self.append_checked(step, blocked)
    }

    /// Appends a step whose sizes were checked. Wakes no reader.
    fn append_checked(&mut self, step: &Step<'_>, blocked: WhenBlocked) -> Result<(), AppendError> {
        let appended = match step.next_obs {
            None => self.append_plainly::<true>(step),
            Some(next) => self.append_continuing::<true>(step, next),
        };
        if appended {
            return Ok(());
        }
        self.follow_notices()?;
        self.plan(step)?;
        self.make_room(blocked)?;
        self.append_planned(step);
        Ok(())
    }

    /// Appends a step with `next_obs` on the fast path: it ends no episode, and continues every
    /// lane. Returns `false` and appends nothing if the slow path is needed.
    #[inline(never)]
    fn append_continuing<const MORE: bool>(&mut self, step: &Step<'_>, next: &[&[u8]]) -> bool {
        let of = self.lanes.len();
        let go_on = |flags: &[bool]| flags.len() == of && !flags.contains(&true);
        let fits = |(column, bytes): (&ObsColumn, &&[u8])| bytes.len() == of * column.width;
        if !go_on(step.terminated)
            || !go_on(step.truncated)
            || !self.has_followed()
            || step.columns.len() != self.schema().columns().len()
            || next.len() != self.obs.len()
            || !self.obs.iter().zip(next).all(fits)
        {
            return false;
        }
        // Slots are written before all lanes are known to have room, like in `append_plainly`.
        for (i, lane) in self.lanes.iter().enumerate() {
            if !lane.write_continuing(&self.obs, step, (i, of)) {
                return false;
            }
        }
        if !MORE {
            self.indices.clear();
        }
        for (i, (lane, number)) in self.lanes.iter_mut().zip(&self.numbers).enumerate() {
            lane.kept.keep(KeptKind::Next, &self.obs, next, i);
            lane.plain = false;
            self.indices.push(lane.publish_plainly(*number));
        }
        self.rows_written += of as u64;
        self.warnings.appends += of as u64;
        true
    }

    /// Appends a step on the fast path: it makes one row on every lane, and all have room. Its
    /// final observations are ignored. With `MORE` the indices are added to the kept ones, else
    /// they replace them. Returns `false` and appends nothing if the slow path is needed.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn append_plainly<const MORE: bool>(&mut self, step: &Step<'_>) -> bool {
        let of = self.lanes.len();
        let go_on = |flags: &[bool]| match flags {
            [ended] => of == 1 && !*ended,
            many => many.len() == of && !many.iter().fold(false, |any, ended| any | ended),
        };
        if !go_on(step.terminated) || !go_on(step.truncated) || !self.has_followed() {
            return false;
        }
        // Sizes are checked while slots are written that no reader sees yet. A single lane is a
        // case of its own, since a loop over it costs a tenth of a small row.
        if let ([lane], [number]) = (&mut *self.lanes, &*self.numbers) {
            if !lane.write_plainly(step, (0, 1)) {
                return false;
            }
            let index = lane.publish_plainly(*number);
            if !MORE && let [last] = &mut *self.indices {
                // The length of the vector is not stored again: a later load of it would wait for
                // that store.
                *last = index;
            } else {
                self.keep::<MORE>(index);
            }
        } else if !self.append_plainly_to_many::<MORE>(step) {
            return false;
        }
        self.rows_written += of as u64;
        true
    }

    /// Appends a step on the fast path to several lanes.
    #[inline(never)]
    fn append_plainly_to_many<const MORE: bool>(&mut self, step: &Step<'_>) -> bool {
        let of = self.lanes.len();
        let mut lanes = self.lanes.iter().enumerate();
        if !lanes.all(|(i, lane)| lane.write_plainly(step, (i, of))) {
            return false;
        }
        if !MORE {
            self.indices.clear();
        }
        let lanes = self.lanes.iter_mut().zip(&self.numbers);
        self.indices.extend(lanes.map(|(lane, number)| lane.publish_plainly(*number)));
        true
    }

    /// Keeps the index of a row: with `MORE` after the kept ones, else in their place.
    #[inline(never)]
    fn keep<const MORE: bool>(&mut self, index: RowIndex) {
        if !MORE {
            self.indices.clear();
        }
        self.indices.push(index);
    }

    /// Returns the lease that made an append wait or drop rows, once per lease: for a warning.
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

    /// Returns a suspected misuse by which rows differ in meaning from what the caller intends,
    /// once per writer and kind. For a warning.
    pub fn take_warning(&mut self) -> Option<WriterWarning> {
        let warning = self.warnings.take();
        self.has_warnings = self.stall.is_some() || self.warnings.has_warnings();
        warning
    }

    /// Returns what its handle of the ring warned of, this writer included: see [`Ring::notices`].
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

    /// Returns counters that other threads may read while it appends.
    #[must_use]
    pub fn counts(&self) -> Arc<WriterCounts> {
        Arc::clone(&self.counts)
    }

    /// Returns the claimed lanes, in the order of every leading axis.
    #[must_use]
    pub fn lanes(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns the autoreset mode.
    #[must_use]
    pub fn autoreset_mode(&self) -> AutoresetMode {
        self.mode
    }

    /// Returns the result of the last append.
    #[must_use]
    pub fn appended(&self) -> &[RowIndex] {
        &self.indices
    }

    /// Returns the rows published by this writer, FINAL rows included.
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.rows_written
    }

    /// Returns whether the next append is taken as a final observation, per lane (next-step mode).
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

    /// Checks that the step is of the ring's schema, and every column and flag array of the right
    /// length.
    fn check_sizes(&self, step: &Step<'_>, steps: usize) -> Result<(), AppendError> {
        self.check_schema(step.schema)?;
        let lanes = self.lanes.len();
        let columns = self.schema().columns();
        if step.columns.len() != columns.len() {
            let (got, expected) = (step.columns.len(), columns.len());
            return Err(AppendError::WrongColumnCount { got, expected });
        }
        let fits = |(column, bytes): (&Column, &&[u8])| {
            let width = column.width();
            let expected = width * lanes * steps;
            if bytes.len() == expected {
                return Ok(());
            }
            let (name, got) = (column.name().to_owned(), bytes.len());
            Err(AppendError::WrongSize { name, expected, got, steps, lanes, width })
        };
        columns.iter().zip(step.columns).try_for_each(fits)?;
        check_flags("terminated", step.terminated, steps, lanes)?;
        check_flags("truncated", step.truncated, steps, lanes)?;
        if step.final_obs.is_some() && self.mode == AutoresetMode::NextStep {
            return Err(AppendError::UnexpectedFinalObs);
        }
        let obs = || columns.iter().filter(|c| c.role() == Role::Obs);
        for (name, given) in [("next_obs", step.next_obs), ("final_obs", step.final_obs)] {
            let Some(given) = given else { continue };
            if given.len() != obs().count() {
                let (got, expected) = (given.len(), obs().count());
                return Err(AppendError::WrongObsCount { name, got, expected });
            }
            obs().zip(given).try_for_each(fits)?;
        }
        Ok(())
    }

    /// Refuses bytes in the order of another schema than the ring's.
    fn check_schema(&self, given: &Schema) -> Result<(), AppendError> {
        if given.fingerprint() == self.fingerprint {
            return Ok(());
        }
        let (at, step, ring) = self.schema().difference(given).unwrap_or_default();
        Err(AppendError::OtherSchema { at, step, ring })
    }
}

fn check_flags(
    name: &'static str,
    flags: &[bool],
    steps: usize,
    lanes: usize,
) -> Result<(), AppendError> {
    let got = flags.len();
    if got == steps * lanes {
        return Ok(());
    }
    Err(AppendError::WrongFlags { name, got, steps, lanes })
}

impl OwnLane {
    /// Writes row `i` of the `of` rows of a step that ends no episode. Returns `false` if there is
    /// no room, if a FINAL row is due, or if a column has another size.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn write_plainly(&self, step: &Step<'_>, row: (usize, usize)) -> bool {
        self.plain && self.write_row(step, row)
    }

    /// Writes row `i` in a lane whose newest row has a `next_obs`, which this row must show.
    fn write_continuing(&self, obs: &[ObsColumn], step: &Step<'_>, row: (usize, usize)) -> bool {
        if self.clock.awaits_final() {
            return false;
        }
        match self.kept.kind() {
            KeptKind::Nothing => self.write_row(step, row),
            // `write_row` checks the sizes before the columns are compared.
            KeptKind::Next => {
                self.write_row(step, row) && self.kept.is_row(obs, step.columns, row.0)
            }
            KeptKind::Final => false,
        }
    }

    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn write_row(&self, step: &Step<'_>, row: (usize, usize)) -> bool {
        let mut clock = self.clock;
        let Some(slot) = self.memory.free_slot() else { return false };
        let mark = clock.step().at(self.memory.head());
        self.memory.lane().store_row(slot, mark.words(), step.columns, row)
    }

    /// Updates `plain` after the clock or the kept observation changed.
    fn settle(&mut self) {
        self.plain = !self.clock.awaits_final() && self.kept.kind() == KeptKind::Nothing;
    }

    /// Publishes the row that was written.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn publish_plainly(&mut self, number: u32) -> RowIndex {
        let index = RowIndex::new(number, self.memory.head());
        self.clock.step();
        self.memory.publish(1);
        index
    }

    /// Writes row `i` of a step whose sizes were checked.
    fn write_step(&self, ahead: u64, marks: HeaderFields, step: &Step<'_>, i: usize) {
        self.write_marks(ahead, marks);
        let lanes = step.terminated.len();
        for (at, bytes) in step.columns.iter().enumerate() {
            self.memory.write(USER + at, ahead, row(bytes, bytes.len() / lanes, i));
        }
    }

    fn write_final<'a>(
        &self,
        schema: &Schema,
        ahead: u64,
        marks: HeaderFields,
        zeros: &[u8],
        mut finals: impl Iterator<Item = &'a [u8]>,
    ) {
        self.write_marks(ahead, marks);
        for (at, column) in schema.columns().iter().enumerate() {
            let width = column.width();
            let bytes = match column.role() {
                Role::Obs => finals.next(),
                Role::Step => None,
            };
            self.memory.write(USER + at, ahead, bytes.unwrap_or(row(zeros, width, 0)));
        }
    }

    fn write_marks(&self, ahead: u64, marks: HeaderFields) {
        let mark = marks.at(self.memory.head() + ahead);
        self.memory.write(ROW_HEADERS, ahead, bytemuck::bytes_of(&mark));
    }
}

/// Returns row `i` of the bytes of a column, whose length was checked.
#[inline]
fn row(bytes: &[u8], width: usize, i: usize) -> &[u8] {
    &bytes[i * width..(i + 1) * width]
}
