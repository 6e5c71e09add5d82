//! One daemon per base directory: a lock that the kernel drops with its holder, and a text about
//! the holder.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::error::SegmentError;
use crate::layout::names::Base;
use crate::os::byte_lock::{LockFile, LockMode};
use crate::os::files;
use crate::store::object::{CheckedDir, is_at, is_missing, prepare_base};

/// Name of the lock's file in the base directory.
pub(crate) const DAEMON_LOCK: &str = "daemon.lck";
/// Name of the daemon's socket in the base directory, unless its options name another path.
pub const DAEMON_SOCKET: &str = "daemon.sock";

/// The byte that the daemon locks.
const DAEMON_BYTE: u64 = 0;
/// Maximum bytes that are read of the text about the holder.
const MAX_SAID_BYTES: usize = 8192;
/// Attempts to take the lock, and the pause between them: a process that collects the files of a
/// dead daemon holds it for a moment.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Right to be the daemon of a base directory. Dropping it releases the lock and removes the file.
/// A killed holder leaves the file, without the lock.
#[derive(Debug)]
pub struct BaseLock {
    lock: LockFile,
    path: PathBuf,
    base: Base,
}

/// Result of an attempt to take the lock.
#[derive(Debug)]
pub enum LockAttempt {
    /// The caller holds the lock now.
    Acquired(BaseLock),
    /// Another handle holds the lock. The text is the one that the last holder stored. It may be
    /// empty or untrue.
    Held(String),
}

impl BaseLock {
    /// Takes the lock. Gives up if another handle holds it for about 0.1 s. Creates the base
    /// directory if it is missing.
    pub fn claim(base: &Base) -> Result<LockAttempt, SegmentError> {
        let path = base.path().join(DAEMON_LOCK);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            prepare_base(base)?;
            let dir = match files::open_dir(base.path()) {
                // The last user of the base directory removed it in between.
                Err(error) if is_missing(&error) => continue,
                dir => dir?,
            };
            let flags = OFlags::RDWR
                | OFlags::CREATE
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::CLOEXEC;
            let fd = match rustix::fs::openat(&dir, DAEMON_LOCK, flags, Mode::from_raw_mode(0o600))
            {
                Err(rustix::io::Errno::NOENT) => continue,
                fd => fd.map_err(|e| SegmentError::io("create", &path)(e.into()))?,
            };
            files::check_file(&fd, &path)?;
            let lock = LockFile::new(fd);
            let ours = lock.try_lock(DAEMON_BYTE, LockMode::Exclusive);
            // A holder that ended, or a collector, removed the file while it held the lock.
            if ours.map_err(SegmentError::io("lock", &path))? && is_at(lock.as_fd(), &path) {
                return Ok(LockAttempt::Acquired(Self { lock, path, base: base.clone() }));
            }
        }
        Ok(LockAttempt::Held(Self::said(base).unwrap_or_default()))
    }

    /// Returns whether the lock is held. Returns `false` if that cannot be determined.
    #[must_use]
    pub fn is_held(base: &Base) -> bool {
        let open = || {
            let dir = files::open_dir(base.path()).ok()?;
            let access = crate::os::mapping::Access::ReadWrite;
            let fd = files::open(&dir, DAEMON_LOCK, base.path(), access, None).ok()?;
            LockFile::new(fd).held_elsewhere(DAEMON_BYTE).ok()
        };
        open().unwrap_or(false)
    }

    /// Returns the text that the last holder stored, which need not be true.
    #[must_use]
    pub fn said(base: &Base) -> Option<String> {
        let dir = files::open_dir(base.path()).ok()?;
        let access = crate::os::mapping::Access::ReadOnly;
        let fd = files::open(&dir, DAEMON_LOCK, base.path(), access, None).ok()?;
        let mut bytes = vec![0; MAX_SAID_BYTES];
        let read = rustix::io::pread(&fd, bytes.as_mut_slice(), 0).ok()?;
        bytes.truncate(read);
        String::from_utf8(bytes).ok()
    }

    /// Stores a text about this process, for processes that find the lock held.
    pub fn say(&self, text: &str) -> Result<(), SegmentError> {
        let write = || -> io::Result<()> {
            rustix::fs::ftruncate(self.lock.as_fd(), 0)?;
            let mut rest = text.as_bytes();
            let mut at = 0;
            while !rest.is_empty() {
                let written = rustix::io::pwrite(self.lock.as_fd(), rest, at)?;
                at += written as u64;
                rest = rest.get(written..).unwrap_or_default();
            }
            Ok(())
        };
        write().map_err(SegmentError::io("write", &self.path))
    }
}

impl Drop for BaseLock {
    fn drop(&mut self) {
        if self.lock.is_ours() {
            // Remove the file before the lock is released: a process that opened the file in
            // between then sees that it has no name.
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_dir(self.base.path());
        }
    }
}

/// Removes the files of a killed daemon.
pub(crate) fn clear_stale(base: &Base) -> Result<(), SegmentError> {
    let path = base.path().join(DAEMON_LOCK);
    let Ok(place) = CheckedDir::open(base.path()) else { return Ok(()) };
    let access = crate::os::mapping::Access::ReadWrite;
    let Ok(fd) = files::open(&place, DAEMON_LOCK, base.path(), access, None) else { return Ok(()) };
    let lock = LockFile::new(fd);
    let dead = lock.try_lock(DAEMON_BYTE, LockMode::Exclusive);
    if dead.map_err(SegmentError::io("lock", &path))? && is_at(lock.as_fd(), &path) {
        let _ = place.remove_file(DAEMON_SOCKET);
        let _ = place.remove_file(DAEMON_LOCK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(base: &Base) -> BaseLock {
        match BaseLock::claim(base).unwrap() {
            LockAttempt::Acquired(lock) => lock,
            LockAttempt::Held(said) => panic!("held by {said}"),
        }
    }

    #[test]
    fn one_holder_at_a_time_and_the_second_gets_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        assert!(!BaseLock::is_held(&base));
        let first = ours(&base);
        first.say("pid 7").unwrap();
        assert!(BaseLock::is_held(&base));
        assert!(matches!(BaseLock::claim(&base), Ok(LockAttempt::Held(said)) if said == "pid 7"));
        drop(first);
        assert!(!base.path().exists(), "nothing is left of an empty base directory");
        ours(&base);
    }

    #[test]
    fn a_collector_takes_a_dead_holders_files_and_leaves_a_live_ones() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        let lock = ours(&base);
        let socket = base.path().join(DAEMON_SOCKET);
        fs::write(&socket, "").unwrap();
        crate::store::object::collect_garbage(&base).unwrap();
        assert!(socket.exists() && lock.path.exists());
        // A killed holder: the file stays, the lock does not.
        let (path, copy) = (lock.path.clone(), dir.path().join("copy"));
        fs::copy(&path, &copy).unwrap();
        drop(lock);
        prepare_base(&base).unwrap();
        fs::rename(&copy, &path).unwrap();
        fs::write(&socket, "").unwrap();
        crate::store::object::collect_garbage(&base).unwrap();
        assert!(!base.path().exists());
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let base = Base::at(dir.path());
        prepare_base(&base).unwrap();
        std::os::unix::fs::symlink("/dev/null", base.path().join(DAEMON_LOCK)).unwrap();
        assert!(BaseLock::claim(&base).is_err());
        assert!(!BaseLock::is_held(&base) && BaseLock::said(&base).is_none());
    }
}
