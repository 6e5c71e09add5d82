//! Loader of Parquet files: one row group after the other, in batches of rows of all columns.
//!
//! Each column has its own reader, so that an error names the column. Columns are decoded in
//! batches, so that only one page of each is in memory. Files are untrusted: sizes are checked
//! before decoding, and panics are contained (`backcast_files::parquet`).

use std::{fs::File, io, path::Path, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use backcast_files::parquet::{ColumnChunk, FileSource, byte_range, read_footer};
use backcast_files::{catch_panics, unpacked_limit};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader},
        parquet_to_arrow_field_levels,
    },
    basic::Compression,
    errors::ParquetError,
    file::{
        metadata::{ParquetMetaData, ParquetMetaDataReader},
        reader::Length,
    },
};

use crate::{
    arrow_column::{ArrowColumn, cell_type},
    assemble::{Assembler, PanelData},
    blocks::MAX_VALUES,
    chunk::{CHUNK_ROWS, Chunk},
    error::PanelError,
    header::FileHeader,
    load_error::{FileFormat, FilePart, PanelLoadError, RowPlace},
    options::PanelOptions,
};

const MAGIC_BYTES: usize = 4;
/// Bytes of the shortest file: both magics and the footer's length.
const LEAST_BYTES: u64 = 12;

impl PanelData {
    /// Loads a Parquet file.
    ///
    /// Memory holds the numbers of all rows, the dense panel, and one page of each column. Columns
    /// that are not part of the panel are not read.
    pub fn from_parquet(
        path: impl AsRef<Path>,
        options: &PanelOptions,
    ) -> Result<Self, PanelError> {
        let path = path.as_ref();
        let unreadable = |source| PanelError::reading(path, source);
        let source = File::open(path).and_then(FileSource::new).map_err(unreadable)?;
        let ends = FileEnds::of(&source).map_err(unreadable)?;
        load(&source, &ends, options).map_err(|problem| PanelError::Load {
            path: Some(path.to_owned()),
            problem: Box::new(problem),
        })
    }

    /// Loads a CSV or a Parquet file. A file with Parquet's first bytes or a Parquet extension is
    /// Parquet, any other is CSV.
    pub fn from_file(path: impl AsRef<Path>, options: &PanelOptions) -> Result<Self, PanelError> {
        let path = path.as_ref();
        let unreadable = |source| PanelError::reading(path, source);
        let mut first = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        let regular = file.metadata().map_err(unreadable)?.is_file();
        if regular {
            io::Read::read_to_end(&mut io::Read::take(&file, MAGIC_BYTES as u64), &mut first)
                .map_err(unreadable)?;
        }
        let named = path.extension().is_some_and(|extension| {
            ["parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        });
        if named || FileFormat::of(&first) == FileFormat::Parquet {
            Self::from_parquet(path, options)
        } else {
            Self::from_csv(path, options)
        }
    }
}

/// First and last bytes of a file.
struct FileEnds {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl FileEnds {
    fn of(source: &FileSource) -> io::Result<Self> {
        let length = MAGIC_BYTES.min(usize::try_from(source.len()).unwrap_or(MAGIC_BYTES));
        let last = source.len() - length as u64;
        Ok(Self { first: source.bytes(0, length)?, last: source.bytes(last, length)? })
    }
}

fn load(
    source: &FileSource,
    ends: &FileEnds,
    options: &PanelOptions,
) -> Result<PanelData, PanelLoadError> {
    let found = FileFormat::of(&ends.first);
    if found != FileFormat::Parquet {
        return Err(PanelLoadError::Format { found });
    }
    if FileFormat::of(&ends.last) != FileFormat::Parquet || source.len() < LEAST_BYTES {
        return Err(PanelLoadError::Damaged {
            part: FilePart::End,
            message: "it does not end with PAR1, so it was cut or is still being written"
                .to_owned(),
        });
    }
    let metadata = decode(
        || FilePart::Footer,
        || {
            let footer = ParquetMetaDataReader::decode_metadata(&read_footer(source)?)?;
            ArrowReaderMetadata::try_new(Arc::new(footer), ArrowReaderOptions::new())
        },
    )?;
    let fields = metadata.schema().fields();
    let header =
        FileHeader::of(fields.iter().map(|field| field.name().clone()).collect(), options)?;
    let columns = ArrowColumn::of(&header, options, fields, decoded_type)?;
    let file = ParquetFile {
        leaves: leaves(metadata.metadata(), &columns),
        hint: fields.iter().map(asked).collect(),
        metadata: Arc::clone(metadata.metadata()),
        source: source.clone(),
        columns,
    };
    file.check_sizes(&header)?;
    let mut chunk = Chunk::new(header.columns.len());
    let mut assembler = Assembler::new(header, options, RowPlace::Row);
    let mut row = 0;
    for row_group in 0..file.metadata.num_row_groups() {
        file.read_group(row_group, &mut row, &mut chunk, &mut assembler)?;
    }
    assembler.finish()
}

/// Returns the Arrow field with the type that a column is decoded to.
fn asked(field: &Arc<Field>) -> Field {
    Field::new(field.name(), decoded_type(field.data_type()), field.is_nullable())
}

/// Returns the type that a column is decoded to. Bytes are text that lacks the annotation.
fn decoded_type(data_type: &DataType) -> DataType {
    match cell_type(data_type) {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::Utf8,
        other => other,
    }
}

/// Returns the position of each column among the leaves. A nested column has several leaves, of
/// which the first counts; a column without a leaf gets `usize::MAX`.
fn leaves(metadata: &ParquetMetaData, columns: &[ArrowColumn]) -> Vec<usize> {
    let schema = metadata.file_metadata().schema_descr();
    let leaf = |column: &ArrowColumn| {
        (0..schema.num_columns()).find(|&leaf| schema.get_column_root_idx(leaf) == column.at)
    };
    columns.iter().map(|column| leaf(column).unwrap_or(usize::MAX)).collect()
}

struct ParquetFile {
    source: FileSource,
    metadata: Arc<ParquetMetaData>,
    hint: Fields,
    columns: Vec<ArrowColumn>,
    /// Position of each column among the leaves of the file.
    leaves: Vec<usize>,
}

impl ParquetFile {
    fn name(&self, column: &ArrowColumn) -> String {
        self.hint.get(column.at).map_or_else(String::new, |field| field.name().clone())
    }

    /// Refuses sizes that the file cannot hold, before memory is allocated for them. Refuses codecs
    /// that are not built in.
    fn check_sizes(&self, header: &FileHeader) -> Result<(), PanelLoadError> {
        let (mut rows, mut unpacked) = (0_u64, 0_u64);
        for (row_group, group) in self.metadata.row_groups().iter().enumerate() {
            let damaged = |message: String| PanelLoadError::Damaged {
                part: FilePart::Footer,
                message: format!("row group {row_group}: {message}"),
            };
            let in_group = u64::try_from(group.num_rows())
                .map_err(|_| damaged(format!("{} rows", group.num_rows())))?;
            rows = rows.saturating_add(in_group);
            for (column, &leaf) in self.columns.iter().zip(&self.leaves) {
                let name = self.name(column);
                let chunk = group
                    .columns()
                    .get(leaf)
                    .ok_or_else(|| damaged(format!("column {name:?} is not there")))?;
                byte_range(chunk, self.source.len()).map_err(|error| {
                    damaged(format!("column {name:?}: {}", plain_words(&error)))
                })?;
                let bytes = u64::try_from(chunk.uncompressed_size()).unwrap_or(u64::MAX);
                unpacked = unpacked.saturating_add(bytes);
                if let Some(codec) = unknown_codec(chunk.compression()) {
                    return Err(PanelLoadError::Codec { column: name, codec });
                }
            }
        }
        let columns = header.columns.len();
        let numbers = rows.saturating_mul(columns as u64);
        let bytes = unpacked.max(numbers.saturating_mul(8));
        let limit = unpacked_limit(self.source.len());
        if bytes > limit || numbers > MAX_VALUES {
            return Err(PanelLoadError::Bomb { rows, columns: self.columns.len(), bytes, limit });
        }
        Ok(())
    }

    fn read_group(
        &self,
        row_group: usize,
        row: &mut u64,
        chunk: &mut Chunk,
        assembler: &mut Assembler<'_>,
    ) -> Result<(), PanelLoadError> {
        let part = |column: &ArrowColumn| FilePart::Column { column: self.name(column), row_group };
        let mut readers = self
            .columns
            .iter()
            .zip(&self.leaves)
            .map(|(column, &leaf)| decode(|| part(column), || self.reader(row_group, leaf)))
            .collect::<Result<Vec<_>, _>>()?;
        let rows = u64::try_from(self.metadata.row_group(row_group).num_rows()).unwrap_or(0);
        let mut left = rows;
        while left > 0 {
            let batch = left.min(CHUNK_ROWS as u64);
            for (column, reader) in self.columns.iter().zip(&mut readers) {
                let decoded = decode(|| part(column), || reader.next().transpose())?;
                let fits = decoded.as_ref().is_some_and(|decoded| {
                    decoded.num_rows() as u64 == batch
                        && decoded.num_columns() == 1
                        && column.push(decoded.column(0).as_ref(), chunk, &mut assembler.tickers)
                });
                if !fits {
                    let message = format!(
                        "{} values at row {} of the row group, where {batch} should be",
                        decoded.as_ref().map_or(0, RecordBatch::num_rows),
                        rows - left
                    );
                    return Err(PanelLoadError::Damaged { part: part(column), message });
                }
            }
            chunk.places.extend(*row..*row + batch);
            *row += batch;
            left -= batch;
            assembler.push(chunk)?;
        }
        Ok(())
    }

    fn reader(
        &self,
        row_group: usize,
        leaf: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let schema = self.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::leaves(schema, [leaf]);
        let levels = parquet_to_arrow_field_levels(schema, mask, Some(&self.hint))?;
        let (source, metadata) = (self.source.clone(), Arc::clone(&self.metadata));
        let chunk = ColumnChunk { source, metadata, row_group, row_values: 1 };
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &chunk, CHUNK_ROWS, None)
    }
}

fn unknown_codec(compression: Compression) -> Option<String> {
    match compression {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::LZ4
        | Compression::LZ4_RAW
        | Compression::ZSTD(_) => None,
        // Drops the level from names such as BROTLI(BrotliLevel(1)).
        other => other.to_string().split('(').next().map(str::to_owned),
    }
}

/// Runs the decoder, and turns its errors and panics into an error that names the damaged part.
fn decode<T, E: Into<ArrowError>>(
    part: impl Fn() -> FilePart,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, PanelLoadError> {
    let message = match catch_panics(work) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => {
            let error = error.into().to_string();
            unwrapped(&error).to_owned()
        }
        Err(panic) => panic,
    };
    Err(PanelLoadError::Damaged { part: part(), message })
}

/// Returns a message without the names of wrapping errors.
fn unwrapped(message: &str) -> &str {
    let names = [
        "External error: ",
        "External: ",
        "Parquet argument error: ",
        "Parquet error: ",
        "EOF: ",
        "Arrow: ",
    ];
    names.iter().find_map(|name| message.strip_prefix(name)).map_or(message, unwrapped)
}

fn plain_words(error: &ParquetError) -> String {
    match error {
        ParquetError::General(message) => message.clone(),
        error => error.to_string(),
    }
}
