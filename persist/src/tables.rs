//! Priorities and rate limits of a snapshot.
//!
//! A table of priorities is saved whole with each snapshot, in files of its own, since learners
//! change it everywhere.

use std::ops::Range;

use backcast_core::{
    DType, Filling, LaneLeaves, LimiterCounts, NoLearner, RateLimiter, Ring, TableSettings,
    TableState,
};
use serde::{Deserialize, Serialize};

use crate::chunk::{ChunkFile, ChunkWriter};
use crate::copy::{hex, table_about};
use crate::damage::{Damage, DamageKind};
use crate::error::SaveError;
use crate::layout::{BatchLayout, FileColumn};
use crate::load::NotFilled;
use crate::manifest::{SavedBatch, SavedChunk};
use crate::storage::Storage;
use crate::store::NameFolder;

/// Columns of a table's file after `lane`.
const COLUMNS: [(&str, DType); 2] = [("seq", DType::U64), ("leaf", DType::U64)];
/// Bytes of a row in these columns.
const WORD: usize = size_of::<u64>();

/// A table of priorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedTable {
    pub(crate) name: String,
    pub(crate) exponent: f64,
    pub(crate) eps: f64,
    /// Largest leaf so far.
    pub(crate) largest: u64,
    /// Files with its leaves.
    pub(crate) chunks: Vec<SavedChunk>,
}

/// A rate limiter: its limits, and the counts that they compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLimiter {
    pub(crate) samples_per_insert: f64,
    pub(crate) min_size: u64,
    /// Lower end of the error band; `None` for no limit.
    pub(crate) min_diff: Option<f64>,
    /// Upper end of the error band; `None` for no limit.
    pub(crate) max_diff: Option<f64>,
    pub(crate) no_learner: String,
    pub(crate) enabled: bool,
    pub(crate) inserts: u64,
    pub(crate) samples: u64,
    pub(crate) deletes: u64,
}

impl SavedTable {
    /// Returns the columns of the file of a table.
    pub(crate) fn layout() -> BatchLayout {
        let columns = std::iter::once(("lane", DType::U32)).chain(COLUMNS);
        BatchLayout {
            columns: columns.map(|(name, dtype)| FileColumn::scalar(name, dtype)).collect(),
        }
    }

    fn settings(&self) -> TableSettings {
        TableSettings { exponent: self.exponent, eps: self.eps }
    }
}

impl SavedLimiter {
    /// Returns the limiter of a ring, if it has one with valid limits.
    pub(crate) fn of(ring: &Ring) -> Option<Self> {
        let limiter = ring.limiter()?;
        let (limits, counts) = (limiter.limits().ok()?, limiter.counts());
        let (min_diff, max_diff) = limits.error_band();
        let finite = |end: f64| end.is_finite().then_some(end);
        let LimiterCounts { inserts, samples, deletes } = counts;
        Some(Self {
            samples_per_insert: limits.samples_per_insert(),
            min_size: limits.min_size_to_sample(),
            min_diff: finite(min_diff),
            max_diff: finite(max_diff),
            no_learner: limits.no_learner_choice().as_str().to_owned(),
            enabled: limits.is_enabled(),
            inserts,
            samples,
            deletes,
        })
    }

    /// Returns the limits, or `None` if they are not valid ones. A ring checks them against its
    /// capacity.
    pub(crate) fn limits(&self) -> Option<RateLimiter> {
        let no_learner: NoLearner = self.no_learner.parse().ok()?;
        let min_diff = self.min_diff.unwrap_or(f64::NEG_INFINITY);
        let max_diff = self.max_diff.unwrap_or(f64::INFINITY);
        let band = RateLimiter::band(self.samples_per_insert, self.min_size, min_diff, max_diff);
        Some(band.no_learner(no_learner).enabled(self.enabled))
    }

    pub(crate) fn counts(&self) -> LimiterCounts {
        let Self { inserts, samples, deletes, .. } = *self;
        LimiterCounts { inserts, samples, deletes }
    }
}

/// Files of tables. Dropping them before [`keep`](Self::keep) removes them.
pub(crate) struct TableFiles<'a> {
    pub(crate) saved: Vec<SavedTable>,
    writers: Vec<ChunkWriter<'a>>,
}

impl TableFiles<'_> {
    /// Keeps the files when `self` is dropped.
    pub(crate) fn keep(self) {
        self.writers.into_iter().for_each(ChunkWriter::keep);
    }
}

/// Writes all tables of a ring to files. `lanes` are the saved rows of each lane.
pub(crate) fn save<'a>(
    ring: &Ring,
    lanes: &[(u64, u64)],
    (storage, folder): (&'a dyn Storage, &'a NameFolder<'a>),
    (generation, file_bytes, batch_bytes): (u64, u64, u64),
    layout: &'a BatchLayout,
) -> Result<TableFiles<'a>, SaveError> {
    let rows_per_batch = layout.rows_per_batch(batch_bytes);
    let mut files = TableFiles { saved: Vec::new(), writers: Vec::new() };
    for mut state in ring.table_states()? {
        let about = table_about(&folder.name, &hex(ring.uuid()), &state.name);
        let dir = &folder.chunks;
        let mut chunks = ChunkWriter::new(storage, dir, generation, layout, &about, file_bytes);
        for ((number, lane), (first, head)) in (0..).zip(&mut state.lanes).zip(lanes) {
            // No transition starts at the newest row.
            lane.keep(&(*first..head.saturating_sub(1).max(*first)));
            write(&mut chunks, number, lane, rows_per_batch)?;
        }
        let TableState { name, settings: TableSettings { exponent, eps }, largest, .. } = state;
        files.saved.push(SavedTable { name, exponent, eps, largest, chunks: chunks.finish()? });
        files.writers.push(chunks);
    }
    Ok(files)
}

/// Writes the leaves of a lane.
fn write(
    chunks: &mut ChunkWriter<'_>,
    lane: u32,
    leaves: &LaneLeaves,
    rows_per_batch: u64,
) -> Result<(), SaveError> {
    let parts = leaves.leaves.chunks(usize::try_from(rows_per_batch).unwrap_or(usize::MAX));
    for (part, values) in (0_u64..).zip(parts) {
        let first = leaves.first + part * rows_per_batch;
        let rows = first..first + values.len() as u64;
        chunks.batch::<SaveError>(lane, rows.clone(), |out| {
            if let [seq, leaf] = out {
                put(seq, rows);
                put(leaf, values.iter().copied());
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn put(column: &mut [u8], values: impl Iterator<Item = u64>) {
    for (place, value) in column.chunks_exact_mut(WORD).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Restores a table in a ring that is being filled. `lanes` are the lanes of the ring.
pub(crate) fn load(
    filling: &mut Filling<'_>,
    table: &SavedTable,
    storage: &dyn Storage,
    folder: &NameFolder<'_>,
    lanes: usize,
) -> Result<(), NotFilled> {
    let layout = SavedTable::layout();
    let mut state = TableState {
        name: table.name.clone(),
        settings: table.settings(),
        largest: table.largest,
        lanes: vec![LaneLeaves::default(); lanes],
    };
    let mut body = Vec::new();
    // Batches of a lane are in order, without gaps, as the manifest's check has found.
    for chunk in &table.chunks {
        let file = ChunkFile::open(storage, &folder.chunks, chunk, &layout)?;
        for batch in &chunk.batches {
            let places = file.body(batch, &mut body)?;
            let column = |number: usize| {
                let place = places.get(number);
                let bytes = place.and_then(|p| body.get(size(p.offset)..size(p.offset + p.bytes)));
                bytes.unwrap_or_default().chunks_exact(WORD).map(word)
            };
            if !column(1).eq(batch.range()) {
                let kind = DamageKind::Rows { lane: batch.lane, rows: batch.range() };
                return Err(Damage { file: file.path().to_owned(), kind }.into());
            }
            let Some(lane) = state.lanes.get_mut(batch.lane as usize) else { continue };
            if lane.leaves.is_empty() {
                lane.first = batch.first;
            }
            lane.leaves.extend(column(2));
        }
    }
    Ok(filling.table(&state)?)
}

/// Describes what is invalid in the batches of a table: those of a lane are contiguous.
pub(crate) fn batches_problem<'a>(batches: impl Iterator<Item = &'a SavedBatch>) -> Option<String> {
    let mut ends: std::collections::BTreeMap<u32, Range<u64>> = Default::default();
    for batch in batches {
        let rows = ends.entry(batch.lane).or_insert(batch.first..batch.first);
        if rows.end != batch.first {
            return Some(format!("leaves of lane {} are not in order", batch.lane));
        }
        rows.end = batch.range().end;
    }
    None
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
