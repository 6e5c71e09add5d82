//! Conversion of Python values to arrays of a column's dtype and shape.

mod column_dtype;
mod masked;
mod row_index;
mod shape;
mod values;
mod wrong_dtype;

use std::fmt::Display;

use backcast_core::{DType, MAX_BATCH};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyArrayDyn, PyUntypedArray};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};

pub(crate) use self::column_dtype::{OR_TUPLE, descr, dtype_of, is_of};
pub(crate) use self::masked::is_masked;
pub(crate) use self::row_index::row_indices;
pub(crate) use self::shape::{LeadingAxes, ShapeText, check_shape};
use self::values::{Whole, check_finite, does_not_fit, limits, may_overflow, whole_numbers};
use self::wrong_dtype::refuse_wrong_dtype;
use crate::argument::text_of;
use crate::error::{ErrorClass, Failure, refuses_value, reworded};

static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Dtype that a value is converted to, and how errors name it.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Start of an error message, such as `column "obs"` or `start_day`.
    pub(crate) what: &'a str,
    pub(crate) class: ErrorClass,
    pub(crate) dtype: DType,
}

impl Target<'_> {
    pub(crate) fn refuse(&self, why: impl Display) -> Failure {
        Failure::new(self.class, format!("{}: {why}", self.what))
    }
}

/// Returns a C-contiguous array of the target's dtype: the same object if it already is one.
///
/// Casts as NumPy's `same_kind` does (`f8` to `f4`, integers to floats), to integers where every
/// value fits, and to booleans where every number is 0 or 1. For integers, only appended rows take
/// whole floats and booleans. Never wraps, never drops a fraction, makes no finite number infinite,
/// and takes no masked arrays.
pub(crate) fn array_of<'py>(
    value: &Bound<'py, PyAny>,
    target: Target<'_>,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let py = value.py();
    if is_masked(value)? {
        return Err(target.refuse(
            "got a masked array, whose masked values are unknown; give the array that filled(...) \
             returns",
        ));
    }
    let want = descr(py, target.dtype)?;
    if let Ok(array) = value.cast::<PyUntypedArray>()
        && array.is_c_contiguous()
        && array.dtype().is_equiv_to(&want)
    {
        return Ok(array.clone());
    }
    let code = target.dtype.code();
    if value.is_none() || value.is_instance_of::<PyDict>() {
        let got = if value.is_none() { "None" } else { "a dict" };
        return Err(target.refuse(format!("got {got}; give an array of {code}")));
    }
    if target.dtype == DType::BF16 {
        return bfloat16_of(value, target, &want);
    }
    let asarray = ASARRAY.import(py, "numpy", "asarray")?;
    if is_plain_number(value, want.kind()) {
        match quietly(py, || asarray.call1((value, &want))) {
            Ok(array) => {
                let array = array.cast_into().map_err(PyErr::from)?;
                check_finite(&array, value, target)?;
                return Ok(array);
            }
            // The checks below name the problem.
            Err(raised) if refuses_value(py, &raised) => {}
            Err(raised) => return Err(raised.into()),
        }
    }
    let mut array = plain_array(value, target)?;
    // For integers above 2^63 - 1 beside negative ones, NumPy makes an array of float64 or of
    // objects.
    if matches!((array.dtype().kind(), want.kind()), (b'f' | b'O', b'i' | b'u'))
        && !array.is_empty()
        && let Some((least, most)) = limits(target.dtype)
    {
        match whole_numbers(value, &(least..=most))? {
            Whole::Fit => {
                array = asarray.call1((value, &want))?.cast_into().map_err(PyErr::from)?;
            }
            Whole::Odd(odd) => {
                return Err(does_not_fit(text_of(&odd)?, target, (least, most)));
            }
            Whole::Not => {}
        }
    }
    refuse_wrong_dtype(value, &array, &want, target)?;
    cast(&array, &want, target)
}

/// Returns a C-contiguous array of bfloat16: `uint16` is taken as its bits, and other numbers are
/// rounded where `ml_dtypes` is installed.
fn bfloat16_of<'py>(
    value: &Bound<'py, PyAny>,
    target: Target<'_>,
    want: &Bound<'py, PyArrayDescr>,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let py = value.py();
    let bits = descr(py, DType::U16)?;
    let array = plain_array(value, target)?;
    let have = array.dtype();
    if have.is_equiv_to(&bits) {
        let array = cast(&array, &bits, target)?;
        let viewed = array.call_method1(intern!(py, "view"), (want,))?;
        return Ok(viewed.cast_into().map_err(PyErr::from)?);
    }
    let rounded = !want.is_equiv_to(&bits);
    if rounded && (have.is_equiv_to(want) || matches!(have.kind(), b'b' | b'i' | b'u' | b'f')) {
        return cast(&array, want, target);
    }
    let remedy = match (have.kind(), have.itemsize()) {
        (b'V', 2) => "give array.view(\"u2\") if they are the bits of bfloat16",
        _ if rounded => "give numbers, such as array.astype(\"f4\"), which are rounded",
        _ => {
            "give their bits as uint16, (array.astype(\"f4\").view(\"u4\") >> 16).astype(\"u2\"), \
             or install ml_dtypes, with which numbers are rounded"
        }
    };
    Err(target.refuse(format!("got {have} values where bfloat16 is wanted; {remedy}")))
}

/// Returns the array that NumPy makes of a value.
fn plain_array<'py>(
    value: &Bound<'py, PyAny>,
    target: Target<'_>,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let (py, code) = (value.py(), target.dtype.code());
    let made = ASARRAY.import(py, "numpy", "asarray")?.call1((value,)).map_err(|raised| {
        reworded(py, raised, |error| {
            let said = text_of(error.value(py).as_any())?;
            let said = said.trim_end_matches('.');
            let why = format!("NumPy makes no array of it ({said}); give an array of {code}");
            Ok(target.refuse(why))
        })
    })?;
    Ok(made.cast_into().map_err(PyErr::from)?)
}

/// Casts to a C-contiguous array. Refuses finite numbers that become infinite.
fn cast<'py>(
    array: &Bound<'py, PyUntypedArray>,
    want: &Bound<'py, PyArrayDescr>,
    target: Target<'_>,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let py = array.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "order"), intern!(py, "C"))?;
    options.set_item(intern!(py, "copy"), false)?;
    let astype = || array.call_method(intern!(py, "astype"), (want,), Some(&options));
    // The call that keeps NumPy quiet takes a microsecond.
    let loud = may_overflow(&array.dtype(), target.dtype);
    let cast = if loud { quietly(py, astype)? } else { astype()? };
    let cast = cast.cast_into().map_err(PyErr::from)?;
    check_finite(&cast, array, target)?;
    Ok(cast)
}

/// Calls NumPy without its overflow warning. The caller refuses overflows afterwards.
fn quietly<'py>(
    py: Python<'py>,
    work: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    static ERRSTATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let options = PyDict::new(py);
    options.set_item("over", "ignore")?;
    let state = ERRSTATE.import(py, "numpy", "errstate")?.call((), Some(&options))?;
    state.call_method0("__enter__")?;
    let done = work();
    state.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    done
}

/// Returns whether a value is a Python number that NumPy converts to this kind directly. NumPy
/// rounds to floats, and refuses an integer that is out of range.
fn is_plain_number(value: &Bound<'_, PyAny>, kind: u8) -> bool {
    match kind {
        b'f' => value.is_exact_instance_of::<PyFloat>() || value.is_exact_instance_of::<PyInt>(),
        b'i' | b'u' => value.is_exact_instance_of::<PyInt>(),
        _ => value.is_exact_instance_of::<PyBool>(),
    }
}

/// Reads integers of any dtype along one axis.
pub(crate) fn int64s(
    value: &Bound<'_, PyAny>,
    what: &str,
    class: ErrorClass,
) -> Result<Vec<i64>, Failure> {
    let target = Target { what, class, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?;
    if array.ndim() != 1 {
        return Err(
            target.refuse(format!("got shape {}; give one axis, (B,)", ShapeText(array.shape())))
        );
    }
    Ok(array.readonly().as_slice().map_err(|error| target.refuse(error))?.to_vec())
}

/// Reads integers of any dtype and shape, in C order, at most [`MAX_BATCH`].
pub(crate) fn int64s_of_any_shape(
    value: &Bound<'_, PyAny>,
    what: &str,
    class: ErrorClass,
) -> Result<Vec<i64>, Failure> {
    let target = Target { what, class, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?;
    if array.len() > MAX_BATCH {
        let got = array.len();
        return Err(target.refuse(format!("names {got} transitions; give from 1 to {MAX_BATCH}")));
    }
    Ok(array.readonly().as_slice().map_err(|error| target.refuse(error))?.to_vec())
}
