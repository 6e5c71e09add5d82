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
use crate::room::Room;
use crate::spares::Spares;

/// The memory of windows that were handed out, for the windows after: large arrays cost more to map than to fill.
#[pyclass(module = "backcast._native", name = "WindowMemory", frozen)]
#[derive(Default)]
pub(crate) struct WindowMemory(pub(super) Spares);

#[pymethods]
impl WindowMemory {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

/// Days `(B,)` of days `(B, 1)`, as environments show them; anything else as it is.
pub(super) fn without_unit_axis<'py>(days: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match days.cast::<PyUntypedArray>() {
        Ok(array) if matches!(array.shape(), [_, 1]) => array.call_method1("reshape", (-1,)),
        _ => Ok(days.clone()),
    }
}

/// Tokens of every sample, or some that serve all.
pub(super) struct Tokens {
    list: Vec<i64>,
    per_sample: usize,
    for_all: bool,
}

impl Tokens {
    /// `T`.
    pub(super) fn per_sample(&self) -> usize {
        self.per_sample
    }

    /// `[B, T]` flat.
    pub(super) fn of_samples(self, batch: usize, room: Room) -> Result<Vec<i64>, Failure> {
        if !self.for_all {
            return Ok(self.list);
        }
        let mut all = room.list(batch, self.per_sample)?;
        for _ in 0..batch {
            all.extend_from_slice(&self.list);
        }
        Ok(all)
    }
}

/// Reads `(B, T)`, or `(T,)` for all samples.
pub(super) fn tokens_of(value: &Bound<'_, PyAny>, batch: usize) -> Result<Tokens, Failure> {
    let target = Target { what: "tokens", kind: Kind::Panel, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?.readonly();
    let tokens = array.as_slice().map_err(|error| Failure::new(Kind::Panel, error))?;
    match *array.shape() {
        [per_sample] => Ok(Tokens { list: tokens.to_vec(), per_sample, for_all: true }),
        [samples, per_sample] if samples == batch => {
            Ok(Tokens { list: tokens.to_vec(), per_sample, for_all: false })
        }
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
