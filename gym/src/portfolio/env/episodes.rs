//! Resets and steps of the portfolios, and the checks before them.

use std::ops::Range;

use backcast_core::AutoresetMode;
use backcast_core::plumbing::{SimdKernel, run_simd};

use super::PortfolioVectorEnv;
use crate::{
    contract::{ResetSeed, StepKind, check_length},
    portfolio::{
        actions::Actions,
        error::PortfolioError,
        observation::Observation,
        portfolios::SubEnv,
        rewards::{PortfolioSteps, StepFields},
    },
};

/// Prefetch distance of a step, in portfolios.
const PREFETCH_DISTANCE: usize = 2;

/// Memory of a block of portfolios in bytes: a part of L2 that holds their state, prices and
/// observations.
const BLOCK_BYTES: usize = 192 << 10;

/// Start day of an episode.
#[derive(Clone, Copy)]
enum EpisodeStart {
    On(usize),
    /// A day drawn from the start days that are at least `n` days after the first.
    Drawn(usize),
}

impl PortfolioVectorEnv {
    /// Begins new episodes.
    ///
    /// - `seed`: seeds of the random streams.
    /// - `mask` `[N]`: sub-environments to reset, at least one; `None` for all. The first reset
    ///   must select all. The others keep their state, observation and stream.
    /// - `start_day` `[N]`: start days instead of drawn ones; read where `mask` is true. These days
    ///   may lie beyond four fifths of the range.
    pub fn reset(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        start_day: Option<&[usize]>,
    ) -> Result<(), PortfolioError> {
        let num_envs = self.num_envs();
        check_length("start_day", num_envs, start_day.map(<[usize]>::len))?;
        self.check_reset(seed, mask)?;
        if let Some(days) = start_day {
            for env in (0..num_envs).filter(|&env| mask.is_none_or(|mask| mask[env])) {
                let known = (!self.draws[env]).then(|| self.tickers_at(env));
                self.setup.check_start(env, days[env], known)?;
            }
        } else {
            self.check_drawn(mask)?;
        }
        self.reserve_records()?;
        self.begin_anew(seed, mask, |env| {
            start_day.map_or(EpisodeStart::Drawn(0), |days| EpisodeStart::On(days[env]))
        });
        Ok(())
    }

    /// Begins new episodes on drawn start days that are at least `shift` days after the first one.
    ///
    /// If tickers are drawn, a shift draws from the tickers that have a start day left. It is an
    /// error if no day is left on which enough tickers are listed. It is also an error if a
    /// portfolio that does not draw its tickers has no start day left.
    pub fn reset_shifted(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        shift: usize,
    ) -> Result<(), PortfolioError> {
        self.check_reset(seed, mask)?;
        self.check_drawn(mask)?;
        for env in 0..self.num_envs() {
            if shift > 0 && mask.is_none_or(|mask| mask[env]) {
                let known = (!self.draws[env]).then(|| self.tickers_at(env));
                self.setup.check_shift(env, shift, known)?;
            }
        }
        self.reserve_records()?;
        self.begin_anew(seed, mask, |_| EpisodeStart::Drawn(shift));
        Ok(())
    }

    fn check_reset(
        &self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
    ) -> Result<(), PortfolioError> {
        seed.check(self.num_envs())?;
        // With `play_on` the constructor left this check to the reset.
        if self.setup.options.play_on {
            self.setup.check_shares()?;
        }
        Ok(self.episodes.check_reset(mask)?)
    }

    /// Checks that all portfolios to reset that do not draw their tickers have a start day. Without
    /// `play_on` the constructor has checked it.
    fn check_drawn(&self, mask: Option<&[bool]>) -> Result<(), PortfolioError> {
        if !self.setup.options.play_on {
            return Ok(());
        }
        let asked = |env: &usize| !self.draws[*env] && mask.is_none_or(|mask| mask[*env]);
        (0..self.num_envs())
            .filter(asked)
            .try_for_each(|env| self.setup.check_starts(self.tickers_at(env)))
    }

    /// Allocates memory for the records of the next day.
    fn reserve_records(&mut self) -> Result<(), PortfolioError> {
        let num_envs = self.num_envs();
        if self.portfolios.reserve_records(self.n_tickers()) {
            Ok(())
        } else {
            Err(PortfolioError::NoRoom { num_envs })
        }
    }

    fn begin_anew(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        start: impl Fn(usize) -> EpisodeStart,
    ) {
        self.portfolios.fills.clear();
        self.episodes.start_call();
        for env in (0..self.num_envs()).filter(|&env| mask.is_none_or(|mask| mask[env])) {
            if let Some(seed) = seed.of_env(env) {
                self.streams.begin(env, seed);
            }
            self.begin(env, start(env));
            self.portfolios.clear_step(env);
            self.episodes.clear_outcome(env);
        }
    }

    /// Begins an episode of `env`. Draws the start day unless `start` names one, and the tickers of
    /// a portfolio that draws them.
    fn begin(&mut self, env: usize, start: EpisodeStart) {
        let count = self.n_tickers();
        let tickers = &mut self.tickers[env * count..(env + 1) * count];
        let mut stream = self.streams.of(env);
        let shift = if let EpisodeStart::Drawn(shift) = start { shift } else { 0 };
        if self.draws[env] {
            self.setup.draw_tickers(shift, &mut stream, tickers);
        }
        let day = match start {
            EpisodeStart::On(day) => day,
            EpisodeStart::Drawn(shift) => self.setup.draw_start(tickers, shift, &mut stream),
        };
        self.episodes.begin(env);
        let mut sub = SubEnv { env, tickers, stream };
        self.portfolios.begin(&self.setup.view(), &mut sub, day);
        if self.draws[env] {
            self.update_tokens(env);
        }
    }

    /// Changes the autoreset mode. Episodes that have ended already begin anew at the next step,
    /// unless the new mode is `Disabled`. Fails only if memory for the final observations of
    /// `SameStep` does not suffice.
    pub fn set_autoreset_mode(&mut self, mode: AutoresetMode) -> Result<(), PortfolioError> {
        let shape = self.setup.shape();
        let num_envs = self.num_envs();
        if mode == AutoresetMode::SameStep && self.final_obs.num_envs() == 0 {
            self.final_obs =
                Observation::zeros(num_envs, shape).ok_or(PortfolioError::NoRoom { num_envs })?;
        }
        self.setup.options.autoreset_mode = mode;
        Ok(())
    }

    /// Steps all sub-environments. `actions`: `[N, T]` in the range of
    /// [`PortfolioOptions::actions`](crate::PortfolioOptions::actions), f32 or f64.
    ///
    /// All actions are checked before anything changes. Actions of a sub-environment that is about
    /// to be reset are ignored.
    pub fn step<A: Copy + Into<f64>>(&mut self, actions: &[A]) -> Result<(), PortfolioError> {
        self.step_in_blocks(actions, |_, _| Ok(()))
    }

    /// Steps all sub-environments block by block, and calls `stepped` after each block, while its
    /// observations are in the cache.
    ///
    /// All actions are checked before anything changes. Blocks come in ascending order. An error of
    /// `stepped` ends the call; later blocks are not stepped then.
    pub fn step_in_blocks<A: Copy + Into<f64>, E: From<PortfolioError>>(
        &mut self,
        actions: &[A],
        mut stepped: impl FnMut(&Self, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_step(actions)?;
        self.reserve_records()?;
        self.portfolios.fills.clear();
        self.episodes.start_call();
        let (num_envs, count) = (self.num_envs(), self.n_tickers());
        let block = self.block();
        for start in (0..num_envs).step_by(block) {
            let envs = start..(start + block).min(num_envs);
            self.step_some(envs.clone(), &actions[envs.start * count..envs.end * count]);
            stepped(self, envs)?;
        }
        self.call_reward();
        Ok(())
    }

    /// Replaces the rewards of the step by those of the caller's reward.
    fn call_reward(&mut self) {
        let Some(mut reward) = self.reward.take() else { return };
        let (rewards, terminated, truncated) = self.episodes.outcome_mut();
        let StepFields { value_before, value, costs, traded, first, acted } =
            &self.portfolios.steps;
        let step = PortfolioSteps {
            value_before,
            value,
            costs,
            traded,
            first,
            acted,
            terminated,
            truncated,
        };
        reward.rewards(&step, rewards);
        for (reward, _) in rewards.iter_mut().zip(acted).filter(|(_, acted)| !**acted) {
            *reward = 0.0;
        }
        self.reward = Some(reward);
    }

    /// Returns the number of portfolios in a block, at least 1: as many as fit in [`BLOCK_BYTES`].
    fn block(&self) -> usize {
        let width = self.setup.shape().width() + self.flat_width();
        (BLOCK_BYTES / (width * size_of::<f64>()).max(1)).clamp(1, self.num_envs())
    }

    /// Steps the sub-environments `envs` with their `actions`.
    fn step_some<A: Copy + Into<f64>>(&mut self, envs: Range<usize>, actions: &[A]) {
        let (mode, count) = (self.setup.options.autoreset_mode, self.n_tickers());
        let mut setup = self.setup.view();
        for (env, actions) in envs.zip(actions.chunks_exact(count)) {
            if self.episodes.resets_next(env, mode) {
                self.begin(env, EpisodeStart::Drawn(0));
                setup = self.setup.view();
                self.portfolios.clear_step(env);
                self.episodes.clear_outcome(env);
                continue;
            }
            // Every portfolio is on a day of its own, which hardware prefetchers cannot predict.
            self.portfolios.prefetch(&setup, env + PREFETCH_DISTANCE);
            let tickers = &self.tickers[env * count..(env + 1) * count];
            let mut sub = SubEnv { env, tickers, stream: self.streams.of(env) };
            let outcome = if let Actions::Discrete { choices } = &self.setup.options.actions {
                self.chosen.clear();
                // `check_step` has found every number to be the position of a choice.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "so")]
                self.chosen.extend(actions.iter().map(|&at| choices[at.into() as usize]));
                self.portfolios.step(&setup, &mut sub, &self.chosen)
            } else {
                self.portfolios.step(&setup, &mut sub, actions)
            };
            self.episodes.enter(env, outcome, || self.portfolios.sums[env].metrics());
            if outcome.ends() && mode == AutoresetMode::SameStep {
                self.final_obs.copy_env(&self.portfolios.obs, env);
                self.begin(env, EpisodeStart::Drawn(0));
                setup = self.setup.view();
            }
        }
    }

    fn check_step<A: Copy + Into<f64>>(&self, actions: &[A]) -> Result<(), PortfolioError> {
        let tickers = self.n_tickers();
        check_length("actions", self.num_envs() * tickers, Some(actions.len()))?;
        let (mode, play_on) = (self.setup.options.autoreset_mode, self.setup.options.play_on);
        let last_day = i32::try_from(self.setup.last_day()).unwrap_or(i32::MAX);
        let (kind, short) = (&self.setup.options.actions, self.setup.options.margin.is_some());
        let (range, whole) = (kind.range(short), matches!(kind, Actions::Discrete { .. }));
        let within =
            !whole && run_simd(ActionsInRange, (actions, &[], &[]), (&mut [], &mut []), range);
        for (env, actions) in actions.chunks_exact(tickers).enumerate() {
            match self.episodes.next_step(env, mode, play_on)? {
                StepKind::Act => {}
                StepKind::Reset => continue,
                StepKind::PlayOn => {
                    let day = self.portfolios.obs.day[env];
                    if day >= last_day {
                        return Err(PortfolioError::OutOfDays { env, day });
                    }
                }
            }
            if within {
                continue;
            }
            let outside = |&action: &A| {
                let action = action.into();
                !(range.0..=range.1).contains(&action) || (whole && action.fract() != 0.0)
            };
            if let Some(at) = actions.iter().position(outside) {
                let ticker = self.setup.panel.tickers()[self.tickers_at(env)[at]].clone();
                let value = actions[at].into();
                return Err(PortfolioError::BadAction { env, ticker, value, range, whole });
            }
        }
        Ok(())
    }
}

/// Kernel that returns whether all actions are in a range.
struct ActionsInRange;

impl<A: Copy + Into<f64>> SimdKernel<A, (), (), (), (), (f64, f64), bool> for ActionsInRange {
    #[inline(always)]
    #[expect(clippy::needless_bitwise_bool, reason = "no branches")]
    fn run(
        actions: &[A],
        _: &[()],
        _: &[()],
        _: &mut [()],
        _: &mut [()],
        (low, high): (f64, f64),
    ) -> bool {
        // NaN gives false. The loop has no early exit, so that it is vectorised.
        actions.iter().fold(true, |within, &action| {
            let action: f64 = action.into();
            within & (action >= low) & (action <= high)
        })
    }
}
