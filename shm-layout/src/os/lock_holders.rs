//! Finds the processes that hold bytes of a lock file, as Linux shows it in `/proc`.
//!
//! Only for messages. A lane's header says which process claimed it. But a lock belongs to an open
//! file, which a forked child inherits and keeps after its parent has ended.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns whether no process of this pid namespace has the number. Returns `false` for an
/// impossible number. Makes one system call.
#[must_use]
pub fn has_ended(pid: u64) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// Returns, for each byte of `bytes` that is locked exclusively, the processes of this user that
/// hold it. Empty where the system does not report them. Reads every descriptor of every such
/// process.
pub(crate) fn of(lock: BorrowedFd<'_>, bytes: &Range<u64>) -> BTreeMap<u64, Vec<u32>> {
    let mut held = BTreeMap::<u64, Vec<u32>>::new();
    let Some(file) = device_and_inode(lock) else { return held };
    each_lock(bytes, "WRITE", |found, byte, pid| {
        if found == file {
            add(held.entry(byte).or_default(), pid);
        }
    });
    held
}

/// Returns, for each of these lock files, the processes of this user that have locked `byte` in
/// shared mode. Reads the descriptors once for all files.
pub(crate) fn sharing(files: &[Option<BorrowedFd<'_>>], byte: u64) -> Vec<Vec<u32>> {
    let files: Vec<_> = files.iter().map(|file| device_and_inode((*file)?)).collect();
    let mut held = vec![Vec::new(); files.len()];
    if files.iter().any(Option::is_some) {
        each_lock(&(byte..byte + 1), "READ", |found, _, pid| {
            let places = files.iter().zip(&mut held).filter(|(file, _)| **file == Some(found));
            places.for_each(|(_, pids)| add(pids, pid));
        });
    }
    for pids in &mut held {
        pids.sort_unstable();
    }
    held
}

fn add(pids: &mut Vec<u32>, pid: u32) {
    if !pids.contains(&pid) {
        pids.push(pid);
    }
}

/// Returns the processes of this user that hold `flock` locks on a file, exclusive ones or, if
/// `shared`, any. Only for messages.
#[must_use]
pub fn of_file(path: &Path, shared: bool) -> Vec<u32> {
    let Ok(found) = fs::metadata(path) else { return Vec::new() };
    let mut pids = Vec::new();
    each_descriptor(|pid, process, descriptor| {
        let info = process.join("fdinfo").join(descriptor.file_name());
        let shown = fs::read_to_string(info).unwrap_or_default();
        let holds = shown.lines().any(|line| is_flock(line, shared));
        let is_it = |here: fs::Metadata| (here.dev(), here.ino()) == (found.dev(), found.ino());
        if holds && fs::metadata(descriptor.path()).is_ok_and(is_it) {
            add(&mut pids, pid);
        }
    });
    pids
}

/// Returns whether a line shows a `flock` lock, an exclusive one unless `shared`.
fn is_flock(line: &str, shared: bool) -> bool {
    let words = line.strip_prefix("lock:").map(str::split_whitespace);
    let mut words = words.into_iter().flatten().skip(1);
    words.next() == Some("FLOCK") && (words.nth(1) == Some("WRITE") || shared)
}

/// Visits the locks of one mode on these bytes, of all files: device and inode, byte, process.
fn each_lock(bytes: &Range<u64>, mode: &str, mut visit: impl FnMut((u64, u64), u64, u32)) {
    each_descriptor(|pid, process, descriptor| {
        let locked = locked(process, &descriptor.file_name(), bytes, mode);
        if locked.is_empty() {
            return;
        }
        let Ok(found) = fs::metadata(descriptor.path()) else { return };
        for byte in locked {
            visit((found.dev(), found.ino()), byte, pid);
        }
    });
}

/// Visits every descriptor of every process of this user: process, its folder, descriptor.
fn each_descriptor(mut visit: impl FnMut(u32, &Path, &DirEntry)) {
    let uid = rustix::process::geteuid().as_raw();
    for process in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let number = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = number else { continue };
        if process.metadata().is_ok_and(|found| found.uid() != uid) {
            continue;
        }
        let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten();
        for descriptor in descriptors.filter_map(Result::ok) {
            visit(pid, &process.path(), &descriptor);
        }
    }
}

/// Returns the device and the inode of an open file.
fn device_and_inode(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(fd).ok()?;
    #[expect(clippy::useless_conversion, reason = "the types differ between systems")]
    Some((u64::try_from(stat.st_dev).ok()?, u64::try_from(stat.st_ino).ok()?))
}

/// Returns the bytes that a descriptor of a process has locked in this mode.
fn locked(process: &Path, descriptor: &OsStr, bytes: &Range<u64>, mode: &str) -> Vec<u64> {
    let shown = fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let ranges = shown.lines().filter_map(|line| range_of(line, mode));
    ranges.flat_map(|range| within(&range, bytes)).collect()
}

/// Returns the locked bytes of a line such as
/// `lock: 1: OFDLCK ADVISORY WRITE -1 00:1b:77 4096 4096`. Also accepts `POSIX`, a lock that
/// another program took by plain `fcntl`. Returns `None` for any other line, and for another mode.
fn range_of(line: &str, wanted: &str) -> Option<Range<u64>> {
    let mut words = line.strip_prefix("lock:")?.split_whitespace().skip(1);
    let (kind, _, mode) = (words.next()?, words.next()?, words.next()?);
    if !matches!(kind, "OFDLCK" | "POSIX") || mode != wanted {
        return None;
    }
    let mut ends = words.skip(2);
    let (first, last) = (ends.next()?.parse().ok()?, ends.next()?);
    Some(first..last.parse::<u64>().map_or(u64::MAX, |last| last.saturating_add(1)))
}

fn within(range: &Range<u64>, bytes: &Range<u64>) -> Range<u64> {
    range.start.max(bytes.start)..range.end.min(bytes.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::os::byte_lock::{LockFile, LockMode};
    #[cfg(target_os = "linux")]
    use std::os::fd::AsFd;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "lock:\t1: OFDLCK ADVISORY  WRITE -1 00:1b:77 4096 4100";
        assert_eq!(range_of(line, "WRITE"), Some(4096..4101));
        let line = "lock:\t1: OFDLCK ADVISORY  WRITE -1 00:1b:77 5 EOF";
        assert_eq!(range_of(line, "WRITE"), Some(5..u64::MAX));
        assert_eq!(range_of(line, "READ"), None);
        let line = "lock:\t1: POSIX  ADVISORY  WRITE 7 00:1b:77 1 1";
        assert_eq!(range_of(line, "WRITE"), Some(1..2));
        for other in [
            "pos:\t0",
            "lock:\t1: OFDLCK ADVISORY  READ -1 00:1b:77 1 1",
            "lock:\t1: FLOCK  ADVISORY  WRITE 7 00:1b:77 0 EOF",
            "lock:\t1: OFDLCK ADVISORY  WRITE -1 00:1b:77",
            "lock:",
        ] {
            assert_eq!(range_of(other, "WRITE"), None, "{other}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_holder_of_a_whole_file_is_found() {
        use rustix::fs::{FlockOperation, flock};
        let file = tempfile::NamedTempFile::new().unwrap();
        let us = vec![std::process::id()];
        let holds = |shared| of_file(file.path(), shared) == us;
        assert!(!holds(false) && !holds(true));
        flock(file.as_file(), FlockOperation::LockShared).unwrap();
        assert!(!holds(false) && holds(true));
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        assert!(holds(false) && holds(true));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_exclusive_holder_of_a_byte_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || {
            let options = std::fs::File::options().read(true).write(true).to_owned();
            LockFile::new(options.open(file.path()).unwrap().into())
        };
        let (held, shared) = (open(), open());
        assert!(held.try_lock(4_097, LockMode::Exclusive).unwrap());
        assert!(shared.try_lock(4_099, LockMode::Shared).unwrap());
        let found = of(shared.as_fd(), &(4_096..8_192));
        assert_eq!(found, BTreeMap::from([(4_097, vec![std::process::id()])]));
        drop(held);
        assert_eq!(of(shared.as_fd(), &(4_096..8_192)), BTreeMap::new());
        let none = tempfile::tempfile().unwrap();
        let files = [Some(none.as_fd()), Some(shared.as_fd()), None];
        assert_eq!(sharing(&files, 4_099), [vec![], vec![std::process::id()], vec![]]);
        assert_eq!(sharing(&files, 4_097), [const { Vec::new() }; 3]);
    }
}
