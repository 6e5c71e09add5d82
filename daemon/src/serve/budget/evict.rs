//! Evicts unused rings: saves them and frees their memory.

use backcast_core::{
    Base, ObjectInfo, ObjectKind, Observed, SegmentError, list_objects, remove_unheld_object,
};
use backcast_persist::{Snapshot, Store, StoreError};
use serde_json::{Value, json};

use crate::objects::catalogue::is_garbage;
use crate::objects::evicted::spec;
use crate::objects::persist;
use crate::protocol::Refusal;
use crate::serve::shared::Shared;

/// Maximum attempts to save a ring that is written meanwhile.
const ATTEMPTS: u32 = 3;
/// Key of the persistence mode in the snapshot's state.
pub(crate) const MODE: &str = "persist";
/// Key in the snapshot's state of the flag that is true if the ring was in memfds.
pub(crate) const MEMFD: &str = "memfd";

/// Evicts one ring that is persistent, not held and not called `but`: the least recently used one
/// that can be evicted. Returns false if there is none. The caller holds the lock of
/// `Shared::turn`.
pub(crate) fn evict_one(shared: &Shared, but: &str) -> Result<bool, Refusal> {
    let mut idle: Vec<(u64, ObjectInfo)> = list_objects(&shared.base)?
        .into_iter()
        .filter(|info| info.kind == ObjectKind::Ring && !info.building && !info.held)
        .filter(|info| info.persistent && !is_garbage(info) && info.name != but)
        .filter_map(|info| Some((last_use(&shared.base, &info.name)?, info)))
        .collect();
    idle.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    for (_, info) in idle {
        if evict(shared, &info)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns when a lane or reader slot was last claimed, or when the ring was created if that is
/// later, in nanoseconds since 1970. Returns `None` for a snapshot, or a ring that cannot be
/// opened.
fn last_use(base: &Base, name: &str) -> Option<u64> {
    let observed = Observed::open(base, name).ok().filter(|ring| !ring.ring().is_snapshot())?;
    let readers = observed.readers();
    let claims = readers.iter().map(|(_, record)| record.claimed_unix_ns);
    Some(claims.chain(observed.writers()).fold(observed.created_unix_ns(), u64::max))
}

/// Evicts a ring. Returns false if that is not possible: the ring cannot be opened, is in use, is
/// written during every attempt, or has a part that cannot be saved.
fn evict(shared: &Shared, info: &ObjectInfo) -> Result<bool, Refusal> {
    let name = info.name.as_str();
    let store = shared.persist().store()?;
    for _ in 0..ATTEMPTS {
        let Ok(observed) = Observed::open(&shared.base, name) else { return Ok(false) };
        let ring = observed.ring();
        let mode = ring.path().and_then(persist::asked);
        let mode = mode.map_or(Value::Null, |mode| mode.as_str().into());
        let state = json!({ MODE: mode, MEMFD: observed.stats().memfd });
        let spans = || (0..ring.lanes()).map(|lane| ring.lane_span(lane)).collect::<Vec<_>>();
        let saved = spans();
        let report = store.save_evicted(ring, name, state)?;
        // Keep the ring: only its memory has what the snapshot lacks.
        if let Some(left_out) = report.left_out.first() {
            tracing::warn!(ring = %name, "it is not evicted: {left_out}");
            break;
        }
        // No process can attach during this check, so the snapshot has all rows.
        let sure = || spans() == saved;
        match remove_unheld_object(&shared.base, ObjectKind::Ring, name, sure) {
            Ok(Some(removed)) => {
                // Also frees the memory of removed rings: if this one was in memfds, the daemon
                // still holds it.
                shared.keep_memory()?;
                tracing::info!(ring = %name, bytes = removed.bytes, "evicted");
                return Ok(true);
            }
            // Rows were written or dropped meanwhile; save again.
            Ok(None) => {}
            Err(SegmentError::InUse { .. } | SegmentError::NotFound { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // The ring stays in memory, so its snapshot is not needed.
    let _ = store.remove(&spec(name));
    Ok(false)
}

/// Finds the snapshot of an evicted ring. Fails if the system does not read the store. Otherwise a
/// new ring could take the place of a snapshot that exists.
pub(crate) fn evicted(shared: &Shared, name: &str) -> Result<Option<(Store, Snapshot)>, Refusal> {
    let Ok(store) = shared.persist().store() else { return Ok(None) };
    match store.snapshot(&spec(name)) {
        Ok(snapshot) => Ok(Some((store, snapshot))),
        Err(error @ (StoreError::Io { .. } | StoreError::Unreadable { .. })) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Removes the snapshot of an evicted ring.
pub(crate) fn forget(store: &Store, name: &str) {
    if let Err(error) = store.remove(&spec(name)) {
        tracing::warn!(ring = %name, %error, "a snapshot stays that is not needed any more");
    }
}
