//! What can be seen of the portfolios between two steps.

use std::ops::Range;

use backcast_core::copy_numbers;
use backcast_market::Panel;

use super::PortfolioVectorEnv;
use crate::{
    batch::Phase,
    error::EnvError,
    metrics::EpisodeMetrics,
    observation::{Observation, of_env, turn, zeros},
    options::PortfolioOptions,
    record::{EpisodeHistory, Fill},
    world::check_length,
};

impl PortfolioVectorEnv {
    /// The observation after the last reset or step.
    #[must_use]
    pub fn obs(&self) -> &Observation {
        &self.batch.obs
    }

    /// With `SameStep`: the last observation of the episodes that ended in the last step.
    ///
    /// Only the rows where [`ended`](Self::ended) is true mean anything. Without buffers (empty) in the
    /// other modes, where the observation itself is the final one.
    #[must_use]
    pub fn final_obs(&self) -> &Observation {
        &self.final_obs
    }

    /// Which episodes ended in the last step, `[N]`: terminated or truncated.
    #[must_use]
    pub fn ended(&self) -> &[bool] {
        &self.ended
    }

    /// Which began an episode in the last reset or step, `[N]`.
    #[must_use]
    pub fn began(&self) -> &[bool] {
        &self.began
    }

    /// The indicators that sub-environment `env` shows, `[T, K]`, and those of the macro tickers, `[M, K]`.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, like any slice, or it was never reset.
    #[must_use]
    pub fn shown(&self, env: usize) -> [&[f64]; 2] {
        let Observation { indicators, macro_indicators, .. } = &self.batch.obs;
        self.shown_on(self.batch.obs.day[env]).unwrap_or_else(|| {
            [
                of_env(indicators, env, self.num_envs()),
                of_env(macro_indicators, env, self.num_envs()),
            ]
        })
    }

    /// Write the indicators that all sub-environments show, `[N, T, K]`, and those of the macro tickers,
    /// `[N, M, K]`: what [`shown`](Self::shown) says of each. One pass, no allocation.
    pub fn indicators_into(&self, out: &mut [f64], macros: &mut [f64]) -> Result<(), EnvError> {
        self.indicators_of(0..self.num_envs(), out, macros)
    }

    /// The same of some sub-environments, `[n, T, K]` and `[n, M, K]`.
    ///
    /// # Panics
    ///
    /// If there are no such sub-environments, like any slice.
    pub fn indicators_of(
        &self,
        of: Range<usize>,
        out: &mut [f64],
        macros: &mut [f64],
    ) -> Result<(), EnvError> {
        let Observation { day, indicators, macro_indicators, .. } = &self.batch.obs;
        let (width, macro_width) =
            (indicators.len() / day.len(), macro_indicators.len() / day.len());
        check_length("out", of.len() * width, Some(out.len()))?;
        check_length("macros", of.len() * macro_width, Some(macros.len()))?;
        if !self.batch.lean {
            copy_numbers(&indicators[of.start * width..of.end * width], out);
            copy_numbers(&macro_indicators[of.start * macro_width..of.end * macro_width], macros);
            return Ok(());
        }
        for (place, env) in of.enumerate() {
            let (mine, of_macros) = (env * width, env * macro_width);
            let [shown, macro_shown] = self.shown_on(day[env]).unwrap_or_else(|| {
                [&indicators[mine..][..width], &macro_indicators[of_macros..][..macro_width]]
            });
            copy_numbers(shown, &mut out[place * width..][..width]);
            if macro_width > 0 {
                copy_numbers(macro_shown, &mut macros[place * macro_width..][..macro_width]);
            }
        }
        Ok(())
    }

    /// The indicators shown on a day; `None` where there are none but in the observation, or before a reset.
    #[inline]
    fn shown_on(&self, day: i32) -> Option<[&[f64]; 2]> {
        let lag = self.world.options.indicator_lag;
        let day = usize::try_from(day).ok().filter(|&day| day >= lag)?;
        self.batch.lean.then(|| self.world.laid_out(day)).flatten()
    }

    /// The last observation of an episode that ended in the last step, whole; `None` beyond the last
    /// sub-environment, or where there are no [`final_obs`](Self::final_obs).
    #[must_use]
    pub fn final_row(&self, env: usize) -> Option<Observation> {
        let mut row = self.final_obs.row(env)?;
        if let Some([indicators, macros]) = self.shown_on(row.day[0]) {
            row.indicators.copy_from_slice(indicators);
            row.macro_indicators.copy_from_slice(macros);
        }
        Some(row)
    }

    /// Numbers in the flat observation of one environment, the days before it included.
    #[must_use]
    pub fn flat_width(&self) -> usize {
        let [history, rows, columns] = self.history_shape();
        self.batch.obs.flat_width() + history * rows * (columns + 1)
    }

    /// As [`Observation::flatten_into`], of what is shown now, with the days before it where there are such
    /// ([`Observation::flatten_with_history`]): `[N, flat_width]`.
    pub fn flatten_into(&self, out: &mut [f32]) -> Result<(), EnvError> {
        self.flatten_of(0..self.num_envs(), out)
    }

    /// The same of some sub-environments, `[n, flat_width]`.
    ///
    /// # Panics
    ///
    /// If there are no such sub-environments, like any slice.
    pub fn flatten_of(&self, of: Range<usize>, out: &mut [f32]) -> Result<(), EnvError> {
        let shape @ [history, rows, columns] = self.history_shape();
        let cells = history * rows;
        let none = || EnvError::NoMemory { numbers: cells.saturating_mul(columns) };
        let numbers = cells.checked_mul(columns).and_then(zeros);
        let (mut days, mut mask) = numbers.zip(zeros(cells)).ok_or_else(none)?;
        self.batch.obs.flatten_with(
            of,
            out,
            |env| self.shown(env),
            cells * (columns + 1),
            |env, out| {
                if out.is_empty() {
                    return;
                }
                // A sub-environment that was never reset stands on day 0, which has nothing before it.
                let day = usize::try_from(self.batch.obs.day[env]).unwrap_or_default();
                self.world.history_into(self.tickers_at(env), day, history, &mut days, &mut mask);
                turn(&days, &mask, shape, out);
            },
        )
    }

    /// What [`history_into`](Self::history_into) shows: `[H, X, C]`, with `H` days
    /// ([`PortfolioOptions::history`]), the tickers traded and the macro tickers shown, and all columns of the
    /// panel.
    #[must_use]
    pub fn history_shape(&self) -> [usize; 3] {
        let shape = self.world.shape();
        let columns = self.world.panel.columns().len();
        [self.world.options.history, shape.tickers + shape.macros, columns]
    }

    /// Write the days before `day`, oldest first, of what sub-environment `env` trades and of the macro
    /// tickers: `out` `[days, X, C]`, and which rows there are, `mask` `[days, X]`, 1 or 0. Zeros where there is
    /// none.
    ///
    /// One copy where the batch has laid its days out, no allocation. Nothing is written when the two do not
    /// fit one another.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment or day, like any slice.
    pub fn history_into(
        &self,
        env: usize,
        day: usize,
        out: &mut [f32],
        mask: &mut [u8],
    ) -> Result<(), EnvError> {
        let [_, rows, columns] = self.history_shape();
        // The newest day alone is asked for most often, of many portfolios: it is counted without a division.
        let days = if mask.len() == rows { 1 } else { mask.len() / rows };
        check_length("mask", days * rows, Some(mask.len()))?;
        check_length("out", mask.len() * columns, Some(out.len()))?;
        self.world.history_into(self.tickers_at(env), day, days, out, mask);
        Ok(())
    }

    /// Ask for the newest day of what [`history_into`](Self::history_into) will soon write of a sub-environment: each
    /// stands on a day of its own, which nobody could guess. No such sub-environment: nothing happens.
    pub fn ask_history(&self, env: usize) {
        if let Some(&day) = self.batch.obs.day.get(env) {
            self.world.ask_history(usize::try_from(day).unwrap_or_default());
        }
    }

    /// Log return from close to close of the last step, `[N]`.
    #[must_use]
    pub fn rewards(&self) -> &[f64] {
        &self.batch.rewards
    }

    /// Which portfolios fell to the failure threshold in the last step, `[N]`.
    #[must_use]
    pub fn terminated(&self) -> &[bool] {
        &self.batch.terminated
    }

    /// Which episodes ran out of days or steps in the last step, `[N]`.
    #[must_use]
    pub fn truncated(&self) -> &[bool] {
        &self.batch.truncated
    }

    /// Portfolios valued at the close of the current day, `[N]`. Not part of the observation: it holds
    /// the price of the next fill.
    #[must_use]
    pub fn total_asset_at_close(&self) -> &[f64] {
        &self.batch.value_at_close
    }

    /// Sub-environments, `N`.
    #[must_use]
    pub fn num_envs(&self) -> usize {
        self.streams.len()
    }

    /// The most that a portfolio can be worth when its episode begins: with what it holds at the highest close of all days.
    #[must_use]
    pub fn most_at_start(&self) -> f64 {
        self.world.most_at_start()
    }

    /// Tickers traded by each, `T`.
    #[must_use]
    pub fn n_tickers(&self) -> usize {
        self.world.n_tickers
    }

    /// Tickers that one sub-environment trades in its running episode, in action order.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, like any slice.
    pub fn tickers(&self, env: usize) -> impl Iterator<Item = &str> {
        self.tickers_at(env).iter().map(|&ticker| self.world.panel.tickers()[ticker].as_str())
    }

    /// Do they differ between sub-environments or episodes?
    #[must_use]
    pub fn tickers_vary(&self) -> bool {
        let count = self.n_tickers();
        self.draws.contains(&true)
            || self.tickers.chunks_exact(count).any(|other| *other != self.tickers[..count])
    }

    /// Tokens in the panel of the tickers traded, `[N, T]`.
    #[must_use]
    pub fn tokens(&self) -> &[i32] {
        &self.tokens
    }

    /// Macro tickers shown, `M`.
    pub fn macro_tickers(&self) -> impl Iterator<Item = &str> {
        self.world.macros.iter().map(|&ticker| self.world.panel.tickers()[ticker].as_str())
    }

    /// Indicators shown, `K`, in the order of the observation.
    #[must_use]
    pub fn indicators(&self) -> &[String] {
        &self.world.indicators
    }

    /// What the episodes that ended in the last step came to, `[N]`.
    ///
    /// Only the rows where [`ended`](Self::ended) is true mean anything.
    #[must_use]
    pub fn metrics(&self) -> &[EpisodeMetrics] {
        &self.metrics
    }

    /// What the running episode of a sub-environment has come to so far; `None` before its first reset.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, like any slice.
    #[must_use]
    pub fn metrics_so_far(&self, env: usize) -> Option<EpisodeMetrics> {
        (self.batch.phase[env] != Phase::New).then(|| self.batch.sums[env].metrics())
    }

    /// Shares that a sub-environment bought and sold in its last step, and the cash that stop losses raised.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, like any slice.
    #[must_use]
    pub fn traded(&self, env: usize) -> (i64, f64) {
        let tally = self.batch.tallies[env];
        (tally.shares_traded, tally.loss_cut_amount)
    }

    /// Orders executed in the last step, in order; empty unless [`PortfolioOptions::record`] is set.
    #[must_use]
    pub fn fills(&self) -> &[Fill] {
        &self.batch.fills
    }

    /// The running episode of a sub-environment, day by day, or the one before it; `None` unless
    /// [`PortfolioOptions::record`] is set.
    #[must_use]
    pub fn history(&self, env: usize, before: bool) -> Option<&EpisodeHistory> {
        let record = self.batch.records.get(env)?;
        Some(if before { &record.before } else { &record.running })
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> &PortfolioOptions {
        &self.world.options
    }

    /// The market.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.world.panel
    }
}
