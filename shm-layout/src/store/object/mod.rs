//! Named objects: directories that appear whole and are held by kernel locks. An object that is not
//! persistent is collected when no process holds it.
//!
//! An object is built under a hidden name and renamed into place, so no process ever sees half of
//! one. Every handle except an observer's keeps a shared lock on a byte of the lock file. The
//! kernel drops the lock when the process dies. Only a remover locks that byte exclusively.

mod exit;
mod listing;
mod open;
mod place;
mod removal;
mod unlinked;

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rand::TryRng;
use rand::rngs::SysRng;

pub(crate) use self::place::CheckedDir;
use self::removal::{being_removed, bury, collect_one, delete, delete_open, dig, makes_room, tidy};
use crate::error::ObjectKind;
use crate::error::{OTHER_VERSION, SegmentError};
use crate::layout::names::{Base, Exist, check_known};
use crate::layout::origin;
use crate::os::byte_lock::{LockFile, LockMode};
use crate::os::exit_release;
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::memfd::{self, KeptMemfds};
use crate::store::ring_files::{CTL, RingFolder};
use crate::store::{params_files, sealed_segment};

pub use listing::{ObjectInfo, list_objects, object_holders};
pub use removal::{collect_garbage, remove_object, remove_unheld_object};

/// Byte that every handle that holds an object locks.
const HOLD_BYTE: u64 = 1;
/// Byte that the keeper of an object in memfds locks, without holding the object.
pub(crate) const KEEP_BYTE: u64 = 3;
/// File that marks a persistent object.
const PERSISTENT_FILE: &str = "persistent";
const BUILDING_PREFIX: &str = ".building-";
const DEAD_PREFIX: &str = ".dead-";
/// Maximum attempts while collectors and other creators interfere.
const ATTEMPTS: u32 = 64;

/// A handle on a named object. Dropping the last handle that holds a non-persistent object removes
/// the object.
#[derive(Debug)]
pub(crate) struct Object {
    kind: ObjectKind,
    name: String,
    path: PathBuf,
    dir: OwnedFd,
    hold: LockFile,
    persistent: bool,
    /// Whether this handle keeps the object alive; that of an observer does not.
    holds: bool,
    /// Descriptors of the object's memory, if that lies in memfds.
    memory: KeptMemfds,
}

impl Object {
    /// Builds an object with `make`, which fills a new directory, or opens the existing one if
    /// `exist` allows it. Returns `true` if it was built.
    pub(crate) fn create(
        base: &Base,
        kind: ObjectKind,
        name: &str,
        exist: Exist,
        persistent: bool,
        mut make: impl FnMut(&OwnedFd, &Path) -> Result<(), SegmentError>,
    ) -> Result<(Self, bool), SegmentError> {
        check_known(name)?;
        let target = directory(base, kind, name);
        for attempt in 0..ATTEMPTS {
            let again = attempt + 1 < ATTEMPTS;
            match prepare_base(base) {
                Err(error) if again && is_missing(&error) => continue,
                prepared => prepared?,
            }
            let mut replace = false;
            if exists(&target)? && !collect_one(&target, kind)? {
                if again && being_removed(&target, kind) {
                    std::thread::yield_now();
                    continue;
                }
                match exist {
                    Exist::Error => return Err(already_exists(&target, kind, name)),
                    Exist::Replace => replace = true,
                    Exist::Attach => match Self::open(base, kind, name) {
                        Err(SegmentError::NotFound { .. }) => continue,
                        found => return Ok((found?, false)),
                    },
                }
            }
            let building = base.path().join(format!("{BUILDING_PREFIX}{}", random_word()));
            let mut object = match Self::build(&building, kind, name, persistent, &mut make) {
                Ok(object) => object,
                Err(error) => {
                    give_up(&building);
                    // The last user of the base directory removed it in between, or a collector
                    // found the new directory before its lock.
                    if again && is_missing(&error) {
                        continue;
                    }
                    if again && replace && makes_room(&target, &error) {
                        bury(&target)?;
                        continue;
                    }
                    tidy(&building);
                    return Err(error);
                }
            };
            // The replaced object keeps its name until the new one is whole.
            let grave = if replace { dig(&target, None)? } else { None };
            let renamed = place::rename(&building, &target);
            grave.map_or(Ok(()), |grave| delete(&grave))?;
            match renamed {
                Ok(()) => {
                    object.path = target;
                    return Ok((object, true));
                }
                // Another object appeared in between, or a collector was faster than the lock.
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::ENOTEMPTY | libc::EEXIST | libc::ENOENT)
                    ) =>
                {
                    give_up(&building);
                }
                Err(e) => {
                    give_up(&building);
                    return Err(SegmentError::io("rename", &building)(e));
                }
            }
        }
        Err(already_exists(&target, kind, name))
    }

    fn build(
        path: &Path,
        kind: ObjectKind,
        name: &str,
        persistent: bool,
        make: &mut impl FnMut(&OwnedFd, &Path) -> Result<(), SegmentError>,
    ) -> Result<Self, SegmentError> {
        let (place, folder) = CheckedDir::of(path)?;
        place.make_dir(folder).map_err(SegmentError::io("create", path))?;
        let dir = place.open_dir(folder)?;
        let lock = files::make(&dir, kind.lock_file(), path)?;
        let hold = LockFile::new(lock.into()).release_at_exit(exit::leave_all);
        let ours = hold.try_lock(HOLD_BYTE, LockMode::Shared);
        if !ours.map_err(SegmentError::io("lock", path))? {
            return Err(SegmentError::io("lock", path)(io::ErrorKind::NotFound.into()));
        }
        if persistent {
            files::make(&dir, PERSISTENT_FILE, path)?;
        }
        make(&dir, path)?;
        let (name, path, memory) = (name.to_owned(), path.to_owned(), KeptMemfds::default());
        Ok(Self { kind, name, path, dir, hold, persistent, holds: true, memory })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open directory.
    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(crate) fn persistent(&self) -> bool {
        self.persistent
    }

    /// Opens a file of the object. A failure is [`SegmentError::Unlinked`] if the object was
    /// removed or replaced.
    pub(crate) fn file(
        &self,
        name: &str,
        access: Access,
        len: Option<u64>,
    ) -> Result<OwnedFd, SegmentError> {
        let opened = files::open(&self.dir, name, &self.path, access, len);
        opened.map_err(|error| self.unless_unlinked(error))
    }

    /// Opens a file that is mapped, which may be a link to a memfd.
    pub(crate) fn memory(
        &self,
        name: &str,
        access: Access,
        len: Option<u64>,
    ) -> Result<OwnedFd, SegmentError> {
        let opened = memfd::open(&self.dir, name, &self.path, access, len, &self.memory);
        opened.map_err(|error| self.unless_unlinked(error))
    }

    /// Returns [`SegmentError::Unlinked`] if the object has lost its name, and `error` otherwise.
    pub(crate) fn unless_unlinked(&self, error: SegmentError) -> SegmentError {
        if is_at(&self.dir, &self.path) {
            return error;
        }
        SegmentError::Unlinked { kind: self.kind, name: self.name.clone() }
    }

    /// Returns whether the object has a file of that name, such as a mark of its creator.
    pub(crate) fn has(&self, name: &str) -> bool {
        memfd::exists(&self.dir, name)
    }

    /// Returns the names of its files, in any order.
    pub(crate) fn file_names(&self) -> Result<Vec<String>, SegmentError> {
        let entries = place::entries(&self.dir).map_err(SegmentError::io("list", &self.path))?;
        Ok(entries.into_keys().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Returns the folder in which its files are created.
    pub(crate) fn folder(&self) -> RingFolder<'_> {
        let memfds = self.is_in_memfds().then_some(&self.memory);
        RingFolder { dir: &self.dir, path: &self.path, memfds }
    }

    /// Returns whether its mapped files lie in memfds.
    pub(crate) fn is_in_memfds(&self) -> bool {
        is_in_memfds(&self.dir)
    }

    /// Returns the memfds that this handle keeps.
    pub(crate) fn mapped_memory(&self) -> &KeptMemfds {
        &self.memory
    }

    /// Keeps the memfds that the object was made of.
    pub(crate) fn take_over(&mut self, memory: KeptMemfds) {
        self.memory = memory;
    }

    /// Closes memfds that are not the object's any more.
    pub(crate) fn tidy_memory(&self) {
        self.memory.tidy(&self.dir);
    }

    /// Opens another handle of the lock file. It holds the object too, unless this handle only
    /// observes it. Fails with [`SegmentError::Unlinked`] if the object has lost its name and the
    /// system cannot open a file without a name.
    pub(crate) fn lock_handle(&self) -> Result<LockFile, SegmentError> {
        let lock = match self.file(self.kind.lock_file(), Access::ReadWrite, None) {
            Err(unlinked @ SegmentError::Unlinked { .. }) => {
                self.hold.opened_again().map_err(|_| unlinked)?
            }
            opened => LockFile::new(opened?),
        };
        if !self.holds {
            return Ok(lock);
        }
        let lock = lock.release_at_exit(exit::leave_all);
        lock.try_lock(HOLD_BYTE, LockMode::Shared).map_err(SegmentError::io("lock", &self.path))?;
        Ok(lock)
    }

    /// Locks a byte by a new handle of the lock file. Returns `None` if another handle has locked
    /// the byte in a conflicting mode.
    pub(crate) fn lock(&self, byte: u64, mode: LockMode) -> Result<Option<LockFile>, SegmentError> {
        let lock = self.lock_handle()?;
        let taken = lock.try_lock(byte, mode).map_err(SegmentError::io("lock", &self.path))?;
        Ok(taken.then_some(lock))
    }

    /// Removes the name and the files. Processes that hold the object keep its memory.
    pub(crate) fn unlink(&self) -> Result<(), SegmentError> {
        // `dig` does nothing unless the name still means this object: another may have replaced it.
        if let Some(grave) = dig(&self.path, Some(&self.dir))? {
            delete_open(&grave, &self.dir)?;
            tidy(&self.path);
        }
        Ok(())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // A forked child has a copy of the handle and its lock: it removes nothing.
        if !self.holds || !self.hold.is_ours() {
            return;
        }
        // A persistent object stays if it is in files or has a keeper.
        let kept = || self.hold.held_elsewhere(KEEP_BYTE).unwrap_or(true);
        if self.persistent && (!self.is_in_memfds() || kept()) {
            return;
        }
        // Only the last holder can make its shared lock exclusive. Two last holders that leave at
        // the same time refuse each other; each then unlocks and tries again, and at least one of
        // them succeeds.
        let alone = || matches!(self.hold.try_lock(HOLD_BYTE, LockMode::Exclusive), Ok(true));
        if (alone() || (self.hold.unlock(HOLD_BYTE).is_ok() && alone()))
            && !(self.persistent && kept())
        {
            let _ = self.unlink();
        }
    }
}

/// Removes the directory of an object that was not completed.
fn give_up(building: &Path) {
    if let Ok((place, name)) = CheckedDir::of(building) {
        let _ = place.remove_all(name);
    }
    // If the process had no free descriptor, the directory is empty and can be removed by its path.
    let _ = std::fs::remove_dir(building);
}

/// Returns whether the name of an object is taken.
fn exists(target: &Path) -> Result<bool, SegmentError> {
    match CheckedDir::of(target) {
        Err(error) if is_missing(&error) => Ok(false),
        found => found.map(|(place, name)| place.is_dir(name)),
    }
}

fn directory(base: &Base, kind: ObjectKind, name: &str) -> PathBuf {
    base.path().join(format!("{name}.{kind}"))
}

pub(crate) fn is_missing(error: &SegmentError) -> bool {
    matches!(error, SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Returns whether a path leads to this open directory or file.
pub(crate) fn is_at(dir: impl AsFd, path: &Path) -> bool {
    let (Ok(named), Ok(open)) = (rustix::fs::lstat(path), rustix::fs::fstat(dir)) else {
        return false;
    };
    (named.st_ino, named.st_dev) == (open.st_ino, open.st_dev)
}

/// Refuses to attach to an object that is not persistent if a persistent one was requested. The
/// reverse is accepted.
pub(crate) fn check_stays(
    kind: ObjectKind,
    name: &str,
    stays: bool,
    asked: bool,
) -> Result<(), SegmentError> {
    if stays || !asked {
        return Ok(());
    }
    let what = "it is not persistent, but a persistent one was requested".to_owned();
    Err(SegmentError::Different { kind, name: name.to_owned(), what })
}

fn is_persistent(dir: &OwnedFd) -> bool {
    memfd::exists(dir, PERSISTENT_FILE)
}

/// Returns whether the mapped files of an object lie in memfds. Only rings have them.
fn is_in_memfds(dir: &OwnedFd) -> bool {
    memfd::is_link(dir, CTL)
}

pub(crate) fn prepare_base(base: &Base) -> Result<(), SegmentError> {
    let path = base.path();
    match make_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path);
            return Err(SegmentError::io("find the directory", parent)(e));
        }
        other => other.map_err(SegmentError::io("create", path))?,
    }
    files::open_dir(path).map(drop)
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn already_exists(path: &Path, kind: ObjectKind, name: &str) -> SegmentError {
    let dir = CheckedDir::of(path).and_then(|(place, folder)| place.open_dir(folder));
    let persistent = dir.is_ok_and(|dir| is_persistent(&dir));
    let state = if is_of_other_version(path, kind) {
        OTHER_VERSION
    } else if persistent {
        "it is persistent"
    } else if exit_release::lists_file_in(path) {
        "this process holds it"
    } else {
        "a live process holds it"
    };
    SegmentError::AlreadyExists { kind, name: name.to_owned(), state }
}

/// Returns whether an object was made by a version with another layout.
fn is_of_other_version(path: &Path, kind: ObjectKind) -> bool {
    let name = match kind {
        ObjectKind::Ring => CTL,
        ObjectKind::Panel => sealed_segment::FILE,
        ObjectKind::Params => params_files::CTL,
    };
    let dir = CheckedDir::of(path).and_then(|(place, folder)| place.open_dir(folder));
    let opened = dir.and_then(|dir| files::open(&dir, name, path, Access::ReadOnly, None));
    opened.is_ok_and(origin::is_of_other_version)
}

fn random_word() -> String {
    // The generator of the thread may be gone when the process leaves its objects at its end.
    let word = SysRng.try_next_u64().unwrap_or_else(|_| u64::from(std::process::id()));
    format!("{word:016x}")
}
