//! States of tables of learned columns, to save them and to restore them with their ring.

use std::ops::Range;

use backcast_layout::{LearnedColumn, LearnedTableInfo};

use super::options::LearnedOptions;
use super::values::readable;
use crate::error::{LearnedError, RestoreError};
use crate::ring::Ring;
use crate::ring::restore::Filling;

/// Name of a table, and its state, or the error of reading it.
type Named<T> = (String, Result<T, LearnedError>);

/// Values of a table of learned columns at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedState {
    /// Name of the table.
    pub name: String,
    /// Its columns.
    pub columns: Vec<LearnedColumn>,
    /// Values of each lane.
    pub lanes: Vec<LaneValues>,
}

/// Values of consecutive rows of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneValues {
    /// First row.
    pub first: u64,
    /// For each row, the bits of its value in every column; `None` where no value is set.
    pub values: Vec<Option<u32>>,
}

impl LaneValues {
    /// Returns the rows that have values, in a table with `columns` columns.
    #[must_use]
    pub fn rows(&self, columns: usize) -> Range<u64> {
        let rows = self.values.len().checked_div(columns).unwrap_or(0);
        self.first..self.first.saturating_add(rows as u64)
    }

    /// Drops the values of rows outside of `rows`.
    pub fn keep(&mut self, rows: &Range<u64>, columns: usize) {
        let all = self.rows(columns);
        let kept = all.start.max(rows.start)..all.end.min(rows.end);
        if kept.is_empty() {
            *self = Self { first: rows.start, values: Vec::new() };
            return;
        }
        let at = |row: u64| usize::try_from(row - all.start).unwrap_or(usize::MAX) * columns;
        self.values.truncate(at(kept.end));
        self.values.drain(..at(kept.start));
        self.first = kept.start;
    }
}

impl Ring {
    /// Returns the states of the tables of learned columns, by name. Each is read when the iterator
    /// comes to it. A value that is set meanwhile may be missing. Needs memory for 8 bytes a row
    /// and column. O(rows) a table.
    ///
    /// A table that cannot be opened is listed with its error, and so is one whose kind cannot be
    /// read. Fails if the ring cannot be listed.
    pub fn learned_states(
        &self,
    ) -> Result<impl Iterator<Item = Named<LearnedState>> + '_, LearnedError> {
        let state = |LearnedTableInfo { name, columns, .. }: LearnedTableInfo| {
            let options = columns.iter().fold(LearnedOptions::new(&name), |options, column| {
                options.column(&column.name, column.dtype)
            });
            let learned = self.learned(&options)?;
            let (view, columns) = (learned.view(), learned.columns().to_vec());
            let lanes = (0..).zip(readable(self)).map(|(lane, rows)| {
                let first = rows.start.max(rows.end.saturating_sub(view.lane_rows()));
                let row = |seq| (0..columns.len()).map(move |column| view.get(lane, seq, column));
                LaneValues { first, values: (first..rows.end).flat_map(row).collect() }
            });
            Ok(LearnedState { name, lanes: lanes.collect(), columns })
        };
        let tables = self.store().all_learned_tables()?.into_iter();
        Ok(tables
            .map(move |(name, table)| (name, table.map_err(LearnedError::from).and_then(state))))
    }
}

impl Filling<'_> {
    /// Restores a table of learned columns. Fails if it has values of rows that were not begun.
    /// O(rows).
    ///
    /// ```
    /// use backcast_core::{DType, LearnedOptions, Ring, RingOptions, Schema, StepColumns};
    ///
    /// # use backcast_core::WriterOptions;
    /// # let schema = Schema::builder().column("x", DType::F32, &[]).build()?;
    /// # let ring = Ring::heap(&schema, RingOptions::with_capacity(64))?;
    /// # let mut writer = ring.writer(WriterOptions::lanes(1))?;
    /// # for _ in 0..10 {
    /// #     let columns = StepColumns::of(&schema).with("x", &[0.0_f32])?;
    /// #     writer.append(&columns.step(&[false], &[false])?)?;
    /// # }
    /// let options = LearnedOptions::new("online").column("value", DType::F32);
    /// ring.learned(&options)?.update("value", &[3], &[0.5_f32])?;
    /// let states = ring.learned_states()?.map(|(_, state)| state).collect::<Result<Vec<_>, _>>()?;
    /// let restored = Ring::restore_heap(&schema, ring.options(), |filling| {
    ///     filling.begin(0, 0..10)?;
    /// #   let rows = ring.rows(0, 0..10).unwrap();
    /// #   let columns: Vec<&[u8]> =
    /// #       rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap()).collect();
    ///     filling.rows(0, 10, &columns)?;
    ///     states.iter().try_for_each(|state| filling.learned(state))
    /// })?;
    /// let values = restored.learned(&options)?.values::<f32>("value", &[3, 4])?;
    /// assert_eq!(values, (vec![0.5, 0.0], vec![true, false]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn learned(&mut self, state: &LearnedState) -> Result<(), RestoreError> {
        let LearnedState { name, columns, lanes } = state;
        let bad = |problem: String| RestoreError::BadTable { table: name.clone(), problem };
        let options = columns.iter().fold(LearnedOptions::new(name), |options, column| {
            options.column(&column.name, column.dtype)
        });
        options.check(self.schema()).map_err(|error| bad(error.to_string()))?;
        let (rows, width) = (self.begun(), columns.len());
        if lanes.len() != rows.len() {
            return Err(bad(format!("it has {} lanes, the ring {}", lanes.len(), rows.len())));
        }
        for ((lane, given), rows) in (0..).zip(lanes).zip(&rows) {
            let found: Range<u64> = given.rows(width);
            let is_within = rows.start <= found.start && found.end <= rows.end;
            if !given.values.len().is_multiple_of(width) || !(found.is_empty() || is_within) {
                let problem =
                    format!("lane {lane} has values of rows {}..{}", found.start, found.end);
                return Err(bad(format!("{problem}, the ring {}..{}", rows.start, rows.end)));
            }
        }
        let covered = self.lane_capacity();
        let view = self.unnamed().learned(name, columns, covered)?;
        for (lane, given) in (0..).zip(lanes) {
            for (seq, row) in (given.first..).zip(given.values.chunks_exact(width)) {
                for (column, value) in row.iter().enumerate() {
                    if let Some(value) = value {
                        view.set(lane, seq, column, *value);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_kept_are_those_of_the_rows_that_are_asked_for() {
        let ranges = (0..12_u64).flat_map(|start| (start..13).map(move |end| start..end));
        for (range, first) in ranges.flat_map(|range| [0, 5].map(|first| (range.clone(), first))) {
            for (all, columns) in
                (0..5).flat_map(|len| [1, 2, 3].map(|columns| (first..first + len, columns)))
            {
                let values = |rows: &[u64]| -> Vec<Option<u32>> {
                    let of_row = |row| (0..columns).map(move |at| value(row, at));
                    rows.iter().copied().flat_map(of_row).collect()
                };
                let listed: Vec<u64> = all.clone().collect();
                let mut kept = LaneValues { first, values: values(&listed) };
                assert_eq!(kept.rows(columns), all, "{columns} columns");
                kept.keep(&range, columns);
                let rows: Vec<u64> = all.clone().filter(|row| range.contains(row)).collect();
                let first = rows.first().copied().unwrap_or(range.start);
                let expected = LaneValues { first, values: values(&rows) };
                assert_eq!(kept, expected, "{range:?} of {all:?}, {columns} columns");
            }
        }
        let part = LaneValues { first: 4, values: vec![Some(1); 5] };
        assert_eq!((part.rows(2), part.rows(0)), (4..6, 4..4), "a row has all columns");
    }

    /// Returns a value that tells its row and column, or none for some.
    fn value(row: u64, column: usize) -> Option<u32> {
        let number = 10 * u32::try_from(row).unwrap() + u32::try_from(column).unwrap();
        (!number.is_multiple_of(7)).then_some(number)
    }
}
