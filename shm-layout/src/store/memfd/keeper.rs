//! Keeps the memory of rings in memfds while no process holds them, as a file system keeps files.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, renameat, symlinkat, unlinkat};

use super::{KeptMemfds, Link, is_link, open};
use crate::error::ObjectKind;
use crate::error::SegmentError;
use crate::layout::names::Base;
use crate::os::byte_lock::{LockFile, LockMode};
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::object::{CheckedDir, KEEP_BYTE, Object, is_missing};
use crate::store::relocation::RESIZE_LOCK;
use crate::store::ring_files::{CTL, NEXT_SUFFIX};
use crate::store::ring_store::RingStore;
use crate::store::table_file::{is_table, is_unfinished, lock_byte, name_of};

/// Name of a link that is about to replace another one.
const RENEWED: &str = "renewed";

/// Keeps the memory of every ring in sealed memfds of a base directory. The keeper holds no ring: a
/// ring can be removed despite it, and the memory is freed at the next [`look`](Self::look).
#[derive(Debug, Default)]
pub struct MemfdKeeper {
    /// Rings by device and inode of their directory, which stay the same when it is renamed.
    rings: HashMap<(u64, u64), KeptRing>,
}

#[derive(Debug)]
struct KeptRing {
    dir: OwnedFd,
    path: PathBuf,
    memory: KeptMemfds,
    /// Lock that marks the memory as kept, for processes that cannot see the keeper.
    lock: LockFile,
}

impl MemfdKeeper {
    /// Keeps the memory of new rings, and frees that of removed ones. Returns the errors of rings
    /// that could not be kept. Frees nothing if the process runs out of files or memory.
    ///
    /// Makes a few system calls per ring, and a few per file of a ring in memfds.
    pub fn look(&mut self, base: &Base) -> Result<Vec<SegmentError>, SegmentError> {
        let place = match CheckedDir::open(base.path()) {
            Err(error) if is_missing(&error) => {
                self.rings.clear();
                return Ok(Vec::new());
            }
            other => other?,
        };
        let (mut seen, mut failed) = (Vec::new(), Vec::new());
        let suffix = ObjectKind::Ring.as_str();
        for name in place.entries()?.keys() {
            let path = place.path_of(name);
            let is_ring = path.extension().is_some_and(|extension| extension == suffix);
            let dir = if is_ring { place.open_dir(name) } else { continue };
            let dir = match dir {
                // Whether the ring exists is unknown, so its memory has to stay.
                Err(error) if error.is_of_process() => return Err(error),
                Err(_) => continue,
                Ok(dir) => dir,
            };
            let Some(key) = is_link(&dir, CTL).then(|| key(&dir)).flatten() else { continue };
            match self.keep_at(key, dir, &path, &KeptMemfds::default()) {
                Ok(()) => {}
                // The ring was removed since it was listed.
                Err(_) if !path.exists() => continue,
                Err(error) => failed.push(error),
            }
            seen.push(key);
        }
        self.rings.retain(|key, _| seen.contains(key));
        Ok(failed)
    }

    /// Keeps the memory of one ring, if it lies in memfds. Takes the descriptors of the handle, so
    /// that the links stay valid if this process created the ring.
    pub fn keep(&mut self, ring: &RingStore) -> Result<(), SegmentError> {
        ring.object().map_or(Ok(()), |object| self.keep_object(object))
    }

    pub(crate) fn keep_object(&mut self, object: &Object) -> Result<(), SegmentError> {
        let dir = object.directory()?;
        let Some(key) = is_link(&dir, CTL).then(|| key(&dir)).flatten() else { return Ok(()) };
        self.keep_at(key, dir, object.path(), object.mapped_memory())
    }

    fn keep_at(
        &mut self,
        key: (u64, u64),
        dir: OwnedFd,
        path: &Path,
        has: &KeptMemfds,
    ) -> Result<(), SegmentError> {
        if let Some(ring) = self.rings.get(&key) {
            ring.memory.take_from(has);
            return ring.tend();
        }
        let lock = files::open(&dir, ObjectKind::Ring.lock_file(), path, Access::ReadWrite, None)?;
        let lock = LockFile::new(lock);
        let (path, memory) = (path.to_owned(), KeptMemfds::looked_for_once());
        memory.take_from(has);
        let ring = KeptRing { dir, path, memory, lock };
        // A ring whose memory is not found is not marked as kept.
        ring.tend()?;
        let said = ring.lock.try_lock(KEEP_BYTE, LockMode::Shared);
        said.map_err(SegmentError::io("lock", &ring.path))?;
        self.rings.insert(key, ring);
        Ok(())
    }

    /// Returns the number of rings whose memory is kept.
    #[must_use]
    pub fn rings(&self) -> usize {
        self.rings.len()
    }
}

impl KeptRing {
    fn tend(&self) -> Result<(), SegmentError> {
        self.memory.search().again();
        let mut result = Ok(());
        let names =
            names(&self.dir).map_err(|error| SegmentError::io("list", &self.path)(error.into()))?;
        for name in names {
            let Some(link) = Link::read(&self.dir, &name) else { continue };
            if !self.memory.has(link.id) {
                let access = Access::ReadOnly;
                let opened = open(&self.dir, &name, &self.path, access, None, &self.memory);
                // A writer may have renamed it meanwhile.
                result = result.and(match opened {
                    Err(_) if !is_link(&self.dir, &name) => Ok(()),
                    // The rest of the ring is kept without it, and the next process that uses the
                    // table makes a new one.
                    Err(SegmentError::MemoryGone { .. }) if is_table(&name) => Ok(()),
                    other => other.map(drop),
                });
            }
        }
        self.memory.tidy(&self.dir);
        self.renew_links();
        result
    }

    /// Replaces links to descriptors of other processes, which may have ended, by links to those of
    /// this process. Does so only while no lane can be renamed: this process holds the lock for
    /// resizing, and no resize is unfinished.
    fn renew_links(&self) {
        let names = names(&self.dir).unwrap_or_default();
        let stale = |name: &&String| {
            let link = Link::read(&self.dir, name);
            link.is_some_and(|link| self.memory.link(link.id).is_some_and(|ours| ours != link))
        };
        if !names.iter().any(|name| stale(&name)) {
            return;
        }
        if !matches!(self.lock.try_lock(RESIZE_LOCK, LockMode::Exclusive), Ok(true)) {
            return;
        }
        // List again: the first list may be older than the last relocation.
        let names = self::names(&self.dir).unwrap_or_default();
        if !names.iter().any(|name| name.ends_with(NEXT_SUFFIX)) {
            // Leave out unfinished tables, which their creators are about to rename.
            for name in names.iter().filter(stale).filter(|name| !is_unfinished(name)) {
                self.renew(name);
            }
        }
        let _ = self.lock.unlock(RESIZE_LOCK);
    }

    /// Replaces a link, unless it is that of a table that a process has locked. Errors are ignored:
    /// processes search for the memory of a link that is not renewed.
    fn renew(&self, name: &str) {
        // Without the lock, another process could remove the table or make it anew after the link
        // was read, and the old link would replace the new one.
        let Some(table) = name_of(name) else { return self.replace(name) };
        let byte = lock_byte(table);
        if matches!(self.lock.try_lock(byte, LockMode::Exclusive), Ok(true)) {
            self.replace(name);
            let _ = self.lock.unlock(byte);
        }
    }

    fn replace(&self, name: &str) {
        let ours = Link::read(&self.dir, name).and_then(|link| self.memory.link(link.id));
        let Some(ours) = ours else { return };
        let _ = unlinkat(&self.dir, RENEWED, AtFlags::empty());
        if symlinkat(ours.to_string(), &self.dir, RENEWED).is_ok() {
            let _ = renameat(&self.dir, RENEWED, &self.dir, name);
        }
    }
}

/// Returns the names in a directory.
fn names(dir: &OwnedFd) -> Result<Vec<String>, rustix::io::Errno> {
    let entries = Dir::read_from(dir)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok()).collect())
}

fn key(dir: &OwnedFd) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(dir).ok()?;
    #[expect(clippy::useless_conversion, reason = "the types differ between systems")]
    Some((u64::try_from(stat.st_dev).ok()?, u64::try_from(stat.st_ino).ok()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::layout::counted::spec;
    use crate::layout::priority_table::{BehindTree, TableSettings};
    use crate::{Exist, RingSpec};

    #[test]
    fn a_link_of_a_table_is_renewed_only_while_the_table_is_not_locked() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let spec = RingSpec { memfd: true, ..spec(&[8], 1_000) };
        let ring = RingStore::create(&base, "m", &spec, Exist::Error, false).unwrap().0;
        let ring = Arc::new(ring);
        let settings = TableSettings {
            exponent: 0.6,
            eps: 0.0,
            stride: 1,
            tracks_largest: false,
            behind: BehindTree::Nothing,
        };
        let mut table = ring.try_table("p", settings, 100).unwrap().unwrap();
        let link = || Link::read(ring.object().unwrap().dir(), "table-p.dat").unwrap();
        let (before, mut keeper) = (link(), MemfdKeeper::default());
        let guard = table.try_lock().unwrap().unwrap();
        keeper.look(&base).unwrap();
        assert_eq!(link(), before, "its holder may be about to replace it");
        drop(guard);
        keeper.look(&base).unwrap();
        let renewed = link();
        assert!(renewed.id == before.id && renewed != before, "{renewed}");
        assert!(table.try_lock().unwrap().is_some(), "the keeper has unlocked it");
    }
}
