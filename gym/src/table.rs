//! The days of a batch's tickers, laid out as steps read them: day by day.
//!
//! A panel is ticker-major, so that one ticker's days are one block; a step needs one day of all tickers, which
//! lie far apart there. A batch that shares its tickers copies them once, so that a day is one block.

use std::{ops::Range, sync::Arc};

use backcast_market::{Panel, PriceColumn};

/// Bytes that a table may take; larger worlds are read from the panel.
const MOST_BYTES: usize = 256 << 20;

/// What a step reads of a day, `[days][numbers]`.
#[derive(Clone, Debug)]
pub(crate) struct DayTable {
    first: usize,
    tickers: usize,
    macros: usize,
    /// Per ticker.
    indicators: usize,
    numbers: Arc<[f64]>,
}

/// One day of a [`DayTable`].
pub(crate) struct DayOf<'a> {
    /// `[T]`; 0 without a row.
    pub(crate) open: &'a [f64],
    /// `[T]`.
    pub(crate) close: &'a [f64],
    /// `[T, K]`.
    pub(crate) indicators: &'a [f64],
    /// `[M]`.
    pub(crate) macro_open: &'a [f64],
    /// `[M, K]`.
    pub(crate) macro_indicators: &'a [f64],
}

impl DayTable {
    /// `None` where it would be too large.
    pub(crate) fn new(
        panel: &Panel,
        tickers: &[usize],
        macros: &[usize],
        columns: &[usize],
        days: Range<usize>,
    ) -> Option<Self> {
        let table = Self {
            first: days.start,
            tickers: tickers.len(),
            macros: macros.len(),
            indicators: columns.len(),
            numbers: Arc::new([]),
        };
        let mut numbers = with_room(table.stride().checked_mul(days.len())?)?;
        let rows = panel.rows();
        for day in days {
            let column = |of: &[usize], column: usize, numbers: &mut Vec<f64>| {
                numbers.extend(of.iter().map(|&ticker| rows.row(ticker, day).value(column)));
            };
            let indicators = |of: &[usize], numbers: &mut Vec<f64>| {
                for &ticker in of {
                    let row = rows.row(ticker, day);
                    numbers.extend(columns.iter().map(|&column| row.value(column)));
                }
            };
            column(tickers, PriceColumn::Open as usize, &mut numbers);
            column(tickers, PriceColumn::Close as usize, &mut numbers);
            indicators(tickers, &mut numbers);
            column(macros, PriceColumn::Open as usize, &mut numbers);
            indicators(macros, &mut numbers);
        }
        Some(Self { numbers: numbers.into(), ..table })
    }

    fn stride(&self) -> usize {
        self.tickers * (2 + self.indicators) + self.macros * (1 + self.indicators)
    }

    /// # Panics
    ///
    /// If the day lies outside the table, like any slice.
    #[inline]
    pub(crate) fn day(&self, day: usize) -> DayOf<'_> {
        let stride = self.stride();
        let start = (day - self.first) * stride;
        let (open, rest) = self.numbers[start..start + stride].split_at(self.tickers);
        let (close, rest) = rest.split_at(self.tickers);
        let (indicators, rest) = rest.split_at(self.tickers * self.indicators);
        let (macro_open, macro_indicators) = rest.split_at(self.macros);
        DayOf { open, close, indicators, macro_open, macro_indicators }
    }
}

/// Every column in single precision, `[D, X, C]`, and which rows there are, `[D, X]`: what histories are cut
/// from. `X`: the tickers traded, then the macro tickers shown.
#[derive(Clone, Debug)]
pub(crate) struct HistoryTable {
    rows: usize,
    columns: usize,
    singles: Arc<[f32]>,
    listed: Arc<[u8]>,
}

impl HistoryTable {
    /// `None` where it would be too large.
    pub(crate) fn new(panel: &Panel, tickers: &[usize]) -> Option<Self> {
        let (rows, columns) = (tickers.len(), panel.columns().len());
        let cells = rows.checked_mul(panel.days())?;
        let mut singles = with_room(cells.checked_mul(columns)?)?;
        let mut listed = with_room(cells)?;
        let view = panel.rows();
        for day in 0..panel.days() {
            for &ticker in tickers {
                let row = view.row(ticker, day);
                singles.extend((0..columns).map(|column| to_single(row.value(column))));
                listed.push(u8::from(panel.listed(ticker, day)));
            }
        }
        Some(Self { rows, columns, singles: singles.into(), listed: listed.into() })
    }

    /// Copy consecutive days out, `[H, X, C]` and `[H, X]`; all of them must lie in the panel.
    pub(crate) fn copy(&self, days: Range<usize>, out: &mut [f32], mask: &mut [u8]) {
        let cells = days.start * self.rows..days.end * self.rows;
        out.copy_from_slice(&self.singles[cells.start * self.columns..cells.end * self.columns]);
        mask.copy_from_slice(&self.listed[cells]);
    }
}

/// The same from the panel, row by row.
pub(crate) fn copy_rows(
    panel: &Panel,
    tickers: &(impl Iterator<Item = usize> + Clone),
    days: Range<usize>,
    out: &mut [f32],
    mask: &mut [u8],
) {
    let columns = panel.columns().len();
    let view = panel.rows();
    let cells = days.flat_map(|day| tickers.clone().map(move |ticker| (ticker, day)));
    for ((out, mask), (ticker, day)) in out.chunks_exact_mut(columns).zip(mask).zip(cells) {
        let row = view.row(ticker, day);
        for (column, out) in out.iter_mut().enumerate() {
            *out = to_single(row.value(column));
        }
        *mask = u8::from(panel.listed(ticker, day));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what histories are for")]
fn to_single(value: f64) -> f32 {
    value as f32
}

fn with_room<V>(len: usize) -> Option<Vec<V>> {
    let mut room = Vec::new();
    let fits = len.checked_mul(size_of::<V>()).is_some_and(|bytes| bytes <= MOST_BYTES);
    (fits && room.try_reserve_exact(len).is_ok()).then_some(room)
}
