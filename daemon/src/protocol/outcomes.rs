//! Contents of the answers of the daemon, by request.

use std::path::PathBuf;

use backcast_persist::{LeftOutTable, SaveReport, Snapshot};
use serde::{Deserialize, Serialize};

/// A ring that the daemon handed over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Granted {
    /// Name of the ring.
    pub name: String,
    /// Directory of the ring, in the daemon's view.
    pub path: PathBuf,
    /// Whether the ring was created or loaded. False if the daemon attached to an existing or
    /// evicted ring.
    pub made: bool,
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Bytes of the requested capacity. A request to attach gives the bytes that the ring's creator
    /// asked for. A request to load gives the bytes allocated.
    pub asked_bytes: u64,
    /// Capacity in rows.
    pub capacity_rows: u64,
}

impl Granted {
    /// Returns whether the budget made the ring smaller than requested.
    #[must_use]
    pub fn shrunk(&self) -> bool {
        self.made && self.allocated_bytes < self.asked_bytes
    }
}

/// Outcome of a resize.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Grown {
    /// Name of the ring.
    pub name: String,
    /// Capacity in rows once all lanes are relocated.
    pub capacity_rows: u64,
    /// Capacity of a lane in rows, once it is relocated.
    pub lane_capacity_rows: u64,
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Rows copied before lanes are relocated. Writers may append meanwhile.
    pub copied_rows: u64,
    /// Lanes that are relocated when their writers append next or end.
    pub waiting_lanes: Vec<u32>,
    /// Whether the budget made the ring smaller than requested.
    pub shrunk: bool,
}

/// Outcome of a save.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SaveOutcome {
    /// `name@label`.
    pub name: String,
    /// Rows of the snapshot.
    pub rows: u64,
    /// Rows written by this save.
    pub written_rows: u64,
    /// Files written by this save.
    pub written_files: u64,
    /// Bytes of the files written by this save.
    pub size_bytes: u64,
    /// Rows that writers overwrote before they were copied.
    pub lapped_rows: u64,
    /// Bytes of removed files that no snapshot needs any more.
    pub freed_bytes: u64,
    /// Tables, or the rate limiter, that the snapshot lacks: locked, damaged or unreadable.
    pub left_out: Vec<LeftOut>,
}

/// A table, or the rate limiter, that a snapshot lacks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LeftOut {
    /// Name of the table, or `ring.lim` for the rate limiter.
    pub table: String,
    /// Reason.
    pub reason: String,
}

impl From<&LeftOutTable> for LeftOut {
    fn from(LeftOutTable { table, reason }: &LeftOutTable) -> Self {
        Self { table: table.clone(), reason: reason.clone() }
    }
}

impl From<LeftOut> for LeftOutTable {
    fn from(LeftOut { table, reason }: LeftOut) -> Self {
        Self { table, reason }
    }
}

impl From<&SaveReport> for SaveOutcome {
    fn from(report: &SaveReport) -> Self {
        Self {
            name: format!("{}@{}", report.name, report.label),
            rows: report.rows,
            written_rows: report.rows_written,
            written_files: report.files_written,
            size_bytes: report.bytes_written,
            lapped_rows: report.rows_lapped,
            freed_bytes: report.bytes_freed,
            left_out: report.left_out.iter().map(LeftOut::from).collect(),
        }
    }
}

/// A snapshot in the daemon's store.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StoredSnapshot {
    /// `name@label`.
    pub name: String,
    /// Wall clock of the save in nanoseconds since 1970.
    pub saved_unix_ns: u64,
    /// Lanes of the ring.
    pub lane_count: u64,
    /// Rows of the snapshot.
    pub rows: u64,
    /// Bytes of its files, including those shared with other snapshots.
    pub size_bytes: u64,
}

impl From<&Snapshot> for StoredSnapshot {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            name: snapshot.spec(),
            saved_unix_ns: snapshot.saved_unix_ns,
            lane_count: snapshot.lanes.len() as u64,
            rows: snapshot.rows,
            size_bytes: snapshot.bytes,
        }
    }
}

/// Status of a daemon.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Pong {
    /// Process id.
    pub pid: u32,
    /// Version of Backcast.
    pub version: String,
    /// Base directory of the daemon.
    pub base: PathBuf,
    /// Seconds since the daemon began.
    pub uptime_s: f64,
    /// Maximum bytes of all objects together.
    pub budget_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Policy of the daemon for rings that do not fit: `refuse`, `shrink` or `evict`.
    pub when_full: String,
}

/// An object in the daemon's list, with keys of `backcast --json ls`. Keys that do not apply are
/// null.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ListedObject {
    /// `ring`, `panel` or `params`; `snapshot` for a name in the store that cannot be read.
    pub kind: String,
    /// Name; for an object that was not completed, the name of its directory.
    pub name: String,
    /// Directory of the object.
    pub path: PathBuf,
    /// `held`, `idle`, `orphaned`, `building`, `damaged`, `other-version`, `denied`, `unknown`, or
    /// `evicted`: on disk, until a client attaches through the daemon.
    pub state: String,
    /// Whether the object stays when no process holds it.
    pub persistent: bool,
    /// Bytes allocated; for an evicted ring, bytes of its snapshot.
    pub size_bytes: u64,
    /// Lanes of a ring.
    pub lane_count: Option<u32>,
    /// Readable rows.
    pub rows: Option<u64>,
    /// Transitions to draw from.
    pub transitions: Option<u64>,
    /// Reason why the object cannot be opened.
    pub error: Option<String>,
    /// Processes that hold the object, as far as the daemon can see them.
    pub holder_pids: Option<Vec<u32>>,
}

/// An object that was removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Gone {
    /// `ring`, `panel` or `params`.
    pub kind: String,
    /// Name; for an object that was not completed, the name of its directory.
    pub name: String,
    /// Bytes freed.
    pub size_bytes: u64,
}
