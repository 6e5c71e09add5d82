//! Memory of a ring: every lane, the reader table, and the locks on them.

mod claims;
mod opened;
mod same;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use self::claims::{ClaimedReader, LiveSampler};
use crate::error::{ObjectKind, SegmentError};
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::{self, Lane};
use crate::layout::lane_shape::LaneShapes;
use crate::layout::limiter_table::LimiterTable;
use crate::layout::low_marks::{LowMark, LowMarks};
use crate::layout::names::{Base, Exist, check_name};
use crate::layout::reader_table::{LanePins, ReaderRecord, ReaderTable, SharedNotifier};
use crate::os::byte_lock::{HeapLocks, LockFile};
use crate::os::clock::unix_ns;
use crate::os::futex::NotifyBarrier;
use crate::os::mapping::Access;
use crate::os::space::private_memory;
use crate::store::mapped_lanes::{AskedSize, Lanes, MappedLanes};
use crate::store::object::Object;
use crate::store::ring_creation::RingCreation;
use crate::store::ring_files;
use crate::store::table_file::{HeapTable, TableKind};
use crate::store::unnamed_ring::{UnnamedMemory, UnnamedRing};

/// Memory of a ring: every lane mapped for reading, the reader table for reading and writing.
#[derive(Debug)]
pub struct RingStore {
    spec: RingSpec,
    geometry: Geometry,
    origin: RingOrigin,
    lanes: MappedLanes,
    readers: ReaderTable,
    limiter: Option<LimiterTable>,
    /// Barrier of this process's notifications. Set once the process has claimed a lane.
    barrier: OnceLock<NotifyBarrier>,
    place: RingBacking,
}

/// Place of the memory, and the locks on it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per ring, and never moved in bulk")]
enum RingBacking {
    // `locks` holds the object too, so it is dropped first. `object` then checks whether it is the
    // last holder.
    Named { locks: LockFile, object: Object, shapes: LaneShapes },
    Heap { locks: HeapLocks, uuid: [u8; 16], tables: Mutex<BTreeMap<String, HeapTable>> },
}

/// Time of a ring's creation, and the size of its lanes then.
#[derive(Debug)]
struct RingOrigin {
    created_unix_ns: u64,
    /// Rows of a lane at creation.
    lane_capacity: u64,
}

impl RingStore {
    /// Creates the files of a ring, or attaches to an existing equal ring if `exist` allows it.
    /// Returns `true` if it is new.
    pub fn create(
        base: &Base,
        name: &str,
        spec: &RingSpec,
        exist: Exist,
        persistent: bool,
    ) -> Result<(Self, bool), SegmentError> {
        Self::create_filled(base, name, spec, exist, persistent, |_| Ok(()))
    }

    /// Creates a ring like [`create`](Self::create). Before it gets its name, `fill` stores rows in
    /// it. If `fill` fails, nothing is left, and an existing object keeps the name. `fill` may be
    /// called again if another process took the name first.
    pub fn create_filled<E: From<SegmentError>>(
        base: &Base,
        name: &str,
        spec: &RingSpec,
        exist: Exist,
        persistent: bool,
        mut fill: impl FnMut(&UnnamedRing<'_>) -> Result<(), E>,
    ) -> Result<(Self, bool), E> {
        if !spec.snapshot {
            check_name(name)?;
        }
        let mut making = RingCreation::of(name, spec)?;
        let made = Object::create(base, ObjectKind::Ring, name, exist, persistent, |dir, path| {
            making.attempt((dir, path), |folder| ring_files::make(folder, spec), &mut fill)
        });
        making.finish(made, persistent)
    }

    /// Attaches to an existing ring.
    pub fn attach(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open(base, ObjectKind::Ring, name)?)
    }

    /// Attaches to a ring through its directory, which a process that holds it passed. The ring
    /// need not have a name that this process can see. `path` is where the other process sees it.
    pub fn attach_at(dir: OwnedFd, path: &Path, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open_at(dir, path.to_owned(), ObjectKind::Ring, name)?)
    }

    /// Opens a ring without holding it. A ring that is not persistent is removed when its holders
    /// end, but its memory stays readable until this handle is dropped. A ring without holders can
    /// be observed too.
    pub fn observe(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::observe(base, ObjectKind::Ring, name)?)
    }

    /// Returns a descriptor of the directory of the ring, for [`attach_at`](Self::attach_at) in
    /// another process. `None` on the heap.
    pub fn directory(&self) -> Result<Option<OwnedFd>, SegmentError> {
        self.object().map(Object::directory).transpose()
    }

    /// Creates a ring in private memory, without a name. It follows the same protocol.
    pub fn heap(spec: &RingSpec) -> Result<Self, SegmentError> {
        Self::heap_filled(spec, |_| Ok(()))
    }

    /// Creates a ring in private memory, with rows that `fill` stores.
    pub fn heap_filled<E: From<SegmentError>>(
        spec: &RingSpec,
        fill: impl FnOnce(&UnnamedRing<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let geometry = Geometry::of(spec, 1)?;
        let asked = geometry.lane_bytes.saturating_mul(spec.lanes.into());
        let asked = asked.saturating_add(geometry.tables_bytes());
        let (lanes, readers, limiter, marks) = private_memory(asked, || {
            let columns = lane::columns(&geometry)?;
            let marks = Arc::new(LowMarks::heap(spec.lanes)?);
            let lane = |lane| {
                let memory = Lane::heap(&geometry, &columns)?;
                Ok(Arc::new(memory.with_low(LowMark::new(&marks, lane))))
            };
            let lanes = (0..spec.lanes).map(lane).collect::<io::Result<Vec<_>>>()?;
            let limiter = |made| LimiterTable::heap(made, spec.lanes, spec.reader_slots);
            let limiter = spec.limits.map(limiter).transpose()?;
            let readers = ReaderTable::heap(&geometry, spec.reader_slots, spec.lanes)?;
            Ok((lanes, readers, limiter, marks))
        })?;
        let (locks, uuid, tables) = (HeapLocks::default(), rand::random(), Mutex::default());
        let limits = limiter.as_ref();
        let place = UnnamedMemory::Heap { lanes: &lanes, limiter: limits, tables: &tables };
        fill(&UnnamedRing::new(spec, &geometry, place))?;
        let place = RingBacking::Heap { locks, uuid, tables };
        let spec = spec.clone();
        let barrier = OnceLock::new();
        let lane_capacity = spec.lane_capacity;
        let origin = RingOrigin { created_unix_ns: unix_ns(), lane_capacity };
        let RingSpec { asked_rows, asked_bytes, .. } = spec;
        let size = AskedSize { asked_rows, asked_bytes, huge_bytes: 0 };
        let lanes = MappedLanes::new(lanes, marks, size);
        Ok(Self { spec, geometry, origin, lanes, readers, limiter, barrier, place })
    }

    /// Returns the description of the ring when this handle was made. A resize enlarges its lanes
    /// ([`Lane::capacity`]).
    #[must_use]
    pub fn spec(&self) -> &RingSpec {
        &self.spec
    }

    /// Returns the sizes when this handle was made.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the wall clock at creation, nanoseconds since 1970.
    #[must_use]
    pub fn created_unix_ns(&self) -> u64 {
        self.origin.created_unix_ns
    }

    /// Returns the bytes of the lanes that were on huge pages at creation. The system may have
    /// split some since.
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.lanes().size().huge_bytes.min(self.bytes())
    }

    /// Returns the random id of the ring: another ring of the same name has another one.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match &self.place {
            RingBacking::Named { shapes, .. } => shapes.ring_uuid,
            RingBacking::Heap { uuid, .. } => *uuid,
        }
    }

    /// Returns the name; `None` on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.object().map(Object::name)
    }

    /// Returns the directory; `None` on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.object().map(Object::path)
    }

    /// Returns whether the ring is persistent. A persistent ring in memfds stays without a holder
    /// only while a daemon keeps it.
    #[must_use]
    pub fn persistent(&self) -> bool {
        self.object().is_some_and(Object::persistent)
    }

    pub(crate) fn object(&self) -> Option<&Object> {
        match &self.place {
            RingBacking::Named { object, .. } => Some(object),
            RingBacking::Heap { .. } => None,
        }
    }

    /// Returns the locks of a ring on the heap. Named rings use a lock file instead.
    pub(crate) fn heap_locks(&self) -> HeapLocks {
        match &self.place {
            RingBacking::Heap { locks, .. } => locks.clone(),
            RingBacking::Named { .. } => HeapLocks::default(),
        }
    }

    /// Returns a table of a ring on the heap. `make` makes it if it does not exist.
    pub(crate) fn heap_table<T: TableKind>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, SegmentError>,
    ) -> Result<Arc<T>, SegmentError> {
        let RingBacking::Heap { tables, .. } = &self.place else { return Ok(Arc::new(make()?)) };
        let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tables.get(name) {
            return T::of_heap(found).ok_or_else(|| found.other_kind(name, T::KIND));
        }
        let table = Arc::new(make()?);
        tables.insert(name.to_owned(), T::into_heap(Arc::clone(&table)));
        Ok(table)
    }

    /// Returns the tables of a ring on the heap.
    pub(crate) fn heap_tables(&self) -> Vec<(String, HeapTable)> {
        let RingBacking::Heap { tables, .. } = &self.place else { return Vec::new() };
        let tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.iter().map(|(name, table)| (name.clone(), table.clone())).collect()
    }

    /// Removes a table of a ring on the heap. Returns whether there was one.
    pub(crate) fn remove_heap_table(&self, name: &str) -> bool {
        let RingBacking::Heap { tables, .. } = &self.place else { return false };
        tables.lock().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// Removes the name; every handle keeps its memory.
    pub fn unlink(&self) -> Result<(), SegmentError> {
        self.object().map_or(Ok(()), Object::unlink)
    }

    /// Returns the memory of a lane, for reading, as this handle has it mapped. `None` if the ring
    /// lacks the lane.
    #[must_use]
    pub fn lane(&self, lane: u32) -> Option<Arc<Lane>> {
        self.lanes.now().get(lane as usize).map(Arc::clone)
    }

    /// Returns all lanes, in order, as this handle has them mapped.
    #[inline]
    #[must_use]
    pub fn lanes(&self) -> Arc<Lanes> {
        self.lanes.now()
    }

    /// Maps relocated lanes again, whose old memory reads as empty. Returns whether any lane was
    /// mapped again.
    pub fn follow(&self) -> Result<bool, SegmentError> {
        match &self.place {
            RingBacking::Named { object, shapes, .. } => self.lanes.follow(object, shapes),
            RingBacking::Heap { .. } => Ok(false),
        }
    }

    /// Returns the bytes of the lanes and of the files `ring.*`, as this handle has them mapped.
    /// The files of tables do not count.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lanes: u64 = self.lanes().iter().map(|lane| lane.bytes()).sum();
        lanes + self.geometry.tables_bytes()
    }

    /// Returns the capacity that the user gave, as rows and bytes, of which one is 0.
    #[must_use]
    pub fn asked(&self) -> (u64, u64) {
        let lanes = self.lanes();
        (lanes.size().asked_rows, lanes.size().asked_bytes)
    }

    /// Returns the number of resizes of which the writers were notified.
    #[must_use]
    pub fn resizes(&self) -> u32 {
        self.readers.resizes()
    }

    /// Returns a word that changes when the ring is resized, when its loss of the name is marked,
    /// and when one of its tables is removed. Makes one relaxed load.
    #[inline]
    #[must_use]
    pub fn notices(&self) -> u32 {
        self.readers.notices()
    }

    /// Returns whether the ring was removed or replaced, so that no process can attach to it any
    /// more. Makes one system call, or up to three if the loss is marked. Marks a loss that it
    /// finds, for all holders. Returns `false` on the heap.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        let marked = self.readers.is_marked_unlinked();
        let unlinked = self.object().is_some_and(|object| object.is_unlinked(marked));
        if unlinked && !marked {
            self.readers.mark_unlinked();
        }
        unlinked
    }

    /// Returns the notifier that writers use after they published.
    #[inline]
    #[must_use]
    pub fn published(&self) -> SharedNotifier<'_> {
        self.readers.published(self.barrier.get().copied().unwrap_or(NotifyBarrier::Fence))
    }

    /// Returns the notifier that readers use after they release a pin.
    #[must_use]
    pub fn released(&self) -> SharedNotifier<'_> {
        self.readers.released()
    }

    /// Returns the pins on a lane.
    #[must_use]
    pub fn pins(&self, lane: u32) -> LanePins<'_> {
        self.readers.pins(lane)
    }

    /// Returns the contents of a reader slot, or `None` if the ring lacks the slot.
    #[must_use]
    pub fn reader(&self, slot: u32) -> Option<ReaderRecord> {
        self.readers.record(slot)
    }

    /// Returns the table of the limiter, if the ring has one.
    #[inline]
    #[must_use]
    pub fn limiter(&self) -> Option<&LimiterTable> {
        self.limiter.as_ref()
    }

    /// Returns the marks of the lanes, mapped for writing, so that this process can raise them.
    /// Fails if it may not write `ring.low`.
    pub fn writable_marks(&self) -> Result<Arc<LowMarks>, SegmentError> {
        let RingBacking::Named { object, shapes, .. } = &self.place else {
            return Ok(Arc::clone(self.lanes.marks()));
        };
        let (geometry, uuid, spec) = (&self.geometry, shapes.ring_uuid, &self.spec);
        ring_files::map_low_marks(object, geometry, uuid, spec, Access::ReadWrite).map(Arc::new)
    }

    /// Returns the files of the ring, if its lanes can be enlarged.
    pub(crate) fn resizable(&self) -> Result<(&Object, &LaneShapes), SegmentError> {
        match &self.place {
            RingBacking::Named { object, shapes, .. } if !self.spec.snapshot => {
                Ok((object, shapes))
            }
            RingBacking::Named { .. } => Err(SegmentError::FixedSize {
                what: "a snapshot",
                remedy: "make a larger one and copy the rows, or `backcast load` it",
            }),
            RingBacking::Heap { .. } => Err(SegmentError::FixedSize {
                what: "a private ring",
                remedy: "create one with a name, or make a larger one and copy the rows",
            }),
        }
    }

    pub(crate) fn count_resizes(&self, resizes: u32) {
        self.readers.count_resizes(resizes);
    }

    /// Makes samplers, in any process, check that their tables were not removed.
    pub(crate) fn count_removed_table(&self) {
        self.readers.count_removed_table();
    }
}
