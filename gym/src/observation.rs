//! What an agent sees, as one buffer per field for all sub-environments, or flat in one.

use std::ops::Range;

use crate::error::EnvError;

/// What the observation of one environment has of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) tickers: usize,
    pub(crate) indicators: usize,
    pub(crate) macros: usize,
}

impl Shape {
    /// Numbers in it.
    pub(crate) fn width(self) -> usize {
        let per_ticker = self.tickers.saturating_mul(self.indicators.saturating_add(3));
        let per_macro = self.macros.saturating_mul(self.indicators.saturating_add(1));
        per_ticker.saturating_add(per_macro).saturating_add(3)
    }
}

/// Observations of `N` environments with `T` tickers, `M` macro tickers and `K` indicators, C order.
///
/// Safe by construction, unless settings ask for something else: of day `d` it holds the open and nothing
/// else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Day of the panel, `[N]`.
    pub day: Vec<i32>,
    /// Cash, `[N]`; never below 0.
    pub cash: Vec<f64>,
    /// Shares held, `[N, T]`.
    pub shares: Vec<i32>,
    /// Average price paid per share held, fee included, `[N, T]`; 0 without shares.
    pub avg_buy_price: Vec<f64>,
    /// Cash plus holdings valued at the open of `day` (a ticker without a row: at its last close), `[N]`; at
    /// the close where the settings say so.
    pub total_asset: Vec<f64>,
    /// Open of `day`, `[N, T]`; 0 where the ticker has no row and cannot be traded that day.
    pub open: Vec<f64>,
    /// Indicators of `day - indicator_lag`, `[N, T, K]`; 0 without a row.
    pub indicators: Vec<f64>,
    /// Open of `day` of the macro tickers shown, `[N, M]`; 0 without a row.
    pub macro_open: Vec<f64>,
    /// Their indicators, `[N, M, K]`, as old as the others.
    pub macro_indicators: Vec<f64>,
}

impl Observation {
    /// Zeros for `n` environments; `None` where memory does not suffice.
    pub(crate) fn zeros(n: usize, shape: Shape) -> Option<Self> {
        let (per_ticker, per_macro) = (n.checked_mul(shape.tickers)?, n.checked_mul(shape.macros)?);
        Some(Self {
            day: zeros(n)?,
            cash: zeros(n)?,
            shares: zeros(per_ticker)?,
            avg_buy_price: zeros(per_ticker)?,
            total_asset: zeros(n)?,
            open: zeros(per_ticker)?,
            indicators: zeros(per_ticker.checked_mul(shape.indicators)?)?,
            macro_open: zeros(per_macro)?,
            macro_indicators: zeros(per_macro.checked_mul(shape.indicators)?)?,
        })
    }

    /// Environments, `N`.
    #[must_use]
    pub fn num_envs(&self) -> usize {
        self.day.len()
    }

    /// Numbers in the flat observation of one environment, `T * (3 + K) + M * (1 + K) + 3`.
    #[must_use]
    pub fn flat_width(&self) -> usize {
        let numbers = 3 * self.num_envs()
            + self.avg_buy_price.len()
            + self.indicators.len()
            + self.macro_indicators.len()
            + self.macro_open.len()
            + self.open.len()
            + self.shares.len();
        numbers.checked_div(self.num_envs()).unwrap_or_default()
    }

    /// Write all fields, as f32, to `out` `[N, flat_width]`: one row per environment, the fields in the
    /// order of their names, each in C order. That is what `gymnasium.spaces.flatten` makes of a dict.
    ///
    /// One pass, no allocation. Nothing is written when `out` has another length.
    pub fn flatten_into(&self, out: &mut [f32]) -> Result<(), EnvError> {
        let envs = self.num_envs();
        let shown =
            |env| [&self.indicators, &self.macro_indicators].map(|of| of_env(of, env, envs));
        self.flatten_with(0..envs, out, shown, 0, |_, _| {})
    }

    /// The same of a batch of one, with the days before it: `days` `[H, X, C]` and `mask` `[H, X]`, 1 or 0, as
    /// [`history_into`](crate::PortfolioVectorEnv::history_into) writes them.
    ///
    /// They stand where fields called `history` and `history_mask` would, tickers first.
    pub fn flatten_with_history(
        &self,
        days: &[f32],
        mask: &[u8],
        history_shape: [usize; 3],
        out: &mut [f32],
    ) -> Result<(), EnvError> {
        let envs = self.num_envs();
        let shown =
            |env| [&self.indicators, &self.macro_indicators].map(|of| of_env(of, env, envs));
        let gap = days.len() + mask.len();
        self.flatten_with(0..envs, out, shown, gap, |_, out| turn(days, mask, history_shape, out))
    }

    /// The same of some environments, with indicators from elsewhere and `gap` numbers of history.
    pub(crate) fn flatten_with<'a>(
        &self,
        of: Range<usize>,
        out: &mut [f32],
        shown: impl Fn(usize) -> [&'a [f64]; 2],
        gap: usize,
        mut history: impl FnMut(usize, &mut [f32]),
    ) -> Result<(), EnvError> {
        let (envs, width) = (self.num_envs(), self.flat_width() + gap);
        let expected = of.len() * width;
        if out.len() != expected {
            return Err(EnvError::BadLength { what: "out", expected, found: out.len() });
        }
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
            let (shares, rest) = rest.split_at_mut(self.shares.len() / envs);
            for (single, &held) in shares.iter_mut().zip(of_env(&self.shares, env, envs)) {
                *single = to_single(f64::from(held));
            }
            singles(rest, &[self.total_asset[env]]);
        }
        Ok(())
    }

    /// The observation of one environment as that of a batch of one; `None` beyond the last.
    #[must_use]
    pub fn row(&self, env: usize) -> Option<Self> {
        let envs = self.num_envs();
        (env < envs).then(|| Self {
            day: of_env(&self.day, env, envs).to_vec(),
            cash: of_env(&self.cash, env, envs).to_vec(),
            shares: of_env(&self.shares, env, envs).to_vec(),
            avg_buy_price: of_env(&self.avg_buy_price, env, envs).to_vec(),
            total_asset: of_env(&self.total_asset, env, envs).to_vec(),
            open: of_env(&self.open, env, envs).to_vec(),
            indicators: of_env(&self.indicators, env, envs).to_vec(),
            macro_open: of_env(&self.macro_open, env, envs).to_vec(),
            macro_indicators: of_env(&self.macro_indicators, env, envs).to_vec(),
        })
    }

    /// Copy one environment's observation from another batch of the same shape.
    pub(crate) fn copy_env(&mut self, from: &Self, env: usize) {
        let envs = self.day.len();
        copy_row(&mut self.day, &from.day, env, envs);
        copy_row(&mut self.cash, &from.cash, env, envs);
        copy_row(&mut self.shares, &from.shares, env, envs);
        copy_row(&mut self.avg_buy_price, &from.avg_buy_price, env, envs);
        copy_row(&mut self.total_asset, &from.total_asset, env, envs);
        copy_row(&mut self.open, &from.open, env, envs);
        copy_row(&mut self.indicators, &from.indicators, env, envs);
        copy_row(&mut self.macro_open, &from.macro_open, env, envs);
        copy_row(&mut self.macro_indicators, &from.macro_indicators, env, envs);
    }
}

/// Write `days` `[H, X, C]` and `mask` `[H, X]` one after the other, tickers first: `[X, H, C]`, `[X, H]`.
pub(crate) fn turn(days: &[f32], mask: &[u8], shape: [usize; 3], out: &mut [f32]) {
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

/// One environment's part of a field.
pub(crate) fn of_env<V>(field: &[V], env: usize, envs: usize) -> &[V] {
    let width = field.len() / envs;
    &field[env * width..(env + 1) * width]
}

/// Round `values` into the front of `out` and return the rest of it.
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

/// A zeroed buffer, or `None` where memory does not suffice.
pub(crate) fn zeros<V: Clone + Default>(len: usize) -> Option<Vec<V>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).ok()?;
    buffer.resize(len, V::default());
    Some(buffer)
}
