//! Dtypes of columns as NumPy has them.

use backcast_core::DType;
use backcast_core::plumbing::closest_name;
use numpy::PyArrayDescr;
use numpy::prelude::*;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::argument::repr_of;
use crate::error::{ErrorClass, Failure, reworded};

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

/// Returns the descriptor of bfloat16: the one of `ml_dtypes` if that is installed, else `uint16`.
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

/// Other form of an entry of a schema, for errors of [`dtype_of`].
pub(crate) const OR_TUPLE: &str = ", or a tuple (dtype, shape[, role])";

/// Reads the dtype of a column: a code such as `"f4"`, or anything that `np.dtype` takes. Errors
/// name `others` as the other forms that the caller takes.
pub(crate) fn dtype_of(
    column: &str,
    value: &Bound<'_, PyAny>,
    others: &str,
) -> Result<DType, Failure> {
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
            .and_then(|text| closest_name(text, names()))
            .map_or_else(String::new, |near| format!("did you mean '{near}'? Otherwise "));
        Ok(Failure::new(
            ErrorClass::Schema,
            format!(
                "column `{column}`: {shown} is not a dtype of a column; {hint}use bool, u1, u2, \
                 u4, u8, i1, i2, i4, i8, f2, f4, f8 (native byte order) or bfloat16{others}"
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
