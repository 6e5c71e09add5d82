//! Runs a function at the normal end of the process, on Linux. The function releases the listed
//! locks.
//!
//! Threads that run at the end of a process are not unwound, and what they own is not dropped. A
//! daemon thread of Python is such a thread, and so is a detached one of Rust.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use crate::os::byte_lock;
use crate::os::descriptor_list::{DescriptorList, ListedDescriptor};

static LISTED: DescriptorList = DescriptorList::new();
/// Function that is called at the end of the process.
static AT_EXIT: OnceLock<fn()> = OnceLock::new();

/// Entry of a lock that is released at the end of the process. Must be dropped before the lock.
#[derive(Debug)]
pub(crate) struct ReleasedAtExit(
    #[expect(dead_code, reason = "unlisted when dropped")] ListedDescriptor,
);

impl ReleasedAtExit {
    /// Lists a descriptor. On Linux, `at_exit` is called at the normal end of the process. All
    /// callers pass the same function.
    pub(crate) fn new(lock: BorrowedFd<'_>, at_exit: fn()) -> Self {
        AT_EXIT.get_or_init(|| {
            // SAFETY: the handler lives as long as the process: this is an executable, or a module
            // that Python never unloads.
            #[cfg(all(target_os = "linux", not(miri)))]
            unsafe {
                let _ = libc::atexit(run);
            }
            at_exit
        });
        Self(LISTED.add(lock))
    }
}

/// Returns whether this process listed a file in this directory, whose path has no links. Always
/// `false` where the system does not report it.
pub(crate) fn lists_file_in(directory: &Path) -> bool {
    let mut files = LISTED.own().filter_map(path_of);
    files.any(|file| file.parent() == Some(directory))
}

fn path_of(descriptor: RawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// Releases byte `byte` of every lock that this process listed. Returns the paths of their files.
///
/// Call it only at the end of the process: until then the owners of the locks rely on them.
#[cfg(target_os = "linux")]
pub(crate) fn release(byte: u64) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for descriptor in LISTED.own() {
        let Some(path) = path_of(descriptor) else { continue };
        // SAFETY: a number, which is used for two system calls. Another thread may close it
        // meanwhile. Then the calls fail, or release a byte of another file, which is safe.
        let lock = unsafe { BorrowedFd::borrow_raw(descriptor) };
        if byte_lock::unlock(lock, byte).is_ok() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn release(_byte: u64) -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn run() {
    if let Some(at_exit) = AT_EXIT.get() {
        // A panic must not pass the C library.
        let _ = std::panic::catch_unwind(at_exit);
    }
}
