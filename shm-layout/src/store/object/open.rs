//! Opens an object by name, by a directory that another process passed, or as an observer that does
//! not keep it alive.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::listing::missing;
use super::place::CheckedDir;
use super::{HOLD_BYTE, Object, directory, exit, is_at, is_missing, is_persistent};
use crate::error::ObjectKind;
use crate::error::SegmentError;
use crate::layout::names::{Base, check_known};
use crate::os::byte_lock::{LockFile, LockMode};
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::memfd::KeptMemfds;

impl Object {
    /// Opens an object that exists and is not being removed. A non-persistent object without a
    /// holder counts as absent.
    pub(crate) fn open(base: &Base, kind: ObjectKind, name: &str) -> Result<Self, SegmentError> {
        let (dir, path) = look_up(base, kind, name)?;
        join(dir, path, kind, name, || missing(base, kind, name))
    }

    /// Opens an object through its directory, which a process that holds it passed. `path` is where
    /// that process sees it, and need not exist here.
    pub(crate) fn open_at(
        dir: OwnedFd,
        path: PathBuf,
        kind: ObjectKind,
        name: &str,
    ) -> Result<Self, SegmentError> {
        check_known(name)?;
        files::check_dir(&dir, &path)?;
        let unlinked = || SegmentError::Unlinked { kind, name: name.to_owned() };
        join(dir, path, kind, name, unlinked)
    }

    /// Opens an object without holding it. This handle does not keep a non-persistent object from
    /// removal when its holders end, and no removal or replacement is refused because of it. Opened
    /// memory stays readable until this is dropped.
    pub(crate) fn observe(base: &Base, kind: ObjectKind, name: &str) -> Result<Self, SegmentError> {
        let (dir, path) = look_up(base, kind, name)?;
        let hold = lock_file(&dir, &path, kind, || missing(base, kind, name))?;
        let persistent = is_persistent(&dir);
        let (name, memory) = (name.to_owned(), KeptMemfds::default());
        Ok(Self { kind, name, path, dir, hold, persistent, holds: false, memory })
    }

    /// Duplicates the descriptor of the directory, to pass it on.
    pub(crate) fn directory(&self) -> Result<OwnedFd, SegmentError> {
        self.dir.try_clone().map_err(SegmentError::io("duplicate", &self.path))
    }
}

fn look_up(base: &Base, kind: ObjectKind, name: &str) -> Result<(OwnedFd, PathBuf), SegmentError> {
    check_known(name)?;
    let path = directory(base, kind, name);
    let opened = CheckedDir::of(&path).and_then(|(place, folder)| place.open_dir(folder));
    match opened {
        Err(error) if is_missing(&error) => Err(missing(base, kind, name)),
        other => Ok((other?, path)),
    }
}

fn lock_file(
    dir: &OwnedFd,
    path: &Path,
    kind: ObjectKind,
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
    kind: ObjectKind,
    name: &str,
    missing: impl Fn() -> SegmentError,
) -> Result<Object, SegmentError> {
    let hold = lock_file(&dir, &path, kind, &missing)?.release_at_exit(exit::leave_all);
    let io = |operation| SegmentError::io(operation, &path);
    let persistent = is_persistent(&dir);
    if !persistent && !hold.held_elsewhere(HOLD_BYTE).map_err(io("look at"))? {
        return Err(missing());
    }
    let joined = hold.try_lock(HOLD_BYTE, LockMode::Shared).map_err(io("lock"))?;
    // A remover locks this byte exclusively until the files are removed, unless it removes a held
    // object.
    if !joined || hold.links().map_err(io("look at"))? == 0 {
        return Err(missing());
    }
    let (name, memory) = (name.to_owned(), KeptMemfds::default());
    Ok(Object { kind, name, path, dir, hold, persistent, holds: true, memory })
}
