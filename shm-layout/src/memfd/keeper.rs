//! Keeps the memory of rings that nobody holds: what a daemon is for where a file system is not.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::{Link, Memory, is_link, open};
use crate::error::SegmentError;
use crate::name::{Base, Kind};
use crate::object::{KEEP_BYTE, Object};
use crate::ring_files::CTL;
use crate::sys::file;
use crate::sys::lock::{Hold, LockFile};
use crate::sys::map::Access;

/// Keeps the memory of every ring of a base directory that lies in sealed memfds. It holds no ring:
/// whoever removes one meets nobody here, and the memory goes back at the next [`look`](Self::look).
#[derive(Debug, Default)]
pub struct MemfdKeeper {
    /// By the directory's device and number, which stay when it is renamed.
    rings: HashMap<(u64, u64), KeptRing>,
}

#[derive(Debug)]
struct KeptRing {
    dir: OwnedFd,
    path: PathBuf,
    memory: Memory,
    /// Says that the memory is kept, to those who cannot see by whom.
    lock: LockFile,
}

impl MemfdKeeper {
    /// Takes what there is to keep, and lets go of what no ring has any more. Returns why rings could
    /// not be kept, where there were such.
    ///
    /// A few system calls for each ring; one for each lane of a ring in memfds.
    pub fn look(&mut self, base: &Base) -> Result<Vec<SegmentError>, SegmentError> {
        let entries = match fs::read_dir(base.path()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.rings.clear();
                return Ok(Vec::new());
            }
            other => other.map_err(SegmentError::io("list", base.path()))?,
        };
        let (mut seen, mut failed) = (Vec::new(), Vec::new());
        let suffix = Kind::Ring.as_str();
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let is_ring = path.extension().is_some_and(|extension| extension == suffix);
            let Some(dir) = is_ring.then(|| file::open_dir(&path).ok()).flatten() else { continue };
            let Some(key) = is_link(&dir, CTL).then(|| key(&dir)).flatten() else { continue };
            match self.keep_at(key, dir, &path) {
                Ok(()) => {}
                // It went away since it was listed.
                Err(_) if !path.exists() => continue,
                Err(error) => failed.push(error),
            }
            seen.push(key);
        }
        self.rings.retain(|key, _| seen.contains(key));
        Ok(failed)
    }

    /// Takes the memory of one ring, if it lies in memfds.
    pub(crate) fn keep(&mut self, object: &Object) -> Result<(), SegmentError> {
        let dir = object.directory()?;
        match is_link(&dir, CTL).then(|| key(&dir)).flatten() {
            Some(key) => self.keep_at(key, dir, object.path()),
            None => Ok(()),
        }
    }

    fn keep_at(&mut self, key: (u64, u64), dir: OwnedFd, path: &Path) -> Result<(), SegmentError> {
        if let Some(ring) = self.rings.get(&key) {
            return ring.tend();
        }
        let lock = file::open(&dir, Kind::Ring.lock_file(), path, Access::ReadWrite, None)?;
        let lock = LockFile::new(lock);
        let (path, memory) = (path.to_owned(), Memory::looked_for_once());
        let ring = KeptRing { dir, path, memory, lock };
        // What cannot be found is not said to be kept.
        ring.tend()?;
        let said = ring.lock.try_lock(KEEP_BYTE, Hold::Shared);
        said.map_err(SegmentError::io("lock", &ring.path))?;
        self.rings.insert(key, ring);
        Ok(())
    }

    /// Rings whose memory is kept.
    #[must_use]
    pub fn rings(&self) -> usize {
        self.rings.len()
    }
}

impl KeptRing {
    fn tend(&self) -> Result<(), SegmentError> {
        self.memory.search().again();
        let mut result = Ok(());
        let names = rustix::fs::Dir::read_from(&self.dir)
            .map_err(|error| SegmentError::io("list", &self.path)(error.into()))?
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok());
        for name in names {
            let Some(link) = Link::read(&self.dir, &name) else { continue };
            if !self.memory.has(link.id) {
                let access = Access::ReadOnly;
                let opened = open(&self.dir, &name, &self.path, access, None, &self.memory);
                // A writer may have given it another name meanwhile.
                result = result.and(match opened {
                    Err(_) if !is_link(&self.dir, &name) => Ok(()),
                    other => other.map(drop),
                });
            }
        }
        self.memory.tidy(&self.dir);
        result
    }
}

fn key(dir: &OwnedFd) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(dir).ok()?;
    #[expect(clippy::useless_conversion, reason = "the types differ between systems")]
    Some((u64::try_from(stat.st_dev).ok()?, u64::try_from(stat.st_ino).ok()?))
}
