//! State of the portfolios between two steps.

use std::ops::Range;

use backcast_core::plumbing::copy_slice;
use backcast_market::Panel;

use super::PortfolioVectorEnv;
use crate::{
    contract::{EpisodeMetrics, check_length, zeros},
    portfolio::{
        error::PortfolioError,
        observation::{Observation, of_env, tickers_first},
        options::PortfolioOptions,
        record::{EpisodeHistory, PortfolioFill},
        rewards::{PortfolioSteps, StepFields},
        units::StepDetails,
    },
};

impl PortfolioVectorEnv {
    /// Returns the observation after the last reset or step.
    #[must_use]
    pub fn obs(&self) -> &Observation {
        &self.portfolios.obs
    }

    /// Returns the last observations of the episodes that the last step ended, with `SameStep`.
    ///
    /// Only rows where [`ended`](Self::ended) is true are valid. The other modes do not write it:
    /// there [`obs`](Self::obs) itself holds the last observation of an ended episode.
    #[must_use]
    pub fn final_obs(&self) -> &Observation {
        &self.final_obs
    }

    /// Returns whether the last step ended an episode, `[N]`: terminated or truncated.
    #[must_use]
    pub fn ended(&self) -> &[bool] {
        self.episodes.ended()
    }

    /// Returns whether the last reset or step began an episode, `[N]`.
    #[must_use]
    pub fn began(&self) -> &[bool] {
        self.episodes.began()
    }

    /// Returns the indicators that sub-environment `env` shows, `[T, K]`, and those of the macro
    /// tickers, `[M, K]`.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice. Possibly also if it was never reset.
    #[must_use]
    pub fn shown(&self, env: usize) -> [&[f64]; 2] {
        let Observation { indicators, macro_indicators, .. } = &self.portfolios.obs;
        self.shown_on(self.portfolios.obs.day[env]).unwrap_or_else(|| {
            [
                of_env(indicators, env, self.num_envs()),
                of_env(macro_indicators, env, self.num_envs()),
            ]
        })
    }

    /// Writes the indicators that all sub-environments show, `[N, T, K]`, and those of the macro
    /// tickers, `[N, M, K]`. Takes one pass and allocates nothing. It is an error if a slice has
    /// another length; nothing is written then.
    ///
    /// # Panics
    ///
    /// Possibly if a sub-environment was never reset.
    pub fn indicators_into(
        &self,
        out: &mut [f64],
        macros: &mut [f64],
    ) -> Result<(), PortfolioError> {
        self.indicators_of(0..self.num_envs(), out, macros)
    }

    /// Writes the indicators of some sub-environments, `[n, T, K]` and `[n, M, K]`. It is an error
    /// if a slice has another length; nothing is written then.
    ///
    /// # Panics
    ///
    /// If there are no such sub-environments, as with any slice. Possibly also if one was never
    /// reset.
    pub fn indicators_of(
        &self,
        of: Range<usize>,
        out: &mut [f64],
        macros: &mut [f64],
    ) -> Result<(), PortfolioError> {
        let Observation { day, indicators, macro_indicators, .. } = &self.portfolios.obs;
        let (width, macro_width) =
            (indicators.len() / day.len(), macro_indicators.len() / day.len());
        check_length("out", of.len() * width, Some(out.len()))?;
        check_length("macros", of.len() * macro_width, Some(macros.len()))?;
        if !self.portfolios.omits_indicators {
            copy_slice(&indicators[of.start * width..of.end * width], out);
            copy_slice(&macro_indicators[of.start * macro_width..of.end * macro_width], macros);
            return Ok(());
        }
        for (place, env) in of.enumerate() {
            let (mine, of_macros) = (env * width, env * macro_width);
            let [shown, macro_shown] = self.shown_on(day[env]).unwrap_or_else(|| {
                [&indicators[mine..][..width], &macro_indicators[of_macros..][..macro_width]]
            });
            copy_slice(shown, &mut out[place * width..][..width]);
            if macro_width > 0 {
                copy_slice(macro_shown, &mut macros[place * macro_width..][..macro_width]);
            }
        }
        Ok(())
    }

    /// Returns the indicators shown on a day. Returns `None` if the day is before `indicator_lag`,
    /// as it can be before a reset, or if the observation has the indicators.
    #[inline]
    fn shown_on(&self, day: i32) -> Option<[&[f64]; 2]> {
        let lag = self.setup.options.indicator_lag;
        let day = usize::try_from(day).ok().filter(|&day| day >= lag)?;
        self.portfolios.omits_indicators.then(|| self.setup.shown_indicators(day)).flatten()
    }

    /// Returns the last observation of an episode that the last step ended, with its indicators.
    /// It is valid only if [`ended`](Self::ended) is true. Returns `None` beyond the last
    /// sub-environment, or without [`final_obs`](Self::final_obs).
    #[must_use]
    pub fn final_row(&self, env: usize) -> Option<Observation> {
        let mut row = self.final_obs.row(env)?;
        if let Some([indicators, macros]) = self.shown_on(row.day[0]) {
            row.indicators.copy_from_slice(indicators);
            row.macro_indicators.copy_from_slice(macros);
        }
        Some(row)
    }

    /// Returns the size of the flat observation of one environment, the history included.
    #[must_use]
    pub fn flat_width(&self) -> usize {
        let [history, rows, columns] = self.history_shape();
        self.portfolios.obs.flat_width() + history * rows * (columns + 1)
    }

    /// Writes the current observations flat, with their histories if there are any: `[N,
    /// flat_width]`, as [`Observation::flatten_into`] and [`Observation::flatten_with_history`].
    pub fn flatten_into(&self, out: &mut [f32]) -> Result<(), PortfolioError> {
        self.flatten_of(0..self.num_envs(), out)
    }

    /// Writes the observations of some sub-environments flat, `[n, flat_width]`. It is an error if
    /// `out` has another length, or if memory for one history does not suffice.
    ///
    /// # Panics
    ///
    /// If there are no such sub-environments, as with any slice. Possibly also if one was never
    /// reset.
    pub fn flatten_of(&self, of: Range<usize>, out: &mut [f32]) -> Result<(), PortfolioError> {
        let shape @ [history, rows, columns] = self.history_shape();
        let cells = history * rows;
        let no_memory = || PortfolioError::NoMemory { numbers: cells.saturating_mul(columns) };
        let numbers = cells.checked_mul(columns).and_then(zeros);
        let (mut days, mut mask) = numbers.zip(zeros(cells)).ok_or_else(no_memory)?;
        self.portfolios.obs.flatten_with(
            of,
            out,
            |env| self.shown(env),
            cells * (columns + 1),
            |env, out| {
                if out.is_empty() {
                    return;
                }
                // A sub-environment that was never reset is on day 0, which has no history.
                let day = usize::try_from(self.portfolios.obs.day[env]).unwrap_or_default();
                self.setup.history_into(self.tickers_at(env), day, history, &mut days, &mut mask);
                tickers_first(&days, &mask, shape, out);
            },
        )
    }

    /// Returns the shape of a history, `[H, X, C]`: `H` days ([`PortfolioOptions::history`]), the
    /// tickers traded and then the macro tickers shown, and all columns of the panel.
    #[must_use]
    pub fn history_shape(&self) -> [usize; 3] {
        self.setup.history_shape()
    }

    /// Writes the days before `day`, oldest first, of the tickers of sub-environment `env` and of
    /// the macro tickers. `out` is `[days, X, C]`, zero without a row; `mask` is `[days, X]`, 1 or
    /// 0.
    ///
    /// Makes one copy if there is a shared table of histories, and allocates nothing. Writes
    /// nothing if the lengths do not fit.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment or day, as with any slice.
    pub fn history_into(
        &self,
        env: usize,
        day: usize,
        out: &mut [f32],
        mask: &mut [u8],
    ) -> Result<(), PortfolioError> {
        let [_, rows, columns] = self.history_shape();
        // One day is the most frequent request; it avoids the division.
        let days = if mask.len() == rows { 1 } else { mask.len() / rows };
        check_length("mask", days * rows, Some(mask.len()))?;
        check_length("out", mask.len() * columns, Some(out.len()))?;
        self.setup.history_into(self.tickers_at(env), day, days, out, mask);
        Ok(())
    }

    /// Prefetches the newest day of a sub-environment's history. Does nothing if `env` is out of
    /// range.
    pub fn prefetch_history(&self, env: usize) {
        if let Some(&day) = self.portfolios.obs.day.get(env) {
            self.setup.prefetch_history(usize::try_from(day).unwrap_or_default());
        }
    }

    /// Returns the rewards of the last step, `[N]`, by default log returns from close to close.
    #[must_use]
    pub fn rewards(&self) -> &[f64] {
        self.episodes.rewards()
    }

    /// Returns which portfolios ended the last step at or below the failure threshold, `[N]`.
    #[must_use]
    pub fn terminated(&self) -> &[bool] {
        self.episodes.terminated()
    }

    /// Returns which episodes reached the last day or the limit of steps in the last step, `[N]`.
    #[must_use]
    pub fn truncated(&self) -> &[bool] {
        self.episodes.truncated()
    }

    /// Returns orders, fills and costs by kind of the last step. Returns `None` unless
    /// [`PortfolioOptions::step_info`] is set.
    #[must_use]
    pub fn details(&self) -> Option<&StepDetails> {
        let books = self.portfolios.books.as_ref()?;
        self.setup.options.step_info.then_some(&books.details)
    }

    /// Returns what rewards of callers read of the last step.
    #[must_use]
    pub fn steps(&self) -> PortfolioSteps<'_> {
        let StepFields { value_before, value, costs, traded, first, acted } =
            &self.portfolios.steps;
        PortfolioSteps {
            value_before,
            value,
            costs,
            traded,
            first,
            acted,
            terminated: self.episodes.terminated(),
            truncated: self.episodes.truncated(),
        }
    }

    /// Returns the values of the portfolios at the close of the current day, `[N]`. By default they
    /// are not part of the observation, since the next orders are filled at that close.
    #[must_use]
    pub fn total_asset_at_close(&self) -> &[f64] {
        &self.portfolios.value_at_close
    }

    /// Returns the number of sub-environments, `N`.
    #[must_use]
    pub fn num_envs(&self) -> usize {
        self.streams.len()
    }

    /// Returns an upper bound of a portfolio's value at the start of an episode: its cash, and all
    /// initial shares at their highest closes.
    #[must_use]
    pub fn most_at_start(&self) -> f64 {
        self.setup.most_at_start()
    }

    /// Returns the lowest and the highest number of an action.
    #[must_use]
    pub fn action_range(&self) -> (f64, f64) {
        let options = &self.setup.options;
        options.actions.range(options.margin.is_some())
    }

    /// Returns the number of tickers of each portfolio, `T`.
    #[must_use]
    pub fn n_tickers(&self) -> usize {
        self.setup.n_tickers
    }

    /// Returns the tickers of one sub-environment in its running episode, in action order.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    pub fn tickers(&self, env: usize) -> impl Iterator<Item = &str> {
        self.tickers_at(env).iter().map(|&ticker| self.setup.panel.tickers()[ticker].as_str())
    }

    /// Returns whether the tickers differ between sub-environments or episodes.
    #[must_use]
    pub fn tickers_vary(&self) -> bool {
        let count = self.n_tickers();
        self.draws.contains(&true)
            || self.tickers.chunks_exact(count).any(|other| *other != self.tickers[..count])
    }

    /// Returns the tokens of the tickers traded, `[N, T]`.
    #[must_use]
    pub fn tokens(&self) -> &[i32] {
        &self.tokens
    }

    /// Returns the macro tickers shown, `M`.
    pub fn macro_tickers(&self) -> impl Iterator<Item = &str> {
        self.setup.macros.iter().map(|&ticker| self.setup.panel.tickers()[ticker].as_str())
    }

    /// Returns the indicators shown, `K`, in the order of the observation.
    #[must_use]
    pub fn indicators(&self) -> &[String] {
        &self.setup.indicators
    }

    /// Returns the metrics of the episodes that the last step ended, `[N]`.
    ///
    /// Only elements where [`ended`](Self::ended) is true are valid.
    #[must_use]
    pub fn metrics(&self) -> &[EpisodeMetrics] {
        self.episodes.metrics()
    }

    /// Returns the metrics of the running episode so far; `None` before the first reset.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn metrics_so_far(&self, env: usize) -> Option<EpisodeMetrics> {
        self.episodes.has_begun(env).then(|| self.portfolios.sums[env].metrics())
    }

    /// Returns the shares that a sub-environment bought and sold in its last step, and the cash
    /// that stop losses raised.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn traded(&self, env: usize) -> (i64, f64) {
        let totals = self.portfolios.totals[env];
        (totals.shares_traded, totals.loss_cut_amount)
    }

    /// Returns the orders, stop losses and settlements of the last step, in sequence; empty unless
    /// [`PortfolioOptions::record`] is set.
    #[must_use]
    pub fn fills(&self) -> &[PortfolioFill] {
        &self.portfolios.fills
    }

    /// Returns the running episode of a sub-environment, or the previous one if `before` is true.
    /// Returns `None` beyond the last sub-environment, or unless [`PortfolioOptions::record`] is
    /// set.
    #[must_use]
    pub fn history(&self, env: usize, before: bool) -> Option<&EpisodeHistory> {
        let record = self.portfolios.records.get(env)?;
        Some(if before { &record.before } else { &record.running })
    }

    /// Returns the settings.
    #[must_use]
    pub fn options(&self) -> &PortfolioOptions {
        &self.setup.options
    }

    /// Returns the panel.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.setup.panel
    }
}
