//! The vector of trading environments.

use std::sync::{Arc, Mutex, PoisonError};

use backcast_core::AutoresetMode;
use backcast_core::plumbing::ThreadPool;
use backcast_sim::{ConservationError, Market, SlotFill};

use super::{
    commands::StepOrders,
    config::{TradingEnvConfig, TradingResetOptions},
    episode::{EpisodeState, StepInfo},
    error::TradingError,
    footprint::{check_num_envs, no_room},
    runner::{EpisodeRunner, read_ahead},
    seat::{AgentSeat, FILLS},
    setup::TradingSetup,
};
use crate::contract::{
    EpisodeError, EpisodeMetrics, Episodes, ResetSeed, SplitMix, StepKind, StepOutcome,
    check_length, spread, zeros,
};

/// Minimum and maximum number of sub-environments that each of several threads takes at a time.
const CHUNK: (usize, usize) = (4, 64);
/// Maximum number of sub-environments that are stepped without prefetching. A step reads about 300
/// cache lines of a sub-environment with one symbol. Those of 16 fit a core's own cache.
const CACHED_ENVS: usize = 16;

/// `N` trading environments, stepped together.
///
/// Sub-environment `i` equals a [`TradingEnv`](super::TradingEnv) of the same seed, bit for bit,
/// for any number of sub-environments and threads. Observations are written into the caller's
/// buffer.
///
/// With one thread a step or reset allocates nothing. More threads start at the first call and wait
/// for the next one; a forked child starts its own. A clone continues as the original would, on
/// threads of its own.
#[derive(Clone, Debug)]
pub struct TradingVectorEnv {
    pub(super) setup: Arc<TradingSetup>,
    runners: Vec<EpisodeRunner>,
    episodes: Episodes,
    mode: AutoresetMode,
    outcomes: Vec<Stepped>,
    /// Last observations of ended episodes, `[N, F]`; empty before the first use of `SameStep`.
    final_obs: Vec<f32>,
    /// Details of the last step of ended episodes, `[N]`; empty before the first use of `SameStep`.
    final_infos: Vec<StepInfo>,
    /// Fills of the last step of ended episodes, `[N]`; empty before the first use of `SameStep`.
    final_fills: Vec<Vec<SlotFill>>,
    /// Orders of the last step of ended episodes, `[N]`; empty before the first use of `SameStep`.
    final_orders: Vec<StepOrders>,
    /// Action masks after the last step of ended episodes, `[N, max(S * choices, 1)]`; empty before
    /// the first use of `SameStep`.
    final_masks: Vec<bool>,
    threads: ThreadPool,
}

/// Memory for the end of an episode of one sub-environment, in `SameStep`.
struct Final<'a> {
    observation: &'a mut [f32],
    info: &'a mut StepInfo,
    fills: &'a mut Vec<SlotFill>,
    orders: &'a mut StepOrders,
    mask: &'a mut [bool],
}

/// Result of one sub-environment in a call.
#[derive(Clone, Copy, Debug, Default)]
struct Stepped {
    outcome: StepOutcome,
    /// Metrics, if the episode ended.
    metrics: EpisodeMetrics,
    began: bool,
    kind: Option<StepKind>,
}

impl TradingVectorEnv {
    /// Builds `num_envs` environments that step on `threads` threads, the caller's among them.
    ///
    /// # Errors
    /// [`TradingError`] for a setting that cannot be used, before anything runs.
    pub fn new(
        config: TradingEnvConfig,
        num_envs: usize,
        mode: AutoresetMode,
        threads: usize,
    ) -> Result<Self, TradingError> {
        check_num_envs(&config, num_envs)?;
        if !(1..=1_024).contains(&threads) {
            let (option, value) = ("threads", threads as f64);
            return Err(TradingError::BadOption { option, value, rule: "1 to 1024" });
        }
        let setup = Arc::new(TradingSetup::new(config)?);
        let seed = match setup.config.seed {
            Some(seed) => ResetSeed::One(seed),
            None => ResetSeed::Spread(rand::random()),
        };
        let runners = (0..num_envs)
            .map(|env| EpisodeRunner::new(&setup, seed.of_env(env).unwrap_or_default()))
            .collect::<Result<Vec<_>, _>>()?;
        let buffers = Episodes::new(num_envs).zip(zeros(num_envs));
        let (episodes, outcomes) =
            buffers.ok_or_else(|| no_room(&setup.config, num_envs, num_envs as u64 - 1))?;
        let mut envs = Self {
            setup,
            runners,
            episodes,
            mode: AutoresetMode::Disabled,
            outcomes,
            final_obs: Vec::new(),
            final_infos: Vec::new(),
            final_fills: Vec::new(),
            final_orders: Vec::new(),
            final_masks: Vec::new(),
            threads: ThreadPool::new(threads),
        };
        envs.set_autoreset_mode(mode)?;
        Ok(envs)
    }

    /// Refuses a number of sub-environments that is out of range, or that does not fit in the
    /// memory that is left, before anything is allocated. [`new`](Self::new) checks it too.
    ///
    /// # Errors
    /// [`TradingError::BadNumEnvs`] or [`TradingError::NoRoom`].
    pub fn check_num_envs(config: &TradingEnvConfig, num_envs: usize) -> Result<(), TradingError> {
        check_num_envs(config, num_envs)
    }

    /// Changes the autoreset mode. Episodes that have ended already begin anew at the next step,
    /// unless the new mode is `Disabled`. Fails only if memory for the final observations, details
    /// and masks of `SameStep` does not suffice.
    pub fn set_autoreset_mode(&mut self, mode: AutoresetMode) -> Result<(), TradingError> {
        if mode == AutoresetMode::SameStep && self.final_obs.is_empty() {
            let num_envs = self.num_envs();
            let (width, mask) = (self.observation_size(), self.mask_len().max(1));
            let buffers = zeros(num_envs * width).zip(zeros(num_envs)).zip(zeros(num_envs * mask));
            ((self.final_obs, self.final_infos), self.final_masks) = buffers
                .ok_or_else(|| no_room(&self.setup.config, num_envs, num_envs as u64 - 1))?;
            self.final_fills = (0..num_envs).map(|_| Vec::with_capacity(FILLS)).collect();
            let (agent, symbols) = (&self.setup.config.agent, self.setup.market.symbols);
            let orders = |_| AgentSeat::orders_for(agent, symbols);
            self.final_orders = (0..num_envs).map(orders).collect();
        }
        self.mode = mode;
        Ok(())
    }

    /// Begins new episodes and writes the observations of all sub-environments, `[N, F]`.
    ///
    /// - `seed`: streams of episode seeds.
    /// - `mask` `[N]`: sub-environments to reset, at least one; `None` for all. The first reset
    ///   must select all.
    /// - `options`: choices for those that are reset.
    pub fn reset_into(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        options: TradingResetOptions,
        observations: &mut [f32],
    ) -> Result<(), TradingError> {
        let (num_envs, width) = (self.num_envs(), self.observation_size());
        check_length("observations", num_envs * width, Some(observations.len()))?;
        seed.check(num_envs)?;
        self.episodes.check_reset(mask)?;
        self.setup.check_options(&options)?;
        let selected = |env: usize| mask.is_none_or(|mask| mask[env]);
        for (env, runner) in self.runners.iter_mut().enumerate().filter(|(env, _)| selected(*env)) {
            if let Some(seed) = seed.of_env(env) {
                runner.stream = SplitMix::new(seed);
            }
        }
        self.for_each(Some(observations), |env, runner, stepped, observation, _| {
            *stepped = Stepped::default();
            if selected(env) {
                let episode_seed = options.episode_seed.map(|seed| spread(seed, env as u64));
                runner.begin(&TradingResetOptions { episode_seed, ..options })?;
                stepped.began = true;
            }
            observe(runner, observation)
        })
        .inspect_err(|_| self.setup.recover(&mut self.episodes))?;
        self.episodes.start_call();
        for env in 0..num_envs {
            if self.outcomes[env].began {
                self.episodes.begin(env);
                self.episodes.clear_outcome(env);
            }
        }
        Ok(())
    }

    /// Steps all sub-environments and writes their observations, `[N, F]`.
    ///
    /// `actions`: `[N, A]` with [`action_len`](Self::action_len) numbers or
    /// [`DiscreteAction`](crate::DiscreteAction)s each. All are checked before anything changes;
    /// those of a sub-environment that is about to be reset are not read.
    pub fn step_into<A: Copy + Into<f64> + Sync>(
        &mut self,
        actions: &[A],
        observations: &mut [f32],
    ) -> Result<(), TradingError> {
        let size = self.num_envs() * self.observation_size();
        check_length("observations", size, Some(observations.len()))?;
        self.step_with(actions, Some(observations))
    }

    /// Steps all sub-environments like [`step_into`](Self::step_into) and writes no observation:
    /// [`observe_into`](Self::observe_into) writes each where its caller wants it.
    pub fn advance<A: Copy + Into<f64> + Sync>(
        &mut self,
        actions: &[A],
    ) -> Result<(), TradingError> {
        self.step_with(actions, None)
    }

    fn step_with<A: Copy + Into<f64> + Sync>(
        &mut self,
        actions: &[A],
        observations: Option<&mut [f32]>,
    ) -> Result<(), TradingError> {
        let (num_envs, len) = (self.num_envs(), self.action_len());
        check_length("actions", num_envs * len, Some(actions.len()))?;
        for (env, action) in actions.chunks_exact(len).enumerate() {
            if self.episodes.next_step(env, self.mode, false)? == StepKind::Act {
                self.setup.config.agent.check_action(env, action)?;
            }
        }
        for env in 0..num_envs {
            let kind = self.episodes.next_step(env, self.mode, false).ok();
            self.outcomes[env] = Stepped { kind, ..Stepped::default() };
        }
        let mode = self.mode;
        self.for_each(observations, |env, runner, stepped, observation, finals| {
            if stepped.kind == Some(StepKind::Reset) {
                runner.begin(&TradingResetOptions::default())?;
                stepped.began = true;
                return observe(runner, observation);
            }
            runner.step(&actions[env * len..(env + 1) * len], |_, seat, outcome| {
                stepped.outcome = outcome;
                if outcome.ends() {
                    stepped.metrics = seat.metrics();
                }
            });
            if !stepped.outcome.ends() {
                return observe(runner, observation);
            }
            if mode != AutoresetMode::SameStep {
                return observe(runner, observation);
            }
            if let Some(last) = finals {
                runner.observe(0, last.observation)?;
                *last.info = *runner.seat().info();
                runner.seat_mut().swap_fills(last.fills);
                runner.seat_mut().swap_orders(last.orders);
                runner.mask(0, last.mask);
            }
            runner.begin(&TradingResetOptions::default())?;
            stepped.began = true;
            observe(runner, observation)
        })
        .inspect_err(|_| self.setup.recover(&mut self.episodes))?;
        self.episodes.start_call();
        for env in 0..num_envs {
            let Stepped { outcome, metrics, began, kind } = self.outcomes[env];
            if kind == Some(StepKind::Reset) {
                self.episodes.clear_outcome(env);
            } else {
                self.episodes.enter(env, outcome, || metrics);
            }
            if began {
                self.episodes.begin(env);
            }
        }
        Ok(())
    }

    /// Calls `work` for every sub-environment, on all threads, with its rows of `observations` and
    /// of the final observations, as far as there are any. Returns the first error.
    fn for_each<F>(&mut self, observations: Option<&mut [f32]>, work: F) -> Result<(), TradingError>
    where
        F: Fn(
                usize,
                &mut EpisodeRunner,
                &mut Stepped,
                Option<&mut [f32]>,
                Option<Final<'_>>,
            ) -> Result<(), TradingError>
            + Sync,
    {
        let (width, mask) = (self.observation_size(), self.mask_len().max(1));
        let Self {
            runners,
            outcomes,
            final_obs,
            final_infos,
            final_fills,
            final_orders,
            final_masks,
            threads,
            ..
        } = self;
        let envs = runners.len();
        let chunk = match threads.threads() {
            1 => envs,
            many => (envs / (8 * many)).clamp(CHUNK.0, CHUNK.1),
        };
        let fills = final_fills.chunks_mut(chunk).zip(final_orders.chunks_mut(chunk));
        let details = final_infos.chunks_mut(chunk).zip(fills);
        let mut finals = final_obs
            .chunks_mut(chunk * width)
            .zip(details.zip(final_masks.chunks_mut(chunk * mask)));
        let mut rows = observations.map(|rows| rows.chunks_mut(chunk * width));
        let chunks = runners.chunks_mut(chunk).zip(outcomes.chunks_mut(chunk)).enumerate().map(
            |(at, (runners, outcomes))| {
                let rows = rows.as_mut().and_then(Iterator::next);
                (at * chunk, runners, outcomes, rows, finals.next())
            },
        );
        let chunks = Mutex::new(chunks);
        let failure = Mutex::new(None);
        threads.work(|| {
            loop {
                let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((first, runners, outcomes, mut rows, mut finals)) = next else {
                    return;
                };
                for (at, outcome) in outcomes.iter_mut().enumerate() {
                    if envs > CACHED_ENVS {
                        read_ahead(&runners[at + 1..]);
                    }
                    let runner = &mut runners[at];
                    let observation =
                        rows.as_mut().map(|rows| &mut rows[at * width..(at + 1) * width]);
                    let finals = finals.as_mut().map(|(observations, (details, masks))| Final {
                        observation: &mut observations[at * width..(at + 1) * width],
                        info: &mut details.0[at],
                        fills: &mut details.1.0[at],
                        orders: &mut details.1.1[at],
                        mask: &mut masks[at * mask..(at + 1) * mask],
                    });
                    if let Err(error) = work(first + at, runner, outcome, observation, finals) {
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        failure.get_or_insert(error);
                        return;
                    }
                }
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), Err)
    }

    /// Writes the current observation of one sub-environment, without allocating.
    ///
    /// # Errors
    /// [`TradingError`] for a sub-environment that does not exist or was never reset, or a slice of
    /// another length.
    pub fn observe_into(&self, env: usize, observation: &mut [f32]) -> Result<(), TradingError> {
        check_length("observation", self.observation_size(), Some(observation.len()))?;
        match self.runners.get(env) {
            Some(runner) if self.episodes.has_begun(env) => runner.observe(0, observation),
            _ => Err(EpisodeError::NotReset { env }.into()),
        }
    }

    /// Returns the metrics of the running or last episode of one sub-environment; `None` before its
    /// first reset.
    #[must_use]
    pub fn metrics_so_far(&self, env: usize) -> Option<EpisodeMetrics> {
        let runner = self.runners.get(env).filter(|_| self.episodes.has_begun(env));
        runner.map(|runner| runner.seat().metrics())
    }

    /// Returns the number of sub-environments, `N`.
    #[must_use]
    pub fn num_envs(&self) -> usize {
        self.runners.len()
    }

    /// Returns the number of choices of an action for one symbol, or the count of its numbers for a
    /// continuous scheme.
    #[must_use]
    pub fn action_size(&self) -> usize {
        let scheme = self.setup.scheme();
        scheme.choices().unwrap_or(self.setup.config.agent.numbers())
    }

    /// Returns how many numbers one action has, all symbols together, `A`.
    #[must_use]
    pub fn action_len(&self) -> usize {
        self.setup.action_len()
    }

    /// Writes a mask of the choices of a discrete scheme, `[N, S, choices]`: false for a choice
    /// that limits, cash or open orders rule out now. Allocates nothing. A continuous scheme has an
    /// empty mask.
    pub fn action_mask_into(&self, out: &mut [bool]) -> Result<(), TradingError> {
        let each = self.mask_len();
        check_length("out", self.num_envs() * each, Some(out.len()))?;
        if each > 0 {
            for (runner, out) in self.runners.iter().zip(out.chunks_exact_mut(each)) {
                runner.mask(0, out);
            }
        }
        Ok(())
    }

    /// Returns the number of choices of an action, all symbols together; 0 for a continuous scheme.
    fn mask_len(&self) -> usize {
        let choices = self.setup.scheme().choices().unwrap_or(0);
        usize::from(self.setup.market.symbols) * choices
    }

    /// Returns the autoreset mode.
    #[must_use]
    pub fn autoreset_mode(&self) -> AutoresetMode {
        self.mode
    }

    /// Returns the rewards of the last step, `[N]`.
    #[must_use]
    pub fn rewards(&self) -> &[f64] {
        self.episodes.rewards()
    }

    /// Returns which episodes the last step terminated, `[N]`.
    #[must_use]
    pub fn terminated(&self) -> &[bool] {
        self.episodes.terminated()
    }

    /// Returns which episodes reached their time limit in the last step, `[N]`.
    #[must_use]
    pub fn truncated(&self) -> &[bool] {
        self.episodes.truncated()
    }

    /// Returns whether the last step ended an episode, `[N]`.
    #[must_use]
    pub fn ended(&self) -> &[bool] {
        self.episodes.ended()
    }

    /// Returns whether the last reset or step began an episode, `[N]`.
    #[must_use]
    pub fn began(&self) -> &[bool] {
        self.episodes.began()
    }

    /// Returns the metrics of the episodes that the last step ended, `[N]`; valid where
    /// [`ended`](Self::ended) is true.
    #[must_use]
    pub fn metrics(&self) -> &[EpisodeMetrics] {
        self.episodes.metrics()
    }

    /// Returns the last observations of the episodes that the last step ended, `[N, F]`, with
    /// `SameStep`; valid where [`ended`](Self::ended) is true. The other modes do not write them:
    /// there the step itself returns the last observation of an ended episode.
    #[must_use]
    pub fn final_observations(&self) -> &[f32] {
        &self.final_obs
    }

    /// Returns the details of the last step of the episodes that the last step ended, `[N]`, with
    /// `SameStep`; valid where [`ended`](Self::ended) is true.
    #[must_use]
    pub fn final_infos(&self) -> &[StepInfo] {
        &self.final_infos
    }

    /// Returns all fills of the last step of an episode that the last step ended, with `SameStep`;
    /// valid where [`ended`](Self::ended) is true.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, or the mode never was `SameStep`.
    #[must_use]
    pub fn final_fills(&self, env: usize) -> &[SlotFill] {
        &self.final_fills[env]
    }

    /// Returns the orders of the last step of an episode that the last step ended, with `SameStep`
    /// and [`ActionScheme::LimitOrders`](super::ActionScheme::LimitOrders); valid where
    /// [`ended`](Self::ended) is true.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, or the mode never was `SameStep`.
    #[must_use]
    pub fn final_orders(&self, env: usize) -> &StepOrders {
        &self.final_orders[env]
    }

    /// Returns the mask of [`action_mask_into`](Self::action_mask_into) after the last step of an
    /// episode that the last step ended, `[S, choices]`, with `SameStep`; valid where
    /// [`ended`](Self::ended) is true, empty for a continuous scheme.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, or the mode never was `SameStep`.
    #[must_use]
    pub fn final_action_mask(&self, env: usize) -> &[bool] {
        let each = self.mask_len();
        &self.final_masks[env * each.max(1)..][..each]
    }

    /// Returns the details of the last reset or step of one sub-environment.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn info(&self, env: usize) -> &StepInfo {
        self.runners[env].seat().info()
    }

    /// Returns all fills of the last step of one sub-environment, in sequence.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn fills(&self, env: usize) -> &[SlotFill] {
        self.runners[env].seat().fills()
    }

    /// Returns the orders of the last step of one sub-environment, with
    /// [`ActionScheme::LimitOrders`](super::ActionScheme::LimitOrders).
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn orders(&self, env: usize) -> &StepOrders {
        self.runners[env].seat().orders()
    }

    /// Returns the state of the episode of one sub-environment.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn state(&self, env: usize) -> &EpisodeState {
        self.runners[env].seat().state()
    }

    /// Returns the market of one sub-environment.
    ///
    /// # Panics
    ///
    /// If there is no such sub-environment, as with any slice.
    #[must_use]
    pub fn market(&self, env: usize) -> &Market {
        self.runners[env].market()
    }

    /// Checks that cash, shares and open orders of every market add up exactly.
    ///
    /// # Errors
    /// [`ConservationError`] if they do not, which is a defect of the market.
    pub fn check(&self) -> Result<(), ConservationError> {
        self.runners.iter().try_for_each(|runner| runner.market().check())
    }
}

/// Writes the observation of a sub-environment to `observation`, if that is given.
fn observe(runner: &EpisodeRunner, observation: Option<&mut [f32]>) -> Result<(), TradingError> {
    observation.map_or(Ok(()), |observation| runner.observe(0, observation))
}
