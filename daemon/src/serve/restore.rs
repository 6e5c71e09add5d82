//! Restores evicted rings.

use backcast_core::{Exist, Ring, RingError, SegmentError};
use backcast_persist::{Snapshot, Store};
use serde_json::Value;

use super::budget::evict::{MEMFD, MODE, evicted, forget};
use super::shared::Shared;
use super::snapshot::loaded;
use crate::objects::persist;
use crate::protocol::{Code, Refusal};

/// Attaches to a ring, restoring it if it was evicted.
pub(crate) fn attach(shared: &Shared, name: &str) -> Result<Ring, Refusal> {
    let missing = match Ring::attach_in(&shared.base, name) {
        Err(RingError::Segment(error @ SegmentError::NotFound { .. })) => error,
        attached => return Ok(attached?),
    };
    let _turn = shared.turn();
    // Another request may have restored it meanwhile.
    if let Ok(ring) = Ring::attach_in(&shared.base, name) {
        return Ok(ring);
    }
    match evicted(shared, name)? {
        Some((store, snapshot)) => bring_back(shared, name, &store, &snapshot),
        None => Err(missing.into()),
    }
}

/// Restores an evicted ring. The caller holds the lock of `Shared::turn`.
pub(crate) fn bring_back(
    shared: &Shared,
    name: &str,
    store: &Store,
    snapshot: &Snapshot,
) -> Result<Ring, Refusal> {
    let memfd = snapshot.state.get(MEMFD).and_then(Value::as_bool).unwrap_or(false);
    let ring = loaded(shared, store, snapshot, name, (Exist::Error, true, memfd))?;
    let mode = snapshot.state.get(MODE).and_then(Value::as_str).and_then(|mode| mode.parse().ok());
    if let (Some(mode), Some(dir)) = (mode, ring.path()) {
        persist::ask(dir, mode).map_err(|why| Refusal::new(Code::Storage, why))?;
    }
    forget(store, name);
    tracing::info!(ring = %name, rows = snapshot.rows, "brought back");
    Ok(ring)
}
