//! Powers of many numbers at once, in operations that have vector forms. No library function is
//! called, so that equal numbers have equal powers on all machines.

use super::simd::{SimdKernel, run_simd};

/// Bits of an f64 below its exponent.
const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
/// 2 ^ [`FRACTION`]. The lowest bits of the sum of this and a smaller integer are that integer.
const INTEGERS: f64 = 1.0 / f64::EPSILON;
/// Number whose sum with a small number of either sign has the nearest integer in its lowest bits.
const ROUNDER: f64 = 1.5 * INTEGERS;

/// Replaces each finite number from 0 up by its power, with a relative error below 1e-13. A number
/// below the smallest normal one counts as 0. The power of 0 is 1 for the exponent 0, otherwise 0.
pub fn raise_to_power(numbers: &mut [f64], exponent: f64) {
    run_simd(Powers, (&[], &[], &[]), (numbers, &mut []), exponent);
}

/// Kernel for `run_simd` of [`raise_to_power`].
struct Powers;

impl SimdKernel<(), (), (), f64, (), f64, ()> for Powers {
    #[expect(clippy::inline_always, reason = "as the trait asks")]
    #[inline(always)]
    fn run(_: &[()], _: &[()], _: &[()], numbers: &mut [f64], _: &mut [()], exponent: f64) {
        let of_zero = if exponent == 0.0 { 1.0 } else { 0.0 };
        for number in numbers {
            let power = exp2(log2(*number) * exponent);
            *number = if *number < f64::MIN_POSITIVE { of_zero } else { power };
        }
    }
}

/// Returns the logarithm of a positive normal number.
#[inline(always)]
fn log2(number: f64) -> f64 {
    /// Coefficients of the series of `2 / ln 2 * atanh`, the highest first.
    const SERIES: [f64; 10] = {
        let (mut series, mut at, mut odd) = ([0.0; 10], 10, 1.0);
        while at > 0 {
            at -= 1;
            series[at] = 2.0 * std::f64::consts::LOG2_E / odd;
            odd += 2.0;
        }
        series
    };
    const LEAST: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    // number = 2 ^ exponent * mantissa, with a mantissa between the square roots of 1/2 and 2.
    let shifted = number.to_bits().wrapping_add(1_f64.to_bits() - LEAST);
    let mantissa = f64::from_bits((shifted & ((1 << FRACTION) - 1)) + LEAST);
    let exponent = f64::from_bits((shifted >> FRACTION) | INTEGERS.to_bits()) - (INTEGERS + 1023.0);
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = SERIES.iter().fold(0.0, |sum, coefficient| sum * square + coefficient);
    exponent + ratio * series
}

/// Returns the power of 2. Exponents below -1022 count as -1022; those from 1024 up give infinity.
#[inline(always)]
fn exp2(exponent: f64) -> f64 {
    /// Coefficients of the series of `exp`, the highest first.
    const SERIES: [f64; 13] = {
        let (mut series, mut at, mut factorial, mut factor) = ([1.0; 13], 12, 1.0, 1.0);
        while at > 0 {
            at -= 1;
            factorial *= factor;
            factor += 1.0;
            series[at] = 1.0 / factorial;
        }
        series
    };
    let exponent = if exponent > -1022.0 { exponent } else { -1022.0 };
    let exponent = if exponent < 1024.0 { exponent } else { 1024.0 };
    let rounded = exponent + ROUNDER;
    let rest = (exponent - (rounded - ROUNDER)) * std::f64::consts::LN_2;
    let power = SERIES.iter().fold(0.0, |sum, coefficient| sum * rest + coefficient);
    power * f64::from_bits((rounded.to_bits() << FRACTION).wrapping_add(1_f64.to_bits()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raised(number: f64, exponent: f64) -> f64 {
        let mut numbers = [number];
        raise_to_power(&mut numbers, exponent);
        numbers[0]
    }

    proptest! {
        #[test]
        fn powers_are_those_of_the_library(number in 1e-30..1e30, exponent in 0.0..4.0) {
            let (found, expected) = (raised(number, exponent), number.powf(exponent));
            prop_assert!((found / expected - 1.0).abs() < 1e-13, "{found} {expected}");
        }
    }

    #[test]
    fn edges_are_those_of_the_library() {
        for number in [0.0, 1.0, 2.0, f64::MIN_POSITIVE, f64::MAX] {
            for exponent in [0.0, 1e-3, 0.5, 1.0] {
                let (found, expected) = (raised(number, exponent), number.powf(exponent));
                let is_near = (found - expected).abs() <= 1e-13 * expected;
                // All powers above the limit of a leaf are alike.
                let is_huge = found > 1e300 && expected > 1e300;
                assert!(is_near || is_huge, "{number} {exponent} {found}");
            }
        }
        assert!(raised(1e-310, 0.001) < f64::MIN_POSITIVE, "below the smallest normal number");
    }

    #[test]
    fn every_number_of_a_slice_is_raised() {
        let mut numbers: Vec<f64> = (0..37_u8).map(f64::from).collect();
        raise_to_power(&mut numbers, 2.0);
        for (number, power) in (0..37_u8).zip(numbers) {
            assert!((power - f64::from(number).powi(2)).abs() < 1e-9, "{number} {power}");
        }
    }
}
