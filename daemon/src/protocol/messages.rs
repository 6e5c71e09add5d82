//! Messages between clients and the daemon: one JSON object per line, bounded in length.
//!
//! A connection carries any number of requests, each answered before the next is read. During a
//! long request the daemon sends `{"working":true}` about once a second, so that silence means a
//! dead daemon. An answer with a ring comes with the descriptor of its directory.

use std::time::Duration;

use backcast_core::{Capacity, Column, Exist, LanePolicy, RateLimiter, RingOptions, Role, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column_spec::{self, ColumnSpec};
use super::refusal::{Code, Refusal};

/// Version of the protocol.
pub(crate) const PROTOCOL: u32 = 1;
/// Maximum bytes of a request: several times those of 1,024 columns with names of 255 bytes.
pub(crate) const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Maximum bytes of an answer.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Interval between two messages that a request is in progress.
pub(crate) const WORKING_EVERY: Duration = Duration::from_secs(1);

/// A line from a client.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Request {
    /// [`PROTOCOL`] of the client.
    pub(crate) protocol: u32,
    #[serde(flatten)]
    pub(crate) ask: Ask,
}

/// Requests.
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
    /// Returns the word for logs and metrics.
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

/// Request to make a ring larger.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResizeAsk {
    pub(crate) name: String,
    pub(crate) capacity_rows: Option<u64>,
    pub(crate) capacity_bytes: Option<u64>,
    /// Maximum wait for writers to relocate their lanes.
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

/// Splits a capacity into rows and bytes, one of which is set.
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

/// Request to save a ring.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveAsk {
    pub(crate) name: String,
    /// `None` for the first of s1, s2, … that is free.
    pub(crate) label: Option<String>,
    pub(crate) replace: bool,
}

/// Request to load a snapshot.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadAsk {
    pub(crate) snapshot: String,
    /// `None` for the name that was saved.
    pub(crate) name: Option<String>,
    pub(crate) exist: String,
    pub(crate) persistent: bool,
}

/// Request to create a ring.
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
    /// Whether the ring is created in memfds. Requests of older clients lack it, which means false.
    #[serde(default)]
    pub(crate) memfd: bool,
    /// Rate limiter; missing for a ring without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limiter: Option<LimiterAsk>,
    /// Persistence mode; `None` for the daemon's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) persist: Option<String>,
}

/// The rate limiter of the requested ring.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimiterAsk {
    pub(crate) samples_per_insert: f64,
    pub(crate) min_size: u64,
    /// Lower end of the error band; null if the band has no lower end.
    pub(crate) min_diff: Option<f64>,
    /// Upper end of the error band; null if the band has no upper end.
    pub(crate) max_diff: Option<f64>,
    pub(crate) no_learner: String,
    pub(crate) no_writer: String,
    pub(crate) enabled: bool,
}

impl From<RateLimiter> for LimiterAsk {
    fn from(limits: RateLimiter) -> Self {
        let finite = |end: f64| Some(end).filter(|end| end.is_finite());
        let (least, most) = limits.error_band();
        Self {
            samples_per_insert: limits.samples_per_insert(),
            min_size: limits.min_size_to_sample(),
            min_diff: finite(least),
            max_diff: finite(most),
            no_learner: limits.no_learner_choice().to_string(),
            no_writer: limits.no_writer_choice().to_string(),
            enabled: limits.is_enabled(),
        }
    }
}

impl LimiterAsk {
    /// Returns the limits. The error says which word is invalid.
    fn limits(&self) -> Result<RateLimiter, String> {
        let least = self.min_diff.unwrap_or(f64::NEG_INFINITY);
        let most = self.max_diff.unwrap_or(f64::INFINITY);
        let no_learner = self.no_learner.parse().map_err(|e| format!("{e}"))?;
        let no_writer = self.no_writer.parse().map_err(|e| format!("{e}"))?;
        let limits = RateLimiter::band(self.samples_per_insert, self.min_size, least, most);
        Ok(limits.no_learner(no_learner).no_writer(no_writer).enabled(self.enabled))
    }
}

/// A column of the requested ring.
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
            limiter: settings.limiter.map(LimiterAsk::from),
            persist: None,
        }
    }

    /// Returns the requested schema.
    pub(crate) fn schema(&self) -> Result<Schema, Refusal> {
        let specs: Result<Vec<ColumnSpec>, _> = self
            .columns
            .iter()
            .map(|c| ColumnSpec::new(&c.name, &c.dtype, c.shape.clone(), Some(&c.role)))
            .collect();
        let specs = specs.map_err(|error| Refusal::new(Code::Schema, error))?;
        column_spec::schema(&specs).map_err(|error| Refusal::new(Code::Schema, error))
    }

    /// Returns the requested options. The error says which word or number is invalid.
    pub(crate) fn options(&self) -> Result<RingOptions, String> {
        let capacity = one_of(self.capacity_rows, self.capacity_bytes)?;
        let exist: Exist = self.exist.parse().map_err(|e| format!("{e}"))?;
        let mut policy: LanePolicy = self.lane_policy.parse().map_err(|e| format!("{e}"))?;
        if let LanePolicy::Block(_) = policy {
            policy = LanePolicy::Block(Duration::from_millis(self.lease_timeout_ms));
        }
        let options = RingOptions::with_capacity(capacity)
            .lanes(self.lanes)
            .exist(exist)
            .persistent(self.persistent)
            .lane_policy(policy)
            .reader_slots(self.reader_slots)
            .huge_pages(self.huge_pages)
            .memfd(self.memfd);
        Ok(match &self.limiter {
            Some(limiter) => options.limiter(limiter.limits()?),
            None => options,
        })
    }
}

/// A line from the daemon.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok(Value),
    Error(Refusal),
    Working(bool),
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast_core::{DType, NoLearner, NoWriter};

    #[test]
    fn requests_take_one_line_and_round_trip() {
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
        let limits = [
            None,
            Some(RateLimiter::min_size(7)),
            Some(RateLimiter::ratio(0.3, 7, 9.5).no_learner(NoLearner::Pass).enabled(false)),
            Some(RateLimiter::queue(3).no_writer(NoWriter::Error)),
        ];
        for limits in limits {
            let options = match limits {
                Some(limits) => options.clone().limiter(limits),
                None => options.clone(),
            };
            comes_back(&schema, &options);
        }
    }

    fn comes_back(schema: &Schema, options: &RingOptions) {
        let ask = Ask::Create(Box::new(CreateAsk::new("pong", schema, options)));
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
}
