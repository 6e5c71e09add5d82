//! Ranks a few dozen keys without branches: the rank of a key is the number of smaller keys.

/// Number of keys in a block, which are compared in parallel.
pub const RANK_BLOCK: usize = 32;

/// Writes, for each key of every block, how many of the first `count` keys are less.
///
/// Takes `count` steps per block, of five operations with AVX2. Keys after the last whole block get
/// no rank.
///
/// # Panics If there are fewer than `count` keys.
#[inline]
pub fn ranks(keys: &[i16], count: usize, ranks: &mut [i16]) {
    let others = &keys[..count];
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just checked.
        return unsafe { with_avx2(keys, others, ranks) };
    }
    let blocks = keys.chunks_exact(RANK_BLOCK).zip(ranks.chunks_exact_mut(RANK_BLOCK));
    for (keys, ranks) in blocks {
        ranks.fill(0);
        for &other in others {
            for (rank, &key) in ranks.iter_mut().zip(keys) {
                *rank += i16::from(other < key);
            }
        }
    }
}

/// Uses intrinsics, because the compiler would swap the two loops and keep a vector for each key.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
fn with_avx2(keys: &[i16], others: &[i16], ranks: &mut [i16]) {
    use std::arch::x86_64::{
        _mm256_cmpgt_epi16, _mm256_loadu_si256, _mm256_set1_epi16, _mm256_setzero_si256,
        _mm256_storeu_si256, _mm256_sub_epi16,
    };
    let (blocks, _) = keys.as_chunks::<RANK_BLOCK>();
    let (ranks, _) = ranks.as_chunks_mut::<RANK_BLOCK>();
    for (block, ranks) in blocks.iter().zip(ranks) {
        let (low, high) = block.split_at(RANK_BLOCK / 2);
        // SAFETY: 16 numbers of two bytes each.
        let (low, high) = unsafe {
            (_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast()))
        };
        let (mut of_low, mut of_high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for &other in others {
            let other = _mm256_set1_epi16(other);
            of_low = _mm256_sub_epi16(of_low, _mm256_cmpgt_epi16(low, other));
            of_high = _mm256_sub_epi16(of_high, _mm256_cmpgt_epi16(high, other));
        }
        let (low, high) = ranks.split_at_mut(RANK_BLOCK / 2);
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_si256(low.as_mut_ptr().cast(), of_low);
            _mm256_storeu_si256(high.as_mut_ptr().cast(), of_high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_the_number_of_keys_that_are_less() {
        for blocks in 0..4 {
            let len = blocks * RANK_BLOCK;
            let mut keys: Vec<i16> = vec![];
            let mut key = 12_345_i16;
            for _ in 0..len {
                key = key.wrapping_mul(25_173).wrapping_add(13_849);
                keys.push(key);
            }
            for count in [0, 1, len / 2, len.saturating_sub(1), len] {
                let count = count.min(len);
                let mut found = vec![-1; len];
                ranks(&keys, count, &mut found);
                for (key, found) in keys.iter().zip(found) {
                    let less = keys[..count].iter().filter(|&other| other < key).count();
                    assert_eq!(usize::try_from(found).unwrap(), less);
                }
            }
        }
    }
}
