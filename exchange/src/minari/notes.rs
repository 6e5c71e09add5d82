//! What a dataset that was exported says of the ring's columns, beside what Minari wants to know: a space
//! has no `bool` action of one element, no integers of other widths and no roles.

use backcast_files::ColumnDescription;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::Parts;

/// Version of these notes.
const FORMAT: u32 = 1;

/// The columns of the ring, and where the files of episodes have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notes {
    format: u32,
    pub(super) columns: Vec<NotedColumn>,
}

/// One column, and the path of names at which it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotedColumn {
    pub(super) column: ColumnDescription,
    pub(super) path: Vec<String>,
}

impl Notes {
    /// Reads notes. `None`: a later version wrote them, so what Minari is told has to do.
    pub(super) fn read(words: &Value) -> Result<Option<Self>, String> {
        match words.get("format").and_then(Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {
                Self::deserialize(words).map(Some).map_err(|error| error.to_string())
            }
            Some(format) if format > u64::from(FORMAT) => Ok(None),
            _ => Err("its notes have no format".to_owned()),
        }
    }

    pub(super) fn of(parts: &Parts<'_>) -> Self {
        let columns = parts.schema.columns().iter().enumerate().map(|(at, column)| NotedColumn {
            column: ColumnDescription::of(column),
            path: parts.path(at).into_iter().map(str::to_owned).collect(),
        });
        Self { format: FORMAT, columns: columns.collect() }
    }
}
