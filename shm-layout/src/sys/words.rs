//! Copies out of shared words, as fast as memory allows: loading them one by one is not.

use std::sync::atomic::AtomicU64;

use super::copy::{self, Word};

/// Copies `out.len()` bytes of shared words, from the byte at `offset` on. Meanwhile the processor is
/// asked for as many bytes from `next` on, if any: those of the next copy.
///
/// What another process writes there meanwhile may come out as a mixture, as with any copy out of
/// shared memory; of an immutable segment nobody writes any.
///
/// # Panics
/// If `offset` or the length is no multiple of 4, or bytes beyond the words are asked for. `next` may
/// be anything.
#[inline]
pub fn copy_words(words: &[AtomicU64], offset: usize, out: &mut [u8], next: Option<usize>) {
    let end = offset.checked_add(out.len());
    assert!(
        end.is_some_and(|end| end <= size_of_val(words)),
        "{} bytes from {offset} on, of {}",
        out.len(),
        size_of_val(words)
    );
    assert!(offset.is_multiple_of(4) && out.len().is_multiple_of(4), "not in words of 4 bytes");
    let first = words.as_ptr().cast::<u8>();
    // SAFETY:
    // - In bounds: checked above; the slice is valid for reads of its bytes while it is borrowed.
    // - Aligned to 4: the words are aligned to 8, offset and length are multiples of 4 (checked).
    // - Not written by this process through anything but atomics: the words are atomics. Segments
    //   whose words are handed out are immutable once they have a name, so that no access of another
    //   size ever meets this one.
    unsafe {
        let from = first.add(offset).cast_mut();
        match next {
            None => copy::copy_out_lines(from, out, Word::W4),
            Some(next) => {
                let len = out.len();
                copy::copy_out_asking(from, out, Word::W4, first.wrapping_add(next), len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..200_u64).map(|n| AtomicU64::new(n << 32 | (n + 100))).collect()
    }

    #[test]
    fn every_start_and_length_copies_exactly_its_bytes() {
        let words = words();
        let whole: Vec<u8> =
            words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        for start in (0..=whole.len()).step_by(36) {
            for end in (start..=whole.len()).step_by(52) {
                for next in [None, Some(0), Some(usize::MAX)] {
                    let mut out = vec![0xee; end - start];
                    copy_words(&words, start, &mut out, next);
                    assert_eq!(out, whole[start..end]);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes from 1596 on, of 1600")]
    fn bytes_beyond_the_words_are_not_copied() {
        copy_words(&words(), 1_596, &mut [0; 8], None);
    }
}
