//! Indices of rows, `lane << 48 | seq`. They are refused in types of fewer than 64 bits: a cut
//! index names a row of lane 0.

use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple};

use super::{ASARRAY, int64s_of_any_shape};
use crate::argument::found;
use crate::error::{ErrorClass, Failure};

/// Maximum axes of an array of NumPy.
const MOST_AXES: usize = 64;

/// Reads indices of rows, of any shape, in C order, at most as many as a batch may have items.
///
/// Takes what NumPy converts to int64 or uint64: arrays of any library, Python integers, and lists
/// of these. Refuses narrower integers even where every value fits, because a cut index fits too.
pub(crate) fn row_indices(value: &Bound<'_, PyAny>) -> Result<Vec<i64>, Failure> {
    const REMEDY: &str = "give batch.index, or what append returned, as it is; JAX cuts int64 to \
                          int32 unless jax_enable_x64 is set, so keep the index in NumPy";
    let Some(dtype) = other_dtype(value, MOST_AXES)? else {
        return int64s_of_any_shape(value, "index", ErrorClass::Sample);
    };
    let message = match dtype.kind() {
        b'b' => "index: got a mask of bools; give the indices that it selects, index[mask]".into(),
        b'i' | b'u' => format!(
            "index: got {dtype} values, and an index needs 64 bits, lane << 48 | seq: cut to {} \
             bits it names a row of lane 0; {REMEDY}",
            8 * dtype.itemsize()
        ),
        _ => format!(
            "index: got {dtype} values, and an index is an int64, lane << 48 | seq; {REMEDY}"
        ),
    };
    Err(Failure::new(ErrorClass::Sample, message))
}

/// Returns the first dtype of a value, or of the parts of a list, that is not an integer of 64
/// bits. Python's own numbers, and values of which NumPy makes no numbers, are checked when they
/// are converted.
fn other_dtype<'py>(
    value: &Bound<'py, PyAny>,
    axes: usize,
) -> PyResult<Option<Bound<'py, PyArrayDescr>>> {
    let is_number = value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>();
    if is_number {
        return Ok(None);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        // NumPy makes no array of a deeper list, such as a list that contains itself.
        let Some(axes) = axes.checked_sub(1) else { return Ok(None) };
        for part in value.try_iter()? {
            let other = other_dtype(&part?, axes)?;
            if other.is_some() {
                return Ok(other);
            }
        }
        return Ok(None);
    }
    let py = value.py();
    let array = value.cast::<PyUntypedArray>().ok().cloned();
    let is_array = array.is_some();
    let array = match array {
        Some(array) => array,
        // A scalar of NumPy, or an array of another library.
        None => match found(py, ASARRAY.import(py, "numpy", "asarray")?.call1((value,)))? {
            Some(array) => array.cast_into().map_err(PyErr::from)?,
            None => return Ok(None),
        },
    };
    let dtype = array.dtype();
    let is_other = match dtype.kind() {
        b'i' | b'u' => dtype.itemsize() < size_of::<i64>(),
        // The conversion names a bool among numbers.
        b'b' => is_array,
        kind => kind == b'f',
    };
    Ok(is_other.then_some(dtype))
}
