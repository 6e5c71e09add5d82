//! The life of the portfolios: resets, steps, autoreset, and the checks before them.

use std::ops::Range;

use backcast_core::{AutoresetMode, Wide, wide};

use super::PortfolioVectorEnv;
use crate::{
    batch::{Phase, Turn},
    error::EnvError,
    observation::Observation,
    options::ResetSeed,
    stream::{Stream, spread},
    world::check_length,
};

/// Portfolios between asking for the memory of a step and the step.
const AHEAD: usize = 2;

/// Bytes of numbers in a block of portfolios.
const BLOCK_BYTES: usize = 192 << 10;

/// Where an episode begins.
#[derive(Clone, Copy)]
enum Start {
    On(usize),
    /// On a drawn day, but not on the first so many.
    Drawn(usize),
}

impl PortfolioVectorEnv {
    /// Begin new episodes.
    ///
    /// - `seed`: where the random streams go on.
    /// - `mask` `[N]`: which sub-environments to reset, at least one; `None`: all, as in the first reset. The others
    ///   keep their state, their observation and their stream.
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
    ///
    /// Where tickers are drawn, a shift draws them from those alone that have a day left, each for itself; an error,
    /// where there is no day left on which as many as are wanted are listed.
    pub fn reset_shifted(
        &mut self,
        seed: ResetSeed<'_>,
        mask: Option<&[bool]>,
        shift: usize,
    ) -> Result<(), EnvError> {
        self.check_reset(seed, mask)?;
        self.check_drawn(mask)?;
        for env in 0..self.num_envs() {
            if shift > 0 && mask.is_none_or(|mask| mask[env]) {
                let known = (!self.draws[env]).then(|| self.tickers_at(env));
                self.world.check_shift(env, shift, known)?;
            }
        }
        self.begin_anew(seed, mask, |_| Start::Drawn(shift));
        Ok(())
    }

    fn check_reset(&self, seed: ResetSeed<'_>, mask: Option<&[bool]>) -> Result<(), EnvError> {
        let num_envs = self.num_envs();
        check_length("mask", num_envs, mask.map(<[bool]>::len))?;
        if let ResetSeed::Each(seeds) | ResetSeed::EachOrSpread(seeds, _) = seed {
            check_length("seed", num_envs, Some(seeds.len()))?;
        }
        // As below: their callers may name other tickers.
        if self.world.options.play_on {
            self.world.check_shares()?;
        }
        let Some(mask) = mask else { return Ok(()) };
        if !mask.contains(&true) {
            return Err(EnvError::EmptyMask { num_envs });
        }
        let new = |env: &usize| !mask[*env] && self.batch.phase[*env] == Phase::New;
        (0..num_envs).find(new).map_or(Ok(()), |env| Err(EnvError::LeftOut { env }))
    }

    /// Is there a day to draw for all that are about to begin? Where episodes are played on this is asked
    /// here, since their callers may name other tickers or a day; elsewhere nothing is made without.
    fn check_drawn(&self, mask: Option<&[bool]>) -> Result<(), EnvError> {
        if !self.world.options.play_on {
            return Ok(());
        }
        let asked = |env: &usize| !self.draws[*env] && mask.is_none_or(|mask| mask[*env]);
        (0..self.num_envs())
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
                ResetSeed::EachOrSpread(seeds, seed) => {
                    seeds[env].or_else(|| Some(spread(seed, env as u64)))
                }
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
        let shift = if let Start::Drawn(shift) = start { shift } else { 0 };
        if self.draws[env] {
            self.world.draw_tickers(shift, stream, tickers);
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
        self.step_in_blocks(actions, |_, _| Ok(()))
    }

    /// Step all sub-environments, block by block, and hand each block to `seen` while it is in the cache: what a step
    /// wrote of many portfolios would have left it before the last was stepped.
    ///
    /// All actions are checked before anything happens. Blocks come in ascending order. An error of `seen` ends the
    /// step, in which the blocks after were not stepped.
    pub fn step_in_blocks<A: Copy + Into<f64>, E: From<EnvError>>(
        &mut self,
        actions: &[A],
        mut seen: impl FnMut(&Self, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_step(actions)?;
        self.batch.fills.clear();
        self.began.fill(false);
        let (num_envs, count) = (self.num_envs(), self.n_tickers());
        let block = self.block();
        for start in (0..num_envs).step_by(block) {
            let envs = start..(start + block).min(num_envs);
            self.step_some(envs.clone(), &actions[envs.start * count..envs.end * count]);
            seen(self, envs)?;
        }
        Ok(())
    }

    /// Portfolios whose state, market and observation fit a part of the second cache.
    fn block(&self) -> usize {
        let width = self.world.shape().width() + self.flat_width();
        (BLOCK_BYTES / (width * size_of::<f64>()).max(1)).clamp(1, self.num_envs())
    }

    /// Step the sub-environments `envs`; `actions` are theirs.
    fn step_some<A: Copy + Into<f64>>(&mut self, envs: Range<usize>, actions: &[A]) {
        let (mode, count) = (self.world.options.autoreset_mode, self.n_tickers());
        let mut world = self.world.view();
        for (env, actions) in envs.zip(actions.chunks_exact(count)) {
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
