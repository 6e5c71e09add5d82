//! Parameters in a manifest.

use backcast_core::{DType, ParamsArray, ParamsShape};
use serde::{Deserialize, Serialize};

use super::SavedChunk;
use crate::layout::{BatchLayout, FileColumn};

/// Columns before the arrays. No array has a name that begins with a slash.
const COLUMNS: [(&str, DType); 2] = [("/lane", DType::U32), ("/version", DType::U64)];

/// The newest version of a set of parameters when a snapshot was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedParams {
    pub(crate) name: String,
    /// 0 if none was published yet: then there is no file.
    pub(crate) version: u64,
    pub(crate) versions_kept: u32,
    pub(crate) spare_slots: u32,
    pub(crate) reader_slots: u32,
    pub(crate) arrays: Vec<SavedArray>,
    /// The file with the version: one batch of one row.
    pub(crate) chunks: Vec<SavedChunk>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedArray {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
}

/// Parameters of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotParams {
    /// Name of the parameters.
    pub name: String,
    /// The version that was saved; 0 if none was published.
    pub version: u64,
    /// Number of arrays.
    pub arrays: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

impl From<&SavedParams> for SnapshotParams {
    fn from(saved: &SavedParams) -> Self {
        Self {
            name: saved.name.clone(),
            version: saved.version,
            arrays: saved.arrays.len(),
            bytes: saved.chunks.iter().map(|chunk| chunk.bytes).sum(),
        }
    }
}

impl SavedParams {
    pub(crate) fn of(name: &str, shape: &ParamsShape) -> Self {
        let saved = |array: &ParamsArray| SavedArray {
            name: array.name().to_owned(),
            dtype: array.dtype().code().to_owned(),
            shape: array.shape().to_vec(),
        };
        Self {
            name: name.to_owned(),
            version: 0,
            versions_kept: shape.versions_kept(),
            spare_slots: shape.spare_slots(),
            reader_slots: shape.reader_slots(),
            arrays: shape.arrays().iter().map(saved).collect(),
            chunks: Vec::new(),
        }
    }

    /// Returns the checked shape, or `None` if it is not valid.
    pub(crate) fn shape(&self) -> Option<ParamsShape> {
        let array = |saved: &SavedArray| {
            ParamsArray::new(&saved.name, saved.dtype.parse().ok()?, &saved.shape).ok()
        };
        let arrays = self.arrays.iter().map(array).collect::<Option<Vec<_>>>()?;
        ParamsShape::new(arrays, self.versions_kept, self.spare_slots, self.reader_slots).ok()
    }

    /// Describes an invalid file. A valid one has one batch of one row; version 0 has none.
    pub(super) fn file_problem(&self) -> Option<String> {
        let batches = self.chunks.iter().flat_map(|chunk| &chunk.batches);
        let rows: Vec<_> = batches.map(|batch| (batch.lane, batch.range())).collect();
        let expected: &[_] = if self.version == 0 { &[] } else { &[(0, 0..1)] };
        (rows != expected).then(|| format!("its file does not hold version {}", self.version))
    }
}

/// Returns the columns of the file of parameters, or the name of an array that is too large for
/// Arrow: it has more than 2³¹ - 1 elements.
pub(crate) fn layout(shape: &ParamsShape) -> Result<BatchLayout, &str> {
    let built_in = COLUMNS.into_iter().map(|(name, dtype)| Ok(FileColumn::scalar(name, dtype)));
    let arrays = shape.arrays().iter().map(|array| {
        let shape = array.shape().iter().map(|axis| u32::try_from(*axis));
        let items = array.bytes() / array.dtype().size();
        match shape.collect::<Result<Vec<_>, _>>() {
            Ok(shape) if i32::try_from(items).is_ok() => Ok(FileColumn {
                name: array.name().to_owned(),
                dtype: array.dtype(),
                shape,
                items: items as u64,
            }),
            _ => Err(array.name()),
        }
    });
    Ok(BatchLayout { columns: built_in.chain(arrays).collect::<Result<_, _>>()? })
}
