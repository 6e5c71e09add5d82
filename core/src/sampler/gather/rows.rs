//! Gathers of single rows, regardless of episodes, to chosen places of the caller's memory.

use backcast_layout::protocol::{Words, still_whole};
use backcast_layout::{Column, Lane, WindowSet, WindowSlice};

use crate::error::ReadError;
use crate::index::RowIndex;
use crate::ring::Ring;
use crate::ring::copy_rows::clean_bools;
use crate::ring::lane_inspection::{self, InspectedLane};
use crate::sampler::eligibility::ReadableRanges;
use crate::sampler::plan::ROW_MICRO_BATCH;
use crate::sampler::points::{DrawPoints, Point};
use crate::schema::USER;

/// A user's column to gather, and its destination.
#[derive(Debug)]
pub struct GatherTarget<'a> {
    /// Number of the column in [`Schema::columns`](crate::Schema::columns).
    pub column: usize,
    /// One place of the column's width for each row.
    pub out: &'a mut [u8],
}

/// A row to copy: its place in every output, its lane and its slot.
type Located<'a> = (usize, &'a Lane, u64);

impl Ring {
    /// Copies some columns of single rows of a lane: row `seq` to place `place` of each target, for
    /// every `(place, seq)` of `rows`. Makes one copy per row and column, and never stops the
    /// writer.
    ///
    /// Returns the first sequence number whose copy is valid. Copies of earlier rows may be torn,
    /// or of newer rows.
    ///
    /// # Panics
    /// If a place lies outside a target, like any slice.
    pub fn gather_rows(
        &self,
        lane: u32,
        rows: &[(usize, u64)],
        targets: &mut [GatherTarget<'_>],
    ) -> Result<u64, ReadError> {
        let wanted = rows.iter().map(|(_, seq)| *seq).min().unwrap_or(u64::MAX);
        // Rows of a relocated lane look overwritten in the old memory: retry in the new one.
        let gone = |done: &Result<u64, ReadError>| matches!(done, Ok(whole) if *whole > wanted);
        self.unless_relocated(|| self.gather_rows_once(lane, rows, targets), gone)
    }

    fn gather_rows_once(
        &self,
        lane: u32,
        rows: &[(usize, u64)],
        targets: &mut [GatherTarget<'_>],
    ) -> Result<u64, ReadError> {
        let Some(InspectedLane { memory, rows: readable, .. }) = self.inspect_lane(lane) else {
            return Err(ReadError::NoSuchLane { lane: lane.into(), lanes: self.lanes() });
        };
        if let Some((_, seq)) = rows.iter().find(|(_, seq)| *seq >= readable.end) {
            let (from, to, oldest, head) = (*seq, seq + 1, readable.start, readable.end);
            return Err(ReadError::NotReadable { lane, from, to, oldest, head });
        }
        let slots = memory.slots();
        let located: Vec<Located<'_>> =
            rows.iter().map(|(place, seq)| (*place, &*memory, seq % slots)).collect();
        self.copy_located(&located, targets);
        let oldest = rows.iter().map(|(_, seq)| *seq).min().unwrap_or(readable.start);
        if still_whole(&*memory, oldest) {
            return Ok(oldest);
        }
        Ok(lane_inspection::readable(&memory).start.max(oldest + 1))
    }

    /// Copies some columns of one row for each of `count` items, to the item's place in each
    /// target. `choose` names the row of an item in an attempt, counted from 0. It is called again,
    /// with the next attempt, for items whose rows a writer overwrote. Each attempt chooses the
    /// rows of all such items before it copies any. Items for which it names [`RowIndex::NONE`] are
    /// left out.
    ///
    /// Returns the attempts made, or `None` if some item has no valid copy after `attempts`
    /// attempts. The places of such items hold unspecified bytes.
    ///
    /// # Panics
    /// If a target has fewer places than `count`, like any slice.
    pub fn gather_chosen<E: From<ReadError>>(
        &self,
        count: usize,
        attempts: u32,
        targets: &mut [GatherTarget<'_>],
        choose: impl FnMut(usize, u32) -> Result<RowIndex, E>,
    ) -> Result<Option<u32>, E> {
        self.gather_at_points(count, attempts, targets, choose, &mut DrawPoints::default())
    }

    /// Gathers like [`gather_chosen`](Self::gather_chosen), and marks the points of a draw.
    pub(in crate::sampler) fn gather_at_points<E: From<ReadError>>(
        &self,
        count: usize,
        attempts: u32,
        targets: &mut [GatherTarget<'_>],
        mut choose: impl FnMut(usize, u32) -> Result<RowIndex, E>,
        points: &mut DrawPoints,
    ) -> Result<Option<u32>, E> {
        let mut open: Vec<usize> = (0..count).collect();
        let mut ranges = ReadableRanges::default();
        for attempt in 0..attempts {
            let chosen: Vec<(usize, RowIndex)> = open
                .iter()
                .map(|item| Ok((*item, choose(*item, attempt)?)))
                .collect::<Result<_, E>>()?;
            points.reach(Point::GoalsChosen);
            let lanes = ranges.refresh(self);
            let mut located = Vec::with_capacity(chosen.len());
            open.clear();
            for (item, index) in &chosen {
                if *index == RowIndex::NONE {
                    continue;
                }
                let (number, seq) = (index.lane(), index.seq());
                let at = number as usize;
                let (Some(lane), Some(range)) = (lanes.get(at), ranges.get(at)) else {
                    let lane = number.into();
                    return Err(ReadError::NoSuchLane { lane, lanes: self.lanes() }.into());
                };
                let readable = range.rows();
                if seq >= readable.end && !readable.is_empty() {
                    let (oldest, head) = (readable.start, readable.end);
                    let (lane, from, to) = (number, seq, seq + 1);
                    return Err(ReadError::NotReadable { lane, from, to, oldest, head }.into());
                }
                match range.slot(seq, lane.slots()).filter(|_| readable.contains(&seq)) {
                    Some(slot) => located.push((*item, &**lane, slot)),
                    None => open.push(*item),
                }
            }
            self.copy_located(&located, targets);
            points.reach(Point::GoalsCopied);
            for (item, index) in &chosen {
                let lane = lanes.get(index.lane() as usize);
                if lane.is_some_and(|lane| !still_whole(&**lane, index.seq())) {
                    open.push(*item);
                }
            }
            // An item that was not copied is listed twice if its row was overwritten or its lane
            // relocated.
            open.sort_unstable();
            open.dedup();
            if open.is_empty() {
                return Ok(Some(attempt + 1));
            }
        }
        Ok(None)
    }

    /// Copies rows to their places in every target, micro-batch by micro-batch.
    fn copy_located(&self, rows: &[Located<'_>], targets: &mut [GatherTarget<'_>]) {
        let Some((_, lane, _)) = rows.first() else { return };
        let columns = self.schema().columns();
        let mut targets: Vec<_> = targets
            .iter_mut()
            .filter_map(|GatherTarget { column, out }| {
                let kind = columns.get(*column)?;
                let (column, width) = (USER + *column, Column::width(kind));
                Some((WindowSlice { column, width, first: 0, rows: 1 }, kind.dtype(), &mut **out))
            })
            .collect();
        let slices: Vec<WindowSlice> = targets.iter().map(|(slice, ..)| *slice).collect();
        let empty = WindowSet::<ROW_MICRO_BATCH>::new(lane, 1, slices, []);
        let mut both = [empty.clone(), empty];
        let [mut now, mut next] = both.each_mut();
        let mut micro_batches = rows.chunks(ROW_MICRO_BATCH);
        let mut micro_batch = micro_batches.next().unwrap_or_default();
        let mut regular = select(now, micro_batch);
        while !micro_batch.is_empty() {
            let following = micro_batches.next().unwrap_or_default();
            let next_regular = select(next, following);
            let mut places = [0; ROW_MICRO_BATCH];
            for (place, (at, ..)) in places.iter_mut().zip(micro_batch) {
                *place = *at;
            }
            for (slice, _, out) in &mut targets {
                if !(regular && now.copy_apart(*slice, &places, out)) {
                    copy_scalar(*slice, micro_batch, out);
                }
            }
            (micro_batch, regular) = (following, next_regular);
            std::mem::swap(&mut now, &mut next);
        }
        for (_, dtype, out) in targets {
            // A peer may have stored any byte.
            clean_bools(dtype, out);
        }
    }
}

/// Prefetches some rows. Returns whether all are in lanes with the same columns.
fn select<'a>(windows: &mut WindowSet<'a, ROW_MICRO_BATCH>, rows: &[Located<'a>]) -> bool {
    windows.clear();
    let mut regular = true;
    for (_, lane, slot) in rows {
        regular &= windows.push(lane, *slot);
        windows.prefetch_last();
    }
    regular
}

/// Copies a column row by row, from lanes whose columns lie at different offsets.
#[cold]
fn copy_scalar(slice: WindowSlice, rows: &[Located<'_>], out: &mut [u8]) {
    for (place, lane, slot) in rows {
        let out = &mut out[place * slice.width..][..slice.width];
        lane.copy_out(slice.column, *slot, 1, out);
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
            let columns = StepColumns::of(&schema)
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
            .gather_rows(
                0,
                &[(3, 6), (0, 2), (1, 2)],
                &mut [
                    GatherTarget { column: 1, out: bytemuck::cast_slice_mut(&mut pairs) },
                    GatherTarget { column: 0, out: bytemuck::cast_slice_mut(&mut numbers) },
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
        // Fills each place once, from rows that repeat.
        let rows: Vec<(usize, u64)> = (0..3 * ROW_MICRO_BATCH + 5)
            .map(|n| (n * 37 % (3 * ROW_MICRO_BATCH + 5), readable.end - 1 - n as u64 % 7))
            .collect();
        let mut numbers = vec![0_u32; rows.len()];
        let target = GatherTarget { column: 0, out: bytemuck::cast_slice_mut(&mut numbers) };
        ring.gather_rows(0, &rows, &mut [target]).unwrap();
        for (place, seq) in rows {
            assert_eq!(u64::from(numbers[place]), seq);
        }
    }

    #[test]
    fn rows_that_are_not_there_yet_and_lanes_that_are_not_are_refused() {
        let (ring, _writer) = filled(3);
        let refused = ring.gather_rows(0, &[(0, 2), (1, 3)], &mut []);
        assert_eq!(
            refused.unwrap_err(),
            ReadError::NotReadable { lane: 0, from: 3, to: 4, oldest: 0, head: 3 }
        );
        assert_eq!(
            ring.gather_rows(1, &[], &mut []).unwrap_err(),
            ReadError::NoSuchLane { lane: 1, lanes: 1 }
        );
    }

    #[test]
    fn rows_that_were_overwritten_are_told_from_those_that_are_whole() {
        let (ring, mut writer) = filled(3);
        append(&mut writer, 3..500);
        let mut numbers = [0_u32; 3];
        let rows = [(0, 1), (1, 495), (2, 499)];
        let target = GatherTarget { column: 0, out: bytemuck::cast_slice_mut(&mut numbers) };
        let whole = ring.gather_rows(0, &rows, &mut [target]).unwrap();
        assert!((2..=495).contains(&whole), "{whole}");
        assert_eq!(numbers[1..], [495, 499]);
        assert_ne!(numbers[0], 1);
    }
}
