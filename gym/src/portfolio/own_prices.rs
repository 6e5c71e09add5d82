//! Prices of portfolios that cannot read them from the shared table.

use std::ops::Range;

use super::{
    prices::{Prices, value_at_open},
    table::DayTable,
};
use crate::contract::zeros;

/// Opens of the day, last known closes, and values of a share at the open, `[N, W]` each.
#[derive(Clone, Debug)]
pub(crate) struct OwnPrices {
    pub(crate) opens: Vec<f64>,
    pub(crate) closes: Vec<f64>,
    at_open: Vec<f64>,
}

impl OwnPrices {
    /// Returns buffers of `all` elements, or `None` where memory does not suffice.
    pub(crate) fn new(all: usize) -> Option<Self> {
        Some(Self { opens: zeros(all)?, closes: zeros(all)?, at_open: zeros(all)? })
    }

    /// Returns the prices of a portfolio on `day`, from the table if there is one and `uses_table`
    /// is true.
    #[inline]
    pub(crate) fn or_table<'a>(
        &'a self,
        table: Option<&'a DayTable>,
        uses_table: bool,
        mine: Range<usize>,
        day: usize,
    ) -> Prices<'a> {
        match table {
            Some(table) if uses_table => table.prices(day),
            _ => Prices {
                open: &self.opens[mine.clone()],
                closes: &self.closes[mine.clone()],
                at_open: &self.at_open[mine],
                sound: false,
            },
        }
    }

    /// Stores the prices of a portfolio's day; tickers without a row keep their close.
    pub(crate) fn enter(&mut self, today: Prices<'_>, mine: Range<usize>) {
        self.opens[mine.clone()].copy_from_slice(today.open);
        let prices = today.closes.iter().zip(today.open);
        for (close, (&new, &open)) in self.closes[mine.clone()].iter_mut().zip(prices) {
            *close = if open > 0.0 { new } else { *close };
        }
        self.update_values(mine);
    }

    /// Computes the values at the open from opens and closes.
    pub(crate) fn update_values(&mut self, mine: Range<usize>) {
        let prices = self.opens[mine.clone()].iter().zip(&self.closes[mine.clone()]);
        for (value, (&open, &close)) in self.at_open[mine].iter_mut().zip(prices) {
            *value = value_at_open(open, close);
        }
    }
}
