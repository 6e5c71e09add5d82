//! Windows of a panel: reads their tickers, and makes their arrays.

use backcast_core::DType;
use backcast_market::WindowPlan;
use numpy::prelude::*;
use numpy::{PyArray3, PyArrayDyn, PyUntypedArray};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyEllipsis, PySlice};

use crate::array::allocation::Allocator;
use crate::array::convert::{ShapeText, Target, array_of};
use crate::array::pool::ArrayPool;
use crate::error::{ErrorClass, Failure};

/// Memory of returned windows, which later windows reuse. Large arrays take longer to map than to
/// fill.
#[pyclass(module = "backcast._native", name = "WindowMemory", frozen)]
#[derive(Default)]
pub(crate) struct WindowMemory(pub(super) ArrayPool);

#[pymethods]
impl WindowMemory {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

/// Reshapes days `(B, 1)`, as environments show them, to `(B,)`. Returns anything else as it is.
pub(super) fn without_unit_axis<'py>(days: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match days.cast::<PyUntypedArray>() {
        Ok(array) if matches!(array.shape(), [_, 1]) => array.call_method1("reshape", (-1,)),
        _ => Ok(days.clone()),
    }
}

/// Tokens per sample, or one list for all samples.
pub(super) struct Tokens {
    list: Vec<i64>,
    per_sample: usize,
    for_all: bool,
}

impl Tokens {
    /// Returns the number of tokens per sample, `T`.
    pub(super) fn per_sample(&self) -> usize {
        self.per_sample
    }

    /// Returns the tokens `[B, T]` in C order.
    pub(super) fn of_samples(
        self,
        batch: usize,
        allocator: Allocator,
    ) -> Result<Vec<i64>, Failure> {
        if !self.for_all {
            return Ok(self.list);
        }
        let mut all = allocator.list(batch, self.per_sample)?;
        for _ in 0..batch {
            all.extend_from_slice(&self.list);
        }
        Ok(all)
    }
}

/// Reads tokens `(B, T)`, or `(T,)` for all samples.
pub(super) fn tokens_of(value: &Bound<'_, PyAny>, batch: usize) -> Result<Tokens, Failure> {
    let target = Target { what: "tokens", class: ErrorClass::Panel, dtype: DType::I64 };
    let array = array_of(value, target)?;
    let array = array.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?.readonly();
    let tokens = array.as_slice().map_err(|error| Failure::new(ErrorClass::Panel, error))?;
    match *array.shape() {
        [per_sample] => Ok(Tokens { list: tokens.to_vec(), per_sample, for_all: true }),
        [samples, per_sample] if samples == batch => {
            Ok(Tokens { list: tokens.to_vec(), per_sample, for_all: false })
        }
        _ => Err(Failure::new(
            ErrorClass::Panel,
            format!(
                "tokens: got shape {}; give ({batch}, T) for {batch} days, or (T,)",
                ShapeText(array.shape())
            ),
        )),
    }
}

/// Returns views of an arena `[B, T, H + 1 + F, C]` and of its mask, by name.
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
