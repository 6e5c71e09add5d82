//! Keyed permutation of the numbers below a bound: a shuffled order without a list.

/// Rounds of the Feistel network.
const ROUNDS: u64 = 8;
/// Rounds of a network of few bits, whose round functions have few values.
const ROUNDS_OF_FEW: u64 = 32;
/// Number of bits below which a network has few bits, and takes more rounds.
const FEW_BITS: u32 = 16;

/// Permutation of the numbers below `len`, decided by a key.
///
/// An unbalanced Feistel network permutes the numbers below the next power of two (Luby, Rackoff:
/// "How to construct pseudorandom permutations", SIAM J. Comput. 17, 1988). Numbers from `len` on
/// are permuted again (Black, Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002,
/// section 4). If `len` is above 2, a number takes fewer than two permutations on average.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permutation {
    len: u64,
    key: u64,
    /// Bits of the two halves.
    low: u32,
    high: u32,
}

impl Permutation {
    /// Returns the permutation of the numbers below `len`, which is at most 2^62.
    pub(crate) fn new(len: u64, seed: u64, pass: u64) -> Self {
        let bits = (u64::BITS - len.saturating_sub(1).leading_zeros()).max(2);
        let key = mix(mix(seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(pass));
        Self { len, key, low: bits / 2, high: bits - bits / 2 }
    }

    /// Returns the number at position `n`, which is below the length.
    pub(crate) fn at(self, n: u64) -> u64 {
        let mut number = n;
        // A permutation has only cycles, so the loop ends with `n` at the latest.
        loop {
            number = self.permute(number);
            if number < self.len || number == n {
                return number;
            }
        }
    }

    fn permute(self, number: u64) -> u64 {
        let (low_mask, high_mask) = ((1 << self.low) - 1, (1 << self.high) - 1);
        let (mut low, mut high) = (number & low_mask, number >> self.low & high_mask);
        let is_small = self.low + self.high < FEW_BITS;
        for round in 0..if is_small { ROUNDS_OF_FEW } else { ROUNDS } {
            if round.is_multiple_of(2) {
                high ^= mix(self.key ^ low ^ (round << 58)) & high_mask;
            } else {
                low ^= mix(self.key ^ high ^ (round << 58)) & low_mask;
            }
        }
        high << self.low | low
    }
}

/// Mixes the bits of a number (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", OOPSLA 2014, with the constants of Stafford's variant 13).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for len in (1..70).chain([127, 128, 129, 1_000, 5_000]) {
            let order = Permutation::new(len, 7, len);
            let mut numbers: Vec<u64> = (0..len).map(|n| order.at(n)).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..len), "{len}");
        }
    }

    /// Each number is equally often at each position, and pairs at neighbouring positions are
    /// equally frequent. Their statistics are below the limits for p = 1e-4. Those of rotations,
    /// which only shift, exceed them.
    #[test]
    fn positions_and_neighbours_are_uniform() {
        const SEEDS: u64 = 20_000;
        for (len, limit, pairs_limit) in [(5_u64, 48.0, 50.0), (13, 245.0, 231.0)] {
            let statistics = |at: &dyn Fn(u64, u64) -> u64| {
                let size = usize::try_from(len).unwrap();
                let mut places = vec![0.0; size * size];
                let mut pairs = vec![0.0; size * size];
                for seed in 0..SEEDS {
                    for n in 0..len {
                        let index = |a: u64, b: u64| usize::try_from(a * len + b).unwrap();
                        places[index(n, at(seed, n))] += 1.0;
                    }
                    // One pair a permutation, so that pairs are independent.
                    pairs[usize::try_from(at(seed, 0) * len + at(seed, 1)).unwrap()] += 1.0;
                }
                #[expect(clippy::cast_precision_loss, reason = "small counts")]
                let (seeds, len) = (SEEDS as f64, len as f64);
                let chi = |counts: &[f64], expected: f64| -> f64 {
                    counts.iter().map(|count| (count - expected).powi(2) / expected).sum()
                };
                let pairs: Vec<f64> = pairs
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| at / size != at % size)
                    .map(|(_, count)| *count)
                    .collect();
                (chi(&places, seeds / len), chi(&pairs, seeds / (len * (len - 1.0))))
            };
            let (places, pairs) = statistics(&|seed, n| Permutation::new(len, 3, seed).at(n));
            assert!(places < limit && pairs < pairs_limit, "{len}: {places} {pairs}");
            let (_, pairs) = statistics(&|seed, n| (n + seed) % len);
            assert!(pairs > pairs_limit, "{len}: rotations pass with {pairs}");
        }
    }
}
