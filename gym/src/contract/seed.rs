//! Seeds of a reset: one for all sub-environments or one for each.

use super::{
    error::{EpisodeError, check_length},
    stream::{GAMMA, mix},
};

/// An odd number far from `GAMMA`: separates the streams of neighbouring sub-environments.
const ENV_GAMMA: u64 = 0xD1B5_4A32_D192_ED03;

/// Random streams of the sub-environments at a reset.
///
/// A sub-environment's stream depends only on the seed and on its number. The count of
/// sub-environments and the draws of others do not change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetSeed<'a> {
    /// Continues every stream. A stream that was never seeded began with the configured seed, or
    /// with a random one. The default.
    #[default]
    Keep,
    /// Sub-environment `i` starts the stream of seed `s + i` (wrapping), as in Gymnasium.
    One(u64),
    /// Sub-environment `i` starts stream `i` of seed `s`. Stream 0 is that of `s` itself; the
    /// others have hashed seeds.
    Spread(u64),
    /// One entry for each sub-environment: a seed starts its stream, `None` continues the present
    /// one.
    Each(&'a [Option<u64>]),
    /// Like `Each`, but `None` starts a stream of the second field, as in `Spread`.
    EachOrSpread(&'a [Option<u64>], u64),
}

impl ResetSeed<'_> {
    /// Refuses a list of another length than `num_envs`.
    pub(crate) fn check(&self, num_envs: usize) -> Result<(), EpisodeError> {
        match self {
            Self::Each(seeds) | Self::EachOrSpread(seeds, _) => {
                check_length("seed", num_envs, Some(seeds.len()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the seed of sub-environment `env`; `None` keeps its stream.
    pub(crate) fn of_env(&self, env: usize) -> Option<u64> {
        match *self {
            Self::Keep => None,
            Self::One(seed) => Some(seed.wrapping_add(env as u64)),
            Self::Spread(seed) => Some(spread(seed, env as u64)),
            Self::Each(seeds) => seeds[env],
            Self::EachOrSpread(seeds, seed) => {
                seeds[env].or_else(|| Some(spread(seed, env as u64)))
            }
        }
    }
}

/// Returns the seed of sub-environment `env` among those that share one seed.
///
/// The first one has `seed` itself. The others have a hash of the seed and their number, so that
/// neighbouring seeds do not share streams.
pub(crate) fn spread(seed: u64, env: u64) -> u64 {
    if env == 0 {
        seed
    } else {
        mix(mix(seed.wrapping_add(GAMMA)) ^ mix(env.wrapping_mul(ENV_GAMMA)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::spread;

    #[test]
    fn no_two_environments_of_neighbouring_seeds_share_a_stream() {
        let mut seen = HashSet::new();
        for seed in 0..500 {
            for env in 0..64 {
                assert!(seen.insert(spread(seed, env)), "seed {seed}, environment {env}");
            }
            assert_eq!(spread(seed, 0), seed);
        }
    }
}
