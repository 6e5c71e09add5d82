//! The prices of a portfolio's day, and what it is worth at them.

use std::ops::Range;

use backcast_core::Wide;

use crate::{lines::in_sequence, observation::zeros, world::WorldView};

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

/// Values what is held of each ticker, and of all together, at the open and at the close.
pub(crate) struct Worth;

impl Wide<i32, f64, f64, f64, f64, (), (f64, f64)> for Worth {
    #[inline(always)]
    fn run(
        shares: &[i32],
        prices: &[f64],
        closes: &[f64],
        mornings: &mut [f64],
        evenings: &mut [f64],
        (): (),
    ) -> (f64, f64) {
        let values = mornings.iter_mut().zip(&mut *evenings);
        let prices = shares.iter().zip(prices).zip(closes);
        for (((&held, &price), &close), (morning, evening)) in prices.zip(values) {
            let held = f64::from(held);
            *morning = held * price;
            *evening = held * close;
        }
        let (mut morning, mut evening) = (0.0, 0.0);
        in_sequence!(at of shares.len(), [mornings, evenings] {
            morning += mornings[at];
            evening += evenings[at];
        });
        (morning, evening)
    }
}
