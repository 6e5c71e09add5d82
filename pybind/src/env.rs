//! `backcast.PortfolioVectorEnv`: Gymnasium's vector contract around the Rust environment.

use backcast_core::{AutoresetMode, DType};
use backcast_gym::{Observation, PortfolioOptions, PortfolioVectorEnv as CoreEnv, ResetSeed};
use numpy::ndarray::{Array, Dimension, IntoDimension};
use numpy::prelude::*;
use numpy::{Element, PyArray, PyArray1, PyArrayDyn, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::coerce::{Target, Tuple, array_of, autoreset_mode_of, count};
use crate::error::{Failure, Kind};
use crate::handle::Handle;
use crate::panel::Panel;
use crate::reset::{self, Seed, Start};

/// Many portfolios that trade the tickers of a panel day by day, in Gymnasium's vector contract.
///
/// On day d an agent sees the open of d and the indicators of ``d - indicator_lag``; its orders are
/// filled at the close of d; nothing else of d is shown before. The reward is the log return from
/// close to close. Terminated: the portfolio fell to the failure threshold. Truncated: the data or
/// the steps of an episode ran out. Gymnasium itself is not needed.
///
/// Parameters
/// ----------
/// panel : Panel
///     The market that they trade in.
/// num_envs : int
///     Portfolios, ``N``.
/// initial_amount : float
///     Cash at the start of an episode.
/// failure_threshold : float
///     An episode is terminated when the portfolio falls to this or below.
/// hmax : int
///     Shares traded by an action of 1.
/// buy_cost_pct, sell_cost_pct : float
///     Fees as fractions of the value traded; 0.01 is one percent.
/// tickers : sequence of str, optional
///     What to trade, in the order of actions; all but macro tickers when left out. ``T`` of them.
/// days : (int, int), optional
///     Days of the panel to live on, half open; all when left out.
/// indicator_lag : int
///     Days by which the indicators are older than the open. 0 is look-ahead.
/// autoreset_mode : {"next_step", "same_step", "disabled"}
///     What happens after an episode has ended, in Gymnasium's words.
/// max_episode_steps : int, optional
///     Steps after which an episode is truncated.
///
/// Raises
/// ------
/// EnvError
///     If a setting is out of its range, or the panel cannot serve it.
///
/// Notes
/// -----
/// An observation is a dict of fresh arrays: ``day`` int32 ``[N]``, ``cash`` float64 ``[N]``,
/// ``shares`` int32 ``[N, T]``, ``avg_buy_price`` float64 ``[N, T]``, ``total_asset`` float64
/// ``[N]`` (valued at the open), ``open`` float64 ``[N, T]`` (0 where not listed) and
/// ``indicators`` float64 ``[N, T, K]``.
#[pyclass(module = "backcast", name = "PortfolioVectorEnv", frozen)]
pub(crate) struct PortfolioVectorEnv {
    env: Handle<CoreEnv>,
    num_envs: usize,
    tickers: Vec<String>,
    tokens: Vec<i32>,
    indicators: Vec<String>,
    mode: AutoresetMode,
}

/// What a step leaves behind, copied while the environment was ours.
struct Outcome {
    obs: Observation,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// In same-step mode, when an episode ended: its last observation, and which ended.
    finals: Option<(Observation, Vec<bool>)>,
}

type Step<'py> = (
    Bound<'py, PyDict>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyDict>,
);

#[pymethods]
impl PortfolioVectorEnv {
    #[new]
    #[pyo3(signature = (
        panel, num_envs, *, initial_amount=30_000.0, failure_threshold=25_000.0, hmax=15,
        buy_cost_pct=0.01, sell_cost_pct=0.01, tickers=None, days=None, indicator_lag=1,
        autoreset_mode="next_step", max_episode_steps=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of the Python call")]
    fn new(
        py: Python<'_>,
        panel: &Bound<'_, Panel>,
        num_envs: i64,
        initial_amount: f64,
        failure_threshold: f64,
        hmax: i64,
        buy_cost_pct: f64,
        sell_cost_pct: f64,
        tickers: Option<Vec<String>>,
        days: Option<(i64, i64)>,
        indicator_lag: i64,
        autoreset_mode: &str,
        max_episode_steps: Option<i64>,
    ) -> Result<Self, Failure> {
        let number = |asked, what, at_least| count(asked, what, at_least, Kind::Env);
        let day = |asked| number(asked, "a day of days", 0).map(|day| day as usize);
        let options = PortfolioOptions {
            initial_amount,
            failure_threshold,
            hmax: number(hmax, "hmax", 1)?,
            buy_cost_pct,
            sell_cost_pct,
            tickers,
            days: days
                .map(|(start, end)| Ok::<_, Failure>((day(start)?, day(end)?)))
                .transpose()?,
            indicator_lag: number(indicator_lag, "indicator_lag", 0)? as usize,
            autoreset_mode: autoreset_mode_of(autoreset_mode, Kind::Env)?,
            max_episode_steps: max_episode_steps
                .map(|steps| number(steps, "max_episode_steps", 1))
                .transpose()?,
        };
        let mode = options.autoreset_mode;
        let num_envs = number(num_envs, "num_envs", 1)? as usize;
        let panel = panel.get().get()?;
        let env = py.detach(|| CoreEnv::new(panel, num_envs, options))?;
        Ok(Self {
            num_envs,
            tickers: env.tickers().to_vec(),
            tokens: env.tokens().to_vec(),
            indicators: env.indicators().to_vec(),
            mode,
            env: Handle::new("the portfolio environment".to_owned(), env),
        })
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
    /// (dict, dict)
    ///     Observation and infos (empty).
    ///
    /// Raises
    /// ------
    /// EnvError
    #[pyo3(signature = (*, seed=None, options=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        seed: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Result<(Bound<'py, PyDict>, Bound<'py, PyDict>), Failure> {
        let seed = seed.map(reset::seed_of).transpose()?;
        let Start { day, mask } = match options {
            Some(options) => reset::start_of(options, self.num_envs)?,
            None => Start::default(),
        };
        let obs = py.detach(|| {
            self.env.with(|env| {
                let seed = match &seed {
                    None => ResetSeed::Keep,
                    Some(Seed::One(seed)) => ResetSeed::One(*seed),
                    Some(Seed::Each(seeds)) => ResetSeed::Each(seeds),
                };
                env.reset(seed, mask.as_deref(), day.as_deref())?;
                Ok(env.obs().clone())
            })
        })?;
        Ok((self.obs_dict(py, obs)?, PyDict::new(py)))
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
    /// (dict, ndarray, ndarray, ndarray, dict)
    ///     Observation, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
    ///     In same-step mode, when an episode ended, infos hold ``final_obs`` (object array of None
    ///     or the last observation) and ``_final_obs`` (bool ``[N]``).
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
        let outcome = if single { self.act::<f32>(actions) } else { self.act::<f64>(actions) }?;
        let infos = PyDict::new(py);
        if let Some((finals, ended)) = outcome.finals {
            let finals = self.obs_dict(py, finals)?;
            let rows = PyArray1::<Py<PyAny>>::from_vec(py, each_ended(&finals, &ended)?);
            infos.set_item("final_obs", rows)?;
            infos.set_item("_final_obs", PyArray1::from_vec(py, ended))?;
        }
        Ok((
            self.obs_dict(py, outcome.obs)?,
            PyArray1::from_vec(py, outcome.rewards),
            PyArray1::from_vec(py, outcome.terminated),
            PyArray1::from_vec(py, outcome.truncated),
            infos,
        ))
    }

    /// Portfolios, ``N``.
    #[getter]
    fn num_envs(&self) -> usize {
        self.num_envs
    }

    /// Tickers traded, ``T``.
    #[getter]
    fn n_tickers(&self) -> usize {
        self.tickers.len()
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

    fn __repr__(&self) -> String {
        let state = if self.env.is_closed() { ", closed" } else { "" };
        format!(
            "<backcast.PortfolioVectorEnv: {} portfolios, {} tickers, autoreset_mode '{}'{state}>",
            self.num_envs,
            self.tickers.len(),
            self.mode
        )
    }
}

impl PortfolioVectorEnv {
    fn act<A>(&self, actions: &Bound<'_, PyAny>) -> Result<Outcome, Failure>
    where
        A: Element + Copy + Into<f64> + Sync,
    {
        let dtype = if size_of::<A>() == 4 { DType::F32 } else { DType::F64 };
        let array = array_of(actions, Target { what: "actions", kind: Kind::Env, dtype })?;
        let expected = [self.num_envs, self.tickers.len()];
        if array.shape() != expected {
            return Err(Failure::new(
                Kind::Env,
                format!(
                    "actions: got shape {}, expected {}: one per portfolio and ticker",
                    Tuple(array.shape()),
                    Tuple(&expected)
                ),
            ));
        }
        let array = array.cast::<PyArrayDyn<A>>().map_err(PyErr::from)?.readonly();
        let actions = array.as_slice().map_err(|error| Failure::new(Kind::Env, error))?;
        array.py().detach(|| {
            self.env.with(|env| {
                env.step(actions)?;
                let same_step = self.mode == AutoresetMode::SameStep && env.ended().contains(&true);
                Ok(Outcome {
                    obs: env.obs().clone(),
                    rewards: env.rewards().to_vec(),
                    terminated: env.terminated().to_vec(),
                    truncated: env.truncated().to_vec(),
                    finals: same_step.then(|| (env.final_obs().clone(), env.ended().to_vec())),
                })
            })
        })
    }

    fn obs_dict<'py>(&self, py: Python<'py>, obs: Observation) -> PyResult<Bound<'py, PyDict>> {
        let (n, tickers) = (self.num_envs, self.tickers.len());
        let dict = PyDict::new(py);
        dict.set_item("day", array(py, obs.day, n)?)?;
        dict.set_item("cash", array(py, obs.cash, n)?)?;
        dict.set_item("shares", array(py, obs.shares, (n, tickers))?)?;
        dict.set_item("avg_buy_price", array(py, obs.avg_buy_price, (n, tickers))?)?;
        dict.set_item("total_asset", array(py, obs.total_asset, n)?)?;
        dict.set_item("open", array(py, obs.open, (n, tickers))?)?;
        let indicators = (n, tickers, self.indicators.len());
        dict.set_item("indicators", array(py, obs.indicators, indicators)?)?;
        Ok(dict)
    }
}

/// An array of this shape around the vector, without a copy.
fn array<T: Element, S>(
    py: Python<'_>,
    values: Vec<T>,
    shape: S,
) -> PyResult<Bound<'_, PyArray<T, S::Dim>>>
where
    S: IntoDimension,
    S::Dim: Dimension,
{
    let values = Array::from_shape_vec(shape.into_dimension(), values)
        .map_err(|error| Failure::new(Kind::Env, error))?;
    Ok(PyArray::from_owned_array(py, values))
}

/// One dict per ended portfolio, None for the others.
fn each_ended(finals: &Bound<'_, PyDict>, ended: &[bool]) -> PyResult<Vec<Py<PyAny>>> {
    let py = finals.py();
    ended
        .iter()
        .enumerate()
        .map(|(env, &ended)| {
            if !ended {
                return Ok(py.None());
            }
            let row = PyDict::new(py);
            for (name, values) in finals {
                row.set_item(name, values.get_item(env)?)?;
            }
            Ok(row.into_any().unbind())
        })
        .collect()
}
