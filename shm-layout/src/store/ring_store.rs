//! Memory of a ring: every lane, the reader table, and the locks on them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Kind;
use crate::error::SegmentError;
use crate::layout::claimed_lane::ClaimedLane;
use crate::layout::column::Column;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::{self, Lane};
use crate::layout::lane_policy::LanePolicy;
use crate::layout::lane_shape::{self, LaneShapes};
use crate::layout::limiter_table::{LimitBytes, LimiterTable};
use crate::layout::names::{Base, Exist, check_name};
use crate::layout::reader_table::{LanePins, ReaderRecord, ReaderTable, SharedNotifier};
use crate::os::byte_lock::{Claim, HeapLocks, LockFile, LockMode};
use crate::os::clock::unix_ns;
use crate::os::fork_release::ReleasedOnFork;
use crate::os::futex::NotifyBarrier;
use crate::os::lock_holders;
use crate::os::mapping::Access;
use crate::os::space::private_memory;
use crate::protocol::clear_pins;
use crate::protocol::reader_slot::{self, ReaderSlots};
use crate::store::mapped_lanes::{self, AskedSize, Lanes, MappedLanes};
use crate::store::object::Object;
use crate::store::relocation;
use crate::store::ring_creation::RingCreation;
use crate::store::ring_files::{self, CTL, SNAPSHOT_FILE};
use crate::store::table_file::HeapTable;
use crate::store::unnamed_ring::{UnnamedMemory, UnnamedRing};

/// Byte that the writer of lane 0 locks; that of lane L locks the L-th after it. A process that
/// relocates a lane without a writer locks its byte too, shared.
const LANE_LOCKS: u64 = 4096;
/// Maximum wait of a new writer for the relocation of its lane, and the pause between two looks.
const RELOCATION_WAIT: Duration = Duration::from_secs(5);
const RELOCATION_PAUSE: Duration = Duration::from_millis(1);
/// Byte that every sampler of a ring with a limiter locks, shared.
const SAMPLERS_LOCK: u64 = 4;
/// Byte that the process that changes the limits locks.
const LIMITS_LOCK: u64 = 5;
/// First byte that a sampler of a ring on the heap locks.
const HEAP_SAMPLERS: u64 = 1 << 40;
/// Attempts to lock the limits, and the pause between two.
const LIMITS_ATTEMPTS: u32 = 1_000;
const LIMITS_PAUSE: Duration = Duration::from_millis(1);
/// Byte that the holder of reader slot 0 locks.
const READER_LOCKS: u64 = 1 << 32;

/// Memory of a ring: every lane mapped for reading, the reader table for reading and writing.
#[derive(Debug)]
pub struct RingStore {
    spec: RingSpec,
    geometry: Geometry,
    origin: RingOrigin,
    lanes: MappedLanes,
    readers: ReaderTable,
    limiter: Option<LimiterTable>,
    /// Barrier of this process's notifications; set once it has claimed a lane.
    barrier: OnceLock<NotifyBarrier>,
    place: RingBacking,
}

/// Place of the memory, and the locks on it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per ring, and never moved in bulk")]
enum RingBacking {
    // `locks` holds the object too, so it is dropped first: the object then checks whether it was
    // the last holder.
    Named { locks: LockFile, object: Object, shapes: LaneShapes },
    Heap { locks: HeapLocks, uuid: [u8; 16], tables: Mutex<BTreeMap<String, HeapTable>> },
}

/// Creation of a ring, as its superblock states it.
#[derive(Debug)]
struct RingOrigin {
    created_unix_ns: u64,
    /// Rows of a lane at creation.
    lane_capacity: u64,
}

/// A claimed reader slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct ClaimedReader {
    // Before the store: the claim holds the object too, and the store removes it if it was the
    // last.
    _claim: Claim,
    store: Arc<RingStore>,
    slot: u32,
}

impl ClaimedReader {
    /// Adds to the counters of the slot: rows and batches returned, draws lapped.
    pub fn count(&self, rows: u64, batches: u64, lapped: u64) {
        if let Some(words) = self.store.readers.slot(self.slot) {
            add(words.sampled_rows, rows);
            add(words.sampled_batches, batches);
            add(words.lapped, lapped);
        }
    }

    /// Returns the number of the slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

/// A sampler of a ring with a limiter, which counts as alive until this is dropped.
#[derive(Debug)]
pub struct LiveSampler {
    // Before the store: the claim holds the object too.
    _claim: Option<Claim>,
    _store: Arc<RingStore>,
}

impl RingStore {
    /// Creates the files of a ring, or attaches to an existing ring that is the same. Returns
    /// `true` if it is new.
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
        let made = Object::create(base, Kind::Ring, name, exist, persistent, |dir, path| {
            making.attempt((dir, path), |folder| ring_files::make(folder, spec), &mut fill)
        });
        making.finish(made, persistent)
    }

    /// Attaches to an existing ring.
    pub fn attach(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open(base, Kind::Ring, name)?)
    }

    /// Attaches to a ring through its directory, which a process that holds it passed. The ring
    /// need not have a name that this process can see. `path` is where the other process sees it.
    pub fn attach_at(dir: OwnedFd, path: &Path, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open_at(dir, path.to_owned(), Kind::Ring, name)?)
    }

    /// Opens a ring without holding it: it is removed when its holders end, though its memory stays
    /// readable until this is dropped. A persistent or orphaned ring can be observed too.
    pub fn observe(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::observe(base, Kind::Ring, name)?)
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
        let asked = asked.saturating_add(geometry.rdr_bytes + geometry.lim_bytes);
        let (lanes, readers, limiter) = private_memory(asked, || {
            let columns = lane::columns(&geometry)?;
            let lane = |_| Lane::heap(&geometry, &columns).map(Arc::new);
            let lanes = (0..spec.lanes).map(lane).collect::<Result<Vec<_>, _>>()?;
            let limiter = |made| LimiterTable::heap(made, spec.lanes, spec.reader_slots);
            let limiter = spec.limits.map(limiter).transpose()?;
            Ok((lanes, ReaderTable::heap(&geometry, spec.reader_slots, spec.lanes)?, limiter))
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
        let lanes = MappedLanes::new(lanes, AskedSize { asked_rows, asked_bytes, huge_bytes: 0 });
        Ok(Self { spec, geometry, origin, lanes, readers, limiter, barrier, place })
    }

    pub(crate) fn of(object: Object) -> Result<Self, SegmentError> {
        let (superblock, columns) = ring_files::read_ctl(&object)?;
        let path = object.path().join(CTL);
        let (policy, timeout_ms) = (superblock.lane_policy, superblock.lease_timeout_ms);
        let policy = LanePolicy::from_words(policy, timeout_ms).ok_or_else(|| {
            let what = format!("its lane policy, {policy} with {timeout_ms} ms, is not valid");
            SegmentError::corrupt(&path, what)
        })?;
        let spec = RingSpec {
            columns,
            lanes: superblock.lane_count,
            lane_capacity: superblock.lane_capacity,
            reserve_chunk: superblock.reserve_chunk,
            reader_slots: superblock.reader_slots,
            asked_rows: superblock.asked_rows,
            asked_bytes: superblock.asked_bytes,
            policy,
            huge_pages: superblock.huge_bytes > 0,
            memfd: object.is_in_memfds(),
            snapshot: object.has(SNAPSHOT_FILE),
            snapshot_of: ring_files::read_mark(&object)?,
            limits: ring_files::read_limits(&object)?,
        };
        // Computed from the schema: the sizes in the file must agree, and are not used.
        let geometry = Geometry::of(&spec, u64::from(superblock.map_align))
            .map_err(|e| SegmentError::corrupt(&path, format!("its sizes are impossible: {e}")))?;
        let said =
            (superblock.slots, superblock.lane_bytes, superblock.ctl_bytes, superblock.rdr_bytes);
        let is = (geometry.slots, geometry.lane_bytes, geometry.ctl_bytes, geometry.rdr_bytes);
        if said != is {
            return Err(SegmentError::corrupt(
                &path,
                format!("it claims sizes {said:?}, not {is:?}"),
            ));
        }
        let ring_uuid = superblock.ring_uuid;
        // Check the offsets, widths and padding of the records: they must be the bytes that this
        // build would write.
        if lane_shape::schema_hash(&spec, &geometry) != superblock.schema_hash {
            let what = "its column records disagree with the sizes of its columns";
            return Err(SegmentError::corrupt(&path, what));
        }
        let readers = ring_files::map_readers(&object, &geometry, ring_uuid, &spec)?;
        let limiter = ring_files::map_limiter(&object, &geometry, ring_uuid, &spec)?;
        // The process that resized it may have been killed before it notified the writers.
        readers.count_resizes(superblock.resizes);
        let shapes = LaneShapes::new(ring_uuid, spec.clone(), superblock.map_align.into());
        let lanes = (0..spec.lanes)
            .map(|lane| {
                mapped_lanes::current(&object, &shapes, lane, Access::ReadOnly).map(Arc::new)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let locks = object.lock_handle()?;
        let origin = RingOrigin {
            created_unix_ns: superblock.created_unix_ns,
            lane_capacity: superblock.made_lane_capacity,
        };
        let place = RingBacking::Named { object, shapes, locks };
        let (barrier, lanes) = (OnceLock::new(), MappedLanes::new(lanes, (&superblock).into()));
        Ok(Self { spec, geometry, origin, lanes, readers, limiter, barrier, place })
    }

    pub(crate) fn check_same(&self, name: &str, asked: &RingSpec) -> Result<(), SegmentError> {
        let different = |what: String| {
            Err(SegmentError::Different { kind: Kind::Ring, name: name.to_owned(), what })
        };
        let mine = &self.spec;
        for i in 0..mine.columns.len().max(asked.columns.len()) {
            let (there, here) = (mine.columns.get(i), asked.columns.get(i));
            if there != here {
                let show = |c: Option<&Column>| {
                    c.map_or("no column".to_owned(), |c| {
                        format!(
                            "`{}` {} {:?} {}",
                            c.name(),
                            c.dtype(),
                            c.shape(),
                            c.role().as_str()
                        )
                    })
                };
                return different(format!(
                    "it has {}, but {} was requested",
                    show(there),
                    show(here)
                ));
            }
        }
        if mine.snapshot != asked.snapshot {
            let kind = |snapshot| if snapshot { "a snapshot" } else { "no snapshot" };
            let (there, here) = (kind(mine.snapshot), kind(asked.snapshot));
            return different(format!("it is {there}, but {here} was requested"));
        }
        // A caller that requests sealed memory relies on it.
        if asked.memfd && !mine.memfd {
            return different("it is in files, but memfd was requested".to_owned());
        }
        if mine.lanes != asked.lanes {
            return different(format!(
                "it has {} lanes, but {} were requested",
                mine.lanes, asked.lanes
            ));
        }
        // A resized ring is still the one that its programs create.
        if ![mine.lane_capacity, self.origin.lane_capacity].contains(&asked.lane_capacity) {
            let (there, here) = (mine.lane_capacity, asked.lane_capacity);
            return different(format!("its lanes keep {there} rows, but {here} were requested"));
        }
        if mine.reader_slots != asked.reader_slots {
            let (there, here) = (mine.reader_slots, asked.reader_slots);
            return different(format!("it has {there} reader slots, but {here} were requested"));
        }
        if mine.limits != asked.limits {
            let (there, here) = (mine.limits, asked.limits);
            let show = |limits: Option<LimitBytes>| match limits {
                Some(limits) => limits.to_string(),
                None => "no limiter".to_owned(),
            };
            let (there, here) = (show(there), show(here));
            return different(format!("it was created with {there}, asked was {here}"));
        }
        if mine.policy.to_words() != asked.policy.to_words() {
            let (there, here) = (mine.policy, asked.policy);
            let ms = |policy: LanePolicy| policy.timeout().as_millis();
            return different(format!(
                "its lane policy is {there} ({} ms), but {here} ({} ms) was requested",
                ms(there),
                ms(here)
            ));
        }
        Ok(())
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

    /// Returns the name, unless it is on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.object().map(Object::name)
    }

    /// Returns the directory, unless it is on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.object().map(Object::path)
    }

    /// Returns whether the ring stays when no process holds it.
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

    /// Returns the locks of a ring on the heap; others have a file of them.
    pub(crate) fn heap_locks(&self) -> HeapLocks {
        match &self.place {
            RingBacking::Heap { locks, .. } => locks.clone(),
            RingBacking::Named { .. } => HeapLocks::default(),
        }
    }

    /// Returns a table of a ring on the heap, which `make` makes unless it exists.
    pub(crate) fn heap_table<T>(
        &self,
        name: &str,
        find: impl FnOnce(&HeapTable) -> Option<Arc<T>>,
        wrap: impl FnOnce(Arc<T>) -> HeapTable,
        make: impl FnOnce() -> Result<T, SegmentError>,
    ) -> Result<Arc<T>, SegmentError> {
        let RingBacking::Heap { tables, .. } = &self.place else { return Ok(Arc::new(make()?)) };
        let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = tables.get(name) {
            return find(found).ok_or_else(|| {
                let what = match found {
                    HeapTable::Claims(_) => "it holds claims, but priorities were requested",
                    HeapTable::Priorities(_) => "it holds priorities, but claims were requested",
                };
                SegmentError::TableDiffers { table: name.to_owned(), what: what.to_owned() }
            });
        }
        let table = Arc::new(make()?);
        tables.insert(name.to_owned(), wrap(Arc::clone(&table)));
        Ok(table)
    }

    /// Returns the tables of a ring on the heap.
    pub(crate) fn heap_tables(&self) -> Vec<(String, HeapTable)> {
        let RingBacking::Heap { tables, .. } = &self.place else { return Vec::new() };
        let tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.iter().map(|(name, table)| (name.clone(), table.clone())).collect()
    }

    /// Removes the name; every handle keeps its memory.
    pub fn unlink(&self) -> Result<(), SegmentError> {
        self.object().map_or(Ok(()), Object::unlink)
    }

    /// Returns the memory of a lane, for reading, as this handle has it mapped.
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

    /// Maps relocated lanes again, whose old memory reads as empty. Returns `true` if there were
    /// any.
    pub fn follow(&self) -> Result<bool, SegmentError> {
        match &self.place {
            RingBacking::Named { object, shapes, .. } => self.lanes.follow(object, shapes),
            RingBacking::Heap { .. } => Ok(false),
        }
    }

    /// Returns the bytes of all files, as this handle has them mapped.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lanes: u64 = self.lanes().iter().map(|lane| lane.bytes()).sum();
        let Geometry { ctl_bytes, rdr_bytes, lim_bytes, .. } = self.geometry;
        lanes + ctl_bytes + rdr_bytes + lim_bytes
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

    /// Returns a word that changes when the ring is resized, and when its loss of the name is
    /// marked. Makes one relaxed load.
    #[inline]
    #[must_use]
    pub fn notices(&self) -> u32 {
        self.readers.notices()
    }

    /// Returns whether the ring was removed or replaced, so that no process can attach to it any
    /// more. Makes two system calls, and marks a loss for all holders. Returns `false` on the heap.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        let marked = self.readers.is_marked_unlinked();
        let unlinked = self.object().is_some_and(|object| object.is_unlinked(marked));
        if unlinked && !marked {
            self.readers.mark_unlinked();
        }
        unlinked
    }

    /// Claims a lane for writing. Returns `None` if another writer has it, and in a snapshot. Waits
    /// up to 5 s for a process that relocates the lane.
    pub fn claim_lane(&self, lane: u32) -> Result<Option<ClaimedLane>, SegmentError> {
        if self.spec.snapshot {
            return Ok(None);
        }
        let Some(claim) = self.lock_for_writer(lane, RELOCATION_WAIT)? else { return Ok(None) };
        let memory = match &self.place {
            RingBacking::Named { object, shapes, .. } => {
                relocation::settled(object, shapes, lane, self.resizes())?.into()
            }
            RingBacking::Heap { .. } => match self.lane(lane) {
                Some(lane) => lane,
                None => return Ok(None),
            },
        };
        // Before the first row: register with the kernel once, so that publishing needs no fence.
        self.barrier.get_or_init(NotifyBarrier::of_this_process);
        Ok(ClaimedLane::new(memory, claim, unix_ns()))
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

    /// Clears the pins of a slot whose holder has died. Returns `true` if the slot had no holder.
    pub fn reap_reader(&self, slot: u32) -> Result<bool, SegmentError> {
        reader_slot::reap(&SlotsOfRing(self), slot)
    }

    /// Counts at a reader slot that one of its leases made a writer wait, drop or fail.
    pub fn count_stall(&self, slot: u32) {
        if let Some(words) = self.readers.slot(slot) {
            words.stalls.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn count_lease(&self, slot: u32) {
        if let Some(words) = self.readers.slot(slot) {
            add(words.leases, 1);
        }
    }

    /// Returns whether a writer, in any process, holds the lane.
    #[must_use]
    pub fn lane_held(&self, lane: u32) -> bool {
        let byte = LANE_LOCKS + u64::from(lane);
        match &self.place {
            RingBacking::Named { locks, .. } => locks.held_exclusively(byte).unwrap_or(false),
            RingBacking::Heap { locks, .. } => locks.held(byte),
        }
    }

    /// Claims a free reader slot. Returns `None` if all are taken, or if the ring has lost its
    /// name.
    pub fn claim_reader(self: &Arc<Self>) -> Result<Option<ClaimedReader>, SegmentError> {
        for slot in 0..self.spec.reader_slots {
            let claim = match reader_slot::claim(&SlotsOfRing(self), slot) {
                // The lock file of a removed ring cannot be opened.
                Err(SegmentError::Unlinked { .. }) => return Ok(None),
                claim => claim?,
            };
            let Some(claim) = claim else { continue };
            self.readers.sign(slot, unix_ns());
            return Ok(Some(ClaimedReader { store: Arc::clone(self), slot, _claim: claim }));
        }
        Ok(None)
    }

    /// Returns whether a reader, in any process, holds the slot.
    #[must_use]
    pub fn reader_held(&self, slot: u32) -> bool {
        self.held(READER_LOCKS + u64::from(slot))
    }

    /// Returns the contents of a reader slot.
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

    /// Puts other limits into force, for all processes. Returns `false` if the ring has no limiter.
    pub fn change_limits(&self, limits: LimitBytes) -> Result<bool, SegmentError> {
        let Some(table) = &self.limiter else { return Ok(false) };
        for _ in 0..LIMITS_ATTEMPTS {
            // Held until the limits are in force. The kernel releases it if this process dies.
            if let Some(_claim) = self.claim(LIMITS_LOCK, LockMode::Exclusive, Claim::File)? {
                table.change(limits);
                return Ok(true);
            }
            thread::sleep(LIMITS_PAUSE);
        }
        Err(SegmentError::InUse {
            kind: Kind::Ring,
            name: self.name().unwrap_or_default().to_owned(),
        })
    }

    /// Marks a sampler as alive until the claim is dropped or its process dies.
    pub fn claim_sampler(self: &Arc<Self>) -> Result<LiveSampler, SegmentError> {
        let claim = match &self.place {
            RingBacking::Named { object, .. } => {
                let lock = object.lock_handle()?;
                lock.try_lock(SAMPLERS_LOCK, LockMode::Shared)
                    .map_err(SegmentError::io("lock", object.path()))?;
                Some(Claim::OwnFile(ReleasedOnFork::new(&lock), lock))
            }
            RingBacking::Heap { locks, .. } => locks.claim_next(HEAP_SAMPLERS),
        };
        Ok(LiveSampler { _claim: claim, _store: Arc::clone(self) })
    }

    /// Returns whether a sampler of a ring with a limiter lives, in any process. One system call.
    #[must_use]
    pub fn has_sampler(&self) -> bool {
        match &self.place {
            RingBacking::Named { locks, .. } => {
                locks.held_elsewhere(SAMPLERS_LOCK).unwrap_or(false)
            }
            RingBacking::Heap { locks, .. } => locks.any_held(&(HEAP_SAMPLERS..u64::MAX)),
        }
    }

    /// Returns whether a writer lives, in any process. One system call.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        let bytes = LANE_LOCKS..LANE_LOCKS + u64::from(self.spec.lanes);
        match &self.place {
            RingBacking::Named { locks, .. } => locks.any_held_exclusively(&bytes).unwrap_or(false),
            RingBacking::Heap { locks, .. } => locks.any_held(&bytes),
        }
    }

    /// Returns the files of the ring, if its lanes can be enlarged.
    pub(crate) fn resizable(&self) -> Result<(&Object, &LaneShapes), SegmentError> {
        match &self.place {
            RingBacking::Named { object, shapes, .. } if !self.spec.snapshot => {
                Ok((object, shapes))
            }
            RingBacking::Named { .. } => Err(SegmentError::FixedSize { what: "a snapshot" }),
            RingBacking::Heap { .. } => Err(SegmentError::FixedSize { what: "a ring on the heap" }),
        }
    }

    pub(crate) fn count_resizes(&self, resizes: u32) {
        self.readers.count_resizes(resizes);
    }

    /// Locks a lane that has no writer, so that none claims it while it is relocated. The caller
    /// holds the lock for resizing, so that no other process relocates the lane.
    pub(crate) fn lock_for_relocation(&self, lane: u32) -> Result<Option<Claim>, SegmentError> {
        self.lock_lane(lane, LockMode::Shared)
    }

    /// Locks a lane for its writer. Waits up to `limit` while another process relocates it. Returns
    /// `None` if another writer has it.
    pub(crate) fn lock_for_writer(
        &self,
        lane: u32,
        limit: Duration,
    ) -> Result<Option<Claim>, SegmentError> {
        let begin = Instant::now();
        loop {
            let claim = self.lock_lane(lane, LockMode::Exclusive)?;
            if claim.is_some() || self.lane_held(lane) {
                return Ok(claim);
            }
            if begin.elapsed() >= limit {
                let name = self.name().unwrap_or_default().to_owned();
                return Err(SegmentError::LaneRelocating { name, lane, waited: limit });
            }
            thread::sleep(RELOCATION_PAUSE);
        }
    }

    fn lock_lane(&self, lane: u32, mode: LockMode) -> Result<Option<Claim>, SegmentError> {
        self.claim(LANE_LOCKS + u64::from(lane), mode, |lock| {
            Claim::OwnFile(ReleasedOnFork::new(&lock), lock)
        })
    }

    /// Returns the processes of this user that hold lanes, by lane, where the system reports them.
    /// Searches all of them, so it is only for messages. Empty on the heap.
    #[must_use]
    pub fn lane_holders(&self) -> BTreeMap<u32, Vec<u32>> {
        let RingBacking::Named { locks, .. } = &self.place else { return BTreeMap::new() };
        let bytes = LANE_LOCKS..LANE_LOCKS + u64::from(self.spec.lanes);
        let held = lock_holders::of(locks.as_fd(), &bytes).into_iter();
        held.filter_map(|(byte, pids)| Some((u32::try_from(byte - LANE_LOCKS).ok()?, pids)))
            .collect()
    }

    fn claim(
        &self,
        byte: u64,
        mode: LockMode,
        of_file: impl FnOnce(LockFile) -> Claim,
    ) -> Result<Option<Claim>, SegmentError> {
        match &self.place {
            RingBacking::Named { object, .. } => {
                let lock = object.lock_handle()?;
                let taken =
                    lock.try_lock(byte, mode).map_err(SegmentError::io("lock", object.path()))?;
                Ok(taken.then(|| of_file(lock)))
            }
            RingBacking::Heap { locks, .. } => Ok(locks.claim(byte)),
        }
    }

    pub(crate) fn held(&self, byte: u64) -> bool {
        match &self.place {
            RingBacking::Named { locks, .. } => locks.held_elsewhere(byte).unwrap_or(false),
            RingBacking::Heap { locks, .. } => locks.held(byte),
        }
    }
}

/// Reader slots of the ring, as the protocol needs them.
struct SlotsOfRing<'a>(&'a RingStore);

impl ReaderSlots for SlotsOfRing<'_> {
    type Claim = Claim;
    type Error = SegmentError;

    fn is_held(&self, slot: u32) -> bool {
        self.0.reader_held(slot)
    }

    fn try_claim(&self, slot: u32) -> Result<Option<Claim>, SegmentError> {
        self.0.claim(READER_LOCKS + u64::from(slot), LockMode::Exclusive, Claim::File)
    }

    fn clear_pins(&self, slot: u32) {
        clear_pins(&self.0.readers, slot);
    }
}

/// Adds to a counter. One process writes it at a time, so a load and a store are enough.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}
