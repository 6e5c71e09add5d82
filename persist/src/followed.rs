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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_followed_range_holds_what_was_overwritten_and_ends_below_the_limit() {
        let lane = |begin, next, lapped| FollowedLane { begin, next, lapped };
        for (last, lanes, problem) in [
            (lane(3, 10, 7), 2, None),
            (lane(0, 0, 0), 2, None),
            (lane(3, 100, 0), 2, None),
            (lane(3, 10, 8), 2, Some("the followed range of lane 1 is impossible")),
            (lane(11, 10, 0), 2, Some("the followed range of lane 1 is impossible")),
            (lane(3, 101, 0), 2, Some("the followed range of lane 1 is impossible")),
            (lane(3, 10, 7), 3, Some("2 lanes of it are followed")),
        ] {
            let followed = Followed { lanes: vec![lane(0, 5, 5), last], ..Followed::default() };
            assert_eq!(followed.problem(lanes, 100).as_deref(), problem, "{last:?}");
        }
        assert_eq!(lane(3, 10, 2).persisted(), 5);
    }

    #[test]
    fn files_without_a_snapshot_are_kept_while_both_limits_hold() {
        let followed = |bytes, age| {
            let mut followed = Followed::default();
            followed.keep(Keep { bytes, age });
            followed
        };
        let second = Some(Duration::from_secs(1));
        for (bytes, age, kept) in [
            (None, None, [false; 4]),
            (Some(10), None, [true, true, false, false]),
            (None, second, [true, false, true, false]),
            (Some(10), second, [true, false, false, false]),
            (None, Some(Duration::MAX), [true; 4]),
        ] {
            let files = [
                (10, 1_000_000_000),
                (10, 1_000_000_001),
                (11, 1_000_000_000),
                (11, 1_000_000_001),
            ];
            let found = files.map(|(size, age_ns)| followed(bytes, age).keeps(size, age_ns));
            assert_eq!(found, kept, "{bytes:?} {age:?}");
        }
    }
}
