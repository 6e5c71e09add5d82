//! Rings that nobody uses make room for others: they are saved, and their memory is freed. Who asks
//! the daemon for one gets it back.

use backcast_core::{
    Base, Exist, Kind, ObjectInfo, Observed, Ring, SegmentError, list, remove_unheld,
};
use backcast_persist::{Snapshot, Store};
use serde_json::{Value, json};

use super::caller::Caller;
use super::shared::Shared;
use super::snapshot::{loaded, refused};
use crate::catalogue::is_garbage;
use crate::persist;
use crate::wire::Refusal;

/// Label of the snapshot of a ring that made room.
pub(crate) const EVICTED: &str = "evicted";
/// A ring that is used again and again while it is being saved is left alone.
const ATTEMPTS: u32 = 3;
/// In the state of its snapshot: how it was brought to disk.
const MODE: &str = "persist";
/// And whether it lay in memfds.
const MEMFD: &str = "memfd";

/// Saves the ring that was used least recently, of those that are persistent and that nobody holds, and
/// frees its memory. `false`: there is none. The turn is the caller's.
pub(crate) fn evict_one(shared: &Shared, but: &str) -> Result<bool, Refusal> {
    let mut idle: Vec<(u64, ObjectInfo)> = list(&shared.base)?
        .into_iter()
        .filter(|info| info.kind == Kind::Ring && !info.building && !info.held)
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

/// When somebody last claimed a lane or a reader slot. `None`: it is a snapshot, or cannot be opened.
fn last_use(base: &Base, name: &str) -> Option<u64> {
    let observed = Observed::open(base, name).ok().filter(|ring| !ring.ring().is_snapshot())?;
    let readers = observed.readers();
    let claims = readers.iter().map(|(_, record)| record.claimed_unix_ns);
    Some(claims.chain(observed.writers()).fold(observed.created_unix_ns(), u64::max))
}

/// `false`: somebody uses it after all.
fn evict(shared: &Shared, info: &ObjectInfo) -> Result<bool, Refusal> {
    let name = info.name.as_str();
    let store = shared.persist().store().map_err(refused)?;
    for _ in 0..ATTEMPTS {
        let Ok(observed) = Observed::open(&shared.base, name) else { return Ok(false) };
        let ring = observed.ring();
        let mode = ring.path().and_then(persist::asked);
        let mode = mode.map_or(Value::Null, |mode| mode.as_str().into());
        let state = json!({ MODE: mode, MEMFD: observed.stats().memfd });
        let published = ring.rows_published();
        store.save_evicted(ring, name, state).map_err(refused)?;
        // Nobody can take hold of it while this is asked: what is saved is what there is.
        let sure = || ring.rows_published() == published;
        match remove_unheld(&shared.base, Kind::Ring, name, sure) {
            Ok(Some(removed)) => {
                // What it had in memfds goes back now.
                shared.keep_memory()?;
                tracing::info!(ring = %name, bytes = removed.bytes, "evicted");
                return Ok(true);
            }
            // Somebody wrote rows meanwhile, and left.
            Ok(None) => {}
            Err(SegmentError::InUse { .. } | SegmentError::NotFound { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // It is in memory: what was saved of it is not its only copy.
    let _ = store.remove(&spec(name));
    Ok(false)
}

/// A ring of that name that was evicted.
pub(crate) fn evicted(shared: &Shared, name: &str) -> Option<(Store, Snapshot)> {
    let store = shared.persist().store().ok()?;
    let snapshot = store.snapshot(&spec(name)).ok()?;
    Some((store, snapshot))
}

/// Has it in memory again. The turn is the caller's.
pub(crate) fn bring_back(
    shared: &Shared,
    name: &str,
    store: &Store,
    snapshot: &Snapshot,
    caller: Caller,
) -> Result<Ring, Refusal> {
    let memfd = snapshot.state.get(MEMFD).and_then(Value::as_bool).unwrap_or(false);
    let ring = loaded(shared, store, snapshot, name, (Exist::Error, true, memfd), caller)?;
    let mode = snapshot.state.get(MODE).and_then(Value::as_str).and_then(|mode| mode.parse().ok());
    if let (Some(mode), Some(dir)) = (mode, ring.path()) {
        persist::ask(dir, mode).map_err(|why| Refusal::new(crate::wire::Code::Storage, why))?;
    }
    forget(store, name);
    tracing::info!(ring = %name, rows = snapshot.rows, "brought back");
    Ok(ring)
}

/// What was evicted is not to come back.
pub(crate) fn forget(store: &Store, name: &str) {
    if let Err(error) = store.remove(&spec(name)) {
        tracing::warn!(ring = %name, %error, "a snapshot stays that is not needed any more");
    }
}

fn spec(name: &str) -> String {
    format!("{name}@{EVICTED}")
}
