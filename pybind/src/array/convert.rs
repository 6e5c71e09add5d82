//! Conversion of Python values to arrays of a column's dtype and shape.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use backcast_core::DType;
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyArrayDyn, PyUntypedArray};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};
use pyo3::{PyTypeInfo, intern};

use crate::argument::{closest, found, repr_of, text_of};
use crate::error::{ErrorClass, Failure, refuses_value, reworded};

/// Dtypes that NumPy has itself, with their names there.
const DTYPES: [(DType, &str); 12] = [
    (DType::Bool, "bool"),
    (DType::U8, "uint8"),
    (DType::U16, "uint16"),
    (DType::U32, "uint32"),
    (DType::U64, "uint64"),
    (DType::I8, "int8"),
    (DType::I16, "int16"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
    (DType::F16, "float16"),
    (DType::F32, "float32"),
    (DType::F64, "float64"),
];

static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns NumPy's descriptor of a dtype.
pub(crate) fn descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    static MADE: PyOnceLock<Vec<Py<PyArrayDescr>>> = PyOnceLock::new();
    if dtype == DType::BF16 {
        return bfloat16(py);
    }
    let made = MADE.get_or_try_init(py, || {
        DTYPES
            .iter()
            .map(|(_, name)| Ok(PyArrayDescr::new(py, *name)?.unbind()))
            .collect::<PyResult<Vec<_>>>()
    })?;
    let at = DTYPES.iter().position(|(known, _)| *known == dtype).unwrap_or_default();
    Ok(made[at].bind(py).clone())
}

/// Returns the descriptor of bfloat16: that of `ml_dtypes`, or `uint16` where it is not installed.
fn bfloat16(py: Python<'_>) -> PyResult<Bound<'_, PyArrayDescr>> {
    static MADE: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
    let made = MADE.get_or_try_init(py, || match py.import("ml_dtypes") {
        Ok(module) => Ok(PyArrayDescr::new(py, module.getattr("bfloat16")?)?.unbind()),
        Err(error) if error.is_instance_of::<PyImportError>(py) => {
            Ok(descr(py, DType::U16)?.unbind())
        }
        Err(error) => Err(error),
    })?;
    Ok(made.bind(py).clone())
}

/// Returns whether an array of `have` holds elements of `dtype`. The bits of bfloat16 may be
/// `uint16`.
pub(crate) fn is_of(have: &Bound<'_, PyArrayDescr>, dtype: DType) -> PyResult<bool> {
    let py = have.py();
    Ok(have.is_equiv_to(&descr(py, dtype)?)
        || dtype == DType::BF16 && have.is_equiv_to(&descr(py, DType::U16)?))
}

/// Reads the dtype of a schema's entry: a code such as `"f4"`, or anything that `np.dtype` takes.
pub(crate) fn dtype_of(column: &str, value: &Bound<'_, PyAny>) -> Result<DType, Failure> {
    if let Ok(code) = value.extract::<&str>()
        && let Ok(dtype) = code.parse()
    {
        return Ok(dtype);
    }
    let py = value.py();
    let refused = || -> PyResult<Failure> {
        let shown = repr_of(value)?;
        let typed = value.extract::<&str>().ok().filter(|text| text.len() > 3);
        let names = || DType::ALL.map(DType::name).into_iter();
        let hint = typed
            .and_then(|text| closest(text, names()))
            .map_or_else(String::new, |near| format!("did you mean '{near}'? Otherwise "));
        Ok(Failure::new(
            ErrorClass::Schema,
            format!(
                "column `{column}`: {shown} is not a dtype of a column; {hint}use bool, u1, u2, \
                 u4, u8, i1, i2, i4, i8, f2, f4, f8 (native byte order) or bfloat16, or a tuple \
                 (dtype, shape[, role])"
            ),
        ))
    };
    // NumPy reads None as float64. In a schema it is probably a mistake.
    if value.is_none() {
        return Err(refused()?);
    }
    let wanted =
        PyArrayDescr::new(py, value).map_err(|raised| reworded(py, raised, |_| refused()))?;
    for (dtype, _) in DTYPES {
        if descr(py, dtype)?.is_equiv_to(&wanted) {
            return Ok(dtype);
        }
    }
    // A `uint16` in the place of bfloat16 was found above.
    if bfloat16(py)?.is_equiv_to(&wanted) {
        return Ok(DType::BF16);
    }
    Err(refused()?)
}

/// Dtype that a value is converted to, and how errors name it.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// `column "obs"`, `start_day`, ...
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
/// Casts as NumPy's `same_kind` does (`f8` to `f4`, integers to floats), and to integers where
/// every value fits. Appended rows take floats that are whole for integers, and numbers that are 0
/// or 1 for booleans. Never wraps, never drops a fraction, makes no finite number infinite, and
/// takes no masked arrays.
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
    // NumPy makes float64 or objects of integers that need 64 bits next to signed ones.
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
    let have = array.dtype();
    match (have.kind(), want.kind()) {
        (b'i' | b'u', b'i' | b'u') => {
            if target.class != ErrorClass::Append
                && let Some(found) = bool_among(value)?
            {
                let found = text_of(&found)?;
                let message = format!("got {found} among the numbers; give whole numbers only");
                return Err(target.refuse(message));
            }
            check_range(&array, target)?;
        }
        // An empty list is float64 to NumPy, although no value of it could be wrong.
        _ if array.is_empty() && !value.is_instance_of::<PyUntypedArray>() => {}
        (b'b', b'i' | b'u') if target.class != ErrorClass::Append => {
            let message = "got a mask of bools; give numbers, such as np.flatnonzero(mask)";
            return Err(target.refuse(message));
        }
        (b'b', _) | (b'i' | b'u' | b'f', b'f') => {}
        (b'f', b'i' | b'u') if target.class == ErrorClass::Append && is_whole(&array)? => {
            check_range(&array, target)?;
        }
        (b'i' | b'u' | b'f', b'b')
            if target.class == ErrorClass::Append && is_zero_or_one(&array)? => {}
        (_, wanted) => {
            let hint = match (have.kind(), wanted) {
                (_, b'b') => "pass booleans, or 0 and 1",
                (b'f', b'i' | b'u') if target.class == ErrorClass::Append => "pass whole numbers",
                _ => "convert them yourself if that is meant",
            };
            return Err(target.refuse(format!(
                "got {have} values, which cannot become {code} without loss; {hint}"
            )));
        }
    }
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
    let remedy = if rounded {
        "convert them yourself if that is meant"
    } else {
        "give its bits as uint16, or install ml_dtypes, with which numbers are rounded"
    };
    Err(target.refuse(format!("got {have} values, which are no bfloat16; {remedy}")))
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
    let cast = quietly(py, || array.call_method(intern!(py, "astype"), (want,), Some(&options)))?;
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

/// Refuses a cast that made a finite float infinite.
fn check_finite(
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
    if given.cast::<PyUntypedArray>().is_ok_and(|given| {
        given.dtype().kind() == b'f' && given.dtype().itemsize() <= target.dtype.size()
    }) {
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
fn is_whole(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    let numpy = array.py().import("numpy")?;
    let finite = numpy.call_method1("isfinite", (array,))?;
    if !finite.call_method0("all")?.is_truthy()? {
        return Ok(false);
    }
    let same = array.call_method1("__eq__", (numpy.call_method1("trunc", (array,))?,))?;
    numpy.call_method1("all", (same,))?.is_truthy()
}

/// Returns whether every number is 0 or 1.
fn is_zero_or_one(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    let numpy = array.py().import("numpy")?;
    let [zero, one] = [0, 1].map(|number| array.call_method1("__eq__", (number,)));
    let either = numpy.call_method1("logical_or", (zero?, one?))?;
    numpy.call_method1("all", (either,))?.is_truthy()
}

/// Returns whether a value is a masked array, or a list or tuple that holds one. `asarray` ignores
/// masks.
pub(crate) fn is_masked(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    /// NumPy's limit.
    const MOST_AXES: usize = 64;
    Ok(has_mask(value, MOST_AXES)?.unwrap_or(false))
}

/// Searches lists up to `axes` levels deep. Returns `None` if they are deeper, as a list that holds
/// itself: NumPy makes no array of those.
fn has_mask(value: &Bound<'_, PyAny>, axes: usize) -> PyResult<Option<bool>> {
    static MASKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    if value.get_type().is(PyUntypedArray::type_object(py)) {
        return Ok(Some(false));
    }
    if value.is_instance_of::<PyUntypedArray>() {
        let masked = value.is_instance(MASKED.import(py, "numpy.ma", "MaskedArray")?)?;
        return Ok(Some(masked));
    }
    if !(value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()) {
        return Ok(Some(false));
    }
    let Some(axes) = axes.checked_sub(1) else { return Ok(None) };
    for part in value.try_iter()? {
        let part = part?;
        // A list with a number in front holds no arrays, so long lists are not searched.
        if part.is_instance_of::<PyFloat>() || part.is_instance_of::<PyInt>() {
            return Ok(Some(false));
        }
        let masked = has_mask(&part, axes)?;
        if masked != Some(false) {
            return Ok(masked);
        }
    }
    Ok(Some(false))
}

/// Returns whether NumPy converts a Python number to this kind exactly, or refuses it as out of
/// range.
fn is_plain_number(value: &Bound<'_, PyAny>, kind: u8) -> bool {
    match kind {
        b'f' => value.is_exact_instance_of::<PyFloat>() || value.is_exact_instance_of::<PyInt>(),
        b'i' | b'u' => value.is_exact_instance_of::<PyInt>(),
        _ => value.is_exact_instance_of::<PyBool>(),
    }
}

/// Returns the first bool in a list of numbers, which NumPy would convert to 1 or 0.
fn bool_among<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
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
fn check_range(array: &Bound<'_, PyUntypedArray>, target: Target<'_>) -> Result<(), Failure> {
    let Some((low, high)) = limits(target.dtype).filter(|_| !array.is_empty()) else {
        return Ok(());
    };
    for extreme in ["min", "max"] {
        // An integer even if the array holds floats, which are whole here.
        let value = array.call_method0(extreme)?.call_method0(intern!(array.py(), "__int__"))?;
        let fits = found(array.py(), value.extract::<i128>())?;
        if !fits.is_some_and(|value| (low..=high).contains(&value)) {
            return Err(does_not_fit(text_of(&value)?, target, (low, high)));
        }
    }
    Ok(())
}

fn does_not_fit(value: impl Display, target: Target<'_>, (low, high): (i128, i128)) -> Failure {
    let code = target.dtype.code();
    target.refuse(format!("value {value} does not fit {code}; give {low} to {high}"))
}

/// Returns the smallest and the largest value of an integer dtype, or `None` for other dtypes.
fn limits(dtype: DType) -> Option<(i128, i128)> {
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
enum Whole<'py> {
    /// Integers within the limits.
    Fit,
    /// Integers, with the first one beyond the limits.
    Odd(Bound<'py, PyAny>),
    /// Values that are not integers.
    Not,
}

fn whole_numbers<'py>(
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

/// Refuses an array whose shape is not `[*leading, *shape]`.
pub(crate) fn check_shape(
    array: &Bound<'_, PyUntypedArray>,
    leading: LeadingAxes,
    shape: &[u32],
    target: Target<'_>,
) -> Result<(), Failure> {
    let rows: Vec<usize> = shape.iter().map(|&axis| axis as usize).collect();
    if leading.fits(array.shape(), &rows) {
        return Ok(());
    }
    let with = |axes: &[usize]| -> Vec<usize> { axes.iter().chain(&rows).copied().collect() };
    let got = ShapeText(array.shape());
    Err(target.refuse(match leading {
        LeadingAxes::Lanes(1) => {
            let (all, rows) = (with(&[1]), ShapeText(&rows));
            format!("got shape {got}; give {rows}, or {} with the one lane first", ShapeText(&all))
        }
        LeadingAxes::Lanes(lanes) => {
            format!("got shape {got}; give {}, the {lanes} lanes first", ShapeText(&with(&[lanes])))
        }
        LeadingAxes::Steps(steps, lanes) => {
            let all = with(&[steps, lanes]);
            let short = if lanes == 1 {
                format!(" or {}", ShapeText(&with(&[steps])))
            } else {
                String::new()
            };
            format!(
                "got shape {got}; give {}{short}: the steps first, as many as `terminated` has, \
                 then the lanes",
                ShapeText(&all)
            )
        }
    }))
}

/// Leading axes, before those of a row. The axis of a single lane may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeadingAxes {
    Lanes(usize),
    /// Steps, then lanes.
    Steps(usize, usize),
}

impl LeadingAxes {
    /// Returns whether an array of that shape has these leading axes.
    #[inline]
    pub(crate) fn fits(self, shape: &[usize], row: &[usize]) -> bool {
        // Compared in a loop: for so few axes, calling `memcmp` costs more.
        let is_row = |axes: &[usize]| axes.len() == row.len() && axes.iter().eq(row);
        let of_lanes = |axes: &[usize], lanes: usize| match axes {
            [first, rest @ ..] if *first == lanes && is_row(rest) => true,
            whole => lanes == 1 && is_row(whole),
        };
        match (self, shape) {
            (LeadingAxes::Lanes(lanes), shape) => of_lanes(shape, lanes),
            (LeadingAxes::Steps(steps, lanes), [first, rest @ ..]) => {
                *first == steps && of_lanes(rest, lanes)
            }
            (LeadingAxes::Steps(..), []) => false,
        }
    }
}

/// Shape in Python's notation.
pub(crate) struct ShapeText<'a>(pub(crate) &'a [usize]);

impl Display for ShapeText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [only] => write!(out, "({only},)"),
            axes => {
                let text: Vec<String> = axes.iter().map(ToString::to_string).collect();
                write!(out, "({})", text.join(", "))
            }
        }
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

/// Reads at most `most` integers of any dtype and shape, in C order.
pub(crate) fn int64s_of_any_shape(
    value: &Bound<'_, PyAny>,
    what: &str,
    class: ErrorClass,
    most: usize,
) -> Result<Vec<i64>, Failure> {
    let target = Target { what, class, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?;
    if array.len() > most {
        let got = array.len();
        return Err(target.refuse(format!("names {got} transitions; give from 1 to {most}")));
    }
    Ok(array.readonly().as_slice().map_err(|error| target.refuse(error))?.to_vec())
}
