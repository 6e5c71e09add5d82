//! Positions of a followed ring in the manifest, lapped rows, and how long to keep files without a
//! snapshot.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// State of a followed ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Followed {
    pub(crate) lanes: Vec<FollowedLane>,
    /// Maximum bytes of all files, above which files without a snapshot are removed.
    pub(crate) keep_bytes: Option<u64>,
    /// Maximum age of files without a snapshot.
    pub(crate) keep_ns: Option<u64>,
}

/// Position of a lane. Of the `next - begin` rows handled, `lapped` were overwritten or dropped,
/// and the others were saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FollowedLane {
    /// First row handled.
    pub(crate) begin: u64,
    /// One past the last row handled.
    pub(crate) next: u64,
    pub(crate) lapped: u64,
}

/// Limits of rows kept on disk after the ring has overwritten them. By default no such rows are
/// kept. Both limits apply if given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Bytes of the ring's files up to which files without a snapshot are kept. All files of rows
    /// count, newest first.
    pub bytes: Option<u64>,
    /// Maximum age of a file.
    pub age: Option<Duration>,
}

impl Followed {
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep_bytes = keep.bytes;
        self.keep_ns = keep.age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns whether a file without a snapshot is kept. `bytes` includes it and all newer files.
    pub(crate) fn keeps(&self, bytes: u64, age_ns: u64) -> bool {
        let small = self.keep_bytes.is_none_or(|limit| bytes <= limit);
        let young = self.keep_ns.is_none_or(|limit| age_ns <= limit);
        (self.keep_bytes.is_some() || self.keep_ns.is_some()) && small && young
    }

    /// Returns a description of an invalid field, or `None` if all are valid.
    pub(crate) fn problem(&self, lanes: u32, max_seq: u64) -> Option<String> {
        if self.lanes.len() != lanes as usize {
            return Some(format!("{} lanes of it are followed", self.lanes.len()));
        }
        let bad = |lane: &FollowedLane| {
            let seen = lane.next.checked_sub(lane.begin);
            lane.next > max_seq || seen.is_none_or(|seen| lane.lapped > seen)
        };
        let at = self.lanes.iter().position(bad)?;
        Some(format!("the followed range of lane {at} is impossible"))
    }
}

impl FollowedLane {
    /// Returns the rows saved, including those removed since.
    pub(crate) fn persisted(&self) -> u64 {
        self.next.saturating_sub(self.begin).saturating_sub(self.lapped)
    }
}
