//! Saves a ring: copies rows that no file has, and writes a manifest that names all rows.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use backcast_core::{Params, Ring};
use backcast_files::{OnProgress, Progress};
use serde_json::Value;

use crate::chunk::ChunkWriter;
use crate::clock::unix_ns;
use crate::copy::{RowCopier, about, hex, known, missing, without_gaps};
use crate::error::SaveError;
use crate::layout::{BATCH_BYTES, BatchLayout, FILE_BYTES};
use crate::left_out::LeftOutTable;
use crate::manifest::{SavedChunk, SavedRing, SavedSnapshot, SnapshotParams};
use crate::params;
use crate::slots::{self, ManifestSlots};
use crate::spec::{EVICTED, ROLLING, check_free, check_name};
use crate::storage::LockGuard;
use crate::store::{NameFolder, Store};
use crate::tables::{self, PreparedTables};
use crate::waiting::Stops;

/// Maximum bytes of a user's state as JSON.
const MAX_STATE_BYTES: usize = 16 << 20;
/// Maximum nesting of the state; the parser of the manifest stops at 128.
const MAX_STATE_DEPTH: usize = 100;

/// Options of a save.
#[must_use]
pub struct SaveOptions<'a> {
    name: Option<String>,
    replace: bool,
    state: Value,
    params: Vec<&'a Params>,
    wait: Duration,
    progress: Option<OnProgress<'a>>,
    /// Returns whether to end waits although the caller has not cancelled the save.
    pub(crate) hurry: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Periodic snapshots to keep.
    pub(crate) keep_newest: Option<usize>,
    pub(crate) batch_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Default for SaveOptions<'_> {
    fn default() -> Self {
        Self {
            name: None,
            replace: false,
            state: Value::Null,
            params: Vec::new(),
            wait: Duration::from_secs(60),
            progress: None,
            hurry: None,
            keep_newest: None,
            batch_bytes: BATCH_BYTES,
            file_bytes: FILE_BYTES,
        }
    }
}

impl fmt::Debug for SaveOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaveOptions")
            .field("name", &self.name)
            .field("replace", &self.replace)
            .finish_non_exhaustive()
    }
}

impl<'a> SaveOptions<'a> {
    /// Sets the name to save under (default: the ring's).
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets whether a snapshot with the same label is replaced.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Sets the state to save with the snapshot, such as seeds, sampler states or a step count.
    pub fn state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }

    /// Sets the parameters to save with the snapshot: the newest version of each once the save has
    /// locked the store.
    pub fn params(mut self, params: impl IntoIterator<Item = &'a Params>) -> Self {
        self.params = params.into_iter().collect();
        self
    }

    /// Sets the maximum wait for another process that saves under the same name (default: a
    /// minute), and, up to 5 s, for a process that has a table locked.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Calls `progress` after every few megabytes; it may stop the save.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Sets the approximate bytes of a batch and of a file (default: 4 MiB and 64 MiB).
    pub fn sizes(mut self, batch_bytes: u64, file_bytes: u64) -> Self {
        (self.batch_bytes, self.file_bytes) = (batch_bytes, file_bytes);
        self
    }
}

/// Outcome of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveReport {
    /// Name of the saved ring.
    pub name: String,
    /// Label of the snapshot.
    pub label: String,
    /// Rows of the snapshot.
    pub rows: u64,
    /// Rows written by this save; the others were in files already.
    pub rows_written: u64,
    /// Bytes of the files written by this save.
    pub bytes_written: u64,
    /// Files written by this save.
    pub files_written: u64,
    /// Rows that writers overwrote before they were copied. The snapshot begins after them.
    pub rows_lapped: u64,
    /// Bytes of removed files that no snapshot needs any more.
    pub bytes_freed: u64,
    /// Parameters saved with it.
    pub params: Vec<SnapshotParams>,
    /// Tables that a process kept locked, and tables or a rate limiter that cannot be read. The
    /// snapshot lacks them.
    pub left_out: Vec<LeftOutTable>,
    /// Damage of a manifest; the other one was used.
    pub damage: Option<crate::Damage>,
}

impl Store {
    /// Saves a ring as `name@label`. Writers go on meanwhile. The save waits for the lock of the
    /// store, reads the parameters given in `options` and the tables, and then copies the rows
    /// published by then. The snapshot also has the limits and counts of the rate limiter. It
    /// shares rows with earlier snapshots of the ring. A table that stays locked by a stopped
    /// process, or that is damaged, is left out, and the report says so. When this returns, the
    /// snapshot is on disk. After an error or a kill at any moment, earlier snapshots are
    /// unchanged.
    ///
    /// Needs memory for one batch, for the tables, and for one version of parameters. O(bytes not
    /// yet saved).
    pub fn save(
        &self,
        ring: &Ring,
        label: &str,
        options: SaveOptions<'_>,
    ) -> Result<SaveReport, SaveError> {
        check_free(label)?;
        self.save_as(ring, label, options)
    }

    /// Saves a ring as `name@evicted` before its eviction. Replaces an earlier snapshot of that
    /// name and label.
    pub fn save_evicted(
        &self,
        ring: &Ring,
        name: &str,
        state: Value,
    ) -> Result<SaveReport, SaveError> {
        let options = SaveOptions::default().name(name).replace(true).state(state);
        self.save_as(ring, EVICTED, options)
    }

    /// Saves like [`save`](Self::save), under any label.
    pub(crate) fn save_as(
        &self,
        ring: &Ring,
        label: &str,
        mut options: SaveOptions<'_>,
    ) -> Result<SaveReport, SaveError> {
        let name = options.name.take().or_else(|| ring.name().map(str::to_owned));
        let name = name.ok_or(SaveError::NoName)?;
        check_name("name", &name)?;
        check_name("label", label)?;
        check_state(&options.state)?;
        let given = params::checked(&options.params)?;
        let folder = self.make_folder(&name)?;
        let _changing = lock(&folder, &mut options)?;
        let slots = folder.read_for_change()?.unwrap_or_else(|| ManifestSlots::empty(&name));
        if !options.replace && slots.manifest.snapshots.iter().any(|s| s.label == label) {
            return Err(SaveError::LabelTaken { name, label: label.to_owned() });
        }
        let mut next = slots.manifest.clone();
        let uuid = hex(ring.uuid());
        let at = known(&folder, ring, &uuid, &mut next)?;
        let place = (self.storage(), &folder);
        let params = params::save(&given, place, next.generation + 1)?;
        // Read the tables before the rows. Then every row of a pass is older than the end of the
        // saved rows, and no value of a saved row was replaced with that of a newer row in its
        // slot.
        let (claims, no_claims) = tables::claims(ring)?;
        let prepared = prepare_tables(ring, &mut options)?;
        let PreparedTables { states, layouts, mut left_out } = prepared;
        let cut: Vec<Range<u64>> =
            (0..ring.lanes()).map(|lane| ring.lane_span(lane).unwrap_or_default()).collect();
        let layout = BatchLayout::of(ring.schema());
        let about = about(&name, &uuid, ring);
        let mut chunks = ChunkWriter::new(
            self.storage(),
            &folder.chunks,
            next.generation + 1,
            &layout,
            &about,
            options.file_bytes,
        );
        let saved = next.rings.get(at).map(SavedRing::covered).unwrap_or_default();
        let missing = missing(&cut, &saved);
        let total_rows = missing.iter().map(|(_, rows)| rows.end - rows.start).sum();
        let total_bytes = layout.row_bytes().saturating_mul(total_rows);
        let mut copy = RowCopier {
            ring,
            guard: None,
            chunks: &mut chunks,
            rows_per_batch: layout.rows_per_batch(options.batch_bytes),
            progress: options.progress.as_mut(),
            done: Progress { rows: 0, bytes: 0, total_rows, total_bytes },
        };
        let mut rows_written = 0;
        for (lane, rows) in missing {
            rows_written += copy.lane(lane, rows)?;
        }
        let written = chunks.finish()?;
        let (mut bytes_written, mut files_written) = sizes(&written);
        let Some(saved) = next.rings.get_mut(at) else { return Err(SaveError::NoName) };
        saved.chunks.extend(written);
        let lanes = without_gaps(&cut, &saved.covered());
        // A lane may have been resized meanwhile.
        let longest = lanes.iter().map(|(first, head)| head - first).max().unwrap_or_default();
        saved.lane_capacity = saved.lane_capacity.max(longest);
        let limits = (next.generation + 1, options.file_bytes, options.batch_bytes);
        let (tables, learned) = tables::save(ring, states, &lanes, place, limits, &layouts)?;
        let snapshot = SavedSnapshot {
            label: label.to_owned(),
            unix_ns: unix_ns(),
            ring: uuid,
            lanes,
            state: options.state,
            tables: tables.saved.clone(),
            claims,
            learned: learned.saved.clone(),
            limiters: tables::limiter(ring, &mut left_out)?.into_iter().collect(),
            params: params.saved.clone(),
        };
        for chunk in snapshot.chunks_beside_rows() {
            (bytes_written, files_written) = (bytes_written + chunk.bytes, files_written + 1);
        }
        let rows = snapshot.rows();
        next.snapshots.retain(|old| old.label != label);
        next.snapshots.push(snapshot);
        if let Some(keep) = options.keep_newest {
            keep_newest(&mut next.snapshots, keep);
        }
        next.prune(unix_ns());
        let damage = slots.damage.clone();
        // From here on the manifest may be on disk, even after an error.
        chunks.keep();
        tables.keep();
        learned.keep();
        let saved_params = params.saved.iter().map(SnapshotParams::from).collect();
        params.keep();
        let slots = slots::write(self.storage(), &folder.dir, &slots, next)?;
        // Files that only a damaged manifest names may be needed: keep them until the next save.
        let bytes_freed = if damage.is_none() { folder.sweep(&slots) } else { 0 };
        Ok(SaveReport {
            name,
            label: label.to_owned(),
            rows,
            rows_written,
            bytes_written,
            files_written,
            rows_lapped: cut.iter().map(|span| span.end - span.start).sum::<u64>() - rows,
            bytes_freed,
            params: saved_params,
            left_out: left_out.and(no_claims),
            damage,
        })
    }
}

/// Reads the tables of the ring. The caller may stop the waits for their locks.
fn prepare_tables(ring: &Ring, options: &mut SaveOptions<'_>) -> Result<PreparedTables, SaveError> {
    let stops = Stops::new(options.progress.as_mut()).hurry(options.hurry);
    let prepared = tables::prepare(ring, options.wait, &stops);
    if stops.is_cancelled() { Err(SaveError::Cancelled) } else { prepared }
}

/// Locks the directory of the ring. The caller may stop the wait.
fn lock(
    folder: &NameFolder<'_>,
    options: &mut SaveOptions<'_>,
) -> Result<Box<dyn LockGuard>, SaveError> {
    let stops = Stops::new(options.progress.as_mut()).hurry(options.hurry);
    let locked = folder.lock_for_change(options.wait, &|| stops.ask());
    if stops.is_cancelled() { Err(SaveError::Cancelled) } else { Ok(locked?) }
}

/// Drops the oldest periodic snapshots until `keep` are left.
fn keep_newest(snapshots: &mut Vec<SavedSnapshot>, keep: usize) {
    let rolling = |snapshot: &SavedSnapshot| snapshot.label.starts_with(ROLLING);
    let many = snapshots.iter().filter(|snapshot| rolling(snapshot)).count();
    let mut left = many.saturating_sub(keep);
    snapshots.retain(|old| {
        let goes = left > 0 && rolling(old);
        left -= usize::from(goes);
        !goes
    });
}

fn sizes(chunks: &[SavedChunk]) -> (u64, u64) {
    (chunks.iter().map(|chunk| chunk.bytes).sum(), chunks.len() as u64)
}

/// Refuses a state that is nested too deeply or too large.
fn check_state(state: &Value) -> Result<(), SaveError> {
    let depth = depth(state);
    if depth > MAX_STATE_DEPTH {
        return Err(SaveError::StateTooDeep { depth, limit: MAX_STATE_DEPTH });
    }
    let bytes = serde_json::to_vec(state).unwrap_or_default().len();
    if bytes > MAX_STATE_BYTES {
        return Err(SaveError::StateTooLarge { bytes, limit: MAX_STATE_BYTES });
    }
    Ok(())
}

/// Returns the nesting of arrays and objects.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut todo = vec![(value, 0)];
    while let Some((value, depth)) = todo.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => todo.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(items) => todo.extend(items.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_depth_of_a_state_counts_lists_and_objects_around_a_value() {
        for (state, expected) in [
            (json!(null), 0),
            (json!([]), 0),
            (json!({"a": 1}), 1),
            (json!([{"a": [1]}, 2]), 3),
            (json!({"a": [[1]], "b": {"c": {"d": {"e": 1}}}, "f": 2}), 4),
        ] {
            assert_eq!(depth(&state), expected, "{state}");
        }
    }

    #[test]
    fn a_state_has_at_most_16_mib_of_json() {
        // Two quotes stand around the letters.
        let letters = |count| Value::String("x".repeat(count));
        assert!(check_state(&letters(MAX_STATE_BYTES - 2)).is_ok());
        let refused = check_state(&letters(MAX_STATE_BYTES - 1)).unwrap_err();
        let SaveError::StateTooLarge { bytes, limit } = refused else { panic!("{refused}") };
        assert_eq!((bytes, limit), (16_777_217, 16_777_216));
    }
}
