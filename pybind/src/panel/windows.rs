//! Windows of a panel: which tickers they are of, and their arrays.

use backcast_core::DType;
use backcast_market::WindowPlan;
use numpy::prelude::*;
use numpy::{PyArray3, PyArrayDyn, PyUntypedArray};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyEllipsis, PySlice};

use crate::coerce::{Target, Tuple, array_of};
use crate::error::{Failure, Kind};

/// `[B, T]` flat and `T`; one axis is repeated for every sample.
pub(super) fn tokens_of(
    value: &Bound<'_, PyAny>,
    batch: usize,
) -> Result<(Vec<i64>, usize), Failure> {
    let target = Target { what: "tokens", kind: Kind::Panel, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?.readonly();
    let tokens = array.as_slice().map_err(|error| Failure::new(Kind::Panel, error))?;
    match *array.shape() {
        [per_sample] => Ok((tokens.repeat(batch), per_sample)),
        [samples, per_sample] if samples == batch => Ok((tokens.to_vec(), per_sample)),
        _ => Err(Failure::new(
            Kind::Panel,
            format!(
                "tokens: got shape {}; give ({batch}, T) for {batch} days, or (T,)",
                Tuple(array.shape())
            ),
        )),
    }
}

/// The parts of an arena `[B, T, H + 1 + F, C]` and its mask under their names.
pub(super) fn views<'py>(
    arena: &Bound<'py, PyUntypedArray>,
    mask: &Bound<'py, PyArray3<bool>>,
    plan: &WindowPlan,
    history: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let py = arena.py();
    let all = || PySlice::full(py);
    let (day, end) = (isize::try_from(history)?, isize::try_from(plan.window())?);
    let before = || PySlice::new(py, 0, day, 1);
    let after = || PySlice::new(py, day + 1, end, 1);
    let dots = PyEllipsis::get(py);

    let result = PyDict::new(py);
    result.set_item(intern!(py, "history"), arena.get_item((all(), all(), before()))?)?;
    result.set_item(intern!(py, "history_mask"), mask.get_item((dots, before()))?)?;
    result.set_item(intern!(py, "open"), arena.get_item((dots, day, 0))?)?;
    result.set_item(intern!(py, "listed"), mask.get_item((dots, day))?)?;
    result.set_item(intern!(py, "future"), arena.get_item((all(), all(), after()))?)?;
    result.set_item(intern!(py, "future_mask"), mask.get_item((dots, after()))?)?;
    Ok(result)
}
