//! What clients and the daemon say to each other: one JSON object per line, bounded in length.
//!
//! A connection carries any number of requests, each answered before the next is read. While a
//! request takes long, the daemon sends `{"working":true}` about once a second, so that silence means
//! that nobody is there. An answer that hands over a ring comes with its directory's descriptor.

use std::time::Duration;

use backcast_core::{Capacity, Column, Exist, LanePolicy, RingOptions, Role, Schema};
use backcast_persist::{SaveReport, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::columns::ColumnSpec;
use crate::error::CliError;

/// Changes when a line means something else than before.
pub(crate) const PROTOCOL: u32 = 1;
/// Longest request, in bytes: 1,024 columns with names of 255 bytes fit several times.
pub(crate) const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Longest answer that a client reads.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 << 20;
/// How often a daemon at work says so.
pub(crate) const WORKING_EVERY: Duration = Duration::from_secs(1);

/// One line from a client.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Request {
    /// [`PROTOCOL`] of the client.
    pub(crate) protocol: u32,
    #[serde(flatten)]
    pub(crate) ask: Ask,
}

/// What is asked of the daemon.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Ask {
    Ping,
    List,
    Stats { name: String },
    Create(Box<CreateAsk>),
    Attach { name: String },
    Resize(ResizeAsk),
    Save(SaveAsk),
    Load(LoadAsk),
    Snapshots { name: Option<String> },
    Remove { name: String, kind: Option<String>, force: bool },
    Gc,
}

impl Ask {
    /// For logs and metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::List => "list",
            Self::Stats { .. } => "stats",
            Self::Create(_) => "create",
            Self::Attach { .. } => "attach",
            Self::Resize(_) => "resize",
            Self::Save(_) => "save",
            Self::Load(_) => "load",
            Self::Snapshots { .. } => "snapshots",
            Self::Remove { .. } => "remove",
            Self::Gc => "gc",
        }
    }
}

/// A ring that is to be made larger.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResizeAsk {
    pub(crate) name: String,
    pub(crate) capacity_rows: Option<u64>,
    pub(crate) capacity_bytes: Option<u64>,
    /// Longest wait for writers to move their lanes.
    pub(crate) timeout_ms: u64,
}

impl ResizeAsk {
    pub(crate) fn new(name: &str, capacity: Capacity, timeout: Duration) -> Self {
        let (capacity_rows, capacity_bytes) = split(capacity);
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Self { name: name.to_owned(), capacity_rows, capacity_bytes, timeout_ms }
    }

    pub(crate) fn capacity(&self) -> Result<Capacity, String> {
        one_of(self.capacity_rows, self.capacity_bytes)
    }
}

/// A capacity as two numbers, of which one is there.
fn split(capacity: Capacity) -> (Option<u64>, Option<u64>) {
    match capacity {
        Capacity::Rows(rows) => (Some(rows), None),
        Capacity::Bytes(bytes) => (None, Some(bytes)),
    }
}

fn one_of(rows: Option<u64>, bytes: Option<u64>) -> Result<Capacity, String> {
    match (rows, bytes) {
        (Some(rows), None) => Ok(Capacity::Rows(rows)),
        (None, Some(bytes)) => Ok(Capacity::Bytes(bytes)),
        _ => Err("give one of capacity_rows and capacity_bytes".to_owned()),
    }
}

/// A ring that is to be saved.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveAsk {
    pub(crate) name: String,
    /// `None`: the first of s1, s2, … that is free.
    pub(crate) label: Option<String>,
    pub(crate) replace: bool,
}

/// A snapshot that is to become a ring.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadAsk {
    pub(crate) snapshot: String,
    /// `None`: as it was saved.
    pub(crate) name: Option<String>,
    pub(crate) exist: String,
    pub(crate) persistent: bool,
}

/// A ring that is to be made.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateAsk {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnAsk>,
    pub(crate) capacity_rows: Option<u64>,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) lanes: u32,
    pub(crate) exist: String,
    pub(crate) persistent: bool,
    pub(crate) reader_slots: u32,
    pub(crate) lane_policy: String,
    pub(crate) lease_timeout_ms: u64,
    pub(crate) huge_pages: bool,
    /// Left out by clients that know nothing of it.
    #[serde(default)]
    pub(crate) memfd: bool,
    /// How it is to be brought to disk; left out, the daemon's settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) persist: Option<String>,
}

/// A column of it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnAsk {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u32>,
    pub(crate) role: String,
}

impl From<&Column> for ColumnAsk {
    fn from(column: &Column) -> Self {
        let role = match column.role() {
            Role::Obs => "obs",
            Role::Step => "step",
        };
        Self {
            name: column.name().to_owned(),
            dtype: column.dtype().code().to_owned(),
            shape: column.shape().to_vec(),
            role: role.to_owned(),
        }
    }
}

impl CreateAsk {
    pub(crate) fn new(name: &str, schema: &Schema, options: &RingOptions) -> Self {
        let settings = options.settings();
        let (capacity_rows, capacity_bytes) = split(settings.capacity);
        let timeout = settings.lane_policy.timeout().as_millis();
        Self {
            name: name.to_owned(),
            columns: schema.columns().iter().map(ColumnAsk::from).collect(),
            capacity_rows,
            capacity_bytes,
            lanes: settings.lanes,
            exist: settings.exist.to_string(),
            persistent: settings.persistent,
            reader_slots: settings.reader_slots,
            lane_policy: settings.lane_policy.as_str().to_owned(),
            lease_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
            huge_pages: settings.huge_pages,
            memfd: settings.memfd,
            persist: None,
        }
    }

    /// The schema asked for.
    pub(crate) fn schema(&self) -> Result<Schema, CliError> {
        let specs: Result<Vec<ColumnSpec>, _> = self
            .columns
            .iter()
            .map(|c| ColumnSpec::new(&c.name, &c.dtype, c.shape.clone(), Some(&c.role)))
            .collect();
        crate::columns::schema(&specs?)
    }

    /// The options asked for, where there is one word that is none: which.
    pub(crate) fn options(&self) -> Result<RingOptions, String> {
        let capacity = one_of(self.capacity_rows, self.capacity_bytes)?;
        let exist: Exist = self.exist.parse().map_err(|e| format!("{e}"))?;
        let mut policy: LanePolicy = self.lane_policy.parse().map_err(|e| format!("{e}"))?;
        if let LanePolicy::Block(_) = policy {
            policy = LanePolicy::Block(Duration::from_millis(self.lease_timeout_ms));
        }
        Ok(RingOptions::with_capacity(capacity)
            .lanes(self.lanes)
            .exist(exist)
            .persistent(self.persistent)
            .lane_policy(policy)
            .reader_slots(self.reader_slots)
            .huge_pages(self.huge_pages)
            .memfd(self.memfd))
    }
}

/// One line from the daemon.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok(Value),
    Error(Refusal),
    Working(bool),
}

/// Why the daemon did not do it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) over_budget: Option<Box<OverBudget>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) over_quota: Option<Box<OverQuota>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name_taken: Option<Box<NameTaken>>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        Self { code, message, over_budget: None, over_quota: None, name_taken: None }
    }
}

/// The kinds of refusal; an error of a ring has the kind it has without a daemon.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The line is no request, or has a word that is none.
    BadRequest,
    /// The line is longer than a request may be.
    TooLong,
    /// The client's protocol is another one.
    OtherProtocol,
    /// As many connections as there may be are at work.
    Busy,
    /// The daemon is ending.
    Stopping,
    /// The ring does not fit the budget.
    OverBudget,
    /// The process would have more than its quota.
    OverQuota,
    /// No such ring or panel.
    NotFound,
    /// The name is taken.
    Exists,
    /// A process holds it.
    InUse,
    /// The memory is not there.
    NoSpace,
    /// A name, number or limit.
    BadArgument,
    /// The columns.
    Schema,
    /// Damaged files.
    Corrupt,
    /// The operating system refused.
    Storage,
    /// A word of a newer daemon.
    #[serde(other)]
    Other,
}

impl Code {
    /// For logs and metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::TooLong => "too_long",
            Self::OtherProtocol => "other_protocol",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::OverBudget => "over_budget",
            Self::OverQuota => "over_quota",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::InUse => "in_use",
            Self::NoSpace => "no_space",
            Self::BadArgument => "bad_argument",
            Self::Schema => "schema",
            Self::Corrupt => "corrupt",
            Self::Storage => "storage",
            Self::Other => "other",
        }
    }
}

/// The numbers of a ring that does not fit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OverBudget {
    /// Bytes that all objects may have together.
    pub budget_bytes: u64,
    /// Bytes that they have.
    pub used_bytes: u64,
    /// Bytes that the ring would add.
    pub asked_bytes: u64,
    /// The largest objects, largest first: name and bytes.
    pub largest: Vec<(String, u64)>,
}

/// The numbers of a ring that a process may not have beside its others.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OverQuota {
    /// Bytes that the rings may have that one process asked for.
    pub quota_bytes: u64,
    /// Bytes that its others have.
    pub held_bytes: u64,
    /// Bytes that the ring would have.
    pub asked_bytes: u64,
    /// The process, as the daemon sees it; `None`: the kernel does not name it.
    pub pid: Option<u32>,
    /// Its largest others, largest first: name and bytes.
    pub largest: Vec<(String, u64)>,
}

/// What has the name that was asked for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NameTaken {
    /// `ring` or `panel`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// Why it counts as there, in words. `None`: it was to be joined.
    pub state: Option<String>,
    /// In what it differs from what was to be joined, in words.
    pub difference: Option<String>,
}

/// What a ring was given, and how.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Granted {
    /// Name of the ring.
    pub name: String,
    /// Its directory, as the daemon sees it.
    pub path: std::path::PathBuf,
    /// It was made now, rather than joined.
    pub made: bool,
    /// Bytes that it has.
    pub allocated_bytes: u64,
    /// Bytes that it would have had with the capacity asked for.
    pub asked_bytes: u64,
    /// Rows that it keeps.
    pub capacity_rows: u64,
}

impl Granted {
    /// Whether it is smaller than asked for, because the budget left no more.
    #[must_use]
    pub fn shrunk(&self) -> bool {
        self.made && self.allocated_bytes < self.asked_bytes
    }
}

/// What a resize did.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Grown {
    /// Name of the ring.
    pub name: String,
    /// Rows that it keeps, once all lanes have moved.
    pub capacity_rows: u64,
    /// Rows that a lane keeps then.
    pub lane_capacity_rows: u64,
    /// Bytes that it has.
    pub allocated_bytes: u64,
    /// Rows that were copied beside the writers.
    pub copied_rows: u64,
    /// Lanes that move when their writers append next, or end.
    pub waiting_lanes: Vec<u32>,
    /// It is smaller than asked for, because the budget left no more.
    pub shrunk: bool,
}

/// What a save did.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Saved {
    /// `name@label`.
    pub name: String,
    /// Rows of the snapshot.
    pub rows: u64,
    /// Rows that were written now.
    pub written_rows: u64,
    /// Files that were written now.
    pub written_files: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// Rows that writers overwrote before they could be copied.
    pub lapped_rows: u64,
    /// Bytes of files that no snapshot needs any more, and that are gone.
    pub freed_bytes: u64,
}

impl From<&SaveReport> for Saved {
    fn from(report: &SaveReport) -> Self {
        Self {
            name: format!("{}@{}", report.name, report.label),
            rows: report.rows,
            written_rows: report.rows_written,
            written_files: report.files_written,
            size_bytes: report.bytes_written,
            lapped_rows: report.rows_lapped,
            freed_bytes: report.bytes_freed,
        }
    }
}

/// A snapshot in the daemon's store.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedSnapshot {
    /// `name@label`.
    pub name: String,
    /// Wall clock when it was saved, nanoseconds since 1970.
    pub saved_unix_ns: u64,
    /// Lanes of its ring.
    pub lane_count: u64,
    /// Rows that it has.
    pub rows: u64,
    /// Bytes of the files that hold them, files shared with other snapshots included.
    pub size_bytes: u64,
}

impl From<&Snapshot> for SavedSnapshot {
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

/// What a daemon says of itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Pong {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The base directory that it looks after.
    pub base: std::path::PathBuf,
    /// Seconds since it was ready.
    pub uptime_s: f64,
    /// Bytes that all objects may have together.
    pub budget_bytes: u64,
    /// Bytes that they have.
    pub used_bytes: u64,
    /// Bytes that the rings may have that one process asked for. `None`: as many as there are.
    #[serde(default)]
    pub quota_bytes: Option<u64>,
    /// What it does about a ring that does not fit.
    pub when_full: String,
}

/// An object as `backcast --json ls` shows it; what does not apply is left out.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ListedObject {
    /// `ring` or `panel`.
    pub kind: String,
    /// Name; that of its directory for what a dead creator left.
    pub name: String,
    /// Its directory.
    pub path: std::path::PathBuf,
    /// `held`, `idle`, `orphaned`, `building`, `damaged`, or `evicted`: on disk, and back in memory
    /// for who attaches through the daemon.
    pub state: String,
    /// Stays when nobody holds it.
    pub persistent: bool,
    /// Bytes that it has.
    pub size_bytes: u64,
    /// Lanes of a ring.
    pub lane_count: Option<u32>,
    /// Rows readable.
    pub rows: Option<u64>,
    /// Transitions that can be drawn.
    pub transitions: Option<u64>,
    /// Why it is damaged.
    pub error: Option<String>,
}

/// An object that was removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Gone {
    /// `ring` or `panel`.
    pub kind: String,
    /// Name; that of its directory for what a dead creator left.
    pub name: String,
    /// Bytes that it had.
    pub size_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast_core::DType;

    #[test]
    fn a_request_says_what_was_asked_on_one_line_and_comes_back() {
        let schema = Schema::builder()
            .column("obs/x", DType::F32, &[3])
            .column_as("day", DType::I32, &[], Role::Obs)
            .build()
            .unwrap();
        let options = RingOptions::with_capacity(Capacity::Bytes(1 << 20))
            .lanes(7)
            .exist(Exist::Replace)
            .persistent(true)
            .lane_policy(LanePolicy::Block(Duration::from_millis(250)))
            .reader_slots(9)
            .huge_pages(false)
            .memfd(true);
        let ask = Ask::Create(Box::new(CreateAsk::new("pong", &schema, &options)));
        let line = serde_json::to_string(&Request { protocol: PROTOCOL, ask }).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let Request { ask: Ask::Create(back), protocol } = serde_json::from_str(&line).unwrap()
        else {
            panic!("{line}")
        };
        assert_eq!(protocol, PROTOCOL);
        assert_eq!(back.schema().unwrap().columns(), schema.columns());
        assert_eq!(back.options().unwrap().settings(), options.settings());
    }

    #[test]
    fn a_refusal_of_an_older_daemon_is_understood() {
        let line = r#"{"error":{"code":"exists","message":"no"}}"#;
        let Answer::Error(refusal) = serde_json::from_str(line).unwrap() else { panic!() };
        assert_eq!((refusal.code, refusal.name_taken), (Code::Exists, None));
    }

    #[test]
    fn a_refusal_of_a_newer_daemon_is_understood() {
        let line = r#"{"error":{"code":"from_the_future","message":"no","more":[1]}}"#;
        let Answer::Error(refusal) = serde_json::from_str(line).unwrap() else { panic!() };
        assert_eq!((refusal.code, refusal.message.as_str()), (Code::Other, "no"));
    }
}
