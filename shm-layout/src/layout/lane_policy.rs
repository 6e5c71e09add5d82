//! Policy of a writer when a lease stops it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Policy of a writer about rows that a lease freezes.
///
/// A lease is never revoked: its holder reads the rows by plain loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum LanePolicy {
    /// The ring grants no leases, so no lease ever blocks a writer. The cheapest policy.
    Overwrite,
    /// Wait for the end of the lease, once per lease and at most this long. If it has not ended by
    /// then, drop the new row and mark a gap.
    Block(Duration),
    /// Drop the new row without waiting and mark a gap.
    DropNew,
    /// Refuse the append.
    Fail,
}

impl Default for LanePolicy {
    fn default() -> Self {
        LanePolicy::Block(Duration::from_secs(1))
    }
}

impl LanePolicy {
    /// Maximum time-out of [`Block`](Self::Block).
    pub const MAX_TIMEOUT: Duration = Duration::from_secs(3600);

    /// Returns `"overwrite"`, `"block"`, `"drop_new"` or `"fail"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LanePolicy::Overwrite => "overwrite",
            LanePolicy::Block(_) => "block",
            LanePolicy::DropNew => "drop_new",
            LanePolicy::Fail => "fail",
        }
    }

    /// Returns whether the ring grants leases.
    #[must_use]
    pub fn grants_leases(self) -> bool {
        self != LanePolicy::Overwrite
    }

    /// Returns the longest wait for a lease; zero for a policy that does not wait.
    #[must_use]
    pub fn timeout(self) -> Duration {
        match self {
            LanePolicy::Block(timeout) => timeout,
            _ => Duration::ZERO,
        }
    }

    /// Returns the policy's number and its time-out in milliseconds, as in the superblock.
    pub(crate) fn to_words(self) -> (u32, u32) {
        let number = match self {
            LanePolicy::Overwrite => 0,
            LanePolicy::Block(_) => 1,
            LanePolicy::DropNew => 2,
            LanePolicy::Fail => 3,
        };
        (number, u32::try_from(self.timeout().as_millis()).unwrap_or(u32::MAX))
    }

    pub(crate) fn from_words(number: u32, timeout_ms: u32) -> Option<Self> {
        let timeout = Duration::from_millis(timeout_ms.into());
        let policy = match number {
            0 => LanePolicy::Overwrite,
            1 => LanePolicy::Block(timeout),
            2 => LanePolicy::DropNew,
            3 => LanePolicy::Fail,
            _ => return None,
        };
        // A policy without a time-out must store zero, and a time-out must be within the limit.
        (policy.to_words() == (number, timeout_ms) && timeout <= Self::MAX_TIMEOUT)
            .then_some(policy)
    }
}

impl fmt::Display for LanePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no [`LanePolicy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lane_policy is `{0}`; use \"block\", \"drop_new\", \"fail\" or \"overwrite\"")]
pub struct BadLanePolicy(pub String);

impl FromStr for LanePolicy {
    type Err = BadLanePolicy;

    /// Parses the name of a policy. `"block"` has the default time-out.
    fn from_str(text: &str) -> Result<Self, BadLanePolicy> {
        [LanePolicy::Overwrite, LanePolicy::default(), LanePolicy::DropNew, LanePolicy::Fail]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| BadLanePolicy(text.to_owned()))
    }
}
