//! Huge pages for the lanes of a ring: a draw touches a place at random in every column, and small
//! pages make each of them a page walk besides a cache miss.
//!
//! Shared memory gets no huge pages by itself under most settings of a system, but a process may ask
//! that pages which are there become huge (`MADV_COLLAPSE`, Linux 6.1). Why at creation, and why by
//! default: `docs/decisions/0019-huge-pages-at-creation.md`.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use super::map::{Access, HUGE_PAGE, Mapping};

/// Until when a system may be asked for so many bytes. One that takes longer is looking for memory: small
/// pages will do.
pub(crate) fn deadline(bytes: u64) -> Instant {
    const LEAST: Duration = Duration::from_millis(200);
    const NS_PER_BYTE: u64 = 2;
    Instant::now() + LEAST + Duration::from_nanos(bytes.saturating_mul(NS_PER_BYTE))
}

/// Turns as much of a file, which is paid for, into huge pages as the system grants at once. How
/// many bytes. Never fails: where there are none, small ones do.
#[cfg(target_os = "linux")]
pub(crate) fn ask(file: &File, len: u64, deadline: Instant) -> u64 {
    /// From `linux/mman.h`; the C library's headers may be older than the kernel.
    const MADV_COLLAPSE: libc::c_int = 25;

    let Ok(len) = usize::try_from(len) else { return 0 };
    if len < HUGE_PAGE {
        return 0;
    }
    let Ok(memory) = Mapping::aligned(file.as_fd(), len, Access::ReadWrite) else { return 0 };
    let mut bytes = 0;
    for page in (0..=len - HUGE_PAGE).step_by(HUGE_PAGE) {
        // SAFETY: the range lies in `memory`, which nobody else refers to. The call changes what
        // pages the bytes are on, and no byte.
        let refused =
            unsafe { libc::madvise(memory.base().add(page).cast(), HUGE_PAGE, MADV_COLLAPSE) };
        if refused != 0 {
            break;
        }
        bytes += HUGE_PAGE as u64;
        if Instant::now() > deadline {
            break;
        }
    }
    bytes
}

/// There are no huge pages to be had.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ask(_: &File, _: u64, _: Instant) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_whole_pages_and_changes_no_byte() {
        use std::io::{Read, Seek, Write};
        let dir = std::path::Path::new("/dev/shm");
        let mut file = if dir.is_dir() { tempfile::tempfile_in(dir) } else { tempfile::tempfile() }
            .expect("a temporary file");
        let sent: Vec<u8> = (0..=250).cycle().take(5 << 20).collect();
        file.write_all(&sent).unwrap();
        let granted = ask(&file, sent.len() as u64, deadline(sent.len() as u64));
        assert!(granted.is_multiple_of(2 << 20) && granted <= 4 << 20, "{granted}");
        assert_eq!(ask(&file, (2 << 20) - 1, deadline(0)), 0, "less than a page");
        let mut found = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut found)).unwrap();
        assert!(found == sent);
    }
}
