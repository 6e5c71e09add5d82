//! Joins learned values to the rows of a batch.

use super::arena_writer::ArenaWriter;
use crate::index::RowIndex;
use crate::sampler::plan::{ArenaField, Source};
use crate::table::element;

/// Fields of one learned column: its values, and whether they were set.
pub(super) struct LearnedPair<'a> {
    column: usize,
    field: &'a ArenaField,
    values: &'a mut [u8],
    set: &'a mut [u8],
}

impl ArenaWriter<'_> {
    /// Calls `fill` with each learned column of the plan.
    #[inline]
    fn each_learned(&self, arenas: &mut [&mut [u8]], mut fill: impl FnMut(LearnedPair<'_>)) {
        let fields = self.plan.fields().get(self.plan.learned()).unwrap_or_default();
        let arenas = arenas.get_mut(self.plan.learned()).unwrap_or_default();
        for (fields, arenas) in fields.chunks_exact(2).zip(arenas.chunks_exact_mut(2)) {
            let ([field, _], [values, set]) = (fields, arenas) else { continue };
            let Source::Learned(column) = field.source else { continue };
            fill(LearnedPair { column, field, values, set });
        }
    }

    /// Fills the learned values of a micro-batch's items as if all items were regular.
    #[inline(never)]
    pub(super) fn learned_of_micro_batch(
        &self,
        first: usize,
        index: &[i64],
        arenas: &mut [&mut [u8]],
    ) {
        self.each_learned(arenas, |mut pair| {
            for (item, index) in (first..).zip(index) {
                let row = RowIndex(*index);
                let seq = row.seq().wrapping_add_signed(pair.field.first);
                let rows = pair.field.rows;
                self.copy_learned(&mut pair, item, (row.lane(), seq), 0, rows);
            }
        });
    }

    /// Fills the learned values of an item whose rows are `present`: the first place that has a
    /// row, relative to the drawn row, and how many have one.
    pub(super) fn learned_of_item(
        &self,
        item: usize,
        index: RowIndex,
        present: impl Fn(&ArenaField) -> (i64, u64),
        arenas: &mut [&mut [u8]],
    ) {
        self.each_learned(arenas, |mut pair| {
            let (from, rows) = present(pair.field);
            let before = usize::try_from(from - pair.field.first).unwrap_or(0);
            let rows = usize::try_from(rows).unwrap_or(0);
            let seq = index.seq().wrapping_add_signed(from);
            self.copy_learned(&mut pair, item, (index.lane(), seq), before, rows);
        });
    }

    /// Fills an item of a learned column: `rows` rows from `seq` on, in the places from `before`
    /// on. Zeroes the other places. A value and its flag come from one load.
    fn copy_learned(
        &self,
        pair: &mut LearnedPair<'_>,
        item: usize,
        (lane, seq): (u32, u64),
        before: usize,
        rows: usize,
    ) {
        let ArenaField { dtype, width, rows: places, .. } = *pair.field;
        let values = pair.values.get_mut(item * places * width..(item + 1) * places * width);
        let set = pair.set.get_mut(item * places..(item + 1) * places);
        let (Some(values), Some(set)) = (values, set) else { return };
        for (place, (value, set)) in values.chunks_exact_mut(width).zip(set).enumerate() {
            let row = place.checked_sub(before).filter(|row| *row < rows);
            let found = row.zip(self.learned).and_then(|(row, table)| {
                table.get(lane, seq.wrapping_add(row as u64), pair.column)
            });
            let element = element(dtype, found.unwrap_or(0));
            value.copy_from_slice(element.get(..width).unwrap_or_default());
            *set = u8::from(found.is_some());
        }
    }
}
