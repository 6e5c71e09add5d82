//! A place where a ring is filled that can be gone on with: what a killed process stored stays there.
//!
//! ```text
//! .partial-pong.ring/
//!   ring.lck   held by whoever fills the ring; the kernel lets go of it with the process
//!   ring/      the ring so far, which gets its name when it is whole
//! ```
//!
//! Beside them lies what whoever fills it notes down. Nobody else looks at any of it, but to tell how
//! much memory it takes, and to remove it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

use super::listing::{ObjectInfo, describe, lock_of, missing};
use super::place::{self, Place};
use super::removal::{bury, delete, dig, tidy};
use super::{
    ATTEMPTS, HOLD_BYTE, Object, PERSISTENT_FILE, directory, is_at, is_missing, is_persistent,
    prepare_base,
};
use crate::error::Kind;
use crate::error::SegmentError;
use crate::layout::names::{Base, check_known, check_name};
use crate::os::byte_lock::{Hold, LockFile};
use crate::os::files;
use crate::store::memfd::Memory;

const PREFIX: &str = ".partial-";
/// Folder of the ring.
pub(super) const RING: &str = "ring";
/// The byte of the lock file that whoever fills the ring has alone.
const FILL_BYTE: u64 = 2;

/// The right to fill a ring of a name, and the place where that is done.
///
/// Dropping it leaves everything as it is, for the next one.
#[derive(Debug)]
pub struct PartialRing {
    base: Base,
    name: String,
    path: PathBuf,
    dir: OwnedFd,
    _lock: LockFile,
}

impl PartialRing {
    /// Takes the place, and makes it if it is not there. An error if another process has it.
    pub fn claim(base: &Base, name: &str) -> Result<Self, SegmentError> {
        check_name(name)?;
        let path = folder(base, name);
        for _ in 0..ATTEMPTS {
            if let Some((dir, lock)) = Self::try_claim(base, name, &path)? {
                let (base, name) = (base.clone(), name.to_owned());
                return Ok(Self { base, name, path, dir, _lock: lock });
            }
            std::thread::yield_now();
        }
        Err(SegmentError::BeingFilled { name: name.to_owned() })
    }

    /// `None`: somebody removed it meanwhile.
    fn try_claim(
        base: &Base,
        name: &str,
        path: &Path,
    ) -> Result<Option<(OwnedFd, LockFile)>, SegmentError> {
        let gone = |error: SegmentError| if is_missing(&error) { Ok(None) } else { Err(error) };
        if let Err(error) = prepare_base(base) {
            return gone(error);
        }
        let (place, folder) = match Place::of(path) {
            Err(error) => return gone(error),
            Ok(found) => found,
        };
        match place.make_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return gone(SegmentError::io("create", path)(error)),
            Ok(()) => {}
        }
        let dir = match place.open_dir(folder) {
            Err(error) => return gone(error),
            Ok(dir) => dir,
        };
        let lock = match open_lock(&dir, path) {
            Err(error) => return gone(error),
            Ok(lock) => lock,
        };
        let refused = || SegmentError::io("lock", path);
        // Whoever removes it has this byte alone until it is gone.
        if !lock.try_lock(HOLD_BYTE, Hold::Shared).map_err(refused())? {
            return Ok(None);
        }
        if !lock.try_lock(FILL_BYTE, Hold::Exclusive).map_err(refused())? {
            return Err(SegmentError::BeingFilled { name: name.to_owned() });
        }
        let there = lock.links().map_err(refused())? > 0 && is_at(&dir, path);
        Ok(there.then_some((dir, lock)))
    }

    /// Whether there is one of that name, in anybody's hands or nobody's.
    #[must_use]
    pub fn exists(base: &Base, name: &str) -> bool {
        check_name(name).is_ok() && folder(base, name).symlink_metadata().is_ok()
    }

    /// Name of the ring.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where rings live.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// The folder, for notes on how far the ring is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The ring's folder, device and number, which it keeps when it gets its name.
    #[must_use]
    pub fn ring_inode(&self) -> Option<(u64, u64)> {
        inode(&self.ring())
    }

    pub(crate) fn ring(&self) -> PathBuf {
        ring_in(&self.path)
    }

    /// Removes everything but the right to be here.
    pub fn clear(&self) -> Result<(), SegmentError> {
        let failed = || SegmentError::io("remove", &self.path);
        let place = Place::open(&self.path)?;
        for name in place.entries()?.keys().filter(|name| !is_lock(name)) {
            place.remove_all(name).map_err(failed())?;
        }
        Ok(())
    }

    pub(crate) fn clear_ring(&self) -> Result<(), SegmentError> {
        match Place::open(&self.path)?.remove_all(RING.as_ref()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SegmentError::io("remove", &self.ring())(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes all of it.
    pub fn remove(self) -> Result<(), SegmentError> {
        if let Some(grave) = dig(&self.path, Some(&self.dir))? {
            delete(&grave)?;
            tidy(&self.path);
        }
        Ok(())
    }

    /// Takes a ring that has its name already, and whose makers died before anybody held it, back to
    /// where it was filled. `inode` says which one it is. `true`: it is here.
    pub fn take_back(&self, inode: (u64, u64)) -> Result<bool, SegmentError> {
        let named = directory(&self.base, Kind::Ring, &self.name);
        if self.ring_inode().is_some() || self::inode(&named) != Some(inode) {
            return Ok(false);
        }
        let (place, folder) = Place::of(&named)?;
        let Ok(dir) = place.open_dir(folder) else { return Ok(false) };
        if is_persistent(&dir) {
            return Ok(false);
        }
        // Kept until it has moved, so that nobody attaches meanwhile.
        let Ok(Some(lock)) = lock_of(&dir, &named, Kind::Ring) else { return Ok(false) };
        if !matches!(lock.try_lock(HOLD_BYTE, Hold::Exclusive), Ok(true)) {
            return Ok(false);
        }
        match place::rename(&named, &self.ring()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            moved => moved.map_err(SegmentError::io("rename", &named))?,
        }
        if is_at(&dir, &self.ring()) {
            return Ok(true);
        }
        // Another ring got the name between the two calls: it gets it back.
        place::rename(&self.ring(), &named).map_err(SegmentError::io("rename", &named))?;
        Ok(false)
    }

    /// Makes the ring's folder, or opens the one there is, and has it filled.
    pub(super) fn build(
        &self,
        persistent: bool,
        make: &mut impl FnMut(&OwnedFd, &Path) -> Result<(), SegmentError>,
    ) -> Result<Object, SegmentError> {
        let path = self.ring();
        match Place::open(&self.path)?.make_dir(RING.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.map_err(SegmentError::io("create", &path))?,
        }
        let mut object = self.observe(&path)?;
        let held = object.hold.try_lock(HOLD_BYTE, Hold::Shared);
        if !held.map_err(SegmentError::io("lock", &path))? {
            return Err(SegmentError::io("lock", &path)(io::ErrorKind::NotFound.into()));
        }
        if persistent && !object.persistent {
            files::make(&object.dir, PERSISTENT_FILE, &path)?;
        } else if object.persistent && !persistent {
            unlinkat(&object.dir, PERSISTENT_FILE, AtFlags::empty())
                .map_err(|error| SegmentError::io("remove", &path)(error.into()))?;
        }
        make(&object.dir, &path)?;
        // Only now: what is not whole goes on when this handle does not.
        (object.persistent, object.holds) = (persistent, true);
        Ok(object)
    }

    /// The ring as it is, without holding it. `None`: there is none.
    pub(crate) fn look(&self) -> Result<Option<Object>, SegmentError> {
        let path = self.ring();
        if self.ring_inode().is_none() {
            return Ok(None);
        }
        self.observe(&path).map(Some)
    }

    fn observe(&self, path: &Path) -> Result<Object, SegmentError> {
        let dir = files::open_dir(path)?;
        let hold = open_lock(&dir, path)?;
        let (kind, name, path) = (Kind::Ring, self.name.clone(), path.to_owned());
        let persistent = is_persistent(&dir);
        let memory = Memory::default();
        Ok(Object { kind, name, path, dir, hold, persistent, holds: false, memory })
    }
}

/// Removes what was left of a ring that was being filled, unless somebody is at it.
pub fn remove_partial(base: &Base, name: &str) -> Result<ObjectInfo, SegmentError> {
    check_known(name)?;
    let path = folder(base, name);
    let info = describe(&path)?.ok_or_else(|| missing(base, Kind::Ring, name))?;
    if info.held {
        return Err(SegmentError::BeingFilled { name: name.to_owned() });
    }
    bury(&path)?;
    tidy(&path);
    Ok(info)
}

fn folder(base: &Base, name: &str) -> PathBuf {
    base.path().join(format!("{PREFIX}{name}.{}", Kind::Ring))
}

/// The ring that a directory of this name is a part of.
pub(super) fn ring_of(file_name: &str) -> Option<&str> {
    let name = file_name.strip_prefix(PREFIX)?.strip_suffix(Kind::Ring.as_str())?;
    name.strip_suffix('.')
}

/// Where a directory of such a name has the ring.
pub(super) fn ring_in(path: &Path) -> PathBuf {
    path.join(RING)
}

/// Whether it is the lock file, or one of those beside it, of systems that need them.
pub(crate) fn is_lock(file_name: &OsStr) -> bool {
    file_name.to_string_lossy().starts_with(Kind::Ring.lock_file())
}

/// The lock file of a directory, which is made if it is not there.
fn open_lock(dir: &OwnedFd, path: &Path) -> Result<LockFile, SegmentError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let name = Kind::Ring.lock_file();
    let fd = openat(dir, name, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| SegmentError::io("open", &path.join(name))(error.into()))?;
    files::check_file(&fd, path)?;
    Ok(LockFile::new(fd))
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::object::{collect, collect_orphans, list};

    fn place() -> (tempfile::TempDir, Base) {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        (dir, base)
    }

    #[test]
    fn one_at_a_time_fills_a_ring_and_nobody_removes_it_meanwhile() {
        let (_dir, base) = place();
        let first = PartialRing::claim(&base, "pong").unwrap();
        let second = PartialRing::claim(&base, "pong").unwrap_err();
        assert!(
            matches!(&second, SegmentError::BeingFilled { name } if name == "pong"),
            "{second}"
        );
        PartialRing::claim(&base, "other").unwrap().remove().unwrap();
        let removed = remove_partial(&base, "pong").unwrap_err();
        assert!(matches!(removed, SegmentError::BeingFilled { .. }), "{removed}");
        assert_eq!(collect(&base).unwrap(), []);
        assert!(list(&base).unwrap()[0].held && PartialRing::exists(&base, "pong"));
        drop(first);
        assert_eq!(collect_orphans(&base).unwrap(), [], "it may be gone on with");
        let again = PartialRing::claim(&base, "pong").unwrap();
        fs::write(again.path().join("note"), "").unwrap();
        again.clear().unwrap();
        assert!(!again.path().join("note").exists());
        assert!(PartialRing::claim(&base, "pong").is_err(), "clearing does not let go");
        drop(again);
        assert_eq!(remove_partial(&base, "pong").unwrap().name, "pong");
        let gone = remove_partial(&base, "pong").unwrap_err();
        assert!(matches!(gone, SegmentError::NotFound { .. }), "{gone}");
        assert!(!base.path().exists());
    }

    #[test]
    fn only_the_ring_that_was_filled_is_taken_back_and_only_from_nobody() {
        let (_dir, base) = place();
        let partial = PartialRing::claim(&base, "pong").unwrap();
        let make = |persistent| {
            let make = |_: &OwnedFd, _: &Path| Ok(());
            Object::create(&base, Kind::Ring, "pong", crate::Exist::Error, persistent, make)
                .unwrap()
                .0
        };
        let held = make(false);
        let named = inode(held.path()).unwrap();
        assert!(!partial.take_back(named).unwrap(), "somebody holds it");
        drop(held);
        let kept = make(true);
        let named = inode(kept.path()).unwrap();
        drop(kept);
        assert!(!partial.take_back(named).unwrap(), "it persists");
        fs::remove_file(base.path().join("pong.ring").join(PERSISTENT_FILE)).unwrap();
        assert!(!partial.take_back((named.0, named.1 + 1)).unwrap(), "it is another one");
        assert!(partial.take_back(named).unwrap());
        assert_eq!(partial.ring_inode(), Some(named));
        assert!(!base.path().join("pong.ring").exists());
    }

    #[test]
    fn names_are_those_of_rings_alone() {
        for (file, ring) in [
            (".partial-pong.ring", Some("pong")),
            (".partial-a.b.ring", Some("a.b")),
            (".partial-pong.panel", None),
            ("pong.ring", None),
        ] {
            assert_eq!(ring_of(file), ring, "{file}");
        }
        let (_dir, base) = place();
        for bad in ["", "a/b", "a@b", ".."] {
            assert!(PartialRing::claim(&base, bad).is_err(), "{bad:?}");
            assert!(!PartialRing::exists(&base, bad), "{bad:?}");
        }
    }
}
