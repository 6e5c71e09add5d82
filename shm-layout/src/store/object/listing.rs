//! Lists objects, and describes them from outside.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, statat};

use super::place::{self, CheckedDir};
use super::{
    BUILDING_PREFIX, DEAD_PREFIX, HOLD_BYTE, KEEP_BYTE, PERSISTENT_FILE, is_in_memfds, is_missing,
};
use crate::error::{IoCause, ObjectKind, SegmentError, closest_name};
use crate::layout::names::Base;
use crate::os::byte_lock::LockFile;
use crate::os::files;
use crate::os::lock_holders;
use crate::os::mapping::Access;
use crate::store::memfd;

/// An object as the file system and the kernel's locks show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct ObjectInfo {
    /// Name. Empty while the object is being created or removed. Stays empty if the process that
    /// did so died.
    pub name: String,
    /// Ring, panel or parameters.
    pub kind: ObjectKind,
    /// The object's directory.
    pub path: PathBuf,
    /// Bytes allocated.
    pub bytes: u64,
    /// Whether the object is marked as persistent. `false` for an object in memfds that no process
    /// holds or keeps.
    pub persistent: bool,
    /// Whether some process holds it. Observers do not. Also `true` if that cannot be determined.
    pub held: bool,
    /// Whether the object has no name yet, or has lost it. If it is not held, it is a remnant.
    pub building: bool,
    /// Whether the object's memory lies in sealed memfds, not in files.
    pub memfd: bool,
}

/// Maximum passes over a directory that keeps changing.
const LOOKS: usize = 8;

/// Lists the objects below `base`, damaged ones included, by kind and name. Returns none if `base`
/// does not exist. An object that gets or loses its name meanwhile is listed once, or not at all.
///
/// Fails if `base` cannot be read, or if the process runs out of files or memory: no object is left
/// out because of that.
pub fn list_objects(base: &Base) -> Result<Vec<ObjectInfo>, SegmentError> {
    let place = match CheckedDir::open(base.path()) {
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let mut before = place.entries()?;
    let mut found = Vec::new();
    for _ in 0..LOOKS {
        let described = before.keys().map(|name| describe_in(&place, name));
        found = described.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        let after = place.entries()?;
        if after == before {
            break;
        }
        before = after;
    }
    found.sort_by(|a, b| (a.kind, &a.name, &a.path).cmp(&(b.kind, &b.name, &b.path)));
    Ok(found)
}

/// Returns, for each object, the processes of this user that hold it, according to the kernel's
/// locks. All lists are empty where the system does not report them. Reads the descriptors of all
/// processes of this user once.
#[must_use]
pub fn object_holders(objects: &[ObjectInfo]) -> Vec<Vec<u32>> {
    let lock = |info: &ObjectInfo| {
        let (place, name) = CheckedDir::of(&info.path).ok()?;
        lock_of(&place.open_dir(name).ok()?, &info.path, info.kind).ok()?
    };
    let locks: Vec<_> =
        objects.iter().map(|info| info.held.then(|| lock(info)).flatten()).collect();
    let files: Vec<_> = locks.iter().map(|lock| lock.as_ref().map(LockFile::as_fd)).collect();
    lock_holders::sharing(&files, HOLD_BYTE)
}

/// Returns the error for a name that does not exist. It states the most similar name of this kind,
/// and another kind that has the name, if there are any.
pub(super) fn missing(base: &Base, kind: ObjectKind, name: &str) -> SegmentError {
    let mut named = list_objects(base).unwrap_or_default();
    named.retain(|info| !info.building);
    let other = named.iter().find(|info| info.kind != kind && info.name == name);
    let other = other.map(|info| info.kind);
    let candidates = named.iter().filter(|info| info.kind == kind && info.name != name);
    let near = closest_name(name, candidates.map(|info| info.name.as_str())).map(str::to_owned);
    let (name, base) = (name.to_owned(), base.path().to_owned());
    SegmentError::NotFound { kind, name, base, other, near }
}

pub(super) fn describe(path: &Path) -> Result<Option<ObjectInfo>, SegmentError> {
    match CheckedDir::of(path) {
        Err(error) if is_missing(&error) => Ok(None),
        found => found.and_then(|(place, name)| describe_in(&place, name)),
    }
}

/// Describes an entry of the base directory. Returns `None` if it is no object, or was removed
/// meanwhile. Fails only if the process runs out of files or memory, or a signal interrupts it.
fn describe_in(place: &CheckedDir, file_name: &OsStr) -> Result<Option<ObjectInfo>, SegmentError> {
    let path = &place.path_of(file_name);
    let Some(file_name) = file_name.to_str() else { return Ok(None) };
    let building = is_remnant(path);
    let named = file_name.rsplit_once('.').and_then(|(name, suffix)| {
        Some((name, ObjectKind::ALL.into_iter().find(|kind| kind.as_str() == suffix)?))
    });
    if (!building && named.is_none()) || !place.is_dir(file_name.as_ref()) {
        return Ok(None);
    }
    let dir = known(place.open_dir(file_name.as_ref()))?;
    let has = |name: &str| dir.as_ref().is_ok_and(|dir| memfd::exists(dir, name));
    let has_lock = |kind: &ObjectKind| has(kind.lock_file());
    let (name, kind) = match named.filter(|_| !building) {
        Some(named) => named,
        None => ("", ObjectKind::ALL.into_iter().find(has_lock).unwrap_or(ObjectKind::Ring)),
    };
    let memfd = dir.as_ref().is_ok_and(is_in_memfds);
    let lock = match &dir {
        Ok(dir) => known(lock_of(dir, path, kind))?.ok(),
        Err(_) => None,
    };
    // Unknown counts as held, so that no caller takes a live object for a dead one.
    let locked = |byte| match &lock {
        Some(Some(lock)) => lock.held_elsewhere(byte).unwrap_or(true),
        Some(None) => false,
        None => true,
    };
    let held = locked(HOLD_BYTE);
    // An object removed meanwhile is not listed. One that this user may not inspect is listed with
    // size 0.
    let bytes = match &dir {
        Ok(dir) => bytes_of(dir, path)?,
        Err(error) if is_missing(error) => None,
        Err(_) => Some(0),
    };
    let Some(mut bytes) = bytes else { return Ok(None) };
    if memfd && let Ok(dir) = &dir {
        let memory = settled_unless_short(path, || memfd::allocated(dir))?;
        bytes = bytes.saturating_add(memory.unwrap_or(0));
    }
    // A memfd is lost with its last holder, so it is persistent only while it is kept or held.
    let persistent = has(PERSISTENT_FILE) && (!memfd || held || locked(KEEP_BYTE));
    Ok(Some(ObjectInfo {
        name: name.to_owned(),
        kind,
        path: path.to_owned(),
        bytes,
        persistent,
        held,
        building,
        memfd,
    }))
}

/// Fails with an error that concerns the process, not the object, such as too many open files.
/// Returns any other result as it is.
pub(super) fn known<T>(
    found: Result<T, SegmentError>,
) -> Result<Result<T, SegmentError>, SegmentError> {
    match found {
        Err(error) if error.is_of_process() => Err(error),
        found => Ok(found),
    }
}

/// Returns the allocated bytes of the files in a directory, or `None` if it cannot be listed.
fn bytes_of(dir: &OwnedFd, path: &Path) -> Result<Option<u64>, SegmentError> {
    settled_unless_short(path, || {
        let stat = |name: &OsString| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let found = place::entries(dir)?;
        let found = found.keys().filter_map(stat);
        Ok(found.map(|file| (file.st_ino, file.st_blocks.cast_unsigned() * 512)).collect())
    })
}

/// Sums bytes like [`settled`]. Fails if `look` fails with an error that concerns the process.
fn settled_unless_short(
    path: &Path,
    mut look: impl FnMut() -> io::Result<BTreeMap<u64, u64>>,
) -> Result<Option<u64>, SegmentError> {
    let mut short = None;
    let sum = settled(|| match look() {
        Ok(found) => Some(found),
        Err(error) => {
            short = IoCause::of(&error).is_of_process().then_some(error);
            None
        }
    });
    short.map_or(Ok(sum), |error| Err(SegmentError::io("list", path)(error)))
}

/// Sums the bytes of the files that `look` finds. It lists them by a number that a file keeps when
/// it is renamed. The new file of a relocated lane is renamed, and a single listing could miss it
/// under both names. So `look` is called until two listings in a row agree. If none do, all files
/// that were seen count. Returns `None` if `look` does.
fn settled(mut look: impl FnMut() -> Option<BTreeMap<u64, u64>>) -> Option<u64> {
    let mut before = look()?;
    let mut seen = before.clone();
    for _ in 1..LOOKS {
        let now = look()?;
        if now == before {
            return Some(now.values().sum());
        }
        seen.extend(&now);
        before = now;
    }
    Some(seen.values().sum())
}

/// Returns whether a path is that of an object that is being created or removed.
pub(super) fn is_remnant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [BUILDING_PREFIX, DEAD_PREFIX].iter().any(|prefix| name.starts_with(prefix))
}

/// Opens the lock file of an object's directory. Returns `None` if it is missing, and an error if
/// it cannot be opened or is not a safe file of this user.
pub(super) fn lock_of(
    dir: &OwnedFd,
    path: &Path,
    kind: ObjectKind,
) -> Result<Option<LockFile>, SegmentError> {
    match files::open(dir, kind.lock_file(), path, Access::ReadWrite, None) {
        Ok(fd) => Ok(Some(LockFile::new(fd))),
        Err(SegmentError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_renamed_during_a_count_are_counted_once() {
        let counted = |looks: &[&[(u64, u64)]]| {
            // The last listing repeats.
            let mut looks = looks.iter().chain(std::iter::repeat(looks.last().unwrap()));
            settled(|| looks.next().map(|found| found.iter().copied().collect())).unwrap()
        };
        assert_eq!(counted(&[&[]]), 0);
        assert_eq!(counted(&[&[(1, 10), (2, 20)]]), 30);
        // The first pass saw the old memory under the lane's name; after the rename only the new
        // one is left.
        assert_eq!(counted(&[&[(1, 10)], &[(2, 20)]]), 20);
        assert_eq!(counted(&[&[(1, 10)], &[(2, 20)], &[(2, 20), (3, 40)]]), 60);
        // If the files keep changing, all that were seen count.
        let mut look = 0;
        let restless = settled(|| {
            look += 1;
            Some(BTreeMap::from([(look % 2, 10)]))
        });
        assert_eq!((restless, look), (Some(20), LOOKS as u64));
        assert_eq!(settled(|| None), None);
    }

    #[test]
    fn a_file_counts_under_whatever_name_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let bytes_of =
            || super::bytes_of(&fs::File::open(dir.path()).unwrap().into(), dir.path()).unwrap();
        fs::write(path("lane"), vec![1; 8_192]).unwrap();
        fs::hard_link(path("lane"), path("lane.next")).unwrap();
        assert_eq!(bytes_of(), Some(8_192));
        fs::rename(path("lane.next"), path("other")).unwrap();
        fs::write(path("next"), vec![1; 4_096]).unwrap();
        assert_eq!(bytes_of(), Some(12_288));
    }
}
