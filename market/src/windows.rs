//! History and future windows around days: one contiguous copy per (sample, ticker).

use std::sync::atomic::AtomicU64;

use backcast_layout::copy_words;

use crate::{
    blocks::{PanelShape, copy_listed},
    error::WindowError,
    panel::{Panel, PriceColumn},
};

/// Shapes of the memory of a batch of windows.
///
/// The window axis holds `H` days of history, the day itself at position `H`, then `F` days of
/// future. Histories and futures are slices of one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPlan {
    batch: usize,
    tokens: usize,
    history: usize,
    future: usize,
    columns: usize,
}

impl WindowPlan {
    /// Returns the shape of the arena, `[B, T, H + 1 + F, C]`.
    #[must_use]
    pub fn arena_shape(&self) -> [usize; 4] {
        [self.batch, self.tokens, self.window(), self.columns]
    }

    /// Returns the shape of the mask, `[B, T, H + 1 + F]`.
    #[must_use]
    pub fn mask_shape(&self) -> [usize; 3] {
        [self.batch, self.tokens, self.window()]
    }

    /// Returns the number of floats in the arena.
    #[must_use]
    pub fn arena_len(&self) -> usize {
        self.arena_shape().iter().product()
    }

    /// Returns the number of flags in the mask.
    #[must_use]
    pub fn mask_len(&self) -> usize {
        self.mask_shape().iter().product()
    }

    /// Returns the number of days along the window axis, `H + 1 + F`.
    #[must_use]
    pub fn window(&self) -> usize {
        self.history + 1 + self.future
    }
}

/// Days that a window of any panel may have before its own day, or after it.
const SURELY_WITHIN: usize = 4_096;

impl Panel {
    /// Returns the maximum days of a window before its own day, or after it. Windows may reach far
    /// beyond the panel. The limit keeps a typing error from filling all memory with zeros.
    #[must_use]
    pub fn longest_window(&self) -> usize {
        self.days().saturating_mul(4).saturating_add(SURELY_WITHIN)
    }

    /// Refuses windows with more `days` than [`longest_window`](Self::longest_window). `what` names
    /// the argument.
    pub fn check_window(&self, what: &'static str, days: usize) -> Result<(), WindowError> {
        self.check_limit(what, days, self.longest_window())
    }

    /// Refuses more `days` than the longest history, the window's own day and the longest future
    /// have together. `what` names the argument.
    pub fn check_whole_window(&self, what: &'static str, days: usize) -> Result<(), WindowError> {
        let limit = self.longest_window().saturating_mul(2).saturating_add(1);
        self.check_limit(what, days, limit)
    }

    fn check_limit(
        &self,
        what: &'static str,
        days: usize,
        limit: usize,
    ) -> Result<(), WindowError> {
        if days > limit {
            return Err(WindowError::TooLong { what, days, panel_days: self.days(), limit });
        }
        Ok(())
    }

    /// Returns the shapes for `batch` samples of `tokens` windows each. Fails if a window is longer
    /// than [`longest_window`](Self::longest_window), or if the memory cannot be addressed.
    pub fn window_shape(
        &self,
        batch: usize,
        tokens: usize,
        history: usize,
        future: usize,
    ) -> Result<WindowPlan, WindowError> {
        self.check_window("history", history)?;
        self.check_window("future", future)?;
        let columns = self.shape().columns;
        let days = history + 1 + future;
        let bytes = [batch, tokens, columns, size_of::<f32>()]
            .into_iter()
            .try_fold(days, usize::checked_mul)
            .and_then(|bytes| isize::try_from(bytes).ok());
        if bytes.is_none() {
            return Err(WindowError::TooLarge { batch, tokens, days, columns });
        }
        Ok(WindowPlan { batch, tokens, history, future, columns })
    }

    /// Fills `arena` and `mask` with the windows around `days`.
    ///
    /// - `days`: `[B]`, each in `0..D`. `tokens`: `[B, t]`; 0 is `<CASH>`, which has no market.
    /// - `arena`: f32 `[B, t, H + 1 + F, C]`; `mask`: bool `[B, t, H + 1 + F]`, true where the
    ///   ticker has a row. Everything is overwritten.
    /// - Position `H` is the day itself and holds only its open; its other columns are zero.
    /// - Places outside the panel, without a row, or of token 0 are zero and false.
    ///
    /// Makes one copy per (sample, token), without an allocation or a system call. An error leaves
    /// the outputs unchanged.
    #[expect(clippy::too_many_arguments, reason = "two inputs, three sizes and two outputs")]
    pub fn windows_into(
        &self,
        days: &[i64],
        tokens: &[i64],
        t: usize,
        history: usize,
        future: usize,
        arena: &mut [f32],
        mask: &mut [bool],
    ) -> Result<(), WindowError> {
        let plan = self.window_shape(days.len(), t, history, future)?;
        check_length("tokens", &[days.len(), t], tokens.len())?;
        check_length("arena", &plan.arena_shape(), arena.len())?;
        check_length("mask", &plan.mask_shape(), mask.len())?;
        self.check_days(days)?;
        self.check_tokens(tokens)?;
        if tokens.is_empty() {
            return Ok(());
        }

        let window = plan.window();
        let source =
            Source { shape: self.shape(), singles: self.singles(), marks: self.all_marks() };
        let cells = days.iter().flat_map(|day| std::iter::repeat_n(day, t)).zip(tokens);
        let outs = arena.chunks_exact_mut(window * plan.columns).zip(mask.chunks_exact_mut(window));
        for ((&day, &token), (arena, mask)) in cells.zip(outs) {
            // Both were checked: 0 <= day < D, 0 <= token <= T.
            let day = usize::try_from(day).unwrap_or_default();
            match usize::try_from(token).unwrap_or_default().checked_sub(1) {
                None => {
                    arena.fill(0.0);
                    mask.fill(false);
                }
                Some(ticker) => source.copy(ticker, day, history, arena, mask),
            }
        }
        Ok(())
    }

    fn check_days(&self, days: &[i64]) -> Result<(), WindowError> {
        let last = self.days() - 1;
        let outside = |&day: &i64| usize::try_from(day).map_or(true, |day| day > last);
        match days.iter().position(outside) {
            Some(position) => Err(WindowError::BadDay { position, day: days[position], last }),
            None => Ok(()),
        }
    }

    fn check_tokens(&self, tokens: &[i64]) -> Result<(), WindowError> {
        let last = self.tickers().len();
        let outside = |&token: &i64| usize::try_from(token).map_or(true, |token| token > last);
        match tokens.iter().position(outside) {
            Some(position) => {
                Err(WindowError::BadToken { position, token: tokens[position], last })
            }
            None => Ok(()),
        }
    }
}

/// The blocks that windows are copied from.
struct Source<'a> {
    shape: PanelShape,
    singles: &'a [AtomicU64],
    marks: &'a [AtomicU64],
}

impl Source<'_> {
    /// Copies one window. Missing rows are zeros in the block, so they need no special case.
    fn copy(
        &self,
        ticker: usize,
        day: usize,
        history: usize,
        arena: &mut [f32],
        mask: &mut [bool],
    ) {
        let PanelShape { days, columns, .. } = self.shape;
        // Places of the window that lie within the panel.
        let from = history.saturating_sub(day);
        let to = mask.len().min(history + (days - day));
        let first_day = day + from - history;

        arena[..from * columns].fill(0.0);
        arena[to * columns..].fill(0.0);
        let inside = &mut arena[from * columns..to * columns];
        let first = self.shape.row(ticker, first_day) * size_of::<f32>();
        copy_words(self.singles, first, bytemuck::cast_slice_mut(inside));
        // Only the open of the day itself is known.
        let unknown = PriceColumn::Open as usize + 1;
        arena[history * columns..(history + 1) * columns][unknown..].fill(0.0);

        mask[..from].fill(false);
        mask[to..].fill(false);
        let marks = &self.marks[ticker * self.shape.listed_stride()..];
        copy_listed(marks, first_day..first_day + (to - from), &mut mask[from..to]);
    }
}

fn check_length(what: &'static str, shape: &[usize], found: usize) -> Result<(), WindowError> {
    let expected = shape.iter().try_fold(1, |len: usize, &n| len.checked_mul(n));
    if expected == Some(found) {
        return Ok(());
    }
    let expected = expected.unwrap_or(usize::MAX);
    Err(WindowError::BadLength { what, shape: shape.to_vec(), expected, found })
}
