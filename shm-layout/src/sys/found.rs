//! Rows that were found once: asked for now, copied later.

use std::marker::PhantomData;

use super::copy::{self, Word};
use super::lane::Lane;

/// Consecutive rows of a column that stand one after the other in a lane's memory.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    at: *const u8,
    bytes: usize,
    word: Word,
    lane: PhantomData<&'a Lane>,
}

impl Found<'_> {
    /// No rows.
    pub const NOTHING: Self =
        Self { at: std::ptr::null(), bytes: 0, word: Word::W1, lane: PhantomData };

    /// # Safety
    /// For as long as the lifetime says, `at` is valid for reads of so many bytes of a column's rows,
    /// whose words have this size: `at` and `bytes` are multiples of it.
    #[inline]
    pub(super) unsafe fn new(at: *const u8, bytes: usize, word: Word) -> Self {
        Self { at, bytes, word, lane: PhantomData }
    }

    /// Asks the processor for them. Reads nothing, changes nothing, never fails.
    #[inline]
    pub fn ask(self) {
        copy::ask(self.at, self.bytes);
    }

    /// Copies them: any length for 0, else `LEN` bytes, which costs less.
    ///
    /// # Panics
    /// If they are not as long as `out`, or not as long as said.
    #[inline]
    pub(super) fn copy_to<const LEN: usize>(self, out: &mut [u8]) {
        let bytes = if LEN == 0 { out.len() } else { LEN };
        assert!(self.bytes == bytes && out.len() == bytes, "the buffer fits the rows exactly");
        // SAFETY: as `new` was promised, for `bytes` bytes. Every writer of the column copies as we do
        // (docs/layout.md, rule 2).
        unsafe { copy::copy_out(self.at.cast_mut(), &mut out[..bytes], self.word) };
    }
}

/// Copies rows from many places, one after the other into `out`, whose chunks of `bytes` bytes they fill:
/// as many as there are of both.
///
/// # Panics
/// If some are not as long as a chunk.
#[inline]
pub fn gather(found: &[Found<'_>], out: &mut [u8], bytes: usize) {
    // Short copies are a few instructions if their length is known.
    match bytes {
        1 => gather_of::<1>(found, out, bytes),
        4 => gather_of::<4>(found, out, bytes),
        8 => gather_of::<8>(found, out, bytes),
        16 => gather_of::<16>(found, out, bytes),
        32 => gather_of::<32>(found, out, bytes),
        64 => gather_of::<64>(found, out, bytes),
        _ => gather_of::<0>(found, out, bytes),
    }
}

fn gather_of<const LEN: usize>(found: &[Found<'_>], out: &mut [u8], bytes: usize) {
    let bytes = if LEN == 0 { bytes } else { LEN };
    for (place, found) in out.chunks_exact_mut(bytes).zip(found) {
        found.copy_to::<LEN>(place);
    }
}
