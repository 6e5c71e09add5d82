//! Folders of rings that are being filled. The rows stored in one outlive the process that fills
//! it.
//!
//! ```text
//! .partial-pong.ring/
//!   ring.lck   held by the process that fills the ring; the kernel releases it with the process
//!   ring/      the ring so far, which gets its name when it is complete
//! ```
//!
//! Beside them lie the notes of the process that fills it. Other processes only report the size of
//! the folder, and remove it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

use super::listing::{ObjectInfo, describe, lock_of, missing};
use super::place::{self, CheckedDir};
use super::removal::{bury, delete, dig, tidy};
use super::{
    ATTEMPTS, HOLD_BYTE, Object, PERSISTENT_FILE, directory, is_at, is_missing, is_persistent,
    prepare_base,
};
use crate::error::Kind;
use crate::error::SegmentError;
use crate::layout::names::{Base, check_known, check_name};
use crate::os::byte_lock::{LockFile, LockMode};
use crate::os::files;
use crate::store::memfd::KeptMemfds;

const PREFIX: &str = ".partial-";
/// Folder of the ring.
pub(super) const RING: &str = "ring";
/// Byte of the lock file that the process that fills the ring holds exclusively.
const FILL_BYTE: u64 = 2;

/// The right to fill a ring of a name, and the folder for that.
///
/// Dropping it leaves all files for the next process.
#[derive(Debug)]
pub struct PartialRing {
    base: Base,
    name: String,
    path: PathBuf,
    dir: OwnedFd,
    _lock: LockFile,
}

impl PartialRing {
    /// Claims the folder, and creates it if it is missing. Fails if another process fills the ring.
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

    /// Returns `None` if another process removed the folder during the call.
    fn try_claim(
        base: &Base,
        name: &str,
        path: &Path,
    ) -> Result<Option<(OwnedFd, LockFile)>, SegmentError> {
        let gone = |error: SegmentError| if is_missing(&error) { Ok(None) } else { Err(error) };
        if let Err(error) = prepare_base(base) {
            return gone(error);
        }
        let (place, folder) = match CheckedDir::of(path) {
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
        // A process that removes the folder holds this byte exclusively until it is removed.
        if !lock.try_lock(HOLD_BYTE, LockMode::Shared).map_err(refused())? {
            return Ok(None);
        }
        if !lock.try_lock(FILL_BYTE, LockMode::Exclusive).map_err(refused())? {
            return Err(SegmentError::BeingFilled { name: name.to_owned() });
        }
        let there = lock.links().map_err(refused())? > 0 && is_at(&dir, path);
        Ok(there.then_some((dir, lock)))
    }

    /// Whether a ring of this name has such a folder, claimed or not.
    #[must_use]
    pub fn exists(base: &Base, name: &str) -> bool {
        check_name(name).is_ok() && folder(base, name).symlink_metadata().is_ok()
    }

    /// Name of the ring.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the base directory.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Returns the folder, in which the caller may note its progress.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns device and inode of the ring's folder, which it keeps when it gets its name.
    #[must_use]
    pub fn ring_inode(&self) -> Option<(u64, u64)> {
        inode(&self.ring())
    }

    pub(crate) fn ring(&self) -> PathBuf {
        ring_in(&self.path)
    }

    /// Removes all files except the lock.
    pub fn clear(&self) -> Result<(), SegmentError> {
        let failed = || SegmentError::io("remove", &self.path);
        let place = CheckedDir::open(&self.path)?;
        for name in place.entries()?.keys().filter(|name| !is_lock(name)) {
            place.remove_all(name).map_err(failed())?;
        }
        Ok(())
    }

    pub(crate) fn clear_ring(&self) -> Result<(), SegmentError> {
        match CheckedDir::open(&self.path)?.remove_all(RING.as_ref()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SegmentError::io("remove", &self.ring())(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the folder.
    pub fn remove(self) -> Result<(), SegmentError> {
        if let Some(grave) = dig(&self.path, Some(&self.dir))? {
            delete(&grave)?;
            tidy(&self.path);
        }
        Ok(())
    }

    /// Takes back a ring that already has its name, if its makers died before a process held it.
    /// `inode` identifies the ring. Returns `true` if the ring is in this folder now.
    pub fn take_back(&self, inode: (u64, u64)) -> Result<bool, SegmentError> {
        let named = directory(&self.base, Kind::Ring, &self.name);
        if self.ring_inode().is_some() || self::inode(&named) != Some(inode) {
            return Ok(false);
        }
        let (place, folder) = CheckedDir::of(&named)?;
        let Ok(dir) = place.open_dir(folder) else { return Ok(false) };
        if is_persistent(&dir) {
            return Ok(false);
        }
        // Held until the ring has moved, so that no process attaches meanwhile.
        let Ok(Some(lock)) = lock_of(&dir, &named, Kind::Ring) else { return Ok(false) };
        if !matches!(lock.try_lock(HOLD_BYTE, LockMode::Exclusive), Ok(true)) {
            return Ok(false);
        }
        match place::rename(&named, &self.ring()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            moved => moved.map_err(SegmentError::io("rename", &named))?,
        }
        if is_at(&dir, &self.ring()) {
            return Ok(true);
        }
        // Another ring took the name between the two calls: it gets its name back.
        place::rename(&self.ring(), &named).map_err(SegmentError::io("rename", &named))?;
        Ok(false)
    }

    /// Creates or opens the folder of the ring, and calls `make` to fill it.
    pub(super) fn build(
        &self,
        persistent: bool,
        make: &mut impl FnMut(&OwnedFd, &Path) -> Result<(), SegmentError>,
    ) -> Result<Object, SegmentError> {
        let path = self.ring();
        match CheckedDir::open(&self.path)?.make_dir(RING.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.map_err(SegmentError::io("create", &path))?,
        }
        let mut object = self.observe(&path)?;
        let held = object.hold.try_lock(HOLD_BYTE, LockMode::Shared);
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
        // Set last: without these flags, dropping the handle keeps an incomplete ring.
        (object.persistent, object.holds) = (persistent, true);
        Ok(object)
    }

    /// Returns the ring so far, without holding it. Returns `None` if there is none.
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
        let memory = KeptMemfds::default();
        Ok(Object { kind, name, path, dir, hold, persistent, holds: false, memory })
    }
}

/// Removes the folder of a ring that was being filled, unless a process fills it.
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

/// Returns the name of the ring whose folder has this name.
pub(super) fn ring_of(file_name: &str) -> Option<&str> {
    let name = file_name.strip_prefix(PREFIX)?.strip_suffix(Kind::Ring.as_str())?;
    name.strip_suffix('.')
}

/// Returns the folder of the ring within its partial folder.
pub(super) fn ring_in(path: &Path) -> PathBuf {
    path.join(RING)
}

/// Whether a name is the lock file, or one of those beside it, of systems that need them.
pub(crate) fn is_lock(file_name: &OsStr) -> bool {
    file_name.to_string_lossy().starts_with(Kind::Ring.lock_file())
}

/// Opens the lock file of a directory, and creates it if it is missing.
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
        assert_eq!(collect_orphans(&base).unwrap(), [], "another process may continue it");
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
        assert!(!partial.take_back(named).unwrap(), "a process holds it");
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
