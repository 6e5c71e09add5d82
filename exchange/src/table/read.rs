//! Makes a ring from a Parquet table that a ring was exported to.

use std::ops::Range;
use std::path::Path;

use arrow_schema::{DataType, Field};
use backcast_core::{Column, RestoreError, Ring, Schema};

use super::description::{CREATED_BY, FORMAT, HASH_KEY, KEY, TableDescription, UNHASHED};
use super::rows_hash::RowsHash;
use super::{BUILT_IN, schema as table_schema};
use crate::columns::{LeafLayout, UntrustedParquet};
use crate::error::ImportError;
use crate::options::{ImportOptions, make_ring};
use crate::report::ImportReport;
use crate::rows::Sink;

/// Bytes of rows in memory during the import.
const PIECE_BYTES: u64 = 4 << 20;

/// Makes a ring from the table `from`.
pub(crate) fn read(
    from: &Path,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    let file = Table::open(from)?;
    let described = |source| ImportError::Description { path: from.to_owned(), source };
    let schema = file.description.ring.schema().map_err(|error| described(error.into()))?;
    file.check_columns(&schema)?;
    let spans = file.spans()?;
    let rows: u64 = spans.iter().map(|span| span.end - span.start).sum();
    let longest = spans.iter().map(|span| span.end - span.start).max().unwrap_or(0);
    let lanes = u64::from(file.description.ring.lanes);
    let mut ring = file.description.ring.clone();
    match options.capacity {
        Some(asked) => {
            ring.lane_capacity = asked.div_ceil(lanes.max(1));
            if ring.lane_capacity < longest {
                // All lanes of the ring have one capacity, and the longest lane must fit.
                return Err(ImportError::Capacity { asked, rows: longest.saturating_mul(lanes) });
            }
        }
        // If the ring was being resized, its description has the old capacity and some lanes have
        // the new one.
        None => ring.lane_capacity = ring.lane_capacity.max(longest),
    }
    let ring = ring.options().map_err(described)?;
    let made = options.placement.apply(ring);
    let mut on_progress = options.progress;
    let ring = make_ring(options.name.as_deref(), &schema, made, |filling| {
        for (lane, span) in (0..).zip(&spans) {
            filling.begin(lane, span.clone())?;
        }
        let mut sink = Sink::new(filling, &schema, rows, &mut on_progress);
        let mut pieces = Pieces::of(&schema);
        for group in 0..file.file.footer().row_groups().len() {
            file.fill(group, &mut pieces, &spans, &mut sink)?;
        }
        Ok::<(), ImportError>(())
    })?;
    let rows_before_gap = file.file.rows().saturating_sub(rows);
    Ok((ring, ImportReport { rows, rows_before_gap, ..ImportReport::default() }))
}

/// Buffers for rows while they are read.
struct Pieces {
    leaves: Vec<LeafLayout>,
    rows: usize,
    bytes: Vec<Vec<u8>>,
}

impl Pieces {
    fn of(schema: &Schema) -> Self {
        let built_in = BUILT_IN.iter().map(|(_, dtype)| (*dtype, 1, true));
        let of_column = |c: &Column| (c.dtype(), c.items(), c.shape().is_empty());
        let leaves: Vec<LeafLayout> = built_in
            .chain(schema.columns().iter().map(of_column))
            .enumerate()
            .map(|(number, (dtype, items, scalar))| LeafLayout { number, dtype, items, scalar })
            .collect();
        let row_bytes = (schema.row_bytes() as u64).max(1);
        let rows = usize::try_from((PIECE_BYTES / row_bytes).clamp(1, 1 << 16)).unwrap_or(1);
        let bytes = vec![Vec::new(); leaves.len()];
        Self { leaves, rows, bytes }
    }
}

/// A Parquet file that describes its ring.
struct Table {
    file: UntrustedParquet,
    description: TableDescription,
    /// Hash of the rows by row group. `None` if an earlier version or another program wrote the
    /// file.
    hashes: Option<Vec<String>>,
}

impl Table {
    fn open(path: &Path) -> Result<Self, ImportError> {
        let file = UntrustedParquet::open(path)?;
        let footer = file.footer().file_metadata();
        let pairs = footer.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
        let metadata = |key| pairs.iter().find(|pair| pair.key == key)?.value.as_deref();
        let Some(text) = metadata(KEY) else {
            let what = format!("its metadata has no key `{KEY}`");
            return Err(ImportError::NotARing { path: path.to_owned(), what });
        };
        let description = parse(path, &file, text)?;
        let is_old = description.format == UNHASHED && description.groups.is_none();
        let hashes = if is_old || footer.created_by() != Some(CREATED_BY) {
            None
        } else {
            Some(hashes(&file, &description, text, metadata(HASH_KEY))?)
        };
        Ok(Self { file, description, hashes })
    }

    /// Returns the described rows of each lane, checked against the number of rows in the file.
    fn spans(&self) -> Result<Vec<Range<u64>>, ImportError> {
        let bad = |what: String| self.file.damaged("its description", what);
        let (lanes, rows) = (self.description.ring.lanes as usize, &self.description.rows);
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
            return Err(bad(format!("it describes {total} rows, the file has {stored}")));
        }
        Ok(rows.iter().map(|(first, end)| *first..*end).collect())
    }

    /// Checks that the table has the columns of the described ring and no more bytes than a file of
    /// this size can unpack to.
    fn check_columns(&self, schema: &Schema) -> Result<(), ImportError> {
        let bad = |what: String| self.file.damaged("the footer", what);
        let expected = table_schema(schema);
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

    /// Stores the rows of a row group in their lanes.
    fn fill(
        &self,
        group: usize,
        pieces: &mut Pieces,
        spans: &[Range<u64>],
        sink: &mut Sink<'_, '_, '_>,
    ) -> Result<(), ImportError> {
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
                // The sequence numbers or the flags of the rows are invalid.
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
        // The ring has no name yet, so an error here discards the rows.
        if expected.is_some_and(|expected| *expected != hash.finish()) {
            let what = "its rows have another hash than those that were exported";
            return Err(self.file.damaged(part, what));
        }
        Ok(())
    }

    /// Stores consecutive rows of the table in their lanes.
    fn put(
        &self,
        leaves: &[LeafLayout],
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
                let what = format!("a row of lane {lane}; the ring has {} lanes", spans.len());
                return Err(self.file.damaged("column `lane`", what));
            };
            // The description leaves out rows before a gap.
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

/// Returns whether two types are equal, ignoring name, nullability and metadata of list items.
fn alike(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => {
            n == m && a.data_type() == b.data_type()
        }
        (found, expected) => found == expected,
    }
}

/// Parses the description. The version is checked before the rest.
fn parse(
    path: &Path,
    file: &UntrustedParquet,
    text: &str,
) -> Result<TableDescription, ImportError> {
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

/// Returns the hashes of the row groups after checking the hash of the description.
fn hashes(
    file: &UntrustedParquet,
    description: &TableDescription,
    text: &str,
    hash: Option<&str>,
) -> Result<Vec<String>, ImportError> {
    if hash != Some(&*blake3::hash(text.as_bytes()).to_hex()) {
        let what = "it was changed after the export: its hash differs or is missing";
        return Err(file.damaged("its description", what));
    }
    let hashes = description.groups.clone().unwrap_or_default();
    let groups = file.footer().row_groups().len();
    if hashes.len() == groups {
        return Ok(hashes);
    }
    let what = format!("it has hashes of {} row groups, the file has {groups}", hashes.len());
    Err(file.damaged("its description", what))
}
