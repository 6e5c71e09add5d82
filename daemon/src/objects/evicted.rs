//! Snapshots of rings that a daemon evicted.

/// Label of the snapshot of an evicted ring.
pub(crate) const EVICTED: &str = "evicted";

/// Returns the name of the snapshot of an evicted ring.
pub(crate) fn spec(name: &str) -> String {
    format!("{name}@{EVICTED}")
}
