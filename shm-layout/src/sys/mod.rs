//! Raw memory and the operating system: the only place in the workspace's libraries with raw
//! pointers to shared bytes.
//!
//! Everything here hands out safe types: [`map::Mapping`] gives slices of atomics, bounds-checked;
//! [`lane::Lane`] copies rows out and [`claimed::ClaimedLane`] in; [`lock::LockFile`] owns byte-range locks;
//! [`wait`] sleeps on a shared word; [`peer`] asks who is at a socket's other end.

#![expect(unsafe_code, reason = "mappings, word copies and fcntl need raw pointers")]
#![expect(
    clippy::cast_ptr_alignment,
    reason = "columns begin on multiples of 8 and their word divides their width"
)]

pub(crate) mod bytes;
pub(crate) mod claimed;
pub(crate) mod copy;
#[cfg(test)]
pub(crate) mod counted;
pub(crate) mod file;
pub(crate) mod forks;
pub(crate) mod found;
pub(crate) mod holders;
pub(crate) mod huge;
pub(crate) mod inherited;
pub(crate) mod lane;
pub(crate) mod lock;
pub(crate) mod looped;
pub(crate) mod map;
pub(crate) mod numbers;
mod opaque;
pub(crate) mod peer;
pub(crate) mod rank;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod soon;
pub(crate) mod space;
pub(crate) mod team;
pub(crate) mod wait;
pub(crate) mod wide;
pub(crate) mod window;
pub(crate) mod words;

/// Hints that a cache line will be read soon. Any address will do.
///
/// It goes to the second cache: the nearest takes fewer requests at a time, and a request beyond them
/// stops the processor (`docs/decisions/0024-batches-are-assembled-in-blocks.md`).
#[inline]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no architectural effect and cannot fault, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; PRFM is a hint.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{line}]", line = in(reg) line,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Hints that a cache line will be written soon. Any address will do.
///
/// As an instruction, since compilers ask for reading unless they are told that the processor knows it. One that does
/// not, does nothing.
#[inline]
fn prefetch_to_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no architectural effect and cannot fault, whatever the address.
    unsafe {
        core::arch::asm!("prefetchw [{line}]", line = in(reg) line,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; PRFM is a hint.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{line}]", line = in(reg) line,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = line;
}

/// Hints that a cache line will be read at once. Any address will do.
#[inline]
fn prefetch_nearest(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no architectural effect and cannot fault, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; PRFM is a hint.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
