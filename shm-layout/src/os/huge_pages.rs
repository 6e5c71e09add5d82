//! Huge pages for the lanes of a ring. A draw touches a random place in every column, and on small
//! pages each touch costs a page walk besides a cache miss.
//!
//! Most systems give shared memory no huge pages by default. A process may request that the pages
//! of a range become one huge page (`MADV_COLLAPSE`, Linux 6.1). A single page in the range is
//! enough, and the rest is filled with zeros, so the small pages are never allocated.
//! `docs/decisions/0019-huge-pages-at-creation.md` gives the reasons for requesting them at
//! creation, and by default.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use rustix::fs::FallocateFlags;

#[cfg(target_os = "linux")]
use crate::os::mapping::{Access, HUGE_PAGE, Mapping};

/// Returns the deadline of requests for huge pages for `bytes`: about ten times as long as small
/// pages take. Hosts that provide memory when it is touched, and kernels that compact memory first,
/// need that long. On a slower system small pages are used.
pub(crate) fn deadline(bytes: u64) -> Instant {
    const LEAST: Duration = Duration::from_millis(50);
    const NS_PER_BYTE: u64 = 3;
    Instant::now() + LEAST + Duration::from_nanos(bytes.saturating_mul(NS_PER_BYTE))
}

/// Puts as much of a file on huge pages as the system grants now. Bytes that the file lacks there
/// are allocated, and zero. Returns the number of bytes on huge pages. Never fails: the rest goes
/// on small pages, which the caller allocates.
#[cfg(target_os = "linux")]
pub(crate) fn request(file: &File, len: u64, deadline: Instant) -> u64 {
    if len < HUGE_PAGE as u64
        || file.metadata().is_ok_and(|of| of.len() < len) && file.set_len(len).is_err()
    {
        return 0;
    }
    let Some(memory) = usize::try_from(len)
        .ok()
        .and_then(|len| Mapping::aligned(file.as_fd(), len, Access::ReadWrite).ok())
    else {
        return 0;
    };
    let mut bytes = 0;
    for page in (0..=memory.len() - HUGE_PAGE).step_by(HUGE_PAGE) {
        if !collapse(file, &memory, page) {
            break;
        }
        bytes += HUGE_PAGE as u64;
        if Instant::now() > deadline {
            break;
        }
    }
    bytes
}

/// Makes one range a huge page. Returns whether it is one now.
#[cfg(target_os = "linux")]
fn collapse(file: &File, memory: &Mapping, at: usize) -> bool {
    /// From `linux/mman.h`; the C library's headers may be older than the kernel.
    const MADV_COLLAPSE: libc::c_int = 25;
    // The kernel collapses a range only if it has at least one small page.
    let seed = rustix::fs::fallocate(file, FallocateFlags::empty(), at as u64, 1);
    // SAFETY: the range lies in `memory`, to which nothing else refers. The call changes the pages
    // that hold the bytes, and no byte.
    seed.is_ok()
        && unsafe { libc::madvise(memory.base().add(at).cast(), HUGE_PAGE, MADV_COLLAPSE) } == 0
}

/// Returns 0: this system has no such request.
#[cfg(not(target_os = "linux"))]
pub(crate) fn request(_: &File, _: u64, _: Instant) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a file in memory if there is a directory for that.
    fn scratch() -> File {
        let dir = std::path::Path::new("/dev/shm");
        if dir.is_dir() { tempfile::tempfile_in(dir) } else { tempfile::tempfile() }.unwrap()
    }

    #[test]
    fn an_empty_file_is_as_long_as_asked_for_and_zero() {
        use std::io::Read;
        let mut file = scratch();
        let granted = request(&file, 5 << 20, deadline(5 << 20));
        assert!(granted.is_multiple_of(2 << 20) && granted <= 4 << 20, "{granted}");
        let mut found = Vec::new();
        file.read_to_end(&mut found).unwrap();
        assert!(granted == 0 || found.len() == 5 << 20, "{} bytes", found.len());
        assert!(found.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn granted_pages_are_whole_and_no_byte_changes() {
        use std::io::{Read, Seek, Write};
        let mut file = scratch();
        let sent: Vec<u8> = (0..=250).cycle().take(5 << 20).collect();
        file.write_all(&sent).unwrap();
        let granted = request(&file, sent.len() as u64, deadline(sent.len() as u64));
        assert!(granted.is_multiple_of(2 << 20) && granted <= 4 << 20, "{granted}");
        assert_eq!(request(&file, (2 << 20) - 1, deadline(0)), 0, "less than a page");
        let mut found = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut found)).unwrap();
        assert!(found == sent);
    }
}
