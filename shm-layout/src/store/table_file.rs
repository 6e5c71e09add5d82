//! Files of the tables of a ring: names, locks, creation and listing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use rustix::fs::{AtFlags, unlinkat};

use crate::error::SegmentError;
use crate::layout::claim_table::ClaimMemory;
use crate::layout::geometry::RingSpec;
use crate::layout::learned_table::LearnedMemory;
use crate::layout::names::check_table_name;
use crate::layout::priority_table::TableMemory;
use crate::layout::table_header::{
    CommonHeader, KIND_CLAIMS, KIND_LEARNED, KIND_PRIORITIES, contents,
};
use crate::os::byte_lock::{Claim, HeapLocks, LockFile, LockMode};
use crate::os::fork_release::ReleasedOnFork;
use crate::os::mapping::{Access, HUGE_PAGE, Mapping};
use crate::os::{huge_pages, space};
use crate::store::memfd;
use crate::store::object::Object;
use crate::store::ring_files::RingFolder;
use crate::store::ring_store::RingStore;
use crate::store::unnamed_ring::{UnnamedMemory, UnnamedRing};

/// First of the bytes that holders of tables lock. The byte of a table is this number plus the
/// CRC-32 of the table's name.
const TABLE_LOCKS: u64 = 1 << 33;
const PREFIX: &str = "table-";
const SUFFIX: &str = ".dat";
/// Suffix of a table that is being written.
const BUILDING: &str = ".building";

/// A table of a ring on the heap.
#[derive(Clone, Debug)]
pub(crate) enum HeapTable {
    Priorities(Arc<TableMemory>),
    Claims(Arc<ClaimMemory>),
    Learned(Arc<LearnedMemory>),
}

impl HeapTable {
    fn kind(&self) -> u32 {
        match self {
            Self::Priorities(_) => KIND_PRIORITIES,
            Self::Claims(_) => KIND_CLAIMS,
            Self::Learned(_) => KIND_LEARNED,
        }
    }

    /// Returns the error of a table that is of another kind than `wanted`.
    pub(crate) fn other_kind(&self, table: &str, wanted: u32) -> SegmentError {
        other_kind(table, self.kind(), wanted)
    }
}

/// Lock of a table.
#[derive(Debug)]
pub(super) enum TableLock {
    File(#[expect(dead_code, reason = "goes before the lock")] ReleasedOnFork, LockFile),
    Heap(HeapLocks),
}

impl TableLock {
    pub(super) fn try_lock(
        &self,
        byte: u64,
        path: &Path,
    ) -> Result<Option<Held<'_>>, SegmentError> {
        match self {
            Self::File(_, lock) => {
                let taken = lock.try_lock(byte, LockMode::Exclusive);
                let taken = taken.map_err(SegmentError::io("lock", path))?;
                Ok(taken.then_some(Held::File(lock, byte)))
            }
            Self::Heap(locks) => Ok(locks.claim(byte).map(|claim| Held::Heap { _claim: claim })),
        }
    }
}

/// A held lock of a table. Dropping it releases the lock.
#[derive(Debug)]
pub(super) enum Held<'a> {
    File(&'a LockFile, u64),
    Heap {
        _claim: Claim,
    },
    /// A table that no other handle knows yet.
    Unnamed,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Held::File(lock, byte) = self {
            // Unlocking a locked range does not fail, and the kernel releases it at the end of the
            // process.
            let _ = lock.unlock(*byte);
        }
    }
}

pub(super) fn file_name(table: &str) -> String {
    format!("{PREFIX}{table}{SUFFIX}")
}

/// Returns whether a file of a ring is a table, whole or being written.
pub(crate) fn is_table(file: &str) -> bool {
    name_of(file.strip_suffix(BUILDING).unwrap_or(file)).is_some()
}

/// Returns whether a file of a ring is a table that is being written.
pub(crate) fn is_unfinished(file: &str) -> bool {
    file.ends_with(BUILDING)
}

/// Returns the name of the table in a file of this name. `None` for an unfinished table, and for
/// any file that is no table.
pub(super) fn name_of(file: &str) -> Option<&str> {
    file.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

/// Returns the byte of `ring.lck` that the holder of a table locks. Tables whose names give the
/// same byte share one lock, which has no other effect.
pub(super) fn lock_byte(table: &str) -> u64 {
    TABLE_LOCKS + u64::from(crc32fast::hash(table.as_bytes()))
}

/// Memory of one kind of table.
pub(crate) trait TableKind: Sized {
    /// Number of the kind in headers.
    const KIND: u32;
    /// First bytes of a file.
    type Header: bytemuck::Pod;
    /// Sizes of a table.
    type Shape: Clone;

    /// Checks the header of a table, and the records that follow it, against the ring. Returns the
    /// sizes of the table.
    fn check(file: &TableFile<'_>, header: &Self::Header) -> Result<Self::Shape, SegmentError>;

    /// Returns the bytes of a table of these sizes.
    fn bytes(shape: &Self::Shape) -> u64;

    fn new(map: Mapping, shape: Self::Shape) -> Self;

    fn into_heap(table: Arc<Self>) -> HeapTable;

    /// Returns the memory of a table of this kind.
    fn of_heap(table: &HeapTable) -> Option<Arc<Self>>;
}

/// An open file of a table, and the ring that it is a table of.
pub(crate) struct TableFile<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) path: &'a Path,
    pub(super) ring_uuid: [u8; 16],
    pub(super) lanes: u32,
}

/// A table to be created: its sizes, and a function from the id of its ring to its first bytes.
pub(super) struct NewTable<'a, T: TableKind> {
    pub(super) shape: T::Shape,
    pub(super) image: &'a dyn Fn([u8; 16]) -> Vec<u8>,
}

impl<T: TableKind> NewTable<'_, T> {
    /// Creates the table in private memory.
    fn on_heap(&self) -> Result<T, SegmentError> {
        let bytes = T::bytes(&self.shape);
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let map = space::private_memory(bytes, || Mapping::heap(len))?;
        let image = (self.image)([0; 16]);
        let words = map.words64(0, image.len() / size_of::<u64>()).unwrap_or_default();
        for (word, bytes) in words.iter().zip(image.chunks_exact(size_of::<u64>())) {
            let value = bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            word.store(value, Relaxed);
        }
        Ok(T::new(map, self.shape.clone()))
    }

    /// Writes the table under another name, and renames it. The caller holds the table's lock,
    /// unless the ring has no name yet. In a ring in memfds the table is a sealed memfd too.
    fn make(&self, place: &TablePlace<'_>, name: &str) -> Result<(), SegmentError> {
        let (TablePlace { folder, ring_uuid, .. }, bytes) = (place, T::bytes(&self.shape));
        let RingFolder { dir, path, .. } = *folder;
        let building = format!("{}{BUILDING}", file_name(name));
        // Remove the file of a creator that was killed.
        let _ = unlinkat(dir, &building, AtFlags::empty());
        let fill = || -> Result<(), SegmentError> {
            folder.check_room(bytes)?;
            let file = folder.new_file(&building)?;
            if place.spec.huge_pages {
                huge_pages::request(&file, bytes, huge_pages::deadline(bytes));
            }
            folder.fill(file, &file_name(name), bytes, &[&(self.image)(*ring_uuid)])?;
            rustix::fs::renameat(dir, &building, dir, file_name(name))
                .map_err(|error| SegmentError::io("rename", &path.join(&building))(error.into()))
        };
        fill().inspect_err(|_| {
            let _ = unlinkat(dir, &building, AtFlags::empty());
        })
    }
}

/// Directory of a ring, and the properties of the ring that its tables depend on.
struct TablePlace<'a> {
    /// The ring, if it has a name.
    object: Option<&'a Object>,
    folder: RingFolder<'a>,
    ring_uuid: [u8; 16],
    spec: &'a RingSpec,
}

impl TablePlace<'_> {
    /// Opens and maps a table. Returns its file too.
    fn open<T: TableKind>(&self, name: &str) -> Result<(T, OwnedFd), SegmentError> {
        let file = file_name(name);
        let fd = match self.object {
            Some(object) => object.memory(&file, Access::ReadWrite, None)?,
            None => self.folder.open(&file, Access::ReadWrite)?,
        };
        let path = &self.folder.path.join(file);
        let (ring_uuid, lanes) = (self.ring_uuid, self.spec.lanes);
        let table = map(&TableFile { fd: fd.as_fd(), path, ring_uuid, lanes })?;
        Ok((table, fd))
    }
}

/// An open table.
#[derive(Debug)]
pub(super) struct OpenTable<T> {
    pub(super) lock: TableLock,
    pub(super) memory: Arc<T>,
    pub(super) name: TableName,
}

/// Name and file of an open table, to find out whether the table was removed.
#[derive(Debug)]
pub(super) struct TableName {
    pub(super) name: String,
    /// `None` on the heap.
    file: Option<OpenFile>,
}

/// The file of an open table.
#[derive(Debug)]
pub(super) enum OpenFile {
    /// A file, which has a name until it is removed.
    Named(OwnedFd),
    /// A memfd, by the number that its link has.
    Memfd(u64),
}

impl TableName {
    /// Fails if the table was removed since it was opened. At most one system call if it was not.
    pub(super) fn check<T: TableKind>(
        &self,
        store: &RingStore,
        memory: &Arc<T>,
    ) -> Result<(), SegmentError> {
        if let Some(file) = &self.file {
            return store.check_table_file(&self.name, file);
        }
        let is_it =
            |found: &HeapTable| T::of_heap(found).is_some_and(|found| Arc::ptr_eq(&found, memory));
        store.check_heap_table(&self.name, is_it)
    }
}

/// Opens a table of a ring, or creates it. Returns `None` while another process creates it: try
/// again.
pub(super) fn open_or_make<T: TableKind>(
    store: &RingStore,
    name: &str,
    new: &NewTable<'_, T>,
) -> Result<Option<OpenTable<T>>, SegmentError> {
    check_table_name(name)?;
    let named = |file| TableName { name: name.to_owned(), file };
    let Some(object) = store.object() else {
        let memory = store.heap_table(name, || new.on_heap())?;
        let lock = TableLock::Heap(store.heap_locks());
        return Ok(Some(OpenTable { lock, memory, name: named(None) }));
    };
    let lock = object.lock_handle()?;
    let lock = TableLock::File(ReleasedOnFork::new(&lock), lock);
    let place = place_of(store, object);
    // A file gets its name only when it is whole, so a file that exists is opened without the lock.
    if !object.has(&file_name(name)) {
        let Some(_held) = lock.try_lock(lock_byte(name), object.path())? else { return Ok(None) };
        if !object.has(&file_name(name)) {
            new.make(&place, name).map_err(|error| object.unless_unlinked(error))?;
        }
    }
    let (memory, file) = match place.open(name) {
        Err(SegmentError::MemoryGone { .. }) => {
            let Some(_held) = lock.try_lock(lock_byte(name), object.path())? else {
                return Ok(None);
            };
            match place.open(name) {
                // All processes that had the sealed memory have ended: begin anew.
                Err(SegmentError::MemoryGone { .. }) => {
                    new.make(&place, name)?;
                    place.open(name)?
                }
                // Another process was faster.
                opened => opened?,
            }
        }
        opened => opened?,
    };
    let file = memfd::id(&file).map_or(OpenFile::Named(file), OpenFile::Memfd);
    Ok(Some(OpenTable { lock, memory: Arc::new(memory), name: named(Some(file)) }))
}

/// Opens a table of a ring that was opened before. Creates none: fails if it was removed.
pub(super) fn opened_again<T: TableKind>(
    store: &RingStore,
    name: &str,
) -> Result<Arc<T>, SegmentError> {
    let removed = || SegmentError::TableRemoved { table: name.to_owned() };
    let Some(object) = store.object() else {
        let found = store.heap_tables().into_iter().find(|(table, _)| table == name);
        let (_, table) = found.ok_or_else(removed)?;
        return T::of_heap(&table).ok_or_else(|| table.other_kind(name, T::KIND));
    };
    store.open_table(object, name).map_err(|error| {
        if object.has(&file_name(name)) { error } else { object.unless_unlinked(removed()) }
    })
}

fn place_of<'a>(store: &'a RingStore, object: &'a Object) -> TablePlace<'a> {
    let (folder, ring_uuid, spec) = (object.folder(), store.uuid(), store.spec());
    TablePlace { object: Some(object), folder, ring_uuid, spec }
}

/// Creates a table of a ring that has no name yet.
pub(super) fn make_unnamed<T: TableKind>(
    ring: &UnnamedRing<'_>,
    name: &str,
    new: &NewTable<'_, T>,
) -> Result<Arc<T>, SegmentError> {
    check_table_name(name)?;
    match ring.place() {
        UnnamedMemory::Heap { tables, .. } => {
            let memory = Arc::new(new.on_heap()?);
            let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
            tables.insert(name.to_owned(), T::into_heap(Arc::clone(&memory)));
            Ok(memory)
        }
        UnnamedMemory::Files { folder, shapes } => {
            let (ring_uuid, spec) = (shapes.ring_uuid, ring.spec());
            let place = TablePlace { object: None, folder: *folder, ring_uuid, spec };
            new.make(&place, name)?;
            Ok(Arc::new(place.open(name)?.0))
        }
    }
}

/// Name of a table, and its settings or content, or the error of opening it.
pub type NamedTable<T> = (String, Result<T, SegmentError>);

/// The memory of a table, or the error of opening it, with its name.
pub(super) type Listed<T> = NamedTable<Arc<T>>;

/// Returns the names of the tables of a ring, in order, or the error of listing them.
pub(super) fn names(object: &Object) -> Result<Vec<String>, SegmentError> {
    let files = object.file_names()?;
    let mut names: Vec<String> =
        files.iter().filter_map(|file| name_of(file)).map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

/// Opens all tables of one kind, sorted by name. A table whose kind cannot be read is listed with
/// its error, whichever kind is requested. Fails if the ring cannot be listed.
pub(super) fn listed<T: TableKind>(store: &RingStore) -> Result<Vec<Listed<T>>, SegmentError> {
    let Some(object) = store.object() else {
        // The tables are sorted by name.
        let tables = store.heap_tables().into_iter();
        let of_kind = |(name, table): (String, HeapTable)| Some((name, Ok(T::of_heap(&table)?)));
        return Ok(tables.filter_map(of_kind).collect());
    };
    let open = |name: String| {
        let opened = store.open_table(object, &name);
        (name, opened)
    };
    // Leave out tables of another kind, tables whose memory was freed with their processes, and
    // tables that were removed since they were listed.
    let is_there = |(name, table): &Listed<T>| match table {
        Err(SegmentError::MemoryGone { .. } | SegmentError::TableDiffers { .. }) => false,
        Err(_) => object.has(&file_name(name)),
        Ok(_) => true,
    };
    Ok(names(object)?.into_iter().map(open).filter(is_there).collect())
}

/// Opens all tables of one kind that can be opened, by name. It is meant for statistics: callers
/// that must miss no table use [`listed`].
pub(super) fn readable<T: TableKind>(store: &RingStore) -> impl Iterator<Item = (String, Arc<T>)> {
    let tables = listed(store).unwrap_or_default().into_iter();
    tables.filter_map(|(name, table)| Some((name, table.ok()?)))
}

/// Returns the number of the kind of a table, as its header states it.
pub(super) fn kind_of(object: &Object, name: &str) -> Result<u32, SegmentError> {
    let file = file_name(name);
    let fd = object.memory(&file, Access::ReadOnly, None)?;
    let path = object.path().join(file);
    let (header, _) = read_header::<CommonHeader>(fd.as_fd(), &path)?;
    header.kind().ok_or_else(|| SegmentError::corrupt(&path, "it is no table"))
}

impl RingStore {
    /// Opens a table that exists.
    pub(super) fn open_table<T: TableKind>(
        &self,
        object: &Object,
        name: &str,
    ) -> Result<Arc<T>, SegmentError> {
        Ok(Arc::new(place_of(self, object).open(name)?.0))
    }
}

/// Maps a table, whose header must be right in every byte.
pub(super) fn map<T: TableKind>(file: &TableFile<'_>) -> Result<T, SegmentError> {
    let TableFile { fd, path, .. } = *file;
    let (header, bytes) = read_header::<T::Header>(fd, path)?;
    check_kind(path, &CommonHeader::of(&header), T::KIND)?;
    let shape = T::check(file, &header)?;
    if bytes != T::bytes(&shape) {
        let what = format!("it has {bytes} bytes, not {}", T::bytes(&shape));
        return Err(SegmentError::corrupt(path, what));
    }
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let map = if len < HUGE_PAGE { Mapping::file } else { Mapping::aligned };
    let map = map(fd, len, Access::ReadWrite).map_err(SegmentError::io("map", path))?;
    Ok(T::new(map, shape))
}

/// Reads the header of a table, without checking it, and the size of its file.
fn read_header<H: bytemuck::AnyBitPattern>(
    fd: BorrowedFd<'_>,
    path: &Path,
) -> Result<(H, u64), SegmentError> {
    let mut found = vec![0; size_of::<H>()];
    let read = rustix::io::pread(fd, &mut found, 0)
        .map_err(|error| SegmentError::io("read", path)(error.into()))?;
    let bytes = rustix::fs::fstat(fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    if read < found.len() {
        return Err(SegmentError::corrupt(path, format!("it has {bytes} bytes, too few")));
    }
    Ok((bytemuck::pod_read_unaligned(&found), bytes))
}

/// Refuses a table if its unchecked header states another known kind than `wanted`.
fn check_kind(path: &Path, header: &CommonHeader, wanted: u32) -> Result<(), SegmentError> {
    let other = header.kind().filter(|kind| *kind != wanted && contents(*kind).is_some());
    let Some(kind) = other else { return Ok(()) };
    let file = path.file_name().map(|file| file.to_string_lossy()).unwrap_or_default();
    Err(other_kind(name_of(&file).unwrap_or(&file), kind, wanted))
}

fn other_kind(table: &str, kind: u32, wanted: u32) -> SegmentError {
    let [holds, wanted] = [kind, wanted].map(|kind| contents(kind).unwrap_or("something else"));
    let what = format!("it holds {holds}, but {wanted} were requested");
    SegmentError::TableDiffers { table: table.to_owned(), what }
}
