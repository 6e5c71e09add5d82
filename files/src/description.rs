//! Description of a ring in a file, from which it can be created again.

use std::time::Duration;

use backcast_core::{Capacity, Column, LanePolicy, Ring, RingOptions, Role, Schema, SchemaError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Description of a ring, without its rows. A file's description is not trusted until
/// [`schema`](Self::schema) and [`options`](Self::options) have checked it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingDescription {
    /// The user's columns, in order.
    pub columns: Vec<ColumnDescription>,
    /// Number of single-writer lanes.
    pub lanes: u32,
    /// Rows that a lane keeps for readers.
    pub lane_capacity: u64,
    /// Behaviour of writers at leased rows: `"block"`, `"drop_new"`, `"fail"` or `"overwrite"`.
    pub lane_policy: String,
    /// Maximum wait for a lease in milliseconds; 0 if writers never wait.
    pub lease_timeout_ms: u64,
    /// Number of reader slots. A reader needs one to hold leases.
    pub reader_slots: u32,
}

/// Description of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDescription {
    /// Name of the column.
    pub name: String,
    /// Short code as NumPy writes it, such as `"f4"`, or `"bfloat16"`, for which NumPy has none.
    pub dtype: String,
    /// Shape of one row.
    pub shape: Vec<u32>,
    /// `"obs"` or `"step"`.
    pub role: String,
}

/// A description of an impossible ring.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum BadDescription {
    /// The columns are invalid.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The lane policy is invalid.
    #[error("its lane policy is `{policy}` with {timeout_ms} ms, which is not valid")]
    Policy { policy: String, timeout_ms: u64 },
    /// The number of rows overflows.
    #[error("its {lanes} lanes of {lane_capacity} rows are too many")]
    Capacity { lanes: u32, lane_capacity: u64 },
}

impl RingDescription {
    /// Describes a ring.
    #[must_use]
    pub fn of(ring: &Ring) -> Self {
        let policy = ring.lane_policy();
        Self {
            columns: ring.schema().columns().iter().map(ColumnDescription::of).collect(),
            lanes: ring.lanes(),
            lane_capacity: ring.lane_capacity(),
            lane_policy: policy.to_string(),
            lease_timeout_ms: u64::try_from(policy.timeout().as_millis()).unwrap_or(u64::MAX),
            reader_slots: ring.reader_slots(),
        }
    }

    /// Returns the checked schema.
    pub fn schema(&self) -> Result<Schema, SchemaError> {
        let mut builder = Schema::builder();
        for column in &self.columns {
            let dtype = column.dtype.parse().map_err(SchemaError::Column)?;
            let role: Role = column.role.parse().map_err(SchemaError::Column)?;
            builder = builder.column_as(&column.name, dtype, &column.shape, role);
        }
        builder.build_existing()
    }

    /// Returns the options that create such a ring. Refuses an invalid lane policy, and a number of
    /// rows that overflows.
    pub fn options(&self) -> Result<RingOptions, BadDescription> {
        let (lanes, lane_capacity) = (self.lanes, self.lane_capacity);
        let rows = lane_capacity.checked_mul(lanes.into());
        let rows = rows.ok_or(BadDescription::Capacity { lanes, lane_capacity })?;
        let policy = self.policy().ok_or_else(|| BadDescription::Policy {
            policy: self.lane_policy.clone(),
            timeout_ms: self.lease_timeout_ms,
        })?;
        let options = RingOptions::with_capacity(Capacity::Rows(rows));
        Ok(options.lanes(lanes).lane_policy(policy).reader_slots(self.reader_slots))
    }

    fn policy(&self) -> Option<LanePolicy> {
        let timeout = Duration::from_millis(self.lease_timeout_ms);
        match self.lane_policy.parse().ok()? {
            LanePolicy::Block(_) => {
                (timeout <= LanePolicy::MAX_TIMEOUT).then_some(LanePolicy::Block(timeout))
            }
            policy => timeout.is_zero().then_some(policy),
        }
    }
}

impl ColumnDescription {
    /// Describes a column.
    #[must_use]
    pub fn of(column: &Column) -> Self {
        Self {
            name: column.name().to_owned(),
            dtype: column.dtype().code().to_owned(),
            shape: column.shape().to_owned(),
            role: column.role().as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast_core::DType;

    #[test]
    fn a_ring_made_as_described_is_described_alike() {
        let schema = Schema::builder()
            .column("obs/pixels", DType::U8, &[4, 4])
            .column_as("day", DType::I32, &[], Role::Obs)
            .build()
            .unwrap();
        let block = LanePolicy::Block(Duration::from_millis(20));
        for policy in [block, LanePolicy::DropNew, LanePolicy::Fail, LanePolicy::Overwrite] {
            let options =
                RingOptions::with_capacity(30).lanes(4).lane_policy(policy).reader_slots(7);
            let described = RingDescription::of(&Ring::heap(&schema, options).unwrap());
            let text = serde_json::to_string(&described).unwrap();
            let read: RingDescription = serde_json::from_str(&text).unwrap();
            let again = Ring::heap(&read.schema().unwrap(), read.options().unwrap()).unwrap();
            assert_eq!(RingDescription::of(&again), described);
            assert_eq!(again.schema(), &schema);
        }
    }

    #[test]
    fn impossible_descriptions_are_refused() {
        let schema = Schema::builder().column("a", DType::F32, &[]).build().unwrap();
        let good =
            RingDescription::of(&Ring::heap(&schema, RingOptions::with_capacity(9)).unwrap());
        let bad = |change: fn(&mut RingDescription)| {
            let mut bad = good.clone();
            change(&mut bad);
            bad.schema()
                .map_err(|e| e.to_string())
                .and(bad.options().map_err(|e| e.to_string()))
                .unwrap_err()
        };
        for (error, part) in [
            (bad(|d| d.columns[0].dtype = "f3".into()), "f3"),
            (bad(|d| d.columns[0].role = "king".into()), "king"),
            (bad(|d| d.columns.clear()), "column"),
            (bad(|d| d.lane_policy = "pray".into()), "pray"),
            (bad(|d| d.lease_timeout_ms = u64::MAX), "ms"),
            (bad(|d| (d.lanes, d.lane_capacity) = (2, u64::MAX)), "2 lanes"),
        ] {
            assert!(error.contains(part), "{error} lacks {part}");
        }
    }
}
