//! Parquet files: accepted and refused column types, values, and damaged parts.

mod damaged;
mod types;
mod values;

use std::{fs::File, path::PathBuf, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use backcast_market::{Panel, PanelData, PanelError, PanelLoadError, PanelOptions};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use tempfile::TempDir;

/// Columns of a file, in order.
type Columns = Vec<(&'static str, ArrayRef)>;

/// A directory with one file.
struct Shelf(TempDir);

impl Shelf {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("prices.parquet")
    }

    fn write(&self, columns: Columns, properties: WriterProperties) {
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let file = File::create(self.path()).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    fn load(&self, options: &PanelOptions) -> Result<Panel, PanelError> {
        Ok(PanelData::from_parquet(self.path(), options)?.into_heap())
    }
}

/// Three rows: A on two days, then B on the second.
fn columns() -> Columns {
    let number = |numbers: [f64; 3]| Arc::new(Float64Array::from(numbers.to_vec())) as ArrayRef;
    vec![
        ("date", Arc::new(StringArray::from(vec!["2024-01-02", "2024-01-03", "2024-01-03"]))),
        ("tic", Arc::new(StringArray::from(vec!["A", "A", "B"]))),
        ("open", number([10.0, 10.5, 20.0])),
        ("high", number([11.0, 12.0, 22.0])),
        ("low", number([9.5, 10.0, 19.0])),
        ("close", number([10.5, 11.5, 21.0])),
        ("volume", Arc::new(Int64Array::from(vec![1000, 1200, 0]))),
        ("rsi", number([50.0, 61.0, -3.0])),
    ]
}

/// The file with one of its columns replaced, or with one more.
fn with(name: &'static str, column: ArrayRef) -> Columns {
    let mut columns = columns();
    match columns.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = column,
        None => columns.push((name, column)),
    }
    columns
}

fn load_with(columns: Columns, options: &PanelOptions) -> Result<Panel, PanelError> {
    let shelf = Shelf::new();
    shelf.write(columns, WriterProperties::default());
    shelf.load(options)
}

fn load(columns: Columns) -> Result<Panel, PanelError> {
    load_with(columns, &PanelOptions::default())
}

/// Returns the error of loading these columns as a panel, and its whole message.
fn refusal(columns: Columns, options: &PanelOptions) -> (PanelLoadError, String) {
    match load_with(columns, options) {
        Err(error) => {
            let message = error.to_string();
            let PanelError::Load { problem, .. } = error else { panic!("{message}") };
            (*problem, message)
        }
        Ok(panel) => panic!("{panel:?}"),
    }
}
