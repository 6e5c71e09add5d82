//! Memory of a set of parameters, and the lock that decides which handle publishes.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::error::{ObjectKind, SegmentError};
use crate::layout::names::{Base, Exist, check_name};
use crate::layout::params_shape::ParamsShape;
use crate::layout::params_table::{ParamsDataHeader, ParamsMemory, add};
use crate::layout::reader_table::{LanePins, ReaderTable, SharedNotifier};
use crate::os::byte_lock::{Claim, HeapLocks, LockFile, LockMode};
use crate::os::clock::unix_ns;
use crate::os::fork_release::ReleasedOnFork;
use crate::os::futex::NotifyBarrier;
use crate::os::mapping::{Access, Mapping};
use crate::os::{lock_holders, space};
use crate::protocol::clear_pins;
use crate::protocol::reader_slot::{self, ReaderSlots};
use crate::protocol::version::{
    self, ImpossibleVersion, Unpublishable, VersionPlace, VersionPublisher,
};
use crate::store::object::{Object, check_stays};
use crate::store::params_files::{
    self, FirstVersion, ctl_bytes, map_data, map_readers, read_ctl, reader_bytes,
};

/// Byte that the publisher locks.
const PUBLISHER_LOCK: u64 = 4096;
/// Byte that the holder of reader slot 0 locks.
const READER_LOCKS: u64 = 1 << 32;
/// Number of words in `params.rdr` after the pins: versions copied, copies made again.
const READ_WORDS: usize = 2;

/// Memory of an object of parameters: versions mapped for reading, pins for reading and writing.
#[derive(Debug)]
pub struct ParamsStore {
    shape: ParamsShape,
    uuid: [u8; 16],
    created_unix_ns: u64,
    memory: Arc<ParamsMemory>,
    readers: ReaderTable,
    /// Barrier of this process's notifications. Set once the process has claimed to be the
    /// publisher.
    barrier: OnceLock<NotifyBarrier>,
    place: Backing,
}

/// Place of the memory, and the locks on it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the size of a lock file differs by platform")]
enum Backing {
    // `locks` holds the object too, so it is dropped first. `object` then checks whether it is the
    // last holder.
    Named { locks: LockFile, object: Object },
    Heap { locks: HeapLocks },
}

/// The right to publish, until it is dropped or its process dies.
#[derive(Debug)]
pub struct ParamsPublisher {
    // Dropped before the store: the claim holds the object too.
    _claim: Claim,
    publisher: VersionPublisher<Arc<ParamsMemory>>,
    store: Arc<ParamsStore>,
}

impl ParamsPublisher {
    /// Returns the newest version. 0 before the first one.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.publisher.newest()
    }

    /// Takes a slot for a version. The caller must write every array of the version before it
    /// publishes the version. Clears the pins of dead readers only if no slot is free.
    pub fn reserve(&mut self, version: u64) -> Result<VersionPlace, Unpublishable> {
        let mut reserved = self.publisher.reserve(version, &self.store.pins());
        if let Err(Unpublishable::Pinned(slots)) = &reserved {
            let mut reaped = false;
            for reader in self.store.readers_of(slots) {
                reaped |= self.store.reap_reader(reader).unwrap_or(false);
            }
            if reaped {
                reserved = self.publisher.reserve(version, &self.store.pins());
            }
        }
        if let Err(Unpublishable::Pinned(_)) = &reserved {
            let [_, refused, ..] = self.publisher.words().counters();
            add(refused, 1);
        }
        reserved
    }

    /// Writes an array of a reserved version. Returns `false` if `bytes` has another length than
    /// the array, or there is no such array.
    #[must_use]
    pub fn write(&self, place: VersionPlace, array: usize, bytes: &[u8]) -> bool {
        let array = self.store.shape.arrays().get(array);
        array
            .filter(|array| array.bytes() == bytes.len())
            .is_some_and(|array| self.publisher.words().copy_in(place.slot, array.offset(), bytes))
    }

    /// Makes a reserved version the newest one, and wakes the processes that wait.
    pub fn publish(&mut self, place: VersionPlace) {
        let memory = self.publisher.words();
        memory.time_word(place.slot).store(unix_ns(), Relaxed);
        let [published, ..] = memory.counters();
        add(published, 1);
        self.publisher.publish(place);
        crate::protocol::notify(&self.store.published());
    }
}

/// A claimed reader slot, whose pins keep versions for views. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ParamsReader {
    // Dropped before the store: the claim holds the object too.
    _claim: Claim,
    pub(crate) store: Arc<ParamsStore>,
    pub(crate) slot: u32,
}

impl ParamsStore {
    /// Creates the files, or attaches to an existing object of equal shape if `exist` allows it. A
    /// new object holds the first version, if there is one, before it has its name. Returns `true`
    /// if it is new.
    pub fn create(
        base: &Base,
        name: &str,
        shape: &ParamsShape,
        exist: Exist,
        persistent: bool,
        first: Option<FirstVersion<'_>>,
    ) -> Result<(Self, bool), SegmentError> {
        check_name(name)?;
        let made =
            Object::create(base, ObjectKind::Params, name, exist, persistent, |dir, path| {
                params_files::make(dir, path, shape, first)
            });
        let (object, new) = made?;
        if !new {
            check_stays(ObjectKind::Params, name, object.persistent(), persistent)?;
        }
        let store = Self::of(object)?;
        match store.shape.difference(shape) {
            Some(what) if !new => Err(SegmentError::Different {
                kind: ObjectKind::Params,
                name: name.to_owned(),
                what,
            }),
            _ => Ok((store, new)),
        }
    }

    /// Attaches to an existing object.
    pub fn attach(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::open(base, ObjectKind::Params, name)?)
    }

    /// Attaches without holding the object. An object that is not persistent is removed when its
    /// holders end.
    pub fn observe(base: &Base, name: &str) -> Result<Self, SegmentError> {
        Self::of(Object::observe(base, ObjectKind::Params, name)?)
    }

    /// Allocates memory of that shape, private to this process.
    pub fn heap(shape: &ParamsShape) -> Result<Self, SegmentError> {
        let uuid = rand::random();
        let memory = space::private_memory(shape.data_bytes(), || ParamsMemory::heap(shape))?;
        memory.store_header(&ParamsDataHeader::new(uuid));
        let len = usize::try_from(reader_bytes(shape)).unwrap_or(usize::MAX);
        let readers = space::private_memory(len as u64, || Mapping::heap(len))?;
        Ok(Self {
            readers: ReaderTable::new(readers, shape.reader_slots(), 1),
            shape: shape.clone(),
            uuid,
            created_unix_ns: unix_ns(),
            memory: Arc::new(memory),
            barrier: OnceLock::new(),
            place: Backing::Heap { locks: HeapLocks::default() },
        })
    }

    fn of(object: Object) -> Result<Self, SegmentError> {
        let (header, shape) = read_ctl(&object)?;
        let memory = Arc::new(map_data(&object, &header, &shape, Access::ReadOnly)?);
        let readers = map_readers(&object, &header, &shape)?;
        let locks = object.lock_handle()?;
        Ok(Self {
            shape,
            uuid: header.params_uuid,
            created_unix_ns: header.created_unix_ns,
            memory,
            readers,
            barrier: OnceLock::new(),
            place: Backing::Named { locks, object },
        })
    }

    /// Returns the arrays and the number of slots.
    #[must_use]
    pub fn shape(&self) -> &ParamsShape {
        &self.shape
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

    /// Returns whether the object stays when no process holds it.
    #[must_use]
    pub fn persistent(&self) -> bool {
        self.object().is_some_and(Object::persistent)
    }

    /// Returns the random id: another object of the same name has another one.
    #[must_use]
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the wall clock at creation, nanoseconds since 1970.
    #[must_use]
    pub fn created_unix_ns(&self) -> u64 {
        self.created_unix_ns
    }

    /// Returns the bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.data_bytes() + reader_bytes(&self.shape) + ctl_bytes(&self.shape)
    }

    fn object(&self) -> Option<&Object> {
        match &self.place {
            Backing::Named { object, .. } => Some(object),
            Backing::Heap { .. } => None,
        }
    }

    /// Removes the name; every handle keeps its memory.
    pub fn unlink(&self) -> Result<(), SegmentError> {
        self.object().map_or(Ok(()), Object::unlink)
    }

    /// Returns whether the object was removed or replaced. Makes one system call, or up to three if
    /// the object is marked as unlinked. Marks a loss of the name that it finds, for all holders.
    #[must_use]
    pub fn is_unlinked(&self) -> bool {
        let marked = self.readers.is_marked_unlinked();
        let unlinked = self.object().is_some_and(|object| object.is_unlinked(marked));
        if unlinked && !marked {
            self.readers.mark_unlinked();
        }
        unlinked
    }

    /// Returns the newest version. 0 before the first one. One relaxed load.
    #[inline]
    #[must_use]
    pub fn newest(&self) -> u64 {
        version::newest_version(&*self.memory)
    }

    /// Returns the place of the newest version if it is above `last`. One relaxed load and a
    /// compare if it is not.
    #[inline]
    pub fn newer(&self, last: u64) -> Result<Option<VersionPlace>, ImpossibleVersion> {
        version::newer(&*self.memory, last)
    }

    /// Returns the place of a version that can be read. O(slots).
    #[must_use]
    pub fn find(&self, version: u64) -> Option<VersionPlace> {
        version::find_version(&*self.memory, version)
    }

    /// Returns the versions that can be read, oldest first. O(slots).
    #[must_use]
    pub fn versions(&self) -> Vec<u64> {
        version::readable_versions(&*self.memory)
    }

    /// Returns when a version was published, in nanoseconds since 1970, while it can be read.
    #[must_use]
    pub fn published_unix_ns(&self, version: u64) -> Option<u64> {
        let place = self.find(version)?;
        let time = self.memory.time_word(place.slot).load(Relaxed);
        self.is_whole(place).then_some(time)
    }

    /// Copies an array of a version. The copy counts only if [`is_whole`](Self::is_whole) is true
    /// afterwards. Returns `false` if there is no such array, or `out` has another length.
    #[inline]
    #[must_use]
    pub fn copy(&self, place: VersionPlace, array: usize, out: &mut [u8]) -> bool {
        let array = self.shape.arrays().get(array);
        array
            .filter(|array| array.bytes() == out.len())
            .is_some_and(|array| self.memory.copy_out(place.slot, array.offset(), out))
    }

    /// Returns whether copies from a place were not overwritten meanwhile.
    #[inline]
    #[must_use]
    pub fn is_whole(&self, place: VersionPlace) -> bool {
        version::is_whole(&*self.memory, place)
    }

    /// Counts versions that were copied, and copies that were made again.
    pub fn count_pulls(&self, pulled: u64, retries: u64) {
        let Some([pulls, again]) = self.read_words() else { return };
        pulls.fetch_add(pulled, Relaxed);
        if retries > 0 {
            again.fetch_add(retries, Relaxed);
        }
    }

    fn read_words(&self) -> Option<&[AtomicU64; READ_WORDS]> {
        self.readers.words_after_pins(READ_WORDS)?.first_chunk()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> ParamsCounters {
        let [published, refused, pid, generation] =
            self.memory.counters().map(|word| word.load(Relaxed));
        let [pulls, retries] = self
            .read_words()
            .map_or([0; READ_WORDS], |words| words.each_ref().map(|word| word.load(Relaxed)));
        ParamsCounters { published, refused, pid, generation, pulls, retries }
    }

    /// Returns the memory of the blocks, for the addresses of views.
    pub(crate) fn memory(&self) -> &ParamsMemory {
        &self.memory
    }

    /// Returns the pins: a word for each reader slot, with a bit for each slot of a version.
    pub(crate) fn pins(&self) -> LanePins<'_> {
        self.readers.pins(0)
    }

    /// Returns the notifier that publishers use, for processes that wait.
    #[inline]
    #[must_use]
    pub fn published(&self) -> SharedNotifier<'_> {
        self.readers.published(self.barrier.get().copied().unwrap_or(NotifyBarrier::Fence))
    }

    /// Becomes the publisher. Returns `None` if another handle is the publisher, and an inner error
    /// if the words of the object are impossible.
    pub fn claim_publisher(
        self: &Arc<Self>,
    ) -> Result<Option<Result<ParamsPublisher, ImpossibleVersion>>, SegmentError> {
        let of_file = |lock| Claim::OwnFile(ReleasedOnFork::new(&lock), lock);
        let Some(claim) = self.claim(PUBLISHER_LOCK, of_file)? else { return Ok(None) };
        let memory = match &self.place {
            Backing::Named { object, .. } => {
                let (header, _) = read_ctl(object)?;
                Arc::new(map_data(object, &header, &self.shape, Access::ReadWrite)?)
            }
            Backing::Heap { .. } => Arc::clone(&self.memory),
        };
        // Register with the kernel once, before the first version, so that publishing needs no
        // fence.
        self.barrier.get_or_init(NotifyBarrier::of_this_process);
        let [_, _, pid, generation] = memory.counters();
        pid.store(u64::from(std::process::id()), Relaxed);
        add(generation, 1);
        let adopted = VersionPublisher::adopt(memory, self.shape.versions_kept());
        Ok(Some(adopted.map(|publisher| ParamsPublisher {
            publisher,
            store: Arc::clone(self),
            _claim: claim,
        })))
    }

    /// Returns whether a handle, in any process, is the publisher.
    #[must_use]
    pub fn has_publisher(&self) -> bool {
        self.held(PUBLISHER_LOCK)
    }

    /// Returns the processes of this user that hold the publisher's lock, where the system reports
    /// them. Searches all processes, so it is only for messages. Empty on the heap.
    #[must_use]
    pub fn publisher_pids(&self) -> Vec<u32> {
        let Backing::Named { locks, .. } = &self.place else { return Vec::new() };
        let byte = PUBLISHER_LOCK;
        lock_holders::of(locks.as_fd(), &(byte..byte + 1)).remove(&byte).unwrap_or_default()
    }

    /// Returns the readers that pin one of the slots.
    fn readers_of(&self, slots: &[u32]) -> Vec<u32> {
        let pins = self.pins();
        let mut readers: Vec<u32> = slots
            .iter()
            .flat_map(|slot| version::pinning_readers(&pins, *slot).collect::<Vec<_>>())
            .collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// Returns the process ids of the readers that pin one of `slots`. For messages: does not check
    /// that they are alive.
    #[must_use]
    pub fn pinning_pids(&self, slots: &[u32]) -> Vec<u64> {
        let records = self.readers_of(slots).into_iter();
        let mut pids: Vec<u64> =
            records.filter_map(|reader| Some(self.readers.record(reader)?.pid)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Returns the handles that pin versions: the process id of each, and the number of versions
    /// that it pins.
    #[must_use]
    pub fn viewers(&self) -> Vec<(u64, u32)> {
        let pins = self.pins();
        (0..self.shape.reader_slots())
            .filter_map(|reader| {
                let pinned = pins.0.get(reader as usize)?.load(Relaxed).count_ones();
                let held = pinned > 0 && self.held(READER_LOCKS + u64::from(reader));
                held.then(|| Some((self.readers.record(reader)?.pid, pinned)))?
            })
            .collect()
    }

    /// Claims a free reader slot. Returns `None` if all are taken.
    pub(crate) fn claim_reader(self: &Arc<Self>) -> Result<Option<ParamsReader>, SegmentError> {
        for slot in 0..self.shape.reader_slots() {
            let Some(claim) = reader_slot::claim(&SlotsOfParams(self), slot)? else { continue };
            self.readers.sign(slot, unix_ns());
            return Ok(Some(ParamsReader { _claim: claim, store: Arc::clone(self), slot }));
        }
        Ok(None)
    }

    fn reap_reader(&self, reader: u32) -> Result<bool, SegmentError> {
        reader_slot::reap(&SlotsOfParams(self), reader)
    }

    fn claim(
        &self,
        byte: u64,
        of_file: impl FnOnce(LockFile) -> Claim,
    ) -> Result<Option<Claim>, SegmentError> {
        match &self.place {
            Backing::Named { object, .. } => {
                Ok(object.lock(byte, LockMode::Exclusive)?.map(of_file))
            }
            Backing::Heap { locks } => Ok(locks.claim(byte)),
        }
    }

    fn held(&self, byte: u64) -> bool {
        match &self.place {
            Backing::Named { locks, .. } => locks.held_elsewhere(byte).unwrap_or(false),
            Backing::Heap { locks } => locks.held(byte),
        }
    }
}

/// Counters of an object of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamsCounters {
    /// Versions published.
    pub published: u64,
    /// Publishes refused because views pin every slot that could be reused.
    pub refused: u64,
    /// Process id of the last publisher. 0 before the first one.
    pub pid: u64,
    /// How often a handle became the publisher.
    pub generation: u64,
    /// Versions copied, over all handles.
    pub pulls: u64,
    /// Copies made again because the publisher reused the slot meanwhile.
    pub retries: u64,
}

/// Reader slots of an object, as the protocol needs them.
struct SlotsOfParams<'a>(&'a ParamsStore);

impl ReaderSlots for SlotsOfParams<'_> {
    type Claim = Claim;
    type Error = SegmentError;

    fn is_held(&self, slot: u32) -> bool {
        self.0.held(READER_LOCKS + u64::from(slot))
    }

    fn try_claim(&self, slot: u32) -> Result<Option<Claim>, SegmentError> {
        self.0.claim(READER_LOCKS + u64::from(slot), Claim::File)
    }

    fn clear_pins(&self, slot: u32) {
        clear_pins(&self.0.readers, slot);
    }
}
