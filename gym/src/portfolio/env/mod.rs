//! The portfolio environment: a vector of portfolios; a single environment is a vector of one.

mod episodes;
mod held;
mod readout;
mod warnings;

pub use held::HeldUnits;

use backcast_core::AutoresetMode;
use backcast_market::Panel;

use super::{
    error::PortfolioError,
    observation::{MOST_BYTES, Observation},
    options::PortfolioOptions,
    portfolios::Portfolios,
    rewards::PortfolioReward,
    selection::positions,
    setup::PortfolioSetup,
};
use crate::contract::{EnvStreams, Episodes, spread, zeros};

/// Minimum number of portfolios that share a table of their days. With fewer, the copy would cost
/// more than it saves.
const SHARED_TABLE_FROM: usize = 8;

/// Maximum number of elements in all observations of one step without their histories.
const MOST_NUMBERS: usize = MOST_BYTES / size_of::<f64>();

/// `N` portfolios of `T` tickers on one panel, stepped together in the calling thread.
///
/// A single environment is a vector of one. [`PortfolioError::for_single`] words errors for it.
///
/// # One step on day `d`
///
/// 1. Orders of `trunc(action * hmax)` shares are filled on `d`, at the close unless
///    [`Bidding`](crate::Bidding) says otherwise. Sells come first, then buys, both the largest
///    first, ties in ticker order. A buy is cut to the cash. A ticker is not traded on a day
///    without a row, or on a day that `tradable` excludes.
/// 2. Stop losses sell holdings that have fallen too far, on `d` or on the next day
///    ([`StopLossDay`](crate::StopLossDay)). A holding whose ticker has its last row on `d` is
///    settled at that close, without a fee ([`Delisting`](crate::Delisting)).
/// 3. The day advances. The reward is `ln` of the value at the close of `d + 1` over the value at
///    the close of `d` before trading. It is 0 if one of them is not positive. A holding without a
///    row is valued at its last close.
/// 4. Terminated: that value is at or below `failure_threshold`. Truncated: `d + 1` is the last
///    day, or `max_episode_steps` are done. Both can be true.
/// 5. The observation of `d + 1` has its open, the indicators of `d + 1 - indicator_lag`, and the
///    portfolio valued at the open, unless `valuation` says otherwise. With the default settings
///    nothing in it is known only after the open of `d + 1`.
///
/// # After the end of an episode
///
/// [`AutoresetMode`] says how to go on. With `SameStep`, the last observation of the episode is in
/// [`final_obs`](Self::final_obs).
///
/// # Start days
///
/// A start day is drawn uniformly from the days up to four fifths of the range, minus one. On it
/// every ticker is listed, and was `indicator_lag` days before; every macro ticker has begun. Days
/// are preferred if all tickers have rows on the `history_length` days before, or on the `history`
/// days before if that is more.
///
/// If the tickers have no such day in common, one listed ticker suffices: the others have an open
/// of 0 and are not traded. Drawn tickers without any such day start on any day. A shift
/// ([`reset_shifted`](Self::reset_shifted)) leaves out the first days.
///
/// Draws of sub-environment `i` depend on its own seed alone. A step allocates nothing, except in
/// the first step, at the start of an episode, and if episodes are recorded. A step passes once
/// over `N * T` tickers and their indicators.
#[derive(Clone, Debug)]
pub struct PortfolioVectorEnv {
    setup: PortfolioSetup,
    portfolios: Portfolios,
    episodes: Episodes,
    streams: EnvStreams,
    /// Positions of the tickers in the panel, `[N, T]`.
    tickers: Vec<usize>,
    /// Whether a portfolio draws its tickers at the start of every episode, `[N]`.
    draws: Vec<bool>,
    final_obs: Observation,
    tokens: Vec<i32>,
    reward: Option<Box<dyn PortfolioReward>>,
    /// Discrete actions of one portfolio as fractions; the buffer is reused.
    chosen: Vec<f64>,
}

impl PortfolioVectorEnv {
    /// Builds `num_envs` portfolios on `panel`. Reset them before the first step.
    ///
    /// The observations of one step may take at most a gibibyte. Each has `T * (3 + K) + M * (1 +
    /// K) + 3` numbers for `K` indicators and `M` macro tickers. 403,000 portfolios with 30
    /// tickers, 8 indicators and no macro tickers fit.
    pub fn new(
        panel: Panel,
        num_envs: usize,
        options: PortfolioOptions,
    ) -> Result<Self, PortfolioError> {
        let setup = PortfolioSetup::new(panel, options, &[])?;
        let draws = setup.draws_tickers();
        Self::with_world(setup, num_envs, |_| (None, draws))
    }

    /// Builds one portfolio for each list of tickers, which also orders the portfolio's actions.
    /// All lists have the same length or are empty. Empty lists take the tickers of `options`.
    pub fn with_tickers(
        panel: Panel,
        each: &[Vec<String>],
        options: PortfolioOptions,
    ) -> Result<Self, PortfolioError> {
        let each: Vec<Vec<usize>> =
            each.iter().map(|names| positions(&panel, names)).collect::<Result<_, _>>()?;
        let lengths = each.iter().map(Vec::len).enumerate();
        let mut lengths = lengths.filter(|&(_, len)| len > 0);
        if let Some((_, expected)) = lengths.next()
            && let Some((env, found)) = lengths.find(|&(_, found)| found != expected)
        {
            return Err(PortfolioError::UnequalTickers { env, found, expected });
        }
        let setup = PortfolioSetup::new(panel, options, &each)?;
        let draws = setup.draws_tickers();
        Self::with_world(setup, each.len(), |env| match &each[env][..] {
            [] => (None, draws),
            tickers => (Some(tickers), false),
        })
    }

    fn with_world<'a>(
        setup: PortfolioSetup,
        num_envs: usize,
        of: impl Fn(usize) -> (Option<&'a [usize]>, bool),
    ) -> Result<Self, PortfolioError> {
        let shape = setup.shape();
        // Only `SameStep` needs buffers for final observations.
        let finals =
            usize::from(setup.options.autoreset_mode == AutoresetMode::SameStep) * num_envs;
        let limit = MOST_NUMBERS / shape.width();
        if (1..=limit).contains(&num_envs) {
            setup.check_history(num_envs)?;
        }
        let (generator, seed) = (setup.options.generator, rand::random());
        let buffers = (1..=limit)
            .contains(&num_envs)
            .then(|| {
                let portfolios = Portfolios::new(num_envs, shape, &setup.options)?;
                let per_ticker = num_envs.checked_mul(shape.tickers)?;
                let (tickers, tokens) = (zeros(per_ticker)?, zeros(per_ticker)?);
                let episodes = Episodes::new(num_envs)?;
                let streams = EnvStreams::new(generator, num_envs, |env| spread(seed, env))?;
                let (draws, finals): (Vec<bool>, _) =
                    (zeros(num_envs)?, Observation::zeros(finals, shape)?);
                Some((portfolios, finals, tickers, tokens, episodes, streams, draws))
            })
            .flatten();
        let Some((portfolios, final_obs, tickers, tokens, episodes, streams, mut draws)) = buffers
        else {
            if (1..=limit).contains(&num_envs) {
                return Err(PortfolioError::NoRoom { num_envs });
            }
            let (tickers, indicators) = (shape.tickers, shape.indicators);
            return Err(PortfolioError::BadNumEnvs { num_envs, limit, tickers, indicators });
        };
        for (env, draws) in draws.iter_mut().enumerate() {
            *draws = of(env).1;
        }
        let mut made = Self {
            setup,
            portfolios,
            episodes,
            streams,
            tickers,
            draws,
            final_obs,
            tokens,
            reward: None,
            chosen: Vec::new(),
        };
        for env in 0..num_envs {
            let chosen = of(env).0.unwrap_or(made.setup.first_tickers());
            made.tickers[env * shape.tickers..(env + 1) * shape.tickers].copy_from_slice(chosen);
            made.update_tokens(env);
        }
        if num_envs >= SHARED_TABLE_FROM && !made.tickers_vary() {
            made.setup.build_tables(&made.tickers[..shape.tickers]);
        }
        Ok(made)
    }

    /// Continues the random streams of `other`, each in the sub-environment of the same number.
    /// Sub-environments that `other` lacks get streams derived from its first one; so do all of
    /// them if the generator differs.
    pub fn continue_streams_of(&mut self, other: &Self) {
        let Some(seed) = other.streams.peek(u32::MAX.into()) else { return };
        for env in 0..self.num_envs() {
            if !self.streams.go_on_from(env, &other.streams) {
                self.streams.begin(env, spread(seed, env as u64));
            }
        }
    }

    /// Replaces the reward of the settings by one that is called once a step for all portfolios.
    pub fn set_reward(&mut self, reward: Box<dyn PortfolioReward>) {
        self.reward = Some(reward);
    }

    fn update_tokens(&mut self, env: usize) {
        let mine = env * self.n_tickers()..(env + 1) * self.n_tickers();
        for (token, &ticker) in self.tokens[mine.clone()].iter_mut().zip(&self.tickers[mine]) {
            // A panel has at most i32::MAX tickers.
            *token = i32::try_from(ticker + 1).unwrap_or(i32::MAX);
        }
    }

    /// Leaves the indicators out of [`obs`](Self::obs) and [`final_obs`](Self::final_obs) if a
    /// shared table has them. Spares callers that read them from [`shown`](Self::shown) a copy.
    #[must_use]
    pub fn without_indicators_in_obs(mut self) -> Self {
        self.portfolios.omits_indicators =
            self.setup.shown_indicators(self.setup.last_day()).is_some();
        self
    }

    fn tickers_at(&self, env: usize) -> &[usize] {
        let count = self.n_tickers();
        &self.tickers[env * count..(env + 1) * count]
    }
}
