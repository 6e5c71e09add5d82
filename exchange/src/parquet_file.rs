//! A table of all rows as Parquet, and a ring from such a table: the same rows, to the bit.

use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use backcast_core::{Column, DType, RestoreError, Ring, Rows, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::about::{About, CREATED_BY, FORMAT, HASH_KEY, KEY, UNHASHED};
use crate::arrays;
use crate::careful::{CarefulFile, Leaf};
use crate::error::ImportError;
use crate::export::{ExportReport, Failure, Format};
use crate::import::{ImportOptions, ImportReport};
use crate::partial::Partial;
use crate::resume::{self, Task};
use crate::row_groups::{MAGIC, Packed, Packing, Present, io_error};
use crate::row_reader::RowReader;
use crate::rows_hash::RowsHash;
use crate::sink::Sink;

/// The built-in columns of a table, before the ring's.
const BUILT_IN: [(&str, DType); 5] = [
    ("lane", DType::U32),
    ("seq", DType::U64),
    ("episode", DType::U64),
    ("t", DType::U32),
    ("flags", DType::U32),
];
/// Bytes of rows in memory while they are read.
const PIECE_BYTES: u64 = 4 << 20;

/// Writes the file.
pub(crate) fn write(
    reader: &mut RowReader<'_, '_>,
    partial: &mut Partial,
) -> Result<ExportReport, Failure> {
    let mut report = ExportReport { rows: partial.rows(), ..ExportReport::default() };
    if partial.is_named() {
        report.bytes = partial.path().metadata()?.len();
        return Ok(report);
    }
    let ring = reader.ring();
    let schema = Arc::new(table(ring.schema()));
    let properties = properties(reader.unit_rows());
    let file = BufWriter::with_capacity(1 << 18, partial.file()?);
    let file = Present::new(file, partial.end());
    let (mut writer, _) = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties.clone()))
        .and_then(ArrowWriter::into_serialized_writer)
        .map_err(io_error)?;
    let mut first = vec![None::<Range<u64>>; reader.spans().len()];
    // After a gap the rows before it are of no use: a ring has none in its middle.
    let mut note = |(lane, range): (u32, Range<u64>)| {
        if let Some(span) = first.get_mut(lane as usize) {
            *span = match span.take() {
                Some(before) if before.end == range.start => Some(before.start..range.end),
                _ => Some(range),
            };
        }
    };
    let mut hashes = Vec::new();
    for unit in partial.units() {
        let bytes = partial.bytes(unit)?;
        let group = bytes.get(if unit.from == 0 { MAGIC.len() } else { 0 }..).unwrap_or_default();
        Packed::again(group, &unit.note)?.put(&mut writer).map_err(io_error)?;
        hashes.push(unit.rows_hash.clone());
        reader.skip_unit().into_iter().for_each(&mut note);
    }
    loop {
        let mut packing = Packing::new(&schema, &properties).map_err(io_error)?;
        let mut hash = RowsHash::default();
        let rows = reader.read_unit(|lane, rows| {
            hash.add(lane, rows);
            note((lane, rows.place().1));
            let batch = batch(&schema, lane, rows).map_err(ParquetError::from);
            let packed = batch.and_then(|batch| packing.add(&batch));
            packed.map_err(|error| Failure::Write(io_error(error)))
        })?;
        report.rows += rows;
        let Some(packed) = packing.finish().map_err(io_error)? else { break };
        let tail = packed.tail();
        packed.put(&mut writer).map_err(io_error)?;
        let hash = hash.finish();
        hashes.push(hash.clone());
        if reader.is_undisturbed() {
            partial.add(rows, hash, writer.bytes_written() as u64, tail)?;
        }
    }
    // Only now is it known which rows are there.
    let mut about = About::of(ring, &reader.spans(), hashes);
    for (rows, span) in about.rows.iter_mut().zip(first) {
        *rows = span.map_or((rows.1, rows.1), |span| (span.start, span.end));
    }
    let about = serde_json::to_string(&about).map_err(io::Error::from)?;
    let hash = blake3::hash(about.as_bytes()).to_hex().to_string();
    writer.append_key_value_metadata(KeyValue::new(KEY.to_owned(), about));
    writer.append_key_value_metadata(KeyValue::new(HASH_KEY.to_owned(), hash));
    writer.finish().map_err(io_error)?;
    report.bytes = writer.bytes_written() as u64;
    writer.flush()?;
    writer.inner().inner().get_ref().sync_all()?;
    Ok(report)
}

fn properties(group_rows: u64) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(usize::try_from(group_rows).unwrap_or(1)))
        .set_created_by(CREATED_BY.to_owned())
        .build()
}

/// The columns of the table.
fn table(schema: &Schema) -> ArrowSchema {
    let built_in = BUILT_IN.iter().map(|(name, dtype)| arrays::field_of(name, *dtype, &[]));
    let fields: Vec<Field> = built_in.chain(schema.columns().iter().map(arrays::field)).collect();
    ArrowSchema::new(fields)
}

fn batch(
    schema: &Arc<ArrowSchema>,
    lane: u32,
    rows: &Rows,
) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let lanes: Vec<u8> = lane.to_ne_bytes().repeat(rows.len());
    let mut columns: Vec<ArrayRef> = vec![arrays::array(DType::U32, &[], &lanes)];
    columns.extend(rows.columns().iter().map(|column| {
        let bytes = rows.bytes(column.name()).unwrap_or_default();
        arrays::array(column.dtype(), column.shape(), bytes)
    }));
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// Makes a ring of a table that a ring was exported to.
pub(crate) fn read(
    from: &Path,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    let file = Table::open(from)?;
    let described = |source| ImportError::Description { path: from.to_owned(), source };
    let schema = file.about.ring.schema().map_err(|error| described(error.into()))?;
    file.check_columns(&schema)?;
    let spans = file.spans()?;
    let rows: u64 = spans.iter().map(|span| span.end - span.start).sum();
    let longest = spans.iter().map(|span| span.end - span.start).max().unwrap_or(0);
    let lanes = u64::from(file.about.ring.lanes);
    let mut ring = file.about.ring.clone();
    match options.capacity {
        Some(asked) => {
            ring.lane_capacity = asked.div_ceil(lanes.max(1));
            if ring.lane_capacity < longest {
                // Every lane is as long as the longest one.
                return Err(ImportError::Capacity { asked, rows: longest.saturating_mul(lanes) });
            }
        }
        // Of a ring that was being made larger: some lanes were, and it was described as it had been.
        None => ring.lane_capacity = ring.lane_capacity.max(longest),
    }
    let task = Task {
        format: Format::Parquet,
        source: file.file.identity().to_hex().to_string(),
        schema: &schema,
        ring: ring.options().map_err(described)?,
        spans: &spans,
        parts: file.file.footer().row_groups().len() as u64,
    };
    let mut pieces = Pieces::of(&schema);
    let put = |group: u64, sink: &mut Sink<'_, '_, '_>| file.fill(group, &mut pieces, &spans, sink);
    let (ring, resumed) = resume::restore(&task, options, put)?;
    let (rows_resumed, began_anew) = (resumed.rows, resumed.began_anew);
    let rows_before_gap = file.file.rows().saturating_sub(rows);
    let report = ImportReport { rows, rows_resumed, began_anew, ..ImportReport::default() };
    Ok((ring, ImportReport { rows_before_gap, ..report }))
}

/// Rows in memory while they are read.
struct Pieces {
    leaves: Vec<Leaf>,
    rows: usize,
    bytes: Vec<Vec<u8>>,
}

impl Pieces {
    fn of(schema: &Schema) -> Self {
        let built_in = BUILT_IN.iter().map(|(_, dtype)| (*dtype, 1, true));
        let of_column = |c: &Column| (c.dtype(), c.items(), c.shape().is_empty());
        let leaves: Vec<Leaf> = built_in
            .chain(schema.columns().iter().map(of_column))
            .enumerate()
            .map(|(number, (dtype, items, scalar))| Leaf { number, dtype, items, scalar })
            .collect();
        let row_bytes = (schema.row_bytes() as u64).max(1);
        let rows = usize::try_from((PIECE_BYTES / row_bytes).clamp(1, 1 << 16)).unwrap_or(1);
        let bytes = vec![Vec::new(); leaves.len()];
        Self { leaves, rows, bytes }
    }
}

/// A Parquet file that describes itself as a ring's.
struct Table {
    file: CarefulFile,
    about: About,
    /// Per row group, the hash of its rows. `None`: an earlier version wrote it, or another program.
    hashes: Option<Vec<String>>,
}

impl Table {
    fn open(path: &Path) -> Result<Self, ImportError> {
        let file = CarefulFile::open(path)?;
        let metadata = file.footer().file_metadata();
        let words = metadata.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
        let words = |key| words.iter().find(|word| word.key == key)?.value.as_deref();
        let Some(text) = words(KEY) else {
            let what = format!("its metadata has no key `{KEY}`");
            return Err(ImportError::NotARing { path: path.to_owned(), what });
        };
        let about = parse(path, &file, text)?;
        let is_old = about.format == UNHASHED && about.groups.is_none();
        let hashes = if is_old || metadata.created_by() != Some(CREATED_BY) {
            None
        } else {
            Some(hashes(&file, &about, text, words(HASH_KEY))?)
        };
        Ok(Self { file, about, hashes })
    }

    /// Rows of each lane, as the file says; they are as many as it has.
    fn spans(&self) -> Result<Vec<Range<u64>>, ImportError> {
        let bad = |what: String| self.file.damaged("its description", what);
        let (lanes, rows) = (self.about.ring.lanes as usize, &self.about.rows);
        if rows.len() != lanes || lanes > backcast_core::MAX_LANES as usize {
            return Err(bad(format!("rows of {} lanes for a ring of {lanes}", rows.len())));
        }
        let mut total = 0_u64;
        for (lane, (first, end)) in rows.iter().enumerate() {
            if first > end || *end > 1 << 48 {
                return Err(bad(format!("lane {lane} has the rows {first}..{end}")));
            }
            total += end - first;
        }
        let stored = self.file.rows();
        if stored < total {
            return Err(bad(format!("{total} rows are described, {stored} are there")));
        }
        Ok(rows.iter().map(|(first, end)| *first..*end).collect())
    }

    /// The table's columns are those of the ring that is described, and no larger than a file of this
    /// size can unpack to.
    fn check_columns(&self, schema: &Schema) -> Result<(), ImportError> {
        let bad = |what: String| self.file.damaged("the footer", what);
        let expected = table(schema);
        let found = self.file.schema();
        if found.fields().len() != expected.fields().len() {
            let (found, expected) = (found.fields().len(), expected.fields().len());
            return Err(bad(format!("{found} columns, not {expected}")));
        }
        for (found, expected) in found.fields().iter().zip(expected.fields()) {
            if found.name() != expected.name() || !alike(found.data_type(), expected.data_type()) {
                let show = |field: &Field| format!("{} {}", field.name(), field.data_type());
                return Err(bad(format!(
                    "column {} where {} should be",
                    show(found),
                    show(expected)
                )));
            }
        }
        let leaves = self.file.footer().file_metadata().schema_descr().num_columns();
        if leaves != expected.fields().len() {
            return Err(bad(format!("{leaves} leaves for {} columns", expected.fields().len())));
        }
        self.file.check_unpacked(schema.row_bytes() as u64)
    }

    /// Puts every row of a row group that is described into its lane.
    fn fill(
        &self,
        group: u64,
        pieces: &mut Pieces,
        spans: &[Range<u64>],
        sink: &mut Sink<'_, '_, '_>,
    ) -> Result<(), ImportError> {
        let group = usize::try_from(group).unwrap_or(usize::MAX);
        let Some(about) = self.file.footer().row_groups().get(group) else { return Ok(()) };
        let Pieces { leaves, rows, bytes } = pieces;
        let readers = leaves.iter().map(|leaf| self.file.reader(group, *leaf, *rows));
        let mut readers = readers.collect::<Result<Vec<_>, _>>()?;
        let expected = self.hashes.as_ref().and_then(|hashes| hashes.get(group));
        let (mut hash, part) = (RowsHash::default(), format!("row group {group}"));
        let mut left = usize::try_from(about.num_rows()).unwrap_or(0);
        while left > 0 {
            let count = left.min(*rows);
            for ((reader, leaf), bytes) in readers.iter_mut().zip(&*leaves).zip(&mut *bytes) {
                bytes.clear();
                reader.next(count, bytes)?;
                if expected.is_some() {
                    hash.column(leaf.number, leaf.dtype, bytes);
                }
            }
            self.put(leaves, bytes, spans, sink).map_err(|error| match error {
                // Numbers that no ring's rows have: with them the hash would be another one, too.
                ImportError::Restore(error) if !matches!(error, RestoreError::Ring(_)) => {
                    self.file.damaged(&*part, error.to_string())
                }
                ImportError::Damaged { path, part: column, what } => {
                    ImportError::Damaged { path, part: format!("{column} of {part}"), what }
                }
                error => error,
            })?;
            sink.step()?;
            left -= count;
        }
        // What was put is in no ring yet, nor in the journal.
        if expected.is_some_and(|expected| *expected != hash.finish()) {
            let what = "its rows are not those that were exported: they have another hash";
            return Err(self.file.damaged(part, what));
        }
        Ok(())
    }

    /// Puts rows, which are in the table's order, into the lanes that they are of.
    fn put(
        &self,
        leaves: &[Leaf],
        bytes: &[Vec<u8>],
        spans: &[Range<u64>],
        sink: &mut Sink<'_, '_, '_>,
    ) -> Result<(), ImportError> {
        let [lanes, seqs, ..] = bytes else { return Ok(()) };
        let lanes: Vec<u32> = bytemuck::allocation::pod_collect_to_vec(lanes);
        let seqs: Vec<u64> = bytemuck::allocation::pod_collect_to_vec(seqs);
        let mut from = 0;
        for run in lanes.chunk_by(|a, b| a == b) {
            let (lane, to) = (run[0], from + run.len());
            let Some(span) = spans.get(lane as usize) else {
                let what = format!("a row of lane {lane}, where {} are", spans.len());
                return Err(self.file.damaged("column `lane`", what));
            };
            // Rows before a gap are in the table, and not among those described.
            let skipped = seqs[from..to].iter().take_while(|seq| **seq < span.start).count();
            let rows = from + skipped..to;
            let parts = bytes.iter().zip(leaves).skip(1).map(|(bytes, leaf)| {
                let width = leaf.dtype.size() * leaf.items;
                bytes.get(rows.start * width..rows.end * width).unwrap_or_default()
            });
            let parts: Vec<&[u8]> = parts.collect();
            sink.rows(lane, rows.len() as u64, &parts)?;
            from = to;
        }
        Ok(())
    }
}

/// Whether one type was asked for and the other found; names of items do not count.
fn alike(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => {
            n == m && a.data_type() == b.data_type()
        }
        (found, expected) => found == expected,
    }
}

/// Reads the description; one of another version says so and is not looked into.
fn parse(path: &Path, file: &CarefulFile, text: &str) -> Result<About, ImportError> {
    #[derive(serde::Deserialize)]
    struct Version {
        format: u64,
    }
    let bad = |error: serde_json::Error| file.damaged("its description", error.to_string());
    let Version { format } = serde_json::from_str(text).map_err(bad)?;
    if ![UNHASHED, FORMAT].map(u64::from).contains(&format) {
        let (found, supported) = (format, FORMAT);
        return Err(ImportError::WrongVersion { path: path.to_owned(), found, supported });
    }
    serde_json::from_str(text).map_err(bad)
}

/// The hashes of the row groups, once the words that they stand in have theirs.
fn hashes(
    file: &CarefulFile,
    about: &About,
    text: &str,
    hash: Option<&str>,
) -> Result<Vec<String>, ImportError> {
    if hash != Some(&*blake3::hash(text.as_bytes()).to_hex()) {
        let what = "it is not what was written: it has another hash, or none";
        return Err(file.damaged("its description", what));
    }
    let hashes = about.groups.clone().unwrap_or_default();
    let groups = file.footer().row_groups().len();
    if hashes.len() == groups {
        return Ok(hashes);
    }
    let what = format!("hashes of {} row groups, {groups} are there", hashes.len());
    Err(file.damaged("its description", what))
}
