//! Objects as `backcast ls` and the daemon list them.

use std::path::{Path, PathBuf};

use backcast_core::{IoCause, ObjectKind};
use backcast_persist::{Snapshot, Store, StoreError};
use serde::Serialize;

use super::catalogue::{Content, Entry, ObjectState, Obstacle, shown_name};
use super::evicted;

/// JSON of a listed object; keys that do not apply are null.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) state: ObjectState,
    pub(crate) persistent: bool,
    pub(crate) size_bytes: u64,
    pub(crate) lane_count: Option<u32>,
    pub(crate) rows: Option<u64>,
    pub(crate) transitions: Option<u64>,
    pub(crate) days: Option<usize>,
    pub(crate) tickers: Option<usize>,
    /// Newest version of parameters.
    pub(crate) version: Option<u64>,
    pub(crate) error: Option<String>,
    /// Processes that hold the object, as far as this user can see them.
    pub(crate) holder_pids: Option<Vec<u32>>,
}

impl From<Entry> for Listed {
    fn from(Entry { info, state, content, .. }: Entry) -> Self {
        let mut listed = Self {
            kind: info.kind.as_str(),
            name: shown_name(&info),
            path: info.path,
            state,
            persistent: info.persistent,
            size_bytes: info.bytes,
            lane_count: None,
            rows: None,
            transitions: None,
            days: None,
            tickers: None,
            version: None,
            error: None,
            holder_pids: None,
        };
        match content {
            Content::Ring(stats) => {
                listed.lane_count = Some(stats.lanes);
                listed.rows = Some(stats.lane_stats.iter().map(|lane| lane.rows).sum());
                listed.transitions = Some(stats.transitions);
            }
            Content::Panel(panel) => {
                listed.days = Some(panel.days);
                listed.tickers = Some(panel.tickers.len());
            }
            Content::Params(stats) => listed.version = Some(stats.version),
            Content::Unopenable(_, why) => listed.error = Some(why),
            Content::Unopened => {}
        }
        listed
    }
}

impl Listed {
    pub(crate) fn snapshot(name: String, state: ObjectState) -> Self {
        Self {
            kind: "snapshot",
            name,
            path: PathBuf::new(),
            state,
            persistent: true,
            size_bytes: 0,
            lane_count: None,
            rows: None,
            transitions: None,
            days: None,
            tickers: None,
            version: None,
            error: None,
            holder_pids: None,
        }
    }

    /// Returns the entry of a name whose snapshots cannot be read.
    pub(crate) fn unread(name: String, path: PathBuf, error: &StoreError) -> Self {
        let state = Obstacle::of_store(error).state();
        Self { path, error: Some(error.to_string()), ..Self::snapshot(name, state) }
    }

    /// Returns the entry of a snapshot, or of an evicted ring.
    pub(crate) fn on_disk(snapshot: &Snapshot, store: &Path, evicted: bool) -> Self {
        let listed = if evicted {
            let ring = Self::snapshot(snapshot.name.clone(), ObjectState::Evicted);
            Self { kind: ObjectKind::Ring.as_str(), ..ring }
        } else {
            Self::snapshot(snapshot.spec(), ObjectState::Saved)
        };
        Self {
            path: store.join(&snapshot.name),
            size_bytes: snapshot.bytes,
            lane_count: u32::try_from(snapshot.lanes.len()).ok(),
            rows: Some(snapshot.rows),
            ..listed
        }
    }

    pub(crate) fn is_ring(&self, name: &str) -> bool {
        let whole = self.state != ObjectState::Building;
        self.kind == ObjectKind::Ring.as_str() && self.name == name && whole
    }
}

/// Lists rings that were evicted to a store and are not in `listed`. A name that cannot be read may
/// be such a ring: it is listed with its error, unless `listed` has an error of that name already.
/// Fails if the store cannot be listed, or this process has no files or memory left, which would
/// hide rings.
pub(crate) fn evicted_in(store: &Store, listed: &[Listed]) -> Result<Vec<Listed>, StoreError> {
    let mut found = Vec::new();
    for name in store.names()? {
        let path = store.path().join(&name);
        let is_known = |object: &Listed| {
            object.is_ring(&name) || (object.error.is_some() && object.path == path)
        };
        if listed.iter().any(is_known) {
            continue;
        }
        match store.snapshot(&evicted::spec(&name)) {
            Ok(snapshot) => found.push(Listed::on_disk(&snapshot, store.path(), true)),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) if is_of_process(&error) => return Err(error),
            Err(error) => found.push(Listed::unread(name, path, &error)),
        }
    }
    Ok(found)
}

/// Returns whether this process ran out of files or memory.
pub(crate) fn is_of_process(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if IoCause::of(source).is_of_process())
}
