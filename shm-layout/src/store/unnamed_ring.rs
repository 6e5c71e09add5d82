//! Lanes of a ring that has no name yet. Rows of another ring are stored there, and writers later
//! continue after them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::error::SegmentError;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::Lane;
use crate::layout::lane_shape::LaneShapes;
use crate::layout::limiter_table::{LimitCounts, LimiterHeader, LimiterTable};
use crate::os::mapping::Access;
use crate::protocol::{MAX_SEQ, Words};
use crate::store::ring_files::{self, LIM, RingFolder, map_limits};
use crate::store::table_file::HeapTable;

/// A ring that has no name yet.
#[derive(Debug)]
pub struct UnnamedRing<'a> {
    spec: &'a RingSpec,
    geometry: &'a Geometry,
    place: UnnamedMemory<'a>,
}

/// Place of the memory of a ring that has no name yet.
#[derive(Debug)]
pub(crate) enum UnnamedMemory<'a> {
    Files {
        folder: RingFolder<'a>,
        shapes: &'a LaneShapes,
    },
    Heap {
        lanes: &'a [Arc<Lane>],
        limiter: Option<&'a LimiterTable>,
        tables: &'a Mutex<BTreeMap<String, HeapTable>>,
    },
}

impl<'a> UnnamedRing<'a> {
    pub(crate) fn new(
        spec: &'a RingSpec,
        geometry: &'a Geometry,
        place: UnnamedMemory<'a>,
    ) -> Self {
        Self { spec, geometry, place }
    }

    pub(crate) fn place(&self) -> &UnnamedMemory<'a> {
        &self.place
    }

    /// Returns the description of the ring.
    #[must_use]
    pub fn spec(&self) -> &RingSpec {
        self.spec
    }

    /// Returns the sizes of the ring.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.geometry
    }

    /// Opens a lane that will have the rows `rows` and none before them. Returns `None` if the ring
    /// lacks the lane, or the rows do not fit it.
    pub fn lane(&self, lane: u32, rows: Range<u64>) -> Result<Option<UnnamedLane>, SegmentError> {
        let count = rows.end.checked_sub(rows.start);
        let fits = count.is_some_and(|count| count <= self.geometry.slots) && rows.end < MAX_SEQ;
        if lane >= self.spec.lanes || !fits {
            return Ok(None);
        }
        let memory = match &self.place {
            UnnamedMemory::Files { folder, shapes } => {
                let access = Access::ReadWrite;
                let name = ring_files::lane_file(lane);
                let fd = folder.open(&name, access)?;
                Arc::new(ring_files::map_lane(&fd, &folder.path.join(name), shapes, lane, access)?)
            }
            UnnamedMemory::Heap { lanes, .. } => match lanes.get(lane as usize) {
                Some(memory) => Arc::clone(memory),
                None => return Ok(None),
            },
        };
        Ok(UnnamedLane::new(memory, rows))
    }

    /// Sets the counts of the limiter. Does nothing in a ring without a limiter.
    pub fn set_limit_counts(&self, counts: LimitCounts) -> Result<(), SegmentError> {
        match &self.place {
            UnnamedMemory::Files { folder, shapes } => {
                let Some(made) = self.spec.limits else { return Ok(()) };
                let (fd, path) = (folder.open(LIM, Access::ReadWrite)?, folder.path.join(LIM));
                let RingSpec { lanes, reader_slots, .. } = *self.spec;
                let header = LimiterHeader::new(shapes.ring_uuid, lanes, reader_slots, made);
                let bytes = self.geometry.lim_bytes;
                map_limits(&fd, &path, &header, bytes)?.set_counts(counts);
            }
            UnnamedMemory::Heap { limiter, .. } => {
                if let Some(limiter) = limiter {
                    limiter.set_counts(counts);
                }
            }
        }
        Ok(())
    }
}

/// A lane that no other process can see, and the rows that it gets.
#[derive(Debug)]
pub struct UnnamedLane {
    memory: Arc<Lane>,
    rows: Range<u64>,
    /// Next row to be stored.
    next: u64,
}

impl UnnamedLane {
    /// Returns `None` if the memory is mapped read-only.
    fn new(memory: Arc<Lane>, rows: Range<u64>) -> Option<Self> {
        memory.memory().writable().then(|| Self { memory, next: rows.start, rows })
    }

    /// Returns all rows that the lane gets.
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Returns the rows that are still to be stored.
    #[must_use]
    pub fn missing(&self) -> Range<u64> {
        self.next..self.rows.end
    }

    /// Stores the next rows: `columns` has the bytes of every column of the file.
    ///
    /// # Panics
    /// If `rows` exceeds the missing rows, `columns` does not have as many columns as the file, or
    /// a column's length is not that of the rows.
    pub fn store(&mut self, rows: u64, columns: &[&[u8]]) {
        assert!(rows <= self.rows.end - self.next, "{rows} rows are more than are missing");
        assert_eq!(columns.len(), self.memory.columns().len(), "the columns are those of the file");
        let slot = self.next % self.memory.slots();
        for (number, bytes) in columns.iter().enumerate() {
            self.memory.store_rows(number, slot, rows, bytes);
        }
        self.next += rows;
    }

    /// Sets the counters. The rows are readable then, and the next writer of the lane goes on after
    /// them.
    pub fn finish(self) {
        let Range { start, end } = self.rows;
        // The slots of older rows hold other bytes. This value of `reserved` makes those rows
        // unreadable: it announces rows up to a lap after the first one.
        let reserved = if start == 0 { end } else { start + self.memory.slots() };
        self.memory.restore_counters(end, reserved);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::layout::counted;
    use crate::store::ring_store::RingStore;

    use super::*;

    /// Stores a row in an unnamed lane of two columns. Returns whether the lane accepted it.
    fn accepts(columns: &[&[u8]]) -> bool {
        let mut accepted = None;
        let filled = RingStore::heap_filled::<SegmentError>(&counted::spec(&[4, 8], 64), |ring| {
            let mut lane = ring.lane(0, 0..1)?.unwrap();
            accepted = Some(catch_unwind(AssertUnwindSafe(|| lane.store(1, columns))).is_ok());
            assert_eq!(lane.missing().is_empty(), accepted == Some(true));
            Ok(())
        });
        filled.unwrap();
        accepted.unwrap()
    }

    #[test]
    fn a_row_needs_every_column_of_the_file() {
        let (narrow, wide) = ([1; 4], [2; 8]);
        assert!(accepts(&[&narrow, &wide]));
        assert!(!accepts(&[&narrow]), "one column fewer");
        assert!(!accepts(&[&narrow, &wide, &wide]), "one column more");
        assert!(!accepts(&[]));
    }
}
