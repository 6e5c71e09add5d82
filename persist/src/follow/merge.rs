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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Disk;

    fn chunk(bytes: u64) -> SavedChunk {
        SavedChunk {
            file: "a.arrow".to_owned(),
            bytes,
            unix_ns: 0,
            head_crc32: 0,
            tail_crc32: 0,
            batches: Vec::new(),
        }
    }

    #[test]
    fn eight_files_below_the_limit_and_of_one_size_class_are_enough() {
        let classes = [(0, 0), (4_095, 0), (4_096, 1), (32_767, 1), (32_768, 2), (262_143, 2)];
        for (bytes, kind) in classes.into_iter().chain([(262_144, 3), (2_097_152, 4)]) {
            assert_eq!(kind_of(bytes), kind, "{bytes} bytes");
        }
        let limit = 40_000;
        for (sizes, kind) in [
            (vec![(8, 100)], Some(0)),
            (vec![(7, 100)], None),
            (vec![(7, 100), (1, 4_096)], None),
            (vec![(7, 100), (9, 5_000)], Some(1)),
            (vec![(8, 5_000), (8, 100)], Some(0)),
            (vec![(8, limit - 1)], Some(2)),
            (vec![(8, limit)], None),
            (vec![(7, limit - 1), (5, limit)], None),
        ] {
            let of_size = |(files, bytes): &(usize, u64)| vec![chunk(*bytes); *files];
            let chunks: Vec<SavedChunk> = sizes.iter().flat_map(of_size).collect();
            assert_eq!(many(&chunks, limit), kind, "{sizes:?}");
        }
    }

    #[test]
    fn contiguous_batches_of_a_lane_are_merged_up_to_the_rows_of_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.arrow"), [0_u8; 10]).unwrap();
        let layout = BatchLayout::default();
        let Ok(file) = ChunkFile::open(&Disk, dir.path(), &chunk(10), &layout) else {
            panic!("a file of ten bytes")
        };
        let batch = |(lane, first, end): (u32, u64, u64)| SavedBatch {
            lane,
            first,
            rows: end - first,
            frame_at: 0,
            body_at: 0,
            frame_crc32: 0,
            column_crc32: Vec::new(),
        };
        let batches = [
            (0, 2, 6),
            (0, 6, 10),
            (0, 10, 14),
            (0, 15, 17),
            (1, 17, 19),
            (1, 19, 32),
            (1, 32, 33),
            (1, 33, 34),
            (1, 34, 35),
        ]
        .map(batch);
        let pairs: Vec<_> = batches.iter().map(|batch| (&file, batch)).collect();
        for (most, expected) in [
            (1, vec![1; 9]),
            (8, vec![2, 1, 1, 1, 1, 3]),
            (12, vec![3, 1, 1, 1, 3]),
            (14, vec![3, 1, 1, 2, 2]),
            (15, vec![3, 1, 2, 3]),
            (100, vec![3, 1, 5]),
        ] {
            let found = runs(&pairs, most);
            let lengths: Vec<usize> = found.iter().map(|run| run.len()).collect();
            assert_eq!(lengths, expected, "at most {most} rows");
            let all = found.into_iter().flatten().map(|(_, batch)| batch.range());
            assert!(all.eq(batches.iter().map(SavedBatch::range)), "each batch once, in order");
        }
        assert!(runs(&[], 8).is_empty());
    }
}
