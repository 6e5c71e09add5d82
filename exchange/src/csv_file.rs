//! Writes the rows that an export reads from a ring as CSV, one cell per element.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use backcast_core::{Column, DType, Rows};
use half::{bf16, f16};

use crate::error::WriteFailure;
use crate::report::ExportReport;
use crate::rows::RowReader;

/// Writes the new file `path` and forces it to disk.
pub(crate) fn write(
    reader: &mut RowReader<'_, '_>,
    path: &Path,
) -> Result<ExportReport, WriteFailure> {
    let mut csv = csv::Writer::from_writer(BufWriter::new(File::create_new(path)?));
    csv.write_record(header(reader.ring().schema().columns())).map_err(of_csv)?;
    let mut record = csv::ByteRecord::new();
    let mut report = ExportReport::default();
    loop {
        let rows = reader.read_group(|lane, rows| {
            write_rows(&mut csv, lane, rows, &mut record).map_err(WriteFailure::Io)
        })?;
        if rows == 0 {
            break;
        }
        report.rows += rows;
    }
    let file = csv.into_inner().map_err(|error| WriteFailure::Io(error.into_error()))?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    report.bytes = file.metadata()?.len();
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

/// Returns the names of the cells: `lane`, the built-in columns, then one per element such as
/// `obs[0,1]`.
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

/// Appends one cell per element. Floats are written without an exponent, in the fewest digits that
/// read back as the same value; f16 and bf16 are written as f32.
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
        DType::BF16 => each!(bf16),
        DType::F32 => each!(f32),
        DType::F64 => each!(f64),
    }
}

fn push(record: &mut csv::ByteRecord, cell: &mut Vec<u8>, value: impl std::fmt::Display) {
    cell.clear();
    // Writing to a vector cannot fail.
    let _ = write!(cell, "{value}");
    record.push_field(cell);
}
