//! Writes a row in place: announces it, lends its columns, and then publishes it.

use std::marker::PhantomData;

use backcast_layout::{Column, DType, LaneAlias, Role};

pub use self::commit::Ends;
use super::room::Planned;
use super::rows::LaneStep;
use super::{OwnLane, Writer};
use crate::element::Element;
use crate::error::AppendError;
use crate::schema::USER;
use crate::wait::WhenBlocked;
use crate::writer::step::wrong_column;

mod commit;
#[cfg(test)]
mod tests;

/// The next row of a writer, announced and not published: its columns are written in place.
///
/// [`commit`](Self::commit) publishes it. Dropping it, or a death of the process, leaves no row:
/// the lane goes on with the next append. Until they are written, columns hold what the slot held
/// before.
#[derive(Debug)]
pub struct Reserved<'w> {
    writer: &'w mut Writer,
    /// Whether writes are discarded: a lease left no room, or the row is the final observation of
    /// an episode whose end was dropped.
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
    /// Announces the next row and lends its columns, to be written in place and then committed. The
    /// row is copied only if it cuts an episode. Only for writers of one lane. In next-step mode
    /// the row after an end is the FINAL one, of which only observations count. In the other modes
    /// [`commit_with`](Reserved::commit_with) takes the observation that ends an episode.
    ///
    /// Waits for the rate limiter, and while a lease blocks the row, like [`append`](Self::append).
    /// If the lane policy drops the row, it can be written like any other, and the commit returns
    /// [`RowIndex::NONE`](crate::RowIndex::NONE).
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
        let lanes = self.lanes.len();
        let [lane] = &*self.lanes else { return Err(AppendError::NotReservable { lanes }) };
        let (state, room) = (lane.state(), self.reserved_room());
        self.check_room(0, room)?;
        // Neither the end nor the observation of the row is known yet: plan a row that only
        // continues the lane, and keep room for more. The rate limiter admits this row. The commit
        // counts a FINAL row with it.
        let step = LaneStep { shows_kept: true, ..LaneStep::default() };
        let plan = state.plan(self.mode, step);
        self.pass_limiter(plan.transitions(), WhenBlocked::Wait)?;
        let spare = if plan.count() == 0 { 0 } else { room - plan.count() };
        self.planned.clear();
        self.planned.push(Planned { spare, ..Planned::of(plan) });
        self.make_room(WhenBlocked::Wait)?;
        let nowhere = self.planned.iter().all(|planned| planned.plan.count() == 0);
        self.asked.clear();
        self.asked.resize(self.ring.schema().columns().len(), false);
        Ok(Reserved { writer: self, nowhere })
    }

    /// Returns the maximum number of rows of a reserved row: its own, and the FINAL rows of the
    /// episodes that it cuts and ends.
    fn reserved_room(&self) -> u64 {
        self.lanes.first().map_or(1, |lane| lane.state().max_rows(self.mode))
    }
}

/// A reserved row that is suspended; see [`Reserved::suspend`].
#[derive(Debug)]
pub struct Suspended {
    head: u64,
    nowhere: bool,
}

impl Writer {
    /// Resumes a suspended row. Returns `None` if a row was published since, or if the lane was
    /// relocated.
    pub fn resume(&mut self, row: &Suspended) -> Option<Reserved<'_>> {
        let Suspended { head, nowhere } = *row;
        let room = self.reserved_room();
        let is_there =
            |lane: &OwnLane| lane.memory.head() == head && (nowhere || lane.memory.is_free(room));
        let there = self.lanes.first().is_some_and(is_there);
        there.then_some(Reserved { writer: self, nowhere })
    }

    /// Returns whether an alias maps the current memory of the lane. Only for writers of one lane.
    #[must_use]
    pub fn is_aliased_by(&self, alias: &LaneAlias) -> bool {
        self.lanes.first().is_some_and(|lane| lane.memory.lane().is_aliased_by(alias))
    }

    /// Maps the lane a second time, for [`Reserved::place`]. Only for writers of one lane. `None`
    /// for a private ring, and where the system or the build cannot.
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
    /// writes to the column are discarded, for an alias of another lane, and if there is no such
    /// column.
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

    /// Writes all bytes of column `at` of the row. Fails on any other number of bytes.
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

    /// Returns whether the row is taken as the final observation of an episode that has ended. Its
    /// step columns are discarded, and so are its observations if the end had a `next_obs`.
    #[must_use]
    #[inline]
    pub fn is_final(&self) -> bool {
        self.writer.awaits_final().any(|awaits| awaits)
    }

    /// Returns a column, to be written. A second call returns the same place, as it was left.
    #[inline]
    pub fn column<T: Element>(&mut self, name: &str) -> Result<ColumnMut<'_, T>, AppendError> {
        // The error is made here and not in `find`: a result with room for an error goes through
        // memory, which costs more than a small column.
        let Some((at, items)) = self.find(name, T::DTYPE) else {
            return Err(wrong_column(self.writer.schema(), name, T::DTYPE));
        };
        let nowhere = self.counts_nowhere(at);
        Ok(ColumnMut { writer: self.writer, column: USER + at, items, nowhere, of: PhantomData })
    }

    /// Returns the number of a column and its items, and marks it as written. `None` if no column
    /// has this name and dtype.
    fn find(&mut self, name: &str, dtype: DType) -> Option<(usize, usize)> {
        let mut columns = self.writer.ring.schema().columns().iter().enumerate();
        let (at, column) = columns.find(|(_, column)| column.name() == name)?;
        if column.dtype() != dtype {
            return None;
        }
        *self.writer.asked.get_mut(at)? = true;
        Some((at, column.items()))
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
    /// Returns the number of elements of the column in one row.
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

    /// Writes `element(i)` into each element `i`, without a buffer for the whole row.
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
