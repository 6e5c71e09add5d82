//! The operating system: memory, files, locks and processes.
//!
//! Other modules get safe types only. [`mapping::Mapping`] gives slices of atomics, checked for
//! bounds; [`byte_lock::LockFile`] owns byte-range locks; [`futex`] sleeps on a shared word;
//! [`peer`] identifies the process at the other end of a socket.

#![expect(unsafe_code, reason = "mmap, fcntl and fork handlers need raw pointers")]

pub(crate) mod byte_lock;
pub(crate) mod bytes;
pub(crate) mod clock;
pub(crate) mod descriptor_list;
pub(crate) mod exit_release;
pub(crate) mod files;
pub(crate) mod fork_id;
pub(crate) mod fork_release;
pub(crate) mod futex;
pub(crate) mod huge_pages;
pub(crate) mod lock_holders;
#[cfg(any(test, not(target_os = "linux")))]
mod lock_probe;
pub(crate) mod mapping;
pub(crate) mod memfd;
pub(crate) mod mirror;
pub(crate) mod peer;
pub(crate) mod space;

/// Returns the page size of this machine in bytes. Mapped columns are multiples of it.
#[must_use]
pub fn page_size() -> u64 {
    mapping::page_size() as u64
}
