//! The masses of rows, `(priority + eps) ^ exponent`, as callers see them.

use backcast_layout::LEAF_ONE;

use super::importance_weights::real;

/// Returns the value of a leaf as a number: `(priority + eps) ^ exponent`.
pub(crate) fn q_of_leaf(leaf: u64) -> f64 {
    real(leaf) / real(LEAF_ONE)
}

/// Returns the value of the leaf of a number above 0, or `None` for another number. Numbers whose
/// value is above `most` count as `most`.
pub(super) fn leaf_of_q(q: f64, most: u64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within 1 and the limit"
    )]
    let value = (q * real(LEAF_ONE)).clamp(1.0, real(most)).round() as u64;
    (q.is_finite() && q > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_above_0_has_the_nearest_leaf_value_up_to_the_limit() {
        let most = 1 << 40;
        for (q, leaf) in [
            (1.0, Some(LEAF_ONE)),
            (0.5, Some(LEAF_ONE / 2)),
            (3.0, Some(3 * LEAF_ONE)),
            (1.4 / real(LEAF_ONE), Some(1)),
            (1.6 / real(LEAF_ONE), Some(2)),
            (f64::MIN_POSITIVE, Some(1)),
            (65_535.0, Some(65_535 * LEAF_ONE)),
            (65_536.0, Some(most)),
            (65_537.0, Some(most)),
            (f64::MAX, Some(most)),
            (0.0, None),
            (-1.0, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
        ] {
            assert_eq!(leaf_of_q(q, most), leaf, "{q}");
        }
        for leaf in [1, 5, LEAF_ONE, 3 * LEAF_ONE / 2, most] {
            assert_eq!(leaf_of_q(q_of_leaf(leaf), most), Some(leaf));
        }
        let quarter = q_of_leaf(LEAF_ONE / 4);
        assert!((quarter - 0.25).abs() < f64::EPSILON && q_of_leaf(0) <= 0.0, "{quarter}");
    }
}
