//! Loader of tables in memory: Arrow record batches, which data frames of all libraries consist of.

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, cast::AsArray};
use arrow_schema::{ArrowError, Fields};
use arrow_select::take::take;
use backcast_files::catch_panics;

use crate::{
    arrow_column::{ArrowColumn, cell_type},
    assemble::{Assembler, PanelData},
    blocks::MAX_VALUES,
    chunk::{CHUNK_ROWS, Chunk},
    error::PanelError,
    header::FileHeader,
    load_error::{PanelLoadError, RowPlace},
    options::PanelOptions,
};

impl PanelData {
    /// Loads the rows of a table in memory, batch by batch.
    ///
    /// Columns may have the types of a Parquet file. Rows are checked like those of a file. Memory
    /// holds the numbers of all rows and the dense panel.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::{Float64Array, RecordBatch, RecordBatchIterator, StringArray};
    /// use backcast_market::{DerivedColumn, PanelData, PanelOptions};
    ///
    /// let closes = RecordBatch::try_from_iter([
    ///     ("date", Arc::new(StringArray::from(vec!["2024-01-02", "2024-01-03"])) as _),
    ///     ("close", Arc::new(Float64Array::from(vec![10.5, 11.5])) as _),
    /// ])?;
    /// let reader = RecordBatchIterator::new([Ok(closes.clone())], closes.schema());
    /// use DerivedColumn::{High, Low, Open, Volume};
    /// let options = PanelOptions::default().ticker("AAPL").derive([Open, High, Low, Volume]);
    /// let panel = PanelData::from_batches(reader, &options)?.into_heap();
    /// assert_eq!(panel.value(0, 0, 0), None); // nothing is known when the first day opens
    /// assert_eq!(panel.value(0, 1, 0), Some(10.5)); // a day opens at the close before
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_batches(
        reader: impl RecordBatchReader,
        options: &PanelOptions,
    ) -> Result<Self, PanelError> {
        load(reader, options)
            .map_err(|problem| PanelError::Load { path: None, problem: Box::new(problem) })
    }
}

fn load(
    reader: impl RecordBatchReader,
    options: &PanelOptions,
) -> Result<PanelData, PanelLoadError> {
    let schema = reader.schema();
    let names = schema.fields().iter().map(|field| field.name().clone()).collect();
    let header = FileHeader::of(names, options)?;
    let columns = ArrowColumn::of(&header, options, schema.fields(), cell_type)?;
    let most = MAX_VALUES / header.columns.len() as u64;
    let mut chunk = Chunk::new(header.columns.len());
    let mut assembler = Assembler::new(header, options, RowPlace::Row);
    let mut row = 0;
    for batch in reader {
        let batch = batch.map_err(|error| PanelLoadError::Batch { row, message: plain(error) })?;
        if batch.num_rows() as u64 > most - row {
            return Err(assembler.too_many_rows(row.saturating_add(batch.num_rows() as u64)));
        }
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = CHUNK_ROWS.min(batch.num_rows() - start);
            let slice = batch.slice(start, rows);
            for column in &columns {
                push(column, &slice, schema.fields(), &mut chunk, &mut assembler)
                    .map_err(|message| PanelLoadError::Batch { row, message })?;
            }
            chunk.places.extend(row..row + rows as u64);
            row += rows as u64;
            start += rows;
            assembler.push(&mut chunk)?;
        }
    }
    assembler.finish()
}

fn push(
    column: &ArrowColumn,
    slice: &RecordBatch,
    fields: &Fields,
    chunk: &mut Chunk,
    assembler: &mut Assembler<'_>,
) -> Result<(), String> {
    let array = slice.columns().get(column.at).ok_or("it lacks a column of its schema")?;
    // Decoding a dictionary panics on an index beyond it.
    let array = catch_panics(|| unpacked(array))?.map_err(plain)?;
    if column.push(array.as_ref(), chunk, &mut assembler.tickers) {
        return Ok(());
    }
    let name = fields.get(column.at).map_or("", |field| field.name());
    Err(format!("column {name:?} holds {}, unlike its schema", array.data_type()))
}

/// Returns the values of a dictionary-encoded array, or the array itself.
fn unpacked(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => unpacked(&take(dictionary.values(), dictionary.keys(), None)?),
        None => Ok(array.clone()),
    }
}

fn plain(error: ArrowError) -> String {
    match error {
        ArrowError::CDataInterface(message) => message,
        error => error.to_string(),
    }
}
