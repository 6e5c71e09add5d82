//! Asking for memory before it is read or written.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// Bytes that are asked for at most: more would not be there any more when their turn comes.
const MOST_ASKED: usize = 1 << 20;

/// Asks the processor for numbers that will be read soon, not at once: they come to the second cache meanwhile.
#[inline]
pub fn soon<V>(numbers: &[V]) {
    ask(numbers.as_ptr().cast(), size_of_val(numbers));
}

/// Asks the processor for the cache lines of `len` bytes, or of the first [`MOST_ASKED`]. Any address will do.
#[inline]
pub(crate) fn ask(from: *const u8, len: usize) {
    let before = from.addr() % LINE;
    // Counted, so that the compiler can make several a turn.
    for line in 0..(before + len.min(MOST_ASKED)).div_ceil(LINE) {
        prefetch(from.wrapping_sub(before).wrapping_add(line * LINE));
    }
}

/// Asks the processor for a line of the cache in every so many bytes of `len`, which will be written: for all but the
/// last one's rest, which who asks for what follows asks for. Any address will do.
#[inline]
pub(crate) fn ask_to_write(from: *const u8, len: usize) {
    for at in (0..len.min(MOST_ASKED)).step_by(LINE) {
        prefetch_to_write(from.wrapping_add(at));
    }
}

/// Hints that a cache line will be read soon. Any address will do.
///
/// It goes to the second cache: the nearest takes fewer requests at a time, and a request beyond them
/// stops the processor (`docs/decisions/0024-batches-are-assembled-in-blocks.md`).
#[inline]
pub(crate) fn prefetch(line: *const u8) {
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
pub(crate) fn prefetch_to_write(line: *const u8) {
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
    fn asking_ends_whatever_is_asked_for() {
        let from = std::ptr::without_provenance::<u8>(LINE + 3);
        for len in [0, 1, LINE, MOST_ASKED + 1, usize::MAX] {
            ask(from, len);
            ask_to_write(from, len);
        }
    }
}
