//! Gathers the market windows of many samples: history, the day itself, future, and those of the
//! next day, with one copy per (sample, ticker).
//!
//! The window axis holds the `lead` days before a sample's day, the day itself, and `future` days
//! after it. It holds one day more if the next day's window is a view of the same memory, shifted
//! by one day. The caller slices what it shows.
//!
//! Windows are copied in the order of the arena ([`CellOrder`]). In slot-major order a ticker's
//! windows follow each other, and the panel streams through the cache. A later window is prefetched
//! while one is copied. Without that, 256 samples of 33 tickers and 27 days take 1.1 to 1.25 times
//! as long. Copying sample-major windows in the order of tickers takes nearly twice as long.
//!
//! Windows are short, so the work per window besides its copy counts. The windows of a part of the
//! arena are listed together, copied by one call, and then masked as complete. A ticker's longest
//! run of days without a gap tells which windows are complete; the others are repaired one by one
//! at the end.
//!
//! Each thread takes one part of the arena after the other and lists its windows, so that no step
//! is serial.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
};

use backcast_layout::{ThreadPool, copy_words_each};

use crate::{
    blocks::{PanelShape, are_listed, copy_listed_bits, is_listed},
    panel::{Panel, PriceColumn},
};

/// Order of the cells: the leading axes of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellOrder {
    /// `[B, S]`: all windows of a sample together.
    SampleMajor,
    /// `[S, B]`: all windows of a slot together.
    SlotMajor,
}

/// The window of a ticker around a day, and its cell in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellWindow {
    /// Position in [`Panel::tickers`].
    pub(crate) ticker: u32,
    /// Position along the arena's leading axes, flattened.
    pub(crate) cell: u32,
    /// Day of the sample, at position `lead` of the window.
    pub(crate) day: u32,
}

/// Windows in the order of their cells. Cells without a window are skipped.
#[derive(Debug, Default)]
pub(crate) struct SortedWindows {
    list: Vec<CellWindow>,
    scratch: Vec<CellWindow>,
    starts: Vec<usize>,
}

/// Number of days of a window, and the position of its own day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Number of days before a sample's own.
    pub(crate) lead: usize,
    /// Number of days of the window.
    pub(crate) days: usize,
}

impl SortedWindows {
    /// Removes all windows.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn extend(&mut self, windows: impl Iterator<Item = CellWindow>) {
        self.list.extend(windows);
    }

    /// Sorts the windows by ticker with a counting sort, which is the order of cells if slots are
    /// sorted by ticker. O(windows + tickers).
    pub(crate) fn group(&mut self, tickers: usize) {
        self.starts.clear();
        self.starts.resize(tickers + 1, 0);
        for window in &self.list {
            self.starts[window.ticker as usize + 1] += 1;
        }
        for ticker in 0..tickers {
            self.starts[ticker + 1] += self.starts[ticker];
        }
        self.scratch.clone_from(&self.list);
        for window in &self.scratch {
            let next = &mut self.starts[window.ticker as usize];
            self.list[*next] = *window;
            *next += 1;
        }
    }

    /// Returns the windows of some cells.
    pub(crate) fn within(&self, cells: Range<usize>) -> &[CellWindow] {
        debug_assert!(self.list.is_sorted_by_key(|window| window.cell), "in the order of cells");
        let before =
            |cell: usize| self.list.partition_point(|window| (window.cell as usize) < cell);
        &self.list[before(cells.start)..before(cells.end)]
    }
}

/// The blocks that windows are copied from, and the columns to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSource<'a> {
    shape: PanelShape,
    singles: &'a [AtomicU64],
    marks: &'a [AtomicU64],
    /// Longest run of days without a gap, for each ticker; see [`Panel::unbroken`].
    unbroken: &'a [Range<usize>],
    /// Columns of the panel that are copied, in order; all of them when `None`.
    columns: Option<&'a [usize]>,
    /// First day that future windows do not show.
    end: usize,
}

/// Number of cells that one of several threads takes at a time. They are few enough that all
/// threads end at about the same time, and many enough that taking them costs little.
const PART_CELLS: usize = 128;

/// Number of cells that a single thread takes at a time: few enough that the list of their windows
/// stays in L1.
const CELLS_ALONE: usize = 1_024;

/// Prefetch distance, in windows.
const PREFETCH_DISTANCE: usize = 4;

/// Number of windows whose columns are selected together: few enough that their whole rows stay in
/// L1.
const SELECTED_WINDOWS: usize = 8;

/// Cells of an arena that one thread fills, and their masks.
struct Slab<'a> {
    /// Number of its first cell.
    first: usize,
    arena: &'a mut [f32],
    mask: &'a mut [i32],
}

/// Memory that a thread reuses from slab to slab.
#[derive(Default)]
struct Scratch {
    /// Windows of the slab's cells in order, then a few of the next slab's for prefetches.
    windows: Vec<CellWindow>,
    /// Byte offset of each window in the panel.
    starts: Vec<usize>,
    /// Positions, among the slab's windows, of those that may lack a row.
    unsure: Vec<usize>,
    /// Rows with all their columns.
    rows: Vec<f32>,
}

impl<'a> WindowSource<'a> {
    pub(crate) fn new(panel: &'a Panel, columns: Option<&'a [usize]>) -> Self {
        let (singles, marks) = (panel.singles(), panel.all_marks());
        let (shape, unbroken) = (panel.shape(), panel.unbroken());
        Self { shape, singles, marks, unbroken, columns, end: panel.days() }
    }

    /// Sets the exclusive end day of future windows.
    pub(crate) fn until(self, end: usize) -> Self {
        Self { end: end.min(self.shape.days), ..self }
    }

    /// Returns the number of columns of a window, `C`.
    pub(crate) fn width(&self) -> usize {
        self.columns.map_or(self.shape.columns, <[usize]>::len)
    }

    /// Fills the cells that have a window and zeroes the others. `list` appends the windows of some
    /// cells, in the order of the cells.
    ///
    /// `arena` has `span.days * width` floats per cell, `mask` `span.days` numbers: 1 where the
    /// ticker has a row.
    pub(crate) fn fill(
        &self,
        list: impl Fn(Range<usize>, &mut Vec<CellWindow>) + Sync,
        span: Span,
        arena: &mut [f32],
        mask: &mut [i32],
        pool: &mut ThreadPool,
    ) {
        let all = mask.len() / span.days;
        let part = if pool.threads() == 1 { CELLS_ALONE } else { PART_CELLS };
        let floats = (part * span.days * self.width()).max(1);
        let parts = arena.chunks_mut(floats).zip(mask.chunks_mut(part * span.days));
        let slabs = Mutex::new((0..).step_by(part).zip(parts));
        let next = || slabs.lock().unwrap_or_else(PoisonError::into_inner).next();
        pool.work(|| {
            let mut scratch = Scratch::default();
            while let Some((first, (arena, mask))) = next() {
                let end = first + mask.len() / span.days;
                scratch.windows.clear();
                // Also lists the first windows of the next slab, to prefetch them. Any thread may
                // take that slab.
                list(first..(end + PREFETCH_DISTANCE).min(all), &mut scratch.windows);
                self.fill_slab(span, Slab { first, arena, mask }, &mut scratch);
            }
        });
    }

    /// Fills a slab with the windows at the front of the scratch list.
    fn fill_slab(&self, span: Span, slab: Slab<'_>, scratch: &mut Scratch) {
        let Slab { first, arena, mask } = slab;
        let (days, floats) = (span.days, span.days * self.width());
        let cells = mask.len() / days;
        let own = scratch.windows.partition_point(|window| (window.cell as usize) < first + cells);
        if own < cells {
            arena.fill(0.0);
            mask.fill(0);
        }
        scratch.unsure.clear();
        // Nearly all windows have a row on every day.
        let fits = days <= self.shape.days;
        if fits {
            self.find_windows(span, own, scratch);
            self.fill_as_if_all_there(days, own, Slab { first, arena, mask }, scratch);
        } else {
            scratch.unsure.extend(0..own);
        }
        let Scratch { windows, unsure, rows, .. } = scratch;
        for window in unsure.iter().map(|&at| windows[at]) {
            let cell = window.cell as usize - first;
            let (first_day, inside) = self.inside(window, span);
            let whole = fits && inside.len() == days;
            if whole && are_listed(self.marks_of(window), first_day, days) {
                continue;
            }
            let mask = &mut mask[cell * days..][..days];
            mask.fill(0);
            copy_listed_bits(self.marks_of(window), first_day, &mut mask[inside.clone()]);
            if whole {
                continue;
            }
            let arena = &mut arena[cell * floats..][..floats];
            arena.fill(0.0);
            let width = self.width();
            let arena = &mut arena[inside.start * width..inside.end * width];
            let start = self.start(window, first_day);
            self.copy_windows(&[start], inside.len(), arena, rows);
        }
    }

    /// Computes the offsets of all listed windows, and which of the first `own` may lack a row. A
    /// window beyond the panel's edges gets the offset of the nearest window inside, and counts as
    /// one that may lack a row.
    fn find_windows(&self, span: Span, own: usize, scratch: &mut Scratch) {
        let Span { lead, days } = span;
        let Scratch { windows, starts, unsure, .. } = scratch;
        let last = self.shape.days - days;
        let first = |window: &CellWindow| (window.day as usize).saturating_sub(lead).min(last);
        starts.clear();
        starts.extend(windows.iter().map(|window| self.start(*window, first(window))));
        let sure = |window: &CellWindow| {
            let run = &self.unbroken[window.ticker as usize];
            let day = window.day as usize;
            lead <= day && run.start <= day - lead && day - lead + days <= run.end.min(self.end)
        };
        unsure.extend(
            (0..).zip(&windows[..own]).filter(|(_, window)| !sure(window)).map(|(at, _)| at),
        );
    }

    /// Copies and masks the first `own` windows as if every day had a row.
    fn fill_as_if_all_there(&self, days: usize, own: usize, slab: Slab<'_>, scratch: &mut Scratch) {
        let Slab { first, arena, mask } = slab;
        let Scratch { windows, starts, rows, .. } = scratch;
        let floats = days * self.width();
        let mut at = 0;
        // Windows of consecutive cells are copied by one call.
        for run in windows[..own].chunk_by(|window, next| window.cell + 1 == next.cell) {
            let cells = run[0].cell as usize - first..run[0].cell as usize - first + run.len();
            let arena = &mut arena[cells.start * floats..cells.end * floats];
            self.copy_windows(&starts[at..], days, arena, rows);
            mask[cells.start * days..cells.end * days].fill(1);
            at += run.len();
        }
    }

    /// Copies `days` days from each of the offsets `starts` into `windows`, and prefetches at the
    /// offsets after those. Missing rows are zeros in the panel, so they need no special case.
    fn copy_windows(
        &self,
        starts: &[usize],
        days: usize,
        windows: &mut [f32],
        rows: &mut Vec<f32>,
    ) {
        let bytes = days * self.shape.columns * size_of::<f32>();
        let Some(columns) = self.columns else {
            let count = size_of_val(windows) / bytes;
            let starts = &starts[..starts.len().min(count + PREFETCH_DISTANCE)];
            let windows = bytemuck::cast_slice_mut(windows);
            return copy_words_each(self.singles, starts, bytes, windows, PREFETCH_DISTANCE);
        };
        let together = SELECTED_WINDOWS * days * columns.len();
        for (windows, at) in windows.chunks_mut(together).zip((0..).step_by(SELECTED_WINDOWS)) {
            rows.resize(windows.len() / columns.len() * self.shape.columns, 0.0);
            let starts = &starts[at..starts.len().min(at + SELECTED_WINDOWS + PREFETCH_DISTANCE)];
            copy_words_each(
                self.singles,
                starts,
                bytes,
                bytemuck::cast_slice_mut(rows),
                PREFETCH_DISTANCE,
            );
            self.select_columns(columns, rows, windows);
        }
    }

    /// Returns the byte offset in the panel of a day's row of a window's ticker.
    #[inline]
    fn start(&self, window: CellWindow, day: usize) -> usize {
        self.shape.row(window.ticker as usize, day) * size_of::<f32>()
    }

    /// Returns the listed bits of a window's ticker.
    #[inline]
    fn marks_of(&self, window: CellWindow) -> &'a [AtomicU64] {
        &self.marks[window.ticker as usize * self.shape.listed_stride()..]
    }

    /// Returns a window's first day within the panel, and the positions of the window that lie
    /// within the panel and are shown.
    fn inside(&self, window: CellWindow, span: Span) -> (usize, Range<usize>) {
        let Span { lead, days } = span;
        let day = window.day as usize;
        let from = lead.saturating_sub(day);
        let to = days.min(lead + (self.end.max(day + 1) - day));
        (day + from - lead, from..to)
    }

    /// Copies the selected columns of rows.
    fn select_columns(&self, columns: &[usize], rows: &[f32], out: &mut [f32]) {
        let out = out.chunks_exact_mut(columns.len());
        for (to, from) in out.zip(rows.chunks_exact(self.shape.columns)) {
            for (value, column) in to.iter_mut().zip(columns) {
                *value = from[*column];
            }
        }
    }
}

/// Numbers of one ticker around a day in full precision, each `[days, ...]`, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExactRows {
    /// Open, high, low, close, volume, f64 `[days, 5]`.
    pub ohlcv: Vec<f64>,
    /// Indicators, f64 `[days, K]`.
    pub indicators: Vec<f64>,
    /// 1 where the ticker has a row.
    pub mask: Vec<i32>,
    /// Days; -1 before the ticker's first row and beyond the panel's edges.
    pub days: Vec<i32>,
}

impl Panel {
    /// Returns the numbers of a ticker on consecutive days, which may lie beyond the panel's edges.
    /// Days without a row are zeros. `indicators` are columns of the panel. O(days × columns), one
    /// copy.
    ///
    /// # Panics
    /// If the panel has no such ticker or column, like any slice.
    #[must_use]
    pub fn exact_rows(&self, ticker: usize, days: Range<i64>, indicators: &[usize]) -> ExactRows {
        let mut rows = ExactRows::default();
        for day in days {
            let inside = usize::try_from(day).ok().filter(|day| *day < self.days());
            let listed = inside.filter(|day| is_listed(self.marks(ticker), *day));
            let value =
                |column| listed.map_or(0.0, |day| self.rows().row(ticker, day).value(column));
            rows.ohlcv.extend(PriceColumn::ALL.map(|price| value(price as usize)));
            rows.indicators.extend(indicators.iter().map(|column| value(*column)));
            rows.mask.push(i32::from(listed.is_some()));
            // A day without a row, after the ticker's first one, keeps its number; only its values
            // are 0.
            let lives =
                inside.filter(|day| self.first_day(ticker).is_some_and(|first| *day >= first));
            rows.days.push(lives.and_then(|day| i32::try_from(day).ok()).unwrap_or(-1));
        }
        rows
    }
}
