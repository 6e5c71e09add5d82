//! Writes a row in place: announced, lent column by column, and then published.

use std::marker::PhantomData;

use backcast_layout::protocol::MAX_SEQ;
use backcast_layout::{Column, DType, LaneAlias, Role};

pub use self::commit::Ends;
use super::Writer;
use super::kept::KeptKind;
use super::plan::Planned;
use crate::autoreset::AutoresetMode;
use crate::element::Element;
use crate::error::AppendError;
use crate::schema::USER;
use crate::wait::WhenBlocked;
use crate::writer::episode_clock::AppendedRows;

mod commit;

/// The next row of a writer, announced and not published: its columns are written in place.
///
/// [`commit`](Self::commit) publishes it. Dropping it, or a death of the process, leaves no row:
/// the lane goes on with the next append. Until they are written, columns hold what the slot held
/// before.
#[derive(Debug)]
pub struct Reserved<'w> {
    writer: &'w mut Writer,
    /// Whether writes are discarded: a lease left no room, or the row has nothing to end.
    nowhere: bool,
}

/// A column of a reserved row.
#[derive(Debug)]
pub struct ColumnMut<'r, T> {
    writer: &'r Writer,
    column: usize,
    items: usize,
    nowhere: bool,
    of: PhantomData<T>,
}

impl Writer {
    /// Announces the next row and lends its columns, to be written in place and then committed,
    /// without any other copy of the row. Only for writers of one lane. In next-step mode the row
    /// after an end is the FINAL one, of which only observations count. In the other modes
    /// [`commit_with`](Reserved::commit_with) takes the observation that ends an episode.
    ///
    /// Waits for the rate limiter, and while a lease blocks the row, like
    /// [`append`](Self::append). If the policy then is to drop the row, it can be written like any
    /// other, and the commit returns [`RowIndex::NONE`](crate::RowIndex::NONE).
    ///
    /// ```
    /// use backcast_core::{DType, Ring, RingOptions, Schema, WriterOptions};
    ///
    /// let schema = Schema::builder().column("obs", DType::F32, &[3]).build()?;
    /// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
    /// let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// let mut row = writer.reserve()?;
    /// let mut obs = row.column::<f32>("obs")?;
    /// obs.write(&[1.0, 2.0])?;
    /// obs.write_at(2, &[3.0])?;
    /// assert_eq!(ring.lane_span(0), Some(0..0));
    /// let index = row.commit(false, false)?;
    /// assert_eq!(index.seq(), 0);
    /// assert_eq!(ring.rows(0, 0..1)?.column::<f32>("obs")?, &[1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&mut self) -> Result<Reserved<'_>, AppendError> {
        self.follow_notices()?;
        let room = self.reserved_room();
        let lanes = self.lanes.len();
        let [lane] = &mut *self.lanes else {
            return Err(AppendError::NotReservable { lanes });
        };
        let head = lane.memory.head();
        if head + room >= MAX_SEQ {
            return Err(AppendError::LaneWornOut { lane: 0, rows: head });
        }
        // The rate limiter lets the row through; a FINAL row that it brings is counted with it.
        let begun = lane.clock.has_begun();
        self.pass_limiter(begun.into(), WhenBlocked::Wait)?;
        let [lane] = &mut *self.lanes else {
            return Err(AppendError::NotReservable { lanes });
        };
        // Whether it ends the episode is not known yet: keep room for that.
        let (rows, clock) = lane.clock.advance(self.mode, false, false);
        let spare = if rows == AppendedRows::Nothing { 0 } else { room - 1 };
        self.planned.clear();
        self.planned.push(Planned { spare, ..Planned::new(rows, clock) });
        self.make_room(WhenBlocked::Wait)?;
        let nowhere = self.planned.iter().all(|planned| planned.rows == AppendedRows::Nothing);
        self.asked.clear();
        self.asked.resize(self.ring.schema().columns().len(), false);
        Ok(Reserved { writer: self, nowhere })
    }

    /// Returns the number of rows that a reserved row may need. They are itself, and the FINAL rows
    /// of an episode that is cut before it and of one that it ends.
    fn reserved_room(&self) -> u64 {
        let waits =
            |lane: &super::OwnLane| lane.kept.kind() == KeptKind::Next && !lane.clock.is_ended();
        let cut = self.lanes.first().is_some_and(waits);
        let ends = self.mode != AutoresetMode::NextStep;
        1 + u64::from(cut) + u64::from(ends)
    }
}

/// A reserved row that is suspended; see [`Reserved::suspend`].
#[derive(Debug)]
pub struct Suspended {
    head: u64,
    nowhere: bool,
}

impl Writer {
    /// Resumes a suspended row. Returns `None` if another row was appended since.
    pub fn resume(&mut self, row: &Suspended) -> Option<Reserved<'_>> {
        let Suspended { head, nowhere } = *row;
        let room = self.reserved_room();
        let is_there = |lane: &super::OwnLane| {
            lane.memory.head() == head && (nowhere || lane.memory.is_free(room))
        };
        let there = self.lanes.first().is_some_and(is_there);
        there.then_some(Reserved { writer: self, nowhere })
    }

    /// Returns whether an alias shows the lane of a writer of one lane, in its current memory.
    #[must_use]
    pub fn is_aliased_by(&self, alias: &LaneAlias) -> bool {
        self.lanes.first().is_some_and(|lane| lane.memory.lane().is_aliased_by(alias))
    }

    /// Maps the lane of a writer of one lane a second time, for [`Reserved::place`]. `None` for a
    /// private ring, and where the system cannot.
    pub fn alias(&self) -> std::io::Result<Option<LaneAlias>> {
        self.lanes.first().map_or(Ok(None), |lane| lane.memory.lane().alias())
    }
}

impl Reserved<'_> {
    /// Releases the writer while foreign code fills the row.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        let head = self.writer.lanes.first().map_or(0, |lane| lane.memory.head());
        Suspended { head, nowhere: self.nowhere }
    }

    /// Returns the address of column `at` of the row in an alias of the lane, for foreign code to
    /// store to. Stores change the ring until the alias is [detached](LaneAlias::detach). `None` if
    /// writes to the column are discarded, and for an alias of another lane.
    #[must_use]
    pub fn place(&mut self, alias: &LaneAlias, at: usize) -> Option<*mut u8> {
        self.writer.asked.get(at)?;
        let nowhere = self.counts_nowhere(at);
        let memory = &self.writer.lanes.first().filter(|_| !nowhere)?.memory;
        if !memory.lane().is_aliased_by(alias) {
            return None;
        }
        let place = alias.address(USER + at, memory.slot())?;
        *self.writer.asked.get_mut(at)? = true;
        Some(place)
    }

    /// Returns the slot of the row, for [`LaneAlias::detach`].
    #[must_use]
    pub fn slot(&self) -> u64 {
        self.writer.lanes.first().map_or(0, |lane| lane.memory.slot())
    }

    /// Writes column `at` of the row from exactly its bytes.
    pub fn write_bytes(&mut self, at: usize, bytes: &[u8]) -> Result<(), AppendError> {
        let columns = self.writer.ring.schema().columns();
        let items = columns.get(at).map_or(0, Column::width);
        if items != bytes.len() || items == 0 {
            return Err(AppendError::BeyondColumn { at: 0, values: bytes.len(), items });
        }
        let nowhere = self.counts_nowhere(at);
        if let Some(lane) = self.writer.lanes.first().filter(|_| !nowhere) {
            lane.memory.write(USER + at, 0, bytes);
        }
        if let Some(asked) = self.writer.asked.get_mut(at) {
            *asked = true;
        }
        Ok(())
    }

    /// Returns whether it is the FINAL row of an episode that ended with the row before. Its
    /// observations are the final ones, and all other columns will be zero.
    #[must_use]
    #[inline]
    pub fn is_final(&self) -> bool {
        self.writer.awaits_final().any(|awaits| awaits)
    }

    /// Returns a column, to be written. A second call returns the same place, as it was left.
    #[inline]
    pub fn column<T: Element>(&mut self, name: &str) -> Result<ColumnMut<'_, T>, AppendError> {
        // Values stay in registers up to here: a result with room for an error goes through memory,
        // which costs more than a small column.
        let Some(at) = self.find(name, T::DTYPE) else {
            return Err(self.not_found(name, T::DTYPE));
        };
        let (items, nowhere) = (self.items(at), self.counts_nowhere(at));
        Ok(ColumnMut { writer: self.writer, column: USER + at, items, nowhere, of: PhantomData })
    }

    /// Returns the number of a column, and marks it as written.
    fn find(&mut self, name: &str, dtype: DType) -> Option<usize> {
        let columns = self.writer.ring.schema().columns();
        let at = columns.iter().position(|column| column.name() == name)?;
        columns.get(at).filter(|column| column.dtype() == dtype)?;
        *self.writer.asked.get_mut(at)? = true;
        Some(at)
    }

    fn items(&self, at: usize) -> usize {
        self.writer.ring.schema().columns().get(at).map_or(0, Column::items)
    }

    /// Returns why a column was not found.
    #[cold]
    fn not_found(&self, name: &str, got: DType) -> AppendError {
        let (name, columns) = (name.to_owned(), self.writer.ring.schema().columns());
        if let Some(column) = columns.iter().find(|column| *column.name() == name) {
            return AppendError::WrongDType { name, expected: column.dtype(), got };
        }
        let known = columns.iter().map(|column| column.name().to_owned()).collect();
        AppendError::UnknownColumn { name, known }
    }

    /// Returns whether writes to a column are discarded.
    #[inline]
    fn counts_nowhere(&self, at: usize) -> bool {
        let of_steps = |column: &Column| column.role() == Role::Step;
        let columns = self.writer.ring.schema().columns();
        self.nowhere || (self.is_final() && columns.get(at).is_some_and(of_steps))
    }

    /// Abandons the row, and the lane continues without it.
    pub fn abort(self) {}
}

impl<T: Element> ColumnMut<'_, T> {
    /// Returns the elements of the row.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items
    }

    /// Returns whether the column has no element, which is never the case.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Writes the first elements.
    #[inline]
    pub fn write(&mut self, values: &[T]) -> Result<(), AppendError> {
        self.write_at(0, values)
    }

    /// Writes elements from number `at` on.
    #[inline]
    pub fn write_at(&mut self, at: usize, values: &[T]) -> Result<(), AppendError> {
        if at.checked_add(values.len()).is_none_or(|end| end > self.items) {
            let (values, items) = (values.len(), self.items);
            return Err(AppendError::BeyondColumn { at, values, items });
        }
        if let Some(lane) = self.writer.lanes.first().filter(|_| !self.nowhere) {
            let bytes = bytemuck::cast_slice(values);
            let (width, at) = (self.items * size_of::<T>(), at * size_of::<T>());
            lane.memory.write_part(self.column, 0, width, at, bytes);
        }
        Ok(())
    }

    /// Writes the results of `element` for each number, without a buffer for the row.
    pub fn write_with(&mut self, mut element: impl FnMut(usize) -> T) {
        const CHUNK: usize = 64;
        for at in (0..self.items).step_by(CHUNK) {
            let mut values = [element(at); CHUNK];
            let values = &mut values[..CHUNK.min(self.items - at)];
            let others = values.iter_mut().zip(at..).skip(1);
            others.for_each(|(value, number)| *value = element(number));
            // The values fit the row.
            let _ = self.write_at(at, values);
        }
    }

    /// Writes one value into every element.
    pub fn fill(&mut self, value: T) {
        self.write_with(|_| value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backcast_layout::LanePolicy;

    use super::*;
    use crate::{
        FINAL, GAP, ReadError, Ring, RingOptions, RowIndex, Schema, StepColumns, WriterOptions,
    };

    fn ring(policy: LanePolicy) -> Ring {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[5])
            .column("pixels", DType::U8, &[7])
            .column("action", DType::I64, &[])
            .build()
            .unwrap();
        Ring::heap(&schema, RingOptions::with_capacity(40).lane_policy(policy)).unwrap()
    }

    fn contents(ring: &Ring) -> Vec<Vec<u8>> {
        let rows = ring.rows(0, ring.lane_span(0).unwrap()).unwrap();
        rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap().to_vec()).collect()
    }

    fn obs(step: u8) -> [f32; 5] {
        [0.0, 1.0, 2.0, 3.0, 4.0].map(|at: f32| at + 10.0 * f32::from(step))
    }

    fn append(writer: &mut Writer, step: u8, end: (bool, bool)) -> RowIndex {
        let (obs, pixels, action) = (obs(step), [step; 7], [i64::from(step)]);
        let schema = writer.schema().clone();
        let columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
        let columns = columns.with("pixels", &pixels).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[end.0], &[end.1]).unwrap()).unwrap()[0]
    }

    fn fill(row: &mut Reserved<'_>, step: u8) {
        let mut column = row.column("obs").unwrap();
        column.write_at(2, &obs(step)[2..]).unwrap();
        column.write(&obs(step)[..2]).unwrap();
        row.column("pixels").unwrap().fill(step);
        row.column("obs").unwrap().write_with(|at| obs(step)[at]);
        row.column("action").unwrap().write(&[i64::from(step)]).unwrap();
    }

    #[test]
    fn rows_written_in_place_are_those_that_appends_make() {
        let [appended, reserved] = [(); 2].map(|()| ring(LanePolicy::default()));
        let [mut one, mut other] = [&appended, &reserved].map(|ring| {
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap()
        });
        // Two laps, with abandoned rows in between and all kinds of ends.
        for step in 0..150_u8 {
            let end = (step % 7 == 6, step % 11 == 10);
            if step % 5 == 0 {
                let mut row = other.reserve().unwrap();
                row.column("obs").unwrap().fill(f32::NAN);
            }
            let index = append(&mut one, step, end);
            let mut row = other.reserve().unwrap();
            fill(&mut row, step);
            assert_eq!(row.commit(end.0, end.1).unwrap(), index);
            assert_eq!(reserved.lane_span(0), appended.lane_span(0));
        }
        assert_eq!(contents(&reserved), contents(&appended));
        assert_eq!(other.rows_written(), one.rows_written());
        // Appends and reserved rows take turns.
        append(&mut one, 7, (false, false));
        append(&mut other, 7, (false, false));
        assert_eq!(contents(&reserved), contents(&appended));
    }

    #[test]
    fn a_reserved_row_is_invisible_before_its_commit() {
        let ring = ring(LanePolicy::default());
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for step in 0..200 {
            append(&mut writer, step, (false, false));
        }
        let before = ring.lane_span(0).unwrap();
        let oldest = before.end - ring.slots();
        let mut row = writer.reserve().unwrap();
        fill(&mut row, 9);
        assert_eq!(ring.lane_span(0).unwrap().end, before.end);
        let old = ring.rows(0, oldest..oldest + 1);
        assert!(matches!(old, Err(ReadError::NotReadable { .. } | ReadError::Lapped { .. })));
        row.abort();
        assert_eq!(ring.lane_span(0).unwrap().end, before.end);
        append(&mut writer, 1, (false, false));
        let last = ring.rows(0, before.end..before.end + 1).unwrap();
        assert_eq!(last.column::<f32>("obs").unwrap(), obs(1));
        assert_eq!(last.column::<u32>("flags").unwrap(), [0]);
    }

    #[test]
    fn of_a_final_row_only_observations_count() {
        let ring = ring(LanePolicy::default());
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        append(&mut writer, 1, (true, false));
        let mut row = writer.reserve().unwrap();
        assert!(row.is_final());
        row.column("obs").unwrap().write(&obs(2)).unwrap();
        row.column("pixels").unwrap().fill(2_u8);
        // Not an observation: it may be left unwritten, and writes to it are discarded.
        row.column("action").unwrap().write(&[5_i64]).unwrap();
        row.commit(true, true).unwrap();
        let rows = ring.rows(0, 0..2).unwrap();
        assert_eq!(rows.column::<u32>("flags").unwrap(), [1, FINAL]);
        assert_eq!(rows.column::<i64>("action").unwrap(), [1, 0]);
        assert!(!writer.reserve().unwrap().is_final());
    }

    #[test]
    fn an_end_without_observations_has_room_for_its_final_row() {
        let schema = Schema::builder().column("action", DType::I64, &[]).build().unwrap();
        for mode in [AutoresetMode::SameStep, AutoresetMode::Disabled] {
            let ring = Ring::heap(&schema, RingOptions::with_capacity(40)).unwrap();
            let mut writer = ring.writer(WriterOptions::lanes(1).autoreset(mode)).unwrap();
            // The ends have odd sequence numbers, so one is the last row of a reserve chunk.
            for step in 0..60 {
                let mut row = writer.reserve().unwrap();
                row.column("action").unwrap().write(&[1_i64]).unwrap();
                row.commit(step > 0, false).unwrap();
            }
            assert_eq!(writer.rows_written(), 119, "{mode}");
        }
    }

    #[test]
    fn a_lease_in_the_way_is_honoured_as_by_an_append() {
        for policy in [LanePolicy::DropNew, LanePolicy::Fail, LanePolicy::Block(Duration::ZERO)] {
            let ring = ring(policy);
            let mut writer =
                ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
            for step in 0..200 {
                append(&mut writer, step, (false, false));
            }
            let span = ring.lane_span(0).unwrap();
            let lease = ring.lease(0, span.start..span.start + 1).unwrap();
            let mut leased = [0_u8; 20];
            assert!(lease.copy_row(4, 0, &mut leased));
            let mut dropped = 0;
            for step in 0..40_u8 {
                match writer.reserve() {
                    Ok(mut row) => {
                        fill(&mut row, step);
                        dropped += u32::from(row.commit(false, false).unwrap() == RowIndex::NONE);
                    }
                    Err(error) => {
                        assert!(matches!(error, AppendError::Leased { .. }), "{error}");
                        dropped += 1;
                    }
                }
            }
            assert!(dropped > 0, "{policy}: the lease was in the way");
            let mut after = [1_u8; 20];
            assert!(lease.copy_row(4, 0, &mut after) && after == leased, "{policy}: frozen");
            drop(lease);
            let mut row = writer.reserve().unwrap();
            fill(&mut row, 3);
            let seq = row.commit(false, false).unwrap().seq();
            let flags =
                ring.rows(0, seq..seq + 1).unwrap().column::<u32>("flags").unwrap().to_vec();
            let gap = if policy == LanePolicy::Fail { 0 } else { GAP };
            assert_eq!(flags, [gap], "{policy}");
        }
    }

    #[test]
    fn refused_reservations_say_why_and_leave_no_row() {
        let ring = ring(LanePolicy::default());
        let two = Ring::heap(ring.schema(), RingOptions::with_capacity(40).lanes(2)).unwrap();
        let mut both =
            two.writer(WriterOptions::lanes(2).autoreset(AutoresetMode::NextStep)).unwrap();
        let refused = both.reserve().unwrap_err().to_string();
        assert!(refused.contains("this one has 2"), "{refused}");
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        let mut row = writer.reserve().unwrap();
        for (error, says) in [
            (row.column::<f32>("obz").unwrap_err(), "`obz`"),
            (row.column::<f64>("obs").unwrap_err(), "f4"),
            (
                row.column::<f32>("obs").unwrap().write(&[0.0; 6]).unwrap_err(),
                "6 elements from element 0",
            ),
            (row.column("obs").unwrap().write_at(3, &obs(0)[..3]).unwrap_err(), "column of 5"),
            (row.column("obs").unwrap().write_at(usize::MAX, &obs(0)).unwrap_err(), "fewer"),
            (row.commit(false, false).unwrap_err(), "`pixels` of the reserved row was not written"),
        ] {
            assert!(error.to_string().contains(says), "{error} lacks {says}");
        }
        assert_eq!(ring.lane_span(0), Some(0..0));
    }
}
