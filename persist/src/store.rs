//! Directory of snapshots: locking, listing, removal.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backcast_core::plumbing::closest_name;
use backcast_core::{Column, Wait, WaitReport, processes_in_words};
use serde_json::Value;

use crate::chunk;
use crate::clock::unix_ns;
use crate::damage::Damage;
use crate::error::StoreError;
use crate::manifest::{Manifest, SavedRing, SavedSnapshot, SnapshotParams, is_chunk_name};
use crate::slots::{self, ManifestSlots};
use crate::spec::{SnapshotSpec, check_name};
use crate::storage::{Disk, LockGuard, LockKind, Storage};

/// Files of a saved ring's directory.
const SAVER_LOCK: &str = "store.lck";
const READERS_LOCK: &str = "readers.lck";
const CHUNKS: &str = "chunks";
/// Maximum wait of a reader for a process that removes files.
pub(crate) const READER_WAIT: Duration = Duration::from_secs(60);

/// A directory of snapshots. A handle holds no state: every operation reads the directory.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    storage: Arc<dyn Storage>,
}

/// A snapshot in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Name of the saved ring.
    pub name: String,
    /// Label of the snapshot.
    pub label: String,
    /// Wall clock of the save in nanoseconds since 1970.
    pub saved_unix_ns: u64,
    /// Identity of the ring.
    pub ring_uuid: String,
    /// The user's columns.
    pub columns: Vec<Column>,
    /// Rows that a lane keeps for readers.
    pub lane_capacity: u64,
    /// Rows of each lane.
    pub lanes: Vec<Range<u64>>,
    /// Rows over all lanes.
    pub rows: u64,
    /// Bytes of its files, including those shared with other snapshots.
    pub bytes: u64,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// State that was saved with it.
    pub state: Value,
    /// Parameters that were saved with it.
    pub params: Vec<SnapshotParams>,
}

impl Snapshot {
    /// Returns `name@label`.
    #[must_use]
    pub fn spec(&self) -> String {
        format!("{}@{}", self.name, self.label)
    }
}

/// Snapshots of a name, and damage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Damage of a manifest, or the error of reading it. The other manifest is used, so a snapshot
    /// may be missing.
    pub damages: Vec<Damage>,
}

/// Outcome of a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoveReport {
    /// `name@label` of the removed snapshots.
    pub removed: Vec<String>,
    /// Bytes of the removed files.
    pub bytes_freed: u64,
}

impl Store {
    /// Returns the store in a directory, which the first save creates.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::with_storage(dir, Arc::new(Disk))
    }

    /// Returns the user's store: `$BACKCAST_STORE`, else `$XDG_DATA_HOME/backcast`, else
    /// `~/.local/share/backcast`.
    pub fn standard() -> Result<Self, StoreError> {
        let place =
            |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        place("BACKCAST_STORE")
            .or_else(|| place("XDG_DATA_HOME").map(|dir| dir.join("backcast")))
            .or_else(|| place("HOME").map(|dir| dir.join(".local/share/backcast")))
            .map(Self::at)
            .ok_or(StoreError::NoPlace)
    }

    /// Returns a store on another [`Storage`].
    pub fn with_storage(dir: impl Into<PathBuf>, storage: Arc<dyn Storage>) -> Self {
        Self { dir: dir.into(), storage }
    }

    /// Returns the directory of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Lists the names of saved rings in order.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = match self.storage.names(&self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::io("list", &self.dir)(error)),
        };
        names.retain(|name| check_name("name", name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    /// Lists the snapshots of a name, oldest first.
    pub fn snapshots(&self, name: &str) -> Result<Listing, StoreError> {
        let folder = self.folder(name)?;
        let Some(slots) = folder.read()? else { return Ok(Listing::default()) };
        let manifest = &slots.manifest;
        let of = |snapshot| listed(manifest, snapshot, &folder.chunks);
        let snapshots = manifest.snapshots.iter().filter_map(of).collect();
        Ok(Listing { snapshots, damages: slots.damage.into_iter().collect() })
    }

    /// Returns the snapshot `"pong@epoch-10"`, or the newest of `"pong"`.
    pub fn snapshot(&self, spec: &str) -> Result<Snapshot, StoreError> {
        let spec: SnapshotSpec = spec.parse()?;
        let folder = self.folder(&spec.name)?;
        let slots = folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let found = self.find(&spec, &slots)?;
        listed(&slots.manifest, found, &folder.chunks)
            .ok_or_else(|| self.not_found(&spec, Some(&slots.manifest)))
    }

    /// Removes the snapshot `"pong@epoch-10"`, or all of `"pong"`, and the files that no other
    /// snapshot needs. Loaded rings are not affected. Waits up to a minute for a process that saves
    /// under the same name.
    pub fn remove(&self, spec: &str) -> Result<RemoveReport, StoreError> {
        self.remove_within(spec, Duration::from_secs(60), || ControlFlow::Continue(()))
    }

    /// Removes like [`remove`](Self::remove), with a maximum wait for a process that saves under
    /// the same name. `waiting` is called repeatedly and may end the wait.
    pub fn remove_within(
        &self,
        spec: &str,
        wait: Duration,
        waiting: impl FnMut() -> ControlFlow<()>,
    ) -> Result<RemoveReport, StoreError> {
        let spec: SnapshotSpec = spec.parse()?;
        let folder = self.folder(&spec.name)?;
        // Check before locking, since the lock creates a file.
        folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let waiting = RefCell::new(waiting);
        let stops = || (waiting.borrow_mut())().is_break();
        let _changing = folder.lock_for_change(wait, &stops)?;
        let slots = folder.read_for_change()?.ok_or_else(|| self.not_found(&spec, None))?;
        let mut next = slots.manifest.clone();
        match &spec.label {
            Some(label) => {
                self.find(&spec, &slots)?;
                next.snapshots.retain(|snapshot| snapshot.label != *label);
            }
            None => next.snapshots.clear(),
        }
        let mut report = RemoveReport {
            removed: slots
                .manifest
                .snapshots
                .iter()
                .filter(|old| next.snapshots.iter().all(|s| s.label != old.label))
                .map(|old| format!("{}@{}", spec.name, old.label))
                .collect(),
            bytes_freed: 0,
        };
        next.reset_unfollowed(&slots.manifest);
        next.prune(unix_ns());
        // Write both slots, so that no manifest names the files any more.
        let once = slots::write(&*self.storage, &folder.dir, &slots, next.clone())?;
        let twice = slots::write(&*self.storage, &folder.dir, &once, next)?;
        report.bytes_freed = folder.sweep(&twice);
        Ok(report)
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn folder(&self, name: &str) -> Result<NameFolder<'_>, StoreError> {
        check_name("name", name)?;
        let dir = self.dir.join(name);
        let chunks = dir.join(CHUNKS);
        Ok(NameFolder { storage: &*self.storage, name: name.to_owned(), dir, chunks })
    }

    /// Creates the directories of the store and of a name if they are missing.
    pub(crate) fn make_folder(&self, name: &str) -> Result<NameFolder<'_>, StoreError> {
        let folder = self.folder(name)?;
        // After the first save all parent directories are on disk. Before the first save they may
        // exist and not be on disk: their creator may have been killed before it synced them.
        if folder.read()?.is_some() {
            return Ok(folder);
        }
        let mut above: Vec<&Path> = self.dir.ancestors().collect();
        above.pop();
        for dir in above.into_iter().rev().chain([folder.dir.as_path(), folder.chunks.as_path()]) {
            let made = match self.storage.make_dir(dir) {
                Ok(made) => made,
                // The directory may exist already, in a parent that is read-only.
                Err(_) if self.storage.names(dir).is_ok() => false,
                Err(error) => return Err(StoreError::io("create", dir)(error)),
            };
            let parent = match dir.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            match self.storage.sync_dir(parent) {
                // A directory that this user may not read was not created here.
                Err(error) if !made && error.kind() == ErrorKind::PermissionDenied => {}
                synced => synced.map_err(StoreError::io("force to disk", parent))?,
            }
        }
        Ok(folder)
    }

    /// Finds a snapshot. Fails if a manifest was not read, since it may be the newer one and list
    /// other snapshots.
    pub(crate) fn find<'m>(
        &self,
        spec: &SnapshotSpec,
        slots: &'m ManifestSlots,
    ) -> Result<&'m SavedSnapshot, StoreError> {
        slots.all_read()?;
        let manifest = &slots.manifest;
        let found = match &spec.label {
            Some(label) => manifest.snapshots.iter().find(|s| s.label == *label),
            None => manifest.snapshots.last(),
        };
        found.ok_or_else(|| self.not_found(spec, Some(manifest)))
    }

    pub(crate) fn not_found(&self, spec: &SnapshotSpec, manifest: Option<&Manifest>) -> StoreError {
        let (what, suggestion) = match (manifest, &spec.label) {
            (Some(manifest), Some(label)) => {
                let known = manifest.snapshots.iter().map(|s| s.label.as_str());
                ("snapshot", closest_name(label, known).map(|near| format!("{}@{near}", spec.name)))
            }
            (Some(_), None) => ("snapshot", None),
            (None, _) => {
                let names = self.names().unwrap_or_default();
                let near = closest_name(&spec.name, names.iter().map(String::as_str));
                ("ring", near.map(str::to_owned))
            }
        };
        let name = if what == "ring" { spec.name.clone() } else { spec.to_string() };
        StoreError::NotFound { what, name, store: self.dir.clone(), suggestion }
    }
}

/// Directory of a name.
#[derive(Debug)]
pub(crate) struct NameFolder<'a> {
    storage: &'a dyn Storage,
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) chunks: PathBuf,
}

impl NameFolder<'_> {
    pub(crate) fn read(&self) -> Result<Option<ManifestSlots>, StoreError> {
        slots::read(self.storage, &self.dir, &self.name)
    }

    /// Reads the slots for a change. An unreadable slot is an error: it may hold the newer
    /// manifest, so it must not be overwritten.
    pub(crate) fn read_for_change(&self) -> Result<Option<ManifestSlots>, StoreError> {
        let slots = self.read()?;
        slots.as_ref().map_or(Ok(()), ManifestSlots::all_read)?;
        Ok(slots)
    }

    /// Locks the directory for a change. `stops` is asked during the wait, and may end it.
    pub(crate) fn lock_for_change(
        &self,
        limit: Duration,
        stops: &dyn Fn() -> bool,
    ) -> Result<Box<dyn LockGuard>, StoreError> {
        let path = self.dir.join(SAVER_LOCK);
        self.lock(&path, LockKind::Exclusive, limit, stops).map_err(|error| match error {
            NotLocked::Io(error) => StoreError::io("lock", &path)(error),
            NotLocked::Busy(busy) => busy,
        })
    }

    /// Keeps files from being removed while they are read. Readers share the lock; removers only
    /// try it. Returns `None` if this user cannot write the directory, so that no lock can be
    /// created. `stops` is called during the wait for a remover, and may end it.
    pub(crate) fn lock_for_reading(
        &self,
        stops: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn LockGuard>>, StoreError> {
        let path = self.dir.join(READERS_LOCK);
        match self.lock(&path, LockKind::Shared, READER_WAIT, stops) {
            Ok(guard) => Ok(Some(guard)),
            Err(NotLocked::Busy(busy)) => Err(busy),
            Err(NotLocked::Io(error)) => match error.kind() {
                ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Ok(None),
                _ => Err(StoreError::io("lock", &path)(error)),
            },
        }
    }

    fn lock(
        &self,
        path: &Path,
        kind: LockKind,
        limit: Duration,
        stops: &dyn Fn() -> bool,
    ) -> Result<Box<dyn LockGuard>, NotLocked> {
        let ends = |_: Option<WaitReport<'_>>| stops();
        let mut wait = Wait::ended_by(Some(limit), &ends);
        let holder = || processes_in_words(&self.storage.lock_holders(path, kind));
        let report = |waited: Duration| {
            let (seconds, dir) = (waited.as_secs_f64(), self.dir.display());
            format!("waits for {seconds:.0} s for {}, which changes {dir}", holder())
        };
        let locked = wait.poll(report, || self.storage.lock(path, kind).map_err(NotLocked::Io))?;
        locked.map_err(|_| {
            let waited_ms = wait.waited().as_millis();
            let (path, holder) = (self.dir.clone(), holder());
            NotLocked::Busy(StoreError::Busy { path, holder, waited_ms })
        })
    }

    /// Removes files that no manifest names: those of removed snapshots and killed processes. Does
    /// nothing while a reader has the lock. Returns the bytes freed.
    ///
    /// Failures only cost space until the next call, so they are not errors.
    pub(crate) fn sweep(&self, slots: &ManifestSlots) -> u64 {
        let path = self.dir.join(READERS_LOCK);
        let Ok(Some(_alone)) = self.storage.lock(&path, LockKind::Exclusive) else { return 0 };
        let manifests = [Some(&slots.manifest), slots.older.as_ref()];
        let named = |file: &str| {
            let mut chunks = manifests.iter().flatten().flat_map(|manifest| manifest.chunks());
            chunks.any(|chunk| chunk.file == file)
        };
        let mut freed = 0;
        for name in self.storage.names(&self.chunks).unwrap_or_default() {
            let garbage = chunk::is_leftover(&name) || (is_chunk_name(&name) && !named(&name));
            let path = self.chunks.join(&name);
            if garbage {
                let bytes = self.storage.open(&path).and_then(|file| file.bytes()).unwrap_or(0);
                freed += if self.storage.remove(&path).is_ok() { bytes } else { 0 };
            }
        }
        for name in self.storage.names(&self.dir).unwrap_or_default() {
            if slots::is_leftover(&name) {
                let _ = self.storage.remove(&self.dir.join(name));
            }
        }
        freed
    }
}

/// Reason why a directory is not locked.
enum NotLocked {
    Io(io::Error),
    Busy(StoreError),
}

/// Describes a snapshot of a checked manifest.
pub(crate) fn listed(
    manifest: &Manifest,
    snapshot: &SavedSnapshot,
    chunks: &Path,
) -> Option<Snapshot> {
    let ring: &SavedRing = manifest.ring(&snapshot.ring)?;
    let files = || {
        let of_rows = ring.chunks.iter();
        let of_rows = of_rows.filter(|chunk| chunk.batches.iter().any(|b| snapshot.names(b)));
        of_rows.chain(snapshot.chunks_beside_rows())
    };
    Some(Snapshot {
        name: manifest.name.clone(),
        label: snapshot.label.clone(),
        saved_unix_ns: snapshot.unix_ns,
        ring_uuid: ring.uuid.clone(),
        columns: ring.schema().ok()?.columns().to_vec(),
        lane_capacity: ring.lane_capacity,
        lanes: snapshot.lanes.iter().map(|(first, head)| *first..*head).collect(),
        rows: snapshot.rows(),
        bytes: files().map(|chunk| chunk.bytes).sum(),
        files: files().map(|chunk| chunks.join(&chunk.file)).collect(),
        state: snapshot.state.clone(),
        params: snapshot.params.iter().map(SnapshotParams::from).collect(),
    })
}
