//! Files of the tables of a ring: names, locks, creation and listing.

use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, unlinkat};

use crate::error::SegmentError;
use crate::layout::claim_table::{ClaimMemory, KIND_CLAIMS};
use crate::layout::learned_table::{KIND_LEARNED, LearnedMemory};
use crate::layout::priority_table::{KIND_PRIORITIES, TABLE_MAGIC, TableMemory};
use crate::os::byte_lock::{Claim, HeapLocks, LockFile, LockMode};
use crate::os::fork_release::ReleasedOnFork;
use crate::os::{files, space};
use crate::store::object::Object;
use crate::store::ring_store::RingStore;

/// First of the bytes that holders of tables lock. The byte of a table lies after it by the CRC-32
/// of the table's name.
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

/// The lock while it is held.
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
            // A range that is locked can be unlocked; the kernel does it when the process ends.
            let _ = lock.unlock(*byte);
        }
    }
}

pub(super) fn file_name(table: &str) -> String {
    format!("{PREFIX}{table}{SUFFIX}")
}

fn name_of(file: &str) -> Option<&str> {
    file.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

/// Returns the byte of `ring.lck` that the holder of a table locks. Tables whose names give the
/// same byte wait for each other, which has no other effect.
pub(super) fn lock_byte(table: &str) -> u64 {
    TABLE_LOCKS + u64::from(crc32fast::hash(table.as_bytes()))
}

/// Returns the lock of the tables of a ring.
pub(super) fn open_lock(object: &Object) -> Result<TableLock, SegmentError> {
    let lock = object.lock_handle()?;
    Ok(TableLock::File(ReleasedOnFork::new(&lock), lock))
}

/// Creates the file of a table unless it exists. Returns `false` while another process creates it.
pub(super) fn is_there(
    object: &Object,
    lock: &TableLock,
    name: &str,
    parts: &[&[u8]],
    bytes: u64,
) -> Result<bool, SegmentError> {
    // A name means a whole file, so one that exists needs no lock.
    if object.has(&file_name(name)) {
        return Ok(true);
    }
    let Some(_held) = lock.try_lock(lock_byte(name), object.path())? else { return Ok(false) };
    if !object.has(&file_name(name)) {
        make(object.dir(), object.path(), name, parts, bytes)?;
    }
    Ok(true)
}

/// A table with its name, or the error of opening it.
pub(super) type Listed<T> = Result<(String, Arc<T>), SegmentError>;

/// Opens all tables of one kind, by name.
pub(super) fn listed<T>(
    store: &RingStore,
    of_heap: impl Fn(HeapTable) -> Option<Arc<T>>,
    open: impl Fn(&Object, &str) -> Result<T, SegmentError>,
) -> Vec<Listed<T>> {
    let Some(object) = store.object() else {
        // In the order of their names.
        let tables = store.heap_tables().into_iter();
        return tables.filter_map(|(name, table)| Some(Ok((name, of_heap(table)?)))).collect();
    };
    let files = object.file_names();
    let mut names: Vec<&str> = files.iter().filter_map(|file| name_of(file)).collect();
    names.sort_unstable();
    let open = |name: &str| Ok((name.to_owned(), Arc::new(open(object, name)?)));
    let is_kind = |table: &Listed<T>| !matches!(table, Err(SegmentError::TableDiffers { .. }));
    names.into_iter().map(open).filter(is_kind).collect()
}

/// Writes a table of `bytes` bytes that begins with `parts` under another name, and renames it. The
/// caller holds the table's lock.
pub(super) fn make(
    dir: &OwnedFd,
    path: &Path,
    name: &str,
    parts: &[&[u8]],
    bytes: u64,
) -> Result<(), SegmentError> {
    let building = format!("{}{BUILDING}", file_name(name));
    // Remove the file of a creator that was killed.
    let _ = unlinkat(dir, &building, AtFlags::empty());
    let fill = || -> Result<(), SegmentError> {
        space::check_room(path, bytes)?;
        let mut file = files::make(dir, &building, path)?;
        space::allocate(&mut file, &path.join(file_name(name)), bytes)?;
        let write = || -> std::io::Result<()> {
            std::io::Seek::seek(&mut &file, std::io::SeekFrom::Start(0))?;
            parts.iter().try_for_each(|part| (&file).write_all(part))
        };
        write().map_err(SegmentError::io("write", &path.join(&building)))?;
        rustix::fs::renameat(dir, &building, dir, file_name(name))
            .map_err(|error| SegmentError::io("rename", &path.join(&building))(error.into()))
    };
    fill().inspect_err(|_| {
        let _ = unlinkat(dir, &building, AtFlags::empty());
    })
}

/// Reads the header of a table, which was not checked, and the size of its file.
pub(super) fn read_header<H: bytemuck::AnyBitPattern>(
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

/// Refuses a table of another known kind than `wanted`. `magic` and `kind` are those of its header,
/// which was not checked.
pub(super) fn check_kind(
    path: &Path,
    magic: [u8; 8],
    kind: u32,
    wanted: u32,
) -> Result<(), SegmentError> {
    if magic != TABLE_MAGIC || kind == wanted || contents(kind).is_none() {
        return Ok(());
    }
    let file = path.file_name().map(|file| file.to_string_lossy()).unwrap_or_default();
    Err(other_kind(name_of(&file).unwrap_or(&file), kind, wanted))
}

/// Returns what a kind of tables holds.
fn contents(kind: u32) -> Option<&'static str> {
    match kind {
        KIND_PRIORITIES => Some("priorities"),
        KIND_CLAIMS => Some("claims"),
        KIND_LEARNED => Some("learned columns"),
        _ => None,
    }
}

fn other_kind(table: &str, kind: u32, wanted: u32) -> SegmentError {
    let [holds, wanted] = [kind, wanted].map(|kind| contents(kind).unwrap_or("something else"));
    let what = format!("it holds {holds}, but {wanted} were requested");
    SegmentError::TableDiffers { table: table.to_owned(), what }
}
