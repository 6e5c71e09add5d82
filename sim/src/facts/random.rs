//! Random numbers and series with known statistics, for the tests of the battery.

/// `SplitMix64` generator (Steele, Lea, Flood 2014), independent of the market's own streams.
#[derive(Clone, Debug)]
pub(super) struct SeriesRandom(u64);

impl SeriesRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws uniformly from the open interval (0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.word() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Draws from the standard normal distribution (Box and Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub(super) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    pub(super) fn sign(&mut self) -> f64 {
        if self.word() & 1 == 0 { 1.0 } else { -1.0 }
    }

    /// Draws from the Pareto distribution with minimum 1 and tail exponent `alpha`.
    pub(super) fn pareto(&mut self, alpha: f64) -> f64 {
        self.uniform().powf(-1.0 / alpha)
    }

    pub(super) fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }

    /// Returns an AR(1) series with unit innovations. Its autocorrelation at lag k is `phi^k`.
    pub(super) fn ar1(&mut self, phi: f64, count: usize) -> Vec<f64> {
        let mut state = self.normal() / (1.0 - phi * phi).sqrt();
        (0..count)
            .map(|_| {
                state = phi * state + self.normal();
                state
            })
            .collect()
    }

    /// Returns a GARCH(1, 1) series with unit variance (Bollerslev 1986).
    pub(super) fn garch(&mut self, arch: f64, garch: f64, count: usize) -> Vec<f64> {
        let mut variance = 1.0;
        (0..count)
            .map(|_| {
                let shock = self.normal() * f64::sqrt(variance);
                variance = (1.0 - arch - garch) + arch * shock * shock + garch * variance;
                shock
            })
            .collect()
    }

    /// Returns fractional noise ARFIMA(0, d, 0), Granger and Joyeux 1980. Its autocorrelation falls
    /// as `lag^(2d - 1)`, and its detrended fluctuation exponent is `d + 1/2`.
    pub(super) fn fractional(&mut self, d: f64, count: usize) -> Vec<f64> {
        const MEMORY: usize = 2_000;
        let mut weights = vec![1.0; MEMORY];
        for k in 1..MEMORY {
            weights[k] = weights[k - 1] * (k as f64 - 1.0 + d) / k as f64;
        }
        let shocks = self.normals(count + MEMORY);
        shocks
            .windows(MEMORY)
            .skip(1)
            .map(|past| past.iter().rev().zip(&weights).map(|(x, w)| x * w).sum())
            .collect()
    }
}
