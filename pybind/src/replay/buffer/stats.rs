//! Counters of a ring as a dict.

use backcast_core::{
    ClaimStats, InitialPriority, LaneStats, PriorityOptions, PriorityOrder, RingStats,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::in_python;
use crate::replay::limiter;
use crate::replay::sampler::stats::ages;
use crate::replay::schema::entry;

pub(crate) fn as_dict<'py>(py: Python<'py>, stats: &RingStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &stats.name)?;
    dict.set_item("path", stats.path.as_ref().map(|path| path.as_os_str()))?;
    dict.set_item("persistent", stats.persistent)?;
    dict.set_item("unlinked", stats.unlinked)?;
    dict.set_item("created_unix_ns", stats.created_unix_ns)?;
    dict.set_item("lanes", stats.lanes)?;
    dict.set_item("lane_capacity", stats.lane_capacity)?;
    dict.set_item("slots", stats.slots)?;
    dict.set_item("capacity", stats.capacity)?;
    dict.set_item("transitions", stats.transitions)?;
    dict.set_item("rows_published", stats.rows_published)?;
    dict.set_item("row_bytes", stats.row_bytes)?;
    dict.set_item("bytes_asked", stats.bytes_asked)?;
    dict.set_item("bytes_allocated", stats.bytes_allocated)?;
    dict.set_item("bytes_huge", stats.bytes_huge)?;
    dict.set_item("lane_policy", stats.lane_policy.as_str())?;
    dict.set_item("lease_timeout_s", stats.lane_policy.timeout().as_secs_f64())?;
    let columns = PyDict::new(py);
    for column in &stats.columns {
        columns.set_item(column.name(), entry(py, column)?)?;
    }
    dict.set_item("columns", columns)?;
    let sum = |of: fn(&LaneStats) -> u64| stats.lane_stats.iter().map(of).sum::<u64>();
    dict.set_item("cuts", sum(|lane| lane.cuts))?;
    dict.set_item("suspect_resets", sum(|lane| lane.suspect_resets))?;
    let lanes = PyList::empty(py);
    for lane in &stats.lane_stats {
        let entry = PyDict::new(py);
        entry.set_item("lane", lane.lane)?;
        entry.set_item("head", lane.head)?;
        entry.set_item("first_kept", lane.first_kept)?;
        entry.set_item("reserved", lane.reserved)?;
        entry.set_item("rows", lane.rows)?;
        entry.set_item("transitions", lane.transitions)?;
        entry.set_item("episodes", lane.episodes)?;
        entry.set_item("generation", lane.generation)?;
        entry.set_item("held", lane.held)?;
        entry.set_item("pid", lane.pid)?;
        entry.set_item("dropped", lane.dropped)?;
        entry.set_item("stalls", lane.stalls)?;
        entry.set_item("cuts", lane.cuts)?;
        entry.set_item("suspect_resets", lane.suspect_resets)?;
        lanes.append(entry)?;
    }
    dict.set_item("lane_stats", lanes)?;
    let readers = PyList::empty(py);
    for reader in &stats.readers {
        let entry = PyDict::new(py);
        entry.set_item("slot", reader.slot)?;
        entry.set_item("pid", reader.pid)?;
        entry.set_item("sampled_rows", reader.sampled_rows)?;
        entry.set_item("sampled_batches", reader.sampled_batches)?;
        entry.set_item("lapped", reader.lapped)?;
        entry.set_item("leases", reader.leases)?;
        entry.set_item("stalls", reader.stalls)?;
        entry.set_item("ages", ages(py, &reader.ages)?)?;
        readers.append(entry)?;
    }
    dict.set_item("readers", readers)?;
    let pins = PyList::empty(py);
    for pin in &stats.pins {
        let entry = PyDict::new(py);
        entry.set_item("slot", pin.slot)?;
        entry.set_item("pid", pin.pid)?;
        entry.set_item("lane", pin.lane)?;
        entry.set_item("start", pin.start)?;
        pins.append(entry)?;
    }
    dict.set_item("pins", pins)?;
    let limiter = stats.limiter.as_ref().map(|stats| limiter::as_dict(py, stats)).transpose()?;
    dict.set_item("limiter", limiter)?;
    dict.set_item("tables", priorities(py, stats)?)?;
    dict.set_item("claims", claims(py, stats)?)?;
    dict.set_item("learned", learned(py, stats)?)?;
    let notices = PyList::empty(py);
    for notice in &stats.notices {
        let entry = PyDict::new(py);
        entry.set_item("kind", notice.kind.as_str())?;
        entry.set_item("count", notice.count)?;
        entry.set_item("text", in_python(&notice.text))?;
        notices.append(entry)?;
    }
    dict.set_item("notices", notices)?;
    Ok(dict)
}

/// Converts the tables of priorities.
fn priorities<'py>(py: Python<'py>, stats: &RingStats) -> PyResult<Bound<'py, PyList>> {
    let tables = PyList::empty(py);
    for table in &stats.tables {
        let entry = PyDict::new(py);
        entry.set_item("name", &table.name)?;
        entry.set_item("exponent", table.settings.exponent)?;
        entry.set_item("eps", table.settings.eps)?;
        entry.set_item("keeps_priorities", table.settings.keeps_priorities())?;
        entry.set_item("by", PriorityOrder::of(&table.settings).as_str())?;
        entry.set_item("initial", InitialPriority::of(&table.settings).as_str())?;
        let stride = table.settings.stride;
        entry.set_item("stride", (stride != PriorityOptions::EPISODE_STARTS).then_some(stride))?;
        entry.set_item("bytes", table.bytes)?;
        entry.set_item("lane_rows", table.lane_leaves)?;
        entry.set_item("entered", table.counters.entered)?;
        entry.set_item("updated", table.counters.updated)?;
        entry.set_item("stale", table.counters.stale)?;
        entry.set_item("repairs", table.counters.repairs)?;
        tables.append(entry)?;
    }
    Ok(tables)
}

/// Converts the tables of claims.
fn claims<'py>(py: Python<'py>, stats: &RingStats) -> PyResult<Bound<'py, PyList>> {
    let claims = PyList::empty(py);
    for ClaimStats { table, left, overwritten, .. } in &stats.claim_tables {
        let entry = PyDict::new(py);
        entry.set_item("name", &table.name)?;
        entry.set_item("selector", if table.settings.renewed { "epoch" } else { "consume" })?;
        entry.set_item("max_times_sampled", table.settings.times)?;
        entry.set_item("shuffle", table.settings.shuffled)?;
        entry.set_item("table_seed", table.settings.seed)?;
        entry.set_item("bytes", table.bytes)?;
        entry.set_item("passes", table.passes)?;
        entry.set_item("drawn", table.drawn)?;
        entry.set_item("left", left)?;
        entry.set_item("overwritten", overwritten)?;
        claims.append(entry)?;
    }
    Ok(claims)
}

/// Converts the tables of learned columns.
fn learned<'py>(py: Python<'py>, stats: &RingStats) -> PyResult<Bound<'py, PyList>> {
    let tables = PyList::empty(py);
    for table in &stats.learned_tables {
        let entry = PyDict::new(py);
        let columns = PyDict::new(py);
        for column in &table.columns {
            columns.set_item(&column.name, column.dtype.code())?;
        }
        entry.set_item("name", &table.name)?;
        entry.set_item("columns", columns)?;
        entry.set_item("bytes", table.bytes)?;
        entry.set_item("lane_rows", table.lane_rows)?;
        entry.set_item("updated", table.counters.updated)?;
        entry.set_item("stale", table.counters.stale)?;
        tables.append(entry)?;
    }
    Ok(tables)
}
