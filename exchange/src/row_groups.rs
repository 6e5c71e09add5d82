//! Row groups of a Parquet file, each packed by itself and then put into the file: so one that is in a
//! file already can be put there again, and what is written after it has the bytes that it would have had.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema as ArrowSchema;
use backcast_files::parquet::caught;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

/// What a Parquet file begins with.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// A row group, as the only one of a small file in memory.
#[derive(Debug)]
pub(crate) struct Packing(ArrowWriter<Vec<u8>>);

impl Packing {
    pub(crate) fn new(schema: &Arc<ArrowSchema>, properties: &WriterProperties) -> Result<Self> {
        let (schema, properties) = (Arc::clone(schema), Some(properties.clone()));
        ArrowWriter::try_new(Vec::new(), schema, properties).map(Self)
    }

    pub(crate) fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        self.0.write(rows)
    }

    /// `None` of no rows.
    pub(crate) fn finish(self) -> Result<Option<Packed>> {
        let file = Bytes::from(self.0.into_inner()?);
        Packed::of(file).map(|packed| (packed.rows > 0).then_some(packed))
    }
}

/// A small file of one row group, or of none.
#[derive(Debug)]
pub(crate) struct Packed {
    file: Bytes,
    columns: Vec<ColumnCloseResult>,
    rows: u64,
    /// Bytes of the group, which follow [`MAGIC`].
    len: usize,
}

impl Packed {
    fn of(file: Bytes) -> Result<Self> {
        let found = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Optional)
            .parse_and_finish(&file)?;
        let (mut columns, mut rows, mut len) = (Vec::new(), 0, 0);
        if let Some(group) = found.row_groups().first() {
            let index = found.page_index_for_row_group(0);
            rows = u64::try_from(group.num_rows()).unwrap_or(0);
            for (number, column) in group.columns().iter().enumerate() {
                let (_, bytes) = column.byte_range();
                len += usize::try_from(bytes).unwrap_or(usize::MAX);
                columns.push(ColumnCloseResult {
                    bytes_written: bytes,
                    rows_written: rows,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: index.column_index(number).cloned(),
                    offset_index: index.offset_index(number).cloned(),
                });
            }
        }
        Ok(Self { file, columns, rows, len })
    }

    /// Makes it again of the group's bytes in a larger file, and of what [`tail`](Self::tail) said.
    pub(crate) fn again(group: &[u8], tail: &str) -> io::Result<Self> {
        let damaged = || io::Error::other("the journal has no row group's tail");
        let tail = from_hex(tail).ok_or_else(damaged)?;
        let file = Bytes::from([MAGIC, group, &tail].concat());
        // The hash of the bytes was right: what the decoder still panics over is an error all the same.
        let packed = caught(|| Self::of(file)).map_err(io::Error::other)?;
        packed.ok().filter(|packed| packed.len == group.len()).ok_or_else(damaged)
    }

    /// What the small file has after the group.
    pub(crate) fn tail(&self) -> String {
        to_hex(self.file.get(MAGIC.len() + self.len..).unwrap_or_default())
    }

    /// Puts the group into a file, after those that are there.
    pub(crate) fn put<W: Write + Send>(self, into: &mut SerializedFileWriter<W>) -> Result<()> {
        let Self { file, columns, .. } = self;
        let mut group = into.next_row_group()?;
        for column in columns {
            group.append_column(&file, column)?;
        }
        group.close()?;
        into.flush()?;
        Ok(())
    }
}

/// Something to write to that has the first bytes already.
#[derive(Debug)]
pub(crate) struct Present<W> {
    inner: W,
    /// Of what comes next, how many bytes.
    present: u64,
}

impl<W> Present<W> {
    pub(crate) fn new(inner: W, present: u64) -> Self {
        Self { inner, present }
    }

    pub(crate) fn inner(&self) -> &W {
        &self.inner
    }
}

impl<W: Write> Write for Present<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.present == 0 {
            return self.inner.write(bytes);
        }
        let passed = usize::try_from(self.present).unwrap_or(usize::MAX).min(bytes.len());
        self.present -= passed as u64;
        Ok(passed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The system's error, if it was one.
pub(crate) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut pairs = text.as_bytes().chunks_exact(2);
    for pair in pairs.by_ref() {
        bytes.push((digit(pair[0])? << 4) | digit(pair[1])?);
    }
    pairs.remainder().is_empty().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_what_it_writes_and_nothing_else() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)), Some(all));
        assert_eq!(from_hex(""), Some(Vec::new()));
        for bad in ["a", "0g", "zz", "abc", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_that_are_present_are_passed_over() {
        let mut out = Present::new(Vec::new(), 5);
        out.write_all(b"abc").unwrap();
        out.write_all(b"defg").unwrap();
        out.write_all(b"h").unwrap();
        assert_eq!(out.inner(), b"fgh");
    }
}
