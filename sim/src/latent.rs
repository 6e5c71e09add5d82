//! Latent order book: the price around which makers quote.
//!
//! Makers share an opinion of the value, the *consensus*. Orders that trade on arrival displace the
//! price from it: they consume latent orders, whose density grows with the distance from the
//! consensus, and which recover exponentially. See Donier, Bonart, Mastromatteo and Bouchaud, *A
//! fully consistent, minimal model for non-linear market impact* (2015), for the linear density;
//! Alfonsi and Schied, *Optimal trade execution and absence of price manipulations in limit order
//! book models* (2010), for the recovery of consumed volume, under which no round trip gains on
//! average.

use crate::{config::LatentConfig, rng::RandomStream};

/// Common error of the makers about the logarithm of the value: an Ornstein-Uhlenbeck process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consensus {
    stream: RandomStream,
    error: f64,
}

impl Consensus {
    pub(crate) fn reset(&mut self, mut stream: RandomStream, config: &LatentConfig) {
        self.error = config.error_sd * stream.normal();
        self.stream = stream;
    }

    pub(crate) const fn reseed(&mut self, stream: RandomStream) {
        self.stream = stream;
    }

    #[inline]
    pub(crate) fn step(&mut self, config: &LatentConfig) {
        if config.is_on() {
            let keep = 1.0 - 1.0 / config.error_ticks;
            let sd = config.error_sd * (1.0 - keep * keep).sqrt();
            self.error = keep * self.error + sd * self.stream.normal();
        }
    }

    /// Returns the makers' common opinion of `value`.
    pub(crate) fn of(&self, value: f64) -> f64 {
        value * self.error.exp()
    }

    pub(crate) fn digest(&self, mut word: impl FnMut(u64)) {
        word(self.stream.state());
        word(self.error.to_bits());
    }
}

impl LatentConfig {
    /// Returns the displacement of the price, in ticks, by `consumed` shares of latent orders.
    ///
    /// Inverts `consumed = depth * y + slope * y^2 / 2`.
    #[inline]
    pub(crate) fn displacement(&self, consumed: f64) -> f64 {
        let size = consumed.abs();
        // Positive root of the quadratic, in the form that does not cancel for small sizes.
        let root = (self.depth * self.depth + 2.0 * self.slope * size).sqrt();
        (2.0 * size / (self.depth + root)).copysign(consumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::StreamRole;

    #[test]
    fn a_displacement_consumes_the_density_up_to_it_and_comes_back_with_it() {
        for (depth, slope) in [(40.0, 80.0), (1.0, 1_000.0), (500.0, 0.0)] {
            let latent = LatentConfig { depth, slope, ..LatentConfig::OFF };
            let mut last = 0.0;
            for consumed in [0.0, 1e-6, 1.0, 60.0, 1_200.0, 1e6] {
                let y = latent.displacement(consumed);
                let inverse = depth * y + 0.5 * slope * y * y;
                assert!((inverse - consumed).abs() <= 1e-9 * consumed, "{consumed}: {inverse}");
                assert_eq!(latent.displacement(-consumed).to_bits(), (-y).to_bits());
                assert!(y >= last);
                last = y;
            }
        }
    }

    #[test]
    fn an_impact_is_linear_at_first_and_a_square_root_later() {
        let latent = LatentConfig { depth: 40.0, slope: 80.0, ..LatentConfig::OFF };
        let ratio = |shares: f64| latent.displacement(4.0 * shares) / latent.displacement(shares);
        assert!((ratio(0.01) - 4.0).abs() < 0.01, "{}", ratio(0.01));
        assert!((ratio(1e6) - 2.0).abs() < 0.01, "{}", ratio(1e6));
    }

    /// 24/25 and 7/25 are a cosine and a sine, so that the process below has the spread 1.
    #[test]
    fn an_error_forgets_at_its_rate_and_keeps_its_spread() {
        let latent =
            LatentConfig { depth: 1.0, error_sd: 0.02, error_ticks: 25.0, ..LatentConfig::OFF };
        let mut stream = RandomStream::new(3, StreamRole::Consensus, 0);
        let mut consensus = Consensus::default();
        consensus.reset(stream, &latent);
        let mut unit = stream.normal();
        let (mut squares, ticks) = (0.0, 50_000);
        for tick in 0..ticks {
            consensus.step(&latent);
            unit = 0.96 * unit + 0.28 * stream.normal();
            let error = (consensus.of(50.0) / 50.0).ln();
            assert!((error - 0.02 * unit).abs() < 1e-12, "{tick}: {error}");
            squares += error * error;
        }
        let spread = (squares / f64::from(ticks)).sqrt();
        assert!((spread / 0.02 - 1.0).abs() < 0.05, "{spread}");
        let before = consensus.of(1.0);
        consensus.step(&LatentConfig { depth: 0.0, ..latent });
        assert_eq!(consensus.of(1.0).to_bits(), before.to_bits(), "without a latent book");
    }
}
