//! Observations: one buffer per field for all sub-environments, or one flat row for each.

use std::ops::Range;

use super::error::PortfolioError;
use crate::contract::{check_length, zeros};

/// Maximum size of all observations of one step without histories, and of all their histories: one
/// gibibyte each.
pub(super) const MOST_BYTES: usize = 1 << 30;

/// Sizes of the observation of one sub-environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObservationShape {
    pub(crate) tickers: usize,
    pub(crate) indicators: usize,
    pub(crate) macros: usize,
    /// Whether positions may be fractions of a share.
    pub(crate) fractional: bool,
}

impl ObservationShape {
    /// Returns the number of elements of an observation.
    pub(crate) fn width(self) -> usize {
        let per_ticker = self.tickers.saturating_mul(self.indicators.saturating_add(3));
        let per_macro = self.macros.saturating_mul(self.indicators.saturating_add(1));
        per_ticker.saturating_add(per_macro).saturating_add(3)
    }
}

/// Observations of `N` environments with `T` tickers, `M` macro tickers and `K` indicators, C
/// order.
///
/// By default an observation holds the open of day `d` and nothing else of that day. Settings can
/// allow look-ahead.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Observation {
    /// Day of the panel, `[N]`.
    pub day: Vec<i32>,
    /// Cash, `[N]`; below 0 only with a margin.
    pub cash: Vec<f64>,
    /// Shares held, negative if short, `[N, T]`. Empty if they may be fractions.
    pub shares: Vec<i32>,
    /// Units held if they may be fractions, negative if short, `[N, T]`; else empty.
    pub units: Vec<f64>,
    /// Average price paid per share held, fee included, `[N, T]`; 0 without shares.
    pub avg_buy_price: Vec<f64>,
    /// Cash plus holdings valued at the open of `day`, or at the close if so configured, `[N]`. A
    /// ticker without a row is valued at its last close.
    pub total_asset: Vec<f64>,
    /// Open of `day`, `[N, T]`; 0 for a ticker without a row, which cannot be traded that day.
    pub open: Vec<f64>,
    /// Indicators of `day - indicator_lag`, `[N, T, K]`; 0 without a row.
    pub indicators: Vec<f64>,
    /// Open of `day` of the macro tickers shown, `[N, M]`; 0 without a row.
    pub macro_open: Vec<f64>,
    /// Indicators of the macro tickers, `[N, M, K]`, as old as `indicators`.
    pub macro_indicators: Vec<f64>,
}

impl Observation {
    /// Returns zeros for `n` environments, or `None` where memory does not suffice.
    pub(crate) fn zeros(n: usize, shape: ObservationShape) -> Option<Self> {
        let (per_ticker, per_macro) = (n.checked_mul(shape.tickers)?, n.checked_mul(shape.macros)?);
        Some(Self {
            day: zeros(n)?,
            cash: zeros(n)?,
            shares: zeros(if shape.fractional { 0 } else { per_ticker })?,
            units: zeros(if shape.fractional { per_ticker } else { 0 })?,
            avg_buy_price: zeros(per_ticker)?,
            total_asset: zeros(n)?,
            open: zeros(per_ticker)?,
            indicators: zeros(per_ticker.checked_mul(shape.indicators)?)?,
            macro_open: zeros(per_macro)?,
            macro_indicators: zeros(per_macro.checked_mul(shape.indicators)?)?,
        })
    }

    /// Returns the number of environments, `N`.
    #[must_use]
    pub fn num_envs(&self) -> usize {
        self.day.len()
    }

    /// Returns the size of the flat observation of one environment,
    /// `T * (3 + K) + M * (1 + K) + 3`.
    #[must_use]
    pub fn flat_width(&self) -> usize {
        let numbers = 3 * self.num_envs()
            + self.avg_buy_price.len()
            + self.indicators.len()
            + self.macro_indicators.len()
            + self.macro_open.len()
            + self.open.len()
            + self.shares.len()
            + self.units.len();
        numbers.checked_div(self.num_envs()).unwrap_or_default()
    }

    /// Writes all fields as f32 to `out` `[N, flat_width]`, one row per environment. Fields are in
    /// the order of their names, each in C order, as `gymnasium.spaces.flatten` orders a dict.
    ///
    /// Takes one pass and allocates nothing. Writes nothing if `out` has another length.
    pub fn flatten_into(&self, out: &mut [f32]) -> Result<(), PortfolioError> {
        let envs = self.num_envs();
        let shown =
            |env| [&self.indicators, &self.macro_indicators].map(|of| of_env(of, env, envs));
        self.flatten_with(0..envs, out, shown, 0, |_, _| {})
    }

    /// Writes the flat observation of a single environment together with its history. `days` `[H,
    /// X, C]` and `mask` `[H, X]` are outputs of
    /// [`history_into`](crate::PortfolioVectorEnv::history_into).
    ///
    /// Both are written where fields named `history` and `history_mask` would be, with the axis of
    /// tickers first.
    pub fn flatten_with_history(
        &self,
        days: &[f32],
        mask: &[u8],
        history_shape: [usize; 3],
        out: &mut [f32],
    ) -> Result<(), PortfolioError> {
        let envs = self.num_envs();
        let shown =
            |env| [&self.indicators, &self.macro_indicators].map(|of| of_env(of, env, envs));
        let gap = days.len() + mask.len();
        self.flatten_with(0..envs, out, shown, gap, |_, out| {
            tickers_first(days, mask, history_shape, out);
        })
    }

    /// Writes the flat observations of environments `of`, with the indicators that `shown` returns
    /// and the `gap` numbers that `history` writes. Nothing is written if `out` has another length.
    pub(crate) fn flatten_with<'a>(
        &self,
        of: Range<usize>,
        out: &mut [f32],
        shown: impl Fn(usize) -> [&'a [f64]; 2],
        gap: usize,
        mut history: impl FnMut(usize, &mut [f32]),
    ) -> Result<(), PortfolioError> {
        let (envs, width) = (self.num_envs(), self.flat_width() + gap);
        let expected = of.len() * width;
        check_length("out", expected, Some(out.len()))?;
        for (env, row) in of.zip(out.chunks_exact_mut(width.max(1))) {
            let rest = singles(row, of_env(&self.avg_buy_price, env, envs));
            let rest = singles(rest, &[self.cash[env]]);
            let rest = singles(rest, &[f64::from(self.day[env])]);
            let (days, rest) = rest.split_at_mut(gap);
            history(env, days);
            let [indicators, macro_indicators] = shown(env);
            let rest = singles(rest, indicators);
            let rest = singles(rest, macro_indicators);
            let rest = singles(rest, of_env(&self.macro_open, env, envs));
            let rest = singles(rest, of_env(&self.open, env, envs));
            let rest = singles(rest, of_env(&self.units, env, envs));
            let (shares, rest) = rest.split_at_mut(self.shares.len() / envs);
            for (single, &held) in shares.iter_mut().zip(of_env(&self.shares, env, envs)) {
                *single = to_single(f64::from(held));
            }
            singles(rest, &[self.total_asset[env]]);
        }
        Ok(())
    }

    /// Returns the observation of one environment, or `None` beyond the last.
    #[must_use]
    pub fn row(&self, env: usize) -> Option<Self> {
        let envs = self.num_envs();
        (env < envs).then(|| Self {
            day: of_env(&self.day, env, envs).to_vec(),
            cash: of_env(&self.cash, env, envs).to_vec(),
            shares: of_env(&self.shares, env, envs).to_vec(),
            units: of_env(&self.units, env, envs).to_vec(),
            avg_buy_price: of_env(&self.avg_buy_price, env, envs).to_vec(),
            total_asset: of_env(&self.total_asset, env, envs).to_vec(),
            open: of_env(&self.open, env, envs).to_vec(),
            indicators: of_env(&self.indicators, env, envs).to_vec(),
            macro_open: of_env(&self.macro_open, env, envs).to_vec(),
            macro_indicators: of_env(&self.macro_indicators, env, envs).to_vec(),
        })
    }

    /// Copies the observation of one environment from another of the same shape.
    pub(crate) fn copy_env(&mut self, from: &Self, env: usize) {
        let envs = self.day.len();
        copy_row(&mut self.day, &from.day, env, envs);
        copy_row(&mut self.cash, &from.cash, env, envs);
        copy_row(&mut self.shares, &from.shares, env, envs);
        copy_row(&mut self.units, &from.units, env, envs);
        copy_row(&mut self.avg_buy_price, &from.avg_buy_price, env, envs);
        copy_row(&mut self.total_asset, &from.total_asset, env, envs);
        copy_row(&mut self.open, &from.open, env, envs);
        copy_row(&mut self.indicators, &from.indicators, env, envs);
        copy_row(&mut self.macro_open, &from.macro_open, env, envs);
        copy_row(&mut self.macro_indicators, &from.macro_indicators, env, envs);
    }
}

/// Writes `days` `[H, X, C]` and `mask` `[H, X]` with swapped axes, `[X, H, C]` then `[X, H]`.
pub(crate) fn tickers_first(days: &[f32], mask: &[u8], shape: [usize; 3], out: &mut [f32]) {
    let [history, rows, columns] = shape;
    let (numbers, flags) = out.split_at_mut(days.len());
    for row in 0..rows {
        for day in 0..history {
            let (from, to) = (day * rows + row, row * history + day);
            numbers[to * columns..(to + 1) * columns]
                .copy_from_slice(&days[from * columns..(from + 1) * columns]);
            flags[to] = f32::from(mask[from]);
        }
    }
}

fn copy_row<V: Copy>(to: &mut [V], from: &[V], env: usize, envs: usize) {
    let width = to.len() / envs;
    to[env * width..(env + 1) * width].copy_from_slice(of_env(from, env, envs));
}

/// Returns the part of a field that belongs to one environment.
pub(crate) fn of_env<V>(field: &[V], env: usize, envs: usize) -> &[V] {
    let width = field.len() / envs;
    &field[env * width..(env + 1) * width]
}

/// Rounds `values` into the front of `out` and returns the rest of it.
fn singles<'a>(out: &'a mut [f32], values: &[f64]) -> &'a mut [f32] {
    let (front, rest) = out.split_at_mut(values.len());
    for (single, &value) in front.iter_mut().zip(values) {
        *single = to_single(value);
    }
    rest
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what a flat one is for")]
fn to_single(value: f64) -> f32 {
    value as f32
}
