//! Copies between private bytes and shared rows that a peer may write at the same time.
//!
//! There are two ways. One is chosen for the whole build, so that both sides of every column use
//! the same:
//!
//! - assembly (x86-64 and aarch64, [`asm`]): the compiler does not see the accesses and can derive
//!   nothing from them. Each byte of the copy is one that was stored there at some time, which is
//!   all that validation needs.
//! - words (elsewhere, under Miri and thread sanitizers): relaxed atomics of one size per column,
//!   the largest power of two that divides its row width.
//!
//! `docs/decisions/0016-rows-are-copied-in-assembly.md` says why.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

pub(crate) mod asm;

use self::asm::ASM;
use crate::kernels::prefetch::{LINE, prefetch_range};

/// Access size of a column, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Word {
    /// One byte.
    W1 = 1,
    /// Two bytes.
    W2 = 2,
    /// Four bytes.
    W4 = 4,
    /// Eight bytes.
    W8 = 8,
}

impl Word {
    /// Returns the largest access size that divides a row of `width` bytes.
    ///
    /// ```
    /// use backcast_layout::Word;
    /// assert_eq!(Word::of_width(84 * 84), Word::W8);
    /// assert_eq!(Word::of_width(12), Word::W4);
    /// assert_eq!(Word::of_width(7), Word::W1);
    /// ```
    #[must_use]
    pub fn of_width(width: usize) -> Self {
        match width.trailing_zeros() {
            0 => Word::W1,
            1 => Word::W2,
            2 => Word::W4,
            _ => Word::W8,
        }
    }
}

macro_rules! word_loop {
    ($atomic:ty, $int:ty, store, $dst:expr, $src:expr) => {{
        let dst: *mut u8 = $dst;
        for (i, bytes) in $src.chunks_exact(size_of::<$int>()).enumerate() {
            let value = <$int>::from_ne_bytes(bytes.try_into().unwrap_or_default());
            // SAFETY: in bounds and aligned by the contract of `copy_in`.
            let word = unsafe { <$atomic>::from_ptr(dst.cast::<$int>().add(i)) };
            word.store(value, Relaxed);
        }
    }};
    ($atomic:ty, $int:ty, load, $src:expr, $dst:expr) => {{
        let src: *mut u8 = $src;
        for (i, bytes) in $dst.chunks_exact_mut(size_of::<$int>()).enumerate() {
            // SAFETY: in bounds and aligned by the contract of `copy_out`.
            let word = unsafe { <$atomic>::from_ptr(src.cast::<$int>().add(i)) };
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
    }};
}

/// Copies `src` into shared memory.
///
/// # Safety
/// - `dst` is valid for reads and writes of `src.len()` bytes for the length of the call.
/// - `dst` is aligned to `word`, and `src.len()` is a multiple of it.
/// - Every other access to these bytes while a process may write them goes through this module,
///   with the same `word`.
#[inline]
pub(crate) unsafe fn copy_in(dst: *mut u8, src: &[u8], word: Word) {
    if ASM {
        // SAFETY: `src` is private, and the caller upholds the contract for `dst`.
        return unsafe { asm::copy(dst, src.as_ptr(), src.len()) };
    }
    match word {
        Word::W1 => word_loop!(AtomicU8, u8, store, dst, src),
        Word::W2 => word_loop!(AtomicU16, u16, store, dst, src),
        Word::W4 => word_loop!(AtomicU32, u32, store, dst, src),
        Word::W8 => word_loop!(AtomicU64, u64, store, dst, src),
    }
}

/// Stores words from registers into shared memory. A copy of words that were just stored to private
/// memory would be slower: larger loads of them wait for the store buffer.
///
/// # Safety
/// The conditions of [`copy_in`] hold for `N` words of eight bytes.
#[inline]
pub(crate) unsafe fn store_words<const N: usize>(dst: *mut u8, words: [u64; N]) {
    for (i, word) in words.into_iter().enumerate() {
        // SAFETY: in bounds and aligned by the contract, which the caller upholds.
        let dst = unsafe { dst.cast::<u64>().add(i) };
        if !ASM {
            // SAFETY: as above.
            unsafe { AtomicU64::from_ptr(dst) }.store(word, Relaxed);
            continue;
        }
        // SAFETY: writes the eight bytes, and no others.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "mov [{dst}], {word}",
                dst = in(reg) dst, word = in(reg) word,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "str {word}, [{dst}]",
                dst = in(reg) dst, word = in(reg) word,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Loads words of shared memory into registers.
///
/// # Safety
/// The conditions of [`copy_out`] hold for `N` words of eight bytes.
#[inline]
pub(crate) unsafe fn load_words<const N: usize>(src: *mut u8) -> [u64; N] {
    std::array::from_fn(|i| {
        // SAFETY: in bounds and aligned by the contract, which the caller upholds.
        let src = unsafe { src.cast::<u64>().add(i) };
        if !ASM {
            // SAFETY: as above.
            return unsafe { AtomicU64::from_ptr(src) }.load(Relaxed);
        }
        let word: u64;
        // SAFETY: reads the eight bytes, and no others.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "mov {word}, [{src}]",
                src = in(reg) src, word = out(reg) word,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "ldr {word}, [{src}]",
                src = in(reg) src, word = out(reg) word,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            word = 0;
        }
        word
    })
}

/// Copies `dst.len()` bytes out of shared memory.
///
/// # Safety
/// - `src` is valid for reads of `dst.len()` bytes for the length of the call (read-only pages
///   will do: relaxed loads of up to eight bytes are defined on them).
/// - `src` is aligned to `word`, and `dst.len()` is a multiple of it.
/// - Every write to these bytes goes through this module, with the same `word`.
#[inline]
pub(crate) unsafe fn copy_out(src: *mut u8, dst: &mut [u8], word: Word) {
    if ASM {
        // SAFETY: `dst` is private, and the caller upholds the contract for `src`.
        return unsafe { asm::copy(dst.as_mut_ptr(), src, dst.len()) };
    }
    match word {
        Word::W1 => word_loop!(AtomicU8, u8, load, src, dst),
        Word::W2 => word_loop!(AtomicU16, u16, load, src, dst),
        Word::W4 => word_loop!(AtomicU32, u32, load, src, dst),
        Word::W8 => word_loop!(AtomicU64, u64, load, src, dst),
    }
}

/// Copies many bytes out of shared memory, by whole cache lines where that is faster.
///
/// # Safety
/// The conditions of [`copy_out`] hold.
#[inline]
pub(crate) unsafe fn copy_out_lines(src: *mut u8, dst: &mut [u8], word: Word) {
    // SAFETY: the caller upholds the contract.
    unsafe {
        if ASM {
            asm::copy_lines(dst.as_mut_ptr(), src, dst.len());
        } else {
            copy_out(src, dst, word);
        }
    }
}

/// Copies `dst.len()` bytes out of shared memory and prefetches at least `len` bytes from `next` on
/// meanwhile. If both lengths are about equal, the prefetches fit between the lines of the copy at
/// no cost.
///
/// # Safety
/// The conditions of [`copy_out`] hold; `next` may be any address.
#[inline(always)]
pub(crate) unsafe fn copy_out_prefetching(
    src: *mut u8,
    dst: &mut [u8],
    word: Word,
    next: *const u8,
    len: usize,
) {
    /// Bytes copied between two prefetches; a multiple of every access size.
    const STEP: usize = 512;
    // SAFETY: the caller upholds the contract.
    if ASM && unsafe { asm::copy_prefetching(dst.as_mut_ptr(), src, dst.len(), next) } {
        return prefetch_range(next.wrapping_add(dst.len()), len.saturating_sub(dst.len()));
    }
    if dst.len() <= STEP {
        prefetch_range(next, len);
        // SAFETY: the caller upholds the contract.
        return unsafe { copy_out(src, dst, word) };
    }
    let asked = len.div_ceil(dst.len().div_ceil(STEP)).next_multiple_of(LINE);
    for (i, part) in dst.chunks_mut(STEP).enumerate() {
        let from = (i * asked).min(len);
        prefetch_range(next.wrapping_add(from), asked.min(len - from));
        // SAFETY: a part of what the caller says; it begins on a multiple of eight after `src`.
        unsafe { copy_out(src.add(i * STEP), part, word) };
    }
}

/// Copies `bytes` bytes from each of the `places` after `src` into `dst`, one after the other,
/// until `dst` is full. With each copy it prefetches the place `ahead` positions later.
///
/// # Safety
/// [`copy_out`]'s conditions hold for each place that fills `dst`. `places` has enough of them, and
/// `dst.len()` is a multiple of `bytes`.
#[inline]
pub(crate) unsafe fn copy_out_each(
    src: *mut u8,
    places: &[usize],
    bytes: usize,
    dst: &mut [u8],
    word: Word,
    ahead: usize,
) {
    let asked = |number: usize| places.get(number.saturating_add(ahead));
    // SAFETY: the caller upholds the contract.
    if ASM && unsafe { asm::copy_each(dst, src, places, bytes, asked) } {
        return;
    }
    for (number, (dst, place)) in dst.chunks_exact_mut(bytes).zip(places).enumerate() {
        let next = src.wrapping_add(*asked(number).unwrap_or(place));
        // SAFETY: the caller upholds the contract.
        unsafe { copy_out_prefetching(src.add(*place), dst, word, next, bytes) }
    }
}

/// Orders streaming stores, which x86-64 does not keep in order, before later stores.
#[inline]
pub(crate) fn order_streaming_stores() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 has the instruction, which only orders stores.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_copies_its_bytes_and_no_others() {
        for len in 0..200_usize {
            let memory: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
            let base = memory.as_ptr().cast_mut().cast::<u8>();
            let sent: Vec<u8> = (1..=len).map(|n| u8::try_from(n).unwrap()).collect();
            let mut got = vec![0; len];
            // SAFETY: 256 private bytes; every address is aligned to one byte.
            unsafe {
                copy_in(base.add(8), &sent, Word::W1);
                copy_out(base.add(8), &mut got, Word::W1);
            }
            assert_eq!(got, sent);
            let all: Vec<u8> = memory.iter().flat_map(|w| w.load(Relaxed).to_ne_bytes()).collect();
            assert!(all[..8].iter().chain(&all[8 + len..]).all(|byte| *byte == 0), "{len} bytes");
        }
    }

    #[test]
    fn every_word_size_copies_what_it_was_given() {
        for (width, word) in [(7, Word::W1), (6, Word::W2), (12, Word::W4), (24, Word::W8)] {
            assert_eq!(Word::of_width(width), word);
            let memory: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
            let base = memory.as_ptr().cast_mut().cast::<u8>();
            let sent: Vec<u8> = (1..=u8::try_from(width).unwrap()).collect();
            let mut got = vec![0; width];
            // SAFETY: 64 private bytes, aligned to 8; offset 8 is aligned to every word.
            unsafe {
                copy_in(base.add(8), &sent, word);
                copy_out(base.add(8), &mut got, word);
            }
            assert_eq!(got, sent);
            assert_eq!(memory[0].load(Relaxed), 0, "nothing before the row is touched");
        }
    }
}
