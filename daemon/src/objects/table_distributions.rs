//! Priorities and draws of the tables of a ring, counted from shared memory alone.

use std::collections::BTreeMap;

use backcast_core::{
    LockedTable, Observed, PriorityBin, PriorityDistribution, RingError, TimesBin, UnreadableTable,
};
use serde::Serialize;

use super::catalogue::{ObjectState, Obstacle};
use crate::text::units;

/// Rows of the largest ring whose tables are counted repeatedly. Counting a shuffled pass, which is
/// read in random order, takes about 0.15 s, and counting another table 0.02 to 0.04 s.
const MAX_COUNTED_ROWS: u64 = 1 << 22;

/// Rings whose tables are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableScan {
    /// No ring.
    Skip,
    /// Rings of at most [`MAX_COUNTED_ROWS`] rows, for views that count again and again. Of larger
    /// ones only the locked and unreadable tables are looked for.
    Repeated,
    /// Every ring.
    Whole,
}

/// Distributions by the names of tables, and the tables that are locked or unreadable. A ring that
/// was not counted has no distributions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableDistributions {
    /// Tables that a process keeps locked, of a ring of any size.
    pub(crate) locked: Vec<LockedTable>,
    /// Tables that cannot be opened, of a ring of any size.
    pub(crate) unreadable: Vec<UnreadableReport>,
    pub(crate) priorities: BTreeMap<String, PriorityDistribution>,
    pub(crate) times_sampled: BTreeMap<String, Vec<TimesBin>>,
}

impl TableDistributions {
    /// Looks for locked and unreadable tables of a ring, and counts its tables. Fails if they
    /// cannot be listed. O(rows) a table that is counted.
    pub(crate) fn read(observed: &Observed, scan: TableScan) -> Result<Self, RingError> {
        let ring = observed.ring();
        if scan == TableScan::Skip {
            return Ok(Self::default());
        }
        let unreadable = ring.unreadable_tables()?.into_iter().map(UnreadableReport::from);
        let (locked, unreadable) = (ring.locked_tables()?, unreadable.collect());
        if scan == TableScan::Repeated && ring.capacity() > MAX_COUNTED_ROWS {
            return Ok(Self { locked, unreadable, ..Self::default() });
        }
        let (priorities, times_sampled) = (ring.priority_distributions(), ring.times_sampled());
        Ok(Self { locked, unreadable, priorities, times_sampled })
    }
}

/// JSON of a table that cannot be opened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct UnreadableReport {
    pub(crate) table: String,
    /// Whether it is damaged, of another version, or may be whole.
    pub(crate) state: ObjectState,
    pub(crate) problem: String,
}

impl From<UnreadableTable> for UnreadableReport {
    fn from(UnreadableTable { name, error }: UnreadableTable) -> Self {
        let state = Obstacle::of_segment(&error).state();
        Self { table: name, state, problem: error.to_string() }
    }
}

/// JSON of a table that a process keeps locked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LockedReport {
    pub(crate) table: String,
    /// Processes that hold the lock, where the system reports them.
    pub(crate) pids: Vec<u32>,
}

impl From<&LockedTable> for LockedReport {
    fn from(LockedTable { table, pids, .. }: &LockedTable) -> Self {
        Self { table: table.clone(), pids: pids.clone() }
    }
}

/// JSON of the priorities of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PrioritiesReport {
    pub(crate) rows: u64,
    pub(crate) effective_rows: f64,
    pub(crate) histogram: Vec<PriorityBinReport>,
}

/// JSON of the rows whose priorities are within a factor of 2.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PriorityBinReport {
    pub(crate) from: f64,
    pub(crate) rows: u64,
}

/// JSON of the transitions that were handed out equally often.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimesReport {
    pub(crate) times: u64,
    pub(crate) rows: u64,
}

impl From<&PriorityDistribution> for PrioritiesReport {
    fn from(found: &PriorityDistribution) -> Self {
        let bin = |&PriorityBin { from, rows }: &PriorityBin| PriorityBinReport { from, rows };
        let PriorityDistribution { rows, effective_rows, histogram } = found;
        let histogram = histogram.iter().map(bin).collect();
        Self { rows: *rows, effective_rows: *effective_rows, histogram }
    }
}

impl From<&TimesBin> for TimesReport {
    fn from(&TimesBin { times, rows }: &TimesBin) -> Self {
        Self { times, rows }
    }
}

/// Describes how many transitions were handed out how often: `0: 30, 1: 1,000`.
pub(crate) fn in_words(bins: &[TimesReport]) -> String {
    let bin = |bin: &TimesReport| format!("{}: {}", bin.times, units::exact(bin.rows));
    if bins.is_empty() {
        return "-".to_owned();
    }
    bins.iter().map(bin).collect::<Vec<_>>().join(", ")
}
