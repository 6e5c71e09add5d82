//! Random numbers of one sub-environment: counter-based, ours, and the same in every version.
//!
//! Steele, Lea and Flood, *Fast splittable pseudorandom number generators* (OOPSLA 2014), figure 17
//! (`SplitMix64`): draw `k` of a seed is a hash of `mix(seed) + k * GAMMA`. The seed is hashed first, so that
//! the neighbouring seeds of neighbouring environments start far apart. Integers below a bound:
//! Lemire, *Fast random integer generation in an interval* (2019), exactly uniform.

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A position in the stream of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed.wrapping_add(GAMMA)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // Products whose low half is below this would favour small numbers.
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            #[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits")]
            let (high, low) = ((product >> 64) as u64, product as u64);
            if low >= threshold {
                return high;
            }
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first draws of the published code for seed 1234567.
        let mut stream = Stream { state: 1_234_567 };
        assert_eq!(
            [stream.next(), stream.next(), stream.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_below_a_bound_are_uniform_and_repeatable() {
        let mut counts = [0_u32; 7];
        for seed in 0..70_000 {
            let draw = Stream::new(seed).below(7);
            assert_eq!(Stream::new(seed).below(7), draw);
            counts[usize::try_from(draw).unwrap()] += 1;
        }
        // 10,000 each; five standard deviations are 463.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 463), "{counts:?}");
        let mut stream = Stream::new(1);
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
        assert!(stream.below(u64::MAX) < u64::MAX);
    }
}
