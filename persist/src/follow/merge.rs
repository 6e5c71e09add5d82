//! Merges small files. A followed ring gets a file every few seconds, and the manifest must not
//! grow without limit.

use std::ops::Range;
use std::path::Path;

use backcast_core::DType;

use super::mode::FollowOptions;
use crate::chunk::{ChunkFile, ChunkWriter};
use crate::error::StoreError;
use crate::layout::{BatchLayout, unpack_bools};
use crate::manifest::{SavedBatch, SavedChunk, SavedRing};
use crate::read_failure::ReadFailure;
use crate::storage::Storage;

/// Minimum number of files of one size class that are merged.
const FILES: usize = 8;
/// Files of fewer bytes are in the smallest size class. The limit of each further class is
/// [`FILES`] times larger.
const SMALLEST_BYTES: u64 = 4096;

/// Error of merging files. They are unchanged.
#[derive(Debug)]
pub(super) enum MergeError {
    /// A file is damaged, or was not read.
    Unread,
    Store,
}

impl From<StoreError> for MergeError {
    fn from(_: StoreError) -> Self {
        Self::Store
    }
}

impl From<ReadFailure> for MergeError {
    fn from(_: ReadFailure) -> Self {
        Self::Unread
    }
}

/// Copies the rows of some files of a ring to files of `out`, which replace them in the manifest.
/// Checks every byte of the rows. Returns the bytes written.
///
/// Each row is written again once per size class. Only slow rings have this cost; fast ones fill
/// large files from the start.
pub(super) fn merge(
    storage: &dyn Storage,
    dir: &Path,
    out: &mut ChunkWriter<'_>,
    ring: &mut SavedRing,
    layout: &BatchLayout,
    options: &FollowOptions,
) -> Result<u64, MergeError> {
    let Some(kind) = many(&ring.chunks, options.file_bytes) else { return Ok(0) };
    let is_small =
        |chunk: &SavedChunk| chunk.bytes < options.file_bytes && kind_of(chunk.bytes) == kind;
    let small: Vec<&SavedChunk> = ring.chunks.iter().filter(|chunk| is_small(chunk)).collect();
    let files: Vec<ChunkFile<'_>> = small
        .iter()
        .map(|chunk| ChunkFile::open(storage, dir, chunk, layout))
        .collect::<Result<_, _>>()?;
    let mut batches: Vec<(&ChunkFile<'_>, &SavedBatch)> = files
        .iter()
        .zip(&small)
        .flat_map(|(file, chunk)| chunk.batches.iter().map(move |batch| (file, batch)))
        .collect();
    batches.sort_unstable_by_key(|(_, batch)| (batch.lane, batch.first));
    let most = layout.rows_per_batch(options.batch_bytes);
    for run in runs(&batches, most) {
        let (Some((_, first)), Some((_, last))) = (run.first(), run.last()) else { continue };
        let rows = first.first..last.range().end;
        out.batch(first.lane, rows, |columns| together(run, layout, columns))?;
    }
    let newest = small.iter().map(|chunk| chunk.unix_ns).max().unwrap_or_default();
    let mut merged = out.finish()?;
    for chunk in &mut merged {
        chunk.unix_ns = newest;
    }
    let bytes = merged.iter().map(|chunk| chunk.bytes).sum();
    // Put the merged file in the place of the oldest, since files are pruned oldest first.
    let at = ring.chunks.iter().position(is_small).unwrap_or_default();
    ring.chunks.retain(|chunk| !is_small(chunk));
    ring.chunks.splice(at..at, merged);
    Ok(bytes)
}

/// Returns the smallest size class with enough files to merge.
fn many(chunks: &[SavedChunk], file_bytes: u64) -> Option<u32> {
    let kinds = || chunks.iter().filter(|c| c.bytes < file_bytes).map(|c| kind_of(c.bytes));
    let enough = |kind: &u32| kinds().filter(|other| other == kind).count() >= FILES;
    kinds().filter(enough).min()
}

fn kind_of(bytes: u64) -> u32 {
    (bytes / SMALLEST_BYTES).checked_ilog(FILES as u64).map_or(0, |kind| kind + 1)
}

/// Groups batches that can be merged: of one lane, contiguous, and not too large.
fn runs<'b, 'f>(
    batches: &'b [(&'f ChunkFile<'f>, &'f SavedBatch)],
    most: u64,
) -> Vec<&'b [(&'f ChunkFile<'f>, &'f SavedBatch)]> {
    let mut runs = Vec::new();
    let mut begin = 0;
    for at in 1..=batches.len() {
        let goes_on = match (batches.get(begin), batches.get(at - 1), batches.get(at)) {
            (Some((_, first)), Some((_, last)), Some((_, next))) => {
                next.lane == last.lane
                    && next.first == last.range().end
                    && next.range().end - first.first <= most
            }
            _ => false,
        };
        if !goes_on {
            runs.extend(batches.get(begin..at));
            begin = at;
        }
    }
    runs
}

/// Fills the columns of a batch from the batches that it replaces.
fn together(
    run: &[(&ChunkFile<'_>, &SavedBatch)],
    layout: &BatchLayout,
    columns: &mut [&mut [u8]],
) -> Result<(), MergeError> {
    let mut body = Vec::new();
    let mut row = 0;
    for (file, batch) in run {
        let places = file.body(batch, &mut body)?;
        let rows = row..row + batch.rows;
        // The writer of the batch fills `lane`.
        let of_columns = layout.columns.iter().zip(&places).skip(1).zip(&mut *columns);
        for ((column, place), out) in of_columns {
            let width = match column.dtype {
                DType::Bool => column.items,
                dtype => column.items * dtype.size() as u64,
            };
            let from = body.get(size(place.offset)..).unwrap_or_default();
            let out = out.get_mut(bytes(&rows, width)).ok_or(MergeError::Unread)?;
            if column.dtype == DType::Bool {
                unpack_bools(from, 0, out);
            } else {
                out.copy_from_slice(from.get(..out.len()).ok_or(MergeError::Unread)?);
            }
        }
        row = rows.end;
    }
    Ok(())
}

fn bytes(rows: &Range<u64>, width: u64) -> Range<usize> {
    size(rows.start * width)..size(rows.end * width)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
