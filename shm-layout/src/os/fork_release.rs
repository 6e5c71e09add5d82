//! Releases locks in forked children.
//!
//! A lock belongs to an open file, and a forked child inherits the open files of its parent.
//! Without this module a lane would stay claimed after its writer died, for as long as a child of
//! it lives. A fork handler in the child replaces its copies of these descriptors. Children made by
//! a raw system call run no handler and keep them.

use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::os::byte_lock::LockFile;

/// Value of an unused entry.
const FREE: i32 = -1;

/// Entry of a list that only grows.
#[derive(Debug)]
struct ListedDescriptor {
    descriptor: AtomicI32,
    next: *const ListedDescriptor,
}

/// Newest entry.
static LISTED: AtomicPtr<ListedDescriptor> = AtomicPtr::new(ptr::null_mut());

/// Entry of a lock that forked children release. Must be dropped before the lock itself.
#[derive(Debug)]
pub(crate) struct ReleasedOnFork(&'static AtomicI32);

impl ReleasedOnFork {
    /// Registers the lock for release in every child.
    pub(crate) fn new(lock: &LockFile) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(watch);
        let descriptor = lock.as_fd().as_raw_fd();
        let mut place = LISTED.load(Ordering::Acquire);
        // SAFETY: places are leaked, so the entries of the list live as long as the process.
        while let Some(found) = unsafe { place.as_ref() } {
            // ORDERING: relaxed; the handler runs in a copy of the thread that forked, and what
            // another thread stores meanwhile may be missed by it, as may the descriptor itself.
            let taken = found.descriptor.compare_exchange(
                FREE,
                descriptor,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                return Self(&found.descriptor);
            }
            place = found.next.cast_mut();
        }
        let first = LISTED.load(Ordering::Acquire);
        let place =
            Box::leak(Box::new(ListedDescriptor { descriptor: descriptor.into(), next: first }));
        let added: *mut ListedDescriptor = place;
        let mut first = first;
        // ORDERING: release, so that a load that finds the place finds its contents; pairs with the
        // acquire loads above and in the handler.
        while let Err(other) =
            LISTED.compare_exchange(first, added, Ordering::AcqRel, Ordering::Acquire)
        {
            first = other;
            // SAFETY: only this thread refers to the place until the exchange succeeds.
            unsafe { (*added).next = first };
        }
        // SAFETY: leaked, and from now on only read and changed through its atomic.
        Self(unsafe { &(*added).descriptor })
    }
}

impl Drop for ReleasedOnFork {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Relaxed);
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
    // SAFETY: `open`, `dup3` and `close` are allowed after a fork. The numbers are of descriptors
    // that were open when the process forked. The child has not closed one yet, because this runs
    // before its code. Places are leaked, so the list is complete.
    unsafe {
        let mut place = LISTED.load(Ordering::Acquire);
        if place.is_null() {
            return;
        }
        let other = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        while let Some(found) = place.as_ref() {
            let descriptor = found.descriptor.swap(FREE, Ordering::Relaxed);
            if other >= 0 && descriptor >= 0 {
                libc::dup3(other, descriptor, libc::O_CLOEXEC);
            }
            place = found.next.cast_mut();
        }
        if other >= 0 {
            libc::close(other);
        }
    }
}
