//! Checks that a conversion loses no value: ranges, whole numbers, infinities, bools.

use std::fmt::Display;
use std::ops::RangeInclusive;

use backcast_core::DType;
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyList, PyTuple};

use super::Target;
use crate::argument::{found, text_of};
use crate::error::Failure;

/// Returns whether a cast may make a finite number infinite.
pub(super) fn may_overflow(from: &Bound<'_, PyArrayDescr>, to: DType) -> bool {
    match from.kind() {
        b'f' => from.itemsize() > to.size(),
        // Holds for half precision alone: other floats reach beyond the largest integer.
        b'b' | b'i' | b'u' => to == DType::F16,
        _ => true,
    }
}

/// Refuses a cast that made a finite float infinite.
pub(super) fn check_finite(
    cast: &Bound<'_, PyUntypedArray>,
    given: &Bound<'_, PyAny>,
    target: Target<'_>,
) -> Result<(), Failure> {
    let largest = match target.dtype {
        DType::F16 => "65504",
        DType::BF16 if cast.dtype().kind() != b'u' => "3.3895314e38",
        DType::F32 => "3.4028235e38",
        DType::F64 => "1.7976931348623157e308",
        _ => return Ok(()),
    };
    if given.cast::<PyUntypedArray>().is_ok_and(|given| !may_overflow(&given.dtype(), target.dtype))
    {
        return Ok(());
    }
    let numpy = cast.py().import("numpy")?;
    let infinite = numpy.call_method1("isinf", (cast,))?;
    if !infinite.call_method0("any")?.is_truthy()? {
        return Ok(());
    }
    let given = numpy.call_method1("asarray", (given, "f8"))?;
    let finite = numpy.call_method1("isfinite", (&given,))?;
    let lost = numpy.call_method1("logical_and", (&infinite, finite))?;
    if !lost.call_method0("any")?.is_truthy()? {
        return Ok(());
    }
    let first = given.get_item(lost)?.get_item(0)?;
    let code = target.dtype.code();
    Err(target.refuse(format!(
        "value {} does not fit {code}; give -{largest} to {largest}, or an infinity if that is \
         meant",
        text_of(&first)?
    )))
}

/// Returns whether every float is a whole number.
pub(super) fn is_whole(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    let numpy = array.py().import("numpy")?;
    let finite = numpy.call_method1("isfinite", (array,))?;
    if !finite.call_method0("all")?.is_truthy()? {
        return Ok(false);
    }
    let same = array.call_method1("__eq__", (numpy.call_method1("trunc", (array,))?,))?;
    numpy.call_method1("all", (same,))?.is_truthy()
}

/// Returns whether every number is 0 or 1.
pub(super) fn is_zero_or_one(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    let numpy = array.py().import("numpy")?;
    let [zero, one] = [0, 1].map(|number| array.call_method1("__eq__", (number,)));
    let either = numpy.call_method1("logical_or", (zero?, one?))?;
    numpy.call_method1("all", (either,))?.is_truthy()
}

/// Returns the first bool in a list of numbers, which NumPy would convert to 1 or 0.
pub(super) fn bool_among<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static BOOL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !(value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()) {
        return Ok(None);
    }
    let numpys = BOOL.import(value.py(), "numpy", "bool_")?;
    for part in value.try_iter()? {
        let part = part?;
        if part.is_instance_of::<PyBool>() || part.get_type().is(numpys) {
            return Ok(Some(part));
        }
        if let Some(found) = bool_among(&part)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Refuses integers that the target's dtype cannot hold. NumPy would wrap them around.
pub(super) fn check_range(
    array: &Bound<'_, PyUntypedArray>,
    target: Target<'_>,
) -> Result<(), Failure> {
    let Some((low, high)) = limits(target.dtype).filter(|_| !array.is_empty()) else {
        return Ok(());
    };
    for extreme in ["min", "max"] {
        // Converts to an integer, since the array may hold floats, which are whole here.
        let value = array.call_method0(extreme)?.call_method0(intern!(array.py(), "__int__"))?;
        let fits = found(array.py(), value.extract::<i128>())?;
        if !fits.is_some_and(|value| (low..=high).contains(&value)) {
            return Err(does_not_fit(text_of(&value)?, target, (low, high)));
        }
    }
    Ok(())
}

pub(super) fn does_not_fit(
    value: impl Display,
    target: Target<'_>,
    (low, high): (i128, i128),
) -> Failure {
    let code = target.dtype.code();
    target.refuse(format!("value {value} does not fit {code}; give {low} to {high}"))
}

/// Returns the smallest and the largest value of an integer dtype, or `None` for other dtypes.
pub(super) fn limits(dtype: DType) -> Option<(i128, i128)> {
    Some(match dtype {
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::Bool | DType::F16 | DType::F32 | DType::F64 | DType::BF16 => return None,
    })
}

/// Contents of a nested list.
pub(super) enum Whole<'py> {
    /// Integers within the limits.
    Fit,
    /// Integers, with the first one beyond the limits.
    Odd(Bound<'py, PyAny>),
    /// Values that are not integers.
    Not,
}

pub(super) fn whole_numbers<'py>(
    value: &Bound<'py, PyAny>,
    limits: &RangeInclusive<i128>,
) -> PyResult<Whole<'py>> {
    static INTEGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut first_odd = None;
        for part in value.try_iter()? {
            match whole_numbers(&part?, limits)? {
                Whole::Fit => {}
                Whole::Odd(odd) => first_odd = first_odd.or(Some(odd)),
                Whole::Not => return Ok(Whole::Not),
            }
        }
        return Ok(first_odd.map_or(Whole::Fit, Whole::Odd));
    }
    let numpys = INTEGER.import(value.py(), "numpy", "integer")?;
    let whole = value.is_exact_instance_of::<PyInt>() || value.is_instance(numpys)?;
    if !whole {
        return Ok(Whole::Not);
    }
    let fits = found(value.py(), value.extract())?.is_some_and(|number| limits.contains(&number));
    Ok(if fits { Whole::Fit } else { Whole::Odd(value.clone()) })
}
