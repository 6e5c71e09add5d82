//! Parameters saved with a snapshot.
//!
//! A snapshot has the parameters that its saver names. Their newest version is saved whole, as one
//! row of a file of its own with a column for each array.

use std::borrow::Cow;

use backcast_core::{DType, Params, ParamsArray, ParamsOptions, ParamsShape};

use crate::chunk::{ChunkFile, ChunkWriter, SavedFiles};
use crate::copy::params_about;
use crate::error::{NotFilled, SaveError};
use crate::layout::{BatchLayout, BodyPlace, unpack_bools};
use crate::manifest::{SavedParams, params_layout};
use crate::storage::Storage;
use crate::store::NameFolder;

/// Returns the parameters to save with the columns of their files. Refuses parameters without a
/// name or given twice, and arrays that Arrow cannot hold.
pub(crate) fn checked<'a>(
    params: &[&'a Params],
) -> Result<Vec<(&'a Params, &'a str, BatchLayout)>, SaveError> {
    let mut found: Vec<(&Params, &str, BatchLayout)> = Vec::with_capacity(params.len());
    for params in params {
        let name = params.name().ok_or(SaveError::NamelessParams)?;
        if found.iter().any(|(_, other, _)| *other == name) {
            return Err(SaveError::ParamsTwice { name: name.to_owned() });
        }
        let layout = params_layout(params.shape()).map_err(|array| SaveError::ArrayTooLarge {
            name: name.to_owned(),
            array: array.to_owned(),
        })?;
        found.push((params, name, layout));
    }
    Ok(found)
}

/// Writes the newest version of each set of parameters to a file. Copies until a copy is whole, so
/// no publisher waits.
pub(crate) fn save<'a>(
    params: &'a [(&Params, &str, BatchLayout)],
    (storage, folder): (&'a dyn Storage, &'a NameFolder<'a>),
    generation: u64,
) -> Result<SavedFiles<'a, SavedParams>, SaveError> {
    let mut files = SavedFiles::default();
    for (params, name, layout) in params {
        let mut saved = SavedParams::of(name, params.shape());
        let about = params_about(&folder.name, name);
        let mut chunks =
            ChunkWriter::new(storage, &folder.chunks, generation, layout, &about, u64::MAX);
        if params.version() > 0 {
            chunks.batch::<SaveError>(0, 0..1, |out| {
                if let Some((version, arrays)) = out.split_first_mut() {
                    saved.version = params.another().read_bytes(arrays)?;
                    version.copy_from_slice(&saved.version.to_le_bytes());
                }
                Ok(())
            })?;
        }
        saved.chunks = chunks.finish()?;
        files.push(saved, chunks);
    }
    Ok(files)
}

/// Makes parameters of that name from saved ones, whose shape is `shape`. Every byte that is read
/// is checked first.
pub(crate) fn load(
    name: &str,
    (saved, shape): (&SavedParams, &ParamsShape),
    (storage, folder): (&dyn Storage, &NameFolder<'_>),
    options: ParamsOptions,
) -> Result<Params, NotFilled> {
    let arrays = shape.arrays().to_vec();
    let options = options
        .versions_kept(shape.versions_kept())
        .spare_slots(shape.spare_slots())
        .reader_slots(shape.reader_slots());
    let file = saved.chunks.first().and_then(|chunk| Some((chunk, chunk.batches.first()?)));
    let Some((chunk, batch)) = file else {
        return Ok(Params::create(name, arrays, options)?);
    };
    // A checked manifest has arrays that fit a file.
    let layout = params_layout(shape).unwrap_or_default();
    let mut body = Vec::new();
    let file = ChunkFile::open(storage, &folder.chunks, chunk, &layout)?;
    let places = file.body(batch, &mut body)?;
    let columns = places.iter().skip(layout.columns.len().saturating_sub(arrays.len()));
    let bytes: Vec<Cow<'_, [u8]>> =
        columns.zip(&arrays).map(|(place, array)| values(array, *place, &body)).collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &**bytes).collect();
    Ok(Params::restore(name, arrays, options, saved.version, &bytes)?)
}

/// Returns the bytes of an array as they are in memory: with one byte per `bool`.
fn values<'a>(array: &ParamsArray, place: BodyPlace, body: &'a [u8]) -> Cow<'a, [u8]> {
    let from = size(place.offset);
    let stored = body.get(from..from + size(place.bytes)).unwrap_or_default();
    if array.dtype() != DType::Bool {
        return stored.into();
    }
    let mut bools = vec![0; array.bytes()];
    unpack_bools(stored, 0, &mut bools);
    bools.into()
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
