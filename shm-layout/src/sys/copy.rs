//! Copies between private bytes and shared words: relaxed atomics of one size per column.
//!
//! Racing accesses must be atomic and of equal size on both sides, so a column fixes its word
//! once (the largest power of two that divides its row width) and every process uses it.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

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
    /// The largest access size that divides a row of `width` bytes.
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
            // SAFETY: in bounds and aligned by the contract of `store_words`.
            let word = unsafe { <$atomic>::from_ptr(dst.cast::<$int>().add(i)) };
            word.store(value, Relaxed);
        }
    }};
    ($atomic:ty, $int:ty, load, $src:expr, $dst:expr) => {{
        let src: *mut u8 = $src;
        for (i, bytes) in $dst.chunks_exact_mut(size_of::<$int>()).enumerate() {
            // SAFETY: in bounds and aligned by the contract of `load_words`.
            let word = unsafe { <$atomic>::from_ptr(src.cast::<$int>().add(i)) };
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
    }};
}

/// Stores `src` as relaxed words of size `word`.
///
/// # Safety
/// - `dst` is valid for reads and writes of `src.len()` bytes for the length of the call.
/// - `dst` is aligned to `word`, and `src.len()` is a multiple of it.
/// - Every other access to these bytes, in any process, is atomic and of the same size.
#[inline]
pub(crate) unsafe fn store_words(dst: *mut u8, src: &[u8], word: Word) {
    match word {
        Word::W1 => word_loop!(AtomicU8, u8, store, dst, src),
        Word::W2 => word_loop!(AtomicU16, u16, store, dst, src),
        Word::W4 => word_loop!(AtomicU32, u32, store, dst, src),
        Word::W8 => word_loop!(AtomicU64, u64, store, dst, src),
    }
}

/// Loads `dst.len()` bytes as relaxed words of size `word`.
///
/// # Safety
/// - `src` is valid for reads of `dst.len()` bytes for the length of the call (read-only pages
///   will do: relaxed loads of up to eight bytes are defined on them).
/// - `src` is aligned to `word`, and `dst.len()` is a multiple of it.
/// - Every write to these bytes, in any process, is atomic and of the same size.
#[inline]
pub(crate) unsafe fn load_words(src: *mut u8, dst: &mut [u8], word: Word) {
    match word {
        Word::W1 => word_loop!(AtomicU8, u8, load, src, dst),
        Word::W2 => word_loop!(AtomicU16, u16, load, src, dst),
        Word::W4 => word_loop!(AtomicU32, u32, load, src, dst),
        Word::W8 => word_loop!(AtomicU64, u64, load, src, dst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                store_words(base.add(8), &sent, word);
                load_words(base.add(8), &mut got, word);
            }
            assert_eq!(got, sent);
            assert_eq!(memory[0].load(Relaxed), 0, "nothing before the row is touched");
        }
    }
}
