//! `backcast._native.PortfolioBatch`: the Rust environment behind the classes of `backcast.envs`.

use backcast_core::{AutoresetMode, DType};
use backcast_gym::{Observation, PortfolioOptions, PortfolioVectorEnv as CoreEnv, ResetSeed};
use numpy::prelude::*;
use numpy::{Element, PyArray1, PyArrayDyn, PyUntypedArray};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::coerce::{Target, Tuple, array_of, autoreset_mode_of, count, count_in};
use crate::error::{Failure, Kind};
use crate::given::{Given, shown};
use crate::handle::Handle;
use crate::observed::{Form, Slots};
use crate::panel::Panel;
use crate::reset::{self, Seed, Start};

/// Portfolios on a panel, stepped together: what the classes of ``backcast.envs`` hold.
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
///     Observations are one float32 array ``[N, T * (3 + K) + 3]`` instead of a dict of arrays.
/// reuse : bool
///     Write every observation to the same arrays.
/// **settings
///     As in :class:`backcast.envs.PortfolioVectorEnv`.
///
/// Raises
/// ------
/// EnvError
///     If a setting is out of its range, or the panel cannot serve it.
#[pyclass(module = "backcast._native", name = "PortfolioBatch", frozen)]
pub(crate) struct PortfolioBatch {
    env: Handle<CoreEnv>,
    /// None for the single one.
    num_envs: Option<usize>,
    tickers: Vec<String>,
    tokens: Vec<i32>,
    indicators: Vec<String>,
    mode: AutoresetMode,
    form: Form,
}

/// What a step leaves behind, copied while the environment was ours.
struct Outcome {
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// In same-step mode, when an episode ended: the last observation of each that did.
    finals: Option<Vec<Option<Observation>>>,
}

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
        panel, num_envs, *, initial_amount=30_000.0.into(), failure_threshold=25_000.0.into(),
        hmax=15_i64.into(), buy_cost_pct=0.01.into(), sell_cost_pct=0.01.into(), tickers=None, days=None,
        indicator_lag=1_i64.into(), autoreset_mode="next_step".into(), max_episode_steps=None,
        flat=false, reuse=false
    ))]
    #[pyo3(text_signature = "(panel, num_envs, *, initial_amount=30000.0, \
                             failure_threshold=25000.0, hmax=15, buy_cost_pct=0.01, \
                             sell_cost_pct=0.01, tickers=None, days=None, indicator_lag=1, \
                             autoreset_mode='next_step', max_episode_steps=None, flat=False, \
                             reuse=False)")]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn new(
        py: Python<'_>,
        panel: &Bound<'_, Panel>,
        num_envs: Option<Given<i128>>,
        initial_amount: Given<f64>,
        failure_threshold: Given<f64>,
        hmax: Given<i128>,
        buy_cost_pct: Given<f64>,
        sell_cost_pct: Given<f64>,
        tickers: Option<&Bound<'_, PyAny>>,
        days: Option<&Bound<'_, PyAny>>,
        indicator_lag: Given<i128>,
        autoreset_mode: Given<String>,
        max_episode_steps: Option<Given<i128>>,
        flat: bool,
        reuse: bool,
    ) -> Result<Self, Failure> {
        let number = |asked: Given<i128>, what, at_least| count(asked, what, at_least, Kind::Env);
        let fraction = "a fraction in [0, 1); one percent is 0.01";
        let options = PortfolioOptions {
            initial_amount: initial_amount.get("initial_amount", "an amount above 0")?,
            failure_threshold: failure_threshold.get("failure_threshold", "an amount")?,
            hmax: count_in(hmax, "hmax", 1..=i32::MAX.unsigned_abs(), Kind::Env)?,
            buy_cost_pct: buy_cost_pct.get("buy_cost_pct", fraction)?,
            sell_cost_pct: sell_cost_pct.get("sell_cost_pct", fraction)?,
            tickers: tickers.map(tickers_of).transpose()?,
            days: days.map(days_of).transpose()?,
            indicator_lag: number(indicator_lag, "indicator_lag", 0)? as usize,
            autoreset_mode: autoreset_mode_of(autoreset_mode, Kind::Env)?,
            max_episode_steps: max_episode_steps
                .map(|steps| number(steps, "max_episode_steps", 1))
                .transpose()?,
        };
        let num_envs = num_envs
            .map(|envs| number(envs, "num_envs", 1).map(|envs| envs as usize))
            .transpose()?;
        let panel = panel.get().get()?;
        let env = py.detach(|| CoreEnv::new(panel, num_envs.unwrap_or(1), options))?;
        let form = Form::new(num_envs, env.obs(), flat, reuse);
        Ok(Self::around(env, num_envs, form))
    }

    /// Begin new episodes.
    ///
    /// Parameters
    /// ----------
    /// seed : int or sequence of (int or None), optional
    ///     An int seeds portfolio i with ``seed + i``; a sequence has one entry per portfolio. None
    ///     goes on in the stream of random numbers that a portfolio has.
    /// options : dict, optional
    ///     ``"start_day"``: an int or int array ``[N]``, where to begin instead of on a drawn day.
    ///     ``"reset_mask"``: bool array ``[N]``, which portfolios to reset; the others stay.
    ///
    /// Returns
    /// -------
    /// (dict or ndarray, dict)
    ///     Observation and infos (empty).
    ///
    /// Raises
    /// ------
    /// EnvError
    /// TypeError
    ///     If ``reset_mask`` is no array of booleans.
    #[pyo3(signature = (*, seed=None, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyDict>), Failure> {
        let seed = seed.map(|seed| reset::seed_of(seed, self.num_envs)).transpose()?;
        let Start { day, mask } = match options {
            Some(options) => reset::start_of(options, self.num_envs)?,
            None => Start::default(),
        };
        let (obs, ()) = self.form.observe(py, |slots| {
            self.env.with(|env| {
                let seed = match &seed {
                    None => ResetSeed::Keep,
                    Some(Seed::One(seed)) => ResetSeed::One(*seed),
                    Some(Seed::Each(seeds)) => ResetSeed::Each(seeds),
                };
                env.reset(seed, mask.as_deref(), day.as_deref())?;
                slots.fill(env.obs())
            })
        })?;
        Ok((obs, PyDict::new(py)))
    }

    /// Trade one day in every portfolio.
    ///
    /// Parameters
    /// ----------
    /// actions : array_like of float, shape (N, T)
    ///     From -1 (sell ``hmax`` shares) to 1 (buy as many). In next-step mode those of a
    ///     portfolio that is about to be reset are not looked at.
    ///
    /// Returns
    /// -------
    /// (dict or ndarray, ndarray, ndarray, ndarray, dict)
    ///     Observation, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
    ///     In same-step mode, when an episode ended, infos hold ``final_obs`` (object array of None
    ///     or the last observation), ``final_info`` (empty) and their masks.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an action is no number from -1 to 1, or a portfolio has to be reset first. Nothing
    ///     has changed then.
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> Result<Step<'py>, Failure> {
        let single = actions
            .cast::<PyUntypedArray>()
            .is_ok_and(|array| array.dtype().is_equiv_to(&numpy::dtype::<f32>(py)));
        let (obs, outcome) =
            if single { self.act::<f32>(actions) } else { self.act::<f64>(actions) }?;
        let infos = PyDict::new(py);
        if let Some(finals) = outcome.finals {
            self.add_finals(&infos, &finals)?;
        }
        let Outcome { rewards, terminated, truncated, .. } = outcome;
        if let (None, [reward], [terminated], [truncated]) =
            (self.num_envs, &rewards[..], &terminated[..], &truncated[..])
        {
            let flag = |flag: bool| flag.into_bound_py_any(py);
            let reward = reward.into_bound_py_any(py)?;
            return Ok((obs, reward, flag(*terminated)?, flag(*truncated)?, infos));
        }
        Ok((
            obs,
            PyArray1::from_vec(py, rewards).into_any(),
            PyArray1::from_vec(py, terminated).into_any(),
            PyArray1::from_vec(py, truncated).into_any(),
            infos,
        ))
    }

    /// Portfolios, ``N``; None for the single one.
    #[getter]
    fn num_envs(&self) -> Option<usize> {
        self.num_envs
    }

    /// The tickers traded, in the order of actions.
    #[getter]
    fn tickers(&self) -> Vec<String> {
        self.tickers.clone()
    }

    /// The indicators shown, ``K`` of them.
    #[getter]
    fn indicators(&self) -> Vec<String> {
        self.indicators.clone()
    }

    /// The tickers' tokens in the panel, int32 ``[T]``.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.tokens)
    }

    /// What happens after an episode has ended.
    #[getter]
    fn autoreset_mode(&self) -> String {
        self.mode.to_string()
    }

    /// Let go of the panel. Closing again does nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.env.close());
    }

    /// A batch in the same state, random streams included, that goes its own way from here.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let env = py.detach(|| self.env.with(|env| Ok(env.clone())))?;
        let form = Form::new(self.num_envs, env.obs(), self.form.is_flat(), self.form.reuses());
        Ok(Self::around(env, self.num_envs, form))
    }

    fn __repr__(&self) -> String {
        format!("<backcast._native.PortfolioBatch: {}>", self.__str__())
    }

    /// What the environments built on it show of it.
    fn __str__(&self) -> String {
        let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let portfolios = plural(self.num_envs.unwrap_or(1), "portfolio");
        let tickers = plural(self.tickers.len(), "ticker");
        let state = self.env.describe(|env| {
            let (first, end) = env.options().days.unwrap_or((0, env.panel().days()));
            format!("days {first} to {}", end.saturating_sub(1))
        });
        format!("{portfolios} of {tickers}, autoreset_mode '{}', {state}", self.mode)
    }
}

impl PortfolioBatch {
    fn around(env: CoreEnv, num_envs: Option<usize>, form: Form) -> Self {
        Self {
            num_envs,
            tickers: env.tickers().to_vec(),
            tokens: env.tokens().to_vec(),
            indicators: env.indicators().to_vec(),
            mode: env.options().autoreset_mode,
            form,
            env: Handle::new("the portfolio environment".to_owned(), "make it anew", env),
        }
    }

    fn act<'py, A>(
        &self,
        actions: &Bound<'py, PyAny>,
    ) -> Result<(Bound<'py, PyAny>, Outcome), Failure>
    where
        A: Element + Copy + Into<f64> + Sync,
    {
        let dtype = if size_of::<A>() == 4 { DType::F32 } else { DType::F64 };
        let array = array_of(actions, Target { what: "actions", kind: Kind::Env, dtype })?;
        let expected: Vec<usize> = self.num_envs.into_iter().chain([self.tickers.len()]).collect();
        if array.shape() != expected {
            let each = if self.num_envs.is_some() { "portfolio and ticker" } else { "ticker" };
            return Err(Failure::new(
                Kind::Env,
                format!(
                    "actions: got shape {}; give {}, one per {each}",
                    Tuple(array.shape()),
                    Tuple(&expected)
                ),
            ));
        }
        let array = array.cast::<PyArrayDyn<A>>().map_err(PyErr::from)?.readonly();
        let actions = array.as_slice().map_err(|error| Failure::new(Kind::Env, error))?;
        self.form.observe(array.py(), |slots| self.trade(actions, slots))
    }

    fn trade<A: Copy + Into<f64>>(
        &self,
        actions: &[A],
        slots: Slots<'_>,
    ) -> Result<Outcome, Failure> {
        self.env.with(|env| {
            env.step(actions)?;
            slots.fill(env.obs())?;
            let ended = env.ended();
            let same_step = self.mode == AutoresetMode::SameStep && ended.contains(&true);
            let last =
                |(at, &ended): (usize, &bool)| ended.then(|| env.final_obs().row(at)).flatten();
            Ok(Outcome {
                rewards: env.rewards().to_vec(),
                terminated: env.terminated().to_vec(),
                truncated: env.truncated().to_vec(),
                finals: same_step.then(|| ended.iter().enumerate().map(last).collect()),
            })
        })
    }

    /// As Gymnasium's own vector environments do: objects, masks, and infos without an entry.
    fn add_finals(
        &self,
        infos: &Bound<'_, PyDict>,
        finals: &[Option<Observation>],
    ) -> Result<(), Failure> {
        let py = infos.py();
        let rows = finals
            .iter()
            .map(|last| match last {
                Some(last) => Ok(self.form.row(py, last)?.unbind()),
                None => Ok(py.None()),
            })
            .collect::<Result<Vec<Py<PyAny>>, Failure>>()?;
        let ended = || PyArray1::from_iter(py, finals.iter().map(Option::is_some));
        infos.set_item("final_obs", PyArray1::from_vec(py, rows))?;
        infos.set_item("_final_obs", ended())?;
        infos.set_item("final_info", PyDict::new(py))?;
        infos.set_item("_final_info", ended())?;
        Ok(())
    }
}

/// Names of tickers; a lone name is a slip.
fn tickers_of(given: &Bound<'_, PyAny>) -> Result<Vec<String>, Failure> {
    given.extract().map_err(|_| {
        let wanted = "a sequence of names, [\"AAPL\", \"MSFT\"]";
        Failure::new(Kind::ArgumentType, format!("tickers is {}; give {wanted}", shown(given)))
    })
}

/// The first day and one past the last.
fn days_of(given: &Bound<'_, PyAny>) -> Result<(usize, usize), Failure> {
    let (start, end): (i64, i64) = given.extract().map_err(|_| {
        let wanted = "two whole numbers, the first day and one past the last";
        Failure::new(Kind::ArgumentType, format!("days is {}; give {wanted}", shown(given)))
    })?;
    let day = |asked: i64| count(asked, "a day of days", 0, Kind::Env).map(|day| day as usize);
    Ok((day(start)?, day(end)?))
}
