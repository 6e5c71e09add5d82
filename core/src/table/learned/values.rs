//! Values of learned columns: opened, set by learners, and read by index.

use std::ops::Range;

use backcast_layout::{DType, LearnedColumn, LearnedCounters, LearnedTable, LearnedView};

use super::options::LearnedOptions;
use crate::element::Element;
use crate::error::{BadRowIndex, LearnedError};
use crate::index::{AsRowIndex, RowIndex, numbers};
use crate::ring::Ring;
use crate::table_lock::{LockLimits, locked};

/// Values that learners attach to the rows of a ring, in a table that they share across processes.
///
/// Values are set and read without a lock, by any number of threads and processes. The ring's
/// writers never set them.
#[derive(Clone, Debug)]
pub struct LearnedValues {
    table: LearnedTable,
    ring: Ring,
}

impl Ring {
    /// Opens the table of learned columns that the options name, or creates it. Its columns must be
    /// those it was created with. A new table needs 8 bytes a row and column. It covers as many
    /// rows of each lane as the largest lane keeps now: after the ring has grown, older rows lose
    /// their values to newer ones.
    pub fn learned(&self, options: &LearnedOptions) -> Result<LearnedValues, LearnedError> {
        options.check(self.schema())?;
        let rows = (0..self.lanes()).filter_map(|lane| self.lane_capacity_of(lane)).max();
        let (name, store) = (options.name(), self.store());
        let limits = LockLimits::new(self.interrupt());
        let table = locked(store, name, &limits, || {
            let opened = store.try_learned(name, options.columns(), rows.unwrap_or(0));
            Ok::<_, LearnedError>(opened?)
        })?;
        Ok(LearnedValues { table, ring: self.clone() })
    }

    /// Returns name and columns of a table of learned columns that exists.
    pub fn learned_options(&self, name: &str) -> Result<LearnedOptions, LearnedError> {
        let Some(table) = self.store().learned_table(name)? else {
            let known = self.store().learned_tables().into_iter().map(|table| table.name);
            let known = known.collect();
            return Err(LearnedError::NoTable { table: name.to_owned(), known });
        };
        let columns = table.columns.iter();
        Ok(columns.fold(LearnedOptions::new(name), |options, column| {
            options.column(&column.name, column.dtype)
        }))
    }
}

impl LearnedValues {
    /// Returns the name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        self.table.name()
    }

    /// Returns the columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[LearnedColumn] {
        self.table.columns()
    }

    /// Returns the counters of the table, of all processes together. They count values.
    #[must_use]
    pub fn counters(&self) -> LearnedCounters {
        self.table.counters()
    }

    /// Fails if the table was removed since it was opened. Otherwise makes at most one system call.
    pub(crate) fn check_not_removed(&self) -> Result<(), LearnedError> {
        Ok(self.table.check_not_removed()?)
    }

    /// Returns the words of the table.
    pub(crate) fn view(&self) -> &LearnedView {
        &self.table
    }

    /// Sets the values of rows in a column, and returns how many were dropped because the ring no
    /// longer has their row. Of two values for a row the later one counts. No value is set if an
    /// argument is wrong. O(1) a value, without a lock.
    pub fn update<T: Element>(
        &self,
        column: &str,
        index: &[impl AsRowIndex],
        values: &[T],
    ) -> Result<u64, LearnedError> {
        self.typed::<T>(column)?;
        self.update_bytes(index, &[(column, bytemuck::cast_slice(values))])
    }

    /// Sets the values of rows in several columns, each given as the bytes of its elements. Returns
    /// for how many rows a value was dropped because the ring no longer has the row. No value is
    /// set if an argument is wrong.
    pub fn update_bytes(
        &self,
        index: &[impl AsRowIndex],
        values: &[(&str, &[u8])],
    ) -> Result<u64, LearnedError> {
        let index = numbers(index);
        self.table.check_not_removed()?;
        let rows = self.rows();
        let mut columns = Vec::with_capacity(values.len());
        for (name, bytes) in values {
            let (at, column) = self.column(name)?;
            let size = column.dtype.size();
            if bytes.len() != index.len() * size {
                let (column, indices) = ((*name).to_owned(), index.len());
                let values = bytes.len() / size;
                return Err(LearnedError::WrongCount { column, indices, values });
            }
            columns.push((at, bytes.chunks_exact(size)));
        }
        for (position, index) in index.iter().enumerate() {
            BadRowIndex::check(position, *index, &rows)?;
        }
        let (mut updated, mut stale, mut dropped) = (0, 0, 0);
        for index in index {
            let (lane, seq) = (RowIndex(*index).lane(), RowIndex(*index).seq());
            let kept = is_kept(*index, &rows);
            let mut whole = true;
            for (column, values) in &mut columns {
                let value = values.next().map_or(0, bits);
                if kept && self.table.set(lane, seq, *column, value) {
                    updated += 1;
                } else {
                    (stale, whole) = (stale + 1, false);
                }
            }
            dropped += u64::from(!whole);
        }
        self.table.count(LearnedCounters { updated, stale });
        Ok(dropped)
    }

    /// Returns the values of rows in a column, and which of them were set. Values of rows that the
    /// ring does not have, and values that were never set, are 0.
    pub fn values<T: Element>(
        &self,
        column: &str,
        index: &[impl AsRowIndex],
    ) -> Result<(Vec<T>, Vec<bool>), LearnedError> {
        self.typed::<T>(column)?;
        let (bytes, set) = self.value_bytes(column, index)?;
        let values = bytes.chunks_exact(size_of::<T>());
        let value = |bytes| bytemuck::checked::try_pod_read_unaligned(bytes).ok();
        Ok((values.filter_map(value).collect(), set))
    }

    /// Returns the values of rows in a column as the bytes of its elements, and which of them were
    /// set; see [`values`](Self::values).
    pub fn value_bytes(
        &self,
        column: &str,
        index: &[impl AsRowIndex],
    ) -> Result<(Vec<u8>, Vec<bool>), LearnedError> {
        let index = numbers(index);
        self.table.check_not_removed()?;
        let ((at, column), rows) = (self.column(column)?, self.rows());
        let size = column.dtype.size();
        let (mut bytes, mut set) = (Vec::new(), Vec::with_capacity(index.len()));
        for index in index {
            let row = RowIndex(*index);
            let found = is_kept(*index, &rows).then(|| self.table.get(row.lane(), row.seq(), at));
            let found = found.flatten();
            bytes.extend(element(column.dtype, found.unwrap_or(0)).into_iter().take(size));
            set.push(found.is_some());
        }
        Ok((bytes, set))
    }

    /// Returns the readable rows of every lane.
    pub(super) fn rows(&self) -> Vec<Range<u64>> {
        readable(&self.ring)
    }

    fn column(&self, name: &str) -> Result<(usize, &LearnedColumn), LearnedError> {
        let columns = self.columns();
        columns.iter().enumerate().find(|(_, column)| column.name == name).ok_or_else(|| {
            let (table, column) = (self.table().to_owned(), name.to_owned());
            let known = columns.iter().map(|column| column.name.clone()).collect();
            LearnedError::UnknownColumn { table, column, known }
        })
    }

    fn typed<T: Element>(&self, name: &str) -> Result<(), LearnedError> {
        let (_, column) = self.column(name)?;
        if column.dtype == T::DTYPE {
            return Ok(());
        }
        let (column, holds) = (name.to_owned(), column.dtype);
        Err(LearnedError::WrongDType { column, holds, given: T::DTYPE })
    }
}

/// Returns the readable rows of every lane of a ring.
pub(super) fn readable(ring: &Ring) -> Vec<Range<u64>> {
    let rows = |lane| ring.inspect_lane(lane).map_or(0..0, |found| found.rows);
    (0..ring.lanes()).map(rows).collect()
}

/// Returns whether an index names a row that the ring still has.
fn is_kept(index: i64, rows: &[Range<u64>]) -> bool {
    let row = RowIndex(index);
    let rows = rows.get(row.lane() as usize).filter(|_| index >= 0);
    rows.is_some_and(|rows| rows.contains(&row.seq()))
}

/// Returns the word's half that stands for an element.
fn bits(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    u32::from_le_bytes(word)
}

/// Returns the bytes of an element, and zeros after them.
#[inline]
pub(crate) fn element(dtype: DType, bits: u32) -> [u8; 4] {
    match dtype {
        // A peer may have stored any bits.
        DType::Bool => [u8::from(bits & 0xff != 0), 0, 0, 0],
        _ => bits.to_le_bytes(),
    }
}
