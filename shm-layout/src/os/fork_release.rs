//! Releases locks in forked children.
//!
//! A lock belongs to an open file, and a forked child inherits the open files of its parent.
//! Without this module a lane would stay claimed after its writer died, for as long as a child of
//! it lives. A fork handler in the child replaces its copies of these descriptors. Children made by
//! a raw system call run no handler and keep them.

use std::sync::Once;

use crate::os::byte_lock::LockFile;
use crate::os::descriptor_list::{DescriptorList, ListedDescriptor};

static LISTED: DescriptorList = DescriptorList::new();

/// Entry of a lock that forked children release. Must be dropped before the lock itself.
#[derive(Debug)]
pub(crate) struct ReleasedOnFork(
    #[expect(dead_code, reason = "unlisted when dropped")] ListedDescriptor,
);

impl ReleasedOnFork {
    /// Registers the lock for release in every child.
    pub(crate) fn new(lock: &LockFile) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(watch);
        Self(LISTED.add(lock.as_fd()))
    }
}

/// Registers the fork handler.
fn watch() {
    // SAFETY: the handler lives as long as the process, and does only what a child of a process
    // with threads may do.
    #[cfg(all(target_os = "linux", not(miri)))]
    unsafe {
        let _ = libc::pthread_atfork(None, None, Some(in_child));
    }
}

/// Replaces the file behind each descriptor by `/dev/null`. The numbers stay open, since their
/// owners will close them.
#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn in_child() {
    let mut other = None;
    LISTED.take(|descriptor| {
        // SAFETY: `open` and `dup3` are allowed after a fork. The number is of a descriptor that
        // was open when the process forked. The child has not closed one yet, because this runs
        // before its code.
        unsafe {
            let open = || libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            let other = *other.get_or_insert_with(open);
            if other >= 0 {
                libc::dup3(other, descriptor, libc::O_CLOEXEC);
            }
        }
    });
    if let Some(other) = other.filter(|other| *other >= 0) {
        // SAFETY: opened above, and used for nothing else.
        unsafe { libc::close(other) };
    }
}
