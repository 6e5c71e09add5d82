//! Three ways to open an object that exists: by name, by a directory that somebody handed over, and
//! as an observer, who keeps nothing alive.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::listing::missing;
use super::place::Place;
use super::{HOLD_BYTE, Object, directory, is_at, is_missing, is_persistent};
use crate::error::Kind;
use crate::error::SegmentError;
use crate::layout::names::{Base, check_known};
use crate::os::byte_lock::{Hold, LockFile};
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::memfd::Memory;

impl Object {
    /// Opens an object that exists and is not being removed. One that nobody holds and nobody
    /// asked to keep counts as absent.
    pub(crate) fn open(base: &Base, kind: Kind, name: &str) -> Result<Self, SegmentError> {
        let (dir, path) = look_up(base, kind, name)?;
        join(dir, path, kind, name, || missing(base, kind, name))
    }

    /// Opens an object through its directory, which a process that holds it handed over; `path` is
    /// where that process sees it, and need not exist here.
    pub(crate) fn open_at(
        dir: OwnedFd,
        path: PathBuf,
        kind: Kind,
        name: &str,
    ) -> Result<Self, SegmentError> {
        check_known(name)?;
        files::check_dir(&dir, &path)?;
        let unlinked = || SegmentError::Unlinked { kind, name: name.to_owned() };
        join(dir, path, kind, name, unlinked)
    }

    /// Opens an object without holding it: it goes away when its holders do, and whoever removes or
    /// replaces it meets nobody here. What was opened stays readable until this is dropped.
    pub(crate) fn observe(base: &Base, kind: Kind, name: &str) -> Result<Self, SegmentError> {
        let (dir, path) = look_up(base, kind, name)?;
        let hold = lock_file(&dir, &path, kind, || missing(base, kind, name))?;
        let persistent = is_persistent(&dir);
        let (name, memory) = (name.to_owned(), Memory::default());
        Ok(Self { kind, name, path, dir, hold, persistent, holds: false, memory })
    }

    /// Another descriptor of the object's directory, to hand over.
    pub(crate) fn directory(&self) -> Result<OwnedFd, SegmentError> {
        self.dir.try_clone().map_err(SegmentError::io("duplicate", &self.path))
    }
}

fn look_up(base: &Base, kind: Kind, name: &str) -> Result<(OwnedFd, PathBuf), SegmentError> {
    check_known(name)?;
    let path = directory(base, kind, name);
    let opened = Place::of(&path).and_then(|(place, folder)| place.open_dir(folder));
    match opened {
        Err(error) if is_missing(&error) => Err(missing(base, kind, name)),
        other => Ok((other?, path)),
    }
}

fn lock_file(
    dir: &OwnedFd,
    path: &Path,
    kind: Kind,
    missing: impl Fn() -> SegmentError,
) -> Result<LockFile, SegmentError> {
    let hold = files::open(dir, kind.lock_file(), path, Access::ReadWrite, None)
        .map_err(|error| if is_at(dir, path) { error } else { missing() })?;
    Ok(LockFile::new(hold))
}

/// Holds an object whose directory is open.
fn join(
    dir: OwnedFd,
    path: PathBuf,
    kind: Kind,
    name: &str,
    missing: impl Fn() -> SegmentError,
) -> Result<Object, SegmentError> {
    let hold = lock_file(&dir, &path, kind, &missing)?;
    let io = |operation| SegmentError::io(operation, &path);
    let persistent = is_persistent(&dir);
    if !persistent && !hold.held_elsewhere(HOLD_BYTE).map_err(io("look at"))? {
        return Err(missing());
    }
    let joined = hold.try_lock(HOLD_BYTE, Hold::Shared).map_err(io("lock"))?;
    // Whoever removes an object has this byte alone until the files are gone.
    if !joined || hold.links().map_err(io("look at"))? == 0 {
        return Err(missing());
    }
    let (name, memory) = (name.to_owned(), Memory::default());
    Ok(Object { kind, name, path, dir, hold, persistent, holds: true, memory })
}
