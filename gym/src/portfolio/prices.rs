//! Prices of one day and the value of a portfolio at them.

use backcast_core::plumbing::SimdKernel;

use super::lines::LINE;

/// Prices of a day by ticker, padded to lines.
#[derive(Clone, Copy)]
pub(crate) struct Prices<'a> {
    /// Open; 0 without a row.
    pub(crate) open: &'a [f64],
    /// Last known close; 0 if there is none. Fill price with [`Bidding::Default`](crate::Bidding),
    /// and value of a ticker that has no row on the day.
    pub(crate) closes: &'a [f64],
    /// Value of a share at the open: the open, or the last close without a row.
    pub(crate) at_open: &'a [f64],
    /// Whether all closes are known to be positive.
    pub(crate) sound: bool,
}

/// Returns the value of a share at the open.
#[inline]
pub(crate) fn value_at_open(open: f64, close: f64) -> f64 {
    if open > 0.0 { open } else { close }
}

/// Number of independent partial sums, which hide the latency of an addition: two vectors of 32
/// bytes.
const SUMS: usize = 8;

/// Kernel that values holdings at the open and at the close. Lengths are whole lines.
///
/// Every eighth ticker goes to the same partial sum, so that the result does not depend on the
/// vector width of the machine.
pub(crate) struct ValueHoldings;

impl<U: Copy + Into<f64>> SimdKernel<U, f64, f64, (), (), (), (f64, f64)> for ValueHoldings {
    #[inline(always)]
    fn run(
        shares: &[U],
        opens: &[f64],
        closes: &[f64],
        _: &mut [()],
        _: &mut [()],
        (): (),
    ) -> (f64, f64) {
        const { assert!(LINE.is_multiple_of(SUMS)) };
        debug_assert!(shares.len().is_multiple_of(LINE), "whole lines");
        let (mut at_open, mut at_close) = ([0.0; SUMS], [0.0; SUMS]);
        let (shares, _) = shares.as_chunks::<SUMS>();
        let prices = opens.as_chunks::<SUMS>().0.iter().zip(closes.as_chunks::<SUMS>().0);
        for (shares, (opens, closes)) in shares.iter().zip(prices) {
            for at in 0..SUMS {
                let held: f64 = shares[at].into();
                at_open[at] += held * opens[at];
                at_close[at] += held * closes[at];
            }
        }
        (joined(at_open), joined(at_close))
    }
}

#[inline(always)]
fn joined(sums: [f64; SUMS]) -> f64 {
    // Adds without a closure over an array, which would not be inlined into the wide variant.
    let pairs = [sums[0] + sums[4], sums[1] + sums[5], sums[2] + sums[6], sums[3] + sums[7]];
    (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
}

#[cfg(test)]
mod tests {
    use backcast_core::plumbing::run_simd;

    use super::*;

    #[test]
    fn holdings_of_every_ticker_of_every_line_are_valued() {
        for width in [LINE, 2 * LINE, 5 * LINE] {
            // Integer sums are exact in any order.
            let shares: Vec<i32> = (1..).take(width).collect();
            let opens: Vec<f64> = (0..width).map(|at| f64::from(1_u8 << (at % 7))).collect();
            let closes: Vec<f64> = opens.iter().rev().copied().collect();
            let (mut at_open, mut at_close) = (0.0, 0.0);
            for (at, &held) in shares.iter().enumerate() {
                at_open += f64::from(held) * opens[at];
                at_close += f64::from(held) * closes[at];
            }
            let found = run_simd(
                ValueHoldings,
                (&shares[..], &opens[..], &closes[..]),
                (&mut [], &mut []),
                (),
            );
            assert_eq!(found, (at_open, at_close), "{width} tickers");
        }
    }
}
