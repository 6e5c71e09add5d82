//! A ring's lanes before anybody can see them: rows that another ring had are put there, and the
//! lane then goes on where that one stopped.

use std::ops::Range;
use std::sync::Arc;

use crate::error::SegmentError;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::Lane;
use crate::layout::lane_shape::Shapes;
use crate::os::mapping::Access;
use crate::protocol::{MAX_SEQ, Words};
use crate::store::ring_files::{self, Folder};

/// A ring that has no name yet.
#[derive(Debug)]
pub struct UnnamedRing<'a> {
    spec: &'a RingSpec,
    geometry: &'a Geometry,
    place: Place<'a>,
}

#[derive(Debug)]
enum Place<'a> {
    Files { folder: Folder<'a>, shapes: &'a Shapes },
    Heap(&'a [Arc<Lane>]),
}

impl<'a> UnnamedRing<'a> {
    pub(crate) fn of_files(
        spec: &'a RingSpec,
        geometry: &'a Geometry,
        folder: Folder<'a>,
        shapes: &'a Shapes,
    ) -> Self {
        Self { spec, geometry, place: Place::Files { folder, shapes } }
    }

    pub(crate) fn of_heap(
        spec: &'a RingSpec,
        geometry: &'a Geometry,
        lanes: &'a [Arc<Lane>],
    ) -> Self {
        Self { spec, geometry, place: Place::Heap(lanes) }
    }

    /// What the ring is made of.
    #[must_use]
    pub fn spec(&self) -> &RingSpec {
        self.spec
    }

    /// Its sizes.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.geometry
    }

    /// A lane that will have the rows `rows` and none before them. `None`: the ring lacks the lane,
    /// or the rows do not fit it.
    pub fn lane(&self, lane: u32, rows: Range<u64>) -> Result<Option<UnnamedLane>, SegmentError> {
        let count = rows.end.checked_sub(rows.start);
        let fits = count.is_some_and(|count| count <= self.geometry.slots) && rows.end < MAX_SEQ;
        if lane >= self.spec.lanes || !fits {
            return Ok(None);
        }
        let memory = match &self.place {
            Place::Files { folder, shapes } => {
                let access = Access::ReadWrite;
                let name = ring_files::lane_file(lane);
                let fd = folder.open(&name, access)?;
                Arc::new(ring_files::map_lane(&fd, &folder.path.join(name), shapes, lane, access)?)
            }
            Place::Heap(lanes) => match lanes.get(lane as usize) {
                Some(memory) => Arc::clone(memory),
                None => return Ok(None),
            },
        };
        Ok(UnnamedLane::new(memory, rows))
    }
}

/// A lane that nobody else can see, and the rows that it gets.
#[derive(Debug)]
pub struct UnnamedLane {
    memory: Arc<Lane>,
    rows: Range<u64>,
    /// The next one to be stored.
    next: u64,
}

impl UnnamedLane {
    /// `None` when the memory is mapped for reading only.
    fn new(memory: Arc<Lane>, rows: Range<u64>) -> Option<Self> {
        memory.memory().writable().then(|| Self { memory, next: rows.start, rows })
    }

    /// Rows that are still to be stored.
    #[must_use]
    pub fn missing(&self) -> Range<u64> {
        self.next..self.rows.end
    }

    /// The lane's memory, for reading what was stored.
    #[must_use]
    pub fn memory(&self) -> &Lane {
        &self.memory
    }

    /// Rows that it gets.
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Takes the next rows as they are in their places.
    ///
    /// # Panics
    /// If there are more rows than are missing.
    pub fn keep(&mut self, rows: u64) {
        assert!(rows <= self.rows.end - self.next, "{rows} rows are more than are missing");
        self.next += rows;
    }

    /// Stores the next rows: `columns` has the bytes of every column of the file.
    ///
    /// # Panics
    /// If there are more rows than are missing, fewer columns than the file has, or other bytes than
    /// the rows'.
    pub fn store(&mut self, rows: u64, columns: &[&[u8]]) {
        assert!(rows <= self.rows.end - self.next, "{rows} rows are more than are missing");
        let slot = self.next % self.memory.slots();
        for (number, bytes) in columns.iter().enumerate() {
            self.memory.store_rows(number, slot, rows, bytes);
        }
        self.next += rows;
    }

    /// Sets the counters: the rows are there, and whoever claims the lane goes on after them.
    pub fn finish(self) {
        let Range { start, end } = self.rows;
        // What an older row's slot holds is not that row. A writer that had announced rows up to a
        // lap after the first one would leave just this.
        let reserved = if start == 0 { end } else { start + self.memory.slots() };
        self.memory.restore_counters(end, reserved);
    }
}
