//! Properties of a batch of portfolios: tickers, counters, episodes and rows.

use backcast_gym::{EpisodeError, PortfolioError, PortfolioFill};
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{Argument, count, names_of};
use crate::error::{ErrorClass, Failure};
use crate::markets::contract::metrics::{self, StopLosses};
use crate::markets::panel::rows::rows_of;
use crate::markets::portfolio::details;
use crate::markets::portfolio::episode::{RecordedEpisode, held_units, recorded};
use crate::markets::portfolio::{FillRow, PortfolioBatch};

#[pymethods]
impl PortfolioBatch {
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

    /// Whether tickers differ between portfolios or episodes.
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

    /// Upper bound of the value of a portfolio when its episode begins.
    #[getter]
    fn most_at_start(&self) -> Result<f64, Failure> {
        self.env.with(|env| Ok(env.most_at_start()))
    }

    /// Return warnings about prices that these settings cannot trade. Takes one pass over the
    /// closes.
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

    /// Return what a reward of the caller reads of the last step: arrays ``[N]`` by name.
    fn steps<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        self.env.with(|env| Ok(details::steps(py, &env.steps())?))
    }

    /// Lowest and highest number of an action.
    #[getter]
    fn action_range(&self) -> Result<(f64, f64), Failure> {
        self.env.with(|env| Ok(env.action_range()))
    }

    /// Autoreset mode after an episode has ended.
    #[getter]
    fn autoreset_mode(&self) -> Result<String, Failure> {
        self.env.with(|env| Ok(env.options().autoreset_mode.to_string()))
    }

    /// Return counters of each portfolio: ``num_stop_loss`` and ``episode_orders`` int32 ``[N]`` of
    /// the episode, ``n_trades`` int64 ``[N]`` (shares) and ``loss_cut_amount`` float64 ``[N]`` of
    /// the last step.
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

    /// Return metrics of the running episodes so far.
    ///
    /// Returns
    /// -------
    /// dict
    ///     Metrics as in ``infos["metrics"]``, without masks.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     Before the first reset.
    fn metrics_so_far<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>, Failure> {
        let so_far = self.env.with(|env| {
            let of = |at| {
                let error = || PortfolioError::from(EpisodeError::NotReset { env: at });
                env.metrics_so_far(at).ok_or_else(error)
            };
            let all: Result<Vec<_>, _> = (0..env.num_envs()).map(of).collect();
            all.map_err(|error| self.reworded(error))
        })?;
        Ok(metrics::so_far(py, so_far, self.num_envs.is_some(), StopLosses::Counted)?)
    }

    /// Portfolios valued at the close of their day, float64 ``[N]``.
    #[getter]
    fn total_asset_at_close<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let values = self.env.with(|env| Ok(env.total_asset_at_close().to_vec()))?;
        Ok(PyArray1::from_vec(py, values).into_any())
    }

    /// Return an episode of a portfolio, day by day, if episodes are recorded.
    ///
    /// Parameters
    /// ----------
    /// i : int
    ///     Number of the portfolio.
    /// before : bool
    ///     Return the episode before the running one.
    ///
    /// Returns
    /// -------
    /// dict
    ///     In the form of :meth:`backcast.envs.PortfolioVectorEnv.history`.
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
        i: Argument<i128>,
        before: Argument<bool>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let at = count(i, "i", 0, ErrorClass::Env)? as usize;
        let before = before.get("before", "True or False")?;
        let words = |error| self.reworded(error);
        let episode =
            py.detach(|| self.env.with(|env| RecordedEpisode::of(env, at, before, words)))?;
        Ok(episode.into_dict(py)?)
    }

    /// Return units after splits, and their worth with dividends reinvested.
    ///
    /// One unit of each ticker is bought at its first close of a recorded episode and held.
    ///
    /// Parameters
    /// ----------
    /// i : int
    ///     Number of the portfolio.
    /// before : bool
    ///     Return the episode before the running one.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``units`` float64 ``[S + 1, T]`` after splits, and their ``worth`` float64
    ///     ``[S + 1, T]`` at the last known closes with dividends invested again; 0 before a close.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If there is no such portfolio or episode, or nothing is recorded.
    fn held_units<'py>(
        &self,
        py: Python<'py>,
        i: usize,
        before: bool,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let words = |error| self.reworded(error);
        let held = py.detach(|| {
            self.env.with(|env| {
                recorded(env, i, before, words)?;
                Ok(env.held_units(i, before).unwrap_or_default())
            })
        })?;
        Ok(held_units(py, held, self.tickers.len())?)
    }

    /// Return the panel's numbers of some tickers on days from `first` on.
    ///
    /// Parameters
    /// ----------
    /// tickers : sequence of str
    ///     Names as in the panel.
    /// first : int
    ///     First day, which may be before the panel's.
    /// count : int
    ///     Number of days, which may reach beyond the panel's last.
    ///
    /// Returns
    /// -------
    /// (ndarray, ndarray)
    ///     Numbers, float64 ``[t, count, C]``, zero where there is no row; and a mask of the rows
    ///     that exist, bool ``[t, count]``.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If the panel has no such ticker, ``count`` is far beyond the panel, or there is not
    ///     enough memory.
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

    /// Return the orders executed in the last step, in order, if they are recorded. Each has
    /// portfolio, ticker, price, fee, shares (negative: sold), and whether a stop loss sold them.
    /// Settlements of tickers that leave the market are among them, without a fee.
    fn fills(&self) -> Result<Vec<FillRow>, Failure> {
        self.env.with(|env| {
            let row = |fill: &PortfolioFill| {
                let ticker = env.tickers(fill.env).nth(fill.ticker).unwrap_or_default().to_owned();
                (fill.env, ticker, fill.price, fill.fee, fill.quantity, fill.is_stop_loss)
            };
            Ok(env.fills().iter().map(row).collect())
        })
    }
}
