//! Description of the ring in the metadata of a table: what an import needs to restore it exactly.
//!
//! Hashes of each row group's rows, and of the description itself, detect changes of the file.

use std::ops::Range;

use backcast_core::Ring;
use backcast_files::RingDescription;
use serde::{Deserialize, Serialize};

/// Version of the description.
pub(crate) const FORMAT: u32 = 2;
/// Version without hashes, still readable.
pub(crate) const UNHASHED: u32 = 1;
/// Key of the description in the file's metadata.
pub(crate) const KEY: &str = "backcast";
/// Key of the description's hash.
pub(crate) const HASH_KEY: &str = "backcast.hash";
/// `created_by` of the footer. A file by another program may carry a copied description and other
/// row groups, so its hashes are not checked.
pub(crate) const CREATED_BY: &str = "backcast";

/// Description of a ring and of its rows in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDescription {
    pub(crate) format: u32,
    pub(crate) ring: RingDescription,
    /// First row and one past the last, by lane.
    pub(crate) rows: Vec<(u64, u64)>,
    /// Hash of the rows by row group; absent in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<Vec<String>>,
}

impl TableDescription {
    pub(crate) fn of(ring: &Ring, spans: &[Range<u64>], groups: Vec<String>) -> Self {
        let rows = spans.iter().map(|span| (span.start, span.end)).collect();
        Self { format: FORMAT, ring: RingDescription::of(ring), rows, groups: Some(groups) }
    }
}
