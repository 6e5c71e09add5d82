//! Market windows of many samples, for whoever replays them: history, the day itself, future, and
//! the same of the day after, out of one copy per (sample, ticker).
//!
//! Along the window axis lie the `lead` days before a sample's day, the day itself, and `future`
//! days after it; one more where the window of the day after is to be seen in the same memory,
//! moved by one. What is shown of them is the caller's to slice.
//!
//! Windows are copied in the order in which they lie in the arena ([`Cells`]): by slot, tickers come
//! one after the other, each for all samples, and the panel streams through the cache. While one is
//! copied, the lines of a later one are asked for. (256 samples, 33 tickers, 27 days: 1.0 of a memcpy of
//! the arena; without asking 0.65; in the order of tickers where samples lie together, 0.55.)
//!
//! A window is short, so that what is done for each besides its copy shows. A few are copied by one call, and what else
//! is to be said of them is found out while the processor still stores them: more at once would leave nothing to do
//! meanwhile. Those that the panel has no row for on some day are seen to at last.
//!
//! Threads take small parts of the arena, one after the other, and list the windows of each themselves: nothing is left
//! for one alone.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
};

use backcast_layout::{ThreadTeam, copy_words_each};

use crate::{
    blocks::{Geometry, are_listed, copy_listed_bits, is_listed},
    panel::{Panel, PriceColumn},
};

/// Where the window of a (sample, token) goes: position in the leading axes of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cells {
    /// `[B, S]`: all windows of a sample together.
    SampleMajor,
    /// `[S, B]`: all windows of a slot together.
    SlotMajor,
}

/// The window of a ticker around a day, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Position in [`Panel::tickers`].
    pub(crate) ticker: u32,
    /// Of the arena's leading axes together.
    pub(crate) cell: u32,
    /// Day `lead` of the window.
    pub(crate) day: u32,
}

/// Windows that were sorted into the order of their cells, which not all cells have.
#[derive(Debug, Default)]
pub(crate) struct SortedJobs {
    list: Vec<Job>,
    scratch: Vec<Job>,
    starts: Vec<usize>,
}

/// Days of a window and where its own day lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Days before a sample's own.
    pub(crate) lead: usize,
    /// Days altogether.
    pub(crate) days: usize,
}

impl SortedJobs {
    /// Forget all.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn extend(&mut self, jobs: impl Iterator<Item = Job>) {
        self.list.extend(jobs);
    }

    /// Group what came so far by ticker, by counting, which is the order of cells where slots are in the order of
    /// tickers: O(jobs + tickers).
    pub(crate) fn group(&mut self, tickers: usize) {
        self.starts.clear();
        self.starts.resize(tickers + 1, 0);
        for job in &self.list {
            self.starts[job.ticker as usize + 1] += 1;
        }
        for ticker in 0..tickers {
            self.starts[ticker + 1] += self.starts[ticker];
        }
        self.scratch.clone_from(&self.list);
        for job in &self.scratch {
            let next = &mut self.starts[job.ticker as usize];
            self.list[*next] = *job;
            *next += 1;
        }
    }

    /// Those of some cells.
    pub(crate) fn within(&self, cells: Range<usize>) -> &[Job] {
        debug_assert!(self.list.is_sorted_by_key(|job| job.cell), "in the order of cells");
        let before = |cell: usize| self.list.partition_point(|job| (job.cell as usize) < cell);
        &self.list[before(cells.start)..before(cells.end)]
    }
}

/// What windows are copied from, and which columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Market<'a> {
    geometry: Geometry,
    singles: &'a [AtomicU64],
    marks: &'a [AtomicU64],
    /// Columns of the panel that are copied, in order; all of them when `None`.
    columns: Option<&'a [usize]>,
    /// The first day that no future shows.
    end: usize,
}

/// Cells that a thread takes at once: so few that threads end at about the same time, also where one starts late or is held
/// up, and so many that taking them costs nothing.
const PART_CELLS: usize = 128;

/// Windows that lie between a copy and the request for its numbers.
const AHEAD: usize = 4;

/// Windows that are copied by one call.
const TOGETHER: usize = 8;

/// Cells of an arena that one thread fills, and their masks.
struct Slab<'a> {
    /// Number of its first cell.
    first: usize,
    arena: &'a mut [f32],
    mask: &'a mut [i32],
}

/// What a thread writes on, slab after slab.
#[derive(Default)]
struct Desk {
    /// Windows of the slab's cells, in their order, and a few of those after them.
    jobs: Vec<Job>,
    /// Where each begins in the panel, in bytes.
    starts: Vec<usize>,
    /// Those of the slab that have no row on some day: positions among its jobs.
    lacking: Vec<usize>,
    /// Rows with all their columns.
    rows: Vec<f32>,
}

impl<'a> Market<'a> {
    pub(crate) fn new(panel: &'a Panel, columns: Option<&'a [usize]>) -> Self {
        let (singles, marks) = (panel.singles(), panel.all_marks());
        Self { geometry: panel.geometry(), singles, marks, columns, end: panel.days() }
    }

    /// With futures that show no day from `end` on.
    pub(crate) fn until(self, end: usize) -> Self {
        Self { end: end.min(self.geometry.days), ..self }
    }

    /// Columns of a window, `C`.
    pub(crate) fn width(&self) -> usize {
        self.columns.map_or(self.geometry.columns, <[usize]>::len)
    }

    /// Fill the cells of all windows, and zero the others. `list`: adds the windows of some cells, in the order of the
    /// cells.
    ///
    /// `arena` has `span.days * width` floats per cell, `mask` `span.days` numbers: 1 where the ticker
    /// has a row.
    pub(crate) fn fill(
        &self,
        list: impl Fn(Range<usize>, &mut Vec<Job>) + Sync,
        span: Span,
        arena: &mut [f32],
        mask: &mut [i32],
        team: &mut ThreadTeam,
    ) {
        let all = mask.len() / span.days;
        let floats = (PART_CELLS * span.days * self.width()).max(1);
        let parts = arena.chunks_mut(floats).zip(mask.chunks_mut(PART_CELLS * span.days));
        let slabs = Mutex::new((0..).step_by(PART_CELLS).zip(parts));
        let next = || slabs.lock().unwrap_or_else(PoisonError::into_inner).next();
        team.work(|| {
            let mut desk = Desk::default();
            while let Some((first, (arena, mask))) = next() {
                let end = first + mask.len() / span.days;
                desk.jobs.clear();
                // Those that are soon copied are asked for, whoever will copy them.
                list(first..(end + AHEAD).min(all), &mut desk.jobs);
                self.fill_slab(span, Slab { first, arena, mask }, &mut desk);
            }
        });
    }

    /// The windows on the desk that lie in the slab, which are the first of them.
    fn fill_slab(&self, span: Span, slab: Slab<'_>, desk: &mut Desk) {
        let Slab { first, arena, mask } = slab;
        let (days, floats) = (span.days, span.days * self.width());
        let cells = mask.len() / days;
        let own = desk.jobs.partition_point(|job| (job.cell as usize) < first + cells);
        desk.lacking.clear();
        if own < cells {
            arena.fill(0.0);
            mask.fill(0);
        }
        // Nearly all windows have a row on every day.
        let fits = days <= self.geometry.days;
        if fits {
            self.fill_as_if_all_there(span, own, Slab { first, arena, mask }, desk);
        } else {
            desk.lacking.extend(0..own);
        }
        for &at in &desk.lacking {
            let job = desk.jobs[at];
            let cell = job.cell as usize - first;
            let mask = &mut mask[cell * days..][..days];
            mask.fill(0);
            let (first_day, inside) = self.inside(job, span);
            copy_listed_bits(self.marks_of(job), first_day, &mut mask[inside.clone()]);
            if fits && inside.len() == days {
                continue;
            }
            let arena = &mut arena[cell * floats..][..floats];
            arena.fill(0.0);
            let width = self.width();
            let arena = &mut arena[inside.start * width..inside.end * width];
            let start = self.start(job, first_day);
            self.copy_windows(&[start], inside.len(), arena, &mut desk.rows);
        }
    }

    /// Fills the first `own` windows, of no more days than the panel has. Notes which of them lack a row on some day:
    /// those beyond the panel's edges have others, of which nothing is right.
    fn fill_as_if_all_there(&self, span: Span, own: usize, slab: Slab<'_>, desk: &mut Desk) {
        let (Span { lead, days }, floats) = (span, span.days * self.width());
        let Slab { first, arena, mask } = slab;
        let Desk { jobs, starts, lacking, rows } = desk;
        let last = self.geometry.days - days;
        // Of those that begin later, a part is not shown.
        let whole = self.end.checked_sub(days);
        starts.clear();
        starts.extend(
            jobs.iter()
                .map(|job| self.start(*job, (job.day as usize).saturating_sub(lead).min(last))),
        );
        let lacks = |job: &Job| {
            let day = job.day as usize;
            let first = day.checked_sub(lead).filter(|first| Some(*first) <= whole);
            first.is_none_or(|first| !are_listed(self.marks_of(*job), first, days))
        };
        let mut at = 0;
        // Cells that lie one after the other are copied together.
        let runs = jobs[..own].chunk_by(|job, next| job.cell + 1 == next.cell);
        for jobs in runs.flat_map(|run| run.chunks(TOGETHER)) {
            let cells = jobs[0].cell as usize - first..jobs[0].cell as usize - first + jobs.len();
            let with_next = at..(at + jobs.len() + AHEAD).min(starts.len());
            let arena = &mut arena[cells.start * floats..cells.end * floats];
            self.copy_windows(&starts[with_next], days, arena, rows);
            mask[cells.start * days..cells.end * days].fill(1);
            lacking.extend((at..).zip(jobs).filter(|(_, job)| lacks(job)).map(|(at, _)| at));
            at += jobs.len();
        }
    }

    /// Copies so many days from each of some places on into the windows that they fill; the places after those are
    /// asked for. Missing rows are zeros in the panel, so the copy alone is right.
    fn copy_windows(
        &self,
        starts: &[usize],
        days: usize,
        windows: &mut [f32],
        rows: &mut Vec<f32>,
    ) {
        let bytes = days * self.geometry.columns * size_of::<f32>();
        let Some(columns) = self.columns else {
            let windows = bytemuck::cast_slice_mut(windows);
            return copy_words_each(self.singles, starts, bytes, windows, AHEAD);
        };
        rows.resize(windows.len() / columns.len() * self.geometry.columns, 0.0);
        copy_words_each(self.singles, starts, bytes, bytemuck::cast_slice_mut(rows), AHEAD);
        self.pick(columns, rows, windows);
    }

    /// Where the row of a window's ticker lies in the panel, in bytes.
    #[inline]
    fn start(&self, job: Job, day: usize) -> usize {
        self.geometry.row(job.ticker as usize, day) * size_of::<f32>()
    }

    /// The marks of a window's ticker.
    #[inline]
    fn marks_of(&self, job: Job) -> &'a [AtomicU64] {
        &self.marks[job.ticker as usize * self.geometry.listed_stride()..]
    }

    /// Of a window, the first day that lies within the panel, and the places that do and are shown.
    fn inside(&self, job: Job, span: Span) -> (usize, Range<usize>) {
        let Span { lead, days } = span;
        let day = job.day as usize;
        let from = lead.saturating_sub(day);
        let to = days.min(lead + (self.end.max(day + 1) - day));
        (day + from - lead, from..to)
    }

    /// Some columns of rows.
    fn pick(&self, columns: &[usize], rows: &[f32], out: &mut [f32]) {
        let out = out.chunks_exact_mut(columns.len());
        for (to, from) in out.zip(rows.chunks_exact(self.geometry.columns)) {
            for (value, column) in to.iter_mut().zip(columns) {
                *value = from[*column];
            }
        }
    }
}

/// One ticker's numbers around a day, in full precision, each `[days, ...]`, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExactRows {
    /// Open, high, low, close, volume, f64 `[days, 5]`.
    pub ohlcv: Vec<f64>,
    /// Indicators, f64 `[days, K]`.
    pub indicators: Vec<f64>,
    /// 1 where the ticker has a row.
    pub mask: Vec<i32>,
    /// The days; -1 before the ticker's first one and beyond the panel's edges.
    pub days: Vec<i32>,
}

impl Panel {
    /// Numbers of a ticker on consecutive days, which may lie beyond the panel's edges; zeros where
    /// there is no row. `indicators` are columns of the panel. O(days × columns), one copy.
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
            // A gap is a day of the ticker's life, though without numbers.
            let lives =
                inside.filter(|day| self.first_day(ticker).is_some_and(|first| *day >= first));
            rows.days.push(lives.and_then(|day| i32::try_from(day).ok()).unwrap_or(-1));
        }
        rows
    }
}
