//! Random numbers of one sub-environment, fixed across versions and independent of all others.
//!
//! The default is counter-based: Steele, Lea and Flood, *Fast splittable pseudorandom number
//! generators* (OOPSLA 2014), figure 17 (`SplitMix64`). Draw `k`, counted from 1, is a hash of
//! `mix(seed + GAMMA) + k * GAMMA`. Hashing the seed keeps the streams of neighbouring seeds apart.
//!
//! Integers below a bound are exactly uniform: Lemire, *Fast random integer generation in an
//! interval* (2019). The other generator is [`Twister`].

use super::{choice::choice, twister::Twister};

pub(super) const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

choice!(
    /// Source of random numbers.
    Generator, "generator", {
        /// Counter-based, 64 bits of seed. The default.
        #[default]
        SplitMix64 = "splitmix64",
        /// `std::mt19937` of C++, 32 bits of seed, with the distributions of GNU's C++ library.
        /// Slower; for runs that are compared with other environments.
        Mt19937 = "mt19937",
    }
);

/// Positions in the streams of `N` sub-environments, all of one generator.
#[derive(Clone, Debug)]
pub(crate) enum EnvStreams {
    Split(Vec<SplitMix>),
    Twister(Vec<Twister>),
}

/// Mutable borrow of the random number generator of one sub-environment.
#[derive(Debug)]
pub(crate) enum EnvStream<'a> {
    Split(&'a mut SplitMix),
    Twister(&'a mut Twister),
}

impl EnvStreams {
    /// Begins the stream of `seed(env)` for each of `n` sub-environments; `None` where memory does
    /// not suffice.
    pub(crate) fn new(generator: Generator, n: usize, seed: impl Fn(u64) -> u64) -> Option<Self> {
        let seeds = (0..n as u64).map(seed);
        Some(match generator {
            Generator::SplitMix64 => Self::Split(all(seeds.map(SplitMix::new), n)?),
            Generator::Mt19937 => Self::Twister(all(seeds.map(twister), n)?),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Split(streams) => streams.len(),
            Self::Twister(streams) => streams.len(),
        }
    }

    pub(crate) fn of(&mut self, env: usize) -> EnvStream<'_> {
        match self {
            Self::Split(streams) => EnvStream::Split(&mut streams[env]),
            Self::Twister(streams) => EnvStream::Twister(&mut streams[env]),
        }
    }

    /// Begins the stream of a seed.
    pub(crate) fn begin(&mut self, env: usize, seed: u64) {
        match self {
            Self::Split(streams) => streams[env] = SplitMix::new(seed),
            Self::Twister(streams) => streams[env] = twister(seed),
        }
    }

    /// Returns the next number below `bound` of the first stream, without advancing the stream.
    /// Returns `None` if there is no stream.
    pub(crate) fn peek(&self, bound: u64) -> Option<u64> {
        match self {
            Self::Split(streams) => streams.first().map(|first| first.clone().below(bound)),
            Self::Twister(streams) => {
                streams.first().map(|first| EnvStream::Twister(&mut first.clone()).below(bound))
            }
        }
    }

    /// Continues stream `env` of `other`. Returns whether `other` has this stream and the same
    /// generator.
    pub(crate) fn go_on_from(&mut self, env: usize, other: &Self) -> bool {
        match (self, other) {
            (Self::Split(ours), Self::Split(theirs)) if env < theirs.len() => {
                ours[env].clone_from(&theirs[env]);
            }
            (Self::Twister(ours), Self::Twister(theirs)) if env < theirs.len() => {
                ours[env].clone_from(&theirs[env]);
            }
            _ => return false,
        }
        true
    }
}

fn all<S>(streams: impl Iterator<Item = S>, n: usize) -> Option<Vec<S>> {
    let mut all = Vec::new();
    all.try_reserve_exact(n).ok()?;
    all.extend(streams);
    Some(all)
}

/// Returns a generator that is seeded with the low 32 bits of `seed`.
#[expect(clippy::cast_possible_truncation, reason = "32 bits of seed")]
fn twister(seed: u64) -> Twister {
    Twister::new(seed as u32)
}

impl EnvStream<'_> {
    pub(crate) fn reborrow(&mut self) -> EnvStream<'_> {
        match self {
            Self::Split(split) => EnvStream::Split(split),
            Self::Twister(twister) => EnvStream::Twister(twister),
        }
    }

    /// Draws uniformly from `0..bound`; 0 for a bound of 0. With `Twister`, also 0 for a bound
    /// above `u32::MAX`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        match self {
            Self::Split(split) => split.below(bound),
            Self::Twister(twister) => {
                u32::try_from(bound).map_or(0, |bound| twister.below(bound).into())
            }
        }
    }

    /// Draws uniformly from `low` to `high`. Only rounding can yield `high`, unless both are equal.
    pub(crate) fn real(&mut self, low: f64, high: f64) -> f64 {
        let unit = match self {
            Self::Split(split) => split.unit(),
            Self::Twister(twister) => twister.unit(),
        };
        unit * (high - low) + low
    }
}

/// Position in a stream of the default generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// Begins the stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed.wrapping_add(GAMMA)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Draws uniformly from `0..bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // Rejects products whose low half is below the threshold; they would favour some numbers.
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

    /// Draws from `[0, 1)`, 53 random bits.
    fn unit(&mut self) -> f64 {
        const STEPS: f64 = 9_007_199_254_740_992.0; // 2 to the 53rd
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let bits = (self.next() >> 11) as f64;
        bits / STEPS
    }
}

pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(generator: Generator, seed: u64) -> EnvStreams {
        EnvStreams::new(generator, 1, |_| seed).unwrap()
    }

    #[test]
    fn more_streams_than_there_is_memory_for_are_none() {
        for generator in [Generator::SplitMix64, Generator::Mt19937] {
            assert!(EnvStreams::new(generator, usize::MAX / 64, |_| 0).is_none());
        }
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The first draws of the published code for seed 1234567.
        let mut stream = SplitMix { state: 1_234_567 };
        assert_eq!(
            [stream.next(), stream.next(), stream.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_below_a_bound_are_uniform_and_repeatable() {
        for generator in [Generator::SplitMix64, Generator::Mt19937] {
            let mut counts = [0_u32; 7];
            for seed in 0..70_000 {
                let draw = one(generator, seed).of(0).below(7);
                assert_eq!(one(generator, seed).of(0).below(7), draw);
                counts[usize::try_from(draw).unwrap()] += 1;
            }
            // 10,000 each; five standard deviations are 463.
            assert!(counts.iter().all(|count| count.abs_diff(10_000) < 463), "{counts:?}");
        }
        let mut stream = SplitMix::new(1);
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
        assert!(stream.below(u64::MAX) < u64::MAX);
    }

    #[test]
    fn real_numbers_fill_their_interval() {
        for generator in [Generator::SplitMix64, Generator::Mt19937] {
            let mut streams = one(generator, 3);
            let mut stream = streams.of(0);
            let draws: Vec<f64> = (0..10_000).map(|_| stream.real(2.0, 5.0)).collect();
            assert!(draws.iter().all(|draw| (2.0..5.0).contains(draw)));
            let mean = draws.iter().sum::<f64>() / 10_000.0;
            assert!((mean - 3.5).abs() < 0.05, "{mean}");
            assert!((stream.real(4.0, 4.0) - 4.0).abs() < f64::EPSILON);
        }
    }
}
