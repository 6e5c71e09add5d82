//! Orders, fills and costs of a step as infos, and the argument of a reward of the caller.

use backcast_gym::{PortfolioSteps, StepDetails};
use numpy::prelude::*;
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

/// Adds the details of a step to `infos`. In the form of vector environments, every entry has a
/// mask of the portfolios that acted; for a single one, costs are plain numbers.
pub(super) fn add(infos: &Bound<'_, PyDict>, details: &StepDetails, many: bool) -> PyResult<()> {
    let py = infos.py();
    let acted = || PyArray1::from_slice(py, &details.acted);
    let limits: Vec<u8> = details.limits.iter().map(|&limit| limit as u8).collect();
    let tickers = details.orders.len() / details.acted.len();
    let shape = [details.acted.len(), tickers];
    let by_ticker: [(&str, Bound<'_, PyAny>); 3] = [
        ("orders", by_ticker(py, &details.orders, shape, many)?),
        ("fills", by_ticker(py, &details.fills, shape, many)?),
        ("limits", by_ticker(py, &limits, shape, many)?),
    ];
    for (name, array) in by_ticker {
        infos.set_item(name, array)?;
        if many {
            infos.set_item(format!("_{name}"), acted())?;
        }
    }
    let costs = PyDict::new(py);
    let kinds = [
        ("fees", &details.fees),
        ("slippage", &details.slippage),
        ("impact", &details.impact),
        ("borrow", &details.borrow),
        ("interest", &details.interest),
    ];
    for (name, cash) in kinds {
        if many {
            costs.set_item(name, PyArray1::from_slice(py, cash))?;
            costs.set_item(format!("_{name}"), acted())?;
        } else {
            costs.set_item(name, cash[0])?;
        }
    }
    infos.set_item("costs", costs)?;
    if many {
        infos.set_item("_costs", acted())?;
        infos.set_item("dividends", PyArray1::from_slice(py, &details.dividends))?;
        infos.set_item("_dividends", acted())?;
        infos.set_item("liquidated", PyArray1::from_slice(py, &details.liquidated))?;
        infos.set_item("_liquidated", acted())?;
    } else {
        infos.set_item("dividends", details.dividends[0])?;
        infos.set_item("liquidated", details.liquidated[0])?;
    }
    Ok(())
}

fn by_ticker<'py, V: Element + Copy>(
    py: Python<'py>,
    values: &[V],
    shape: [usize; 2],
    many: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let array = PyArray1::from_slice(py, values);
    if many { Ok(array.reshape(shape)?.into_any()) } else { Ok(array.into_any()) }
}

/// Returns what a reward of the caller reads of the last step, arrays `[N]` by name.
pub(super) fn steps<'py>(
    py: Python<'py>,
    step: &PortfolioSteps<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("value_before", PyArray1::from_slice(py, step.value_before))?;
    fields.set_item("value", PyArray1::from_slice(py, step.value))?;
    fields.set_item("costs", PyArray1::from_slice(py, step.costs))?;
    fields.set_item("traded", PyArray1::from_slice(py, step.traded))?;
    fields.set_item("first", PyArray1::from_slice(py, step.first))?;
    fields.set_item("acted", PyArray1::from_slice(py, step.acted))?;
    fields.set_item("terminated", PyArray1::from_slice(py, step.terminated))?;
    fields.set_item("truncated", PyArray1::from_slice(py, step.truncated))?;
    Ok(fields)
}
