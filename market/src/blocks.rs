//! Memory layout of a panel: three blocks, ticker-major, and functions to read them.
//!
//! | block | type | shape | why |
//! |---|---|---|---|
//! | values | f64 | `[T][D][C]` | money is computed in f64 |
//! | singles | f32 | `[T][D][C]` | windows are copied from it |
//! | listed | bits in u64 | `[T][ceil(D / 64)]` | which `(ticker, day)` have a row |
//!
//! Each block starts at a multiple of 8 bytes. A missing row is all zeros, never another row.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Maximum number of values (`T * D * C`) in one panel: 48 GiB of blocks.
pub(crate) const MAX_VALUES: u64 = 1 << 32;
const WORD_BYTES: usize = 8;
const WORD_BITS: usize = 64;

/// Sizes of a panel, from which the byte offsets of its blocks follow. [`new`](Self::new) checks
/// them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PanelShape {
    pub(crate) tickers: usize,
    pub(crate) days: usize,
    pub(crate) columns: usize,
}

impl PanelShape {
    /// Returns the shape, or `None` if the blocks would be too large.
    pub(crate) fn new(tickers: usize, days: usize, columns: usize) -> Option<Self> {
        let values = tickers.checked_mul(days)?.checked_mul(columns)?;
        let within = u64::try_from(values).is_ok_and(|values| values <= MAX_VALUES)
            && u64::try_from(tickers.checked_mul(days)?).is_ok_and(|cells| cells <= MAX_VALUES)
            && i32::try_from(tickers).is_ok()
            && i32::try_from(days).is_ok();
        let shape = Self { tickers, days, columns };
        // The total in bytes must be addressable too, which matters on 32-bit hosts.
        let bytes = values.checked_mul(12)?.checked_add(shape.listed_words().checked_mul(8)?)?;
        (within && isize::try_from(bytes).is_ok()).then_some(shape)
    }

    pub(crate) fn values(&self) -> usize {
        self.tickers * self.days * self.columns
    }

    pub(crate) fn single_words(&self) -> usize {
        self.values().div_ceil(2)
    }

    /// Returns the number of words per ticker in the listed block.
    pub(crate) fn listed_stride(&self) -> usize {
        self.days.div_ceil(WORD_BITS)
    }

    pub(crate) fn listed_words(&self) -> usize {
        self.tickers * self.listed_stride()
    }

    pub(crate) fn singles_offset(&self) -> usize {
        self.values() * WORD_BYTES
    }

    pub(crate) fn listed_offset(&self) -> usize {
        self.singles_offset() + self.single_words() * WORD_BYTES
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.listed_offset() + self.listed_words() * WORD_BYTES
    }

    /// Returns the position of a row's first value.
    pub(crate) fn row(&self, ticker: usize, day: usize) -> usize {
        (ticker * self.days + day) * self.columns
    }
}

/// Returns whether a ticker is listed on `day`; `words` are its listed bits.
pub(crate) fn is_listed(words: &[AtomicU64], day: usize) -> bool {
    words[day / WORD_BITS].load(Relaxed) >> (day % WORD_BITS) & 1 == 1
}

/// Copies the listed bits of `days` from one ticker's words.
pub(crate) fn copy_listed(words: &[AtomicU64], days: Range<usize>, out: &mut [bool]) {
    let mut bits = 0;
    for (index, (day, mark)) in days.zip(out).enumerate() {
        if index == 0 || day % WORD_BITS == 0 {
            bits = words[day / WORD_BITS].load(Relaxed) >> (day % WORD_BITS);
        }
        *mark = bits & 1 == 1;
        bits >>= 1;
    }
}

/// Copies the listed bits of `out.len()` days from `first` on as numbers: 1 if the day has a row,
/// else 0.
pub(crate) fn copy_listed_bits(words: &[AtomicU64], first: usize, out: &mut [i32]) {
    for (at, part) in out.chunks_mut(WORD_BITS).enumerate() {
        let bits = listed_bits(words, first + at * WORD_BITS, part.len());
        for (bit, mark) in part.iter_mut().enumerate() {
            *mark = i32::from(bits >> bit & 1 == 1);
        }
    }
}

/// Returns whether the ticker is listed on all `days` days from `first` on. Usually they are, so
/// whole words are compared.
#[inline]
pub(crate) fn are_listed(words: &[AtomicU64], first: usize, days: usize) -> bool {
    (0..days).step_by(WORD_BITS).all(|at| {
        let count = (days - at).min(WORD_BITS);
        listed_bits(words, first + at, count) | !(u64::MAX >> (WORD_BITS - count)) == u64::MAX
    })
}

/// Returns the listed bits of `days` days from `day` on, at most 64, in the low bits. Higher bits
/// are unspecified.
#[inline]
fn listed_bits(words: &[AtomicU64], day: usize, days: usize) -> u64 {
    let (word, shift) = (day / WORD_BITS, day % WORD_BITS);
    let bits = words[word].load(Relaxed) >> shift;
    if shift + days > WORD_BITS {
        return bits | words[word + 1].load(Relaxed) << (WORD_BITS - shift);
    }
    bits
}

/// Returns the longest run of listed days; the first one, if several are equally long.
pub(crate) fn longest_run(words: &[AtomicU64], days: usize) -> Range<usize> {
    let (mut longest, mut run, mut day) = (0..0, 0..0, 0);
    while day < days {
        let count = (days - day).min(WORD_BITS);
        let bits = listed_bits(words, day, count);
        let marked = (bits.trailing_ones() as usize).min(count);
        if marked == 0 {
            day += (bits.trailing_zeros() as usize).min(count);
            continue;
        }
        // Listed days that begin where the run ends extend it.
        run = if run.end == day { run.start } else { day }..day + marked;
        day = run.end;
        if run.len() > longest.len() {
            longest = run.clone();
        }
    }
    longest
}

/// Returns whether `day` is listed in the words of one ticker of a table that is being built.
pub(crate) fn is_marked(words: &[u64], day: usize) -> bool {
    words[day / WORD_BITS] >> (day % WORD_BITS) & 1 == 1
}

/// Clears the listed bit of `day` in one ticker's words.
pub(crate) fn unmark_listed(words: &mut [u64], day: usize) {
    words[day / WORD_BITS] &= !(1 << (day % WORD_BITS));
}

/// Sets the listed bit of `day` in one ticker's words.
pub(crate) fn mark_listed(words: &mut [u64], day: usize) {
    words[day / WORD_BITS] |= 1 << (day % WORD_BITS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_copies_exactly_its_marks() {
        let mut words = vec![0_u64; 3];
        let marked = |day: usize| day.is_multiple_of(3) || day == 63 || day == 127;
        (0..150).filter(|&day| marked(day)).for_each(|day| mark_listed(&mut words, day));
        let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        for start in 0..150 {
            assert_eq!(is_listed(&words, start), marked(start));
            for end in start..=150 {
                let mut out = vec![false; end - start];
                copy_listed(&words, start..end, &mut out);
                assert!((start..end).map(marked).eq(out));
                let mut bits = vec![7; end - start];
                copy_listed_bits(&words, start, &mut bits);
                assert!((start..end).map(|day| i32::from(marked(day))).eq(bits));
                let all = (start..end).all(marked);
                assert_eq!(are_listed(&words, start, end - start), all, "{start}..{end}");
            }
        }
    }

    #[test]
    fn the_longest_run_is_that_of_a_day_by_day_count() {
        // Days without a row, which lie at, before and after the ends of words.
        let gaps =
            [&[][..], &[0], &[63, 64], &[64], &[65, 130], &[1, 63, 127], &[128, 191], &[191]];
        for (days, gaps) in (0..=192).flat_map(|days| gaps.map(|gaps| (days, gaps))) {
            let mut words = vec![0_u64; 3];
            (0..days)
                .filter(|day| !gaps.contains(day))
                .for_each(|day| mark_listed(&mut words, day));
            let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
            let runs = (0..days).flat_map(|start| (start..=days).map(move |end| start..end));
            let marked = runs.filter(|run| run.clone().all(|day| is_listed(&words, day)));
            let first = marked.max_by_key(|run| (run.len(), days - run.start));
            let found = longest_run(&words, days);
            assert_eq!(found.len(), first.as_ref().map_or(0, Range::len), "{days} {gaps:?}");
            assert!(found.is_empty() || Some(found) == first, "{days} {gaps:?}");
        }
    }

    #[test]
    fn words_full_of_marks_are_all_marked() {
        let words = [const { AtomicU64::new(u64::MAX) }; 3];
        for start in 0..100 {
            for end in start..=192 {
                let mut bits = vec![7; end - start];
                copy_listed_bits(&words, start, &mut bits);
                assert_eq!(bits, vec![1; end - start]);
                assert!(are_listed(&words, start, end - start));
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be_addressed_are_none() {
        for (tickers, days, columns) in [
            (usize::MAX, 2, 1),
            (2, usize::MAX, 5),
            (1 << 20, 1 << 20, 5),
            (1, 1 << 31, 1),
            (1 << 31, 1, 1),
            (1 << 30, 1 << 30, 0),
        ] {
            assert_eq!(PanelShape::new(tickers, days, columns), None);
        }
        let shape = PanelShape::new(3, 65, 5).unwrap();
        assert_eq!(shape.data_bytes(), 975 * 8 + 488 * 8 + 6 * 8);
    }
}
