//! Saving: what of a ring no file has yet is copied out, and a manifest names the whole.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use backcast_core::{ReadError, Ring};
use backcast_files::{OnProgress, Progress};
use serde_json::Value;

use crate::chunk::ChunkWriter;
use crate::error::{SaveError, StoreError};
use crate::layout::{BATCH_BYTES, BatchLayout, FILE_BYTES};
use crate::manifest::{Manifest, SavedChunk, SavedColumn, SavedRing, SavedSnapshot};
use crate::slots::{self, Slots};
use crate::spec::check_name;
use crate::store::{Folder, Store, unix_ns};

/// Largest state of a user's, as JSON.
const MAX_STATE_BYTES: usize = 16 << 20;
/// Rows that cannot be read although nobody laps them are tried this often.
const ATTEMPTS: u32 = 16;

/// How a ring is saved.
#[must_use]
pub struct SaveOptions<'a> {
    name: Option<String>,
    replace: bool,
    state: Value,
    wait: Duration,
    progress: Option<OnProgress<'a>>,
    pub(crate) batch_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Default for SaveOptions<'_> {
    fn default() -> Self {
        Self {
            name: None,
            replace: false,
            state: Value::Null,
            wait: Duration::from_secs(60),
            progress: None,
            batch_bytes: BATCH_BYTES,
            file_bytes: FILE_BYTES,
        }
    }
}

impl std::fmt::Debug for SaveOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaveOptions")
            .field("name", &self.name)
            .field("replace", &self.replace)
            .finish_non_exhaustive()
    }
}

impl<'a> SaveOptions<'a> {
    /// The name to save under, if not the ring's own.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Put the snapshot in the place of one with the same label, once it is whole.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Anything to be given back with the snapshot: seeds, the positions of samplers, a step count.
    pub fn state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }

    /// Longest wait for another process that saves under the same name; a minute unless said.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Called after every few megabytes.
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Bytes of a batch and of a file, about; 4 MiB and 64 MiB unless said.
    pub fn sizes(mut self, batch_bytes: u64, file_bytes: u64) -> Self {
        (self.batch_bytes, self.file_bytes) = (batch_bytes, file_bytes);
        self
    }
}

/// What a save did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveReport {
    /// Name it was saved under.
    pub name: String,
    /// Its label.
    pub label: String,
    /// Rows of the snapshot.
    pub rows: u64,
    /// Rows that were written now; the others were in files of earlier saves.
    pub rows_written: u64,
    /// Bytes of the files that were written now.
    pub bytes_written: u64,
    /// Those files.
    pub files_written: u64,
    /// Rows that writers overwrote before they could be copied: the snapshot begins after them.
    pub rows_lapped: u64,
    /// Bytes of files that are gone because no snapshot needs them any more.
    pub bytes_freed: u64,
    /// A manifest that was damaged, where the older one was used.
    pub damage: Option<crate::Damage>,
}

impl Store {
    /// Saves what a ring holds now, as `name@label`. Writers go on meanwhile: the snapshot has the
    /// rows that were published when the save began. Rows that an earlier snapshot of this ring has
    /// are shared with it, not written again. When this returns, the snapshot is on disk; after an
    /// error, or a kill at any moment, everything saved before is as it was.
    ///
    /// Takes memory for one batch. O(bytes not yet saved).
    pub fn save(
        &self,
        ring: &Ring,
        label: &str,
        mut options: SaveOptions<'_>,
    ) -> Result<SaveReport, SaveError> {
        let name = options.name.take().or_else(|| ring.name().map(str::to_owned));
        let name = name.ok_or(SaveError::NoName)?;
        check_name("name", &name)?;
        check_name("label", label)?;
        let state_bytes = serde_json::to_vec(&options.state).unwrap_or_default().len();
        if state_bytes > MAX_STATE_BYTES {
            return Err(SaveError::StateTooLarge { bytes: state_bytes, limit: MAX_STATE_BYTES });
        }
        let folder = self.make_folder(&name)?;
        let mut stopped = false;
        let _changing = folder
            .lock_for_change(options.wait, &mut || {
                let idle = Progress::default();
                let answer =
                    options.progress.as_mut().map_or(ControlFlow::Continue(()), |p| p(&idle));
                stopped |= answer.is_break();
                answer
            })
            .map_err(|error| if stopped { SaveError::Cancelled } else { error.into() })?;
        let slots = folder.read_for_change()?.unwrap_or_else(|| Slots::empty(&name));
        if !options.replace && slots.manifest.snapshots.iter().any(|s| s.label == label) {
            return Err(SaveError::LabelTaken { name, label: label.to_owned() });
        }
        let mut next = slots.manifest.clone();
        let uuid = hex(ring.uuid());
        let at = known(&folder, ring, &uuid, &mut next)?;
        let cut: Vec<Range<u64>> =
            (0..ring.lanes()).map(|lane| ring.lane_span(lane).unwrap_or_default()).collect();
        let layout = BatchLayout::of(ring.schema());
        let about = [
            ("backcast.ring", name.clone()),
            ("backcast.uuid", uuid.clone()),
            ("backcast.columns", serde_json::to_string(&columns(ring)).unwrap_or_default()),
        ];
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
        let mut copy = Copying {
            ring,
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
        let (bytes_written, files_written) = sizes(&written);
        let Some(saved) = next.rings.get_mut(at) else { return Err(SaveError::NoName) };
        saved.chunks.extend(written);
        let saved = saved.covered();
        let lanes = without_gaps(&cut, &saved);
        let in_cut: u64 = cut.iter().map(|span| span.end - span.start).sum();
        let snapshot = SavedSnapshot {
            label: label.to_owned(),
            unix_ns: unix_ns(),
            ring: uuid,
            lanes,
            state: options.state,
            tables: Vec::new(),
            limiters: Vec::new(),
        };
        let rows = snapshot.rows();
        next.snapshots.retain(|old| old.label != label);
        next.snapshots.push(snapshot);
        next.prune();
        let damage = slots.damage.clone();
        // From here on the manifest may be on disk, whatever else happens.
        chunks.keep();
        let slots = slots::write(self.storage(), &folder.dir, &slots, next)?;
        // What only a damaged manifest named may still be wanted: it stays until the next save.
        let bytes_freed = if damage.is_none() { folder.sweep(&slots) } else { 0 };
        Ok(SaveReport {
            name,
            label: label.to_owned(),
            rows,
            rows_written,
            bytes_written,
            files_written,
            rows_lapped: in_cut - rows,
            bytes_freed,
            damage,
        })
    }
}

/// Rows of each lane that files have, as runs without gaps.
type Saved = BTreeMap<u32, Vec<Range<u64>>>;

/// Copies rows from a ring to chunk files.
struct Copying<'a, 'c, 'p> {
    ring: &'a Ring,
    chunks: &'a mut ChunkWriter<'c>,
    rows_per_batch: u64,
    progress: Option<&'a mut OnProgress<'p>>,
    done: Progress,
}

/// Why a batch was not written.
enum NotWritten {
    Read(ReadError),
    Store(StoreError),
}

impl From<StoreError> for NotWritten {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Copying<'_, '_, '_> {
    /// Copies rows of a lane, without those that its writer laps first. Returns how many.
    fn lane(&mut self, lane: u32, rows: Range<u64>) -> Result<u64, SaveError> {
        let (mut at, mut copied, mut attempts) = (rows.start, 0, 0);
        while at < rows.end {
            let batch = at..rows.end.min(at.saturating_add(self.rows_per_batch));
            let count = batch.end - batch.start;
            let ring = self.ring;
            let written = self.chunks.batch(lane, batch.clone(), |out| {
                ring.rows_into(lane, batch.clone(), out).map_err(NotWritten::Read)
            });
            match written {
                Ok(bytes) => {
                    (at, copied, attempts) = (batch.end, copied + count, 0);
                    self.done.bytes += bytes;
                }
                Err(NotWritten::Store(error)) => return Err(error.into()),
                Err(NotWritten::Read(error)) => {
                    let oldest = ring.lane_span(lane).unwrap_or_default().start;
                    attempts += 1;
                    if oldest <= at && attempts >= ATTEMPTS {
                        let problem = error.to_string();
                        return Err(SaveError::Unreadable { lane, seq: at, problem });
                    }
                    at = oldest.clamp(at, rows.end);
                }
            }
            self.done.rows += count;
            if let Some(progress) = &mut self.progress
                && progress(&self.done).is_break()
            {
                return Err(SaveError::Cancelled);
            }
        }
        Ok(copied)
    }
}

/// Where the manifest has this ring, which it gets to know if need be.
fn known(
    folder: &Folder<'_>,
    ring: &Ring,
    uuid: &str,
    manifest: &mut Manifest,
) -> Result<usize, SaveError> {
    if let Some(at) = manifest.rings.iter().position(|saved| saved.uuid == uuid) {
        let same = manifest.rings.get(at).is_some_and(|saved| {
            saved.columns == columns(ring)
                && saved.lanes == ring.lanes()
                && saved.lane_capacity == ring.lane_capacity()
        });
        return if same { Ok(at) } else { Err(SaveError::OtherRing { path: folder.dir.clone() }) };
    }
    let stats = ring.stats();
    let policy = stats.lane_policy;
    manifest.rings.push(SavedRing {
        uuid: uuid.to_owned(),
        created_unix_ns: stats.created_unix_ns,
        columns: columns(ring),
        lanes: ring.lanes(),
        lane_capacity: ring.lane_capacity(),
        lane_policy: policy.as_str().to_owned(),
        lease_timeout_ms: u64::try_from(policy.timeout().as_millis()).unwrap_or(u64::MAX),
        reader_slots: ring.reader_slots(),
        chunks: Vec::new(),
    });
    Ok(manifest.rings.len() - 1)
}

fn columns(ring: &Ring) -> Vec<SavedColumn> {
    ring.schema().columns().iter().map(SavedColumn::of).collect()
}

fn sizes(chunks: &[SavedChunk]) -> (u64, u64) {
    (chunks.iter().map(|chunk| chunk.bytes).sum(), chunks.len() as u64)
}

/// Rows of the cut that no file has.
fn missing(cut: &[Range<u64>], saved: &Saved) -> Vec<(u32, Range<u64>)> {
    let of_lane = |(lane, span): (u32, &Range<u64>)| {
        let runs = saved.get(&lane).map(Vec::as_slice).unwrap_or_default();
        gaps(span, runs).into_iter().map(move |rows| (lane, rows))
    };
    (0..).zip(cut).flat_map(of_lane).collect()
}

/// First row and one past the last of each lane of the cut: from the newest row down to the first
/// that is not saved.
fn without_gaps(cut: &[Range<u64>], saved: &Saved) -> Vec<(u64, u64)> {
    let of_lane = |(lane, span): (u32, &Range<u64>)| {
        let runs = saved.get(&lane).map(Vec::as_slice).unwrap_or_default();
        let last = runs.iter().find(|run| run.contains(&span.end.wrapping_sub(1)));
        (last.map_or(span.end, |run| run.start.max(span.start)), span.end)
    };
    (0..).zip(cut).map(of_lane).collect()
}

/// The parts of `span` outside of `runs`, which are in order.
fn gaps(span: &Range<u64>, runs: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut at = span.start;
    for run in runs.iter().filter(|run| run.end > span.start && run.start < span.end) {
        if at < run.start {
            gaps.push(at..run.start);
        }
        at = at.max(run.end);
    }
    if at < span.end {
        gaps.push(at..span.end);
    }
    gaps
}

pub(crate) fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_already_is_left_out() {
        let run = |start, end| Range::<u64> { start, end };
        for (span, runs, left) in [
            (run(0, 10), vec![], vec![run(0, 10)]),
            (run(5, 10), vec![run(0, 5)], vec![run(5, 10)]),
            (run(5, 10), vec![run(0, 7)], vec![run(7, 10)]),
            (run(5, 20), vec![run(0, 7), run(9, 12)], vec![run(7, 9), run(12, 20)]),
            (run(5, 10), vec![run(0, 30)], vec![]),
            (run(5, 5), vec![], vec![]),
            (run(5, 10), vec![run(12, 13)], vec![run(5, 10)]),
        ] {
            assert_eq!(gaps(&span, &runs), left, "{span:?} {runs:?}");
        }
    }
}
