//! The prices of a portfolio's day, and what it is worth at them.

use std::ops::Range;

use backcast_core::Wide;

use crate::{lines::LINE, observation::zeros, world::WorldView};

/// The prices of a day, by ticker, in lines.
#[derive(Clone, Copy)]
pub(crate) struct Prices<'a> {
    /// 0 without a row.
    pub(crate) open: &'a [f64],
    /// The last close known, 0 without one: the fill price, and the value in a gap.
    pub(crate) closes: &'a [f64],
    /// What a share is worth in the morning: the open, without one the last close.
    pub(crate) mornings: &'a [f64],
    /// Is it known that every close is a price?
    pub(crate) sound: bool,
}

/// What a share is worth in the morning.
#[inline]
pub(crate) fn in_the_morning(open: f64, close: f64) -> f64 {
    if open > 0.0 { open } else { close }
}

/// Prices of the day and closes known since an episode began, `[N, W]` each: where the table has others.
#[derive(Clone, Debug)]
pub(crate) struct OwnPrices {
    pub(crate) opens: Vec<f64>,
    pub(crate) closes: Vec<f64>,
    mornings: Vec<f64>,
}

impl OwnPrices {
    /// For so many numbers; `None` where memory does not suffice.
    pub(crate) fn new(all: usize) -> Option<Self> {
        Some(Self { opens: zeros(all)?, closes: zeros(all)?, mornings: zeros(all)? })
    }

    /// The prices of a portfolio on its `day`.
    #[inline]
    pub(crate) fn or_table<'a>(
        &'a self,
        world: &WorldView<'a>,
        as_in_table: bool,
        mine: Range<usize>,
        day: usize,
    ) -> Prices<'a> {
        match world.table {
            Some(table) if as_in_table => table.prices(day),
            _ => Prices {
                open: &self.opens[mine.clone()],
                closes: &self.closes[mine.clone()],
                mornings: &self.mornings[mine],
                sound: false,
            },
        }
    }

    /// Note the prices of a portfolio's day; of tickers without a row the closes stay.
    pub(crate) fn note(&mut self, today: Prices<'_>, mine: Range<usize>) {
        self.opens[mine.clone()].copy_from_slice(today.open);
        let prices = today.closes.iter().zip(today.open);
        for (close, (&new, &open)) in self.closes[mine.clone()].iter_mut().zip(prices) {
            *close = if open > 0.0 { new } else { *close };
        }
        self.note_mornings(mine);
    }

    /// Note what shares are worth in the morning, once opens and closes are known.
    pub(crate) fn note_mornings(&mut self, mine: Range<usize>) {
        let prices = self.opens[mine.clone()].iter().zip(&self.closes[mine.clone()]);
        for (morning, (&open, &close)) in self.mornings[mine].iter_mut().zip(prices) {
            *morning = in_the_morning(open, close);
        }
    }
}

/// Sums that run side by side, so that an addition need not wait for the one before: as many as two vectors hold.
const SUMS: usize = 8;

/// Values what is held at two prices of each ticker, in the morning and in the evening. Of whole lines.
///
/// Sums of every eighth ticker are taken apart and joined in the end: the same wherever it runs, and as a rule nearer to
/// the exact one than a sum in sequence.
pub(crate) struct Worth;

impl Wide<i32, f64, f64, (), (), (), (f64, f64)> for Worth {
    #[inline(always)]
    fn run(
        shares: &[i32],
        mornings: &[f64],
        evenings: &[f64],
        _: &mut [()],
        _: &mut [()],
        (): (),
    ) -> (f64, f64) {
        const { assert!(LINE.is_multiple_of(SUMS)) };
        debug_assert!(shares.len().is_multiple_of(LINE), "whole lines");
        let (mut morning, mut evening) = ([0.0; SUMS], [0.0; SUMS]);
        let (shares, _) = shares.as_chunks::<SUMS>();
        let prices = mornings.as_chunks::<SUMS>().0.iter().zip(evenings.as_chunks::<SUMS>().0);
        for (shares, (mornings, evenings)) in shares.iter().zip(prices) {
            for at in 0..SUMS {
                let held = f64::from(shares[at]);
                morning[at] += held * mornings[at];
                evening[at] += held * evenings[at];
            }
        }
        (joined(morning), joined(evening))
    }
}

#[inline(always)]
fn joined(sums: [f64; SUMS]) -> f64 {
    // Said one by one: a closure over an array is not compiled for wide vectors, but called.
    let pairs = [sums[0] + sums[4], sums[1] + sums[5], sums[2] + sums[6], sums[3] + sums[7]];
    (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
}

#[cfg(test)]
mod tests {
    use backcast_core::wide;

    use super::*;

    #[test]
    fn worth_is_summed_over_every_ticker_of_every_line() {
        for width in [LINE, 2 * LINE, 5 * LINE] {
            // Of whole numbers no sum is rounded, in whichever sequence.
            let shares: Vec<i32> = (1..).take(width).collect();
            let mornings: Vec<f64> = (0..width).map(|at| f64::from(1_u8 << (at % 7))).collect();
            let evenings: Vec<f64> = mornings.iter().rev().copied().collect();
            let (mut morning, mut evening) = (0.0, 0.0);
            for (at, &held) in shares.iter().enumerate() {
                morning += f64::from(held) * mornings[at];
                evening += f64::from(held) * evenings[at];
            }
            let found =
                wide(Worth, (&shares[..], &mornings[..], &evenings[..]), (&mut [], &mut []), ());
            assert_eq!(found, (morning, evening), "{width} tickers");
        }
    }
}
