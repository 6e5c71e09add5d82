//! Loads a snapshot as a ring in shared memory, complete or not at all.

use std::ops::{ControlFlow, Range};

use backcast_core::{
    Base, DType, Exist, Filling, Params, ParamsOptions, RestoreError, Ring, RingError, RingOptions,
    SegmentError,
};
use backcast_files::{OnProgress, Progress, RingPlacement};

use crate::chunk::ChunkFile;
use crate::damage::{Damage, DamageKind};
use crate::error::{LoadError, NotFilled};
use crate::layout::{BatchLayout, unpack_bools};
use crate::learned;
use crate::manifest::{
    SavedBatch, SavedChunk, SavedLimiter, SavedParams, SavedRing, SavedSnapshot,
};
use crate::params;
use crate::spec::SnapshotSpec;
use crate::storage::{LockGuard, Storage};
use crate::store::{NameFolder, Snapshot, Store, listed};
use crate::tables;
use crate::waiting::Stops;

/// Maximum number of tries to attach to a snapshot's copy in shared memory, or to create it.
const ATTEMPTS: u32 = 64;

/// Options of a load.
#[must_use]
#[derive(Default)]
pub struct LoadOptions<'a> {
    name: Option<String>,
    placement: RingPlacement,
    progress: Option<OnProgress<'a>>,
}

impl std::fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadOptions")
            .field("name", &self.name)
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}

impl<'a> LoadOptions<'a> {
    /// Sets the name of the ring (default: the saved one).
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the base directory of the ring.
    pub fn base(mut self, base: Base) -> Self {
        self.placement.base = base;
        self
    }

    /// Sets the behaviour if the name is taken. A replaced ring stays until the new one is
    /// complete.
    pub fn exist(mut self, exist: Exist) -> Self {
        self.placement.exist = exist;
        self
    }

    /// Sets whether the ring stays when no process holds it.
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.placement.persistent = persistent;
        self
    }

    /// Sets whether the ring is in sealed memfds
    /// ([`RingOptions::memfd`](backcast_core::RingOptions::memfd)).
    pub fn memfd(mut self, memfd: bool) -> Self {
        self.placement.memfd = memfd;
        self
    }

    /// Sets whether to ask the system for huge pages (default: yes).
    pub fn huge_pages(mut self, ask: bool) -> Self {
        self.placement.huge_pages = ask;
        self
    }

    /// Calls `progress` after every few megabytes; it may stop the load.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }
}

impl Store {
    /// Makes a ring from `"pong@epoch-10"`, or from the newest snapshot of `"pong"`. Sequence
    /// numbers, episodes, flags, priorities, learned values and claims are as they were: a sampler
    /// of the same seed draws the same. The rate limiter keeps its limits and counts. Writers
    /// continue after the newest row. Every byte that is read is checked.
    ///
    /// Needs memory for one batch and one table beside the ring. O(bytes).
    pub fn load(&self, spec: &str, options: LoadOptions<'_>) -> Result<Ring, LoadError> {
        Ok(self.load_with_state(spec, options)?.0)
    }

    /// Loads like [`load`](Self::load), and returns the snapshot with its label and state.
    pub fn load_with_state(
        &self,
        spec: &str,
        mut options: LoadOptions<'_>,
    ) -> Result<(Ring, Snapshot), LoadError> {
        let spec: SnapshotSpec = spec.parse()?;
        let name = options.name.clone().unwrap_or_else(|| spec.name.clone());
        self.restore(&spec, &name, &mut options, false)
    }

    /// Attaches to the copy of the snapshot `"pong@epoch-10"`, or of the newest one of `"pong"`, in
    /// shared memory. Loads the copy if there is none. The copy is read-only and named like the
    /// snapshot. All processes share it, and it is removed with its last holder.
    pub fn attach_snapshot(&self, spec: &str, options: LoadOptions<'_>) -> Result<Ring, LoadError> {
        Ok(self.attach_snapshot_with_state(spec, options)?.0)
    }

    /// Attaches like [`attach_snapshot`](Self::attach_snapshot), and returns the snapshot with its
    /// label and state.
    pub fn attach_snapshot_with_state(
        &self,
        spec: &str,
        mut options: LoadOptions<'_>,
    ) -> Result<(Ring, Snapshot), LoadError> {
        let found = self.snapshot(spec)?;
        let name = found.spec();
        let spec = name.parse()?;
        options.placement.exist = Exist::Error;
        for attempt in 1..=ATTEMPTS {
            match Ring::attach_in(&options.placement.base, &name) {
                Ok(there) if is_of(&there, &found) => return Ok((there, found)),
                Ok(_) => return Err(LoadError::OtherSnapshot { name }),
                Err(RingError::Segment(SegmentError::NotFound { .. })) if attempt < ATTEMPTS => {}
                Err(error) => return Err(error.into()),
            }
            // Another process may be loading the same snapshot. The first process to finish gives
            // the copy its name, and may release it before the next attempt.
            match self.restore(&spec, &name, &mut options, true) {
                Err(LoadError::Restore(RestoreError::Taken { .. })) => {}
                made => return made,
            }
        }
        Err(LoadError::OtherSnapshot { name })
    }

    fn restore(
        &self,
        spec: &SnapshotSpec,
        name: &str,
        options: &mut LoadOptions<'_>,
        snapshot: bool,
    ) -> Result<(Ring, Snapshot), LoadError> {
        let folder = self.folder(&spec.name)?;
        // Check before locking, since the lock creates a file.
        folder.read()?.ok_or_else(|| self.not_found(spec, None))?;
        let _reading = lock(&folder, options)?;
        let slots = folder.read()?.ok_or_else(|| self.not_found(spec, None))?;
        let saved = self.find(spec, &slots)?;
        let not_found = || self.not_found(spec, Some(&slots.manifest));
        let found = listed(&slots.manifest, saved, &folder.chunks).ok_or_else(not_found)?;
        let ring = slots.manifest.ring(&saved.ring).ok_or_else(not_found)?;
        let schema = ring.schema()?;
        let capacity = ring.lane_capacity.saturating_mul(ring.lanes.into());
        let ring_options = RingOptions::with_capacity(capacity)
            .lanes(ring.lanes)
            .reader_slots(ring.reader_slots)
            .lane_policy(ring.policy().unwrap_or_default())
            .snapshot(snapshot)
            .snapshot_of(&identity(&found));
        let ring_options = options.placement.apply(ring_options);
        let limiter = saved.limiters.first().filter(|_| !snapshot);
        let ring_options = match limiter.and_then(SavedLimiter::limits) {
            Some(limits) => ring_options.limiter(limits),
            None => ring_options,
        };
        let layout = BatchLayout::of(&schema);
        let made = Ring::restore(name, &schema, ring_options, |filling| {
            let total_rows = saved.rows();
            let done = Progress {
                total_rows,
                total_bytes: layout.row_bytes().saturating_mul(total_rows),
                ..Progress::default()
            };
            let mut fill = Fill {
                storage: self.storage(),
                folder: &folder,
                layout: &layout,
                body: Vec::new(),
                bools: Vec::new(),
                progress: options.progress.as_mut(),
                done,
            };
            let mut filled = fill.all(filling, ring, saved);
            for table in &saved.tables {
                let lanes = saved.lanes.len();
                filled = filled
                    .and_then(|()| tables::load(filling, table, self.storage(), &folder, lanes));
            }
            for table in &saved.learned {
                let lanes = saved.lanes.len();
                filled = filled
                    .and_then(|()| learned::load(filling, table, self.storage(), &folder, lanes));
            }
            for table in &saved.claims {
                filled = filled.and_then(|()| Ok(filling.claims(&table.state())?));
            }
            if let Some(limiter) = limiter {
                filling.limit_counts(limiter.counts(), limiter.dropped_at)?;
            }
            filled.map_err(|error| error.of(&found.spec()))
        })?;
        Ok((made, found))
    }

    /// Returns the names of the arrays of parameters that were saved with a snapshot, in order.
    pub fn saved_arrays(&self, spec: &str, params: &str) -> Result<Vec<String>, LoadError> {
        let spec: SnapshotSpec = spec.parse()?;
        let slots = self.folder(&spec.name)?.read()?;
        let slots = slots.ok_or_else(|| self.not_found(&spec, None))?;
        let saved = saved_params(&spec.name, self.find(&spec, &slots)?, params)?;
        Ok(saved.arrays.iter().map(|array| array.name.clone()).collect())
    }

    /// Makes parameters from those that were saved as `params` with the snapshot `"pong@epoch-10"`,
    /// or with the newest one of `"pong"`. The version and the bytes are as they were; no handle is
    /// the publisher. Every byte that is read is checked first.
    ///
    /// Uses the name, the base directory, the behaviour for a taken name, the lifetime and the
    /// progress callback of `options`, and ignores the rest. The callback may stop the wait for a
    /// lock. Needs memory for one version. O(bytes).
    pub fn load_params(
        &self,
        spec: &str,
        params: &str,
        mut options: LoadOptions<'_>,
    ) -> Result<Params, LoadError> {
        let spec: SnapshotSpec = spec.parse()?;
        let folder = self.folder(&spec.name)?;
        // Check before locking, since the lock creates a file.
        folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let _reading = lock(&folder, &mut options)?;
        let slots = folder.read()?.ok_or_else(|| self.not_found(&spec, None))?;
        let snapshot = self.find(&spec, &slots)?;
        let saved = saved_params(&spec.name, snapshot, params)?;
        // A checked manifest has valid shapes.
        let not_found = || self.not_found(&spec, Some(&slots.manifest));
        let shape = saved.shape().ok_or_else(not_found)?;
        let LoadOptions { name, placement, .. } = options;
        let options = ParamsOptions::default()
            .base(placement.base)
            .exist(placement.exist)
            .persistent(placement.persistent);
        let name = name.as_deref().unwrap_or(params);
        let made = params::load(name, (saved, &shape), (self.storage(), &folder), options);
        made.map_err(|error| error.of(&format!("{}@{}", spec.name, snapshot.label)))
    }
}

/// Returns the parameters of that name in a snapshot of `ring`.
fn saved_params<'a>(
    ring: &str,
    snapshot: &'a SavedSnapshot,
    name: &str,
) -> Result<&'a SavedParams, LoadError> {
    let found = snapshot.params.iter().find(|saved| saved.name == name);
    found.ok_or_else(|| LoadError::NoParams {
        snapshot: format!("{ring}@{}", snapshot.label),
        name: name.to_owned(),
        known: snapshot.params.iter().map(|saved| saved.name.clone()).collect(),
    })
}

/// Returns whether a ring in shared memory is a copy of the snapshot `found`.
fn is_of(there: &Ring, found: &Snapshot) -> bool {
    there.is_snapshot() && there.snapshot_of() == identity(found)
}

/// Returns a text that tells a snapshot from others that had its name.
fn identity(of: &Snapshot) -> String {
    format!("{} saved {}", of.ring_uuid, of.saved_unix_ns)
}

/// Transfer of saved rows to a ring that is being filled.
struct Fill<'a, 'p> {
    storage: &'a dyn Storage,
    folder: &'a NameFolder<'a>,
    layout: &'a BatchLayout,
    body: Vec<u8>,
    /// Unpacked `bool` columns, one byte per value.
    bools: Vec<Vec<u8>>,
    progress: Option<&'a mut OnProgress<'p>>,
    done: Progress,
}

impl Fill<'_, '_> {
    fn all(
        &mut self,
        filling: &mut Filling<'_>,
        ring: &SavedRing,
        saved: &SavedSnapshot,
    ) -> Result<(), NotFilled> {
        for (lane, (first, head)) in (0..).zip(&saved.lanes) {
            filling.begin(lane, *first..*head)?;
        }
        // Consecutive batches of a lane are mostly in one file.
        let mut open: Option<(&SavedChunk, ChunkFile<'_>)> = None;
        for (chunk, batch) in ring.batches() {
            let Some((first, head)) = saved.lanes.get(batch.lane as usize) else { continue };
            let rows = batch.first.max(*first)..batch.range().end.min(*head);
            if rows.is_empty() {
                continue;
            }
            let file = match open.take() {
                Some((same, file)) if same.file == chunk.file => file,
                _ => ChunkFile::open(self.storage, &self.folder.chunks, chunk, self.layout)?,
            };
            let (_, file) = open.insert((chunk, file));
            self.batch(filling, file, batch, rows.clone())?;
            // The bytes are those of `rows`, without other rows and padding of the batch.
            self.done.rows += rows.end - rows.start;
            self.done.bytes = self.layout.row_bytes().saturating_mul(self.done.rows);
            if let Some(progress) = &mut self.progress
                && progress(&self.done).is_break()
            {
                return Err(NotFilled::Other(LoadError::Cancelled));
            }
        }
        Ok(())
    }

    fn batch(
        &mut self,
        filling: &mut Filling<'_>,
        file: &ChunkFile<'_>,
        batch: &SavedBatch,
        rows: Range<u64>,
    ) -> Result<(), NotFilled> {
        let places = file.body(batch, &mut self.body)?;
        let (skip, count) = (size(rows.start - batch.first), size(rows.end - rows.start));
        // In a checked manifest the rows fit the lane, and their bytes are in the body.
        let columns = || places.iter().zip(&self.layout.columns).skip(1);
        self.bools.resize(columns().count(), Vec::new());
        for ((place, column), bools) in columns().zip(&mut self.bools) {
            if column.dtype == DType::Bool {
                let items = size(column.items);
                let bits = self.body.get(size(place.offset)..).unwrap_or_default();
                bools.resize(count * items, 0);
                unpack_bools(bits, skip * items, bools);
            }
        }
        let buffers: Vec<&[u8]> = columns()
            .zip(&self.bools)
            .map(|((place, column), bools)| {
                if column.dtype == DType::Bool {
                    return bools.as_slice();
                }
                let width = size(column.items) * column.dtype.size();
                let start = size(place.offset) + skip * width;
                self.body.get(start..start + count * width).unwrap_or_default()
            })
            .collect();
        filling.rows(batch.lane, count as u64, &buffers).map_err(|error| match error {
            // The checksum is valid, but the rows are not in order.
            RestoreError::OutOfOrder { .. } => NotFilled::Damaged(Damage {
                file: file.path().to_owned(),
                kind: DamageKind::Rows { lane: batch.lane, rows: batch.range() },
            }),
            error => error.into(),
        })
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Keeps the files of a directory from being removed. The caller may stop the wait for a remover.
fn lock(
    folder: &NameFolder<'_>,
    options: &mut LoadOptions<'_>,
) -> Result<Option<Box<dyn LockGuard>>, LoadError> {
    let stops = Stops::new(options.progress.as_mut());
    let locked = folder.lock_for_reading(&|| stops.ask());
    if stops.is_cancelled() { Err(LoadError::Cancelled) } else { Ok(locked?) }
}
