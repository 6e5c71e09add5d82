//! What an exported table says of itself, so that the ring can be made again from it.

use std::ops::Range;

use backcast_core::Ring;
use backcast_files::RingDescription;
use serde::{Deserialize, Serialize};

/// Version of these words.
pub(crate) const FORMAT: u32 = 1;
/// Their key among the file's metadata.
pub(crate) const KEY: &str = "backcast";

/// A ring, and the rows of it that a file has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) format: u32,
    pub(crate) ring: RingDescription,
    /// Per lane, the first row and one past the last.
    pub(crate) rows: Vec<(u64, u64)>,
}

impl About {
    pub(crate) fn of(ring: &Ring, spans: &[Range<u64>]) -> Self {
        let rows = spans.iter().map(|span| (span.start, span.end)).collect();
        Self { format: FORMAT, ring: RingDescription::of(ring), rows }
    }
}
