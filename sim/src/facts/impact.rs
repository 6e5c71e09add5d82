//! Price impact of large orders, from runs with and without them.
//!
//! A parent order of `Q` shares is sent as equal market orders spread over `T` ticks. Its impact is
//! its sign times a difference of log mid-prices: of the run with the order, minus an equal run
//! without it.
//!
//! A buying and a selling run from the same moment need no third run: the impact is `(buy - sell) /
//! 2`. The difference also cancels chance effects that any order has.

use super::sample::{mean, std_error};
use super::subject::Subject;

/// Duration of a parent order, in ticks.
pub const METAORDER_TICKS: usize = 600;
/// Ticks between two market orders of a parent order.
pub const CHILD_EVERY: usize = 10;
/// Time after the end at which the remaining impact is measured, in units of [`METAORDER_TICKS`].
pub const DECAY_SPANS: usize = 3;
/// Sizes of parent orders, as fractions of the volume of [`METAORDER_TICKS`] ticks.
pub const PARTICIPATIONS: [f64; 6] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2];
/// Smallest size whose impact is also measured after the end. The impact of smaller orders is lost
/// in noise.
pub const DECAY_FROM: f64 = 0.05;

/// Half the difference of log mid-prices between a buying and a selling clone, at two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Value at the end of the parent order.
    pub at_end: f64,
    /// Value [`DECAY_SPANS`] durations after the end; NaN if not measured.
    pub later: f64,
}

/// Runs a buying and a selling clone of `market` with a parent order of `shares`. O(ticks).
///
/// With `follow`, also reads the prices [`DECAY_SPANS`] durations after the end. Returns `None` if
/// a book was one-sided when its price was read.
pub fn pair<S: Subject>(market: &S, shares: i32, follow: bool) -> Option<Pair> {
    let children = i64::try_from(METAORDER_TICKS / CHILD_EVERY).unwrap_or(1);
    let read = |sign: i32| -> Option<(f64, f64)> {
        let mut run = market.clone();
        let (mut child, mut sent) = (0, 0);
        for tick in 0..METAORDER_TICKS {
            let mut order = 0;
            if tick % CHILD_EVERY == 0 {
                // Rounds the running sum, so that the child orders add up exactly.
                child += 1;
                let due = i64::from(shares) * child / children;
                order = i32::try_from(due - sent).unwrap_or(0);
                sent = due;
            }
            run.step(sign * order);
        }
        let at_end = run.view().mid()?.ln();
        if !follow {
            return Some((at_end, f64::NAN));
        }
        for _ in 0..DECAY_SPANS * METAORDER_TICKS {
            run.step(0);
        }
        Some((at_end, run.view().mid()?.ln()))
    };
    let (buy, sell) = (read(1)?, read(-1)?);
    Some(Pair { at_end: (buy.0 - sell.0) / 2.0, later: (buy.1 - sell.1) / 2.0 })
}

/// Mean impact at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeImpact {
    /// Size of the parent order as a fraction of the mean volume over its duration.
    pub participation: f64,
    /// Mean impact at the end of the order, in units of the volatility over its duration.
    pub impact: f64,
    /// Standard error of `impact`.
    pub std_error: f64,
    /// Mean impact [`DECAY_SPANS`] durations after the end, in the same units; NaN if not measured.
    pub later: f64,
    /// Number of pairs that the means are taken over.
    pub pairs: usize,
}

impl SizeImpact {
    /// Averages pairs of one size. `volatility` is the standard deviation of log returns over
    /// [`METAORDER_TICKS`].
    #[must_use]
    pub fn of(participation: f64, pairs: &[Pair], volatility: f64) -> Self {
        let at_end: Vec<f64> = pairs.iter().map(|pair| pair.at_end / volatility).collect();
        let later: Vec<f64> = pairs.iter().map(|pair| pair.later / volatility).collect();
        Self {
            participation,
            impact: mean(&at_end),
            std_error: std_error(&at_end),
            later: mean(&later),
            pairs: pairs.len(),
        }
    }
}

/// Fitted power law `impact = prefactor · participation^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpactFit {
    /// Exponent `d`; one half is the square-root law.
    pub exponent: f64,
    /// Prefactor `Y`.
    pub prefactor: f64,
}

/// Fits the power law by least squares, weighting each size by the inverse square of its standard
/// error. O(sizes).
///
/// Fits values instead of logarithms, so that a size whose mean is negative by chance still counts
/// (Tóth et al. 2011 and Almgren et al. 2005 fit the same form). Searches the exponent in 0..=2.
/// Returns NaN for fewer than two sizes, or if a standard error is 0 or NaN.
#[must_use]
pub fn fit(sizes: &[SizeImpact]) -> ImpactFit {
    const STEPS: u32 = 2_000;
    let mut best = (f64::INFINITY, ImpactFit { exponent: f64::NAN, prefactor: f64::NAN });
    if sizes.len() < 2 {
        return best.1;
    }
    for step in 0..=STEPS {
        let exponent = 2.0 * f64::from(step) / f64::from(STEPS);
        let terms = || {
            sizes.iter().map(|size| {
                (size.participation.powf(exponent), size.impact, size.std_error.powi(-2))
            })
        };
        let cross: f64 = terms().map(|(x, y, weight)| weight * x * y).sum();
        let square: f64 = terms().map(|(x, _, weight)| weight * x * x).sum();
        let prefactor = cross / square;
        let error: f64 = terms().map(|(x, y, weight)| weight * (y - prefactor * x).powi(2)).sum();
        if error < best.0 {
            best = (error, ImpactFit { exponent, prefactor });
        }
    }
    best.1
}

/// Returns the fraction of the impact that is left after [`DECAY_SPANS`] durations.
///
/// Divides sums over the sizes, so that noise in a single size has little effect. Returns NaN if no
/// size was measured after its end.
#[must_use]
pub fn remaining(sizes: &[SizeImpact]) -> f64 {
    let followed = || sizes.iter().filter(|size| !size.later.is_nan());
    let later: f64 = followed().map(|size| size.later).sum();
    later / followed().map(|size| size.impact).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::super::subject::{Holding, KINDS, OutsideOrder, TickView};
    use super::*;

    /// Returns the impact of a made-up market with a known impact curve and normal noise.
    fn planted(exponent: f64, prefactor: f64, left: f64, pairs: usize) -> Vec<SizeImpact> {
        let mut random = SeriesRandom::new(12);
        PARTICIPATIONS
            .map(|participation| {
                let mut noisy = |level: f64| level + random.normal() / 2.0_f64.sqrt();
                let impact = prefactor * participation.powf(exponent);
                let pairs: Vec<Pair> = (0..pairs)
                    .map(|_| Pair { at_end: noisy(impact), later: noisy(left * impact) })
                    .collect();
                SizeImpact::of(participation, &pairs, 1.0)
            })
            .to_vec()
    }

    /// A market whose price is moved by orders alone. What they moved fades by `keep` each tick.
    #[derive(Clone)]
    struct Fading {
        keep: f64,
        moved: f64,
    }

    impl Subject for Fading {
        fn reset(&mut self, _seed: u64) {
            self.moved = 0.0;
        }

        fn step(&mut self, order: i32) {
            self.moved = self.keep * self.moved + f64::from(order);
        }

        fn view(&self) -> TickView {
            #[expect(clippy::cast_possible_truncation, reason = "a price in ticks")]
            let price = (1e8 * (1e-6 * self.moved).exp()).round() as i32;
            TickView { bid: Some(price), ask: Some(price), ..TickView::default() }
        }

        fn send(&mut self, _order: OutsideOrder) {}

        fn withdraw(&mut self) {}

        fn outside(&self) -> Holding {
            Holding::default()
        }

        fn holdings(&self) -> [Holding; KINDS] {
            [Holding::default(); KINDS]
        }

        fn observe(&self, _features: &mut Vec<f64>) {}

        fn append_signs(&self, _signs: &mut Vec<i8>) {}

        fn depth(&self, _distance: i32) -> [u64; 2] {
            [0; 2]
        }

        fn taker_fee(&self) -> f64 {
            0.0
        }

        fn state_hash(&self) -> u64 {
            self.moved.to_bits()
        }

        fn is_conserved(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_pair_sends_all_shares_and_reads_the_impact_after_three_durations() {
        let shares = 12_345;
        let lasting = pair(&Fading { keep: 1.0, moved: 0.0 }, shares, true).unwrap();
        let whole = 1e-6 * f64::from(shares);
        assert!((lasting.at_end - whole).abs() < 1e-7, "{lasting:?}");
        assert!((lasting.later - whole).abs() < 1e-7, "{lasting:?}");
        let keep = (-1.0 / METAORDER_TICKS as f64).exp();
        let fading = pair(&Fading { keep, moved: 0.0 }, shares, true).unwrap();
        // Sent evenly, what is there at the end has faded for half a duration on average.
        let at_end = whole * (1.0 - (-1.0_f64).exp());
        assert!((fading.at_end / at_end - 1.0).abs() < 0.01, "{fading:?}");
        let left = fading.later / fading.at_end;
        assert!((left - (-3.0_f64).exp()).abs() < 1e-4, "{left}");
        let short = pair(&Fading { keep, moved: 0.0 }, shares, false).unwrap();
        assert!(short.at_end.to_bits() == fading.at_end.to_bits() && short.later.is_nan());
    }

    #[test]
    fn a_planted_impact_curve_is_found_in_noise() {
        for (exponent, prefactor, left) in [(0.5, 1.0, 0.6), (1.0, 3.0, 1.0), (0.4, 0.6, 0.4)] {
            let sizes = planted(exponent, prefactor, left, 20_000);
            let fitted = fit(&sizes);
            assert!((fitted.exponent - exponent).abs() < 0.06, "{exponent}: {fitted:?}");
            assert!((fitted.prefactor / prefactor - 1.0).abs() < 0.15, "{prefactor}: {fitted:?}");
            assert!((remaining(&sizes) - left).abs() < 0.06, "{left}: {}", remaining(&sizes));
        }
    }

    #[test]
    fn a_threshold_in_demand_gives_an_exponent_outside_the_band() {
        // No impact: the fit is noise around a prefactor of zero.
        let fitted = fit(&planted(0.5, 0.0, 0.0, 20_000));
        assert!(fitted.prefactor.abs() < 0.1, "{fitted:?}");
    }

    #[test]
    fn too_few_sizes_fit_nothing() {
        assert!(fit(&[]).exponent.is_nan());
        assert!(remaining(&[]).is_nan());
    }
}
