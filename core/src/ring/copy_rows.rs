//! Copies rows out of the memory of a lane, a buffer per column. The caller validates them.

use std::ops::Range;

use backcast_layout::protocol::Words;
use backcast_layout::{DType, Lane};

use crate::error::ReadError;
use crate::row_header::{PARTS, RowHeader};
use crate::schema::{Schema, USER};

/// Copies rows of a lane, at most as many as it has slots. Returns whether each holds its own
/// sequence number.
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

/// Copies the headers of rows to a buffer per field. Returns whether each holds its own sequence
/// number.
fn copy_marks(lane: &Lane, rows: Range<u64>, parts: &mut [&mut [u8]]) -> bool {
    /// Rows at a time: their headers stay in L1.
    const BLOCK: usize = 256;
    let mut marks = [RowHeader::default(); BLOCK];
    let mut expected = true;
    for (at, seq) in (0..).step_by(BLOCK).zip(rows.clone().step_by(BLOCK)) {
        let count = usize::try_from(rows.end - seq).unwrap_or(BLOCK).min(BLOCK);
        let Some(marks) = marks.get_mut(..count) else { return false };
        RowHeader::read_into(lane, seq % lane.slots(), marks);
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

/// Maps every byte of a `bool` column to 0 or 1: a peer may have stored any byte.
pub(crate) fn clean_bools(dtype: DType, bytes: &mut [u8]) {
    if dtype == DType::Bool {
        for byte in bytes {
            *byte = u8::from(*byte != 0);
        }
    }
}
