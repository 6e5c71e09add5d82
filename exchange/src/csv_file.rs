//! A table of all rows as text, an element per cell.

use std::io::{self, BufWriter, Write};

use backcast_core::{Column, DType, Rows};
use half::f16;

use crate::export::{ExportReport, Failure};
use crate::partial::Partial;
use crate::row_reader::RowReader;
use crate::rows_hash::RowsHash;

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
    let begin = partial.end();
    let file = partial.file()?;
    // Counted where the bytes leave for the file.
    let mut csv = csv::Writer::from_writer(Counted { inner: BufWriter::new(file), bytes: begin });
    if begin == 0 {
        csv.write_record(header(reader.ring().schema().columns())).map_err(of_csv)?;
    }
    for _ in partial.units() {
        reader.skip_unit();
    }
    let mut record = csv::ByteRecord::new();
    loop {
        let mut hash = RowsHash::default();
        let rows = reader.read_unit(|lane, rows| {
            hash.add(lane, rows);
            write_rows(&mut csv, lane, rows, &mut record).map_err(Failure::Write)
        })?;
        if rows == 0 {
            break;
        }
        report.rows += rows;
        csv.flush()?;
        if reader.is_undisturbed() {
            let to = csv.get_ref().bytes;
            partial.add(rows, hash.finish(), to, String::new())?;
        }
    }
    let Counted { inner, bytes } =
        csv.into_inner().map_err(|error| Failure::Write(error.into_error()))?;
    inner.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    report.bytes = bytes;
    Ok(report)
}

fn write_rows(
    csv: &mut csv::Writer<impl Write>,
    lane: u32,
    rows: &Rows,
    record: &mut csv::ByteRecord,
) -> io::Result<()> {
    let columns: Vec<(&Column, &[u8])> = columns_of(rows);
    let mut cell = Vec::new();
    for row in 0..rows.len() {
        record.clear();
        push(record, &mut cell, lane);
        for (column, bytes) in &columns {
            let width = column.width();
            let bytes = bytes.get(row * width..(row + 1) * width).unwrap_or_default();
            cells(column.dtype(), bytes, &mut cell, record);
        }
        csv.write_byte_record(record).map_err(of_csv)?;
    }
    Ok(())
}

/// A file and how much went into it.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn of_csv(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn columns_of(rows: &Rows) -> Vec<(&Column, &[u8])> {
    let bytes = |column: &Column| rows.bytes(column.name()).unwrap_or_default();
    rows.columns().iter().map(|column| (column, bytes(column))).collect()
}

/// `lane`, the built-in columns, and a name per element: `obs[0,1]`.
fn header(columns: &[Column]) -> Vec<String> {
    let mut names: Vec<String> =
        ["lane", "seq", "episode", "t", "flags"].map(str::to_owned).to_vec();
    for column in columns {
        if column.shape().is_empty() {
            names.push(column.name().to_owned());
            continue;
        }
        let mut at = vec![0_u32; column.shape().len()];
        for _ in 0..column.items() {
            let place: Vec<String> = at.iter().map(u32::to_string).collect();
            names.push(format!("{}[{}]", column.name(), place.join(",")));
            for (axis, length) in at.iter_mut().zip(column.shape()).rev() {
                *axis += 1;
                if *axis < *length {
                    break;
                }
                *axis = 0;
            }
        }
    }
    names
}

/// A cell per element. Numbers are as short as they can be and read back the same.
fn cells(dtype: DType, bytes: &[u8], cell: &mut Vec<u8>, record: &mut csv::ByteRecord) {
    macro_rules! each {
        ($number:ty) => {
            for bytes in bytes.chunks_exact(size_of::<$number>()) {
                push(record, cell, <$number>::from_ne_bytes(bytes.try_into().unwrap_or_default()));
            }
        };
    }
    match dtype {
        DType::Bool => bytes.iter().for_each(|byte| push(record, cell, *byte != 0)),
        DType::U8 => each!(u8),
        DType::U16 => each!(u16),
        DType::U32 => each!(u32),
        DType::U64 => each!(u64),
        DType::I8 => each!(i8),
        DType::I16 => each!(i16),
        DType::I32 => each!(i32),
        DType::I64 => each!(i64),
        DType::F16 => each!(f16),
        DType::F32 => each!(f32),
        DType::F64 => each!(f64),
    }
}

fn push(record: &mut csv::ByteRecord, cell: &mut Vec<u8>, value: impl std::fmt::Display) {
    cell.clear();
    // A vector takes everything.
    let _ = write!(cell, "{value}");
    record.push_field(cell);
}
