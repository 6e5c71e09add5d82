//! Copies rows from a ring to chunk files beside its writers, for saves and followers.

use std::collections::BTreeMap;
use std::ops::Range;

use backcast_core::{ReadError, RetentionPin, Ring};
use backcast_files::{OnProgress, Progress};

use crate::chunk::ChunkWriter;
use crate::error::{SaveError, StoreError};
use crate::manifest::{Manifest, SavedColumn, SavedRing};
use crate::store::NameFolder;

/// Failed reads after which a row that no writer has overwritten counts as unreadable.
const ATTEMPTS: u32 = 16;

/// Contiguous ranges of saved rows by lane.
pub(crate) type Saved = BTreeMap<u32, Vec<Range<u64>>>;

/// Copier of rows from a ring to chunk files.
pub(crate) struct RowCopier<'a, 'c, 'p> {
    pub(crate) ring: &'a Ring,
    /// Pin of the rows to copy.
    pub(crate) guard: Option<&'a RetentionPin>,
    pub(crate) chunks: &'a mut ChunkWriter<'c>,
    pub(crate) rows_per_batch: u64,
    pub(crate) progress: Option<&'a mut OnProgress<'p>>,
    pub(crate) done: Progress,
}

/// Reason why a batch was not written.
enum NotWritten {
    Read(ReadError),
    Store(StoreError),
}

impl From<StoreError> for NotWritten {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl RowCopier<'_, '_, '_> {
    /// Copies the rows of a lane, except lapped ones. Returns the number of rows copied.
    pub(crate) fn lane(&mut self, lane: u32, rows: Range<u64>) -> Result<u64, SaveError> {
        let (mut at, mut copied, mut attempts) = (rows.start, 0, 0);
        while at < rows.end {
            let batch = at..rows.end.min(at.saturating_add(self.rows_per_batch));
            let kept =
                |guard: &&RetentionPin| guard.span(lane).is_some_and(|kept| kept.start <= at);
            let guard = self.guard.filter(kept);
            match self.batch(lane, batch.clone(), guard) {
                Ok(written) => {
                    copied += written.end - written.start;
                    (at, attempts) = (batch.end, 0);
                }
                Err(NotWritten::Store(error)) => return Err(error.into()),
                Err(NotWritten::Read(error)) => {
                    let oldest = match guard {
                        Some(_) => at,
                        None => self.ring.lane_span(lane).unwrap_or_default().start,
                    };
                    attempts += 1;
                    if oldest <= at && attempts >= ATTEMPTS {
                        let problem = error.to_string();
                        return Err(SaveError::Unreadable { lane, seq: at, problem });
                    }
                    at = oldest.clamp(at, rows.end);
                }
            }
            // Lapped rows count as done. Bytes are those of the rows, without the padding of
            // batches.
            let Progress { total_rows, total_bytes, .. } = self.done;
            self.done.rows += at - batch.start;
            let bytes = u128::from(total_bytes) * u128::from(self.done.rows);
            let bytes = bytes / u128::from(total_rows.max(1));
            self.done.bytes = u64::try_from(bytes).unwrap_or(total_bytes);
            if let Some(progress) = &mut self.progress
                && progress(&self.done).is_break()
            {
                return Err(SaveError::Cancelled);
            }
        }
        Ok(copied)
    }

    /// Writes the rows of a batch that the writer has not overwritten, and returns their range.
    fn batch(
        &mut self,
        lane: u32,
        rows: Range<u64>,
        guard: Option<&RetentionPin>,
    ) -> Result<Range<u64>, NotWritten> {
        let ring = self.ring;
        let written = self.chunks.batch(lane, rows.clone(), |out| {
            let read = match guard {
                Some(guard) => guard.rows_into(lane, rows.clone(), out),
                None => ring.rows_into(lane, rows.clone(), out),
            };
            read.map_err(NotWritten::Read)
        });
        match written {
            Ok(_) => return Ok(rows),
            Err(NotWritten::Read(_)) if guard.is_none() => {}
            Err(error) => return Err(error),
        }
        // The writer overwrote the first rows. Keep the rest of one more copy: a fast writer could
        // overtake every copy that needs all its rows.
        let rest = ring.remaining_rows(lane, rows).map_err(NotWritten::Read)?;
        let (_, found) = rest.place();
        if !found.is_empty() {
            self.chunks.batch(lane, found.clone(), |out| -> Result<(), NotWritten> {
                for (column, out) in rest.columns().iter().zip(out) {
                    let bytes = rest.bytes(column.name()).unwrap_or_default();
                    for (to, from) in out.iter_mut().zip(bytes) {
                        *to = *from;
                    }
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Returns the index of the ring in the manifest, adding it if needed. Fails if the saved ring of
/// that identity has other columns or lanes.
pub(crate) fn known(
    folder: &NameFolder<'_>,
    ring: &Ring,
    uuid: &str,
    manifest: &mut Manifest,
) -> Result<usize, SaveError> {
    if let Some(at) = manifest.rings.iter().position(|saved| saved.uuid == uuid) {
        let same =
            |saved: &&mut SavedRing| saved.columns == columns(ring) && saved.lanes == ring.lanes();
        let saved = manifest.rings.get_mut(at).filter(same);
        let saved = saved.ok_or_else(|| SaveError::OtherRing { path: folder.dir.clone() })?;
        // A resize relocates lanes one by one: keep the largest capacity seen so far.
        saved.lane_capacity = saved.lane_capacity.max(lane_capacity(ring));
        return Ok(at);
    }
    let stats = ring.stats();
    let policy = stats.lane_policy;
    manifest.rings.push(SavedRing {
        uuid: uuid.to_owned(),
        created_unix_ns: stats.created_unix_ns,
        columns: columns(ring),
        lanes: ring.lanes(),
        lane_capacity: lane_capacity(ring),
        lane_policy: policy.as_str().to_owned(),
        lease_timeout_ms: u64::try_from(policy.timeout().as_millis()).unwrap_or(u64::MAX),
        reader_slots: ring.reader_slots(),
        follow: None,
        chunks: Vec::new(),
    });
    Ok(manifest.rings.len() - 1)
}

/// Returns the capacity of the largest lane.
fn lane_capacity(ring: &Ring) -> u64 {
    let of_lane = |lane| ring.lane_capacity_of(lane);
    (0..ring.lanes()).filter_map(of_lane).max().unwrap_or_default()
}

/// Returns metadata of a chunk file for other programs.
pub(crate) fn about(name: &str, uuid: &str, ring: &Ring) -> [(&'static str, String); 3] {
    [
        ("backcast.ring", name.to_owned()),
        ("backcast.uuid", uuid.to_owned()),
        ("backcast.columns", serde_json::to_string(&columns(ring)).unwrap_or_default()),
    ]
}

/// Returns metadata of a file of priorities or learned columns for other programs.
pub(crate) fn table_about(name: &str, uuid: &str, table: &str) -> [(&'static str, String); 3] {
    [
        ("backcast.ring", name.to_owned()),
        ("backcast.uuid", uuid.to_owned()),
        ("backcast.table", table.to_owned()),
    ]
}

/// Returns metadata of a file of parameters for other programs.
pub(crate) fn params_about(name: &str, params: &str) -> [(&'static str, String); 2] {
    [("backcast.ring", name.to_owned()), ("backcast.params", params.to_owned())]
}

fn columns(ring: &Ring) -> Vec<SavedColumn> {
    ring.schema().columns().iter().map(SavedColumn::of).collect()
}

/// Returns the rows of `cut` that no file has.
pub(crate) fn missing(cut: &[Range<u64>], saved: &Saved) -> Vec<(u32, Range<u64>)> {
    let of_lane = |(lane, span): (u32, &Range<u64>)| {
        let runs = saved.get(&lane).map(Vec::as_slice).unwrap_or_default();
        gaps(span, runs).into_iter().map(move |rows| (lane, rows))
    };
    (0..).zip(cut).flat_map(of_lane).collect()
}

/// Returns the contiguous saved rows of each lane that reach to the end of `cut`.
pub(crate) fn without_gaps(cut: &[Range<u64>], saved: &Saved) -> Vec<(u64, u64)> {
    let of_lane = |(lane, span): (u32, &Range<u64>)| {
        let runs = saved.get(&lane).map(Vec::as_slice).unwrap_or_default();
        let last = runs.iter().find(|run| run.contains(&span.end.wrapping_sub(1)));
        (last.map_or(span.end, |run| run.start.max(span.start)), span.end)
    };
    (0..).zip(cut).map(of_lane).collect()
}

/// Returns the parts of `span` outside of `runs`, which are in order.
pub(crate) fn gaps(span: &Range<u64>, runs: &[Range<u64>]) -> Vec<Range<u64>> {
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
    fn rows_saved_before_are_left_out() {
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

    #[test]
    fn rows_to_copy_and_rows_without_gaps_are_those_of_each_lane() {
        let run = |start, end| Range::<u64> { start, end };
        let saved = Saved::from([(0, vec![run(0, 4), run(6, 10)]), (2, vec![run(3, 9)])]);
        for (cut, left, reached) in [
            (run(2, 10), vec![(0, run(4, 6))], (6, 10)),
            (run(7, 10), vec![], (7, 10)),
            (run(2, 11), vec![(0, run(4, 6)), (0, run(10, 11))], (11, 11)),
            (run(1, 4), vec![], (1, 4)),
            (run(1, 5), vec![(0, run(4, 5))], (5, 5)),
            (run(0, 0), vec![], (0, 0)),
        ] {
            let cuts = [cut, run(0, 5), run(5, 9), run(8, 12)];
            let others = [(1, run(0, 5)), (3, run(8, 12))];
            assert_eq!(missing(&cuts, &saved), [&left[..], &others].concat(), "{cuts:?}");
            let expected = [reached, (5, 5), (5, 9), (12, 12)];
            assert_eq!(without_gaps(&cuts, &saved), expected, "{cuts:?}");
        }
    }
}
