//! Statistics of a rate limiter as a dict.

use backcast_core::{LimiterSideStats, LimiterStats};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

pub(crate) fn as_dict<'py>(py: Python<'py>, stats: &LimiterStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    // The limits are None if the stored ones are damaged.
    let limits = stats.limits;
    dict.set_item("enabled", limits.map(|limits| limits.is_enabled()))?;
    dict.set_item("samples_per_insert", limits.map(|limits| limits.samples_per_insert()))?;
    dict.set_item("min_size", limits.map(|limits| limits.min_size_to_sample()))?;
    dict.set_item("error_band", limits.map(|limits| limits.error_band()))?;
    dict.set_item("no_learner", limits.map(|limits| limits.no_learner_choice().as_str()))?;
    dict.set_item("no_writer", limits.map(|limits| limits.no_writer_choice().as_str()))?;
    dict.set_item("inserts", stats.counts.inserts)?;
    dict.set_item("samples", stats.counts.samples)?;
    dict.set_item("deletes", stats.counts.deletes)?;
    dict.set_item("ceiling", stats.ceiling)?;
    dict.set_item("may_insert", stats.may_insert)?;
    dict.set_item("may_sample", stats.may_sample)?;
    dict.set_item("has_sampler", stats.has_sampler)?;
    dict.set_item("has_writer", stats.has_writer)?;
    let side = |side: LimiterSideStats| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("waiting", side.waiting)?;
        dict.set_item("waits", side.waits)?;
        dict.set_item("waited_s", side.waited.as_secs_f64())?;
        Ok(dict)
    };
    dict.set_item("writers", side(stats.writers)?)?;
    dict.set_item("samplers", side(stats.samplers)?)?;
    let waiters = PyList::empty(py);
    for waiter in &stats.waiters {
        let entry = PyDict::new(py);
        entry.set_item("pid", waiter.pid)?;
        entry.set_item("lane", waiter.lane)?;
        entry.set_item("slot", waiter.slot)?;
        entry.set_item("wanted", waiter.wanted)?;
        entry.set_item("needed", waiter.needed)?;
        entry.set_item("since_unix_ms", waiter.since_unix_ms)?;
        waiters.append(entry)?;
    }
    dict.set_item("waiters", waiters)?;
    Ok(dict)
}
