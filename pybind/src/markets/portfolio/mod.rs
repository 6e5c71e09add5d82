//! `backcast._native.PortfolioBatch`: the Rust environment behind the classes of `backcast.envs`.

mod details;
mod episode;
mod history;
mod inspect;
mod observation;
mod outcome;
mod reset;
mod settings;
mod step;

use backcast_gym::{PortfolioError, PortfolioVectorEnv as CoreEnv, ResetSeed};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{Argument, ChoiceName, autoreset_mode_of, count, names_of};
use crate::array::pool::ArrayPool;
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;
use crate::markets::contract::reset::{Seed, seed_of};
use crate::markets::contract::results::StepArrays;
use crate::markets::panel::Panel;
use crate::markets::portfolio::observation::{ObservationForm, ObservationOptions};
use crate::markets::portfolio::outcome::PortfolioOutcome;
use crate::markets::portfolio::reset::Start;
use crate::markets::portfolio::settings::options_of;

/// Portfolios on a panel that are stepped together, behind the classes of ``backcast.envs``.
///
/// Use :class:`backcast.envs.PortfolioVectorEnv` and :class:`backcast.envs.PortfolioEnv`, which
/// describe the world, the settings and the observations.
///
/// Parameters
/// ----------
/// panel : Panel
///     The market that they trade in.
/// num_envs : int or None
///     Portfolios, ``N``, the leading axis of every array. None: a single portfolio without that
///     axis, whose reward is a float and whose flags are bools.
/// flat : bool
///     Observations are one float32 array ``[N, F]`` instead of a dict of arrays.
/// reuse : bool
///     Write every observation to the same arrays.
/// unit_axis : bool
///     Single numbers of an observation (cash, day, total asset) have an axis of length one.
/// settings : dict
///     Settings by name, see :class:`backcast.envs.PortfolioVectorEnv` and
///     :class:`backcast.finrl.VecFastFinRL`.
/// tickers_of : sequence of sequences of str
///     The tickers of each portfolio; for an empty sequence those of the settings, which may be
///     drawn. None: all portfolios have the tickers of the settings.
///
/// Raises
/// ------
/// EnvError
///     If a setting is out of its range, or the panel cannot serve it.
#[pyclass(module = "backcast._native", name = "PortfolioBatch", frozen)]
pub(crate) struct PortfolioBatch {
    env: Handle<CoreEnv>,
    /// `None` for the single environment.
    num_envs: Option<usize>,
    tickers: Vec<String>,
    tokens: Vec<i32>,
    indicators: Vec<String>,
    form: ObservationForm,
    /// Rewards and flags of earlier steps.
    pool: ArrayPool,
}

/// Portfolio, ticker, price, fee, shares or units, and whether a stop loss sold them.
type FillRow = (usize, String, f64, f64, f64, bool);

/// Rewards, terminations and truncations.
type Flags<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

type Step<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyDict>,
);

#[pymethods]
impl PortfolioBatch {
    #[new]
    #[pyo3(signature = (
        panel, num_envs, settings, *, tickers_of=None, flat=false, reuse=false, unit_axis=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn new(
        py: Python<'_>,
        panel: &Bound<'_, Panel>,
        num_envs: Option<Argument<i128>>,
        settings: &Bound<'_, PyDict>,
        tickers_of: Option<Vec<Bound<'_, PyAny>>>,
        flat: bool,
        reuse: bool,
        unit_axis: bool,
    ) -> Result<Self, Failure> {
        let panel = panel.get().get()?;
        let options = options_of(settings, &panel)?;
        let num_envs = num_envs
            .map(|envs| count(envs, "num_envs", 1, ErrorClass::Env).map(|envs| envs as usize))
            .transpose()?;
        let each = tickers_of
            .map(|each| {
                each.iter()
                    .map(|names| names_of(names, "tickers", "[\"AAPL\", \"MSFT\"]"))
                    .collect()
            })
            .transpose()?;
        let env = py.detach(|| match each {
            Some(each) => {
                let each: Vec<Vec<String>> = each;
                CoreEnv::with_tickers(panel, &each, options)
            }
            None => CoreEnv::new(panel, num_envs.unwrap_or(1), options),
        })?;
        // Indicators are copied straight into arrays, so the environment keeps none itself.
        let env = env.without_indicators_in_obs();
        let form =
            ObservationForm::new(num_envs, &env, ObservationOptions { flat, reuse, unit_axis });
        Ok(Self::around(env, num_envs, form))
    }

    /// Begin new episodes.
    ///
    /// Parameters
    /// ----------
    /// seed : int or sequence of (int or None), optional
    ///     An int seeds portfolio i with ``seed + i``; a sequence has one entry per portfolio. With
    ///     None a portfolio continues its stream of random numbers.
    /// options : dict, optional
    ///     ``"start_day"``: an int, a date or an array ``[N]`` of them, where to begin instead of
    ///     on a drawn day.
    ///     ``"reset_mask"``: bool array ``[N]``, which portfolios to reset; the others stay as they
    ///     are, and must have been reset before.
    /// spread : bool
    ///     Seed portfolio i with stream i of an int seed, instead of with ``seed + i``.
    /// shifted_start : int
    ///     Days at the beginning on which no episode is to start.
    /// begin : int, optional
    ///     Seed whose streams, as with ``spread``, seed the portfolios that get no seed. When left
    ///     out, these portfolios continue their streams.
    ///
    /// Returns
    /// -------
    /// (dict or ndarray, dict)
    ///     Observation and infos (empty).
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an option or a seed is not valid.
    /// TypeError
    ///     If ``reset_mask`` is no array of booleans.
    #[pyo3(signature = (*, seed=None, options=None, spread=false, shifted_start=0, begin=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyAny>>,
        spread: bool,
        shifted_start: usize,
        begin: Option<u64>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyDict>), Failure> {
        let seed = seed.map(|seed| seed_of(seed, self.num_envs)).transpose()?;
        let Start { day, mask } = match options {
            Some(options) => {
                let panel = self.env.with(|env| Ok(env.panel().clone()))?;
                reset::start_of(options, self.num_envs, &panel)?
            }
            None => Start::default(),
        };
        let (obs, ()) = self.form.observe(py, |slots| {
            self.env.with(|env| {
                let seed = match (&seed, begin) {
                    (None, Some(begin)) => ResetSeed::Spread(begin),
                    (Some(Seed::One(seed)), _) if spread => ResetSeed::Spread(*seed),
                    (Some(Seed::Each(seeds)), Some(begin)) => ResetSeed::EachOrSpread(seeds, begin),
                    (given, _) => Seed::streams(given.as_ref()),
                };
                let reset = match day {
                    Some(days) => env.reset(seed, mask.as_deref(), Some(&days)),
                    None => env.reset_shifted(seed, mask.as_deref(), shifted_start),
                };
                reset.map_err(|error| self.reworded(error))?;
                slots.fill(env)
            })
        })?;
        Ok((obs, PyDict::new(py)))
    }

    /// Trade one day in every portfolio.
    ///
    /// Parameters
    /// ----------
    /// actions : array_like, shape (N, T)
    ///     Numbers of the setting ``actions``. In next-step mode the actions of a portfolio that
    ///     is about to be reset are ignored.
    ///
    /// Returns
    /// -------
    /// (dict or ndarray, ndarray, ndarray, ndarray, dict)
    ///     Observation, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
    ///     In same-step mode, when an episode ended, infos hold ``final_obs`` (object array of None
    ///     or the last observation), ``final_info`` and their masks; in every mode ``metrics``.
    ///     With ``step_info`` they and ``final_info`` hold orders, fills, limits and costs by kind.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an action is not in the action space, or a portfolio has to be reset first. Nothing
    ///     has changed then.
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> Result<Step<'py>, Failure> {
        let single =
            actions.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().char() == b'f');
        let mut results = self.results(py)?;
        let slots = results.as_mut().map(StepArrays::slots);
        let (obs, outcome) =
            if single { self.act::<f32>(actions, slots) } else { self.act::<f64>(actions, slots) }?;
        self.told(obs, &outcome, results)
    }

    /// Return current observations and the results of the last step, in new arrays.
    ///
    /// Returns
    /// -------
    /// (dict or ndarray, ndarray, ndarray, ndarray, dict)
    ///     Results as from ``step``; rewards are zero and flags False after a reset.
    fn shown<'py>(&self, py: Python<'py>) -> Result<Step<'py>, Failure> {
        let mut results = self.results(py)?;
        let slots = results.as_mut().map(StepArrays::slots);
        let (obs, outcome) = self.form.observe(py, |arrays| {
            self.env.with(|env| {
                arrays.fill(env)?;
                Ok(PortfolioOutcome::of(env, slots))
            })
        })?;
        self.told(obs, &outcome, results)
    }

    /// Return rewards and flags, as in ``shown()``.
    fn outcomes<'py>(&self, py: Python<'py>) -> Result<Flags<'py>, Failure> {
        let mut results = self.results(py)?;
        let slots = results.as_mut().map(StepArrays::slots);
        let outcome = self.env.with(|env| Ok(PortfolioOutcome::of(env, slots)))?;
        Ok(self.flags(py, outcome.first, results)?.into())
    }

    /// Set the autoreset mode from the next step on, also for episodes that have ended.
    fn set_autoreset_mode(&self, mode: Argument<ChoiceName>) -> Result<(), Failure> {
        let mode = autoreset_mode_of(mode, ErrorClass::Env)?;
        self.env.with(|env| Ok(env.set_autoreset_mode(mode)?))
    }

    /// Continue the random streams of another batch.
    fn go_on_from(&self, other: &Self) -> Result<(), Failure> {
        let streams = |env: &mut CoreEnv| {
            other.env.with(|other| {
                env.continue_streams_of(other);
                Ok(())
            })
        };
        self.env.with(streams)
    }

    /// Release the panel. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.env.close())?;
        self.form.forget();
        self.pool.clear();
        Ok(())
    }

    /// Return an independent copy in the same state, random streams included.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let env = py.detach(|| self.env.with(|env| Ok(env.clone())))?;
        let form = ObservationForm::new(self.num_envs, &env, self.form.options());
        Ok(Self::around(env, self.num_envs, form))
    }

    fn __repr__(&self) -> String {
        format!("<backcast._native.PortfolioBatch: {}>", self.__str__())
    }

    /// Return the text that the environments show in their repr.
    fn __str__(&self) -> String {
        let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let portfolios = plural(self.num_envs.unwrap_or(1), "portfolio");
        let tickers = plural(self.tickers.len(), "ticker");
        let state = self.env.describe(|env| {
            let (first, end) = env.options().days.unwrap_or((0, env.panel().days()));
            let mode = env.options().autoreset_mode;
            format!("autoreset_mode '{mode}', days {first} to {}", end.saturating_sub(1))
        });
        format!("{portfolios} of {tickers}, {state}")
    }
}

impl PortfolioBatch {
    fn around(env: CoreEnv, num_envs: Option<usize>, form: ObservationForm) -> Self {
        Self {
            num_envs,
            tickers: env.tickers(0).map(str::to_owned).collect(),
            tokens: env.tokens()[..env.n_tickers()].to_vec(),
            indicators: env.indicators().to_vec(),
            form,
            pool: ArrayPool::default(),
            env: Handle::new("the portfolio environment".to_owned(), "make a new one", env),
        }
    }

    /// Words an error for a single portfolio or for several ones.
    fn reworded(&self, error: PortfolioError) -> Failure {
        if self.num_envs.is_some() {
            error.into()
        } else {
            Failure::of(ErrorClass::Env, error.for_single())
        }
    }
}
