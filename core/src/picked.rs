//! Single rows of a lane that stand on their own, wherever they lie: for rows that no episode binds.

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Column, Found, Lane};

use crate::error::ReadError;
use crate::reader::{self, Look, clean_bools};
use crate::ring::Ring;
use crate::schema::USER;

/// A user's column to be copied, by its number in the schema, and one place per row for it.
#[derive(Debug)]
pub struct Pick<'a> {
    /// Number of the column in [`Schema::columns`](crate::Schema::columns).
    pub column: usize,
    /// As many rows of the column's width as places were asked for.
    pub out: &'a mut [u8],
}

/// Rows that are asked for at once, all their columns, while as many before them are copied.
const BLOCK: usize = 32;

impl Ring {
    /// Copies some columns of single rows of a lane: row `seq` to place `place` of each `out`, for
    /// every `(place, seq)` of `rows`. One copy per row and column; never stops the writer.
    ///
    /// Returns the first sequence number whose copy is certainly whole: what was copied of rows
    /// before it may be of newer rows, or of two.
    ///
    /// # Panics
    /// If a place lies outside an `out`, like any slice.
    pub fn pick(
        &self,
        lane: u32,
        rows: &[(usize, u64)],
        picks: &mut [Pick<'_>],
    ) -> Result<u64, ReadError> {
        let wanted = rows.iter().map(|(_, seq)| *seq).min().unwrap_or(u64::MAX);
        // Rows are not gone because their lane moved.
        let gone = |done: &Result<u64, ReadError>| matches!(done, Ok(whole) if *whole > wanted);
        self.unless_moved(|| self.pick_once(lane, rows, picks), gone)
    }

    fn pick_once(
        &self,
        lane: u32,
        rows: &[(usize, u64)],
        picks: &mut [Pick<'_>],
    ) -> Result<u64, ReadError> {
        let Some(Look { memory, rows: readable }) = self.look(lane) else {
            return Err(ReadError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        if let Some((_, seq)) = rows.iter().find(|(_, seq)| *seq >= readable.end) {
            let (from, to, oldest, head) = (*seq, seq + 1, readable.start, readable.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        let slots = memory.slots();
        let rows_at: Vec<(usize, u64)> =
            rows.iter().map(|(place, seq)| (*place, seq % slots)).collect();
        let columns = self.schema().columns();
        let mut picks: Vec<_> = picks
            .iter_mut()
            .filter_map(|Pick { column, out }| Some((*column, columns.get(*column)?, &mut **out)))
            .collect();
        let found_of = |(column, kind, _): &(usize, &Column, _)| {
            Found::<BLOCK>::new(USER + column, 1, Column::width(kind))
        };
        let mut founds = [(); 2].map(|()| picks.iter().map(found_of).collect::<Vec<_>>());
        let [mut now, mut next] = founds.each_mut();
        let mut blocks = rows_at.chunks(BLOCK);
        let mut block = blocks.next().unwrap_or_default();
        find(now, &memory, block);
        while !block.is_empty() {
            let following = blocks.next().unwrap_or_default();
            find(next, &memory, following);
            for (found, (.., out)) in now.iter().zip(&mut picks) {
                found.copy_apart(block.iter().map(|(place, _)| *place), out);
            }
            (block, now, next) = (following, next, now);
        }
        for (_, kind, out) in picks {
            clean_bools(kind.dtype(), out);
        }
        let oldest = rows.iter().map(|(_, seq)| *seq).min().unwrap_or(readable.start);
        if still_whole(&*memory, oldest) {
            return Ok(oldest);
        }
        Ok(reader::readable(&memory).start.max(oldest + 1))
    }
}

/// Finds some rows in every column, and asks for them.
fn find<'a>(founds: &mut [Found<'a, BLOCK>], lane: &'a Lane, block: &[(usize, u64)]) {
    for found in founds {
        found.find(block.iter().map(|(_, slot)| (lane, *slot)));
        found.ask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AutoresetMode, DType, RingOptions, Role, Schema, StepColumns, Writer, WriterOptions,
    };

    fn filled(rows: u32) -> (Ring, Writer) {
        let schema = Schema::builder()
            .column_as("number", DType::U32, &[], Role::Step)
            .column_as("pair", DType::F32, &[2], Role::Step)
            .build()
            .unwrap();
        let ring = Ring::heap(&schema, RingOptions::with_capacity(10)).unwrap();
        let options = WriterOptions::lanes(1).autoreset(AutoresetMode::Disabled);
        let mut writer = ring.writer(options).unwrap();
        append(&mut writer, 0..rows);
        (ring, writer)
    }

    fn append(writer: &mut Writer, numbers: std::ops::Range<u32>) {
        let schema = writer.schema().clone();
        for number in numbers {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let (number, pair) = ([number], [number as f32, -(number as f32)]);
            let mut columns = StepColumns::of(&schema)
                .with("number", &number)
                .unwrap()
                .with("pair", &pair)
                .unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
        }
    }

    #[test]
    fn rows_come_to_the_places_they_were_asked_for_the_newest_too() {
        let (ring, _writer) = filled(7);
        let (mut numbers, mut pairs) = ([9_u32; 4], [9.0_f32; 8]);
        let whole = ring
            .pick(
                0,
                &[(3, 6), (0, 2), (1, 2)],
                &mut [
                    Pick { column: 1, out: bytemuck::cast_slice_mut(&mut pairs) },
                    Pick { column: 0, out: bytemuck::cast_slice_mut(&mut numbers) },
                ],
            )
            .unwrap();
        assert!(whole <= 2);
        assert_eq!(numbers, [2, 2, 9, 6]);
        assert_eq!(
            pairs.map(f32::to_bits),
            [2_f32, -2., 2., -2., 9., 9., 6., -6.].map(f32::to_bits)
        );
    }

    #[test]
    fn many_rows_come_to_their_places_too_in_any_sequence() {
        let (ring, _writer) = filled(90);
        let readable = ring.lane_span(0).unwrap();
        // Each place once, from rows that repeat.
        let rows: Vec<(usize, u64)> = (0..3 * BLOCK + 5)
            .map(|n| (n * 37 % (3 * BLOCK + 5), readable.end - 1 - n as u64 % 7))
            .collect();
        let mut numbers = vec![0_u32; rows.len()];
        let pick = Pick { column: 0, out: bytemuck::cast_slice_mut(&mut numbers) };
        ring.pick(0, &rows, &mut [pick]).unwrap();
        for (place, seq) in rows {
            assert_eq!(u64::from(numbers[place]), seq);
        }
    }

    #[test]
    fn rows_that_are_not_there_yet_and_lanes_that_are_not_are_refused() {
        let (ring, _writer) = filled(3);
        let refused = ring.pick(0, &[(0, 2), (1, 3)], &mut []);
        assert_eq!(
            refused.unwrap_err(),
            ReadError::NotReadable { lane: 0, from: 3, to: 4, oldest: 0, head: 3 }
        );
        assert_eq!(
            ring.pick(1, &[], &mut []).unwrap_err(),
            ReadError::NoSuchLane { lane: 1, lanes: 1 }
        );
    }

    #[test]
    fn rows_that_were_overwritten_are_told_from_those_that_are_whole() {
        let (ring, mut writer) = filled(3);
        append(&mut writer, 3..500);
        let mut numbers = [0_u32; 3];
        let rows = [(0, 1), (1, 495), (2, 499)];
        let pick = Pick { column: 0, out: bytemuck::cast_slice_mut(&mut numbers) };
        let whole = ring.pick(0, &rows, &mut [pick]).unwrap();
        assert!((2..=495).contains(&whole), "{whole}");
        assert_eq!(numbers[1..], [495, 499]);
        assert_ne!(numbers[0], 1);
    }
}
