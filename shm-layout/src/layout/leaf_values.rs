//! Converts priorities to the values of leaves.

use crate::kernels::power::raise_to_power;

/// Fractional bits of a leaf: the leaf of priority 1 is `1 << 24`.
pub const LEAF_ONE: u64 = 1 << 24;
/// Priority 1 as a table keeps it.
pub const KEPT_ONE: u64 = 1_f64.to_bits();
/// Largest kept priority.
pub const KEPT_MOST: u64 = f64::MAX.to_bits();
/// Kept priorities that are converted at a time.
const TOGETHER: usize = 256;

/// Conversion of priorities to the values of a table's leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafValues {
    /// Exponent of priorities.
    pub exponent: f64,
    /// Number added to priorities before the exponent.
    pub eps: f64,
    /// Largest value of a leaf.
    pub most: u64,
}

impl LeafValues {
    /// Returns the value of the leaf of each priority, from 0 up: at least one unit, or `None` for
    /// a priority above the limit. `scratch` is memory that calls reuse.
    pub fn of<'a>(
        self,
        priorities: &[f64],
        scratch: &'a mut Vec<f64>,
    ) -> impl Iterator<Item = Option<u64>> + 'a {
        let Self { exponent, eps, most } = self;
        scratch.clear();
        scratch.extend(priorities.iter().map(|priority| priority + eps));
        raise_unless_one(scratch, exponent);
        scratch.iter().map(move |power| {
            (power * real(LEAF_ONE) <= real(most)).then(|| value_of(*power, most))
        })
    }

    /// Returns the largest priority that has a value.
    #[must_use]
    pub fn limit(self) -> f64 {
        let Self { exponent, eps, most } = self;
        (real(most) / real(LEAF_ONE)).powf(1.0 / exponent) - eps
    }

    /// Returns the word that a table keeps of a priority: the bits of its sum with eps, which have
    /// the order of the sums. At least 1, since 0 stands for no priority.
    #[must_use]
    pub fn kept(self, priority: f64) -> u64 {
        (priority + self.eps).to_bits().max(1)
    }

    /// Returns whether a [kept](Self::kept) priority has a value.
    #[must_use]
    pub fn has_value(self, kept: u64) -> bool {
        let mut power = [f64::from_bits(kept)];
        raise_unless_one(&mut power, self.exponent);
        power[0] * real(LEAF_ONE) <= real(self.most)
    }

    /// Replaces [kept](Self::kept) priorities by the values of their leaves, and 0 by 0. Those
    /// without a value give the largest one.
    pub fn replace(self, kept: &mut [u64]) {
        let mut powers = [0.0; TOGETHER];
        for kept in kept.chunks_mut(TOGETHER) {
            let Some(powers) = powers.get_mut(..kept.len()) else { continue };
            for (power, kept) in powers.iter_mut().zip(kept.iter()) {
                *power = f64::from_bits(*kept);
            }
            raise_unless_one(powers, self.exponent);
            for (kept, power) in kept.iter_mut().zip(powers) {
                *kept = if *kept == 0 { 0 } else { value_of(*power, self.most) };
            }
        }
    }
}

fn raise_unless_one(numbers: &mut [f64], exponent: f64) {
    #[expect(clippy::float_cmp, reason = "the power of 1 is exact, and common")]
    if exponent != 1.0 {
        raise_to_power(numbers, exponent);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within 0 and the limit, or limited"
)]
fn value_of(power: f64, most: u64) -> u64 {
    ((power * real(LEAF_ONE) + 0.5) as u64).clamp(1, most)
}

#[expect(clippy::cast_precision_loss, reason = "leaves have at most 40 bits")]
fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(values: LeafValues, priority: f64) -> Option<u64> {
        let found = values.of(&[priority], &mut Vec::new()).next().unwrap();
        let kept = values.kept(priority);
        let mut replaced = [0, kept];
        values.replace(&mut replaced);
        // Kept priorities give the same leaves.
        if priority.is_finite() {
            assert_eq!(replaced, [0, found.unwrap_or(values.most)], "{priority}");
            assert_eq!(values.has_value(kept), found.is_some(), "{priority}");
        }
        found
    }

    #[test]
    fn values_are_powers_in_fixed_point_and_at_least_one_unit() {
        let settings = |exponent, eps| LeafValues { exponent, eps, most: 1 << 40 };
        let of = |exponent, eps, priority| value(settings(exponent, eps), priority);
        assert_eq!(of(1.0, 0.0, 3.0), Some(3 * LEAF_ONE));
        assert_eq!(of(0.5, 0.0, 16.0), Some(4 * LEAF_ONE));
        assert_eq!(of(0.0, 0.0, 1e300), Some(LEAF_ONE), "uniform");
        assert_eq!(of(0.0, 0.0, 0.0), Some(LEAF_ONE), "uniform");
        assert_eq!(of(1.0, 0.0, 0.0), Some(1), "what is a transition can be drawn");
        assert_eq!(of(0.6, 0.0, 0.0), Some(1), "what is a transition can be drawn");
        assert_eq!(of(0.01, 0.0, 0.0), Some(1), "what is a transition can be drawn");
        assert_eq!(of(1.0, 0.5, 0.0), Some(LEAF_ONE / 2));
        assert_eq!(of(1.0, 0.0, 65_536.0), Some(1 << 40));
        for priority in [65_536.1, f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(of(1.0, 0.0, priority), None, "{priority}");
        }
        let half = settings(0.5, 1e-6);
        let limit = half.limit();
        assert!(value(half, limit).is_some() && value(half, limit * 1.01).is_none());
    }

    #[test]
    fn any_words_give_leaves_within_the_limits() {
        for exponent in [0.0, 0.5, 1.0, 9.0] {
            let values = LeafValues { exponent, eps: 0.0, most: 1 << 30 };
            let words = [1, 1 << 63, u64::MAX, f64::NAN.to_bits(), f64::INFINITY.to_bits()];
            let mut found: Vec<u64> = words.into_iter().cycle().take(700).collect();
            values.replace(&mut found);
            assert!(found.iter().all(|leaf| (1..=1 << 30).contains(leaf)), "{exponent}");
        }
    }
}
