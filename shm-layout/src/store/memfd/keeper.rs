//! Keeps the memory of rings that nobody holds: what a daemon is for where a file system is not.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, renameat, symlinkat, unlinkat};

use super::{Link, Memory, is_link, open};
use crate::error::Kind;
use crate::error::SegmentError;
use crate::layout::names::Base;
use crate::os::byte_lock::{Hold, LockFile};
use crate::os::files;
use crate::os::mapping::Access;
use crate::store::object::{KEEP_BYTE, Object, Place, is_missing};
use crate::store::relocation::RESIZE_LOCK;
use crate::store::ring_files::{CTL, NEXT_SUFFIX};
use crate::store::ring_store::RingStore;

/// A link that is about to take another one's place.
const RENEWED: &str = "renewed";

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
        let place = match Place::open(base.path()) {
            Err(error) if is_missing(&error) => {
                self.rings.clear();
                return Ok(Vec::new());
            }
            other => other?,
        };
        let (mut seen, mut failed) = (Vec::new(), Vec::new());
        let suffix = Kind::Ring.as_str();
        for name in place.entries()?.keys() {
            let path = place.path_of(name);
            let is_ring = path.extension().is_some_and(|extension| extension == suffix);
            let Some(dir) = is_ring.then(|| place.open_dir(name).ok()).flatten() else { continue };
            let Some(key) = is_link(&dir, CTL).then(|| key(&dir)).flatten() else { continue };
            match self.keep_at(key, dir, &path, &Memory::default()) {
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

    /// Takes the memory of one ring, if it lies in memfds, with the very descriptors that its handle has:
    /// if this made the ring, its links stay true.
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
        has: &Memory,
    ) -> Result<(), SegmentError> {
        if let Some(ring) = self.rings.get(&key) {
            ring.memory.take_from(has);
            return ring.tend();
        }
        let lock = files::open(&dir, Kind::Ring.lock_file(), path, Access::ReadWrite, None)?;
        let lock = LockFile::new(lock);
        let (path, memory) = (path.to_owned(), Memory::looked_for_once());
        memory.take_from(has);
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
        let names =
            names(&self.dir).map_err(|error| SegmentError::io("list", &self.path)(error.into()))?;
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
        self.renew_links();
        result
    }

    /// Has links that speak of others, who may be gone, speak of this process. Only where nobody gives a
    /// lane's new file its name meanwhile: while this keeps others from resizing, and nobody resized.
    fn renew_links(&self) {
        let names = names(&self.dir).unwrap_or_default();
        let stale = |name: &&String| {
            let link = Link::read(&self.dir, name);
            link.is_some_and(|link| self.memory.link(link.id).is_some_and(|ours| ours != link))
        };
        if !names.iter().any(|name| stale(&name)) {
            return;
        }
        if !matches!(self.lock.try_lock(RESIZE_LOCK, Hold::Exclusive), Ok(true)) {
            return;
        }
        // Seen anew: the first look may be from before the last move.
        let names = self::names(&self.dir).unwrap_or_default();
        if !names.iter().any(|name| name.ends_with(NEXT_SUFFIX)) {
            for name in names.iter().filter(stale) {
                self.renew(name);
            }
        }
        let _ = self.lock.unlock(RESIZE_LOCK);
    }

    /// What goes wrong leaves a link that is searched for.
    fn renew(&self, name: &str) {
        let ours = Link::read(&self.dir, name).and_then(|link| self.memory.link(link.id));
        let Some(ours) = ours else { return };
        let _ = unlinkat(&self.dir, RENEWED, AtFlags::empty());
        if symlinkat(ours.to_string(), &self.dir, RENEWED).is_ok() {
            let _ = renameat(&self.dir, RENEWED, &self.dir, name);
        }
    }
}

/// What a directory has.
fn names(dir: &OwnedFd) -> Result<Vec<String>, rustix::io::Errno> {
    let entries = Dir::read_from(dir)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok()).collect())
}

fn key(dir: &OwnedFd) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(dir).ok()?;
    #[expect(clippy::useless_conversion, reason = "the types differ between systems")]
    Some((u64::try_from(stat.st_dev).ok()?, u64::try_from(stat.st_ino).ok()?))
}
