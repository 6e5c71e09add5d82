//! Tables of learned columns of a ring: opened, read, changed without a lock, listed, restored.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use bytemuck::Zeroable;

use super::table_file::{
    HeapTable, check_kind, file_name, is_there, listed, make, open_lock, read_header,
};
use crate::error::SegmentError;
use crate::layout::learned_table::{
    KIND_LEARNED, LearnedColumn, LearnedColumnRecord, LearnedCounters, LearnedHeader,
    LearnedMemory, LearnedShape, MAX_VALUES, records_end,
};
use crate::layout::names::check_name;
use crate::os::mapping::{Access, Mapping};
use crate::os::{files, space};
use crate::protocol::learned;
use crate::store::object::Object;
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::{UnnamedMemory, UnnamedRing};

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
    name: String,
    _store: Arc<RingStore>,
}

impl Deref for LearnedTable {
    type Target = LearnedView;

    fn deref(&self) -> &LearnedView {
        &self.view
    }
}

/// A table of learned columns as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedTableInfo {
    /// Name of the table.
    pub name: String,
    /// Its columns.
    pub columns: Vec<LearnedColumn>,
    /// Bytes of its file.
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
        &self.name
    }

    /// Returns its description.
    #[must_use]
    pub fn info(&self) -> LearnedTableInfo {
        info(self.name.clone(), &self.view.memory)
    }
}

impl LearnedView {
    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> &[LearnedColumn] {
        &self.memory.shape.columns
    }

    /// Returns the rows of a lane that can have values: of two rows that many apart, the newer one
    /// has the words of both.
    #[must_use]
    pub fn lane_rows(&self) -> u64 {
        self.memory.shape.lane_rows
    }

    /// Sets the value of a row in a column, in one atomic change. Returns `false`, and changes
    /// nothing, if a newer row has its word by now, or the table has no such lane or column.
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
        check_name(name)?;
        let lanes = self.spec().lanes;
        let shape = shape(lanes, rows, columns)?;
        let memory = match self.object() {
            None => {
                let find = |table: &HeapTable| match table {
                    HeapTable::Learned(memory) => Some(Arc::clone(memory)),
                    HeapTable::Priorities(_) | HeapTable::Claims(_) => None,
                };
                let make = || heap(&shape);
                self.heap_table((name, KIND_LEARNED), find, HeapTable::Learned, make)?
            }
            Some(object) => {
                let lock = open_lock(object)?;
                if !is_there(object, &lock, name, &[&shape.image(self.uuid())], shape.bytes)? {
                    return Ok(None);
                }
                Arc::new(open(object, name, self.uuid(), lanes)?)
            }
        };
        if memory.shape.columns != columns {
            let what = differing(&memory.shape.columns, columns);
            return Err(SegmentError::TableDiffers { table: name.to_owned(), what });
        }
        let (view, store) = (LearnedView { memory }, Arc::clone(self));
        Ok(Some(LearnedTable { view, name: name.to_owned(), _store: store }))
    }

    /// Lists the tables of learned columns of the ring, by name. Tables that cannot be opened are
    /// left out.
    #[must_use]
    pub fn learned_tables(&self) -> Vec<LearnedTableInfo> {
        self.each_learned().into_iter().filter_map(Result::ok).collect()
    }

    /// Lists the tables like [`learned_tables`](Self::learned_tables), or returns the error of one
    /// that cannot be opened.
    pub fn whole_learned_tables(&self) -> Result<Vec<LearnedTableInfo>, SegmentError> {
        self.each_learned().into_iter().collect()
    }

    fn each_learned(&self) -> Vec<Result<LearnedTableInfo, SegmentError>> {
        let (uuid, lanes) = (self.uuid(), self.spec().lanes);
        let of_heap = |table| match table {
            HeapTable::Learned(memory) => Some(memory),
            HeapTable::Priorities(_) | HeapTable::Claims(_) => None,
        };
        let tables = listed(self, of_heap, |object, name| open(object, name, uuid, lanes));
        let info = |(name, memory): (String, Arc<LearnedMemory>)| info(name, &memory);
        tables.into_iter().map(|table| table.map(info)).collect()
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
        check_name(name)?;
        let lanes = self.spec().lanes;
        let shape = shape(lanes, rows, columns)?;
        let memory = match self.place() {
            UnnamedMemory::Heap { tables, .. } => {
                let memory = Arc::new(heap(&shape)?);
                let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
                tables.insert(name.to_owned(), HeapTable::Learned(Arc::clone(&memory)));
                memory
            }
            UnnamedMemory::Files { folder, shapes } => {
                let (uuid, file) = (shapes.ring_uuid, file_name(name));
                make(folder.dir, folder.path, name, &[&shape.image(uuid)], shape.bytes)?;
                let fd = files::open(folder.dir, &file, folder.path, Access::ReadWrite, None)?;
                Arc::new(map(fd.as_fd(), &folder.path.join(file), uuid, lanes)?)
            }
        };
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

/// Creates a table in private memory.
fn heap(shape: &LearnedShape) -> Result<LearnedMemory, SegmentError> {
    let len = usize::try_from(shape.bytes).unwrap_or(usize::MAX);
    let map = space::private_memory(shape.bytes, || Mapping::heap(len))?;
    let image = shape.image([0; 16]);
    let words = map.words64(0, image.len() / size_of::<u64>()).unwrap_or_default();
    for (word, bytes) in words.iter().zip(image.chunks_exact(size_of::<u64>())) {
        let value = bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        word.store(value, Relaxed);
    }
    Ok(LearnedMemory { map, shape: shape.clone() })
}

/// Opens and maps a table.
fn open(
    object: &Object,
    name: &str,
    ring_uuid: [u8; 16],
    lanes: u32,
) -> Result<LearnedMemory, SegmentError> {
    let file = file_name(name);
    let fd = object.file(&file, Access::ReadWrite, None)?;
    map(fd.as_fd(), &object.path().join(file), ring_uuid, lanes)
}

/// Maps a table, whose header and records must be right in every byte.
fn map(
    fd: BorrowedFd<'_>,
    path: &Path,
    ring_uuid: [u8; 16],
    lanes: u32,
) -> Result<LearnedMemory, SegmentError> {
    let (header, bytes) = read_header::<LearnedHeader>(fd, path)?;
    check_kind(path, header.magic, header.kind, KIND_LEARNED)?;
    let columns = header.check(path, ring_uuid, lanes)?;
    let mut records = vec![LearnedColumnRecord::zeroed(); columns];
    let at = records_end(0) as u64;
    let read = rustix::io::pread(fd, bytemuck::cast_slice_mut::<_, u8>(&mut records), at)
        .map_err(|error| SegmentError::io("read", path)(error.into()))?;
    if read < columns * size_of::<LearnedColumnRecord>() {
        return Err(SegmentError::corrupt(path, format!("it has {bytes} bytes, too few")));
    }
    let shape = header.shape(path, &records)?;
    if bytes != shape.bytes {
        let what = format!("it has {bytes} bytes, not {}", shape.bytes);
        return Err(SegmentError::corrupt(path, what));
    }
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let map = Mapping::file(fd, len, Access::ReadWrite);
    let map = map.map_err(SegmentError::io("map", path))?;
    Ok(LearnedMemory { map, shape })
}
