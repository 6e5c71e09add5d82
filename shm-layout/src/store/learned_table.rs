//! Tables of learned columns of a ring: opened, read, changed without a lock, listed, restored.

use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Zeroable;

use super::table_file::{
    HeapTable, Listed, NamedTable, NewTable, OpenTable, TableFile, TableKind, TableName, listed,
    make_unnamed, open_or_make, readable,
};
use crate::error::SegmentError;
use crate::layout::learned_table::{
    LearnedColumn, LearnedColumnRecord, LearnedCounters, LearnedHeader, LearnedMemory,
    LearnedShape, MAX_VALUES, records_end,
};
use crate::layout::table_header::KIND_LEARNED;
use crate::os::mapping::Mapping;
use crate::protocol::learned;
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::UnnamedRing;

/// Words of a table of learned columns.
#[derive(Clone, Debug)]
pub struct LearnedView {
    memory: Arc<LearnedMemory>,
}

/// A table of columns that learners fill, with a value for each of the newest rows of every lane.
///
/// Values are read and set without a lock, by any number of processes.
#[derive(Clone, Debug)]
pub struct LearnedTable {
    view: LearnedView,
    name: Arc<TableName>,
    store: Arc<RingStore>,
}

impl Deref for LearnedTable {
    type Target = LearnedView;

    fn deref(&self) -> &LearnedView {
        &self.view
    }
}

/// Description of a table of learned columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedTableInfo {
    /// Name of the table.
    pub name: String,
    /// Its columns.
    pub columns: Vec<LearnedColumn>,
    /// Bytes of the table.
    pub bytes: u64,
    /// Rows of a lane that can have values.
    pub lane_rows: u64,
    /// Its counters.
    pub counters: LearnedCounters,
}

impl LearnedTable {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// Fails if the table was removed since it was opened. At most one system call if it was not.
    pub fn check_not_removed(&self) -> Result<(), SegmentError> {
        self.name.check(&self.store, &self.view.memory)
    }

    /// Returns its description.
    #[must_use]
    pub fn info(&self) -> LearnedTableInfo {
        info(self.name.name.clone(), &self.view.memory)
    }
}

impl LearnedView {
    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> &[LearnedColumn] {
        &self.memory.shape.columns
    }

    /// Returns the number of rows of a lane that can have values. Two rows that are this many apart
    /// share their words, which belong to the newer one.
    #[must_use]
    pub fn lane_rows(&self) -> u64 {
        self.memory.shape.lane_rows
    }

    /// Sets the value of a row in a column, in one atomic change. Returns `false`, and changes
    /// nothing, if a newer row has its word by now, or the table has no such lane or column. Also
    /// returns `false` if other processes never stop changing the word.
    #[expect(clippy::must_use_candidate, reason = "callers may not care for a newer row")]
    pub fn set(&self, lane: u32, seq: u64, column: usize, value: u32) -> bool {
        let word = self.memory.word(lane, seq, column);
        word.is_some_and(|word| learned::set(word, self.memory.lap(seq), value))
    }

    /// Returns the value of a row in a column, if it was set.
    #[inline]
    #[must_use]
    pub fn get(&self, lane: u32, seq: u64, column: usize) -> Option<u32> {
        let word = self.memory.word(lane, seq, column)?;
        learned::get(word, self.memory.lap(seq))
    }

    /// Adds to the counters.
    pub fn count(&self, more: LearnedCounters) {
        self.memory.count(more);
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> LearnedCounters {
        self.memory.counters()
    }
}

impl RingStore {
    /// Opens a table of learned columns of the ring, or creates it. Returns `None` while another
    /// process creates it: try again. `rows` are the rows of a lane that a new table covers.
    pub fn try_learned(
        self: &Arc<Self>,
        name: &str,
        columns: &[LearnedColumn],
        rows: u64,
    ) -> Result<Option<LearnedTable>, SegmentError> {
        let shape = shape(self.spec().lanes, rows, columns)?;
        let image = |uuid| shape.image(uuid);
        let new = NewTable::<LearnedMemory> { shape: shape.clone(), image: &image };
        let Some(opened) = open_or_make(self, name, &new)? else { return Ok(None) };
        let OpenTable { memory, name, .. } = opened;
        if memory.shape.columns != columns {
            let what = differing(&memory.shape.columns, columns);
            return Err(SegmentError::TableDiffers { table: name.name, what });
        }
        let (view, store) = (LearnedView { memory }, Arc::clone(self));
        Ok(Some(LearnedTable { view, name: Arc::new(name), store }))
    }

    /// Lists the tables of learned columns of the ring, by name. Tables that cannot be opened are
    /// left out.
    #[must_use]
    pub fn learned_tables(&self) -> Vec<LearnedTableInfo> {
        readable(self).map(|(name, memory)| info(name, &memory)).collect()
    }

    /// Lists the tables of learned columns of the ring like
    /// [`learned_tables`](Self::learned_tables), with the error of one that cannot be opened. Fails
    /// if the ring cannot be listed.
    pub fn all_learned_tables(&self) -> Result<Vec<NamedTable<LearnedTableInfo>>, SegmentError> {
        let of_table = |(name, memory): Listed<LearnedMemory>| {
            let info = memory.map(|memory| info(name.clone(), &memory));
            (name, info)
        };
        Ok(listed(self)?.into_iter().map(of_table).collect())
    }

    /// Describes a table of learned columns. Returns `None` if the ring has none of that name, and
    /// the error of one that cannot be opened.
    pub fn learned_table(&self, name: &str) -> Result<Option<LearnedTableInfo>, SegmentError> {
        let found = listed::<LearnedMemory>(self)?.into_iter().find(|(table, _)| table == name);
        let Some((name, opened)) = found else { return Ok(None) };
        Ok(Some(info(name, &*opened?)))
    }
}

impl UnnamedRing<'_> {
    /// Creates a table of learned columns of the ring. `rows` are the rows of a lane that it
    /// covers.
    pub fn learned(
        &self,
        name: &str,
        columns: &[LearnedColumn],
        rows: u64,
    ) -> Result<LearnedView, SegmentError> {
        let shape = shape(self.spec().lanes, rows, columns)?;
        let image = |uuid| shape.image(uuid);
        let memory = make_unnamed(self, name, &NewTable { shape: shape.clone(), image: &image })?;
        Ok(LearnedView { memory })
    }
}

fn info(name: String, memory: &LearnedMemory) -> LearnedTableInfo {
    let LearnedShape { lane_rows, columns, bytes, .. } = memory.shape.clone();
    LearnedTableInfo { name, columns, bytes, lane_rows, counters: memory.counters() }
}

/// Returns the sizes of a table that covers `rows` rows of each lane.
fn shape(lanes: u32, rows: u64, columns: &[LearnedColumn]) -> Result<LearnedShape, SegmentError> {
    LearnedShape::new(lanes, rows, columns).ok_or_else(|| {
        let values = u64::from(lanes).saturating_mul(rows).saturating_mul(columns.len() as u64);
        let remedy = "attach fewer columns, or use a ring of fewer rows";
        SegmentError::Limit { what: "values of a table", value: values, limit: MAX_VALUES, remedy }
    })
}

/// Names the columns of both sides.
fn differing(found: &[LearnedColumn], asked: &[LearnedColumn]) -> String {
    let text = |columns: &[LearnedColumn]| {
        let columns = columns.iter().map(|column| format!("{}: {}", column.name, column.dtype));
        columns.collect::<Vec<_>>().join(", ")
    };
    format!("its columns are ({}), but ({}) were requested", text(found), text(asked))
}

impl TableKind for LearnedMemory {
    const KIND: u32 = KIND_LEARNED;
    type Header = LearnedHeader;
    type Shape = LearnedShape;

    fn check(file: &TableFile<'_>, header: &LearnedHeader) -> Result<LearnedShape, SegmentError> {
        let TableFile { fd, path, ring_uuid, lanes } = *file;
        let columns = header.check(path, ring_uuid, lanes)?;
        let mut records = vec![LearnedColumnRecord::zeroed(); columns];
        let at = records_end(0) as u64;
        let read = rustix::io::pread(fd, bytemuck::cast_slice_mut::<_, u8>(&mut records), at)
            .map_err(|error| SegmentError::io("read", path)(error.into()))?;
        if read < columns * size_of::<LearnedColumnRecord>() {
            return Err(SegmentError::corrupt(path, "its columns are cut short"));
        }
        header.shape(path, &records)
    }

    fn bytes(shape: &LearnedShape) -> u64 {
        shape.bytes
    }

    fn new(map: Mapping, shape: LearnedShape) -> Self {
        Self { map, shape }
    }

    fn into_heap(table: Arc<Self>) -> HeapTable {
        HeapTable::Learned(table)
    }

    fn of_heap(table: &HeapTable) -> Option<Arc<Self>> {
        if let HeapTable::Learned(memory) = table { Some(Arc::clone(memory)) } else { None }
    }
}
