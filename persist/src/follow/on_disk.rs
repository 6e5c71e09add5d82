//! Progress of a follower on disk, and where a follower continues after a periodic snapshot.

use std::time::{Duration, Instant};

use backcast_core::Ring;

use crate::clock::unix_ns;
use crate::copy::hex;
use crate::error::SaveError;
use crate::followed::FollowedLane;
use crate::spec::ROLLING;
use crate::store::Store;

/// Progress on disk.
#[derive(Debug)]
pub(super) enum Done {
    /// Progress by lane.
    Lanes(Vec<FollowedLane>),
    /// Rows published at the last periodic snapshot, rows in it, its number, and the time at which
    /// the next is due.
    Snapshot { rows: u64, persisted: u64, due: Instant, number: u64 },
}

/// Returns the position at the last periodic snapshot of the ring, and the first row of each lane
/// in it.
pub(super) fn last_snapshot(
    store: &Store,
    name: &str,
    ring: &Ring,
    every: Duration,
) -> Result<(Done, Option<Vec<u64>>), SaveError> {
    let uuid = hex(ring.uuid());
    let listing = store.snapshots(name)?;
    let rolling = || listing.snapshots.iter().filter(|s| s.label.starts_with(ROLLING));
    let number =
        rolling().filter_map(|s| s.label.strip_prefix(ROLLING)?.parse().ok()).max().unwrap_or(0);
    let now = Instant::now();
    let last = rolling().filter(|s| s.ring_uuid == uuid).max_by_key(|s| s.saved_unix_ns);
    let Some(last) = last else {
        let due = now + every;
        return Ok((Done::Snapshot { rows: 0, persisted: 0, due, number }, None));
    };
    let age = Duration::from_nanos(unix_ns().saturating_sub(last.saved_unix_ns));
    let rows = last.lanes.iter().map(|lane| lane.end).sum();
    let due = now + every.saturating_sub(age);
    let starts = last.lanes.iter().map(|lane| lane.start).collect();
    Ok((Done::Snapshot { rows, persisted: last.rows, due, number }, Some(starts)))
}
