//! Converts metrics of ended and running episodes to Python.

use backcast_gym::EpisodeMetrics;
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Whether an environment has stop losses to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopLosses {
    Counted,
    None,
}

/// Adds `infos["metrics"]`. For vector environments it is a dict of arrays with masks, nested as
/// Gymnasium does; for the single one, a dict of plain numbers.
pub(crate) fn add(
    infos: &Bound<'_, PyDict>,
    ends: &[Option<EpisodeMetrics>],
    vector: bool,
    stops: StopLosses,
) -> PyResult<()> {
    let py = infos.py();
    let metrics = PyDict::new(py);
    put(&Put { metrics: &metrics, ends, vector, masked: vector }, stops)?;
    infos.set_item("metrics", metrics)?;
    if vector {
        infos.set_item("_metrics", mask(py, ends))?;
    }
    Ok(())
}

/// Returns the metrics of running episodes: arrays, or plain numbers for the single environment.
pub(crate) fn so_far(
    py: Python<'_>,
    episodes: Vec<EpisodeMetrics>,
    vector: bool,
    stops: StopLosses,
) -> PyResult<Bound<'_, PyDict>> {
    let metrics = PyDict::new(py);
    let ends: Vec<_> = episodes.into_iter().map(Some).collect();
    put(&Put { metrics: &metrics, ends: &ends, vector, masked: false }, stops)?;
    Ok(metrics)
}

fn put(put: &Put<'_, '_>, stops: StopLosses) -> PyResult<()> {
    put.one("return", |end| end.total_return)?;
    put.one("sharpe", |end| end.sharpe)?;
    put.one("sortino", |end| end.sortino)?;
    put.one("max_drawdown", |end| end.max_drawdown)?;
    put.one("turnover", |end| end.turnover)?;
    put.one("costs", |end| end.costs)?;
    put.one("trades", |end| i64::from(end.trades))?;
    if stops == StopLosses::Counted {
        put.one("stop_losses", |end| i64::from(end.stop_losses))?;
    }
    put.one("final_value", |end| end.final_value)?;
    put.one("length", |end| i64::from(end.length))
}

struct Put<'a, 'py> {
    metrics: &'a Bound<'py, PyDict>,
    ends: &'a [Option<EpisodeMetrics>],
    vector: bool,
    masked: bool,
}

impl<'py> Put<'_, 'py> {
    fn one<V>(&self, name: &str, of: impl Fn(&EpisodeMetrics) -> V) -> PyResult<()>
    where
        V: Element + Default + IntoPyObject<'py>,
    {
        let py = self.metrics.py();
        let values = self.ends.iter().map(|end| end.as_ref().map(&of).unwrap_or_default());
        if !self.vector {
            let [value] = values.collect::<Vec<V>>().try_into().unwrap_or_else(|_| [V::default()]);
            return self.metrics.set_item(name, value);
        }
        self.metrics.set_item(name, PyArray1::from_iter(py, values))?;
        if self.masked {
            self.metrics.set_item(format!("_{name}"), mask(py, self.ends))?;
        }
        Ok(())
    }
}

fn mask<'py>(py: Python<'py>, ends: &[Option<EpisodeMetrics>]) -> Bound<'py, PyArray1<bool>> {
    PyArray1::from_iter(py, ends.iter().map(Option::is_some))
}
