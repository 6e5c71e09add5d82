//! Wall clock of saves.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the wall clock in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
