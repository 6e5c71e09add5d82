//! Tables in memory as Arrow record batches: streams of other libraries, and NumPy's arrays.
#![expect(unsafe_code, reason = "an Arrow stream is handed over as a pointer, which is taken here")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::types::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayReader, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array,
    PrimitiveArray, RecordBatch, RecordBatchIterator, RecordBatchOptions, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use backcast_market::{PanelData, PanelError, PanelOptions};
use numpy::PyArray1;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule};

use crate::error::{ErrorClass, Failure};

/// Number that NumPy's datetimes use for "not a time".
const NAT: i64 = i64::MIN;

/// Rows of a frame.
pub(super) enum Frame {
    Stream { stream: ArrayStreamReader, schema: SchemaRef },
    Columns(RecordBatch),
}

impl Frame {
    /// Reads the frame's columns. Those of a stream are read by [`load`](Self::load).
    pub(super) fn of(frame: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let table = frame.py().import("backcast._frames")?.call_method1("table_of", (frame,))?;
        match table.cast::<PyCapsule>() {
            Ok(capsule) => Self::of_stream(capsule),
            Err(_) => Ok(Self::Columns(batch_of(&table)?)),
        }
    }

    pub(super) fn load(self, options: &PanelOptions) -> Result<PanelData, PanelError> {
        match self {
            Self::Stream { stream, schema } => {
                let batches = stream.map(|rows| rows.and_then(|rows| rows_of(&rows, &schema)));
                let reader = RecordBatchIterator::new(batches, Arc::clone(&schema));
                PanelData::from_batches(reader, options)
            }
            Self::Columns(batch) => {
                let schema = batch.schema();
                PanelData::from_batches(RecordBatchIterator::new([Ok(batch)], schema), options)
            }
        }
    }

    fn of_stream(capsule: &Bound<'_, PyCapsule>) -> Result<Self, Failure> {
        let refused = |problem: String| {
            let text = format!("frame is no table: {problem}; give a table with named columns");
            Failure::new(ErrorClass::Panel, text)
        };
        let pointer = capsule
            .pointer_checked(Some(c"arrow_array_stream"))
            .map_err(|error| refused(format!("it gave no Arrow stream ({error})")))?;
        // SAFETY:
        // - The capsule has the name that the Arrow PyCapsule interface reserves for a pointer to
        //   an `ArrowArrayStream`; its producer upholds the rest of the C stream interface.
        // - The pointer is used before any other Python code runs. `from_raw` moves the stream out
        //   and leaves a released one, which the capsule's destructor does not release again.
        let stream = unsafe {
            FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast::<FFI_ArrowArrayStream>())
        };
        // The reader panics on its first array without it.
        if stream.release().is_some() && stream.get_next().is_none() {
            return Err(refused("its stream lacks the function get_next".to_owned()));
        }
        let stream =
            ArrayStreamReader::try_new(stream).map_err(|error| refused(error.to_string()))?;
        let schema = match stream.field().data_type() {
            DataType::Struct(fields) => Arc::new(Schema::new(fields.clone())),
            other => return Err(refused(format!("its stream has rows of {other}"))),
        };
        Ok(Self::Stream { stream, schema })
    }
}

/// Returns the columns of a struct array. Refuses null rows, which a record batch cannot hold.
fn rows_of(rows: &ArrayRef, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let nulls = rows.null_count();
    if nulls > 0 {
        return Err(ArrowError::CDataInterface(format!(
            "{nulls} of the next {} rows are null as a whole; drop such rows",
            rows.len()
        )));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = rows.as_struct().columns().to_vec();
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Converts the columns that `backcast._frames` returns.
fn batch_of(table: &Bound<'_, PyAny>) -> Result<RecordBatch, Failure> {
    let (mut fields, mut arrays, mut rows) = (Vec::new(), Vec::new(), 0);
    for column in table.try_iter()? {
        let (name, kind, cells): (String, String, Bound<'_, PyAny>) = column?.extract()?;
        let array = array_of(&name, &kind, &cells)?;
        rows = array.len();
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Failure::new(ErrorClass::Panel, error))
}

fn array_of(name: &str, kind: &str, cells: &Bound<'_, PyAny>) -> Result<ArrayRef, Failure> {
    Ok(match kind {
        "float" => Arc::new(Float64Array::from(numbers::<f64>(cells)?)),
        "int" => Arc::new(Int64Array::from(numbers::<i64>(cells)?)),
        "uint" => Arc::new(UInt64Array::from(numbers::<u64>(cells)?)),
        "bool" => Arc::new(BooleanArray::from(cells.extract::<Vec<bool>>()?)),
        "day" => {
            // Days beyond 32 bits lie beyond the calendar too, and are refused like its first one.
            let day = |day: i64| (day != NAT).then(|| i32::try_from(day).unwrap_or(i32::MIN));
            Arc::new(numbers::<i64>(cells)?.into_iter().map(day).collect::<Date32Array>())
        }
        "s" => stamps::<TimestampSecondType>(cells)?,
        "ms" => stamps::<TimestampMillisecondType>(cells)?,
        "us" => stamps::<TimestampMicrosecondType>(cells)?,
        "ns" => stamps::<TimestampNanosecondType>(cells)?,
        _ => {
            let texts = cells.extract::<Vec<Option<String>>>().map_err(|error| {
                let text = format!("column {name:?} has text that UTF-8 cannot hold: {error}");
                Failure::new(ErrorClass::Panel, text)
            })?;
            Arc::new(StringArray::from(texts))
        }
    })
}

fn numbers<T: numpy::Element + Copy>(cells: &Bound<'_, PyAny>) -> Result<Vec<T>, Failure> {
    let array = cells.cast::<PyArray1<T>>().map_err(PyErr::from)?.readonly();
    Ok(array.as_slice().map_err(|error| Failure::new(ErrorClass::Panel, error))?.to_vec())
}

fn stamps<T: ArrowTimestampType>(cells: &Bound<'_, PyAny>) -> Result<ArrayRef, Failure> {
    let stamps = numbers::<i64>(cells)?.into_iter().map(|stamp| (stamp != NAT).then_some(stamp));
    Ok(Arc::new(stamps.collect::<PrimitiveArray<T>>()))
}
