//! What an exported table says of itself, so that the ring can be made again from it, and so that a change
//! of the file is noticed: the hash of each row group's rows, and beside all that the hash of these words.

use std::ops::Range;

use backcast_core::Ring;
use backcast_files::RingDescription;
use serde::{Deserialize, Serialize};

/// Version of these words.
pub(crate) const FORMAT: u32 = 2;
/// The one before hashes, which is read still.
pub(crate) const UNHASHED: u32 = 1;
/// Their key among the file's metadata.
pub(crate) const KEY: &str = "backcast";
/// That of their hash.
pub(crate) const HASH_KEY: &str = "backcast.hash";
/// Who wrote the file, in its footer. Who copies these words to a file that another program writes may
/// have changed its rows or grouped them anew: the hashes are of another file then.
pub(crate) const CREATED_BY: &str = "backcast";

/// A ring, and the rows of it that a file has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) format: u32,
    pub(crate) ring: RingDescription,
    /// Per lane, the first row and one past the last.
    pub(crate) rows: Vec<(u64, u64)>,
    /// Per row group, the hash of its rows; none in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<Vec<String>>,
}

impl About {
    pub(crate) fn of(ring: &Ring, spans: &[Range<u64>], groups: Vec<String>) -> Self {
        let rows = spans.iter().map(|span| (span.start, span.end)).collect();
        Self { format: FORMAT, ring: RingDescription::of(ring), rows, groups: Some(groups) }
    }
}
