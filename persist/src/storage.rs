//! Operations of a store on a file system, and the machine's file system.
//!
//! All file access goes through [`Storage`], so that tests can inject errors and power failures
//! after any operation.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

/// Operations on a file system.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Makes a directory for this user only. Its parent must exist. Returns `false` if it exists
    /// already.
    fn make_dir(&self, path: &Path) -> io::Result<bool>;
    /// Makes a file for this user only. Fails if the name is taken.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Renames a file within its directory atomically, and replaces a file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists the names in a directory in any order.
    fn names(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Forces the entries of a directory to disk.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a file, creating it if needed, until the guard is dropped or the process ends. Returns
    /// `None` if another lock conflicts.
    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn LockGuard>>>;
    /// Returns the processes whose locks refuse a lock of this kind, where the system reports them.
    /// Messages name these processes.
    fn lock_holders(&self, _path: &Path, _kind: LockKind) -> Vec<u32> {
        Vec::new()
    }
}

/// A file that is written sequentially.
pub trait NewFile: fmt::Debug + Send {
    /// Appends bytes.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Marks the file as complete, so that write-back may begin.
    fn complete(&mut self) {}
    /// Forces the file to disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file open for reading.
pub trait StoredFile: fmt::Debug + Send {
    /// Returns the size of the file in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Fills `buffer` with the bytes from `offset` on, or fails.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Exclusive or shared lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// No other process has the lock.
    Exclusive,
    /// Other processes may share it.
    Shared,
}

/// A held lock, released on drop.
pub trait LockGuard: fmt::Debug + Send {}

/// File system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Storage for Disk {
    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        // A pipe in place of the file must not block.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        // Skips other names than UTF-8, which no file of a store has.
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match File::open(dir)?.sync_all() {
            // Some file systems cannot sync a directory.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Option<Box<dyn LockGuard>>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let operation = match kind {
            LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
            LockKind::Shared => FlockOperation::NonBlockingLockShared,
        };
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Box::new(DiskLock { file, pid: std::process::id() }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lock_holders(&self, path: &Path, kind: LockKind) -> Vec<u32> {
        backcast_core::plumbing::flock_holders(path, kind == LockKind::Exclusive)
    }
}

#[derive(Debug)]
struct DiskFile(File);

impl NewFile for DiskFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    #[cfg(target_os = "linux")]
    fn complete(&mut self) {
        // Starts write-back without waiting, so that the disk works while the next file is filled.
        // It is advice, so a refusal is no error.
        let _ = rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl StoredFile for DiskFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.0, buffer, offset)
    }
}

#[derive(Debug)]
struct DiskLock {
    file: File,
    /// Process that took the lock. A forked child has a copy of the descriptor and must not unlock.
    pid: u32,
}

impl LockGuard for DiskLock {}

impl Drop for DiskLock {
    fn drop(&mut self) {
        // Closing alone would not unlock while a child has the descriptor too.
        if self.pid == std::process::id() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changer_keeps_others_out_and_readers_share() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lck");
        let held = Disk.lock(&path, LockKind::Exclusive).unwrap();
        assert!(held.is_some());
        assert!(Disk.lock(&path, LockKind::Exclusive).unwrap().is_none());
        assert!(Disk.lock(&path, LockKind::Shared).unwrap().is_none());
        drop(held);
        let (one, two) =
            (Disk.lock(&path, LockKind::Shared).unwrap(), Disk.lock(&path, LockKind::Shared));
        assert!(one.is_some() && two.unwrap().is_some());
    }

    #[test]
    fn files_and_directories_are_private_to_the_user() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (inner, file) = (dir.path().join("inner"), dir.path().join("inner/file"));
        assert!(Disk.make_dir(&inner).unwrap());
        assert!(!Disk.make_dir(&inner).unwrap());
        drop(Disk.create(&file).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
        assert_eq!(Disk.create(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(Disk.open(&inner).is_err(), "a directory is no file");
    }
}
