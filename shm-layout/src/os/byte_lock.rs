//! Byte-range locks that the kernel releases when their holder dies.
//!
//! Linux: open-file-description locks on one file, a byte per resource. They belong to this handle
//! alone: a second `open` and `close` in the same process does not drop them, as it does with plain
//! `fcntl` locks. They work across pid namespaces and can be probed without being taken. Elsewhere:
//! one `flock` file per byte, beside the lock file.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::os::exit_release::ReleasedAtExit;
use crate::os::fork_release::ReleasedOnFork;

/// Mode of a byte lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Shared with other shared holders.
    Shared,
    /// Exclusive: no other handle holds the byte.
    Exclusive,
}

/// One open file description on a lock file; dropping it releases everything it locked.
#[derive(Debug)]
pub(crate) struct LockFile {
    /// Entry of a lock that is released at the end of the process. It is dropped before the
    /// descriptor.
    listed: Option<ReleasedAtExit>,
    fd: OwnedFd,
    /// Process that opened it. A forked child has a copy, which must not release locks.
    pid: u32,
    #[cfg(not(target_os = "linux"))]
    files: portable::Files,
}

#[cfg(target_os = "linux")]
impl LockFile {
    /// Wraps a descriptor opened for reading and writing and used for nothing else.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { listed: None, fd, pid: std::process::id() }
    }

    /// Locks a byte. Returns `false` if another handle holds it in a conflicting mode.
    pub(crate) fn try_lock(&self, byte: u64, mode: LockMode) -> io::Result<bool> {
        let kind = match mode {
            LockMode::Shared => libc::F_RDLCK,
            LockMode::Exclusive => libc::F_WRLCK,
        };
        match self.control(libc::F_OFD_SETLK, kind, byte) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Releases a byte of this handle.
    pub(crate) fn unlock(&self, byte: u64) -> io::Result<()> {
        unlock(self.fd.as_fd(), byte)
    }

    /// Returns whether another handle, in any process, holds the byte. Does not lock it.
    pub(crate) fn held_elsewhere(&self, byte: u64) -> io::Result<bool> {
        let found = self.control(libc::F_OFD_GETLK, libc::F_WRLCK, byte)?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    /// Returns whether another handle, in any process, holds one of the bytes exclusively. Does not
    /// lock them.
    pub(crate) fn any_held_exclusively(&self, bytes: &Range<u64>) -> io::Result<bool> {
        let Some(len) = bytes.end.checked_sub(bytes.start).filter(|len| *len > 0) else {
            return Ok(false);
        };
        let len = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (command, kind) = (libc::F_OFD_GETLK, libc::F_RDLCK);
        let found = control_range(self.fd.as_fd(), command, kind, bytes.start, len)?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    /// Returns whether another handle holds the byte exclusively. Does not lock it.
    pub(crate) fn held_exclusively(&self, byte: u64) -> io::Result<bool> {
        let found = self.control(libc::F_OFD_GETLK, libc::F_RDLCK, byte)?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    fn control(&self, command: i32, kind: i32, byte: u64) -> io::Result<libc::flock> {
        control_range(self.fd.as_fd(), command, kind, byte, 1)
    }
}

/// Releases a byte that the open file has locked.
#[cfg(target_os = "linux")]
pub(crate) fn unlock(file: BorrowedFd<'_>, byte: u64) -> io::Result<()> {
    control_range(file, libc::F_OFD_SETLK, libc::F_UNLCK, byte, 1).map(drop)
}

/// Runs a lock command on a range of bytes. A `len` of 0 means all bytes from `byte` on.
#[cfg(target_os = "linux")]
fn control_range(
    file: BorrowedFd<'_>,
    command: i32,
    kind: i32,
    byte: u64,
    len: i64,
) -> io::Result<libc::flock> {
    use std::os::fd::AsRawFd;
    // SAFETY: `flock` is plain integers, for which zero is a value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = i16::try_from(kind).unwrap_or_default();
    request.l_whence = i16::try_from(libc::SEEK_SET).unwrap_or_default();
    request.l_start = i64::try_from(byte).map_err(|_| io::ErrorKind::InvalidInput)?;
    request.l_len = len;
    loop {
        // SAFETY: the descriptor is open for as long as `file` lives, and `request` is a valid
        // `flock` that the kernel may write back to.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut request) };
        if answer == 0 {
            return Ok(request);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for LockFile {
    fn drop(&mut self) {
        // Closing alone releases late: a child between fork and exec has the descriptor open too.
        if self.is_ours() {
            let _ = control_range(self.fd.as_fd(), libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl LockFile {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { listed: None, fd, pid: std::process::id(), files: portable::Files::default() }
    }

    pub(crate) fn try_lock(&self, byte: u64, mode: LockMode) -> io::Result<bool> {
        self.files.try_lock(&self.fd, byte, mode)
    }

    #[expect(clippy::unnecessary_wraps, reason = "fails where the kernel is asked")]
    pub(crate) fn unlock(&self, byte: u64) -> io::Result<()> {
        self.files.unlock(byte);
        Ok(())
    }

    pub(crate) fn held_elsewhere(&self, byte: u64) -> io::Result<bool> {
        self.files.held_elsewhere(&self.fd, byte, LockMode::Shared)
    }

    pub(crate) fn any_held_exclusively(&self, bytes: &Range<u64>) -> io::Result<bool> {
        for byte in bytes.clone() {
            if self.held_exclusively(byte)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn held_exclusively(&self, byte: u64) -> io::Result<bool> {
        self.files.held_elsewhere(&self.fd, byte, LockMode::Exclusive)
    }
}

impl LockFile {
    /// Lists this lock, so that `at_exit` can release it at the end of the process: see
    /// [`ReleasedAtExit`].
    pub(crate) fn release_at_exit(mut self, at_exit: fn()) -> Self {
        self.listed = Some(ReleasedAtExit::new(self.fd.as_fd(), at_exit));
        self
    }

    /// Returns whether this process opened the file, and did not inherit it from its parent.
    pub(crate) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Opens another handle of the same file, even if the file has lost its name. Needs `/proc`.
    #[cfg(target_os = "linux")]
    pub(crate) fn opened_again(&self) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        // Each `open` of this link makes an open file description of its own, which `dup` does not.
        let link = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        Ok(Self::new(rustix::fs::open(link, flags, rustix::fs::Mode::empty())?))
    }

    /// Fails: on this system the files of locks are found by their names.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as where it works")]
    pub(crate) fn opened_again(&self) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the descriptor, for other uses than locks.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the number of names of the file: 0 after it was removed.
    pub(crate) fn links(&self) -> io::Result<u64> {
        #[allow(clippy::useless_conversion, reason = "the width of st_nlink differs by platform")]
        Ok(u64::from(rustix::fs::fstat(&self.fd)?.st_nlink))
    }
}

/// A locked byte, such as the right to a lane or a reader slot. The kernel releases it when the
/// process dies.
#[derive(Debug)]
pub(crate) enum Claim {
    /// Dropping the handle releases the byte.
    File(#[expect(dead_code, reason = "holds the lock")] LockFile),
    /// Dropping the handle releases the byte. Forked children do not keep it.
    OwnFile(
        #[expect(dead_code, reason = "goes before the lock")] ReleasedOnFork,
        #[expect(dead_code, reason = "holds the lock")] LockFile,
    ),
    /// A byte of a ring in private memory.
    Heap(HeapLocks, u64),
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Claim::Heap(locks, byte) = self {
            locks.taken().remove(byte);
        }
    }
}

/// The locks of a ring in private memory, whose holders cannot die without the ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeapLocks(Arc<Mutex<BTreeSet<u64>>>);

impl HeapLocks {
    /// Claims a byte. Returns `None` if it is held.
    pub(crate) fn claim(&self, byte: u64) -> Option<Claim> {
        self.taken().insert(byte).then(|| Claim::Heap(self.clone(), byte))
    }

    /// Returns whether the byte is held.
    pub(crate) fn held(&self, byte: u64) -> bool {
        self.taken().contains(&byte)
    }

    /// Returns whether one of the bytes is held.
    pub(crate) fn any_held(&self, bytes: &Range<u64>) -> bool {
        self.taken().range(bytes.clone()).next().is_some()
    }

    /// Claims the first free byte from `from` on.
    pub(crate) fn claim_next(&self, from: u64) -> Option<Claim> {
        (from..u64::MAX).find_map(|byte| self.claim(byte))
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The `flock` fallback. Written for macOS, but not tested there.
#[cfg(not(target_os = "linux"))]
mod portable {
    use std::collections::HashMap;
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use rustix::fs::{FlockOperation, flock, getpath};

    use super::LockMode;
    use crate::os::lock_probe::LockProbe;

    #[derive(Debug, Default)]
    pub(super) struct Files {
        held: Mutex<HashMap<u64, (File, LockMode)>>,
    }

    impl Files {
        pub(super) fn try_lock(
            &self,
            lock: &OwnedFd,
            byte: u64,
            mode: LockMode,
        ) -> io::Result<bool> {
            let mut files = self.files();
            if let Some((file, held)) = files.get_mut(&byte) {
                let taken = attempt(file, mode)?;
                if taken {
                    *held = mode;
                }
                return Ok(taken);
            }
            let file = open(lock, byte)?;
            let taken = attempt(&file, mode)?;
            if taken {
                files.insert(byte, (file, mode));
            }
            Ok(taken)
        }

        pub(super) fn unlock(&self, byte: u64) {
            self.files().remove(&byte);
        }

        /// Returns whether another handle holds the byte, in any mode or, if `conflicts` is
        /// `Exclusive`, exclusively. `flock` cannot be queried, so this may take the lock for a
        /// moment.
        pub(super) fn held_elsewhere(
            &self,
            lock: &OwnedFd,
            byte: u64,
            conflicts: LockMode,
        ) -> io::Result<bool> {
            let files = self.files();
            let own = files.get(&byte);
            match (LockProbe::of(own.map(|(_, mode)| *mode), conflicts), own) {
                (LockProbe::Lock(mode), _) => Ok(!attempt(&open(lock, byte)?, mode)?),
                (LockProbe::Raise, Some((file, mode))) => {
                    let alone = attempt(file, LockMode::Exclusive)?;
                    attempt(file, *mode)?;
                    Ok(!alone)
                }
                (LockProbe::Free | LockProbe::Raise, _) => Ok(false),
            }
        }

        fn files(&self) -> MutexGuard<'_, HashMap<u64, (File, LockMode)>> {
            self.held.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    fn open(lock: &OwnedFd, byte: u64) -> io::Result<File> {
        use std::os::unix::ffi::OsStringExt;
        let mut path = getpath(lock)?.into_bytes();
        path.extend_from_slice(format!(".{byte}").as_bytes());
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
    }

    fn attempt(file: &File, mode: LockMode) -> io::Result<bool> {
        let operation = match mode {
            LockMode::Shared => FlockOperation::NonBlockingLockShared,
            LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(file, operation) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles() -> (tempfile::TempDir, LockFile, LockFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lck");
        let open = || {
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap();
            LockFile::new(file.into())
        };
        let (a, b) = (open(), open());
        (dir, a, b)
    }

    #[test]
    fn two_handles_of_one_process_exclude_each_other() {
        let (_dir, a, b) = handles();
        assert!(a.try_lock(5, LockMode::Exclusive).unwrap());
        assert!(!b.try_lock(5, LockMode::Exclusive).unwrap());
        assert!(b.try_lock(6, LockMode::Exclusive).unwrap(), "bytes are independent");
        assert!(b.held_elsewhere(5).unwrap());
        assert!(!a.held_elsewhere(5).unwrap(), "a handle does not see itself");
        drop(a);
        assert!(b.try_lock(5, LockMode::Exclusive).unwrap(), "dropping releases");
    }

    #[test]
    fn shared_holders_keep_an_exclusive_one_out_until_they_leave() {
        let (_dir, a, b) = handles();
        assert!(a.try_lock(1, LockMode::Shared).unwrap());
        assert!(b.try_lock(1, LockMode::Shared).unwrap());
        assert!(!a.try_lock(1, LockMode::Exclusive).unwrap());
        b.unlock(1).unwrap();
        assert!(a.try_lock(1, LockMode::Exclusive).unwrap(), "a lone shared lock can be raised");
    }
}
