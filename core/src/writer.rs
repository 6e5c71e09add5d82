//! The writer of some lanes: one step of every lane per append.

mod extend;
mod moves;
mod reserve;

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

pub use self::reserve::{ColumnMut, Reserved, Suspended};
use backcast_layout::protocol::{LaneWriter, MAX_SEQ, ring};
use backcast_layout::{ClaimedLane, Column, Role};

use self::moves::Moves;
use crate::episode::{EpisodeClock, RowMarks, Rows};
use crate::error::{AppendError, HeldLane, WriterError};
use crate::index::RowIndex;
use crate::mark::{MARKS, Mark};
use crate::options::{AutoresetMode, WriterOptions};
use crate::ring::Ring;
use crate::schema::{Schema, USER};
use crate::stall::{Met, Patience, Room, Stall, nap};
use crate::step::Step;

/// A writer that is to have lanes waits so long for a resize that has them, looking so often.
const PATIENCE: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(1);

/// Writes the lanes it has claimed. Dropping it, or the death of the process, frees them.
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
    rows_dropped: u64,
    stall: Option<Stall>,
    moves: Moves,
}

#[derive(Debug)]
struct OwnLane {
    memory: LaneWriter<ClaimedLane>,
    clock: EpisodeClock,
    patience: Patience,
}

/// What an append makes of a lane.
#[derive(Debug)]
struct Planned {
    rows: Rows,
    clock: EpisodeClock,
    /// The lane's rows were announced just now, or are still frozen.
    unsettled: bool,
    /// Rows that the step should have made and that a lease leaves no room for.
    dropped: u64,
}

impl Writer {
    pub(crate) fn new(ring: &Ring, options: WriterOptions) -> Result<Self, WriterError> {
        let since = Instant::now();
        loop {
            let before = (ring.store().is_being_resized(), ring.store().resizes());
            let claimed = Self::claim(ring, options);
            let taken = matches!(claimed, Err(WriterError::LanesTaken { .. }));
            // Whoever resizes holds a lane that nobody writes for as long as it moves it.
            let resized =
                before != (false, ring.store().resizes()) || ring.store().is_being_resized();
            if !taken || !resized || since.elapsed() > PATIENCE {
                return claimed;
            }
            thread::sleep(NAP);
        }
    }

    fn claim(ring: &Ring, options: WriterOptions) -> Result<Self, WriterError> {
        let WriterOptions { lanes: asked, autoreset: mode } = options;
        let count = ring.lanes();
        if asked == 0 {
            return Err(WriterError::NoLanes);
        }
        if ring.is_snapshot() {
            let name = ring.name().map_or("this ring".to_owned(), |name| format!("`{name}`"));
            return Err(WriterError::Snapshot { name });
        }
        if asked > count {
            return Err(WriterError::TooManyLanes { asked, lanes: count });
        }
        // Before the claims, which find the lanes where resizes until then put them.
        let moves = Moves::after(ring.store().resizes());
        // Nobody's claim is counted for a writer that cannot be had.
        let taken = |lane: &u32| ring.store().lane_held(*lane);
        let held: Vec<HeldLane> = (0..count).filter(taken).map(|lane| holder(ring, lane)).collect();
        let free = count - u32::try_from(held.len()).unwrap_or(count);
        if free < asked {
            return Err(WriterError::LanesTaken { asked, free, lanes: count, held });
        }
        let mut lanes = Vec::with_capacity(asked as usize);
        let mut numbers = Vec::with_capacity(asked as usize);
        let mut held = Vec::new();
        let mut damaged = None;
        for number in 0..count {
            if numbers.len() == asked as usize {
                break;
            }
            // Probing is cheap and opens no file.
            let free = !ring.store().lane_held(number);
            let claimed = if free { ring.store().claim_lane(number)? } else { None };
            let Some(claimed) = claimed else {
                held.push(holder(ring, number));
                continue;
            };
            match OwnLane::adopt(claimed, ring.store().spec().reserve_chunk.into()) {
                Ok(lane) => {
                    lanes.push(lane);
                    numbers.push(number);
                }
                Err(source) => damaged = Some(WriterError::Damaged { lane: number, source }),
            }
        }
        if numbers.len() < asked as usize {
            let free = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            return Err(match damaged {
                Some(damaged) if held.is_empty() => damaged,
                _ => WriterError::LanesTaken { asked, free, lanes: count, held },
            });
        }
        let widest = ring.schema().columns().iter().map(Column::width).max().unwrap_or(0);
        Ok(Self {
            ring: ring.clone(),
            mode,
            planned: Vec::with_capacity(lanes.len()),
            indices: Vec::with_capacity(lanes.len()),
            zeros: vec![0; widest],
            asked: Vec::new(),
            numbers,
            lanes,
            rows_written: 0,
            rows_dropped: 0,
            stall: None,
            moves,
        })
    }

    /// Appends one step of every lane and returns the index of each lane's row. In next-step mode
    /// the append after an end is the FINAL row; otherwise an ended lane advances by two rows at
    /// once. One copy, no system call.
    ///
    /// Waits only while a lease is in the way, and as the ring's lane policy says; a lane whose
    /// rows were dropped in the end returns [`RowIndex::NONE`], and its next row is marked GAP.
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
        self.indices.clear();
        if step.final_obs.is_some() || !self.append_plainly(step) {
            self.append_with_care(step, interrupted)?;
        }
        ring(&self.ring.store().published());
        Ok(&self.indices)
    }

    /// The same for whatever step, right or wrong; wakes nobody.
    #[inline(never)]
    fn append_with_care(
        &mut self,
        step: &Step<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        self.check_sizes(step, 1)?;
        self.append_checked(step, interrupted)
    }

    /// Appends a step whose sizes are right, and wakes nobody.
    fn append_checked(
        &mut self,
        step: &Step<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        if self.append_plainly(step) {
            return Ok(());
        }
        self.follow_resize();
        self.plan(step)?;
        self.make_room(interrupted)?;
        self.append_planned(step);
        Ok(())
    }

    /// Appends a step that makes one row on every lane, for which there is room where it is: as most do.
    /// Its final observations are not looked at. `false`: nothing was appended, look more closely.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn append_plainly(&mut self, step: &Step<'_>) -> bool {
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
            let Some(clock) = lane.write_plainly(step, (0, 1)) else { return false };
            self.indices.push(lane.publish_plainly(*number, clock));
        } else {
            let mut lanes = self.lanes.iter().enumerate();
            if !lanes.all(|(i, lane)| lane.write_plainly(step, (i, of)).is_some()) {
                return false;
            }
            let published = self.lanes.iter_mut().zip(&self.numbers).map(|(lane, number)| {
                let mut clock = lane.clock;
                clock.step();
                lane.publish_plainly(*number, clock)
            });
            self.indices.extend(published);
        }
        self.rows_written += of as u64;
        true
    }

    /// Appends what was planned and has room. Cannot fail.
    fn append_planned(&mut self, step: &Step<'_>) {
        let schema = self.ring.schema();
        let lanes = self.lanes.iter_mut().zip(&self.planned).zip(&self.numbers);
        for (i, ((lane, planned), number)) in lanes.enumerate() {
            match planned.rows {
                Rows::Step(marks) => lane.write_step(0, marks, step, i),
                Rows::StepAndFinal(marks, last) => {
                    lane.write_step(0, marks, step, i);
                    let finals = step.final_obs.unwrap_or_default();
                    lane.write_final(schema, 1, last, &self.zeros, finals.iter(), i);
                }
                Rows::Final(marks) => {
                    let obs = schema.columns().iter().zip(step.columns);
                    let finals = obs.filter(|(c, _)| c.role() == Role::Obs).map(|(_, b)| b);
                    lane.write_final(schema, 0, marks, &self.zeros, finals, i);
                }
                Rows::Nothing => {}
            }
            let rows = planned.rows.count();
            lane.clock = planned.clock;
            if rows == 0 {
                self.indices.push(RowIndex::NONE);
                continue;
            }
            self.indices.push(RowIndex::new(*number, lane.memory.head()));
            lane.memory.publish(rows);
            self.rows_written += rows;
        }
    }

    /// Decides what the step makes of each lane, without changing any.
    fn plan(&mut self, step: &Step<'_>) -> Result<(), AppendError> {
        self.planned.clear();
        // A schema without observations has nothing to hand over when a lane ends.
        let observed = self.schema().columns().iter().any(|column| column.role() == Role::Obs);
        for (i, lane) in self.lanes.iter().enumerate() {
            let flag = |flags: &[bool]| flags.get(i).copied().unwrap_or(false);
            let ends = (flag(step.terminated), flag(step.truncated));
            let (rows, clock) = lane.clock.advance(self.mode, ends.0, ends.1);
            if matches!(rows, Rows::StepAndFinal(..)) && step.final_obs.is_none() && observed {
                return Err(AppendError::MissingFinalObs { lane: i, mode: self.mode });
            }
            let head = lane.memory.head();
            if head + rows.count() >= MAX_SEQ {
                return Err(AppendError::LaneWornOut { lane: i, rows: head });
            }
            self.planned.push(Planned { rows, clock, unsettled: false, dropped: 0 });
        }
        Ok(())
    }

    /// Announces the planned rows and sees that no lease freezes their slots.
    fn make_room(&mut self, interrupted: &mut dyn FnMut() -> bool) -> Result<(), AppendError> {
        // Announce all lanes, fence once, then write: a fence per lane would cost more than the
        // rows.
        let mut fence_due = false;
        for (lane, planned) in self.lanes.iter_mut().zip(&mut self.planned) {
            planned.unsettled = lane.memory.reserve(planned.rows.count());
            fence_due |= planned.unsettled;
        }
        let Some(lane) = self.lanes.first().filter(|_| fence_due) else { return Ok(()) };
        if self.ring.store().spec().policy.grants_leases() {
            lane.memory.announced_to_pins();
            if !self.look() {
                return self.wait_for_leases(interrupted);
            }
            return Ok(());
        }
        lane.memory.announced();
        for (lane, planned) in self.lanes.iter_mut().zip(&mut self.planned) {
            // Nobody can freeze anything, so this settles every lane.
            planned.unsettled = !lane.memory.settle(None, planned.rows.count());
        }
        Ok(())
    }

    /// Scans the pins of the lanes that are not settled. `true`: now all are.
    fn look(&mut self) -> bool {
        let store = self.ring.store();
        let lanes = self.lanes.iter_mut().zip(&mut self.planned).zip(&self.numbers);
        let mut settled = true;
        for ((lane, planned), number) in lanes.filter(|((_, planned), _)| planned.unsettled) {
            let rows = planned.rows.count();
            planned.unsettled = !lane.patience.look(store, *number, &mut lane.memory, rows);
            settled &= !planned.unsettled;
        }
        settled
    }

    /// A lease is in the way of some lane: waits for it, drops that lane's rows, or fails.
    #[cold]
    fn wait_for_leases(
        &mut self,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), AppendError> {
        let ring = self.ring.clone();
        let store = ring.store();
        let of = |(lane, planned): (&OwnLane, &Planned)| {
            lane.patience.met().filter(|_| planned.unsettled)
        };
        let mut met: Vec<_> = self.lanes.iter().zip(&self.planned).map(of).collect();
        loop {
            let mut waits = false;
            for (i, number) in self.numbers.iter().copied().enumerate() {
                let (Some(lane), Some(planned)) = (self.lanes.get_mut(i), self.planned.get_mut(i))
                else {
                    continue;
                };
                let Some(Met { pin, .. }) = lane.patience.met().filter(|_| planned.unsettled)
                else {
                    continue;
                };
                if let Some(met) = met.get_mut(i) {
                    *met = lane.patience.met();
                }
                // A holder that died holds no lock; its pins are nobody's.
                if store.reap_reader(pin.slot).unwrap_or(false) {
                    waits = true;
                    continue;
                }
                match lane.patience.decide(store, number)? {
                    Room::There => {}
                    Room::Wait => waits = true,
                    Room::Drop => {
                        planned.dropped = planned.rows.count();
                        planned.rows = Rows::Nothing;
                        planned.clock = lane.clock.without(planned.clock);
                        planned.unsettled = false;
                    }
                }
            }
            if !waits || self.look() {
                break;
            }
            if interrupted() {
                let since = met.iter().flatten().map(|met| met.since.elapsed()).max();
                let waited_ms = since.unwrap_or_default().as_millis();
                return Err(AppendError::Interrupted { waited_ms });
            }
            nap(store, &mut || self.look());
        }
        self.report(&met);
        Ok(())
    }

    /// Counts the leases that were in the way, and keeps the first new one for the warning.
    fn report(&mut self, met: &[Option<Met>]) {
        let store = self.ring.store();
        let lanes = self.lanes.iter_mut().zip(&self.planned).zip(&self.numbers).zip(met);
        for (((lane, planned), number), met) in lanes {
            let Some(met) = *met else { continue };
            lane.memory.lane().count_stall(planned.dropped);
            self.rows_dropped += planned.dropped;
            if let Some(stall) = lane.patience.report(store, *number, met, planned.dropped > 0) {
                tracing::warn!(?stall, "a lease made a writer wait or drop rows");
                self.stall.get_or_insert(stall);
            }
        }
    }

    /// Whether [`take_stall`](Self::take_stall) has something to tell.
    #[must_use]
    pub fn has_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// The lease that made an append wait or drop rows, once per lease: for a warning.
    pub fn take_stall(&mut self) -> Option<Stall> {
        mem::take(&mut self.stall)
    }

    /// Rows that this writer dropped because a lease was in the way.
    #[must_use]
    pub fn rows_dropped(&self) -> u64 {
        self.rows_dropped
    }

    /// The next row of the lanes marked begins a new episode that does not continue the row
    /// before it: for environments that were reset in the middle of an episode.
    pub fn restart(&mut self, lanes: &[bool]) -> Result<(), AppendError> {
        check_flags("lanes", lanes, 1, self.lanes.len())?;
        for (lane, _) in self.lanes.iter_mut().zip(lanes).filter(|(_, marked)| **marked) {
            lane.clock.restart();
        }
        Ok(())
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
        let Some(finals) = step.final_obs else { return Ok(()) };
        if self.mode == AutoresetMode::NextStep {
            return Err(AppendError::UnexpectedFinalObs);
        }
        let obs = || columns.iter().filter(|c| c.role() == Role::Obs);
        if finals.len() != obs().count() {
            let (got, expected) = (finals.len(), obs().count());
            return Err(AppendError::WrongFinalCount { got, expected });
        }
        obs().zip(finals).try_for_each(fits)
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
    fn adopt(
        lane: ClaimedLane,
        chunk: u64,
    ) -> Result<Self, backcast_layout::protocol::ImpossibleCounters> {
        let memory = LaneWriter::adopt(lane, chunk)?;
        let clock = match memory.head() {
            0 => EpisodeClock::fresh(),
            head => EpisodeClock::after(Mark::read(memory.lane(), head - 1).episode),
        };
        Ok(Self { memory, clock, patience: Patience::default() })
    }

    /// Writes row `i` of the `of` that a step has, which ends no episode; returns the clock after it. `None`:
    /// there is no room for a row, or it is the final one's turn, or something does not have the column's size.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn write_plainly(&self, step: &Step<'_>, row: (usize, usize)) -> Option<EpisodeClock> {
        let mut clock = self.clock;
        let slot = self.memory.free_slot().filter(|_| !clock.awaits_final())?;
        let mark = clock.step().at(self.memory.head());
        self.memory.lane().store_row(slot, mark.words(), step.columns, row).then_some(clock)
    }

    /// Publishes it.
    #[expect(clippy::inline_always, reason = "a call costs a tenth of a small row")]
    #[inline(always)]
    fn publish_plainly(&mut self, number: u32, clock: EpisodeClock) -> RowIndex {
        let index = RowIndex::new(number, self.memory.head());
        self.clock = clock;
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
        mut finals: impl Iterator<Item = &'a &'a [u8]>,
        i: usize,
    ) {
        self.write_marks(ahead, marks);
        for (at, column) in schema.columns().iter().enumerate() {
            let width = column.width();
            let bytes = match column.role() {
                Role::Obs => finals.next().map(|bytes| row(bytes, width, i)),
                Role::Step => None,
            };
            self.memory.write(USER + at, ahead, bytes.unwrap_or(row(zeros, width, 0)));
        }
    }

    fn write_marks(&self, ahead: u64, marks: RowMarks) {
        let mark = marks.at(self.memory.head() + ahead);
        self.memory.write(MARKS, ahead, bytemuck::bytes_of(&mark));
    }
}

/// Who holds a lane, as it says.
fn holder(ring: &Ring, lane: u32) -> HeldLane {
    HeldLane { lane, pid: ring.store().lane(lane).map_or(0, |lane| lane.pid()) }
}

/// Row `i` of a column's bytes, whose length was checked.
#[inline]
fn row(bytes: &[u8], width: usize, i: usize) -> &[u8] {
    &bytes[i * width..(i + 1) * width]
}
