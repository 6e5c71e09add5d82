//! Tables in memory as Arrow record batches: streams of other libraries, and NumPy's arrays.
#![expect(unsafe_code, reason = "an Arrow stream is handed over as a pointer, which is taken here")]

use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchIterator, RecordBatchOptions, StringArray, UInt64Array,
};
use arrow_schema::{Field, Schema};
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
    Stream(RecordBatchStreamReader),
    Columns(RecordBatch),
}

impl Frame {
    /// Reads the frame's columns. Those of a stream are read by [`load`](Self::load).
    pub(super) fn of(frame: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let table = frame.py().import("backcast._frames")?.call_method1("table_of", (frame,))?;
        match table.cast::<PyCapsule>() {
            Ok(capsule) => Ok(Self::Stream(stream_of(capsule)?)),
            Err(_) => Ok(Self::Columns(batch_of(&table)?)),
        }
    }

    pub(super) fn load(self, options: &PanelOptions) -> Result<PanelData, PanelError> {
        match self {
            Self::Stream(stream) => PanelData::from_batches(stream, options),
            Self::Columns(batch) => {
                let schema = batch.schema();
                PanelData::from_batches(RecordBatchIterator::new([Ok(batch)], schema), options)
            }
        }
    }
}

fn stream_of(capsule: &Bound<'_, PyCapsule>) -> Result<RecordBatchStreamReader, Failure> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY:
    // - The capsule has the name that the Arrow PyCapsule interface reserves for a pointer to an
    //   `ArrowArrayStream`; its producer upholds the rest of the C stream interface.
    // - The pointer is used before any other Python code runs. `from_raw` moves the stream out and
    //   leaves a released one, which the capsule's destructor does not release again.
    let stream = unsafe {
        RecordBatchStreamReader::from_raw(pointer.as_ptr().cast::<FFI_ArrowArrayStream>())
    };
    stream.map_err(|error| {
        Failure::new(
            ErrorClass::Panel,
            format!("frame is no table: {error}; give a table with named columns"),
        )
    })
}

/// Converts the columns that `backcast._frames` returns.
fn batch_of(table: &Bound<'_, PyAny>) -> Result<RecordBatch, Failure> {
    let (mut fields, mut arrays, mut rows) = (Vec::new(), Vec::new(), 0);
    for column in table.try_iter()? {
        let (name, kind, cells): (String, String, Bound<'_, PyAny>) = column?.extract()?;
        let array = array_of(&kind, &cells)?;
        rows = array.len();
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Failure::new(ErrorClass::Panel, error))
}

fn array_of(kind: &str, cells: &Bound<'_, PyAny>) -> Result<ArrayRef, Failure> {
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
        _ => Arc::new(StringArray::from(cells.extract::<Vec<Option<String>>>()?)),
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
