//! Reads Parquet files that are not trusted. The footer's claims are checked before a column is
//! decoded, and a panic of the decoder is an error.

use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ArrayRef;
use backcast_core::DType;
use backcast_files::parquet::{ColumnChunk, FileSource, byte_range, read_footer};
use backcast_files::{catch_panics, unpacked_limit};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::Length;

use super::arrays::{self, ArrayMismatch};
use super::leaves::{self, FileLeaf};
use crate::error::ImportError;

const MAGIC: &[u8] = b"PAR1";

/// An open file whose footer was decoded and whose column chunks lie within the file.
#[derive(Debug)]
pub(crate) struct UntrustedParquet {
    path: PathBuf,
    source: FileSource,
    metadata: ArrowReaderMetadata,
}

/// Number of a leaf and the layout of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafLayout {
    pub(crate) number: usize,
    pub(crate) dtype: DType,
    /// Elements per row.
    pub(crate) items: usize,
    /// Whether a row is one element, plain or in a list.
    pub(crate) scalar: bool,
}

impl UntrustedParquet {
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let read = |source| ImportError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(read)?;
        let source = FileSource::new(file).map_err(read)?;
        let damaged = |what: String| damaged(path, "the footer", what);
        let magic = |at: u64| source.bytes(at, MAGIC.len()).is_ok_and(|bytes| bytes == MAGIC);
        if source.len() < 12 || !magic(0) || !magic(source.len() - MAGIC.len() as u64) {
            return Err(damaged("it does not begin and end with PAR1".to_owned()));
        }
        let metadata = decode(|| {
            let footer = read_footer(&source)?;
            let footer = ParquetMetaDataReader::decode_metadata(&footer)?;
            ArrowReaderMetadata::try_new(Arc::new(footer), ArrowReaderOptions::new())
        })
        .map_err(damaged)?;
        let file = Self { path: path.to_owned(), source, metadata };
        for (number, group) in file.footer().row_groups().iter().enumerate() {
            let bad = |what: String| file.damaged(format!("row group {number}"), what);
            u64::try_from(group.num_rows()).map_err(|_| bad("negative rows".into()))?;
            for chunk in group.columns() {
                byte_range(chunk, file.source.len()).map_err(|error| bad(error.to_string()))?;
            }
        }
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn footer(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    pub(crate) fn schema(&self) -> &arrow_schema::Schema {
        self.metadata.schema()
    }

    pub(crate) fn damaged(&self, part: impl Into<String>, what: impl Into<String>) -> ImportError {
        damaged(&self.path, part, what)
    }

    /// Returns the number of rows over all row groups. Opening the file checked that no count is
    /// negative.
    pub(crate) fn rows(&self) -> u64 {
        let rows = |group: &parquet::file::metadata::RowGroupMetaData| group.num_rows();
        let rows = self.footer().row_groups().iter().map(rows);
        rows.map(|rows| u64::try_from(rows).unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Refuses a file that claims more rows of `row_bytes` bytes than a file of its size can hold.
    pub(crate) fn check_unpacked(&self, row_bytes: u64) -> Result<(), ImportError> {
        let unpacked = self.rows().saturating_mul(row_bytes);
        let limit = unpacked_limit(self.source.len());
        if unpacked <= limit {
            return Ok(());
        }
        let what = format!("it claims to unpack to {unpacked} bytes; the limit is {limit}");
        Err(self.damaged("the footer", what))
    }

    /// Lists the arrays of the file. Their shapes may be in the metadata key `shape_key`.
    pub(crate) fn leaves(&self, shape_key: &str) -> Result<Vec<FileLeaf>, ImportError> {
        let leaves = leaves::leaves(self.schema(), shape_key);
        let (found, stored) =
            (leaves.len(), self.footer().file_metadata().schema_descr().num_columns());
        if found == stored {
            return Ok(leaves);
        }
        Err(self
            .damaged("the footer", format!("its schema has {found} arrays, and it has {stored}")))
    }

    /// Returns a reader of one leaf of a row group, which yields `piece` rows at a time.
    pub(crate) fn reader(
        &self,
        row_group: usize,
        leaf: LeafLayout,
        piece: usize,
    ) -> Result<LeafReader<'_>, ImportError> {
        let part = self.part(row_group, leaf.number);
        let inner = decode(|| {
            let schema = self.footer().file_metadata().schema_descr();
            let mask = ProjectionMask::leaves(schema, [leaf.number]);
            let hint = self.schema().fields();
            let levels = parquet_to_arrow_field_levels(schema, mask, Some(hint))?;
            let (source, metadata) = (self.source.clone(), Arc::clone(self.metadata.metadata()));
            let chunk =
                ColumnChunk { source, metadata, row_group, row_values: leaf.items.max(1) as u64 };
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &chunk, piece, None)
        });
        let inner = inner.map_err(|what| self.damaged(&*part, what))?;
        Ok(LeafReader { file: self, inner, leaf, part })
    }

    fn part(&self, group: usize, leaf: usize) -> String {
        let schema = self.footer().file_metadata().schema_descr();
        let name = if leaf < schema.num_columns() {
            schema.column(leaf).path().parts().first().cloned()
        } else {
            None
        };
        format!("column `{}` of row group {group}", name.unwrap_or_default())
    }
}

/// Reader of one leaf of a row group.
#[derive(Debug)]
pub(crate) struct LeafReader<'a> {
    file: &'a UntrustedParquet,
    inner: ParquetRecordBatchReader,
    leaf: LeafLayout,
    part: String,
}

impl LeafReader<'_> {
    /// Appends the bytes of the next `rows` rows. Fails if there are fewer.
    pub(crate) fn next(&mut self, rows: usize, out: &mut Vec<u8>) -> Result<(), ImportError> {
        let Self { file, inner, leaf, part } = self;
        let bad = |what: String| file.damaged(&**part, what);
        let read = decode(|| inner.next().transpose()).map_err(bad)?;
        let read = read.filter(|read| read.num_rows() == rows && read.num_columns() == 1);
        let read = read.ok_or_else(|| bad(format!("it does not have the next {rows} rows")))?;
        let array: &ArrayRef = read.column(0);
        let mut append = || arrays::append_bytes(array, leaf.dtype, leaf.items, leaf.scalar, out);
        decode(|| Ok::<_, ParquetError>(append()))
            .map_err(bad)?
            .map_err(|mismatch| bad(describe(&mismatch)))
    }
}

fn damaged(path: &Path, part: impl Into<String>, what: impl Into<String>) -> ImportError {
    ImportError::Damaged { path: path.to_owned(), part: part.into(), what: what.into() }
}

fn describe(mismatch: &ArrayMismatch) -> String {
    match mismatch {
        ArrayMismatch::Type(found) => format!("elements of type {found}"),
        ArrayMismatch::Null(row) => format!("row {row} of a piece has no value"),
        ArrayMismatch::Length { row, elements } => {
            format!("row {row} of a piece has {elements} elements")
        }
    }
}

/// Runs the decoder and turns its errors and panics into messages.
fn decode<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    catch_panics(work)?.map_err(|error| error.to_string())
}
