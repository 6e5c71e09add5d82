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
