//! Computes the importance weights of prioritised sampling.

use backcast_layout::raise_to_power;

/// Computes the importance weights of leaves, where the weight of the value `least` is 1 (Schaul et
/// al. 2016, section 3.4). Row `i` has probability `P(i) = leaf(i) / total`. Its weight is
/// `(N P(i)) ^ -beta`, where the number of rows `N` and the total cancel on division by the weight
/// of `least`. Smaller leaves have the weight 1 too. `scratch` is memory that calls reuse.
pub(crate) fn weights<'a>(
    least: u64,
    leaves: &[u64],
    beta: f64,
    scratch: &'a mut Vec<f64>,
) -> impl Iterator<Item = f32> + 'a {
    scratch.clear();
    scratch.extend(leaves.iter().map(|leaf| real(least) / real(*leaf.max(&least).max(&1))));
    raise_to_power(scratch, beta);
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 1")]
    scratch.iter().map(|weight| *weight as f32)
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
    fn weights_are_ratios_of_values() {
        for (least, leaf, beta, expected) in [
            (5, 5, 0.4, 1.0),
            (5, 20, 0.5, 0.5),
            (5, 20, 1.0, 0.25),
            (5, 20, 0.0, 1.0),
            (9, 5, 1.0, 1.0),
            (0, 7, 1.0, 0.0),
        ] {
            let weight = weights(least, &[leaf], beta, &mut Vec::new()).next().unwrap();
            assert!((weight - expected).abs() < 1e-7, "{least} {leaf} {beta}");
        }
        let weight = weights(3, &[3], 0.4, &mut Vec::new()).next();
        assert_eq!(weight, Some(1.0), "exactly");
    }
}
