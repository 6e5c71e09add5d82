//! Removes objects. A remover first renames the object, which removes its name in one step, and
//! then deletes it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::listing::{ObjectInfo, describe, is_remnant, known, list_objects, lock_of, missing};
use super::place::{self, CheckedDir};
use super::{
    ATTEMPTS, DEAD_PREFIX, HOLD_BYTE, KEEP_BYTE, directory, is_at, is_in_memfds, is_missing,
    is_persistent, random_word, unlinked,
};
use crate::error::ObjectKind;
use crate::error::SegmentError;
use crate::layout::names::{Base, check_known};
use crate::os::byte_lock::{LockFile, LockMode};
use crate::store::base_lock;

/// Prefixes of the names of files in the directories of objects.
const OUR_FILES: [&str; 13] = [
    "ring.ctl", "ring.rdr", "ring.lim", "ring.low", "ring.lck", "lane-", "panel.", "params.",
    "persist", "snapshot", "asked-by", "journal", "table-",
];

/// Removes an object. Fails if it is held, unless `force` is set. Holders keep its memory.
pub fn remove_object(
    base: &Base,
    kind: ObjectKind,
    name: &str,
    force: bool,
) -> Result<ObjectInfo, SegmentError> {
    check_known(name)?;
    let path = directory(base, kind, name);
    let info = describe(&path)?.ok_or_else(|| missing(base, kind, name))?;
    if info.held && !force {
        return Err(SegmentError::InUse { kind, name: name.to_owned() });
    }
    bury(&path)?;
    tidy(&path);
    Ok(info)
}

/// Removes an object without holders if `sure` returns true. `sure` is called when no process can
/// attach any more. Until it returns, the object cannot be opened, as if it were absent. Returns
/// `None` if `sure` returned false. Fails if the object has a holder.
pub fn remove_unheld_object(
    base: &Base,
    kind: ObjectKind,
    name: &str,
    sure: impl FnOnce() -> bool,
) -> Result<Option<ObjectInfo>, SegmentError> {
    check_known(name)?;
    let path = directory(base, kind, name);
    let in_use = || SegmentError::InUse { kind, name: name.to_owned() };
    let info = describe(&path)?.ok_or_else(|| missing(base, kind, name))?;
    let dir = open_dir(&path)?;
    // The lock is held until the files are removed, so that no process attaches meanwhile.
    let lock = known(lock_of(&dir, &path, kind))?.map_err(|_| in_use())?.ok_or_else(in_use)?;
    if !lock.try_lock(HOLD_BYTE, LockMode::Exclusive).map_err(SegmentError::io("lock", &path))? {
        return Err(in_use());
    }
    if !sure() {
        return Ok(None);
    }
    let grave = dig(&path, Some(&dir))?.ok_or_else(|| missing(base, kind, name))?;
    delete_open(&grave, &dir)?;
    tidy(&path);
    Ok(Some(info))
}

/// Removes every object without a holder that is not persistent. A persistent ring in memfds that
/// no daemon keeps counts as not persistent.
///
/// Also removes unfinished objects of dead processes, and the lock and socket of a dead daemon.
/// Returns the removed objects.
pub fn collect_garbage(base: &Base) -> Result<Vec<ObjectInfo>, SegmentError> {
    let mut removed = Vec::new();
    for info in list_objects(base)? {
        if collect_one(&info.path, info.kind)? {
            removed.push(info);
        }
    }
    base_lock::clear_stale(base)?;
    let _ = fs::remove_dir(base.path());
    Ok(removed)
}

/// Removes a directory of ours if it has no holder and is no persistent object. Returns `true` if
/// it is removed. Fails if the process runs out of files or memory, which says nothing about the
/// object.
pub(super) fn collect_one(path: &Path, kind: ObjectKind) -> Result<bool, SegmentError> {
    let Ok(dir) = known(open_dir(path))? else { return Ok(false) };
    // An object that is being created or removed is not persistent yet, or not any more.
    let persistent = is_persistent(&dir) && !is_remnant(path);
    if persistent && !is_in_memfds(&dir) {
        return Ok(false);
    }
    // The lock is held until the files are removed, so that no process attaches meanwhile.
    let Ok(lock) = known(lock_of(&dir, path, kind))? else { return Ok(false) };
    // A directory without a lock file is a remnant of a dead creator or remover, or not ours.
    if lock.is_none() && !is_left_by_us(&dir, path)? {
        return Ok(false);
    }
    // A memfd is lost without a keeper, so `persistent` protects only one that is kept. The check
    // runs twice: before attaching is blocked, and when the last holder can no longer hand the
    // memfd to a keeper.
    let is_kept = || {
        let kept = |lock: &LockFile| lock.held_elsewhere(KEEP_BYTE).unwrap_or(true);
        persistent && lock.as_ref().is_none_or(kept)
    };
    if is_kept() {
        return Ok(false);
    }
    if let Some(lock) = &lock
        && !matches!(lock.try_lock(HOLD_BYTE, LockMode::Exclusive), Ok(true))
    {
        return Ok(false);
    }
    if is_kept() {
        return Ok(false);
    }
    // By now the name may belong to a new object, which stays.
    let Some(grave) = dig(path, Some(&dir))? else { return Ok(false) };
    delete_open(&grave, &dir)?;
    Ok(true)
}

/// Opens the directory of an object through its parent directory.
fn open_dir(path: &Path) -> Result<OwnedFd, SegmentError> {
    CheckedDir::of(path).and_then(|(place, name)| place.open_dir(name))
}

/// Returns whether a directory without a lock file has files of ours, or is an empty remnant.
fn is_left_by_us(dir: &OwnedFd, path: &Path) -> Result<bool, SegmentError> {
    let names = place::entries(dir).map_err(SegmentError::io("list", path));
    let Ok(names) = known(names)? else { return Ok(false) };
    let is_ours = |name: &OsString| {
        let name = name.to_string_lossy();
        OUR_FILES.iter().any(|ours| name.starts_with(ours))
    };
    Ok(names.keys().any(is_ours) || is_remnant(path) && names.is_empty())
}

/// Returns whether the object is being removed: only removers lock it exclusively. A missing lock
/// file or path counts as a removal too.
pub(super) fn being_removed(path: &Path, kind: ObjectKind) -> bool {
    let lock = open_dir(path).and_then(|dir| lock_of(&dir, path, kind));
    match lock {
        Ok(lock) => lock.is_none_or(|lock| lock.held_exclusively(HOLD_BYTE).unwrap_or(false)),
        Err(_) => !path.exists(),
    }
}

/// Returns whether `error` says that an object did not fit, and it would fit after the removal of
/// the object at `old`. Returns `false` if that one has a holder.
pub(super) fn makes_room(old: &Path, error: &SegmentError) -> bool {
    let SegmentError::NoSpace { asked, available, .. } = error else { return false };
    describe(old)
        .ok()
        .flatten()
        .is_some_and(|old| !old.held && *asked <= available.saturating_add(old.bytes))
}

/// Removes the name of a directory in one step, then deletes it.
pub(super) fn bury(path: &Path) -> Result<(), SegmentError> {
    dig(path, None)?.map_or(Ok(()), |grave| delete(&grave))
}

/// Renames a directory to a hidden name and returns its new path. Returns `None` if another process
/// was faster, or the name does not belong to `only` any more.
pub(super) fn dig(path: &Path, only: Option<&OwnedFd>) -> Result<Option<PathBuf>, SegmentError> {
    if only.is_some_and(|dir| !is_at(dir, path)) {
        return Ok(None);
    }
    let (place, name) = match CheckedDir::of(path) {
        Err(error) if is_missing(&error) => return Ok(None),
        found => found?,
    };
    let dead = OsString::from(format!("{DEAD_PREFIX}{}", random_word()));
    match place.rename(name, &place, &dead) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(SegmentError::io("remove", path))?,
    }
    let grave = place.path_of(&dead);
    if only.is_some_and(|dir| !is_at(dir, &grave)) {
        // Another object took the name between the two calls. Give the name back to it.
        let _ = place.rename(&dead, &place, name);
        return Ok(None);
    }
    if let Ok(dir) = place.open_dir(&dead) {
        unlinked::mark(&dir, &grave);
    }
    Ok(Some(grave))
}

/// Deletes a directory like [`delete`], but its files through its open descriptor. They are deleted
/// even if the process has only one free descriptor left.
pub(super) fn delete_open(grave: &Path, dir: &OwnedFd) -> Result<(), SegmentError> {
    // Files that cannot be deleted here are deleted below, or reported.
    let cleared = place::clear(dir);
    match delete(grave) {
        // An empty directory is all that is left. A path that leads elsewhere by now leads to no
        // empty directory of this random name.
        Err(error) if error.is_of_process() && cleared.is_ok() => {
            fs::remove_dir(grave).map_err(SegmentError::io("remove", grave))
        }
        deleted => deleted,
    }
}

/// Deletes a directory that has no object's name any more.
pub(super) fn delete(grave: &Path) -> Result<(), SegmentError> {
    let (place, name) = match CheckedDir::of(grave) {
        Err(error) if is_missing(&error) => return Ok(()),
        found => found?,
    };
    let mut deleted = place.remove_all(name);
    for _ in 1..ATTEMPTS {
        // A creator whose directory was collected may still be adding a file to it.
        if !matches!(&deleted, Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty) {
            break;
        }
        deleted = place.remove_all(name);
    }
    match deleted {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(SegmentError::io("remove", grave)(e)),
        _ => Ok(()),
    }
}

/// Removes the base directory if it is empty.
pub(super) fn tidy(object: &Path) {
    if let Some(base) = object.parent() {
        let _ = fs::remove_dir(base);
    }
}
