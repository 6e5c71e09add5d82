//! `backcast._native.TradingBatch`: the Rust environment behind the classes of `backcast.envs`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers were checked when they were read, or are bounded by checked settings"
)]

mod fill;
mod inspect;
mod observation;
mod orders;
mod outcome;
pub(crate) mod reward;
mod settings;
pub(crate) mod shared;
mod step;
mod trail;

use std::sync::Arc;

use backcast_gym::{TradingError, TradingVectorEnv as CoreEnv};
use backcast_sim::MarketConfig;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{Argument, ChoiceName, autoreset_mode_of, count, count_in};
use crate::array::pool::ArrayPool;
use crate::error::{ErrorClass, Failure};
use crate::markets::callback::{FirstException, refuse_void};
use crate::markets::calling_handle::CallingHandle;
use crate::markets::contract::reset::{Seed, seed_of};
use crate::markets::trading::observation::ObservationForm;
use crate::markets::trading::outcome::{Choices, TradingOutcome};
use crate::markets::trading::settings::{Settings, UnknownOptions, reset_options_of, settings_of};
use crate::markets::trading::trail::Trails;

/// Maximum number of threads of one environment.
const MOST_THREADS: u32 = 1_024;

/// Trading environments that are stepped together, behind the classes of ``backcast.envs``.
///
/// Use :class:`backcast.envs.TradingVectorEnv` and :class:`backcast.envs.TradingEnv`, which
/// describe the world and the settings.
///
/// Parameters
/// ----------
/// num_envs : int or None
///     Environments, ``N``, the leading axis of every array. None: a single one without that axis,
///     whose reward is a float and whose flags are bools.
/// settings : dict
///     Settings by name: see :class:`backcast.envs.TradingSettings`; ``agents`` of the user.
/// autoreset_mode : str
///     Autoreset mode after an episode has ended.
/// threads : int
///     Threads that step, the caller's among them.
/// reuse : bool
///     Write every observation to the same array.
/// trails : bool
///     Keep prices, equity and trades of the last steps, for pictures.
///
/// Raises
/// ------
/// EnvError
///     If a setting is out of its range.
#[pyclass(module = "backcast._native", name = "TradingBatch", frozen)]
pub(crate) struct TradingBatch {
    env: CallingHandle<Stepped>,
    /// `None` for the single environment.
    num_envs: Option<usize>,
    market: Arc<MarketConfig>,
    choices: Choices,
    /// Number of values in an action, over all symbols.
    action_len: usize,
    /// Number of values in an observation.
    width: usize,
    form: ObservationForm,
    /// Rewards and flags of earlier steps.
    pool: ArrayPool,
    raised: FirstException,
}

/// The environments with the trails of their episodes.
#[derive(Clone)]
struct Stepped {
    env: CoreEnv,
    trails: Option<Trails>,
    /// Whether an agent of the user raised since the last reset of all environments.
    failed: bool,
}

#[pymethods]
impl TradingBatch {
    #[new]
    #[pyo3(signature = (
        num_envs, settings, *, autoreset_mode="disabled".into(), threads=1_i64.into(), reuse=false,
        trails=false
    ))]
    #[pyo3(text_signature = "(num_envs, settings, *, autoreset_mode=\"disabled\", threads=1, \
                             reuse=False, trails=False)")]
    fn new(
        py: Python<'_>,
        num_envs: Option<Argument<i128>>,
        settings: &Bound<'_, PyDict>,
        autoreset_mode: Argument<ChoiceName>,
        threads: Argument<i128>,
        reuse: bool,
        trails: bool,
    ) -> Result<Self, Failure> {
        let num_envs = num_envs
            .map(|envs| count(envs, "num_envs", 1, ErrorClass::Env).map(|envs| envs as usize))
            .transpose()?;
        let mode = autoreset_mode_of(autoreset_mode, ErrorClass::Env)?;
        let threads = count_in(threads, "threads", 1..=MOST_THREADS, ErrorClass::Env)? as usize;
        let envs = num_envs.unwrap_or(1);
        let check = |config: &_| CoreEnv::check_num_envs(config, envs);
        let Settings { config, raised } = settings_of(settings, envs, check)?;
        let env = py.detach(|| CoreEnv::new(config, envs, mode, threads))?;
        raised.raise()?;
        let trails = trails.then(|| Trails::new(envs));
        Ok(Self::around(Stepped { env, trails, failed: false }, num_envs, reuse, raised))
    }

    /// Begin new episodes.
    ///
    /// Parameters
    /// ----------
    /// seed : int or sequence of (int or None), optional
    ///     An int seeds environment i with ``seed + i``; a sequence has one entry for each. With
    ///     None an environment continues its stream of episode seeds.
    /// options : dict, optional
    ///     ``"episode_seed"``, ``"shares"``, ``"cash"``, and ``"reset_mask"``: bool array ``[N]``.
    ///
    /// Returns
    /// -------
    /// (ndarray, dict)
    ///     Observation and infos.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an option or a seed is not valid. An exception of a reward is raised after the reset.
    /// TypeError
    ///     If ``reset_mask`` is no array of booleans.
    #[pyo3(signature = (*, seed=None, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyDict>), Failure> {
        let seed = seed.map(|seed| seed_of(seed, self.num_envs)).transpose()?;
        let (choices, mask) = options
            .map(|options| {
                reset_options_of(options, self.num_envs, &self.market, UnknownOptions::Refused)
            })
            .transpose()?
            .unwrap_or_default();
        let (obs, outcome) = self.form.observe(py, |out| {
            self.env.with(|stepped| {
                let streams = Seed::streams(seed.as_ref());
                if mask.as_ref().is_some_and(|mask| mask.contains(&false)) {
                    refuse_void(stepped.failed)?;
                }
                stepped
                    .env
                    .reset_into(streams, mask.as_deref(), choices, out)
                    .map_err(|error| self.reworded(&error))?;
                stepped.failed = stepped.has_agents() && self.raised.is_kept();
                stepped.look();
                TradingOutcome::of(&stepped.env, self.choices, None)
            })
        })?;
        self.raised.raise()?;
        let infos = outcome.infos(py, self.choices, self.num_envs.is_some())?;
        Ok((obs, infos))
    }

    /// Change the autoreset mode from the next step on, also for episodes that have ended.
    fn set_autoreset_mode(&self, mode: Argument<ChoiceName>) -> Result<(), Failure> {
        let mode = autoreset_mode_of(mode, ErrorClass::Env)?;
        self.env.with(|stepped| Ok(stepped.env.set_autoreset_mode(mode)?))
    }

    /// Release the memory of the markets. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.env.close())?;
        self.form.forget();
        self.pool.clear();
        Ok(())
    }

    /// Return an independent copy in the same state, random streams and rewards included.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let clone = || py.detach(|| self.env.with(|stepped| Ok(stepped.clone())));
        let (copy, raised) = self.raised.separated(clone);
        let copy = copy?;
        raised.raise()?;
        Ok(Self::around(copy, self.num_envs, self.form.is_reused(), raised))
    }

    fn __repr__(&self) -> String {
        format!("<backcast._native.TradingBatch: {}>", self.__str__())
    }

    /// Return the text that the environments show in their repr.
    fn __str__(&self) -> String {
        let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let agents = self.market.population.total();
        let state = self.env.describe(|stepped| {
            let config = stepped.env.config();
            format!(
                "{} actions, {} ticks a step, autoreset_mode '{}'",
                config.agent.actions,
                config.frame_skip,
                stepped.env.autoreset_mode()
            )
        });
        format!(
            "{} of {} with {agents} agents, {state}",
            plural(self.num_envs.unwrap_or(1), "market"),
            plural(self.choices.symbols, "symbol")
        )
    }
}

impl Stepped {
    /// Returns whether agents of the user trade in the markets.
    fn has_agents(&self) -> bool {
        !self.env.config().simulation.agents.is_empty()
    }

    /// Records the state after a call in the trails.
    fn look(&mut self) {
        if let Some(trails) = &mut self.trails {
            for env in 0..self.env.num_envs() {
                trails.look(env, self.env.state(env), self.env.began()[env]);
            }
        }
    }
}

impl TradingBatch {
    fn around(
        stepped: Stepped,
        num_envs: Option<usize>,
        reuse: bool,
        raised: FirstException,
    ) -> Self {
        let env = &stepped.env;
        let market = Arc::clone(env.market(0).config());
        Self {
            num_envs,
            choices: Choices::of(&env.config().agent, usize::from(market.symbols)),
            action_len: env.action_len(),
            width: env.observation_size(),
            form: ObservationForm::new(num_envs, env.observation_size(), reuse),
            pool: ArrayPool::default(),
            raised,
            market,
            env: CallingHandle::of_environment(stepped),
        }
    }

    /// Words an error for one environment, or for several.
    fn reworded(&self, error: &TradingError) -> Failure {
        match error {
            TradingError::Interrupted { .. } => Failure::interrupted(error),
            error if self.num_envs.is_some() => Failure::of(ErrorClass::Env, error),
            error => Failure::of(ErrorClass::Env, error.for_single()),
        }
    }
}
