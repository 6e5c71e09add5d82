//! Writes the rows that an export reads from a ring as a Parquet table.

use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema as ArrowSchema;
use backcast_core::{DType, Rows};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::description::{CREATED_BY, HASH_KEY, KEY, TableDescription};
use super::rows_hash::RowsHash;
use super::schema;
use crate::columns::{array, io_error};
use crate::error::WriteFailure;
use crate::report::ExportReport;
use crate::rows::RowReader;

/// Writes the new file `path` and forces it to disk.
pub(crate) fn write(
    reader: &mut RowReader<'_, '_>,
    path: &Path,
) -> Result<ExportReport, WriteFailure> {
    let ring = reader.ring();
    let schema = Arc::new(schema(ring.schema()));
    let properties = properties(reader.group_rows());
    let file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
    let mut writer =
        ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).map_err(io_error)?;
    let mut ranges = ContiguousRows::of(reader.spans().len());
    let mut hashes = Vec::new();
    let mut report = ExportReport::default();
    loop {
        let mut hash = RowsHash::default();
        let rows = reader.read_group(|lane, rows| {
            hash.add(lane, rows);
            ranges.add(lane, rows.place().1);
            let batch = batch(&schema, lane, rows).map_err(ParquetError::from);
            let written = batch.and_then(|batch| writer.write(&batch));
            written.map_err(|error| WriteFailure::Io(io_error(error)))
        })?;
        if rows == 0 {
            break;
        }
        writer.flush().map_err(io_error)?;
        hashes.push(hash.finish());
        report.rows += rows;
    }
    // The ranges are known only now: rows may have been overwritten.
    let mut description = TableDescription::of(ring, &reader.spans(), hashes);
    ranges.describe(&mut description);
    let description = serde_json::to_string(&description).map_err(io::Error::from)?;
    let hash = blake3::hash(description.as_bytes()).to_hex().to_string();
    writer.append_key_value_metadata(KeyValue::new(KEY.to_owned(), description));
    writer.append_key_value_metadata(KeyValue::new(HASH_KEY.to_owned(), hash));
    let file = writer.into_inner().map_err(io_error)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    report.bytes = file.metadata()?.len();
    Ok(report)
}

/// Newest contiguous rows of each lane. A ring has no gaps, so an import drops the rows before a
/// gap.
struct ContiguousRows(Vec<Option<Range<u64>>>);

impl ContiguousRows {
    fn of(lanes: usize) -> Self {
        Self(vec![None; lanes])
    }

    fn add(&mut self, lane: u32, rows: Range<u64>) {
        if let Some(range) = self.0.get_mut(lane as usize) {
            *range = match range.take() {
                Some(before) if before.end == rows.start => Some(before.start..rows.end),
                _ => Some(rows),
            };
        }
    }

    fn describe(self, description: &mut TableDescription) {
        for (rows, range) in description.rows.iter_mut().zip(self.0) {
            *rows = range.map_or((rows.1, rows.1), |range| (range.start, range.end));
        }
    }
}

fn properties(group_rows: u64) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(usize::try_from(group_rows).unwrap_or(1)))
        .set_created_by(CREATED_BY.to_owned())
        .build()
}

fn batch(
    schema: &Arc<ArrowSchema>,
    lane: u32,
    rows: &Rows,
) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let lanes: Vec<u8> = lane.to_ne_bytes().repeat(rows.len());
    let mut columns: Vec<ArrayRef> = vec![array(DType::U32, &[], &lanes)];
    columns.extend(rows.columns().iter().map(|column| {
        let bytes = rows.bytes(column.name()).unwrap_or_default();
        array(column.dtype(), column.shape(), bytes)
    }));
    RecordBatch::try_new(Arc::clone(schema), columns)
}
