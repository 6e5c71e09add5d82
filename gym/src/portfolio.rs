//! The vectorised portfolio environment: resets, steps, autoreset, and the checks before them.

use backcast_core::{AutoresetMode, Wide, wide};
use backcast_market::Panel;

use crate::{
    batch::{Batch, Phase, Turn},
    error::EnvError,
    metrics::EpisodeMetrics,
    observation::{Observation, of_env, turn, zeros},
    options::{PortfolioOptions, ResetSeed},
    record::{EpisodeHistory, Fill},
    stream::{Stream, spread},
    world::{World, check_length, positions},
};

/// Portfolios from which on the days of their tickers are laid out for them: fewer would not read the copy
/// often enough, and processes with one each would all have one.
const MANY: usize = 8;

/// Portfolios between asking for the memory of a step and the step.
const AHEAD: usize = 2;

/// Numbers in all observations of one step: a gibibyte of them.
const MOST_NUMBERS: usize = (1 << 30) / size_of::<f64>();

/// `N` portfolios of `T` tickers on one panel, stepped together in the calling thread.
///
/// # One step on day `d`
///
/// 1. Orders of `trunc(action * hmax)` shares are filled on `d`, at the close unless [`Bidding`](crate::Bidding) says
///    otherwise: sells first, largest first, then buys, largest first, ties in ticker order; a buy is cut
///    to the cash. A ticker without a row on `d` is not traded. Then stop losses sell what has fallen too far
///    (or on the next day: [`StopLossDay`](crate::StopLossDay)).
/// 2. The day advances. Reward: `ln` of the value at the close of `d + 1` over that at the close of `d`
///    before trading. A holding without a row is valued at its last close.
/// 3. Terminated: that value is at or below `failure_threshold`. Truncated: `d + 1` is the last day, or
///    `max_episode_steps` are done. Both can be true.
/// 4. The observation of `d + 1`: its open, the indicators of `d + 1 - indicator_lag`, and the
///    portfolio valued at the open. Nothing that is known only after the open of `d + 1` is in it.
///
/// # After an end
///
/// - `NextStep`: the next step ignores the action, resets, and has reward 0 and no flags.
/// - `SameStep`: the observation is already the next episode's first; the last one of the old episode is in
///   [`final_obs`](Self::final_obs), reward and flags are the old episode's.
/// - `Disabled`: the next step is an error until the environment is reset.
///
/// # Starts
///
/// A start day is drawn uniformly from the days between the latest first listing of the tickers (and
/// `indicator_lag` more; macro tickers count too) and four fifths of the range less one, where every
/// ticker is listed, and has been on each of the `history_length` days before if there are such days. Tickers
/// that are drawn may have no common day: then any day will do, and what is not listed is not traded. Draws of sub-environment `i` depend on its own seed alone.
///
/// A step allocates nothing; its cost is one pass over `N * T` tickers and their indicators.
#[derive(Clone, Debug)]
pub struct PortfolioVectorEnv {
    world: World,
    batch: Batch,
    streams: Vec<Stream>,
    /// Positions in the panel, `[N, T]`.
    tickers: Vec<usize>,
    /// Which draw their tickers at the start of every episode, `[N]`.
    draws: Vec<bool>,
    final_obs: Observation,
    ended: Vec<bool>,
    /// Which began an episode in the last reset or step, `[N]`.
    began: Vec<bool>,
    /// Of the episodes that ended in the last step, `[N]`.
    metrics: Vec<EpisodeMetrics>,
    tokens: Vec<i32>,
}

/// Where an episode begins.
#[derive(Clone, Copy)]
enum Start {
    On(usize),
    /// On a drawn day, but not on the first so many.
    Drawn(usize),
}

impl PortfolioVectorEnv {
    /// `num_envs` portfolios on `panel`; reset them before the first step.
    ///
    /// There may be as many as show a gibibyte of numbers at a step, `T * (3 + K) + 3` each with `K`
    /// indicators: 403,000 with 30 tickers and 8 indicators.
    pub fn new(panel: Panel, num_envs: usize, options: PortfolioOptions) -> Result<Self, EnvError> {
        let world = World::new(panel, options, &[])?;
        let draws = world.draws_tickers();
        Self::with_world(world, num_envs, |_| (None, draws))
    }

    /// One portfolio for each list of tickers, in the order of its actions; all lists are of one length,
    /// but those that are empty: they are filled from `options`, drawn anew for every episode.
    pub fn with_tickers(
        panel: Panel,
        each: &[Vec<String>],
        options: PortfolioOptions,
    ) -> Result<Self, EnvError> {
        let each: Vec<Vec<usize>> =
            each.iter().map(|names| positions(&panel, names)).collect::<Result<_, _>>()?;
        let lengths = each.iter().map(Vec::len).enumerate();
        let mut lengths = lengths.filter(|&(_, len)| len > 0);
        if let Some((_, expected)) = lengths.next()
            && let Some((env, found)) = lengths.find(|&(_, found)| found != expected)
        {
            return Err(EnvError::UnequalTickers { env, found, expected });
        }
        let world = World::new(panel, options, &each)?;
        let draws = world.draws_tickers();
        Self::with_world(world, each.len(), |env| match &each[env][..] {
            [] => (None, draws),
            tickers => (Some(tickers), false),
        })
    }

    fn with_world<'a>(
        world: World,
        num_envs: usize,
        of: impl Fn(usize) -> (Option<&'a [usize]>, bool),
    ) -> Result<Self, EnvError> {
        let shape = world.shape();
        // Final observations have a buffer only where they are needed.
        let finals =
            usize::from(world.options.autoreset_mode == AutoresetMode::SameStep) * num_envs;
        let limit = MOST_NUMBERS / shape.width();
        let buffers = (1..=limit)
            .contains(&num_envs)
            .then(|| {
                let batch = Batch::new(num_envs, shape, world.options.record)?;
                let per_ticker = num_envs.checked_mul(shape.tickers)?;
                let (tickers, tokens) = (zeros(per_ticker)?, zeros(per_ticker)?);
                let rest = (zeros(num_envs)?, zeros(num_envs)?, zeros(num_envs)?);
                Some((batch, Observation::zeros(finals, shape)?, tickers, tokens, rest))
            })
            .flatten();
        let Some((batch, final_obs, tickers, tokens, (ended, began, metrics))) = buffers else {
            let (tickers, indicators) = (shape.tickers, shape.indicators);
            return Err(EnvError::BadNumEnvs { num_envs, limit, tickers, indicators });
        };
        let generator = world.options.generator;
        let seed: u64 = rand::random();
        let streams =
            (0..num_envs as u64).map(|env| Stream::new(generator, spread(seed, env))).collect();
        let draws = (0..num_envs).map(|env| of(env).1).collect();
        let mut made = Self {
            world,
            batch,
            streams,
            tickers,
            draws,
            final_obs,
            ended,
            began,
            metrics,
            tokens,
        };
        for env in 0..num_envs {
            let chosen = of(env).0.unwrap_or(made.world.first_tickers());
            made.tickers[env * shape.tickers..(env + 1) * shape.tickers].copy_from_slice(chosen);
            made.note_tokens(env);
        }
        if num_envs >= MANY && !made.tickers_vary() {
            made.world.lay_out(&made.tickers[..shape.tickers]);
        }
        Ok(made)
    }

    fn note_tokens(&mut self, env: usize) {
        let mine = env * self.n_tickers()..(env + 1) * self.n_tickers();
        for (token, &ticker) in self.tokens[mine.clone()].iter_mut().zip(&self.tickers[mine]) {
            // Panels hold at most i32::MAX tickers.
            *token = i32::try_from(ticker + 1).unwrap_or(i32::MAX);
        }
    }

    /// Begin new episodes.
    ///
    /// - `seed`: where the random streams go on.
    /// - `mask` `[N]`: which sub-environments to reset, at least one; `None`: all. The others keep their
    ///   state, their observation and their stream.
    /// - `start_day` `[N]`: begin there instead of on a drawn day; read where `mask` is true. The day
    ///   may lie beyond four fifths of the range. No random number is used up for it.
    pub fn reset(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        start_day: Option<&[usize]>,
    ) -> Result<(), EnvError> {
        let num_envs = self.num_envs();
        check_length("start_day", num_envs, start_day.map(<[usize]>::len))?;
        self.check_reset(seed, mask)?;
        if let Some(days) = start_day {
            for env in (0..num_envs).filter(|&env| mask.is_none_or(|mask| mask[env])) {
                let known = (!self.draws[env]).then(|| self.tickers_at(env));
                self.world.check_start(env, days[env], known)?;
            }
        } else {
            self.check_drawn(mask)?;
        }
        self.begin_anew(seed, mask, |env| {
            start_day.map_or(Start::Drawn(0), |days| Start::On(days[env]))
        });
        Ok(())
    }

    /// Begin new episodes on days drawn from those allowed but the first `shift`.
    pub fn reset_shifted(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        shift: usize,
    ) -> Result<(), EnvError> {
        self.check_reset(seed, mask)?;
        self.check_drawn(mask)?;
        for env in 0..self.num_envs() {
            // Tickers that are about to be drawn start where they can.
            if shift > 0 && !self.draws[env] && mask.is_none_or(|mask| mask[env]) {
                self.world.check_shift(env, shift, self.tickers_at(env))?;
            }
        }
        self.begin_anew(seed, mask, |_| Start::Drawn(shift));
        Ok(())
    }

    fn check_reset(&self, seed: ResetSeed<'_>, mask: Option<&[bool]>) -> Result<(), EnvError> {
        let num_envs = self.num_envs();
        check_length("mask", num_envs, mask.map(<[bool]>::len))?;
        if let ResetSeed::Each(seeds) = seed {
            check_length("seed", num_envs, Some(seeds.len()))?;
        }
        if !(0..num_envs).any(|env| mask.is_none_or(|mask| mask[env])) {
            return Err(EnvError::EmptyMask { num_envs });
        }
        Ok(())
    }

    /// Is there a day to draw for all that are about to begin? Where episodes are played on this is asked
    /// here, since their callers may name other tickers or a day; elsewhere nothing is made without.
    fn check_drawn(&self, mask: Option<&[bool]>) -> Result<(), EnvError> {
        let asked = |env: &usize| !self.draws[*env] && mask.is_none_or(|mask| mask[*env]);
        let play_on = self.world.options.play_on;
        (0..self.num_envs())
            .filter(|_| play_on)
            .filter(asked)
            .try_for_each(|env| self.world.check_starts(self.tickers_at(env)))
    }

    fn begin_anew(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        start: impl Fn(usize) -> Start,
    ) {
        self.batch.fills.clear();
        self.began.fill(false);
        for env in (0..self.num_envs()).filter(|&env| mask.is_none_or(|mask| mask[env])) {
            let seed = match seed {
                ResetSeed::Keep => None,
                ResetSeed::One(seed) => Some(seed.wrapping_add(env as u64)),
                ResetSeed::Spread(seed) => Some(spread(seed, env as u64)),
                ResetSeed::Each(seeds) => seeds[env],
            };
            if let Some(seed) = seed {
                self.streams[env] = Stream::new(self.world.options.generator, seed);
            }
            self.begin(env, start(env));
            self.batch.clear_outcome(env);
            self.ended[env] = false;
        }
    }

    /// Begin an episode.
    fn begin(&mut self, env: usize, start: Start) {
        let count = self.n_tickers();
        let tickers = &mut self.tickers[env * count..(env + 1) * count];
        let stream = &mut self.streams[env];
        if self.draws[env] {
            self.world.draw_tickers(stream, tickers);
        }
        let day = match start {
            Start::On(day) => day,
            Start::Drawn(shift) => self.world.draw_start(tickers, shift, stream),
        };
        self.began[env] = true;
        let mut turn = Turn { env, tickers, stream };
        self.batch.begin(&self.world.view(), &mut turn, day);
        if self.draws[env] {
            self.note_tokens(env);
        }
    }

    /// Let something else happen after the next ends. What has ended already begins anew at the next step,
    /// unless the mode is `Disabled`.
    pub fn set_autoreset_mode(&mut self, mode: AutoresetMode) -> Result<(), EnvError> {
        let shape = self.world.shape();
        let num_envs = self.num_envs();
        if mode == AutoresetMode::SameStep && self.final_obs.num_envs() == 0 {
            let (tickers, indicators) = (shape.tickers, shape.indicators);
            let limit = num_envs - 1;
            self.final_obs = Observation::zeros(num_envs, shape).ok_or(EnvError::BadNumEnvs {
                num_envs,
                limit,
                tickers,
                indicators,
            })?;
        }
        self.world.options.autoreset_mode = mode;
        Ok(())
    }

    /// Step all sub-environments. `actions`: `[N, T]` in `[-1, 1]`, f32 or f64.
    ///
    /// All actions are checked before anything happens; those of a sub-environment that is about to be
    /// reset are not looked at.
    pub fn step<A: Copy + Into<f64>>(&mut self, actions: &[A]) -> Result<(), EnvError> {
        self.check_step(actions)?;
        let (mode, count) = (self.world.options.autoreset_mode, self.n_tickers());
        self.batch.fills.clear();
        self.began.fill(false);
        let mut world = self.world.view();
        for (env, actions) in actions.chunks_exact(count).enumerate() {
            if self.batch.phase[env] == Phase::Ended && mode != AutoresetMode::Disabled {
                self.begin(env, Start::Drawn(0));
                world = self.world.view();
                self.batch.clear_outcome(env);
                self.ended[env] = false;
                continue;
            }
            // Every portfolio stands on a day of its own, which nobody could guess.
            self.batch.ask(&world, env + AHEAD);
            let tickers = &self.tickers[env * count..(env + 1) * count];
            let mut turn = Turn { env, tickers, stream: &mut self.streams[env] };
            self.batch.step(&world, &mut turn, actions);
            self.ended[env] = self.batch.terminated[env] || self.batch.truncated[env];
            if self.ended[env] {
                self.metrics[env] = self.batch.sums[env].metrics();
                if mode == AutoresetMode::SameStep {
                    self.final_obs.copy_env(&self.batch.obs, env);
                    self.begin(env, Start::Drawn(0));
                    world = self.world.view();
                }
            }
        }
        Ok(())
    }

    fn check_step<A: Copy + Into<f64>>(&self, actions: &[A]) -> Result<(), EnvError> {
        let tickers = self.n_tickers();
        check_length("actions", self.num_envs() * tickers, Some(actions.len()))?;
        let disabled = self.world.options.autoreset_mode == AutoresetMode::Disabled;
        let play_on = self.world.options.play_on;
        let last_day = i32::try_from(self.world.last_day()).unwrap_or(i32::MAX);
        let within = wide(Within, (actions, &[], &[]), (&mut [], &mut []), ());
        for (env, actions) in actions.chunks_exact(tickers).enumerate() {
            match self.batch.phase[env] {
                Phase::New => return Err(EnvError::NotReset { env }),
                Phase::Ended if disabled && !play_on => return Err(EnvError::Finished { env }),
                Phase::Ended if disabled => {
                    let day = self.batch.obs.day[env];
                    if day >= last_day {
                        return Err(EnvError::OutOfDays { env, day });
                    }
                }
                Phase::Ended => continue,
                Phase::Running => {}
            }
            if within {
                continue;
            }
            let outside = |&action: &A| !(-1.0..=1.0).contains(&action.into());
            if let Some(at) = actions.iter().position(outside) {
                let ticker = self.world.panel.tickers()[self.tickers_at(env)[at]].clone();
                return Err(EnvError::BadAction { env, ticker, value: actions[at].into() });
            }
        }
        Ok(())
    }

    fn tickers_at(&self, env: usize) -> &[usize] {
        let count = self.n_tickers();
        &self.tickers[env * count..(env + 1) * count]
    }

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

    /// Leave the indicators out of [`obs`](Self::obs) and [`final_obs`](Self::final_obs), where the batch has
    /// them elsewhere: for callers that take them from [`shown`](Self::shown) and spare a copy.
    #[must_use]
    pub fn lean(mut self) -> Self {
        self.batch.lean = self.world.laid_out(self.world.last_day()).is_some();
        self
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

    /// The indicators shown on a day; `None` where there are none but in the observation, or before a reset.
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
        let shape @ [history, rows, columns] = self.history_shape();
        let cells = history * rows;
        let (mut days, mut mask) = (vec![0.0; cells * columns], vec![0; cells]);
        self.batch.obs.flatten_with(
            out,
            |env| self.shown(env),
            cells * (columns + 1),
            |env, out| {
                if out.is_empty() {
                    return;
                }
                // A sub-environment that was never reset stands on day 0, which has nothing before it.
                let day = usize::try_from(self.batch.obs.day[env]).unwrap_or_default();
                self.world.history_into(self.tickers_at(env), day, &mut days, &mut mask);
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
        check_length("mask", mask.len() / rows * rows, Some(mask.len()))?;
        check_length("out", mask.len() * columns, Some(out.len()))?;
        self.world.history_into(self.tickers_at(env), day, out, mask);
        Ok(())
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

/// Do all actions lie in their range?
struct Within;

impl<A: Copy + Into<f64>> Wide<A, (), (), (), (), (), bool> for Within {
    #[inline(always)]
    fn run(actions: &[A], _: &[()], _: &[()], _: &mut [()], _: &mut [()], (): ()) -> bool {
        // NaN lies in no range. All are looked at, which needs no branch for each.
        actions.iter().fold(true, |within, &action| within & (action.into().abs() <= 1.0))
    }
}
