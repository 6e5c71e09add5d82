//! Description of the ring's columns in an exported dataset. Minari's spaces have neither the roles
//! of columns nor the dtypes of scalar integers.

use backcast_files::ColumnDescription;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::DatasetParts;

/// Version of the description.
const FORMAT: u32 = 1;

/// Columns of the ring and their paths in the files of episodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RingColumns {
    format: u32,
    pub(super) columns: Vec<RingColumn>,
}

/// A column and its path of field names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RingColumn {
    pub(super) column: ColumnDescription,
    pub(super) path: Vec<String>,
}

impl RingColumns {
    /// Parses the description. Returns `None` if a later version wrote it; the caller uses the
    /// spaces then.
    pub(super) fn parse(value: &Value) -> Result<Option<Self>, String> {
        match value.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {
                Self::deserialize(value).map(Some).map_err(|error| error.to_string())
            }
            Some(format) if format > u64::from(FORMAT) => Ok(None),
            _ => Err("its description of the columns has no format".to_owned()),
        }
    }

    pub(super) fn of(parts: &DatasetParts<'_>) -> Self {
        let columns = parts.schema.columns().iter().enumerate().map(|(at, column)| RingColumn {
            column: ColumnDescription::of(column),
            path: parts.path(at).into_iter().map(str::to_owned).collect(),
        });
        Self { format: FORMAT, columns: columns.collect() }
    }
}
