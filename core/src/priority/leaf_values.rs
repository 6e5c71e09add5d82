//! Converts priorities to the values of leaves.

use backcast_layout::{LEAF_ONE, TableSettings};

use super::power::raise;

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

    /// Returns the value of the leaf of each priority, from 0 up: at least one unit, or `None` for
    /// a priority above the limit. `scratch` is memory that calls reuse.
    pub(super) fn of<'a>(
        self,
        priorities: &[f64],
        scratch: &'a mut Vec<f64>,
    ) -> impl Iterator<Item = Option<u64>> + 'a {
        let TableSettings { exponent, eps, .. } = self.settings;
        scratch.clear();
        scratch.extend(priorities.iter().map(|priority| priority + eps));
        #[expect(clippy::float_cmp, reason = "the power of 1 is exact, and common")]
        if exponent != 1.0 {
            raise(scratch, exponent);
        }
        let most = self.most;
        scratch.iter().map(move |power| {
            let value = power * real(LEAF_ONE);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within 0 and the limit"
            )]
            (value <= real(most)).then(|| ((value + 0.5) as u64).clamp(1, most))
        })
    }

    /// Returns the largest priority that has a value.
    pub(super) fn limit(self) -> f64 {
        let TableSettings { exponent, eps, .. } = self.settings;
        (real(self.most) / real(LEAF_ONE)).powf(1.0 / exponent) - eps
    }
}

/// Returns a number of at most 2^53 exactly, and a larger one rounded.
#[expect(clippy::cast_precision_loss, reason = "leaves have at most 40 bits")]
pub(super) fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(values: LeafValues, priority: f64) -> Option<u64> {
        values.of(&[priority], &mut Vec::new()).next().unwrap()
    }

    #[test]
    fn values_are_powers_in_fixed_point_and_at_least_one_unit() {
        let settings = |exponent, eps| {
            let tracks_largest = false;
            LeafValues::new(TableSettings { exponent, eps, stride: 1, tracks_largest }, 1 << 40)
        };
        let of = |exponent, eps, priority| value(settings(exponent, eps), priority);
        assert_eq!(of(1.0, 0.0, 3.0), Some(3 * LEAF_ONE));
        assert_eq!(of(0.5, 0.0, 16.0), Some(4 * LEAF_ONE));
        assert_eq!(of(0.0, 0.0, 1e300), Some(LEAF_ONE), "uniform");
        assert_eq!(of(0.0, 0.0, 0.0), Some(LEAF_ONE), "uniform");
        assert_eq!(of(1.0, 0.0, 0.0), Some(1), "what is a transition can be drawn");
        assert_eq!(of(0.6, 0.0, 0.0), Some(1), "what is a transition can be drawn");
        assert_eq!(of(1.0, 0.5, 0.0), Some(LEAF_ONE / 2));
        assert_eq!(of(1.0, 0.0, 65_536.0), Some(1 << 40));
        for priority in [65_536.1, f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(of(1.0, 0.0, priority), None, "{priority}");
        }
        let half = settings(0.5, 1e-6);
        let limit = half.limit();
        assert!(value(half, limit).is_some() && value(half, limit * 1.01).is_none());
    }
}
