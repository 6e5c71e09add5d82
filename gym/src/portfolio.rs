//! The vectorised portfolio environment: what it is, and how it is made.

mod life;
mod shown;

use backcast_core::AutoresetMode;
use backcast_market::Panel;

use crate::{
    batch::Batch,
    error::EnvError,
    metrics::EpisodeMetrics,
    observation::{Observation, zeros},
    options::PortfolioOptions,
    stream::{Stream, spread},
    world::{World, positions},
};

/// Portfolios from which on the days of their tickers are laid out for them: fewer would not read the copy
/// often enough, and processes with one each would all have one.
const MANY: usize = 8;

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
///    A holding whose ticker has its last row on `d` is settled at that close then, without a fee
///    ([`Delisting`](crate::Delisting)).
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
/// A start day is drawn uniformly from the days up to four fifths of the range less one on which every ticker is listed
/// (and was `indicator_lag` days before; macro tickers count too), and has been on each of the `history_length` days
/// before if there are such days. Where the tickers have no such day in common, one of them suffices: what is not listed
/// is shown with an open of 0 and not traded. Tickers that are drawn may have no day at all: then any day will do. A
/// shift ([`reset_shifted`](Self::reset_shifted)) is kept to by all of these. Draws of sub-environment `i` depend on its
/// own seed alone.
///
/// A step allocates nothing; its cost is one pass over `N * T` tickers and their indicators.
#[derive(Clone, Debug)]
pub struct PortfolioVectorEnv {
    pub(crate) world: World,
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

    /// Go on with the random numbers of another environment: each sub-environment in the stream of the one of its
    /// number there, and those beyond in streams that the first one decides.
    pub fn go_on_from(&mut self, other: &Self) {
        let Some(mut first) = other.streams.first().cloned() else { return };
        let (generator, seed) = (self.world.options.generator, first.below(u32::MAX.into()));
        for (env, stream) in self.streams.iter_mut().enumerate() {
            let same = other.streams.get(env).cloned();
            *stream = same.unwrap_or_else(|| Stream::new(generator, spread(seed, env as u64)));
        }
    }

    fn note_tokens(&mut self, env: usize) {
        let mine = env * self.n_tickers()..(env + 1) * self.n_tickers();
        for (token, &ticker) in self.tokens[mine.clone()].iter_mut().zip(&self.tickers[mine]) {
            // Panels hold at most i32::MAX tickers.
            *token = i32::try_from(ticker + 1).unwrap_or(i32::MAX);
        }
    }

    /// Leave the indicators out of [`obs`](Self::obs) and [`final_obs`](Self::final_obs), where the batch has
    /// them elsewhere: for callers that take them from [`shown`](Self::shown) and spare a copy.
    #[must_use]
    pub fn lean(mut self) -> Self {
        self.batch.lean = self.world.laid_out(self.world.last_day()).is_some();
        self
    }

    fn tickers_at(&self, env: usize) -> &[usize] {
        let count = self.n_tickers();
        &self.tickers[env * count..(env + 1) * count]
    }
}
