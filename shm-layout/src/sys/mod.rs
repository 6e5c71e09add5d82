//! Raw memory and the operating system: the only place in the workspace's libraries with raw
//! pointers to shared bytes.
//!
//! Everything here hands out safe types: [`map::Mapping`] gives slices of atomics, bounds-checked;
//! [`lane::Lane`] copies rows in and out by relaxed words; [`lock::LockFile`] owns byte-range locks.

#![expect(unsafe_code, reason = "mappings, word copies and fcntl need raw pointers")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "columns begin on multiples of 8 and their word divides their width"
)]

pub(crate) mod copy;
pub(crate) mod file;
pub(crate) mod lane;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod space;
