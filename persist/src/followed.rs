//! What a manifest says of a ring that is followed: how far each lane was, what was lost, and how
//! long files are kept that no snapshot names.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Of a ring that is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Followed {
    pub(crate) lanes: Vec<FollowedLane>,
    /// Files that no snapshot names are kept while all files of the ring have no more bytes.
    pub(crate) keep_bytes: Option<u64>,
    /// They are kept until they are so old.
    pub(crate) keep_ns: Option<u64>,
}

/// `next - begin` rows were dealt with: `lapped` of them were overwritten before they could be copied,
/// the others went to files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FollowedLane {
    /// First row that was looked at.
    pub(crate) begin: u64,
    /// One past the last.
    pub(crate) next: u64,
    pub(crate) lapped: u64,
}

/// How long rows stay on disk that the ring itself does not keep any more; not at all, unless said.
/// Where both limits are given, both hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Bytes of all files of the ring.
    pub bytes: Option<u64>,
    /// Age of a file.
    pub age: Option<Duration>,
}

impl Followed {
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep_bytes = keep.bytes;
        self.keep_ns = keep.age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Whether a file stays that no snapshot names: `bytes` are its own and those of newer ones.
    pub(crate) fn keeps(&self, bytes: u64, age_ns: u64) -> bool {
        let small = self.keep_bytes.is_none_or(|limit| bytes <= limit);
        let young = self.keep_ns.is_none_or(|limit| age_ns <= limit);
        (self.keep_bytes.is_some() || self.keep_ns.is_some()) && small && young
    }

    /// What no manifest of ours says.
    pub(crate) fn problem(&self, lanes: u32, max_seq: u64) -> Option<String> {
        if self.lanes.len() != lanes as usize {
            return Some(format!("{} lanes of it are followed", self.lanes.len()));
        }
        let bad = |lane: &FollowedLane| {
            let seen = lane.next.checked_sub(lane.begin);
            lane.next > max_seq || seen.is_none_or(|seen| lane.lapped > seen)
        };
        let at = self.lanes.iter().position(bad)?;
        Some(format!("what is followed of lane {at} cannot be"))
    }
}

impl FollowedLane {
    /// Rows that went to files, those included that were removed since.
    pub(crate) fn persisted(&self) -> u64 {
        self.next.saturating_sub(self.begin).saturating_sub(self.lapped)
    }
}
