//! Set of occupied levels with constant-time lowest, highest and neighbour queries.

/// Bits of up to 4,096 levels, with one summary bit for each word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bitmap {
    summary: u64,
    words: [u64; 64],
}

impl Bitmap {
    pub(super) const BITS: usize = 64 * 64;
    pub(super) const EMPTY: Self = Self { summary: 0, words: [0; 64] };

    #[inline]
    pub(super) const fn contains(&self, bit: usize) -> bool {
        self.words[(bit / 64) & 63] >> (bit % 64) & 1 == 1
    }

    #[inline]
    pub(super) const fn insert(&mut self, bit: usize) {
        let word = (bit / 64) & 63;
        self.words[word] |= 1 << (bit % 64);
        self.summary |= 1 << word;
    }

    #[inline]
    pub(super) const fn remove(&mut self, bit: usize) {
        let word = (bit / 64) & 63;
        self.words[word] &= !(1 << (bit % 64));
        if self.words[word] == 0 {
            self.summary &= !(1 << word);
        }
    }

    #[inline]
    pub(super) const fn lowest(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.trailing_zeros() as usize & 63;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    #[inline]
    pub(super) const fn highest(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.ilog2() as usize & 63;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }

    /// Returns the lowest bit above `bit`.
    #[inline]
    pub(super) const fn above(&self, bit: usize) -> Option<usize> {
        let word = (bit / 64) & 63;
        // Shifts twice, since a shift by 64 would overflow.
        let rest = self.words[word] & (!0 << (bit % 64) << 1);
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let words = self.summary & (!0 << word << 1);
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros() as usize & 63;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// Returns the highest bit below `bit`.
    #[inline]
    pub(super) const fn below(&self, bit: usize) -> Option<usize> {
        let word = (bit / 64) & 63;
        let rest = self.words[word] & ((1 << (bit % 64)) - 1);
        if rest != 0 {
            return Some(word * 64 + rest.ilog2() as usize);
        }
        let words = self.summary & ((1 << word) - 1);
        if words == 0 {
            return None;
        }
        let word = words.ilog2() as usize & 63;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }

    /// Returns the set whose bit `b - shift` is this set's bit `b`, cut to `0..len`.
    pub(super) fn shifted(&self, shift: i32, len: usize) -> Self {
        let mut moved = Self::EMPTY;
        let mut bit = self.lowest();
        while let Some(at) = bit {
            let to = at as i64 - i64::from(shift);
            if (0..len as i64).contains(&to) {
                moved.insert(to as usize);
            }
            bit = self.above(at);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_bitmap_answers_like_an_ordered_set() {
        let (mut map, mut set) = (Bitmap::EMPTY, BTreeSet::new());
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bit = (state >> 40) as usize % Bitmap::BITS;
            if (state >> 33).is_multiple_of(4) {
                map.insert(bit);
                set.insert(bit);
            } else {
                let bit = set.range(bit..).next().copied().unwrap_or(bit);
                map.remove(bit);
                set.remove(&bit);
            }
            assert_eq!(map.lowest(), set.first().copied());
            assert_eq!(map.highest(), set.last().copied());
            assert_eq!(map.above(bit), set.range(bit + 1..).next().copied());
            assert_eq!(map.below(bit), set.range(..bit).next_back().copied());
            assert_eq!(map.contains(bit), set.contains(&bit));
        }
        for shift in [-700, -64, -1, 1, 63, 900] {
            let moved = map.shifted(shift, 2048);
            let expected: Vec<usize> = set
                .iter()
                .map(|bit| *bit as i64 - i64::from(shift))
                .filter(|bit| (0..2048).contains(bit))
                .map(|bit| bit as usize)
                .collect();
            let (mut bits, mut bit) = (Vec::new(), moved.lowest());
            while let Some(at) = bit {
                bits.push(at);
                bit = moved.above(at);
            }
            assert_eq!(bits, expected);
        }
    }
}
