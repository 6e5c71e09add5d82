//! Allocates space at creation, so that a full file system or memory limit is an error then, and
//! never a SIGBUS later.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::error::SegmentError;

/// Grows a file of zeros to `len` bytes and allocates all of them.
pub(crate) fn allocate(file: &mut fs::File, path: &Path, len: u64) -> Result<(), SegmentError> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file.as_fd(), rustix::fs::FallocateFlags::empty(), 0, len) {
        Ok(()) => return Ok(()),
        // The file system cannot allocate: write the zeros instead.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        Err(error) => return Err(refused(error.into(), file, path, len)),
    }
    let zeros = [0; 16 * 1024];
    let mut left = len;
    file.seek(SeekFrom::Start(0)).map_err(SegmentError::io("fill", path))?;
    while left > 0 {
        let n = left.min(zeros.len() as u64);
        let chunk = zeros.get(..usize::try_from(n).unwrap_or(zeros.len())).unwrap_or(&zeros);
        file.write_all(chunk).map_err(|e| refused(e, file, path, len))?;
        left -= chunk.len() as u64;
    }
    Ok(())
}

/// Refuses, before anything is allocated, a request for more bytes than the file system or the
/// memory cgroup has left. The kernel kills processes of an over-committed memory cgroup instead of
/// returning an error.
pub(crate) fn check_room(dir: &Path, asked: u64) -> Result<(), SegmentError> {
    let available = file_system_free(dir).map_err(SegmentError::io("look at", dir))?;
    if available < asked {
        let (path, limit) = (dir.to_owned(), "free space of the file system");
        return Err(SegmentError::NoSpace { path, asked, available, limit });
    }
    check_cgroup(dir, asked)
}

/// Refuses more memory than the machine or a control group has left. No file system limits such
/// memory, and using it would make the kernel end some process.
pub(crate) fn check_memory(dir: &Path, asked: u64) -> Result<(), SegmentError> {
    if let Some(available) = memory_available().filter(|available| *available < asked) {
        let (path, limit) = (dir.to_owned(), "memory of the machine");
        return Err(SegmentError::NoSpace { path, asked, available, limit });
    }
    check_cgroup(dir, asked)
}

/// Allocates private memory of `asked` bytes. Fails if the machine or a control group has less
/// left, which is checked for requests of a huge page or more.
pub(crate) fn private_memory<T>(
    asked: u64,
    allocate: impl FnOnce() -> io::Result<T>,
) -> Result<T, SegmentError> {
    let place = Path::new("private memory");
    // Small requests are not worth the check.
    if asked >= crate::os::mapping::HUGE_PAGE as u64 {
        check_memory(place, asked)?;
    }
    allocate().map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => {
            let available = memory_available().unwrap_or(0);
            let (path, limit) = (place.to_owned(), "memory that the system grants");
            SegmentError::NoSpace { path, asked, available, limit }
        }
        _ => SegmentError::io("allocate", place)(error),
    })
}

fn check_cgroup(dir: &Path, asked: u64) -> Result<(), SegmentError> {
    match cgroup_room() {
        Some(available) if available < asked => {
            let (path, limit) = (dir.to_owned(), "memory limit of the control group");
            Err(SegmentError::NoSpace { path, asked, available, limit })
        }
        _ => Ok(()),
    }
}

/// Returns the bytes that processes can still allocate without swapping, where the kernel reports
/// them.
fn memory_available() -> Option<u64> {
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the bytes that this process can still map within its limit of address space (`ulimit
/// -v`). `None` without a limit, or where the kernel does not report the size.
fn address_space_left() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split_ascii_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(pages.saturating_mul(rustix::param::page_size() as u64)))
}

/// Returns the bytes that this process can still allocate before the machine, a control group
/// above the process, or its own address space is full. `None` where the kernel reports none of
/// them.
#[must_use]
pub fn memory_left() -> Option<u64> {
    [memory_available(), cgroup_room(), address_space_left()].into_iter().flatten().min()
}

/// Upper bounds for all objects of a directory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLimits {
    /// Size of the file system.
    pub file_system_bytes: u64,
    /// Tightest memory limit of a control group above this process, if there is one.
    pub cgroup_bytes: Option<u64>,
}

impl SpaceLimits {
    /// Returns the limits of a directory that exists.
    pub fn of(dir: &Path) -> Result<Self, SegmentError> {
        let stat = rustix::fs::statvfs(dir)
            .map_err(|error| SegmentError::io("look at", dir)(error.into()))?;
        let file_system_bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
        let of_group = |group: &Path| read_number(&group.join("memory.max"));
        let cgroup_bytes = cgroups().iter().filter_map(|group| of_group(group)).min();
        Ok(Self { file_system_bytes, cgroup_bytes })
    }

    /// Returns the smaller limit.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.cgroup_bytes.map_or(self.file_system_bytes, |group| group.min(self.file_system_bytes))
    }
}

fn file_system_free(dir: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns the bytes left below the tightest `memory.max` above this process, if there is one.
fn cgroup_room() -> Option<u64> {
    let room = |group: &Path| {
        let used = read_number(&group.join("memory.current"))?.saturating_sub(reclaimable(group));
        Some(read_number(&group.join("memory.max"))?.saturating_sub(used))
    };
    cgroups().iter().filter_map(|group| room(group)).min()
}

/// Returns the control groups of this process, from its own up to the root.
fn cgroups() -> Vec<PathBuf> {
    let mine = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(relative) = mine.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(relative);
    own.ancestors().take_while(|dir| dir.starts_with(root)).map(Path::to_owned).collect()
}

/// Reads a file that holds one number. `None` for `max` too.
fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the bytes of file cache, which the kernel reclaims before it kills.
fn reclaimable(cgroup: &Path) -> u64 {
    let stat = fs::read_to_string(cgroup.join("memory.stat")).unwrap_or_default();
    let value = |line: &str| line.split_once(' ').and_then(|(_, v)| v.parse::<u64>().ok());
    stat.lines()
        .filter(|l| l.starts_with("inactive_file ") || l.starts_with("active_file "))
        .filter_map(value)
        .sum()
}

fn refused(error: io::Error, file: &fs::File, path: &Path, asked: u64) -> SegmentError {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    if !matches!(error.kind(), StorageFull | OutOfMemory | QuotaExceeded) {
        return SegmentError::io("allocate", path)(error);
    }
    let available = rustix::fs::fstatvfs(file.as_fd())
        .map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    SegmentError::NoSpace {
        path: path.to_owned(),
        asked,
        available,
        limit: "free space of the file system",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_file_system_has_is_refused_before_anything_is_made() {
        let error = check_room(&std::env::temp_dir(), u64::MAX).unwrap_err();
        assert!(matches!(error, SegmentError::NoSpace { asked: u64::MAX, .. }), "{error}");
    }

    #[test]
    fn more_than_the_machine_has_is_refused_where_no_file_system_limits_it() {
        let dir = std::env::temp_dir();
        if memory_available().is_some() {
            let error = check_memory(&dir, u64::MAX).unwrap_err();
            let SegmentError::NoSpace { asked: u64::MAX, limit, .. } = error else {
                panic!("{error}")
            };
            assert!(limit.contains("memory"), "{limit}");
        }
        check_memory(&dir, 1).unwrap();
    }

    #[test]
    fn a_directory_has_a_limit_and_a_missing_one_is_an_error() {
        let limits = SpaceLimits::of(&std::env::temp_dir()).unwrap();
        assert!(limits.file_system_bytes > 0 && limits.bytes() <= limits.file_system_bytes);
        let tight = SpaceLimits { file_system_bytes: 100, cgroup_bytes: Some(7) };
        assert_eq!((tight.bytes(), SpaceLimits { cgroup_bytes: None, ..tight }.bytes()), (7, 100));
        assert!(SpaceLimits::of(Path::new("/no/such/directory")).is_err());
    }

    #[test]
    fn paid_space_is_allocated_and_zero() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("paid");
        let mut file = fs::File::create_new(&path).unwrap();
        allocate(&mut file, &path, 100_000).unwrap();
        let stat = file.metadata().unwrap();
        assert_eq!(stat.len(), 100_000);
        assert!(stat.blocks() * 512 >= 100_000, "{} blocks", stat.blocks());
        assert!(fs::read(&path).unwrap().iter().all(|b| *b == 0));
    }
}
