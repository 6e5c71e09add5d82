//! Entries of the base directory, reached through its descriptor. The base directory is opened
//! without following a link, and only this user may have access to it. Every call below starts from
//! its descriptor.
//!
//! Other users may create entries beside the base directory, for example in `/dev/shm`. A link in
//! its place would lead each call that lists, attaches or removes into a folder of their choice.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};

use crate::error::SegmentError;
use crate::os::files;

/// An open directory that only this user can access, and its path for messages.
#[derive(Debug)]
pub(crate) struct CheckedDir {
    dir: OwnedFd,
    path: PathBuf,
}

impl CheckedDir {
    /// Opens a directory that only this user can access.
    pub(crate) fn open(path: &Path) -> Result<Self, SegmentError> {
        Ok(Self { dir: files::open_dir(path)?, path: path.to_owned() })
    }

    /// Opens the directory of an entry, and returns the name of the entry there.
    pub(super) fn of(entry: &Path) -> Result<(Self, &OsStr), SegmentError> {
        let (Some(parent), Some(name)) = (entry.parent(), entry.file_name()) else {
            return Err(SegmentError::io("open", entry)(io::ErrorKind::NotFound.into()));
        };
        Ok((Self::open(parent)?, name))
    }

    pub(crate) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the inode numbers of the entries by name.
    pub(crate) fn entries(&self) -> Result<BTreeMap<OsString, u64>, SegmentError> {
        entries(&self.dir).map_err(SegmentError::io("list", &self.path))
    }

    pub(super) fn is_dir(&self, name: &OsStr) -> bool {
        is_dir(self.dir.as_fd(), name)
    }

    /// Opens a directory in this one that only this user can access.
    pub(crate) fn open_dir(&self, name: &OsStr) -> Result<OwnedFd, SegmentError> {
        files::open_dir_at(&self.dir, name, &self.path_of(name))
    }

    pub(super) fn make_dir(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.dir, name, Mode::from_raw_mode(0o700))?)
    }

    pub(super) fn rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.dir, name, &to.dir, new)?)
    }

    /// Removes a file, or a link.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    /// Removes an entry and all below it. Links are removed and never followed.
    pub(super) fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        remove_all(self.dir.as_fd(), name)
    }
}

/// Returns the inode numbers of the entries of a directory by name.
pub(super) fn entries(dir: &OwnedFd) -> io::Result<BTreeMap<OsString, u64>> {
    let mut found = BTreeMap::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            found.insert(name.to_owned(), entry.ino());
        }
    }
    Ok(found)
}

/// Removes the files of an open directory. Needs one free descriptor to list them.
pub(super) fn clear(dir: &OwnedFd) -> io::Result<()> {
    let mut cleared = Ok(());
    for name in entries(dir)?.keys() {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => cleared = Err(error.into()),
        }
    }
    cleared
}

/// Renames an entry of a directory that only this user can access, or moves it to another such
/// directory.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fn open(path: &Path) -> io::Result<(CheckedDir, &OsStr)> {
        CheckedDir::of(path).map_err(|error| match error {
            SegmentError::Io { source, .. } => source,
            refused => io::Error::new(io::ErrorKind::PermissionDenied, refused.to_string()),
        })
    }
    let ((old, name), (new, new_name)) = (open(from)?, open(to)?);
    old.rename(name, &new, new_name)
}

fn is_dir(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
}

fn remove_all(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    if !is_dir(dir, name) {
        return Ok(unlinkat(dir, name, AtFlags::empty())?);
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let inner = openat(dir, name, flags, Mode::empty())?;
    for entry in entries(&inner)?.keys() {
        match remove_all(inner.as_fd(), entry) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

impl AsFd for CheckedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{DirBuilderExt, symlink};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;
    use crate::error::ObjectKind;
    use crate::layout::names::{Base, Exist};
    use crate::store::object::{Object, collect_garbage, list_objects, remove_object};

    fn dir(path: &Path) {
        fs::DirBuilder::new().mode(0o700).create(path).unwrap();
    }

    /// Creates a base directory that is a link to another folder.
    fn planted() -> (tempfile::TempDir, Base, PathBuf) {
        let at = tempfile::tempdir().unwrap();
        let (base, mine) = (Base::at(at.path()), at.path().join("mine"));
        dir(&mine);
        for name in ["walk.ring", ".building-1", ".dead-1", "prices.panel"] {
            dir(&mine.join(name));
            fs::write(mine.join(name).join("ring.ctl"), "precious").unwrap();
        }
        symlink(&mine, base.path()).unwrap();
        (at, base, mine)
    }

    #[test]
    fn a_link_in_place_of_the_base_directory_is_not_followed() {
        let (_at, base, mine) = planted();
        let before = fs::read_dir(&mine).unwrap().count();
        let make = |_: &OwnedFd, _: &Path| Ok(());
        let create = Object::create(&base, ObjectKind::Ring, "new", Exist::Error, false, make);
        let refused = [
            ("list", list_objects(&base).map(drop)),
            ("collect", collect_garbage(&base).map(drop)),
            ("remove", remove_object(&base, ObjectKind::Ring, "walk", true).map(drop)),
            ("open", Object::open(&base, ObjectKind::Ring, "walk").map(drop)),
            ("observe", Object::observe(&base, ObjectKind::Ring, "walk").map(drop)),
            ("create", create.map(drop)),
        ];
        for (call, result) in refused {
            let error = result.unwrap_err();
            assert!(matches!(error, SegmentError::Permission { .. }), "{call}: {error:?}");
        }
        assert_eq!(fs::read_dir(&mine).unwrap().count(), before);
        let kept = mine.join(".dead-1").join("ring.ctl");
        assert_eq!(fs::read(kept).unwrap(), b"precious");
    }

    #[test]
    fn only_directories_with_a_file_of_ours_are_collected() {
        let at = tempfile::tempdir().unwrap();
        let base = Base::at(at.path());
        dir(base.path());
        let mine = |name: &str| base.path().join(name);
        for (name, files) in [
            ("holiday.ring", &["photo.jpg"][..]),
            ("empty.ring", &[]),
            (".dead-1", &["diary.txt"]),
            (".building-1", &[]),
            (".dead-2", &["lane-0000.dat"]),
            ("cut.ring", &["ring.ctl"]),
        ] {
            dir(&mine(name));
            for file in files {
                fs::write(mine(name).join(file), "").unwrap();
            }
        }
        collect_garbage(&base).unwrap();
        let left: Vec<_> =
            CheckedDir::open(base.path()).unwrap().entries().unwrap().into_keys().collect();
        assert_eq!(left, [".dead-1", "empty.ring", "holiday.ring"]);
    }

    #[test]
    fn the_directory_of_a_killed_creator_is_collected_and_that_of_a_live_one_stays() {
        let at = tempfile::tempdir().unwrap();
        let base = Base::at(at.path());
        let building = || -> Vec<bool> {
            list_objects(&base)
                .unwrap()
                .iter()
                .filter(|info| info.building)
                .map(|info| info.held)
                .collect()
        };
        let create = |exist, dies: bool| {
            Object::create(&base, ObjectKind::Ring, "new", exist, false, |dir, path| {
                files::make(dir, "lane-0000.dat", path)?;
                if dies {
                    resume_unwind(Box::new("killed"));
                }
                let removed = collect_garbage(&base).unwrap();
                let removed: Vec<_> =
                    removed.iter().map(|info| (info.building, info.held)).collect();
                assert_eq!(removed, [(true, false)], "that of the killed creator");
                assert_eq!(building(), [true], "that of this one");
                Ok(())
            })
        };
        for exist in [Exist::Error, Exist::Attach, Exist::Replace] {
            // A panic leaves the files and ends the lock, as a kill does.
            assert!(catch_unwind(AssertUnwindSafe(|| create(Exist::Error, true))).is_err());
            assert_eq!(building(), [false], "no process holds it");
            let (object, made) = create(exist, false).unwrap();
            assert!(made && building().is_empty());
            drop(object);
            assert!(!base.path().exists());
        }
    }

    #[test]
    fn removal_does_not_follow_links() {
        let at = tempfile::tempdir().unwrap();
        let (base, other) = (Base::at(at.path()), at.path().join("other"));
        dir(base.path());
        dir(&other);
        fs::write(other.join("kept"), "").unwrap();
        let grave = base.path().join(".dead-1");
        dir(&grave);
        symlink(&other, grave.join("lane-0000.dat")).unwrap();
        collect_garbage(&base).unwrap();
        assert!(!grave.exists() && other.join("kept").exists());
    }
}
