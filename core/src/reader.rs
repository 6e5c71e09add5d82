//! Validated copies of consecutive rows of one lane.

use std::ops::Range;

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Column, Lane};

use crate::element::Element;
use crate::error::{BatchError, ReadError};
use crate::mark::{Mark, PARTS, Part};
use crate::ring::Ring;
use crate::schema::{Schema, USER};

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
        let Some(memory) = self.store().lane(lane) else {
            return Err(ReadError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        let readable = self.readable(memory);
        let (from, to) = (range.start, range.end.max(range.start));
        if from < readable.start || to > readable.end {
            let (oldest, head) = (readable.start, readable.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        let (slot, count) = (from % memory.slots(), to - from);
        let rows = usize::try_from(count).unwrap_or(usize::MAX);
        let mut marks = vec![Mark::default(); rows];
        Mark::read_into(&**memory, slot, &mut marks);
        let mut columns: Vec<_> = PARTS.into_iter().map(|part| taken(&marks, part)).collect();
        for (at, column) in (USER..).zip(self.schema().columns()) {
            columns.push(words(rows * column.width(), |buffer| {
                memory.copy_out(at, slot, count, buffer);
                clean_bools(column.dtype(), buffer);
            }));
        }
        let expected = marks.iter().map(|mark| mark.seq).eq(from..to);
        if !expected || !still_whole(&**memory, from) {
            return Err(ReadError::Lapped { lane, from, to });
        }
        Ok(Rows { schema: self.schema().clone(), lane, range: from..to, columns })
    }

    pub(crate) fn readable(&self, lane: &Lane) -> Range<u64> {
        backcast_layout::protocol::readable(lane, self.lane_capacity())
    }
}

/// One built-in column of some rows.
fn taken(marks: &[Mark], part: Part) -> Vec<u64> {
    let width = part.dtype.size();
    words(marks.len() * width, |buffer| {
        for (place, mark) in buffer.chunks_exact_mut(width).zip(marks) {
            place.copy_from_slice(&bytemuck::bytes_of(mark)[part.offset..part.offset + width]);
        }
    })
}

/// So many bytes, aligned for every element type.
fn words(bytes: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u64> {
    let mut words = vec![0_u64; bytes.div_ceil(8)];
    if let Some(buffer) = bytemuck::cast_slice_mut(&mut words).get_mut(..bytes) {
        fill(buffer);
    }
    words
}

/// A peer may have stored any byte; a `bool` has two values.
pub(crate) fn clean_bools(dtype: backcast_layout::DType, bytes: &mut [u8]) {
    if dtype == backcast_layout::DType::Bool {
        for byte in bytes {
            *byte = u8::from(*byte != 0);
        }
    }
}
