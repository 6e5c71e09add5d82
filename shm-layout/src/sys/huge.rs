//! Huge pages for the lanes of a ring: a draw touches a place at random in every column, and small
//! pages make each of them a page walk besides a cache miss.
//!
//! Shared memory gets no huge pages by itself under most settings of a system, but a process may ask
//! that pages which are there become huge (`MADV_COLLAPSE`, Linux 6.1). Why at creation, and why by
//! default: `docs/decisions/0019-huge-pages-at-creation.md`.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use super::map::{Access, HUGE_PAGE, Mapping};

/// Turns as much of a file, which is paid for, into huge pages as the system grants at once. How
/// many bytes. Never fails: where there are none, small ones do.
#[cfg(target_os = "linux")]
pub(crate) fn ask(file: &File, len: u64) -> u64 {
    use std::time::{Duration, Instant};

    /// From `linux/mman.h`; the C library's headers may be older than the kernel.
    const MADV_COLLAPSE: libc::c_int = 25;
    /// A system that takes longer for one page is looking for memory: small pages will do.
    const PATIENCE: Duration = Duration::from_millis(20);

    let Ok(len) = usize::try_from(len) else { return 0 };
    if len < HUGE_PAGE {
        return 0;
    }
    let Ok(memory) = Mapping::aligned(file.as_fd(), len, Access::ReadWrite) else { return 0 };
    let mut bytes = 0;
    for page in (0..=len - HUGE_PAGE).step_by(HUGE_PAGE) {
        let began = Instant::now();
        // SAFETY: the range lies in `memory`, which nobody else refers to. The call changes what
        // pages the bytes are on, and no byte.
        let refused =
            unsafe { libc::madvise(memory.base().add(page).cast(), HUGE_PAGE, MADV_COLLAPSE) };
        if refused != 0 {
            break;
        }
        bytes += HUGE_PAGE as u64;
        if began.elapsed() > PATIENCE {
            break;
        }
    }
    bytes
}

/// There are no huge pages to be had.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ask(_: &File, _: u64) -> u64 {
    0
}
