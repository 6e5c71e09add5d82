//! The writer of some lanes: one step of every lane per append.

mod claim;
mod counts;
mod doubt;
pub(crate) mod episode_clock;
mod extend;
mod finish;
mod kept;
pub(crate) mod lease_backoff;
mod moves;
pub(crate) mod options;
mod plan;
mod reserve;
mod room;
pub(crate) mod step;

use std::mem;
use std::sync::Arc;

pub use self::counts::WriterCounts;
pub use self::doubt::{Doubt, Sign};
pub use self::reserve::{ColumnMut, Ends, Reserved, Suspended};
use backcast_layout::protocol::{LaneWriter, ring};
use backcast_layout::{ClaimedLane, Column, DType, Role};

use self::doubt::Doubts;
use self::kept::{Kept, ObsColumn, What};
use self::moves::Moves;
use self::plan::Planned;
use crate::autoreset::AutoresetMode;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::ring::Ring;
use crate::row_header::ROW_HEADERS;
use crate::schema::{Schema, USER};
use crate::writer::episode_clock::{EpisodeClock, RowMarks};
use crate::writer::lease_backoff::{Patience, Stall};
use crate::writer::step::Step;

/// Writes the lanes it has claimed. Dropping it, or the death of the process, frees them.
///
/// A `next_obs` that still waits for its successor becomes the FINAL row of its episode when the
/// writer is dropped, unless a lease is in the way; [`finish`](Self::finish) waits for that.
#[derive(Debug)]
pub struct Writer {
    // Before the ring: the claims hold it too, and its last handle removes it.
    lanes: Vec<OwnLane>,
    ring: Ring,
    mode: AutoresetMode,
    numbers: Vec<u32>,
    /// What the next append makes of each lane; decided before anything is written.
    planned: Vec<Planned>,
    indices: Vec<RowIndex>,
    /// As wide as the widest column.
    zeros: Vec<u8>,
    /// Columns of the reserved row that were handed out.
    asked: Vec<bool>,
    rows_written: u64,
    counts: Arc<WriterCounts>,
    stall: Option<Stall>,
    doubts: Doubts,
    /// [`stall`](Self::stall) or [`doubts`](Self::doubts) have something to tell.
    has_news: bool,
    moves: Moves,
    /// Columns of role obs.
    obs: Box<[ObsColumn]>,
    /// Place and dtype of the column `reward`.
    reward: Option<(usize, DType)>,
    /// The process that made it: a forked child appends nothing when it drops its copy.
    pid: u32,
}

#[derive(Debug)]
struct OwnLane {
    memory: LaneWriter<ClaimedLane>,
    clock: EpisodeClock,
    patience: Patience,
    kept: Kept,
    /// The next append makes one row, which has nothing to be compared with.
    plain: bool,
}

impl Writer {
    /// Appends one step of every lane and returns the index of each lane's row. In next-step mode
    /// the append after an end is the FINAL row; otherwise an ended lane advances by two rows in one
    /// publish. One copy, no system call. Lanes need not be in step.
    ///
    /// With `next_obs` the next append of a lane must show the same observation. Where it does not, the
    /// episode is cut there: its FINAL row holds the `next_obs`, the new row is marked GAP, and
    /// [`LaneStats::cuts`](crate::LaneStats::cuts) counts it.
    ///
    /// Waits only while a lease is in the way, and as the ring's lane policy says; a lane whose
    /// rows were dropped in the end returns [`RowIndex::NONE`], and its next row is marked GAP. In
    /// next-step mode the FINAL row of an episode goes with the row that ended it: where that was dropped,
    /// the append after it is dropped too. Where only the FINAL row was, the row that ended the episode stays,
    /// and no transition begins with it, since it has no successor.
    #[inline]
    pub fn append(&mut self, step: &Step<'_>) -> Result<&[RowIndex], AppendError> {
        self.append_until(step, &mut || false)
    }

    /// The same; while it waits for a lease, `interrupted` is asked every few milliseconds and ends
    /// the wait by returning `true`. Nothing is appended then.
    pub fn append_until(
        &mut self,
        step: &Step<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<&[RowIndex], AppendError> {
        let appended = match (step.next_obs, step.final_obs) {
            (None, None) => self.append_plainly::<false>(step),
            (Some(next), None) => self.append_continuing::<false>(step, next),
            _ => false,
        };
        if !appended {
            self.append_with_care(step, interrupted)?;
        }
        ring(&self.ring.store().published());
        debug_assert_eq!(self.indices.len(), self.lanes.len());
        Ok(&self.indices)
    }

    /// Asks the processor for the memory of the row after the next one of every lane, which comes while the caller does
    /// something else.
    #[inline]
    pub fn ask_ahead(&self) {
        for OwnLane { memory, .. } in &self.lanes {
            memory.lane().ask_to_store_after(memory.slot());
        }
    }

    /// The same for whatever step, right or wrong; wakes nobody.
    #[inline(never)]
    fn append_with_care(
        &mut self,
        step: &Step<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        self.indices.clear();
        self.check_sizes(step, 1)?;
        self.append_checked(step, interrupted)
    }

    /// Appends a step whose sizes are right, and wakes nobody.
    fn append_checked(
        &mut self,
        step: &Step<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        let appended = match step.next_obs {
            None => self.append_plainly::<true>(step),
            Some(next) => self.append_continuing::<true>(step, next),
        };
        if appended {
            return Ok(());
        }
        self.heed_notices()?;
        self.plan(step)?;
        self.make_room(interrupted)?;
        self.append_planned(step);
        Ok(())
    }

    /// Appends a step with `next_obs` that ends no episode and goes on where every lane is; as
    /// [`append_plainly`](Self::append_plainly) does without. `false`: nothing was appended, look more closely.
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
        // As in `append_plainly`, slots are written before it is known that all lanes can be.
        for (i, lane) in self.lanes.iter().enumerate() {
            if !lane.write_continuing(&self.obs, step, (i, of)) {
                return false;
            }
        }
        if !MORE {
            self.indices.clear();
        }
        for (i, (lane, number)) in self.lanes.iter_mut().zip(&self.numbers).enumerate() {
            lane.kept.keep(What::Next, &self.obs, next, i);
            lane.plain = false;
            self.indices.push(lane.publish_plainly(*number));
        }
        self.rows_written += of as u64;
        self.doubts.appends += of as u64;
        true
    }

    /// Appends a step that makes one row on every lane, for which there is room where it is: as most do.
    /// Its final observations are not looked at. The rows' indices come after those that are kept if there are to be
    /// `MORE`, and in their place if not. `false`: nothing was appended, look more closely.
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
        // What does not fit is found while it is written: into slots that nobody reads yet. One lane
        // apart, since a loop over it costs a tenth of a small row.
        if let ([lane], [number]) = (&mut *self.lanes, &*self.numbers) {
            if !lane.write_plainly(step, (0, 1)) {
                return false;
            }
            let index = lane.publish_plainly(*number);
            if !MORE && let [last] = &mut *self.indices {
                // The vector's length is not stored again: who reads it would wait until the store is done.
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

    /// The same for lanes that are not one.
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

    /// Keeps the index of a row, after those that are kept or in their place.
    #[inline(never)]
    fn keep<const MORE: bool>(&mut self, index: RowIndex) {
        if !MORE {
            self.indices.clear();
        }
        self.indices.push(index);
    }

    /// Whether [`take_stall`](Self::take_stall) has something to tell.
    #[must_use]
    pub fn has_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// The lease that made an append wait or drop rows, once per lease: for a warning.
    pub fn take_stall(&mut self) -> Option<Stall> {
        let stall = mem::take(&mut self.stall);
        self.has_news = self.doubts.has_news();
        stall
    }

    /// Whether [`take_stall`](Self::take_stall), [`take_doubt`](Self::take_doubt) or
    /// [`Ring::take_unlinked`] has something to tell.
    #[must_use]
    #[inline]
    pub fn has_news(&self) -> bool {
        self.has_news || self.ring.has_unlinked_news()
    }

    /// Returns why rows may not mean what the caller thinks, once per writer and kind: for a warning.
    pub fn take_doubt(&mut self) -> Option<Doubt> {
        let doubt = self.doubts.take();
        self.has_news = self.stall.is_some() || self.doubts.has_news();
        doubt
    }

    /// Rows that this writer dropped because a lease was in the way. The final row of an episode whose
    /// end was dropped is one of them, though no lease may be in its way any more.
    #[must_use]
    pub fn rows_dropped(&self) -> u64 {
        self.counts.rows_dropped()
    }

    /// Counters for those who ask while it appends.
    #[must_use]
    pub fn counts(&self) -> Arc<WriterCounts> {
        Arc::clone(&self.counts)
    }

    /// The lanes claimed, in the order of every leading axis.
    #[must_use]
    pub fn lanes(&self) -> &[u32] {
        &self.numbers
    }

    /// The writer's autoreset mode.
    #[must_use]
    pub fn autoreset_mode(&self) -> AutoresetMode {
        self.mode
    }

    /// What the last append returned.
    #[must_use]
    pub fn appended(&self) -> &[RowIndex] {
        &self.indices
    }

    /// Rows published by this writer, FINAL rows included.
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.rows_written
    }

    /// Whether the next append is taken as a final observation, per lane (next-step mode).
    pub fn awaits_final(&self) -> impl Iterator<Item = bool> + '_ {
        self.lanes.iter().map(|lane| lane.clock.awaits_final())
    }

    /// The columns of a row.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.ring.schema()
    }

    /// The ring written to.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether everything has as many rows as it should.
    fn check_sizes(&self, step: &Step<'_>, steps: usize) -> Result<(), AppendError> {
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
    /// Writes row `i` of the `of` that a step has, which ends no episode. `false`:
    /// there is no room for a row, or it is the final one's turn, or something does not have the column's size.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn write_plainly(&self, step: &Step<'_>, row: (usize, usize)) -> bool {
        self.plain && self.write_row(step, row)
    }

    /// The same for a lane whose newest row has a `next_obs`, which this row must show.
    fn write_continuing(&self, obs: &[ObsColumn], step: &Step<'_>, row: (usize, usize)) -> bool {
        if self.clock.awaits_final() {
            return false;
        }
        match self.kept.what() {
            What::Nothing => self.write_row(step, row),
            // The sizes of the columns are checked before they are compared.
            What::Next => self.write_row(step, row) && self.kept.is_row(obs, step.columns, row.0),
            What::Final => false,
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

    /// Sets whether the next append is plain, after the clock or the kept observation changed.
    fn settle(&mut self) {
        self.plain = !self.clock.awaits_final() && self.kept.what() == What::Nothing;
    }

    /// Publishes it.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn publish_plainly(&mut self, number: u32) -> RowIndex {
        let index = RowIndex::new(number, self.memory.head());
        self.clock.step();
        self.memory.publish(1);
        index
    }

    /// Writes row `i` of a step whose sizes were checked.
    fn write_step(&self, ahead: u64, marks: RowMarks, step: &Step<'_>, i: usize) {
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
        marks: RowMarks,
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

    fn write_marks(&self, ahead: u64, marks: RowMarks) {
        let mark = marks.at(self.memory.head() + ahead);
        self.memory.write(ROW_HEADERS, ahead, bytemuck::bytes_of(&mark));
    }
}

/// Row `i` of a column's bytes, whose length was checked.
#[inline]
fn row(bytes: &[u8], width: usize, i: usize) -> &[u8] {
    &bytes[i * width..(i + 1) * width]
}
