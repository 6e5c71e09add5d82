//! Validated copies of consecutive rows of one lane.

use std::ops::Range;
use std::sync::Arc;

use backcast_layout::protocol::still_whole;
use backcast_layout::{Column, Lane};

use crate::element::Element;
use crate::error::{BatchError, ReadError};
use crate::ring::Ring;
use crate::ring::copy_rows::copy_columns;
use crate::ring::lane_inspection::{InspectedLane, readable};
use crate::schema::Schema;

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
    /// Returns rows of zeros, or an error if there is no memory for them.
    fn zeroed(schema: &Schema, lane: u32, range: Range<u64>) -> Result<Self, ReadError> {
        let rows = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut columns = Vec::with_capacity(schema.all().len());
        for column in schema.all() {
            let words = rows.saturating_mul(column.width()).div_ceil(8);
            let mut memory: Vec<u64> = Vec::new();
            if memory.try_reserve_exact(words).is_err() {
                let bytes = rows.saturating_mul(schema.row_bytes());
                return Err(ReadError::TooLarge { rows, bytes });
            }
            memory.resize(words, 0);
            columns.push(memory);
        }
        Ok(Self { schema: schema.clone(), lane, range, columns })
    }

    /// Returns the memory of every column, built-in ones first.
    fn buffers(&mut self) -> Vec<&mut [u8]> {
        let rows = self.len();
        let columns = self.columns.iter_mut().zip(self.schema.all());
        let buffers = columns.map(|(words, column)| {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
            bytes.get_mut(..rows * column.width()).unwrap_or_default()
        });
        buffers.collect()
    }

    /// Drops the rows before `first`.
    fn drop_before(&mut self, first: u64) {
        let first = first.clamp(self.range.start, self.range.end);
        let dropped = usize::try_from(first - self.range.start).unwrap_or(usize::MAX);
        if dropped == 0 {
            return;
        }
        let columns: Vec<usize> = self.schema.all().iter().map(Column::width).collect();
        for (buffer, width) in self.buffers().into_iter().zip(columns) {
            buffer.copy_within(dropped * width.., 0);
        }
        self.range.start = first;
    }

    /// Returns lane and sequence numbers.
    #[must_use]
    pub fn place(&self) -> (u32, Range<u64>) {
        (self.lane, self.range.clone())
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX)
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns every column, the built-in `seq`, `episode`, `t`, `flags` first.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        self.schema.all()
    }

    /// Returns the bytes of a column: `len * width`, C order. `None` if there is no such column.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let at = self.columns().iter().position(|c| c.name() == name)?;
        let width = self.columns().get(at)?.width();
        bytemuck::cast_slice(self.columns.get(at)?).get(..self.len() * width)
    }

    /// Returns the elements of a column, row after row.
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
        self.check_readable(lane, &range)?;
        let mut rows = Rows::zeroed(self.schema(), lane, range.start..range.end.max(range.start))?;
        self.rows_into(lane, range, &mut rows.buffers())?;
        Ok(rows)
    }

    /// Copies the rows of a range that were neither overwritten nor dropped, which are the newest
    /// ones. Rows that the writer overwrites during the copy are left out too. One copy; never
    /// stops the writer.
    ///
    /// Returns an error if a row of the range is not published yet.
    pub fn remaining_rows(&self, lane: u32, range: Range<u64>) -> Result<Rows, ReadError> {
        let asked = range.end.saturating_sub(range.start);
        let fewer = |done: &Result<Rows, ReadError>| {
            // A relocation must not look like overwritten rows.
            matches!(done, Ok(rows) if (rows.len() as u64) < asked)
        };
        self.unless_relocated(|| self.remaining_once(lane, range.clone()), fewer)
    }

    fn remaining_once(&self, lane: u32, range: Range<u64>) -> Result<Rows, ReadError> {
        let Some(InspectedLane { memory, rows: readable, .. }) = self.inspect_lane(lane) else {
            return Err(ReadError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        let (from, to) = (range.start, range.end.max(range.start));
        if to > readable.end {
            let (oldest, head) = (readable.start, readable.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        let from = from.max(readable.start).min(to);
        let mut rows = Rows::zeroed(self.schema(), lane, from..to)?;
        copy_columns(&memory, self.schema(), from..to, &mut rows.buffers())?;
        if !still_whole(&*memory, from) {
            let now = self::readable(&memory);
            rows.drop_before(if now.is_empty() { to } else { now.start });
        }
        // Each row holds the requested sequence number, unless a peer broke the protocol.
        let (_, kept) = rows.place();
        if rows.column::<u64>("seq").is_ok_and(|seqs| seqs.iter().copied().eq(kept)) {
            return Ok(rows);
        }
        Err(ReadError::Lapped { lane, from, to })
    }

    /// Copies rows of a lane into buffers of the caller, one per column, in the order `seq`,
    /// `episode`, `t`, `flags`, then the columns of the user. Each has `rows * width` bytes. One
    /// copy; never stops the writer. After an error the buffers hold unspecified bytes.
    pub fn rows_into(
        &self,
        lane: u32,
        range: Range<u64>,
        out: &mut [&mut [u8]],
    ) -> Result<(), ReadError> {
        let lapped = |done: &Result<(), ReadError>| matches!(done, Err(ReadError::Lapped { .. }));
        self.unless_relocated(|| self.rows_once(lane, range.clone(), out), lapped)
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

    /// Returns the memory of the lane and the number of rows, all of which can be read now.
    fn check_readable(
        &self,
        lane: u32,
        range: &Range<u64>,
    ) -> Result<(Arc<Lane>, usize), ReadError> {
        let Some(InspectedLane { memory, rows: readable, .. }) = self.inspect_lane(lane) else {
            return Err(ReadError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        let (from, to) = (range.start, range.end.max(range.start));
        if from < readable.start || to > readable.end {
            let (oldest, head) = (readable.start, readable.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        Ok((memory, usize::try_from(to - from).unwrap_or(usize::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::options::RingOptions;
    use crate::writer::options::WriterOptions;
    use crate::writer::step::StepColumns;
    use backcast_layout::DType;

    #[test]
    fn the_remaining_rows_of_a_range_are_those_that_were_not_overwritten() {
        let schema = Schema::builder().column("reward", DType::F32, &[]).build().unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(10)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for row in 0..25_u8 {
            let reward = [f32::from(row)];
            let columns = StepColumns::of(&schema).with("reward", &reward);
            writer.append(&columns.unwrap().step(&[false], &[false]).unwrap()).unwrap();
        }
        for (asked, expected) in [
            (0..25, 15..25),
            (3..18, 15..18),
            (16..20, 16..20),
            (0..15, 15..15),
            (2..9, 9..9),
            (25..25, 25..25),
        ] {
            let rows = ring.remaining_rows(0, asked).unwrap();
            assert_eq!(rows.place(), (0, expected.clone()));
            let rewards: Vec<f32> =
                expected.map(|row| f32::from(u8::try_from(row).unwrap())).collect();
            assert_eq!(rows.column::<f32>("reward").unwrap(), rewards);
        }
        let refused = ring.remaining_rows(0, 20..26).unwrap_err();
        assert!(matches!(refused, ReadError::NotReadable { head: 25, .. }), "{refused}");
        let refused = ring.remaining_rows(1, 0..1).unwrap_err();
        assert_eq!(refused, ReadError::NoSuchLane { lane: 1, lanes: 1 });
    }

    #[test]
    fn rows_that_are_dropped_leave_the_newer_ones_as_they_were() {
        let schema = Schema::builder().column("x", DType::U8, &[3]).build().unwrap();
        let mut rows = Rows::zeroed(&schema, 0, 7..12).unwrap();
        for (buffer, number) in rows.buffers().into_iter().zip(0_u8..) {
            let values = (0..).map(|at: u8| 40 * number + at);
            buffer.iter_mut().zip(values).for_each(|(byte, value)| *byte = value);
        }
        let before: Vec<Vec<u8>> =
            rows.buffers().into_iter().map(|buffer| buffer.to_vec()).collect();
        rows.drop_before(7);
        assert_eq!(rows.len(), 5);
        rows.drop_before(10);
        assert_eq!(rows.place(), (0, 10..12));
        for ((buffer, before), column) in rows.buffers().into_iter().zip(&before).zip(schema.all())
        {
            assert_eq!(buffer, &before[3 * column.width()..]);
        }
        rows.drop_before(99);
        assert_eq!((rows.place(), rows.is_empty()), ((0, 12..12), true));
    }

    #[test]
    fn every_range_of_kept_rows_is_read_and_no_other() {
        let schema = Schema::builder()
            .column("x", DType::U8, &[3])
            .column("reward", DType::F32, &[])
            .build()
            .unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(10)).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        for row in 0..25_u8 {
            let (x, reward) = ([row, row + 100, 7], [f32::from(row)]);
            let columns = StepColumns::of(&schema).with("x", &x).unwrap();
            let columns = columns.with("reward", &reward).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
        for from in 12..25_u8 {
            for to in from + 1..28 {
                let asked = u64::from(from)..u64::from(to);
                let found = ring.rows(0, asked.clone());
                if from < 15 || to > 25 {
                    let (from, to) = (asked.start, asked.end);
                    let (lane, oldest, head) = (0, 15, 25);
                    let refused = ReadError::NotReadable { lane, from, to, oldest, head };
                    assert_eq!(found.unwrap_err(), refused);
                    continue;
                }
                let rows = found.unwrap();
                assert_eq!(rows.place(), (0, asked.clone()));
                assert_eq!(rows.len(), usize::from(to - from));
                assert!(!rows.is_empty());
                assert!(rows.column::<u64>("seq").unwrap().iter().copied().eq(asked));
                let x: Vec<u8> = (from..to).flat_map(|row| [row, row + 100, 7]).collect();
                assert_eq!(rows.bytes("x"), Some(&x[..]));
                assert_eq!(rows.column::<u8>("x").unwrap(), x);
                let rewards: Vec<f32> = (from..to).map(f32::from).collect();
                assert_eq!(rows.column::<f32>("reward").unwrap(), rewards);
            }
        }
        let rows = ring.rows(0, 20..22).unwrap();
        let names: Vec<&str> = rows.columns().iter().map(Column::name).collect();
        assert_eq!(names, ["seq", "episode", "t", "flags", "x", "reward"]);
        let (holds, asked) = (DType::F32, DType::U32);
        let wrong = BatchError::WrongDType { key: "reward".to_owned(), holds, asked };
        assert_eq!(rows.column::<u32>("reward").unwrap_err(), wrong);
        let known = names.iter().map(|name| (*name).to_owned()).collect();
        let unknown = BatchError::UnknownKey { key: "y".to_owned(), known };
        assert_eq!(rows.column::<u32>("y").unwrap_err(), unknown);
        assert_eq!(rows.bytes("y"), None);
    }
}
