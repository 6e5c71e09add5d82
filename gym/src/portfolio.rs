//! The vectorised portfolio environment: resets, steps, autoreset, and the checks before them.

use backcast_core::AutoresetMode;
use backcast_market::Panel;

use crate::{
    batch::{Batch, Phase},
    error::EnvError,
    observation::{Observation, zeros},
    options::{PortfolioOptions, ResetSeed},
    stream::Stream,
    world::World,
};

/// Numbers in all observations of one step: a gibibyte of them.
const MOST_NUMBERS: usize = (1 << 30) / size_of::<f64>();

/// `N` portfolios of `T` tickers on one panel, stepped together in the calling thread.
///
/// # One step on day `d`
///
/// 1. Orders of `trunc(action * hmax)` shares are filled at the close of `d`: sells first, largest first,
///    then buys, largest first, ties in ticker order; a buy is cut to the cash. A ticker without a row on
///    `d` is not traded.
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
/// ticker is listed. Draws of sub-environment `i` depend on its own seed alone.
///
/// A step allocates nothing; its cost is one pass over `N * T` tickers and their indicators.
#[derive(Clone, Debug)]
pub struct PortfolioVectorEnv {
    world: World,
    batch: Batch,
    streams: Vec<Stream>,
    final_obs: Observation,
    ended: Vec<bool>,
    tokens: Vec<i32>,
}

impl PortfolioVectorEnv {
    /// `num_envs` portfolios on `panel`; reset them before the first step.
    ///
    /// There may be as many as show a gibibyte of numbers at a step, `T * (3 + K) + 3` each with `K`
    /// indicators: 403,000 with 30 tickers and 8 indicators.
    pub fn new(panel: Panel, num_envs: usize, options: PortfolioOptions) -> Result<Self, EnvError> {
        let world = World::new(panel, options)?;
        let (tickers, indicators) = (world.tickers.len(), world.panel.indicators().len());
        // Final observations have a buffer only where they are needed.
        let finals =
            usize::from(world.options.autoreset_mode == AutoresetMode::SameStep) * num_envs;
        let limit = MOST_NUMBERS / Observation::width(tickers, indicators);
        let buffers = (1..=limit)
            .contains(&num_envs)
            .then(|| {
                let batch = Batch::new(num_envs, tickers, indicators)?;
                Some((batch, Observation::zeros(finals, tickers, indicators)?, zeros(num_envs)?))
            })
            .flatten();
        let Some((batch, final_obs, ended)) = buffers else {
            return Err(EnvError::BadNumEnvs { num_envs, limit, tickers, indicators });
        };
        let seed: u64 = rand::random();
        let streams = (0..num_envs as u64).map(|env| Stream::new(seed.wrapping_add(env))).collect();
        let token =
            |name: &String| world.panel.token(name).and_then(|token| i32::try_from(token).ok());
        let tokens = world.names.iter().filter_map(token).collect();
        Ok(Self { world, batch, streams, final_obs, ended, tokens })
    }

    /// Begin new episodes.
    ///
    /// - `seed`: where the random streams go on.
    /// - `mask` `[N]`: which sub-environments to reset, at least one; `None`: all. The others keep their
    ///   state, their observation and their stream.
    /// - `start_day` `[N]`: begin there instead of on a drawn day; read where `mask` is true. The day
    ///   may lie beyond four fifths of the range. No random number is used up.
    pub fn reset(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        start_day: Option<&[usize]>,
    ) -> Result<(), EnvError> {
        let num_envs = self.num_envs();
        check_length("mask", num_envs, mask.map(<[bool]>::len))?;
        check_length("start_day", num_envs, start_day.map(<[usize]>::len))?;
        if let ResetSeed::Each(seeds) = seed {
            check_length("seed", num_envs, Some(seeds.len()))?;
        }
        let selected = |env: usize| mask.is_none_or(|mask| mask[env]);
        if !(0..num_envs).any(selected) {
            return Err(EnvError::EmptyMask { num_envs });
        }
        if let Some(days) = start_day {
            for env in (0..num_envs).filter(|&env| selected(env)) {
                self.world.check_start(env, days[env])?;
            }
        }

        let view = self.world.view();
        for env in (0..num_envs).filter(|&env| selected(env)) {
            let seed = match seed {
                ResetSeed::Keep => None,
                ResetSeed::One(seed) => Some(seed.wrapping_add(env as u64)),
                ResetSeed::Each(seeds) => seeds[env],
            };
            if let Some(seed) = seed {
                self.streams[env] = Stream::new(seed);
            }
            let day = match start_day {
                Some(days) => days[env],
                None => self.world.draw_start(&mut self.streams[env]),
            };
            self.batch.begin(&view, env, day);
            self.batch.clear_outcome(env);
            self.ended[env] = false;
        }
        Ok(())
    }

    /// Step all sub-environments. `actions`: `[N, T]` in `[-1, 1]`, f32 or f64.
    ///
    /// All actions are checked before anything happens; those of a sub-environment that is about to be
    /// reset are not looked at.
    pub fn step<A: Copy + Into<f64>>(&mut self, actions: &[A]) -> Result<(), EnvError> {
        self.check_step(actions)?;
        let view = self.world.view();
        let same_step = self.world.options.autoreset_mode == AutoresetMode::SameStep;
        let per_env = actions.chunks_exact(view.tickers.len());
        for (env, actions) in per_env.enumerate() {
            if self.batch.phase[env] == Phase::Ended {
                let day = self.world.draw_start(&mut self.streams[env]);
                self.batch.begin(&view, env, day);
                self.batch.clear_outcome(env);
                self.ended[env] = false;
                continue;
            }
            self.batch.step(&view, env, actions);
            self.ended[env] = self.batch.phase[env] == Phase::Ended;
            if same_step && self.ended[env] {
                self.final_obs.copy_env(&self.batch.obs, env);
                let day = self.world.draw_start(&mut self.streams[env]);
                self.batch.begin(&view, env, day);
            }
        }
        Ok(())
    }

    fn check_step<A: Copy + Into<f64>>(&self, actions: &[A]) -> Result<(), EnvError> {
        let tickers = self.n_tickers();
        check_length("actions", self.num_envs() * tickers, Some(actions.len()))?;
        let disabled = self.world.options.autoreset_mode == AutoresetMode::Disabled;
        for (env, actions) in actions.chunks_exact(tickers).enumerate() {
            match self.batch.phase[env] {
                Phase::New => return Err(EnvError::NotReset { env }),
                Phase::Ended if disabled => return Err(EnvError::Finished { env }),
                Phase::Ended => continue,
                Phase::Running => {}
            }
            // NaN lies in no range.
            let outside = |&action: &A| !(-1.0..=1.0).contains(&action.into());
            if let Some(ticker) = actions.iter().position(outside) {
                let (ticker, value) = (self.world.names[ticker].clone(), actions[ticker].into());
                return Err(EnvError::BadAction { env, ticker, value });
            }
        }
        Ok(())
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

    /// Tickers traded, `T`.
    #[must_use]
    pub fn n_tickers(&self) -> usize {
        self.world.tickers.len()
    }

    /// Tickers traded, in action order.
    #[must_use]
    pub fn tickers(&self) -> &[String] {
        &self.world.names
    }

    /// Their tokens in the panel, `[T]`.
    #[must_use]
    pub fn tokens(&self) -> &[i32] {
        &self.tokens
    }

    /// Indicators shown, `K`, in the panel's order.
    #[must_use]
    pub fn indicators(&self) -> &[String] {
        self.world.panel.indicators()
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

fn check_length(what: &'static str, expected: usize, found: Option<usize>) -> Result<(), EnvError> {
    match found {
        Some(found) if found != expected => Err(EnvError::BadLength { what, expected, found }),
        _ => Ok(()),
    }
}
