//! The wall clock.

/// Returns the wall clock in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}
