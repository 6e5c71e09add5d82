//! Random streams: one per agent and per process, derived from the episode seed.
//!
//! A stream is `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014, figure 17): draw `k` is a hash of
//! `start + k * GAMMA`. The start is a hash of (seed, role, index), so a stream depends on nothing
//! but those three numbers. Another agent, symbol or thread never shifts it.

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Owner of a stream: the first part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum StreamRole {
    /// Fundamental value of one symbol.
    Fundamental = 1,
    /// News of one symbol.
    News = 2,
    /// News of all symbols.
    MarketNews = 3,
    /// Draws of one background agent.
    Agent = 4,
    /// Order in which the agents of one tick act.
    Turn = 5,
    /// Noise on a revealed fundamental.
    Analyst = 6,
    /// Draws of one user agent.
    User = 7,
    /// Draws of programs built on the crate.
    Other = 8,
    /// Order in which the requests of slots arrive in one tick.
    SlotTurn = 9,
    /// Common error of the makers about the value of one symbol.
    Consensus = 10,
    /// Part of the fundamental values that all symbols have in common.
    Common = 11,
}

/// Mixes 64 bits (the finaliser of `SplitMix64`); a bijection.
#[must_use]
#[inline]
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Returns the key of stream (`seed`, `role`, `index`).
#[must_use]
#[inline]
pub(crate) const fn key(seed: u64, role: StreamRole, index: u64) -> u64 {
    let role = mix(seed.wrapping_add(GAMMA)) ^ mix((role as u64).wrapping_mul(GAMMA));
    mix(mix(role) ^ mix(index.wrapping_mul(0xD1B5_4A32_D192_ED03).wrapping_add(1)))
}

/// Position in one stream; 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomStream {
    state: u64,
}

impl RandomStream {
    /// Returns the start of stream (`seed`, `role`, `index`).
    #[must_use]
    pub const fn new(seed: u64, role: StreamRole, index: u64) -> Self {
        Self { state: key(seed, role, index) }
    }

    /// Returns the internal position, for hashes of a market's state.
    #[must_use]
    pub const fn state(self) -> u64 {
        self.state
    }

    /// Draws 64 uniform bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Draws uniformly from the open interval (0, 1), on a grid of 2^-52.
    ///
    /// The half step keeps both ends out: `52 bits + 0.5` is exact in an `f64`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0)
    }

    /// Draws uniformly between `low` and `high`.
    #[inline]
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws an integer below `bound`; 0 for a bound of 0. Each probability is off by less than
    /// 2^-32.
    #[inline]
    pub const fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * bound as u64) >> 32) as u32
    }

    /// Returns true with probability `chance`.
    #[inline]
    pub fn chance(&mut self, chance: f64) -> bool {
        self.unit() < chance
    }

    /// Draws from the exponential distribution with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Draws an exponential wait, rounded up to whole ticks. Its mean is close to `mean`, which
    /// must be at least 1.
    #[inline]
    pub fn wait(&mut self, mean: f64) -> u64 {
        let wait = self.exponential((mean - 0.5).max(0.1)).clamp(1.0, 1e9);
        // Rounds up without `f64::ceil`, which compiles to a call in most builds.
        let whole = wait as i64;
        (whole + i64::from(wait > whole as f64)) as u64
    }

    /// Draws from the standard normal distribution, by inversion.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        inverse_normal(self.unit())
    }

    /// Draws from the log-normal distribution with the given median and sigma of the logarithm.
    #[inline]
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// Draws from the Pareto distribution with the given minimum and tail exponent.
    #[inline]
    pub fn pareto(&mut self, minimum: f64, exponent: f64) -> f64 {
        minimum * self.unit().powf(-1.0 / exponent)
    }
}

/// Returns the quantile of the standard normal distribution at `p` in (0, 1).
///
/// Rational approximation by P. J. Acklam (2003); relative error below 1.2e-9.
fn inverse_normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    const TAIL: f64 = 0.024_25;
    let horner = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if (TAIL..=1.0 - TAIL).contains(&p) {
        let q = p - 0.5;
        let r = q * q;
        return horner(&A, r) * q / (horner(&B, r) * r + 1.0);
    }
    let (tail, sign) = if p < 0.5 { (p, 1.0) } else { (1.0 - p, -1.0) };
    let q = (-2.0 * tail.ln()).sqrt();
    sign * horner(&C, q) / (horner(&D, q) * q + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        const COUNT: f64 = 200_000.0;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..200_000 {
            let x = draw();
            sum += x;
            squares += x * x;
        }
        (sum / COUNT, squares / COUNT - (sum / COUNT).powi(2))
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let mut stream = RandomStream::new(3, StreamRole::Other, 0);
        let (mean, variance) = moments(|| stream.normal());
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        let (mean, variance) = moments(|| stream.unit());
        assert!((mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.002);
        let (mean, _) = moments(|| stream.exponential(4.0));
        assert!((mean - 4.0).abs() < 0.05, "{mean}");
        let (mean, _) = moments(|| stream.wait(6.0) as f64);
        assert!((mean - 6.0).abs() < 0.1, "{mean}");
        let (mean, _) = moments(|| f64::from(stream.below(10)));
        assert!((mean - 4.5).abs() < 0.03, "{mean}");
    }

    #[test]
    fn quantiles_are_the_known_ones() {
        for (p, x) in
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.001, -3.090_232_306), (0.01, -2.326_347_874)]
        {
            assert!((inverse_normal(p) - x).abs() < 1e-7, "{p}");
        }
    }

    #[test]
    fn the_ends_of_the_unit_interval_are_never_drawn() {
        let low = (0_u64 as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0);
        let high = (((u64::MAX >> 12) as f64) + 0.5) * (1.0 / 4_503_599_627_370_496.0);
        assert!(low > 0.0 && high < 1.0);
        assert!(inverse_normal(low).is_finite() && inverse_normal(high).is_finite());
    }

    #[test]
    fn streams_of_neighbouring_keys_differ() {
        let mut starts: Vec<u64> = (0..20_u64)
            .flat_map(|seed| (0..20).map(move |index| key(seed, StreamRole::Agent, index)))
            .chain((0..20).map(|index| key(0, StreamRole::News, index)))
            .collect();
        let count = starts.len();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), count);
    }
}
