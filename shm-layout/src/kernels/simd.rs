//! Loops that are compiled twice: for every processor, and for those with AVX2.
//!
//! A wheel has to run on every x86-64, whose vectors have 16 bytes; nearly all in use have vectors
//! of 32. Results are bit for bit the same. A vector operation is the same operation on each
//! number, and the compiler may neither fuse a product and a sum nor reorder sums.

/// Loops that gain from wide vectors: over three slices that are read and two that are written.
/// `with` is any other argument.
pub trait SimdKernel<A, B, C, D, E, With, Output> {
    /// Runs the loops.
    ///
    /// Must be `#[inline(always)]`, as must the functions with loops that it calls: a function that
    /// is not inlined stays compiled for every processor. The slices are arguments and not fields,
    /// so that the compiler knows that they do not overlap.
    fn run(r1: &[A], r2: &[B], r3: &[C], w1: &mut [D], w2: &mut [E], with: With) -> Output;
}

/// Runs `W` as compiled for AVX2 where this processor has it.
#[inline]
pub fn run_simd<W, A, B, C, D, E, With, Output>(
    _work: W,
    (r1, r2, r3): (&[A], &[B], &[C]),
    (w1, w2): (&mut [D], &mut [E]),
    with: With,
) -> Output
where
    W: SimdKernel<A, B, C, D, E, With, Output>,
{
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[target_feature(enable = "avx2")]
        fn with_avx2<W, A, B, C, D, E, With, Output>(
            r1: &[A],
            r2: &[B],
            r3: &[C],
            w1: &mut [D],
            w2: &mut [E],
            with: With,
        ) -> Output
        where
            W: SimdKernel<A, B, C, D, E, With, Output>,
        {
            W::run(r1, r2, r3, w1, w2, with)
        }
        // A load and a test: the answer is cached.
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as was just checked.
            return unsafe {
                with_avx2::<W, A, B, C, D, E, With, Output>(r1, r2, r3, w1, w2, with)
            };
        }
    }
    as_everywhere::<W, A, B, C, D, E, With, Output>(r1, r2, r3, w1, w2, with)
}

#[inline(never)]
fn as_everywhere<W, A, B, C, D, E, With, Output>(
    r1: &[A],
    r2: &[B],
    r3: &[C],
    w1: &mut [D],
    w2: &mut [E],
    with: With,
) -> Output
where
    W: SimdKernel<A, B, C, D, E, With, Output>,
{
    W::run(r1, r2, r3, w1, w2, with)
}

/// Truncates a number like `as i32`, in operations that have vector forms. Numbers out of range
/// saturate, and NaN becomes `i32::MIN`.
#[inline(always)]
#[must_use]
pub fn trunc_to_i32(value: f64) -> i32 {
    const LEAST: f64 = i32::MIN as f64;
    const MOST: f64 = i32::MAX as f64;
    let value = if value > LEAST { value } else { LEAST };
    let value = if value < MOST { value } else { MOST };
    // SAFETY: `value` is not NaN, and lies between the least and the largest `i32`.
    unsafe { value.to_int_unchecked() }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sums;

    impl SimdKernel<f64, (), (), f64, (), f64, f64> for Sums {
        #[expect(clippy::inline_always, reason = "as the trait asks")]
        #[inline(always)]
        fn run(
            values: &[f64],
            _: &[()],
            _: &[()],
            products: &mut [f64],
            _: &mut [()],
            by: f64,
        ) -> f64 {
            let mut sum = 0.0;
            for (product, value) in products.iter_mut().zip(values) {
                *product = value * by + 0.3;
                sum += *product;
            }
            sum
        }
    }

    #[test]
    fn wide_vectors_change_no_bit() {
        let values: Vec<f64> = (0..101_u32).map(|n| (f64::from(n) * 0.37).sin()).collect();
        let (mut products, mut plain) = (vec![0.0; 101], vec![0.0; 101]);
        let sum = run_simd(Sums, (&values, &[], &[]), (&mut products, &mut []), 1.1);
        let plain_sum = Sums::run(&values, &[], &[], &mut plain, &mut [], 1.1);
        assert_eq!(sum.to_bits(), plain_sum.to_bits());
        let bits = |of: &[f64]| of.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&products), bits(&plain));
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "what it is compared with")]
    fn whole_parts_are_those_of_a_cast() {
        let edges = [0.0, -0.0, 0.999, -0.999, 7.5, -7.5, 2_147_483_646.9, -2_147_483_647.9];
        let beyond = [2_147_483_647.0, 2_147_483_648.0, -2_147_483_648.0, 1e300, -1e300];
        for value in edges.into_iter().chain(beyond).chain([f64::INFINITY, f64::NEG_INFINITY]) {
            assert_eq!(trunc_to_i32(value), value as i32, "{value}");
        }
        assert_eq!(trunc_to_i32(f64::NAN), i32::MIN);
    }
}
