//! `backcast._native.PortfolioBatch`: the Rust environment behind the classes of `backcast.envs`.

use backcast_core::DType;
use backcast_gym::{
    EpisodeError, PortfolioError, PortfolioFill, PortfolioVectorEnv as CoreEnv, ResetSeed,
};
use numpy::prelude::*;
use numpy::{PyArray1, PyUntypedArray};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::coerce::{Target, Tuple, array_of, autoreset_mode_of, count};
use crate::env_rows::rows_of;
use crate::env_settings::{names_of, options_of};
use crate::episode::Episode;
use crate::error::{Failure, Kind};
use crate::given::{Given, Word};
use crate::handle::Handle;
use crate::metrics;
use crate::observed::{Form, FormOptions, Slots};
use crate::outcome::{Outcome, Results};
use crate::panel::Panel;
use crate::reset::{self, Seed, Start};
use crate::spares::Spares;
use crate::view::bytes_of;

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
/// unit_axis : bool
///     Single numbers of an observation (cash, day, total asset) have an axis of length one.
/// settings : dict
///     As in :class:`backcast.envs.PortfolioVectorEnv` and :class:`backcast.finrl.VecFastFinRL`, by
///     name.
/// tickers_of : sequence of sequences of str
///     The tickers of each portfolio; an empty one draws them. None: those of the settings for all.
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
    form: Form,
    /// Rewards and flags of the steps before.
    spares: Spares,
}

/// Portfolio, ticker, price, fee, shares, sold by a stop loss.
type FillRow = (usize, String, f64, f64, i32, bool);

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
        num_envs: Option<Given<i128>>,
        settings: &Bound<'_, PyDict>,
        tickers_of: Option<Vec<Bound<'_, PyAny>>>,
        flat: bool,
        reuse: bool,
        unit_axis: bool,
    ) -> Result<Self, Failure> {
        let panel = panel.get().get()?;
        let options = options_of(settings, (panel.tickers().len(), panel.days()))?;
        let num_envs = num_envs
            .map(|envs| count(envs, "num_envs", 1, Kind::Env).map(|envs| envs as usize))
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
        // Arrays are filled from where the indicators are.
        let env = env.without_indicators_in_obs();
        let form = Form::new(num_envs, &env, FormOptions { flat, reuse, unit_axis });
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
    ///     ``"reset_mask"``: bool array ``[N]``, which portfolios to reset; the others stay, and were
    ///     reset before.
    /// spread : bool
    ///     An int seeds portfolio i with stream i of that seed instead.
    /// shifted_start : int
    ///     Days at the beginning on which no episode is to start.
    /// begin : int, optional
    ///     Portfolios that are given no seed begin their streams of this one, spread, instead of going on.
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
        let seed = seed.map(|seed| reset::seed_of(seed, self.num_envs)).transpose()?;
        let Start { day, mask } = match options {
            Some(options) => reset::start_of(options, self.num_envs)?,
            None => Start::default(),
        };
        let (obs, ()) = self.form.observe(py, |slots| {
            self.env.with(|env| {
                let seed = match (&seed, begin) {
                    (None, None) => ResetSeed::Keep,
                    (None, Some(begin)) => ResetSeed::Spread(begin),
                    (Some(Seed::One(seed)), _) if spread => ResetSeed::Spread(*seed),
                    (Some(Seed::One(seed)), _) => ResetSeed::One(*seed),
                    (Some(Seed::Each(seeds)), None) => ResetSeed::Each(seeds),
                    (Some(Seed::Each(seeds)), Some(begin)) => ResetSeed::EachOrSpread(seeds, begin),
                };
                let reset = match day {
                    Some(days) => env.reset(seed, mask.as_deref(), Some(&days)),
                    None => env.reset_shifted(seed, mask.as_deref(), shifted_start),
                };
                reset.map_err(|error| self.in_words(error))?;
                slots.fill(env)
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
    ///     or the last observation), ``final_info`` and their masks; in every mode ``metrics``.
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
        let single =
            actions.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().char() == b'f');
        let mut results = self.results(py)?;
        let slots = results.as_mut().map(Results::slots);
        let (obs, outcome) =
            if single { self.act::<f32>(actions, slots) } else { self.act::<f64>(actions, slots) }?;
        self.told(obs, &outcome, results)
    }

    /// What portfolios show now, and what their last step came to, in arrays that nobody else has.
    ///
    /// Returns
    /// -------
    /// (dict or ndarray, ndarray, ndarray, ndarray, dict)
    ///     As from ``step``; of what was reset since, rewards are zero and flags False.
    fn shown<'py>(&self, py: Python<'py>) -> Result<Step<'py>, Failure> {
        let mut results = self.results(py)?;
        let slots = results.as_mut().map(Results::slots);
        let (obs, outcome) = self.form.observe(py, |arrays| {
            self.env.with(|env| {
                arrays.fill(env)?;
                Ok(Outcome::of(env, slots))
            })
        })?;
        self.told(obs, &outcome, results)
    }

    /// Rewards and flags as in ``shown()``.
    fn outcomes<'py>(&self, py: Python<'py>) -> Result<Flags<'py>, Failure> {
        let mut results = self.results(py)?;
        let slots = results.as_mut().map(Results::slots);
        let outcome = self.env.with(|env| Ok(Outcome::of(env, slots)))?;
        Ok(self.flags(py, outcome.first, results)?.into())
    }

    /// Portfolios, ``N``; None for the single one.
    #[getter]
    fn num_envs(&self) -> Option<usize> {
        self.num_envs
    }

    /// The tickers traded, in the order of actions; of the first portfolio, where they differ.
    #[getter]
    fn tickers(&self) -> Vec<String> {
        self.tickers.clone()
    }

    /// The tickers that each portfolio trades now.
    #[getter]
    fn tickers_of(&self) -> Result<Vec<Vec<String>>, Failure> {
        self.env.with(|env| {
            let of = |at| env.tickers(at).map(str::to_owned).collect();
            Ok((0..env.num_envs()).map(of).collect())
        })
    }

    /// Do they differ between portfolios or episodes?
    #[getter]
    fn tickers_vary(&self) -> Result<bool, Failure> {
        self.env.with(|env| Ok(env.tickers_vary()))
    }

    /// The macro tickers shown.
    #[getter]
    fn macro_tickers(&self) -> Result<Vec<String>, Failure> {
        self.env.with(|env| Ok(env.macro_tickers().map(str::to_owned).collect()))
    }

    /// The indicators shown, ``K`` of them.
    #[getter]
    fn indicators(&self) -> Vec<String> {
        self.indicators.clone()
    }

    /// The most that a portfolio can be worth when its episode begins.
    #[getter]
    fn most_at_start(&self) -> Result<f64, Failure> {
        self.env.with(|env| Ok(env.most_at_start()))
    }

    /// What the prices of the tickers make impossible with these settings; one pass over their closes.
    fn price_warnings(&self, py: Python<'_>) -> Result<Vec<String>, Failure> {
        py.detach(|| self.env.with(|env| Ok(env.price_warnings())))
    }

    /// The tickers' tokens in the panel, int32 ``[T]``; of the first portfolio, where they differ.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        PyArray1::from_slice(py, &self.tokens)
    }

    /// Days, tickers and columns of the histories shown.
    #[getter]
    fn history_shape(&self) -> Result<[usize; 3], Failure> {
        self.env.with(|env| Ok(env.history_shape()))
    }

    /// The tokens of each portfolio's tickers now, int32 ``[N, T]``.
    #[getter]
    fn tokens_of<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let tokens = self.env.with(|env| Ok(env.tokens().to_vec()))?;
        let shape = [self.num_envs.unwrap_or(1), self.tickers.len()];
        Ok(PyArray1::from_vec(py, tokens).reshape(shape)?.into_any())
    }

    /// What happens after an episode has ended.
    #[getter]
    fn autoreset_mode(&self) -> Result<String, Failure> {
        self.env.with(|env| Ok(env.options().autoreset_mode.to_string()))
    }

    /// Let something else happen after the next ends.
    fn set_autoreset_mode(&self, mode: Given<Word>) -> Result<(), Failure> {
        let mode = autoreset_mode_of(mode, Kind::Env)?;
        self.env.with(|env| Ok(env.set_autoreset_mode(mode)?))
    }

    /// Go on with the random numbers of another one.
    fn go_on_from(&self, other: &Self) -> Result<(), Failure> {
        let streams = |env: &mut CoreEnv| {
            other.env.with(|other| {
                env.continue_streams_of(other);
                Ok(())
            })
        };
        self.env.with(streams)
    }

    /// What each portfolio did: ``num_stop_loss`` and ``episode_orders`` int32 ``[N]`` of the
    /// episode, ``n_trades`` int64 ``[N]`` (shares) and ``loss_cut_amount`` float64 ``[N]`` of the
    /// last step.
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let (mut stops, mut orders, mut traded, mut cut) = (vec![], vec![], vec![], vec![]);
        self.env.with(|env| {
            for at in 0..env.num_envs() {
                let metrics = env.metrics_so_far(at).unwrap_or_default();
                let (shares, cash) = env.traded(at);
                stops.push(i32::try_from(metrics.stop_losses).unwrap_or(i32::MAX));
                orders.push(i32::try_from(metrics.trades).unwrap_or(i32::MAX));
                traded.push(shares);
                cut.push(cash);
            }
            Ok(())
        })?;
        let counts = PyDict::new(py);
        counts.set_item("num_stop_loss", PyArray1::from_vec(py, stops))?;
        counts.set_item("episode_orders", PyArray1::from_vec(py, orders))?;
        counts.set_item("n_trades", PyArray1::from_vec(py, traded))?;
        counts.set_item("loss_cut_amount", PyArray1::from_vec(py, cut))?;
        Ok(counts)
    }

    /// What the running episodes have come to so far.
    ///
    /// Returns
    /// -------
    /// dict
    ///     As ``infos["metrics"]``, without masks.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     Before the first reset.
    fn metrics_so_far<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let so_far = self.env.with(|env| {
            let of = |at| {
                env.metrics_so_far(at)
                    .ok_or(PortfolioError::from(EpisodeError::NotReset { env: at }))
            };
            let all: Result<Vec<_>, _> = (0..env.num_envs()).map(of).collect();
            all.map_err(|error| self.in_words(error))
        })?;
        Ok(metrics::so_far(py, so_far, self.num_envs.is_some())?)
    }

    /// Portfolios valued at the close of their day, float64 ``[N]``.
    #[getter]
    fn total_asset_at_close<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let values = self.env.with(|env| Ok(env.total_asset_at_close().to_vec()))?;
        Ok(PyArray1::from_vec(py, values).into_any())
    }

    /// An episode of a portfolio, day by day, where they are recorded.
    ///
    /// Parameters
    /// ----------
    /// i : int
    ///     Which portfolio.
    /// before : bool
    ///     The episode before the running one.
    ///
    /// Returns
    /// -------
    /// dict
    ///     As from :meth:`backcast.envs.PortfolioVectorEnv.history`.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If there is no such portfolio or episode, or nothing is recorded.
    #[pyo3(signature = (i=0_i64.into(), before=false.into()))]
    #[pyo3(text_signature = "($self, i=0, before=False)")]
    fn history<'py>(
        &self,
        py: Python<'py>,
        i: Given<i128>,
        before: Given<bool>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let at = count(i, "i", 0, Kind::Env)? as usize;
        let before = before.get("before", "True or False")?;
        let words = |error| self.in_words(error);
        let episode = py.detach(|| self.env.with(|env| Episode::of(env, at, before, words)))?;
        Ok(episode.into_dict(py)?)
    }

    /// The panel's numbers of some tickers on days from `first` on.
    ///
    /// Parameters
    /// ----------
    /// tickers : sequence of str
    ///     Names as in the panel.
    /// first : int
    ///     The first day; may lie before the panel's.
    /// count : int
    ///     How many days; they may reach beyond the panel's last.
    ///
    /// Returns
    /// -------
    /// (ndarray, ndarray)
    ///     float64 ``[t, count, C]``, zero where there is no row, and which there are, bool
    ///     ``[t, count]``.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If the panel has no such ticker, or nobody has that much memory.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        tickers: &Bound<'py, PyAny>,
        first: i64,
        count: usize,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyAny>), Failure> {
        let tickers = names_of(tickers, "tickers", "[\"AAPL\", \"MSFT\"]")?;
        let (values, listed, columns) =
            self.env.with(|env| rows_of(env.panel(), &tickers, first, count))?;
        let values = PyArray1::from_vec(py, values).reshape([tickers.len(), count, columns])?;
        let listed = PyArray1::from_vec(py, listed).reshape([tickers.len(), count])?;
        Ok((values.into_any(), listed.into_any()))
    }

    /// The orders executed in the last step, in order, where they are recorded: portfolio, ticker,
    /// price, fee, shares (negative: sold), sold by a stop loss? Settlements of tickers that leave the market stand
    /// among them, without a fee.
    fn fills(&self) -> Result<Vec<FillRow>, Failure> {
        self.env.with(|env| {
            let row = |fill: &PortfolioFill| {
                let ticker = env.tickers(fill.env).nth(fill.ticker).unwrap_or_default().to_owned();
                (fill.env, ticker, fill.price, fill.fee, fill.quantity, fill.is_stop_loss)
            };
            Ok(env.fills().iter().map(row).collect())
        })
    }

    /// Let go of the panel. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        py.detach(|| self.env.close())?;
        self.form.forget();
        self.spares.clear();
        Ok(())
    }

    /// A batch in the same state, random streams included, that goes its own way from here.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let env = py.detach(|| self.env.with(|env| Ok(env.clone())))?;
        let form = Form::new(self.num_envs, &env, self.form.options());
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
            let mode = env.options().autoreset_mode;
            format!("autoreset_mode '{mode}', days {first} to {}", end.saturating_sub(1))
        });
        format!("{portfolios} of {tickers}, {state}")
    }
}

impl PortfolioBatch {
    fn around(env: CoreEnv, num_envs: Option<usize>, form: Form) -> Self {
        Self {
            num_envs,
            tickers: env.tickers(0).map(str::to_owned).collect(),
            tokens: env.tokens()[..env.n_tickers()].to_vec(),
            indicators: env.indicators().to_vec(),
            form,
            spares: Spares::default(),
            env: Handle::new("the portfolio environment".to_owned(), "make it anew", env),
        }
    }

    fn act<'py, A>(
        &self,
        actions: &Bound<'py, PyAny>,
        results: Option<[&mut [u8]; 3]>,
    ) -> Result<(Bound<'py, PyAny>, Outcome), Failure>
    where
        A: bytemuck::AnyBitPattern + Into<f64> + Sync,
    {
        let dtype = if size_of::<A>() == 4 { DType::F32 } else { DType::F64 };
        let array = array_of(actions, Target { what: "actions", kind: Kind::Env, dtype })?;
        let fits = match (self.num_envs, array.shape()) {
            (Some(envs), [rows, columns]) => (*rows, *columns) == (envs, self.tickers.len()),
            (None, [columns]) => *columns == self.tickers.len(),
            _ => false,
        };
        if !fits {
            let expected: Vec<usize> =
                self.num_envs.into_iter().chain([self.tickers.len()]).collect();
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
        let bytes = bytes_of(&array).unwrap_or_default();
        let Ok(actions) = bytemuck::try_cast_slice::<u8, A>(bytes) else {
            // NumPy can place an array anywhere, on an odd address too.
            let aligned = array.call_method0("copy")?;
            return self.act::<A>(&aligned, results);
        };
        self.form.observe(array.py(), |slots| self.trade(actions, slots, results))
    }

    fn trade<A: Copy + Into<f64>>(
        &self,
        actions: &[A],
        mut slots: Slots<'_>,
        results: Option<[&mut [u8]; 3]>,
    ) -> Result<Outcome, Failure> {
        /// Tells refused actions from observations that could not be filled.
        enum Stop {
            Refused(PortfolioError),
            Unfilled(Failure),
        }
        impl From<PortfolioError> for Stop {
            fn from(error: PortfolioError) -> Self {
                Self::Refused(error)
            }
        }
        self.env.with(|env| {
            env.step_in_blocks(actions, |env, of| {
                slots.fill_block(env, of).map_err(Stop::Unfilled)
            })
            .map_err(|stop| match stop {
                Stop::Refused(error) => self.in_words(error),
                Stop::Unfilled(failure) => failure,
            })?;
            slots.finish(env, true)?;
            Ok(Outcome::of(env, results))
        })
    }

    /// Memory for rewards and flags; a single portfolio's are no arrays.
    fn results<'py>(&self, py: Python<'py>) -> PyResult<Option<Results<'py>>> {
        self.num_envs.map(|envs| Results::of(py, envs, &self.spares)).transpose()
    }

    /// Rewards and flags as Python has them.
    fn flags<'py>(
        &self,
        py: Python<'py>,
        (reward, terminated, truncated): (f64, bool, bool),
        results: Option<Results<'py>>,
    ) -> PyResult<[Bound<'py, PyAny>; 3]> {
        let flag = |flag: bool| flag.into_bound_py_any(py);
        match results {
            Some(results) => Ok(results.into_arrays(&self.spares)),
            None => Ok([reward.into_bound_py_any(py)?, flag(terminated)?, flag(truncated)?]),
        }
    }

    /// A step as Python has it.
    fn told<'py>(
        &self,
        obs: Bound<'py, PyAny>,
        outcome: &Outcome,
        results: Option<Results<'py>>,
    ) -> Result<Step<'py>, Failure> {
        let py = obs.py();
        let infos = outcome.infos(py, &self.form, self.num_envs.is_some())?;
        let [rewards, terminated, truncated] = self.flags(py, outcome.first, results)?;
        Ok((obs, rewards, terminated, truncated, infos))
    }

    /// An error in the words of who has as many portfolios as there are.
    fn in_words(&self, error: PortfolioError) -> Failure {
        if self.num_envs.is_some() {
            error.into()
        } else {
            Failure::new(Kind::Env, error.for_single())
        }
    }
}
