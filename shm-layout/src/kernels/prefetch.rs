//! Prefetches memory before it is read or written.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// Maximum bytes of one request: more would be evicted before they are used.
const MAX_PREFETCH_BYTES: usize = 1 << 20;

/// Prefetches numbers into L2, at most 1 MiB of them, for reads that come soon but not next.
#[inline]
pub fn prefetch_l2<V>(numbers: &[V]) {
    prefetch_range(numbers.as_ptr().cast(), size_of_val(numbers));
}

/// Prefetches the cache lines of `len` bytes into L2, at most [`MAX_PREFETCH_BYTES`]. Any address
/// is allowed.
#[inline]
pub(crate) fn prefetch_range(from: *const u8, len: usize) {
    let before = from.addr() % LINE;
    // Counted loop, so that the compiler can unroll it.
    for line in 0..(before + len.min(MAX_PREFETCH_BYTES)).div_ceil(LINE) {
        prefetch_line(from.wrapping_sub(before).wrapping_add(line * LINE));
    }
}

/// Prefetches the cache lines of `len` bytes for writing, at most [`MAX_PREFETCH_BYTES`]. The last
/// line may be left out if `from` is not aligned to a line. Any address is allowed.
#[inline]
pub(crate) fn prefetch_range_for_write(from: *const u8, len: usize) {
    for at in (0..len.min(MAX_PREFETCH_BYTES)).step_by(LINE) {
        prefetch_line_for_write(from.wrapping_add(at));
    }
}

/// Prefetches a cache line into L2. Any address is allowed.
///
/// L1 takes fewer outstanding requests, and one beyond them stalls the processor
/// (`docs/decisions/0024-items-of-a-batch-are-gathered-together.md`).
#[inline]
pub(crate) fn prefetch_line(line: *const u8) {
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

/// Prefetches a cache line for writing. Any address is allowed.
///
/// The prefetch is written in assembly: without its target feature, compilers emit a prefetch for
/// reading. A processor that lacks the instruction ignores it.
#[inline]
pub(crate) fn prefetch_line_for_write(line: *const u8) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_ends_for_any_length() {
        let from = std::ptr::without_provenance::<u8>(LINE + 3);
        for len in [0, 1, LINE, MAX_PREFETCH_BYTES + 1, usize::MAX] {
            prefetch_range(from, len);
            prefetch_range_for_write(from, len);
        }
    }
}
