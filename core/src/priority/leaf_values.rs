//! Converts priorities to values of leaves, and leaves to importance weights.

use backcast_layout::{LEAF_ONE, TableSettings};

/// Conversion of priorities to the values of a table's leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LeafValues {
    settings: TableSettings,
    /// Largest value of a leaf.
    most: u64,
}

impl LeafValues {
    pub(super) fn new(settings: TableSettings, most: u64) -> Self {
        Self { settings, most }
    }

    /// Returns the value for a priority of at least 0. The value is at least one unit. Returns
    /// `None` for a priority above the limit.
    pub(super) fn of(self, priority: f64) -> Option<u64> {
        let TableSettings { exponent, eps } = self.settings;
        #[expect(clippy::float_cmp, reason = "the power of 1 is exact, and common")]
        let scaled = match priority + eps {
            sum if exponent == 1.0 => sum,
            sum => sum.powf(exponent),
        };
        let value = scaled * real(LEAF_ONE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within 0 and the limit"
        )]
        (value <= real(self.most)).then(|| (value.round() as u64).clamp(1, self.most))
    }

    /// Returns the largest priority that has a value.
    pub(super) fn limit(self) -> f64 {
        let TableSettings { exponent, eps } = self.settings;
        (real(self.most) / real(LEAF_ONE)).powf(1.0 / exponent) - eps
    }
}

/// Returns the importance weight of a leaf, where the weight of the value `least` is 1 (Schaul et
/// al. 2016, section 3.4). Row `i` has probability `P(i) = leaf(i) / total`. Its weight is
/// `(N P(i)) ^ -beta`, where the number of rows `N` and the total cancel on division by the weight
/// of `least`.
pub(crate) fn weight(least: u64, leaf: u64, beta: f64) -> f32 {
    if leaf <= least {
        return 1.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 1")]
    let weight = (real(least) / real(leaf)).powf(beta) as f32;
    weight
}

/// Returns a number of at most 2^53 exactly, and a larger one rounded.
#[expect(clippy::cast_precision_loss, reason = "leaves have at most 40 bits")]
pub(super) fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_powers_in_fixed_point_and_at_least_one_unit() {
        let values = |exponent, eps| LeafValues::new(TableSettings { exponent, eps }, 1 << 40);
        assert_eq!(values(1.0, 0.0).of(3.0), Some(3 * LEAF_ONE));
        assert_eq!(values(0.5, 0.0).of(16.0), Some(4 * LEAF_ONE));
        assert_eq!(values(0.0, 0.0).of(1e300), Some(LEAF_ONE), "uniform");
        assert_eq!(values(1.0, 0.0).of(0.0), Some(1), "what is a transition can be drawn");
        assert_eq!(values(1.0, 0.5).of(0.0), Some(LEAF_ONE / 2));
        assert_eq!(values(1.0, 0.0).of(65_536.0), Some(1 << 40));
        for priority in [65_536.1, f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(values(1.0, 0.0).of(priority), None, "{priority}");
        }
        let half = values(0.5, 1e-6);
        assert!(half.of(half.limit()).is_some() && half.of(half.limit() * 1.01).is_none());
    }

    #[test]
    fn weights_are_ratios_of_values() {
        for (least, leaf, beta, expected) in [
            (5, 5, 0.4, 1.0),
            (5, 20, 0.5, 0.5),
            (5, 20, 1.0, 0.25),
            (5, 20, 0.0, 1.0),
            (9, 5, 1.0, 1.0),
            (0, 7, 1.0, 0.0),
        ] {
            assert!((weight(least, leaf, beta) - expected).abs() < 1e-7, "{least} {leaf} {beta}");
        }
    }
}
