//! One step of a follower: writes new rows to files, and a manifest that names them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use backcast_core::{RetentionPin, Ring};
use backcast_files::Progress;
use serde_json::Value;

use super::merge::merge;
use super::mode::FollowOptions;
use crate::chunk::ChunkWriter;
use crate::clock::unix_ns;
use crate::copy::{RowCopier, Saved, about, gaps, hex, known, without_gaps};
use crate::error::SaveError;
use crate::followed::{Followed, FollowedLane};
use crate::layout::BatchLayout;
use crate::left_out::{LeftOutTable, UnsavedParts};
use crate::manifest::{Manifest, SavedRing, SavedSnapshot};
use crate::slots::{self, ManifestSlots};
use crate::spec::{BEFORE, LIVE};
use crate::store::Store;
use crate::tables;

/// Maximum wait for another process that changes the directory. After that, the step fails. The
/// follower reports the error and tries again.
const STORE_WAIT: Duration = Duration::from_secs(10);

/// Outcome of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Position of each lane.
    pub(crate) lanes: Vec<FollowedLane>,
    /// Bytes of the files written, including merged ones.
    pub(crate) bytes_written: u64,
    pub(crate) files_written: u64,
    /// The rate limiter, if it could not be read.
    pub(crate) left_out: Vec<LeftOutTable>,
}

/// Rows that a follower has handled, as the manifest records them.
pub(crate) struct Position {
    pub(crate) lanes: Vec<FollowedLane>,
    /// First row of each lane in the live snapshot, if there is one.
    pub(crate) saved_marks: Option<Vec<u64>>,
}

/// Returns the position in the manifest. Returns `None` if the ring is not followed. Fails if a
/// manifest was not read, which may have a later position.
pub(crate) fn followed(
    store: &Store,
    name: &str,
    ring: &Ring,
) -> Result<Option<Position>, SaveError> {
    let Some(slots) = store.folder(name)?.read_for_change()? else { return Ok(None) };
    let (manifest, uuid) = (slots.manifest, hex(ring.uuid()));
    let follow = manifest.ring(&uuid).and_then(|saved| saved.follow.as_ref());
    let Some(follow) = follow.filter(|follow| follow.lanes.len() == ring.lanes() as usize) else {
        return Ok(None);
    };
    let live = manifest.snapshots.iter().find(|live| live.label == LIVE && live.ring == uuid);
    let saved_marks = live.map(|live| live.lanes.iter().map(|(first, _)| *first).collect());
    Ok(Some(Position { lanes: follow.lanes.clone(), saved_marks }))
}

/// Input of a step.
pub(crate) struct FollowStep<'a> {
    pub(crate) store: &'a Store,
    /// Name to save under.
    pub(crate) name: &'a str,
    pub(crate) ring: &'a Ring,
    /// Pin of the rows that are not on disk.
    pub(crate) guard: Option<&'a RetentionPin>,
    pub(crate) options: &'a FollowOptions,
    /// Start of each lane in the first step, which also removes unneeded files.
    pub(crate) first: Option<&'a [FollowedLane]>,
    /// Called while another process has locked the directory. Returns `true` to give up.
    pub(crate) stopped: &'a dyn Fn() -> bool,
}

/// Copies the rows of every lane from `next` on, and writes the new positions.
pub(crate) fn commit(step: &FollowStep<'_>) -> Result<Committed, SaveError> {
    let FollowStep { store, name, ring, options, first, stopped, .. } = *step;
    let folder = store.make_folder(name)?;
    let _changing = folder.lock_for_change(STORE_WAIT, stopped)?;
    let slots = folder.read_for_change()?.unwrap_or_else(|| ManifestSlots::empty(name));
    let mut next = slots.manifest.clone();
    let uuid = hex(ring.uuid());
    let at = known(&folder, ring, &uuid, &mut next)?;
    let Some(saved) = next.rings.get_mut(at) else { return Err(SaveError::NoName) };
    let covered = saved.covered();
    let mut follow = saved.follow.take().unwrap_or_else(|| match first {
        Some(lanes) => Followed { lanes: lanes.to_vec(), ..Followed::default() },
        // The entry was removed: write all rows of the ring again.
        None => Followed { lanes: from_oldest(ring), ..Followed::default() },
    });
    follow.keep(options.keep);

    let layout = BatchLayout::of(ring.schema());
    let about = about(name, &uuid, ring);
    let generation = slots.manifest.generation + 1;
    let writer = || {
        let (storage, dir) = (store.storage(), &folder.chunks);
        ChunkWriter::new(storage, dir, generation, &layout, &about, options.file_bytes)
    };
    let mut chunks = writer();
    let rows_per_batch = layout.rows_per_batch(options.batch_bytes);
    copy_new(step, &mut chunks, rows_per_batch, &mut follow, &covered)?;
    let written = chunks.finish()?;
    let mut done = Committed { lanes: follow.lanes.clone(), ..Committed::default() };
    done.bytes_written = written.iter().map(|chunk| chunk.bytes).sum();
    done.files_written = written.len() as u64;
    saved.follow = Some(follow);
    saved.chunks.extend(written);

    // Merge small files. A failure only delays the merge.
    let mut merged = writer();
    let bytes = merge(store.storage(), &folder.chunks, &mut merged, saved, &layout, options);
    done.bytes_written += bytes.unwrap_or_default();

    let mut left_out = UnsavedParts::default();
    let snapshot = live(ring, saved, &done.lanes, &mut left_out)?;
    done.left_out = left_out.and(UnsavedParts::default());
    name_live(&mut next, snapshot);
    next.prune(unix_ns());
    let garbage = garbage(&slots, &next);
    // From here on the manifest may be on disk, even after an error.
    chunks.keep();
    merged.keep();
    let clean = slots.damage.is_none();
    let slots = slots::write(store.storage(), &folder.dir, &slots, next)?;
    // Files that only a damaged manifest names may be needed: leave them to a later sweep.
    if clean && (first.is_some() || garbage) {
        folder.sweep(&slots);
    }
    Ok(done)
}

/// Returns whether some file is named only by the manifest to be overwritten.
fn garbage(slots: &ManifestSlots, next: &Manifest) -> bool {
    let files = |manifest: &Manifest| -> BTreeSet<String> {
        manifest.chunks().map(|chunk| chunk.file.clone()).collect()
    };
    let Some(older) = &slots.older else { return false };
    let named = &files(&slots.manifest) | &files(next);
    files(older).iter().any(|file| !named.contains(file))
}

/// Returns positions at the oldest rows of a ring.
pub(crate) fn from_oldest(ring: &Ring) -> Vec<FollowedLane> {
    let of_lane = |lane| {
        let begin = ring.lane_span(lane).unwrap_or_default().start;
        FollowedLane { begin, next: begin, lapped: 0 }
    };
    (0..ring.lanes()).map(of_lane).collect()
}

/// Copies new rows, beginning with the lanes that have the most.
fn copy_new(
    step: &FollowStep<'_>,
    chunks: &mut ChunkWriter<'_>,
    rows_per_batch: u64,
    follow: &mut Followed,
    covered: &Saved,
) -> Result<(), SaveError> {
    let (ring, guard) = (step.ring, step.guard);
    let mut lanes: Vec<(u64, u32)> = (0..)
        .zip(&follow.lanes)
        .map(|(number, lane)| {
            let head = ring.lane_span(number).unwrap_or_default().end;
            (head.saturating_sub(lane.next), number)
        })
        .collect();
    lanes.sort_unstable_by_key(|(new, lane)| (std::cmp::Reverse(*new), *lane));
    let done = Progress::default();
    let mut copy = RowCopier { ring, guard, chunks, rows_per_batch, progress: None, done };
    for (_, number) in lanes {
        let Some(lane) = follow.lanes.get_mut(number as usize) else { continue };
        // Read the span again, since copying other lanes took time.
        let span = ring.lane_span(number).unwrap_or_default();
        let kept = guard.and_then(|guard| guard.span(number)).unwrap_or_default();
        let end = span.end.max(lane.next);
        // Pinned rows may be older than the readable ones.
        let oldest = if kept.is_empty() || kept.end < span.start {
            span.start
        } else {
            span.start.min(kept.start)
        };
        let runs = covered.get(&number).map(Vec::as_slice).unwrap_or_default();
        let count = |rows: &Range<u64>| rows.end - rows.start;
        for rows in gaps(&(lane.next..end), runs) {
            let there = rows.start.max(oldest).min(rows.end)..rows.end;
            let copied = if there.is_empty() { 0 } else { copy.lane(number, there)? };
            lane.lapped += count(&rows) - copied;
        }
        lane.next = end;
    }
    Ok(())
}

/// Returns the snapshot of the ring's rows that are in files, and of the rate limiter. It has no
/// tables, which would be written whole at every step.
fn live(
    ring: &Ring,
    saved: &SavedRing,
    lanes: &[FollowedLane],
    left_out: &mut UnsavedParts,
) -> Result<SavedSnapshot, SaveError> {
    let keeps = |(number, lane): (u32, &FollowedLane)| {
        let low = ring.first_kept(number).unwrap_or_default();
        low.max(lane.next.saturating_sub(saved.lane_capacity)).min(lane.next)..lane.next
    };
    let cut: Vec<Range<u64>> = (0..).zip(lanes).map(keeps).collect();
    Ok(SavedSnapshot {
        label: LIVE.to_owned(),
        unix_ns: unix_ns(),
        ring: saved.uuid.clone(),
        lanes: without_gaps(&cut, &saved.covered()),
        state: Value::Null,
        tables: Vec::new(),
        claims: Vec::new(),
        params: Vec::new(),
        learned: Vec::new(),
        limiters: tables::limiter(ring, left_out)?.into_iter().collect(),
    })
}

/// Replaces the previous live snapshot. If that is of another ring and has rows, it is kept as
/// `before`, in case the ring was recreated by mistake.
fn name_live(manifest: &mut Manifest, snapshot: SavedSnapshot) {
    let old = manifest.snapshots.iter().position(|old| old.label == LIVE);
    if let Some(mut old) = old.map(|at| manifest.snapshots.remove(at))
        && old.ring != snapshot.ring
        && old.rows() > 0
    {
        manifest.snapshots.retain(|before| before.label != BEFORE);
        BEFORE.clone_into(&mut old.label);
        manifest.snapshots.push(old);
    }
    manifest.snapshots.push(snapshot);
}
