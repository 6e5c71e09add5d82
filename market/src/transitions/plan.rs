//! The windows around a batch's days: shapes of their memory, and filling it.

use std::ops::Range;

use backcast_layout::ThreadPool;

use super::{batch::TransitionBatch, error::TransitionError, ring::TransitionRing};
use crate::gather::{CellOrder, CellWindow, SortedWindows, Span, WindowSource};

/// Minimum bytes of windows that several threads copy. For fewer, waking a thread may take longer
/// than the copy.
const MIN_THREADED_BYTES: usize = 1 << 20;

/// The order of a batch's windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransitionLayout {
    /// `[S, B]`: for each ticker that occurs, then each macro ticker, all samples. Samples without
    /// the ticker are zeros and masked. The default.
    #[default]
    Ticker,
    /// `[B, S]`: for each sample its own tickers, then the macro ones.
    Batched,
}

/// State or next state of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum TransitionSide {
    /// The state before the action.
    State = 0,
    /// The state after it.
    Next = 1,
}

/// Macro tickers and columns that are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransitionSelection {
    /// Macro tickers, as positions in [`Panel::tickers`](crate::Panel::tickers).
    pub macros: Vec<u32>,
    /// Columns of the panel that are shown, prices first; all of them when `None`.
    pub columns: Option<Vec<usize>>,
}

/// The windows of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransitionWindows {
    /// Days before a sample's day, `H`.
    pub history: usize,
    /// Days after a sample's day, `F`.
    pub future: usize,
    /// Days before a sample's day that are copied even without a history, for lagged indicators.
    pub lead: usize,
    /// The order of windows.
    pub layout: TransitionLayout,
    /// Whether state and next state get separate memory even if one copy could serve both.
    pub apart: bool,
}

/// Memory of a batch's windows: one arena f32 `[.., .., W, C]` and mask i32 `[.., .., W]`. There
/// are two of each if state and next state have separate memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketPlan {
    windows: TransitionWindows,
    batch: usize,
    /// Number of tickers of a sample.
    tickers: usize,
    /// Slots before those of the macro tickers: the tickers of a sample, or all that occur.
    own: usize,
    /// Tickers that occur, ascending; empty in the batched layout.
    unique: Vec<u32>,
    macros: usize,
    width: usize,
    /// Whether the next state's windows are those of the state, shifted by one day.
    shared: bool,
}

impl MarketPlan {
    /// Returns whether the windows of both states lie in one arena.
    #[must_use]
    pub fn shared(&self) -> bool {
        self.shared
    }

    /// Returns the number of arenas, and of masks.
    #[must_use]
    pub fn arenas(&self) -> usize {
        if self.shared { 1 } else { 2 }
    }

    /// Returns the tickers that occur, ascending; empty in the batched layout.
    #[must_use]
    pub fn unique(&self) -> &[u32] {
        &self.unique
    }

    /// Returns the number of slots before those of the macro tickers.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }

    /// Returns the windows of the request.
    #[must_use]
    pub fn windows(&self) -> TransitionWindows {
        self.windows
    }

    /// Returns the shape of an arena, `[S, B, W, C]` or `[B, S, W, C]`.
    #[must_use]
    pub fn arena_shape(&self) -> [usize; 4] {
        let [a, b, days] = self.mask_shape();
        [a, b, days, self.width]
    }

    /// Returns the shape of a mask, `[S, B, W]` or `[B, S, W]`.
    #[must_use]
    pub fn mask_shape(&self) -> [usize; 3] {
        let slots = self.own + self.macros;
        match self.windows.layout {
            TransitionLayout::Ticker => [slots, self.batch, self.span().days],
            TransitionLayout::Batched => [self.batch, slots, self.span().days],
        }
    }

    /// Returns the number of a side's arena and mask, and the place of its own day on the window
    /// axis.
    #[must_use]
    pub fn day(&self, side: TransitionSide) -> (usize, usize) {
        match (side, self.shared) {
            (TransitionSide::State, _) => (0, self.lead()),
            (TransitionSide::Next, true) => (0, self.lead() + 1),
            (TransitionSide::Next, false) => (1, self.lead()),
        }
    }

    /// Returns the places of a side's history on the window axis.
    #[must_use]
    pub fn history(&self, side: TransitionSide) -> Range<usize> {
        let (_, day) = self.day(side);
        day - self.windows.history..day
    }

    /// Returns the places of a side's future on the window axis.
    #[must_use]
    pub fn future(&self, side: TransitionSide) -> Range<usize> {
        let (_, day) = self.day(side);
        day + 1..day + 1 + self.windows.future
    }

    fn lead(&self) -> usize {
        self.windows.history.max(self.windows.lead)
    }

    fn span(&self) -> Span {
        let lead = self.lead();
        Span { lead, days: lead + 1 + self.windows.future + usize::from(self.shared) }
    }

    fn cells(&self) -> CellOrder {
        match self.windows.layout {
            TransitionLayout::Ticker => CellOrder::SlotMajor,
            TransitionLayout::Batched => CellOrder::SampleMajor,
        }
    }
}

impl TransitionRing {
    /// Returns the plan of the windows around these transitions, whose tokens must be tickers of
    /// the panel. Refuses windows that are too long, or that memory cannot address.
    pub fn plan(
        &self,
        batch: &TransitionBatch,
        windows: TransitionWindows,
        selection: &TransitionSelection,
    ) -> Result<MarketPlan, TransitionError> {
        let TransitionWindows { history, future, lead, .. } = windows;
        for (what, days) in [("history", history), ("future", future), ("lead", lead)] {
            self.panel.check_window(what, days)?;
        }
        let consecutive = |pair: &[i32; 2]| pair[1] == pair[0].wrapping_add(1);
        // From `end` on, a day is shown as the next state's own and not in a state's future.
        let shown = |pair: &[i32; 2]| usize::try_from(pair[1]).is_ok_and(|next| next < self.end);
        let moved = |pair: &[i32; 2]| consecutive(pair) && shown(pair);
        let shared = !windows.apart && batch.days.as_chunks::<2>().0.iter().all(moved);
        let unique = match windows.layout {
            TransitionLayout::Ticker => self.unique(batch),
            TransitionLayout::Batched => Vec::new(),
        };
        let own = match windows.layout {
            TransitionLayout::Ticker => unique.len(),
            TransitionLayout::Batched => self.shape.tickers,
        };
        let width = selection.columns.as_ref().map_or(self.panel.columns().len(), Vec::len);
        let macros = selection.macros.len();
        let lead = windows.history.max(windows.lead);
        let days = lead.saturating_add(windows.future).saturating_add(2);
        let cells = batch.len().saturating_mul(own + macros);
        let bytes = [days, width, size_of::<f32>()]
            .into_iter()
            .try_fold(cells, usize::checked_mul)
            .filter(|bytes| isize::try_from(*bytes).is_ok());
        if bytes.is_none() || u32::try_from(cells).is_err() || u32::try_from(days).is_err() {
            let (batch, tickers) = (batch.len(), own + macros);
            return Err(TransitionError::TooLarge { batch, tickers, days });
        }
        let (batch, tickers) = (batch.len(), self.shape.tickers);
        Ok(MarketPlan { windows, batch, tickers, own, unique, macros, width, shared })
    }

    fn unique(&self, batch: &TransitionBatch) -> Vec<u32> {
        let mut occurs = vec![false; self.panel.tickers().len()];
        let mut last: &[u16] = &[];
        for tokens in batch.tokens.chunks_exact(self.shape.tickers) {
            if tokens == last {
                continue;
            }
            last = tokens;
            for token in tokens {
                occurs[usize::from(*token) - 1] = true;
            }
        }
        (0..).zip(occurs).filter_map(|(ticker, occurs)| occurs.then_some(ticker)).collect()
    }

    /// Fills the arenas and masks of a plan of this batch, each in the plan's shape. Makes one copy
    /// per (sample, ticker) if both states share an arena, else two. The batch may come from
    /// another ring over the same panel.
    ///
    /// # Panics
    /// Possibly if an arena or a mask is smaller than the plan says.
    pub fn fill(
        &mut self,
        plan: &MarketPlan,
        batch: &TransitionBatch,
        selection: &TransitionSelection,
        arenas: &mut [(&mut [f32], &mut [i32])],
    ) {
        let span = plan.span();
        let bytes: usize = arenas.iter().map(|(arena, _)| size_of_val(*arena)).sum();
        let mut alone = ThreadPool::new(1);
        let pool = if bytes < MIN_THREADED_BYTES { &mut alone } else { &mut self.pool };
        let source = WindowSource::new(&self.panel, selection.columns.as_deref()).until(self.end);
        let tickers = plan.tickers;
        let first = batch.tokens.get(..tickers).unwrap_or_default();
        let alike = batch.tokens.chunks_exact(tickers).all(|tokens| tokens == first);
        for (side, (arena, mask)) in arenas.iter_mut().enumerate() {
            let samples = Samples { plan, batch, tickers, macros: &selection.macros, side };
            if plan.cells() == CellOrder::SampleMajor {
                let list = |cells, windows: &mut Vec<_>| samples.list_by_sample(cells, windows);
                source.fill(list, span, arena, mask, pool);
            } else if alike {
                // The usual case: all samples have the same tickers.
                let list = |cells, windows: &mut Vec<_>| samples.list_by_slot(cells, windows);
                source.fill(list, span, arena, mask, pool);
            } else {
                samples.sort_by_slot(self.panel.tickers().len(), &mut self.sorted);
                let sorted = &self.sorted;
                let list =
                    |cells, windows: &mut Vec<_>| windows.extend_from_slice(sorted.within(cells));
                source.fill(list, span, arena, mask, pool);
            }
        }
    }
}

/// One side of a batch, its states or its next states, whose windows are listed.
#[derive(Clone, Copy)]
struct Samples<'a> {
    plan: &'a MarketPlan,
    batch: &'a TransitionBatch,
    /// Number of tickers of a sample.
    tickers: usize,
    macros: &'a [u32],
    side: usize,
}

impl Samples<'_> {
    fn window(&self, sample: usize, cell: usize, ticker: u32) -> CellWindow {
        let day = self.batch.days[sample * 2 + self.side].cast_unsigned();
        // Both were checked: cells fit 32 bits, and days lie in the panel.
        CellWindow { ticker, cell: u32::try_from(cell).unwrap_or_default(), day }
    }

    /// Lists the windows of some cells `[B, S]`.
    fn list_by_sample(&self, cells: Range<usize>, windows: &mut Vec<CellWindow>) {
        let own = self.tickers;
        let slots = own + self.macros.len();
        for (sample, part) in rows_of(cells, slots) {
            let (from, to) = (part.start, part.end);
            let tokens = &self.batch.tokens[sample * own..][from.min(own)..to.min(own)];
            let macros = &self.macros[from.saturating_sub(own)..to.saturating_sub(own)];
            let tickers = tokens.iter().copied().map(ticker_of).chain(macros.iter().copied());
            let first = sample * slots + from;
            windows.extend(
                tickers.zip(first..).map(|(ticker, cell)| self.window(sample, cell, ticker)),
            );
        }
    }

    /// Lists the windows of some cells `[S, B]`. All samples must have the same tickers.
    fn list_by_slot(&self, cells: Range<usize>, windows: &mut Vec<CellWindow>) {
        let batch = self.plan.batch;
        for (slot, samples) in rows_of(cells, batch) {
            let tickers = self.plan.unique.iter().chain(self.macros);
            let Some(ticker) = tickers.copied().nth(slot) else { return };
            windows
                .extend(samples.map(|sample| self.window(sample, slot * batch + sample, ticker)));
        }
    }

    /// Lists the windows of a batch in `windows`, in the order of the cells `[S, B]`. Samples may
    /// have different tickers. `known` is the number of tickers of the panel.
    fn sort_by_slot(&self, known: usize, windows: &mut SortedWindows) {
        let MarketPlan { batch, own, ref unique, .. } = *self.plan;
        let mut slot_of = vec![0; known];
        for (slot, ticker) in unique.iter().enumerate() {
            slot_of[*ticker as usize] = slot;
        }
        windows.clear();
        for (sample, tokens) in self.batch.tokens.chunks_exact(self.tickers).enumerate() {
            let cell = |ticker: u32| slot_of[ticker as usize] * batch + sample;
            let tickers = tokens.iter().copied().map(ticker_of);
            windows.extend(tickers.map(|ticker| self.window(sample, cell(ticker), ticker)));
        }
        windows.group(known);
        for (ticker, slot) in self.macros.iter().zip(own..) {
            windows.extend(
                (0..batch).map(|sample| self.window(sample, slot * batch + sample, *ticker)),
            );
        }
    }
}

/// Returns the position of a token's ticker.
fn ticker_of(token: u16) -> u32 {
    u32::from(token) - 1
}

/// Iterates over the rows of a matrix of `width` columns that hold some cells, with the columns of
/// those cells.
fn rows_of(cells: Range<usize>, width: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut at = cells.start;
    std::iter::from_fn(move || {
        let (row, from) = (at / width, at % width);
        let to = width.min(from + cells.end - at);
        at += to - from;
        (to > from).then_some((row, from..to))
    })
}
