//! Statistics of a sampler as a dict.

use backcast_core::{AgeBin, PriorityDistribution, SamplerStats};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Converts the statistics of a sampler.
pub(super) fn as_dict<'py>(py: Python<'py>, stats: &SamplerStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("sampled", stats.sampled)?;
    dict.set_item("lapped", stats.lapped)?;
    dict.set_item("too_old", stats.too_old)?;
    dict.set_item("ages", ages(py, &stats.ages)?)?;
    let of_table = |found: &PriorityDistribution| distribution(py, found);
    dict.set_item("priorities", stats.priorities.as_ref().map(of_table).transpose()?)?;
    let times = stats.times_sampled.as_ref().map(|bins| {
        let entries = bins.iter().map(|bin| {
            let entry = PyDict::new(py);
            entry.set_item("times", bin.times)?;
            entry.set_item("rows", bin.rows)?;
            Ok(entry)
        });
        PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)
    });
    dict.set_item("times_sampled", times.transpose()?)?;
    Ok(dict)
}

/// Converts ages of drawn transitions.
pub(crate) fn ages<'py>(py: Python<'py>, ages: &[AgeBin]) -> PyResult<Bound<'py, PyList>> {
    bins(py, ages.iter().map(|bin| Ok((bin.from.into_pyobject(py)?.into_any(), bin.rows))))
}

fn distribution<'py>(
    py: Python<'py>,
    found: &PriorityDistribution,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rows", found.rows)?;
    dict.set_item("effective_rows", found.effective_rows)?;
    let all = found.histogram.iter();
    let all = all.map(|bin| Ok((bin.from.into_pyobject(py)?.into_any(), bin.rows)));
    dict.set_item("histogram", bins(py, all)?)?;
    Ok(dict)
}

fn bins<'py>(
    py: Python<'py>,
    all: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, u64)>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for bin in all {
        let (from, rows) = bin?;
        let entry = PyDict::new(py);
        entry.set_item("from", from)?;
        entry.set_item("rows", rows)?;
        list.append(entry)?;
    }
    Ok(list)
}
