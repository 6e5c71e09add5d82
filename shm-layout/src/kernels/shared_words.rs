//! Copies out of shared words as fast as memory allows. Loading them one by one is slower.

use std::sync::atomic::AtomicU64;

use crate::kernels::racy_copy::{self, Word};

/// Copies `out.len()` bytes of shared words, from the byte at `offset` on.
///
/// If another process writes during the copy, the copy may mix old and new values, as with any copy
/// out of shared memory. No process writes an immutable segment.
///
/// # Panics
/// If `offset` or the length is no multiple of 4, or the copy would end beyond the words.
#[inline]
pub fn copy_words(words: &[AtomicU64], offset: usize, out: &mut [u8]) {
    let from = first_of(words, &[offset], out.len());
    // SAFETY: `first_of` checked the conditions.
    unsafe { racy_copy::copy_out_lines(from.add(offset), out, Word::W4) }
}

/// Copies `bytes` bytes from each of the `places` into `out`, one after the other, until `out` is
/// full. While one is copied, the place `ahead` positions later is prefetched. `places` may
/// continue with those of the next call, which are only prefetched.
///
/// # Panics
/// If a place or `bytes` is no multiple of 4, a copy would end beyond the words, `places` has too
/// few to fill `out`, or `bytes` is zero or does not divide the length of `out`.
#[inline]
pub fn copy_words_each(
    words: &[AtomicU64],
    places: &[usize],
    bytes: usize,
    out: &mut [u8],
    ahead: usize,
) {
    assert!(bytes > 0 && out.len().is_multiple_of(bytes), "{} of {bytes} bytes each", out.len());
    let count = out.len() / bytes;
    assert!(count <= places.len(), "{count} copies from {} places", places.len());
    let from = first_of(words, places, bytes);
    // SAFETY: `first_of` checked the conditions at all places. `count` times `bytes` is the length
    // of `out`, and `places` has at least `count`.
    unsafe { racy_copy::copy_out_each(from, places, bytes, out, Word::W4, ahead) }
}

/// Returns the address of the words, after checking that `bytes` bytes can be copied from each of
/// the places:
///
/// - In bounds: checked; the slice is valid for reads of its bytes while it is borrowed.
/// - Aligned to 4: the words are aligned to 8, places and length are multiples of 4 (checked).
/// - This process writes them only through atomics: the words are atomics. Segments that hand out
///   their words are immutable once they have a name, so no access of another size races with this.
#[inline]
fn first_of(words: &[AtomicU64], places: &[usize], bytes: usize) -> *mut u8 {
    let last = places.iter().copied().max().unwrap_or(0);
    let end = last.checked_add(bytes);
    assert!(
        end.is_some_and(|end| end <= size_of_val(words)),
        "{bytes} bytes from {last} on, of {}",
        size_of_val(words)
    );
    let all = places.iter().fold(bytes, |all, place| all | place);
    assert!(all.is_multiple_of(4), "not in words of 4 bytes");
    words.as_ptr().cast::<u8>().cast_mut()
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
                let mut out = vec![0xee; end - start];
                copy_words(&words, start, &mut out);
                assert_eq!(out, whole[start..end]);
            }
        }
    }

    #[test]
    fn each_place_is_copied_after_the_one_before() {
        let words = words();
        let mut whole = vec![0; 1_600];
        copy_words(&words, 0, &mut whole);
        let places = [480, 0, 4, 1_000, 1_052, 64, 0];
        // Less than a line, a line, and more.
        for bytes in [4, 52, 64, 68, 200, 548] {
            for count in 0..=places.len() {
                for ahead in [0, 1, 4, 9] {
                    let mut out = vec![0xee; count * bytes];
                    copy_words_each(&words, &places, bytes, &mut out, ahead);
                    let wanted = places[..count].iter().map(|place| &whole[*place..place + bytes]);
                    assert_eq!(out, wanted.collect::<Vec<_>>().concat(), "{count} of {bytes}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes from 1596 on, of 1600")]
    fn bytes_beyond_the_words_are_not_copied_from_any_place() {
        copy_words_each(&words(), &[0, 1_596], 8, &mut [0; 8], 1);
    }

    #[test]
    #[should_panic(expected = "not in words of 4 bytes")]
    fn places_between_words_are_refused() {
        copy_words_each(&words(), &[0, 6, 8], 8, &mut [0; 24], 1);
    }

    #[test]
    #[should_panic(expected = "3 copies from 2 places")]
    fn every_copy_needs_a_place() {
        copy_words_each(&words(), &[0, 8], 8, &mut [0; 24], 1);
    }

    #[test]
    #[should_panic(expected = "8 bytes from 1596 on, of 1600")]
    fn bytes_beyond_the_words_are_not_copied() {
        copy_words(&words(), 1_596, &mut [0; 8]);
    }
}
