//! Validated copies of consecutive rows of one lane.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::{Words, has_moved, still_whole};
use backcast_layout::{Column, Lane};

use crate::element::Element;
use crate::error::{BatchError, ReadError};
use crate::mark::{Mark, PARTS};
use crate::ring::Ring;
use crate::schema::{Schema, USER};

/// A look that finds a lane moved is repeated so often: a ring is not resized that many times
/// meanwhile, but a peer may lie.
pub(crate) const MOVES: u32 = 16;

/// Consecutive rows of one lane, built-in columns included. A private copy.
#[derive(Clone, Debug)]
pub struct Rows {
    schema: Schema,
    lane: u32,
    range: Range<u64>,
    /// One buffer per column, in file order; words, so that every element type is aligned.
    columns: Vec<Vec<u64>>,
}

impl Rows {
    /// Lane and sequence numbers.
    #[must_use]
    pub fn place(&self) -> (u32, Range<u64>) {
        (self.lane, self.range.clone())
    }

    /// Rows copied.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX)
    }

    /// Whether none was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Every column, the built-in `seq`, `episode`, `t`, `flags` first.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        self.schema.all()
    }

    /// A column's bytes: `len * width`, C order.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let at = self.columns().iter().position(|c| c.name() == name)?;
        let width = self.columns().get(at)?.width();
        bytemuck::cast_slice(self.columns.get(at)?).get(..self.len() * width)
    }

    /// A column's elements, row after row.
    pub fn column<T: Element>(&self, name: &str) -> Result<&[T], BatchError> {
        let unknown = || BatchError::UnknownKey {
            key: name.to_owned(),
            known: self.columns().iter().map(|c| c.name().to_owned()).collect(),
        };
        let column = self.columns().iter().find(|c| c.name() == name).ok_or_else(unknown)?;
        let (holds, asked) = (column.dtype(), T::DTYPE);
        let wrong = || BatchError::WrongDType { key: name.to_owned(), holds, asked };
        if holds != asked {
            return Err(wrong());
        }
        let bytes = self.bytes(name).ok_or_else(unknown)?;
        bytemuck::checked::try_cast_slice(bytes).map_err(|_| wrong())
    }
}

impl Ring {
    /// Copies rows of a lane, built-in columns included. One copy; never stops the writer.
    pub fn rows(&self, lane: u32, range: Range<u64>) -> Result<Rows, ReadError> {
        let rows = self.check_readable(lane, &range)?.1;
        let schema = self.schema().clone();
        let widths = schema.all().iter().map(Column::width);
        let mut columns: Vec<_> =
            widths.map(|width| vec![0_u64; (rows * width).div_ceil(8)]).collect();
        let places = columns.iter_mut().zip(schema.all());
        let mut places: Vec<&mut [u8]> = places
            .map(|(words, column)| {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
                bytes.get_mut(..rows * column.width()).unwrap_or_default()
            })
            .collect();
        self.rows_into(lane, range.clone(), &mut places)?;
        let range = range.start..range.end.max(range.start);
        Ok(Rows { schema, lane, range, columns })
    }

    /// Copies rows of a lane into memory of the caller's: a buffer per column, in the order `seq`,
    /// `episode`, `t`, `flags`, then the user's, of `rows * width` bytes each. One copy; never stops
    /// the writer. After an error the buffers hold anything.
    pub fn rows_into(
        &self,
        lane: u32,
        range: Range<u64>,
        out: &mut [&mut [u8]],
    ) -> Result<(), ReadError> {
        let lapped = |done: &Result<(), ReadError>| matches!(done, Err(ReadError::Lapped { .. }));
        self.unless_moved(|| self.rows_once(lane, range.clone(), out), lapped)
    }

    fn rows_once(
        &self,
        lane: u32,
        range: Range<u64>,
        out: &mut [&mut [u8]],
    ) -> Result<(), ReadError> {
        let (memory, _) = self.check_readable(lane, &range)?;
        let expected = copy_columns(&memory, self.schema(), range.clone(), out)?;
        let (from, to) = (range.start, range.end.max(range.start));
        if !expected || !still_whole(&*memory, from) {
            return Err(ReadError::Lapped { lane, from, to });
        }
        Ok(())
    }

    /// The lane's memory, and how many rows of it are asked for, all of which can be read now.
    fn check_readable(
        &self,
        lane: u32,
        range: &Range<u64>,
    ) -> Result<(Arc<Lane>, usize), ReadError> {
        let Some(Look { memory, rows: readable }) = self.look(lane) else {
            return Err(ReadError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        let (from, to) = (range.start, range.end.max(range.start));
        if from < readable.start || to > readable.end {
            let (oldest, head) = (readable.start, readable.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        Ok((memory, usize::try_from(to - from).unwrap_or(usize::MAX)))
    }

    /// What there is to read of a lane now; `None` for a lane the ring lacks.
    pub(crate) fn look(&self, lane: u32) -> Option<Look> {
        let look = || {
            let memory = self.store().lane(lane)?;
            let rows = readable(&memory);
            Some(Look { memory, rows })
        };
        let empty = |found: &Option<Look>| found.as_ref().is_some_and(Look::moved);
        self.unless_moved(look, empty)
    }

    /// Makes an attempt, and makes it again if it failed and lanes have moved to other memory since.
    pub(crate) fn unless_moved<T>(
        &self,
        mut attempt: impl FnMut() -> T,
        failed: impl Fn(&T) -> bool,
    ) -> T {
        let done = attempt();
        if failed(&done) { self.after_moves(done, attempt, failed) } else { done }
    }

    #[cold]
    fn after_moves<T>(
        &self,
        mut done: T,
        mut attempt: impl FnMut() -> T,
        failed: impl Fn(&T) -> bool,
    ) -> T {
        // The first attempt may have been made before another thread of this handle followed a move.
        let mut before = None;
        for _ in 0..MOVES {
            self.follow();
            let lanes = self.store().lanes();
            if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &lanes)) {
                break;
            }
            before = Some(lanes);
            done = attempt();
            if !failed(&done) {
                break;
            }
        }
        done
    }

    /// Maps anew the lanes that a resize moved.
    #[cold]
    pub(crate) fn follow(&self) {
        if let Err(error) = self.store().follow() {
            tracing::warn!(%error, "a lane was moved, and its new memory cannot be had");
        }
    }
}

/// A lane at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) memory: Arc<Lane>,
    /// The rows that can be read.
    pub(crate) rows: Range<u64>,
}

impl Look {
    /// Nothing is there because the lane moved.
    fn moved(&self) -> bool {
        moved(&self.memory, &self.rows)
    }
}

/// The rows of a lane that can be read now. None of a lane that moved.
pub(crate) fn readable(lane: &Lane) -> Range<u64> {
    backcast_layout::protocol::readable(lane, lane.capacity())
}

/// Whether a lane of which these rows can be read moved.
pub(crate) fn moved(lane: &Lane, rows: &Range<u64>) -> bool {
    rows.is_empty() && has_moved(lane)
}

/// Copies rows whose slots are a lane's. Whether every one says that it is the one asked for.
pub(crate) fn copy_columns(
    memory: &Lane,
    schema: &Schema,
    range: Range<u64>,
    out: &mut [&mut [u8]],
) -> Result<bool, ReadError> {
    let columns = schema.all();
    if out.len() != columns.len() {
        return Err(ReadError::BadBufferCount { got: out.len(), expected: columns.len() });
    }
    let (from, to) = (range.start, range.end.max(range.start));
    let rows = usize::try_from(to - from).unwrap_or(usize::MAX);
    for (column, buffer) in columns.iter().zip(&*out) {
        let expected = rows.saturating_mul(column.width());
        if buffer.len() != expected {
            let column = column.name().to_owned();
            return Err(ReadError::BadBuffer { column, got: buffer.len(), expected });
        }
    }
    let (built_in, user) = out.split_at_mut(PARTS.len());
    let expected = copy_marks(memory, from..to, built_in);
    for ((at, column), buffer) in (USER..).zip(schema.columns()).zip(user) {
        memory.copy_out(at, from % memory.slots(), to - from, buffer);
        clean_bools(column.dtype(), buffer);
    }
    Ok(expected)
}

/// Copies the marks of rows to a buffer per part. Whether every row says that it is the one asked
/// for.
fn copy_marks(lane: &Lane, rows: Range<u64>, parts: &mut [&mut [u8]]) -> bool {
    /// Rows at a time: the marks stay in the nearest cache.
    const BLOCK: usize = 256;
    let mut marks = [Mark::default(); BLOCK];
    let mut expected = true;
    for (at, seq) in (0..).step_by(BLOCK).zip(rows.clone().step_by(BLOCK)) {
        let count = usize::try_from(rows.end - seq).unwrap_or(BLOCK).min(BLOCK);
        let Some(marks) = marks.get_mut(..count) else { return false };
        Mark::read_into(lane, seq % lane.slots(), marks);
        expected &= marks.iter().map(|mark| mark.seq).eq(seq..seq + count as u64);
        for (part, buffer) in PARTS.iter().zip(&mut *parts) {
            let width = part.dtype.size();
            let places = buffer.get_mut(at * width..(at + count) * width).unwrap_or_default();
            for (place, mark) in places.chunks_exact_mut(width).zip(&*marks) {
                let bytes = &bytemuck::bytes_of(mark)[part.offset..part.offset + width];
                place.copy_from_slice(bytes);
            }
        }
    }
    expected
}

/// A peer may have stored any byte; a `bool` has two values.
pub(crate) fn clean_bools(dtype: backcast_layout::DType, bytes: &mut [u8]) {
    if dtype == backcast_layout::DType::Bool {
        for byte in bytes {
            *byte = u8::from(*byte != 0);
        }
    }
}
