//! Identity and sizes of a ring, as `create` and `stat` show them.

use std::path::PathBuf;

use backcast_core::{Column, RingStats, Role};
use serde::Serialize;

use crate::text::units;

/// JSON of a ring's identity and sizes.
#[derive(Debug, Serialize)]
pub(crate) struct GeometryReport {
    kind: &'static str,
    pub(crate) name: Option<String>,
    path: Option<PathBuf>,
    persistent: bool,
    memfd: bool,
    lane_count: u32,
    lane_capacity_rows: u64,
    capacity_rows: u64,
    lane_slots_rows: u64,
    pub(crate) row_bytes: u64,
    asked_bytes: u64,
    allocated_bytes: u64,
    huge_bytes: u64,
    lane_policy: &'static str,
    lease_timeout_s: f64,
    pub(crate) columns: Vec<ColumnRow>,
}

/// JSON of one column.
#[derive(Debug, Serialize)]
pub(crate) struct ColumnRow {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<u32>,
    pub(crate) role: &'static str,
    pub(crate) row_bytes: usize,
}

impl From<&Column> for ColumnRow {
    fn from(column: &Column) -> Self {
        Self {
            name: column.name().to_owned(),
            dtype: column.dtype().code(),
            shape: column.shape().to_vec(),
            role: match column.role() {
                Role::Obs => "obs",
                Role::Step => "step",
            },
            row_bytes: column.width(),
        }
    }
}

impl From<&RingStats> for GeometryReport {
    fn from(stats: &RingStats) -> Self {
        Self {
            kind: "ring",
            name: stats.name.clone(),
            path: stats.path.clone(),
            persistent: stats.persistent,
            memfd: stats.memfd,
            lane_count: stats.lanes,
            lane_capacity_rows: stats.lane_capacity,
            capacity_rows: stats.capacity,
            lane_slots_rows: stats.slots,
            row_bytes: stats.row_bytes,
            asked_bytes: stats.bytes_asked,
            allocated_bytes: stats.bytes_allocated,
            huge_bytes: stats.bytes_huge,
            lane_policy: stats.lane_policy.as_str(),
            lease_timeout_s: stats.lane_policy.timeout().as_secs_f64(),
            columns: stats.columns.iter().map(ColumnRow::from).collect(),
        }
    }
}

impl GeometryReport {
    /// Describes what writers do when a lease blocks them.
    fn leases(&self) -> String {
        match self.lane_policy {
            "block" => format!("writers wait {} s for one, then drop rows", self.lease_timeout_s),
            "drop_new" => "writers drop rows for one".to_owned(),
            "fail" => "writers fail on one".to_owned(),
            _ => "none are granted".to_owned(),
        }
    }

    /// Returns names and values, to be printed.
    pub(crate) fn facts(&self) -> Vec<Vec<String>> {
        let fact = |name: &str, value: String| vec![name.to_owned(), value];
        vec![
            fact("ring", self.name.clone().unwrap_or_default()),
            fact("path", self.path.as_ref().map_or_else(String::new, |p| p.display().to_string())),
            fact("persistent", yes_no(self.persistent)),
            fact("leases", self.leases()),
            fact(
                "capacity",
                format!(
                    "{} rows ({} per lane, {} {})",
                    units::exact(self.capacity_rows),
                    units::exact(self.lane_capacity_rows),
                    units::exact(self.lane_count.into()),
                    if self.lane_count == 1 { "lane" } else { "lanes" }
                ),
            ),
            fact(
                "memory",
                format!(
                    "{} allocated{}, {} of it on huge pages, {} asked ({} slots per lane, {} \
                     a row)",
                    units::bytes(self.allocated_bytes),
                    if self.memfd { " in sealed memfds" } else { "" },
                    units::bytes(self.huge_bytes),
                    units::bytes(self.asked_bytes),
                    units::exact(self.lane_slots_rows),
                    units::bytes(self.row_bytes)
                ),
            ),
        ]
    }

    /// Returns a warning if more than twice the requested memory is allocated.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.allocated_bytes / 2 > self.asked_bytes).then(|| {
            format!(
                "warning: {} allocated for {} asked: each lane is rounded up to {} slots so that \
                 its columns fill whole pages; fewer lanes or a larger capacity waste less",
                units::bytes(self.allocated_bytes),
                units::bytes(self.asked_bytes),
                units::exact(self.lane_slots_rows)
            )
        })
    }
}

/// Returns `yes` or `no`.
pub(crate) fn yes_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}
