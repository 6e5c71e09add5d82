//! Tables of a snapshot: priorities, learned columns and claims; and its rate limiter.
//!
//! A table of priorities is saved whole with each snapshot but the live one, in files of its own,
//! since learners change it everywhere.

use std::time::Duration;

use backcast_core::{
    Filling, LaneLeaves, LearnedState, Ring, TableSettings, TableState, Wait, WaitReport,
};

use crate::chunk::{ChunkFile, ChunkWriter, SavedFiles};
use crate::copy::{hex, table_about};
use crate::damage::{Damage, DamageKind};
use crate::error::{NotFilled, SaveError};
use crate::layout::BatchLayout;
use crate::learned;
use crate::left_out::{LIMITER, UnsavedParts};
use crate::manifest::{SavedClaims, SavedLearned, SavedLimiter, SavedTable};
use crate::storage::Storage;
use crate::store::NameFolder;
use crate::waiting::Stops;

/// Maximum wait for tables that other processes have locked. A change holds the lock for
/// microseconds.
const TABLE_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a row in the columns `seq` and `leaf` of a table's file.
const WORD: usize = size_of::<u64>();

/// Layouts of the files of all tables.
pub(crate) struct TableLayouts {
    priorities: BatchLayout,
    /// Layouts of the tables of learned columns, in the order of their states.
    learned: Vec<BatchLayout>,
}

/// Tables of a ring, as they are to be saved.
pub(crate) struct PreparedTables {
    pub(crate) states: TableStates,
    pub(crate) layouts: TableLayouts,
    /// Tables that could not be read.
    pub(crate) left_out: UnsavedParts,
}

/// States of the tables of priorities and of learned columns.
type TableStates = (Vec<TableState>, Vec<LearnedState>);

/// Reads the tables of priorities and of learned columns. Waits for locked tables of priorities up
/// to the shorter of `limit` and [`TABLE_WAIT`]. Fails if this process ran out of something.
pub(crate) fn prepare(
    ring: &Ring,
    limit: Duration,
    stops: &Stops<'_, '_>,
) -> Result<PreparedTables, SaveError> {
    let mut left_out = UnsavedParts::default();
    let ends = |_: Option<WaitReport<'_>>| stops.ask();
    let mut wait = Wait::ended_by(Some(limit.min(TABLE_WAIT)), &ends);
    let mut priorities = Vec::new();
    for (table, state) in ring.table_states(&mut wait)? {
        priorities.extend(left_out.unless_read(table, state)?);
    }
    let mut learned = Vec::new();
    for (table, state) in ring.learned_states()? {
        learned.extend(left_out.unless_read(table, state)?);
    }
    let of_learned = learned.iter().map(|state| SavedLearned::layout_of(&state.columns));
    let layouts = TableLayouts { priorities: SavedTable::layout(), learned: of_learned.collect() };
    Ok(PreparedTables { states: (priorities, learned), layouts, left_out })
}

/// Reads the rate limiter of a ring, if it has one.
pub(crate) fn limiter(
    ring: &Ring,
    left_out: &mut UnsavedParts,
) -> Result<Option<SavedLimiter>, SaveError> {
    let Some(limiter) = ring.limiter() else { return Ok(None) };
    left_out.unless_read(LIMITER.to_owned(), SavedLimiter::of(&limiter))
}

/// Reads the tables of claims of a ring. Fails if this process ran out of something.
pub(crate) fn claims(ring: &Ring) -> Result<(Vec<SavedClaims>, UnsavedParts), SaveError> {
    let (mut claims, mut left_out) = (Vec::new(), UnsavedParts::default());
    for (table, state) in ring.claim_states()? {
        claims.extend(left_out.unless_read(table, state)?.map(SavedClaims::of));
    }
    Ok((claims, left_out))
}

/// Files of priorities, and files of learned columns.
type TableFiles<'a> = (SavedFiles<'a, SavedTable>, SavedFiles<'a, SavedLearned>);

/// Writes all priority tables of a ring, and its learned columns, to files. `lanes` are the saved
/// rows of each lane.
pub(crate) fn save<'a>(
    ring: &Ring,
    (priorities, states): TableStates,
    lanes: &[(u64, u64)],
    (storage, folder): (&'a dyn Storage, &'a NameFolder<'a>),
    (generation, file_bytes, batch_bytes): (u64, u64, u64),
    layouts: &'a TableLayouts,
) -> Result<TableFiles<'a>, SaveError> {
    let layout = &layouts.priorities;
    let rows_per_batch = layout.rows_per_batch(batch_bytes);
    let (uuid, limits) = (hex(ring.uuid()), (generation, file_bytes, batch_bytes));
    let place = (storage, folder, uuid.as_str());
    let learned = learned::save(states, &layouts.learned, lanes, place, limits)?;
    let mut files = SavedFiles::default();
    for mut state in priorities {
        let about = table_about(&folder.name, &uuid, &state.name);
        let dir = &folder.chunks;
        let mut chunks = ChunkWriter::new(storage, dir, generation, layout, &about, file_bytes);
        for ((number, lane), (first, head)) in (0..).zip(&mut state.lanes).zip(lanes) {
            // No transition starts at the newest row.
            lane.keep(&(*first..head.saturating_sub(1).max(*first)));
            write(&mut chunks, number, lane, rows_per_batch)?;
        }
        let TableState { name, settings, largest, .. } = state;
        let TableSettings { exponent, eps, stride, tracks_largest, .. } = settings;
        let of_table = chunks.finish()?;
        let saved = SavedTable {
            name,
            exponent,
            eps,
            stride,
            tracks_largest,
            keeps_priorities: settings.keeps_priorities(),
            counts_ranks: settings.counts_ranks(),
            largest,
            chunks: of_table,
        };
        files.push(saved, chunks);
    }
    Ok((files, learned))
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

/// Restores a table in a ring that is being filled. `lanes` is the number of lanes of the ring.
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

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
