//! Day-major copies of a panel for environments whose portfolios share their tickers.
//!
//! A panel is ticker-major: the days of one ticker are one block. A step needs one day of all
//! tickers, which are far apart there. Many portfolios with the same tickers copy them once, so
//! that a day is one block.

use std::{ops::Range, sync::Arc};

use backcast_core::plumbing::{HugeArray, copy_slice, prefetch_l2};
use backcast_market::{Panel, PriceColumn};

use super::{
    lines::LINE,
    prices::{Prices, value_at_open},
};

/// Maximum bytes of one array of a table. Larger markets are read from the panel.
const MOST_BYTES: usize = 256 << 20;

/// Prices and indicators by day, as a step reads them.
#[derive(Clone, Debug)]
pub(crate) struct DayTable {
    first: usize,
    /// Number of tickers, padded to lines.
    width: usize,
    /// `[days, 2, width]`: opens and closes, as in [`Prices`].
    prices: Arc<HugeArray<f64>>,
    notes: Arc<[DayNote]>,
    /// `[days with gaps, width]`: values at the open, as in [`Prices`].
    at_open: Arc<HugeArray<f64>>,
    /// Counts of numbers in a day: indicators of the tickers, opens of the macro tickers, and
    /// indicators of the macro tickers.
    parts: [usize; 3],
    /// `[days, sum of parts]`: numbers of [`ShownDay`], in the order of `parts`.
    shown: Arc<HugeArray<f64>>,
}

/// Properties of the prices of one day.
#[derive(Clone, Copy, Debug)]
struct DayNote {
    /// Whether all closes are positive.
    sound: bool,
    /// Number of the day among days with gaps, on which a ticker that had a price before has none.
    /// On other days the values at the open equal the opens, and `at_open` is not read.
    gap: Option<u32>,
}

/// Numbers of a day, besides prices, that observations show.
pub(crate) struct ShownDay<'a> {
    /// Indicators of the tickers, `[T, K]`.
    pub(crate) indicators: &'a [f64],
    /// Opens of the macro tickers, `[M]`.
    pub(crate) macro_open: &'a [f64],
    /// Indicators of the macro tickers, `[M, K]`.
    pub(crate) macro_indicators: &'a [f64],
}

impl DayTable {
    /// Copies the table out of the panel; `None` if it would be too large or memory does not
    /// suffice.
    pub(crate) fn new(
        panel: &Panel,
        tickers: &[usize],
        macros: &[usize],
        columns: &[usize],
        days: Range<usize>,
    ) -> Option<Self> {
        let width = tickers.len().next_multiple_of(LINE);
        let parts = [tickers.len() * columns.len(), macros.len(), macros.len() * columns.len()];
        let mut prices = with_room(width.checked_mul(2 * days.len())?)?;
        let mut notes = with_room(days.len())?;
        let mut at_open = Vec::new();
        let mut shown = with_room(parts.iter().sum::<usize>().checked_mul(days.len())?)?;
        let (first, rows) = (days.start, panel.rows());
        let mut closes = vec![0.0; width];
        for day in days {
            let price =
                |ticker: usize, column: PriceColumn| rows.row(ticker, day).value(column as usize);
            let open = prices.len();
            prices.extend(tickers.iter().map(|&ticker| price(ticker, PriceColumn::Open)));
            prices.resize(open + width, 0.0);
            for (at, &ticker) in tickers.iter().enumerate() {
                if prices[open + at] > 0.0 {
                    closes[at] = price(ticker, PriceColumn::Close);
                }
            }
            prices.extend_from_slice(&closes);
            let opens = &prices[open..open + width];
            let today = opens.iter().zip(&closes).map(|(&open, &close)| value_at_open(open, close));
            let gap = if today.clone().eq(opens.iter().copied()) {
                None
            } else {
                let number = u32::try_from(at_open.len() / width).ok()?;
                at_open.extend(today);
                Some(number)
            };
            let sound = closes[..tickers.len()].iter().all(|&close| close > 0.0);
            notes.push(DayNote { sound, gap });
            let indicators = |of: &[usize], shown: &mut Vec<f64>| {
                for &ticker in of {
                    let row = rows.row(ticker, day);
                    shown.extend(columns.iter().map(|&column| row.value(column)));
                }
            };
            indicators(tickers, &mut shown);
            shown.extend(macros.iter().map(|&ticker| price(ticker, PriceColumn::Open)));
            indicators(macros, &mut shown);
        }
        let kept = |numbers: &[f64]| Arc::new(HugeArray::copy_of(numbers));
        let (prices, at_open, shown) = (kept(&prices), kept(&at_open), kept(&shown));
        Some(Self { first, width, prices, notes: notes.into(), at_open, parts, shown })
    }

    /// Returns the prices of a day.
    ///
    /// # Panics
    ///
    /// If the day is outside the table, as with any slice.
    #[inline]
    pub(crate) fn prices(&self, day: usize) -> Prices<'_> {
        let (day, width) = (day - self.first, self.width);
        let (open, closes) = self.prices[day * 2 * width..][..2 * width].split_at(width);
        let DayNote { sound, gap } = self.notes[day];
        let at_open = gap.map_or(open, |gap| &self.at_open[gap as usize * width..][..width]);
        Prices { open, closes, at_open, sound }
    }

    /// Prefetches the entries that a step from `day` to the next reads: the prices of both days,
    /// the macro opens of the next, and the indicators `lag` days before the next.
    #[inline]
    pub(crate) fn prefetch(&self, day: usize, lag: usize) {
        let at = day.saturating_sub(self.first);
        let stride = self.parts.iter().sum::<usize>();
        prefetch_l2(
            self.prices.get(at * 2 * self.width..(at + 2) * 2 * self.width).unwrap_or_default(),
        );
        let shown = (at + 1).saturating_sub(lag);
        prefetch_l2(self.shown.get(shown * stride..(shown + 1) * stride).unwrap_or_default());
        let macro_open = (at + 1) * stride + self.parts[0];
        prefetch_l2(self.shown.get(macro_open..macro_open + self.parts[1]).unwrap_or_default());
    }

    /// Returns the numbers of a day that observations show besides prices.
    ///
    /// # Panics
    ///
    /// If the day is outside the table, as with any slice.
    #[inline]
    pub(crate) fn shown(&self, day: usize) -> ShownDay<'_> {
        let [indicators, macros, macro_indicators] = self.parts;
        let stride = indicators + macros + macro_indicators;
        let day = &self.shown[(day - self.first) * stride..][..stride];
        let (indicators, rest) = day.split_at(indicators);
        let (macro_open, macro_indicators) = rest.split_at(macros);
        ShownDay { indicators, macro_open, macro_indicators }
    }
}

/// All columns in single precision, `[D, X, C]`, and a mask of rows, `[D, X]`: the source of
/// histories. `X`: the tickers traded, then the macro tickers shown.
#[derive(Clone, Debug)]
pub(crate) struct HistoryTable {
    rows: usize,
    columns: usize,
    singles: Arc<HugeArray<f32>>,
    listed: Arc<HugeArray<u8>>,
    /// Whether a day has no missing row, `[D]`. The mask of such a day is not read.
    whole: Arc<[bool]>,
}

impl HistoryTable {
    /// Copies the table out of the panel; `None` if it would be too large or memory does not
    /// suffice.
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
        let whole = listed.chunks_exact(rows).map(|day| day.iter().all(|&listed| listed == 1));
        let whole = whole.collect();
        let (singles, listed) = (HugeArray::copy_of(&singles), HugeArray::copy_of(&listed));
        Some(Self { rows, columns, singles: Arc::new(singles), listed: Arc::new(listed), whole })
    }

    /// Prefetches the numbers of a day.
    pub(crate) fn prefetch(&self, day: usize) {
        let numbers = self.rows * self.columns;
        prefetch_l2(self.singles.get(day * numbers..(day + 1) * numbers).unwrap_or_default());
    }

    /// Copies consecutive days of the panel, `[H, X, C]` and `[H, X]`.
    pub(crate) fn copy(&self, days: Range<usize>, out: &mut [f32], mask: &mut [u8]) {
        let cells = days.start * self.rows..days.end * self.rows;
        copy_slice(&self.singles[cells.start * self.columns..cells.end * self.columns], out);
        if self.whole[days].iter().all(|&whole| whole) {
            mask.fill(1);
        } else {
            copy_slice(&self.listed[cells], mask);
        }
    }
}

/// Copies consecutive days from the panel, row by row, as [`HistoryTable::copy`] does.
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
