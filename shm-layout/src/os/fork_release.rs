//! Descriptors whose locks a forked child must not keep.
//!
//! A lock belongs to an open file, and a child of a fork has its parent's files open too: a lane would
//! stay taken after its writer has died, for as long as some child of it lives. So a handler in the
//! child gives its copies of these descriptors away. Children that a raw system call made run no
//! handler and keep them.

use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::os::byte_lock::LockFile;

/// No descriptor.
const FREE: i32 = -1;

/// A place for a descriptor, in a list that only grows.
#[derive(Debug)]
struct Place {
    descriptor: AtomicI32,
    next: *const Place,
}

/// The newest place.
static PLACES: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

/// A lock that children of a fork let go of. To be dropped before the lock.
#[derive(Debug)]
pub(crate) struct NotInherited(&'static AtomicI32);

impl NotInherited {
    /// Has every child let go of this lock.
    pub(crate) fn new(lock: &LockFile) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(watch);
        let descriptor = lock.as_fd().as_raw_fd();
        let mut place = PLACES.load(Ordering::Acquire);
        // SAFETY: places are leaked: what the list holds lives as long as the process.
        while let Some(found) = unsafe { place.as_ref() } {
            // ORDERING: relaxed; the handler runs in a copy of the thread that forked, and what another
            // thread stores meanwhile may be missed by it, as may the descriptor itself.
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
        let first = PLACES.load(Ordering::Acquire);
        let place = Box::leak(Box::new(Place { descriptor: descriptor.into(), next: first }));
        let added: *mut Place = place;
        let mut first = first;
        // ORDERING: release: who finds the place finds what is in it; pairs with the loads above and in
        // the handler.
        while let Err(other) =
            PLACES.compare_exchange(first, added, Ordering::AcqRel, Ordering::Acquire)
        {
            first = other;
            // SAFETY: nobody else has the place before the exchange succeeds.
            unsafe { (*added).next = first };
        }
        // SAFETY: leaked, and from now on only read and changed through its atomic.
        Self(unsafe { &(*added).descriptor })
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

/// Has the C library run the handler in children.
fn watch() {
    // SAFETY: the handler lives as long as the process, and does only what a child of a process with
    // threads may do.
    #[cfg(all(target_os = "linux", not(miri)))]
    unsafe {
        let _ = libc::pthread_atfork(None, None, Some(in_child));
    }
}

/// Puts another file in the place of each descriptor, which stays open for who has its number.
#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn in_child() {
    // SAFETY: `open`, `dup3` and `close` are allowed after a fork. The numbers are of descriptors that
    // were open when the process forked, which nobody else in the child has closed yet: this runs before
    // its code. Places are leaked, so the list is whole.
    unsafe {
        let mut place = PLACES.load(Ordering::Acquire);
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
