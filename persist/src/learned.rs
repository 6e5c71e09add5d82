//! Learned columns of a snapshot.
//!
//! Like priorities, a table is saved whole with each snapshot but the live one, in files of its
//! own, since learners change it everywhere.

use backcast_core::{DType, Filling, LaneValues, LearnedState};

use crate::chunk::{ChunkFile, ChunkWriter, SavedFiles};
use crate::copy::table_about;
use crate::damage::{Damage, DamageKind};
use crate::error::{NotFilled, SaveError};
use crate::layout::{BatchLayout, unpack_bools};
use crate::manifest::SavedLearned;
use crate::storage::Storage;
use crate::store::NameFolder;

/// Bytes of a sequence number.
const SEQ: usize = size_of::<u64>();

/// Writes tables to files, each with its layout. `lanes` are the saved rows of each lane.
pub(crate) fn save<'a>(
    states: Vec<LearnedState>,
    layouts: &'a [BatchLayout],
    lanes: &[(u64, u64)],
    (storage, folder, uuid): (&'a dyn Storage, &'a NameFolder<'a>, &str),
    (generation, file_bytes, batch_bytes): (u64, u64, u64),
) -> Result<SavedFiles<'a, SavedLearned>, SaveError> {
    let mut files = SavedFiles::default();
    for (mut state, layout) in states.into_iter().zip(layouts) {
        let about = table_about(&folder.name, uuid, &state.name);
        let dir = &folder.chunks;
        let mut chunks = ChunkWriter::new(storage, dir, generation, layout, &about, file_bytes);
        let dtypes: Vec<DType> = state.columns.iter().map(|column| column.dtype).collect();
        for ((number, lane), (first, head)) in (0..).zip(&mut state.lanes).zip(lanes) {
            lane.keep(&(*first..*head), dtypes.len());
            write(&mut chunks, number, lane, &dtypes, layout.rows_per_batch(batch_bytes))?;
        }
        let saved = SavedLearned::of(&state, chunks.finish()?);
        files.push(saved, chunks);
    }
    Ok(files)
}

/// Writes the values of a lane.
fn write(
    chunks: &mut ChunkWriter<'_>,
    lane: u32,
    values: &LaneValues,
    dtypes: &[DType],
    rows_per_batch: u64,
) -> Result<(), SaveError> {
    let width = dtypes.len();
    let rows = usize::try_from(rows_per_batch).unwrap_or(usize::MAX);
    for (part, values_of_part) in (0_u64..).zip(values.values.chunks(rows.saturating_mul(width))) {
        let first = values.first + part * rows_per_batch;
        let rows = first..first + (values_of_part.len() / width) as u64;
        chunks.batch::<SaveError>(lane, rows.clone(), |out| {
            let Some((seq, columns)) = out.split_first_mut() else { return Ok(()) };
            for (place, seq) in seq.chunks_exact_mut(SEQ).zip(rows) {
                place.copy_from_slice(&seq.to_le_bytes());
            }
            for (at, (pair, dtype)) in columns.chunks_exact_mut(2).zip(dtypes).enumerate() {
                let [column, set] = pair else { continue };
                let of_column = values_of_part.iter().skip(at).step_by(width);
                let places = column.chunks_exact_mut(dtype.size()).zip(set.iter_mut());
                for ((place, set), value) in places.zip(of_column) {
                    let bytes = value.unwrap_or(0).to_le_bytes();
                    place.copy_from_slice(bytes.get(..dtype.size()).unwrap_or_default());
                    *set = u8::from(value.is_some());
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Restores a table in a ring that is being filled. `lanes` is the number of lanes of the ring.
pub(crate) fn load(
    filling: &mut Filling<'_>,
    table: &SavedLearned,
    storage: &dyn Storage,
    folder: &NameFolder<'_>,
    lanes: usize,
) -> Result<(), NotFilled> {
    let layout = table.layout();
    // The manifest's check has found that the columns are right.
    let columns = table.columns().unwrap_or_default();
    let lanes = vec![LaneValues::default(); lanes];
    let mut state = LearnedState { name: table.name.clone(), columns, lanes };
    let width = state.columns.len();
    let (mut body, mut bools) = (Vec::new(), Vec::new());
    // Batches of a lane are in order, without gaps, as that check has found too.
    for chunk in &table.chunks {
        let file = ChunkFile::open(storage, &folder.chunks, chunk, &layout)?;
        for batch in &chunk.batches {
            let places = file.body(batch, &mut body)?;
            let bytes = |number: usize| {
                let place = places.get(number);
                let bytes = place.and_then(|p| body.get(size(p.offset)..size(p.offset + p.bytes)));
                bytes.unwrap_or_default()
            };
            let seq = bytes(1)
                .chunks_exact(SEQ)
                .map(|bytes| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
            if !seq.eq(batch.range()) {
                let kind = DamageKind::Rows { lane: batch.lane, rows: batch.range() };
                return Err(Damage { file: file.path().to_owned(), kind }.into());
            }
            let Some(lane) = state.lanes.get_mut(batch.lane as usize) else { continue };
            if lane.values.is_empty() {
                lane.first = batch.first;
            }
            let (rows, start) = (size(batch.rows), lane.values.len());
            lane.values.resize(start + rows * width, None);
            let mut unpacked = |number: usize| {
                bools.resize(rows, 0);
                unpack_bools(bytes(number), 0, &mut bools);
                bools.clone()
            };
            for (at, column) in state.columns.iter().enumerate() {
                let set = unpacked(3 + 2 * at);
                let values: Vec<u32> = match column.dtype {
                    DType::Bool => unpacked(2 + 2 * at).into_iter().map(u32::from).collect(),
                    dtype => bytes(2 + 2 * at).chunks_exact(dtype.size()).map(bits).collect(),
                };
                let places = lane.values.iter_mut().skip(start + at).step_by(width);
                for ((place, value), set) in places.zip(values).zip(set) {
                    *place = (set != 0).then_some(value);
                }
            }
        }
    }
    Ok(filling.learned(&state)?)
}

/// Returns the bits of a value of at most 4 bytes.
fn bits(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
