//! Converts a recorded episode to a dict of NumPy arrays.

use backcast_gym::{
    EpisodeError, EpisodeHistory, HeldUnits, PortfolioError, PortfolioVectorEnv as CoreEnv,
};
use backcast_market::PriceColumn;
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::error::{ErrorClass, Failure};

/// Copy of a recorded episode, made while the environment was locked.
pub(crate) struct RecordedEpisode {
    of: EpisodeHistory,
    tickers: Vec<String>,
    dates: Vec<String>,
    closes: Vec<f64>,
    /// Whether shares are whole.
    whole: bool,
}

impl RecordedEpisode {
    /// Copies the running episode of a portfolio, or the previous one.
    pub(crate) fn of(
        env: &CoreEnv,
        at: usize,
        before: bool,
        reworded: impl FnOnce(PortfolioError) -> Failure,
    ) -> Result<Self, Failure> {
        let of = recorded(env, at, before, reworded)?.clone();
        let panel = env.panel();
        // Recorded days are positions in the panel.
        let days = of.day.iter().map(|&day| usize::try_from(day).unwrap_or_default());
        let close = PriceColumn::Close as usize;
        let closes = days.clone().flat_map(|day| {
            of.tickers.iter().map(move |&at| panel.value(at, day, close).unwrap_or(f64::NAN))
        });
        Ok(Self {
            tickers: of.tickers.iter().map(|&at| panel.tickers()[at].clone()).collect(),
            dates: days.clone().map(|day| panel.date(day).unwrap_or_default()).collect(),
            closes: closes.collect(),
            whole: !env.options().fractional,
            of,
        })
    }

    pub(crate) fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let (steps, tickers) = (self.of.steps(), self.tickers.len());
        let (mut bought, mut sold) = (vec![0.0; steps * tickers], vec![0.0; steps * tickers]);
        let mut stopped = vec![false; steps * tickers];
        let mut settled = vec![0.0; steps * tickers];
        for (step, fill) in &self.of.fills {
            let at = *step as usize * tickers + fill.ticker;
            if fill.is_settlement {
                settled[at] -= fill.quantity;
            } else if fill.quantity > 0.0 {
                bought[at] += fill.quantity;
            } else {
                sold[at] -= fill.quantity;
            }
            stopped[at] |= fill.is_stop_loss;
        }
        let dict = PyDict::new(py);
        dict.set_item("day", PyArray1::from_vec(py, self.of.day))?;
        dict.set_item("date", self.dates)?;
        dict.set_item("tickers", self.tickers)?;
        dict.set_item("close", PyArray1::from_vec(py, self.closes).reshape([steps + 1, tickers])?)?;
        dict.set_item("cash", PyArray1::from_vec(py, self.of.cash))?;
        let shares = |shares: Vec<f64>, days| shares_of(py, shares, [days, tickers], self.whole);
        dict.set_item("shares", shares(self.of.shares, steps + 1)?)?;
        dict.set_item("value", PyArray1::from_vec(py, self.of.value))?;
        for (name, moved) in [("bought", bought), ("sold", sold), ("settled", settled)] {
            dict.set_item(name, shares(moved, steps)?)?;
        }
        dict.set_item("stopped", PyArray1::from_vec(py, stopped).reshape([steps, tickers])?)?;
        Ok(dict)
    }
}

/// Returns the running episode of a portfolio, or the previous one.
pub(crate) fn recorded(
    env: &CoreEnv,
    at: usize,
    before: bool,
    reworded: impl FnOnce(PortfolioError) -> Failure,
) -> Result<&EpisodeHistory, Failure> {
    if at >= env.num_envs() {
        let message = format!("i is {at}; give a portfolio from 0 to {}", env.num_envs() - 1);
        return Err(Failure::new(ErrorClass::Env, message));
    }
    let of = env.history(at, before).ok_or_else(|| {
        let message = "this environment keeps no history; make it with record=True";
        Failure::new(ErrorClass::Env, message)
    })?;
    if of.day.is_empty() {
        let (env, message) = (at, "there was no episode before; step on until this one ends");
        return Err(if before {
            Failure::new(ErrorClass::Env, message)
        } else {
            reworded(EpisodeError::NotReset { env }.into())
        });
    }
    Ok(of)
}

/// Returns units after splits, and their worth with dividends reinvested, over a recorded episode:
/// ``units`` and ``worth``, float64 `[S + 1, T]`.
pub(crate) fn held_units(
    py: Python<'_>,
    held: HeldUnits,
    tickers: usize,
) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, numbers) in [("units", held.units), ("worth", held.worth)] {
        let days = numbers.len() / tickers.max(1);
        dict.set_item(name, PyArray1::from_vec(py, numbers).reshape([days, tickers])?)?;
    }
    Ok(dict)
}

/// Returns shares as an array: int32 if they are whole, else float64.
fn shares_of(
    py: Python<'_>,
    shares: Vec<f64>,
    shape: [usize; 2],
    whole: bool,
) -> PyResult<Bound<'_, PyAny>> {
    if !whole {
        return Ok(PyArray1::from_vec(py, shares).reshape(shape)?.into_any());
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within an i32")]
    let shares = PyArray1::from_iter(py, shares.into_iter().map(|shares| shares as i32));
    Ok(shares.reshape(shape)?.into_any())
}
