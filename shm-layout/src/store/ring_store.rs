//! A ring's memory: every lane, the readers' file, and who holds what.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::error::Kind;
use crate::error::SegmentError;
use crate::layout::claimed_lane::ClaimedLane;
use crate::layout::column::Column;
use crate::layout::geometry::{Geometry, RingSpec};
use crate::layout::lane::{self, Lane};
use crate::layout::lane_policy::LanePolicy;
use crate::layout::lane_shape::{self, Shapes};
use crate::layout::names::{Base, Exist, check_name};
use crate::layout::reader_table::{LanePins, ReaderRecord, Readers, SharedBell};
use crate::os::byte_lock::{Claim, HeapLocks, Hold, LockFile};
use crate::os::clock::unix_ns;
use crate::os::fork_release::NotInherited;
use crate::os::futex::Ringing;
use crate::os::lock_holders;
use crate::os::mapping::Access;
use crate::os::space::private_memory;
use crate::protocol::clear_pins;
use crate::protocol::reader_slot::{self, Slots};
use crate::store::mapped_lanes::{self, Lanes, Mapped, Size};
use crate::store::object::Object;
use crate::store::relocation;
use crate::store::ring_creation::Making;
use crate::store::ring_files::{self, CTL, SNAPSHOT_FILE};
use crate::store::unnamed_ring::UnnamedRing;

/// The byte that the writer of lane 0 locks; lane L locks the L-th after it.
const LANE_LOCKS: u64 = 4096;
/// The byte that the holder of reader slot 0 locks.
const READER_LOCKS: u64 = 1 << 32;

/// A ring's memory: every lane mapped for reading, the readers' file for reading and writing.
#[derive(Debug)]
pub struct RingStore {
    spec: RingSpec,
    geometry: Geometry,
    origin: Origin,
    lanes: Mapped,
    readers: Readers,
    /// How this process rings the bells; known once it has claimed a lane.
    ringing: OnceLock<Ringing>,
    place: Place,
}

/// Where the memory lives and who arbitrates over it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per ring, and never moved in bulk")]
enum Place {
    // `locks` holds the object too, so it goes first: the object asks whether it was the last.
    Named { locks: LockFile, object: Object, shapes: Shapes },
    Heap { locks: HeapLocks, uuid: [u8; 16] },
}

/// What a ring says of its making.
#[derive(Debug)]
struct Origin {
    created_unix_ns: u64,
    /// Rows of a lane that it was created with.
    lane_capacity: u64,
}

/// A reader's slot; dropping it frees the slot.
#[derive(Debug)]
pub struct ClaimedReader {
    // Before the store: the claim holds the object too, and the store asks whether it was the last.
    _claim: Claim,
    store: Arc<RingStore>,
    slot: u32,
}

impl ClaimedReader {
    /// Adds to the slot's counters: rows and batches returned, draws lapped.
    pub fn count(&self, rows: u64, batches: u64, lapped: u64) {
        if let Some(words) = self.store.readers.slot(self.slot) {
            add(words.sampled_rows, rows);
            add(words.sampled_batches, batches);
            add(words.lapped, lapped);
        }
    }

    /// Number of the slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

impl RingStore {
    /// Makes a ring's files, or joins the ring that exists if it is the same. `true`: it is new.
    pub fn create(
        base: &Base,
        name: &str,
        spec: &RingSpec,
        exist: Exist,
        persistent: bool,
    ) -> Result<(Self, bool), SegmentError> {
        Self::create_filled(base, name, spec, exist, persistent, |_| Ok(()))
    }

    /// The same; before the ring gets its name, `fill` puts rows into it. If that fails nothing is
    /// left, and what had the name has it still. It may be called again when another process was
    /// faster to take the name.
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
        let mut making = Making::of(name, spec)?;
        let made = Object::create(base, Kind::Ring, name, exist, persistent, |dir, path| {
            making.attempt((dir, path), |folder| ring_files::make(folder, spec), &mut fill)
        });
        making.finish(made, persistent)
    }

    /// Joins an existing ring.
    pub fn attach(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open(base, Kind::Ring, name)?)
    }

    /// Joins a ring through its directory, which a process that holds it handed over: the ring need
    /// not have a name that this process can see. `path` is where the other one sees it.
    pub fn attach_at(dir: OwnedFd, path: &Path, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open_at(dir, path.to_owned(), Kind::Ring, name)?)
    }

    /// Opens a ring without holding it: it goes away when its holders do, though its memory stays
    /// readable until this is dropped. A persistent or orphaned ring can be observed too.
    pub fn observe(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::observe(base, Kind::Ring, name)?)
    }

    /// A descriptor of the ring's directory, for [`attach_at`](Self::attach_at) in a process that it
    /// is sent to. `None` on the heap.
    pub fn directory(&self) -> Result<Option<OwnedFd>, SegmentError> {
        self.object().map(Object::directory).transpose()
    }

    /// A ring in private memory: no name, no pages, the same protocol.
    pub fn heap(spec: &RingSpec) -> Result<Self, SegmentError> {
        Self::heap_filled(spec, |_| Ok(()))
    }

    /// The same, with rows that `fill` puts into it.
    pub fn heap_filled<E: From<SegmentError>>(
        spec: &RingSpec,
        fill: impl FnOnce(&UnnamedRing<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let geometry = Geometry::of(spec, 1)?;
        let asked = geometry.lane_bytes.saturating_mul(spec.lanes.into());
        let asked = asked.saturating_add(geometry.rdr_bytes);
        let (lanes, readers) = private_memory(asked, || {
            let columns = lane::columns(&geometry)?;
            let lane = |_| Lane::heap(&geometry, &columns).map(Arc::new);
            let lanes = (0..spec.lanes).map(lane).collect::<Result<Vec<_>, _>>()?;
            Ok((lanes, Readers::heap(&geometry, spec.reader_slots, spec.lanes)?))
        })?;
        fill(&UnnamedRing::of_heap(spec, &geometry, &lanes))?;
        let place = Place::Heap { locks: HeapLocks::default(), uuid: rand::random() };
        let spec = spec.clone();
        let ringing = OnceLock::new();
        let lane_capacity = spec.lane_capacity;
        let origin = Origin { created_unix_ns: unix_ns(), lane_capacity };
        let RingSpec { asked_rows, asked_bytes, .. } = spec;
        let lanes = Mapped::new(lanes, Size { asked_rows, asked_bytes, huge_bytes: 0 });
        Ok(Self { spec, geometry, origin, lanes, readers, ringing, place })
    }

    pub(crate) fn of(object: Object) -> Result<Self, SegmentError> {
        let (superblock, columns) = ring_files::read_ctl(&object)?;
        let path = object.path().join(CTL);
        let (policy, timeout_ms) = (superblock.lane_policy, superblock.lease_timeout_ms);
        let policy = LanePolicy::from_words(policy, timeout_ms).ok_or_else(|| {
            let what = format!("its lane policy is {policy} with {timeout_ms} ms, which is none");
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
        };
        // Computed anew: what the file says about sizes must agree, and is not used.
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
        // The records' own offsets, widths and padding: the same bytes that we would write.
        if lane_shape::schema_hash(&spec, &geometry) != superblock.schema_hash {
            let what = "its column records disagree with the sizes of its columns";
            return Err(SegmentError::corrupt(&path, what));
        }
        let readers = ring_files::map_readers(&object, &geometry, ring_uuid, &spec)?;
        // Who resized it may have been killed before it told the writers.
        readers.count_resizes(superblock.resizes);
        let shapes = Shapes::new(ring_uuid, spec.clone(), superblock.map_align.into());
        let lanes = (0..spec.lanes)
            .map(|lane| {
                mapped_lanes::current(&object, &shapes, lane, Access::ReadOnly).map(Arc::new)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let locks = object.lock_handle()?;
        let origin = Origin {
            created_unix_ns: superblock.created_unix_ns,
            lane_capacity: superblock.made_lane_capacity,
        };
        let place = Place::Named { object, shapes, locks };
        let (ringing, lanes) = (OnceLock::new(), Mapped::new(lanes, (&superblock).into()));
        Ok(Self { spec, geometry, origin, lanes, readers, ringing, place })
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
                return different(format!("it has {}, asked was {}", show(there), show(here)));
            }
        }
        if mine.snapshot != asked.snapshot {
            let kind = |snapshot| if snapshot { "a snapshot" } else { "no snapshot" };
            let (there, here) = (kind(mine.snapshot), kind(asked.snapshot));
            return different(format!("it is {there}, asked was {here}"));
        }
        // Whoever asks for memory that cannot be cut relies on it.
        if asked.memfd && !mine.memfd {
            return different("it lies in files, asked was memfd".to_owned());
        }
        if mine.lanes != asked.lanes {
            return different(format!("it has {} lanes, asked were {}", mine.lanes, asked.lanes));
        }
        // A ring that was resized is still the one that its programs make.
        if ![mine.lane_capacity, self.origin.lane_capacity].contains(&asked.lane_capacity) {
            let (there, here) = (mine.lane_capacity, asked.lane_capacity);
            return different(format!("its lanes keep {there} rows, asked were {here}"));
        }
        if mine.reader_slots != asked.reader_slots {
            let (there, here) = (mine.reader_slots, asked.reader_slots);
            return different(format!("it has {there} reader slots, asked were {here}"));
        }
        if mine.policy.to_words() != asked.policy.to_words() {
            let (there, here) = (mine.policy, asked.policy);
            let ms = |policy: LanePolicy| policy.timeout().as_millis();
            return different(format!(
                "its lane policy is {there} ({} ms), asked was {here} ({} ms)",
                ms(there),
                ms(here)
            ));
        }
        Ok(())
    }

    /// What the ring was made of when this handle was; a resize makes its lanes larger
    /// ([`Lane::capacity`]).
    #[must_use]
    pub fn spec(&self) -> &RingSpec {
        &self.spec
    }

    /// Its sizes, then.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Wall clock at creation, nanoseconds since 1970.
    #[must_use]
    pub fn created_unix_ns(&self) -> u64 {
        self.origin.created_unix_ns
    }

    /// Bytes of the lanes that were on huge pages when the ring was made. The system may have taken
    /// some back since.
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.lanes().size().huge_bytes.min(self.bytes())
    }

    /// Random, of this ring alone: a ring made anew under the same name has another one.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        match &self.place {
            Place::Named { shapes, .. } => shapes.ring_uuid,
            Place::Heap { uuid, .. } => *uuid,
        }
    }

    /// Name, unless it is on the heap.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.object().map(Object::name)
    }

    /// Directory, unless it is on the heap.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.object().map(Object::path)
    }

    /// Whether it stays when nobody holds it.
    #[must_use]
    pub fn persistent(&self) -> bool {
        self.object().is_some_and(Object::persistent)
    }

    pub(crate) fn object(&self) -> Option<&Object> {
        match &self.place {
            Place::Named { object, .. } => Some(object),
            Place::Heap { .. } => None,
        }
    }

    /// Takes the name away; every handle keeps its memory.
    pub fn unlink(&self) -> Result<(), SegmentError> {
        self.object().map_or(Ok(()), Object::unlink)
    }

    /// A lane's memory, for reading, as this handle has it mapped.
    #[must_use]
    pub fn lane(&self, lane: u32) -> Option<Arc<Lane>> {
        self.lanes.now().get(lane as usize).map(Arc::clone)
    }

    /// All lanes, in order, as this handle has them mapped.
    #[inline]
    #[must_use]
    pub fn lanes(&self) -> Arc<Lanes> {
        self.lanes.now()
    }

    /// Maps anew the lanes that moved to larger files, whose old memory reads as empty. `true`: there
    /// were some.
    pub fn follow(&self) -> Result<bool, SegmentError> {
        match &self.place {
            Place::Named { object, shapes, .. } => self.lanes.follow(object, shapes),
            Place::Heap { .. } => Ok(false),
        }
    }

    /// Bytes of all files, as this handle has them mapped.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lanes: u64 = self.lanes().iter().map(|lane| lane.bytes()).sum();
        lanes + self.geometry.ctl_bytes + self.geometry.rdr_bytes
    }

    /// Rows, or else bytes, that were asked for.
    #[must_use]
    pub fn asked(&self) -> (u64, u64) {
        let lanes = self.lanes();
        (lanes.size().asked_rows, lanes.size().asked_bytes)
    }

    /// How often the ring was resized, as its writers are told.
    #[must_use]
    pub fn resizes(&self) -> u32 {
        self.readers.resizes()
    }

    /// A word that changes when the ring is resized, and when somebody notes that it has lost its name.
    /// One relaxed load.
    #[inline]
    #[must_use]
    pub fn notices(&self) -> u32 {
        self.readers.notices()
    }

    /// Whether the ring was removed or replaced, so that nobody can attach to it any more. Two system
    /// calls; what is found is noted for all holders. `false` on the heap.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        let marked = self.readers.is_marked_unlinked();
        let unlinked = self.object().is_some_and(|object| object.is_unlinked(marked));
        if unlinked && !marked {
            self.readers.mark_unlinked();
        }
        unlinked
    }

    /// Claims a lane for writing; `None` when another writer has it, or in a snapshot.
    pub fn claim_lane(&self, lane: u32) -> Result<Option<ClaimedLane>, SegmentError> {
        if self.spec.snapshot {
            return Ok(None);
        }
        let Some(claim) = self.hold_lane(lane)? else { return Ok(None) };
        let memory = match &self.place {
            Place::Named { object, shapes, .. } => {
                relocation::settled(object, shapes, lane, self.resizes())?.into()
            }
            Place::Heap { .. } => match self.lane(lane) {
                Some(lane) => lane,
                None => return Ok(None),
            },
        };
        // Before the first row: the kernel is told once, so that publishing needs no fence.
        self.ringing.get_or_init(Ringing::of_this_process);
        Ok(ClaimedLane::new(memory, claim, unix_ns()))
    }

    /// The bell that writers ring after they published.
    #[inline]
    #[must_use]
    pub fn published(&self) -> SharedBell<'_> {
        self.readers.published(self.ringing.get().copied().unwrap_or(Ringing::Fenced))
    }

    /// The bell that readers ring after they let go of a lease.
    #[must_use]
    pub fn released(&self) -> SharedBell<'_> {
        self.readers.released()
    }

    /// The pins on a lane.
    #[must_use]
    pub fn pins(&self, lane: u32) -> LanePins<'_> {
        self.readers.pins(lane)
    }

    /// Takes away the pins of a slot whose holder has died. `true`: there was nobody to ask.
    pub fn reap_reader(&self, slot: u32) -> Result<bool, SegmentError> {
        reader_slot::reap(&ReaderSlots(self), slot)
    }

    /// Notes at a reader's slot that one of its leases made a writer wait, drop or fail.
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

    /// Whether some writer, in any process, has the lane.
    #[must_use]
    pub fn lane_held(&self, lane: u32) -> bool {
        self.held(LANE_LOCKS + u64::from(lane))
    }

    /// Claims a free reader slot; `None` when all are taken, or when the ring has lost its name.
    pub fn claim_reader(self: &Arc<Self>) -> Result<Option<ClaimedReader>, SegmentError> {
        for slot in 0..self.spec.reader_slots {
            let claim = match reader_slot::claim(&ReaderSlots(self), slot) {
                // Without a name nobody can look at the slots either.
                Err(SegmentError::Unlinked { .. }) => return Ok(None),
                claim => claim?,
            };
            let Some(claim) = claim else { continue };
            self.readers.sign(slot, unix_ns());
            return Ok(Some(ClaimedReader { store: Arc::clone(self), slot, _claim: claim }));
        }
        Ok(None)
    }

    /// Whether some reader, in any process, has the slot.
    #[must_use]
    pub fn reader_held(&self, slot: u32) -> bool {
        self.held(READER_LOCKS + u64::from(slot))
    }

    /// What a reader slot says.
    #[must_use]
    pub fn reader(&self, slot: u32) -> Option<ReaderRecord> {
        self.readers.record(slot)
    }

    /// The ring's files, if its lanes can be made larger.
    pub(crate) fn resizable(&self) -> Result<(&Object, &Shapes), SegmentError> {
        match &self.place {
            Place::Named { object, shapes, .. } if !self.spec.snapshot => Ok((object, shapes)),
            Place::Named { .. } => Err(SegmentError::FixedSize { what: "a snapshot" }),
            Place::Heap { .. } => Err(SegmentError::FixedSize { what: "a ring on the heap" }),
        }
    }

    pub(crate) fn count_resizes(&self, resizes: u32) {
        self.readers.count_resizes(resizes);
    }

    /// Keeps writers from a lane that has none.
    pub(crate) fn hold_lane(&self, lane: u32) -> Result<Option<Claim>, SegmentError> {
        self.claim(LANE_LOCKS + u64::from(lane), |lock| {
            Claim::OwnFile(NotInherited::new(&lock), lock)
        })
    }

    /// The processes of this user that hold lanes, by lane, as the system tells. Looks at all of them:
    /// for messages. Empty on the heap, and where the system does not tell.
    #[must_use]
    pub fn lane_holders(&self) -> BTreeMap<u32, Vec<u32>> {
        let Place::Named { locks, .. } = &self.place else { return BTreeMap::new() };
        let bytes = LANE_LOCKS..LANE_LOCKS + u64::from(self.spec.lanes);
        let held = lock_holders::of(locks.as_fd(), &bytes).into_iter();
        held.filter_map(|(byte, pids)| Some((u32::try_from(byte - LANE_LOCKS).ok()?, pids)))
            .collect()
    }

    fn claim(
        &self,
        byte: u64,
        of_file: impl FnOnce(LockFile) -> Claim,
    ) -> Result<Option<Claim>, SegmentError> {
        match &self.place {
            Place::Named { object, .. } => {
                let lock = object.lock_handle()?;
                let taken = lock
                    .try_lock(byte, Hold::Exclusive)
                    .map_err(SegmentError::io("lock", object.path()))?;
                Ok(taken.then(|| of_file(lock)))
            }
            Place::Heap { locks, .. } => Ok(locks.claim(byte)),
        }
    }

    pub(crate) fn held(&self, byte: u64) -> bool {
        match &self.place {
            Place::Named { locks, .. } => locks.held_elsewhere(byte).unwrap_or(false),
            Place::Heap { locks, .. } => locks.held(byte),
        }
    }
}

/// The ring's reader slots, as the protocol speaks of them.
struct ReaderSlots<'a>(&'a RingStore);

impl Slots for ReaderSlots<'_> {
    type Claim = Claim;
    type Error = SegmentError;

    fn is_held(&self, slot: u32) -> bool {
        self.0.reader_held(slot)
    }

    fn try_claim(&self, slot: u32) -> Result<Option<Claim>, SegmentError> {
        self.0.claim(READER_LOCKS + u64::from(slot), Claim::File)
    }

    fn clear_pins(&self, slot: u32) {
        clear_pins(&self.0.readers, slot);
    }
}

/// One process writes the word at a time, so a load and a store do.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}
