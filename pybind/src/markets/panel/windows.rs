//! Windows of a panel: the calls that cut them, their tickers, and their arrays.

use backcast_core::DType;
use backcast_market::WindowPlan;
use backcast_pybind_macros::exact_arguments;
use numpy::prelude::*;
use numpy::{PyArray3, PyArrayDyn, PyUntypedArray};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyEllipsis, PySlice};

use super::Panel;
use crate::argument::{Argument, count, required};
use crate::array::allocation::Allocator;
use crate::array::convert::{self, ShapeText, Target, array_of, descr};
use crate::array::pool::ArrayPool;
use crate::error::{ErrorClass, Failure};

/// Memory of returned windows, which later windows reuse. Large arrays take longer to map than to
/// fill.
#[pyclass(module = "backcast._native", name = "WindowMemory", frozen)]
#[derive(Default)]
pub(crate) struct WindowMemory(ArrayPool);

#[pymethods]
impl WindowMemory {
    #[new]
    fn new() -> Self {
        Self::default()
    }
}

#[exact_arguments]
#[pymethods]
impl Panel {
    /// Return history and future around days, for some tickers each.
    ///
    /// The day itself lies in neither. Only its open is shown, since nothing else is known when a
    /// decision is made. The call makes one copy per (sample, token), with the interpreter
    /// released. ``history``, ``open`` and ``future`` are views of one array.
    ///
    /// Parameters
    /// ----------
    /// days : array_like of int, shape (B,) or (B, 1)
    ///     Positions in :attr:`dates`; windows may reach beyond the panel's edges, days may not.
    /// tokens : array_like of int, shape (B, T) or (T,)
    ///     Tokens as from :meth:`tokens`; 0 is cash, which has no market. One axis serves every
    ///     sample.
    /// history : int
    ///     Days before, ``H``.
    /// future : int
    ///     Days after, ``F``.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``history`` float32 ``[B, T, H, C]`` of day-H to day-1, ``history_mask`` bool
    ///     ``[B, T, H]``, ``open`` float32 ``[B, T]``, ``listed`` bool ``[B, T]``, ``future``
    ///     float32 ``[B, T, F, C]`` of day+1 to day+F, ``future_mask`` bool ``[B, T, F]``. Zeros
    ///     where a mask is False.
    ///
    /// Raises
    /// ------
    /// PanelError
    ///     If a day or token is outside the panel, shapes do not fit, or the window is longer than
    ///     :attr:`longest_window`.
    /// ClosedError
    ///     If the panel was closed.
    #[pyo3(signature = (
        days=None, tokens=None, history=Argument::Missing, future=Argument::Missing
    ))]
    #[pyo3(text_signature = "($self, days, tokens, history, future)")]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python call")]
    fn windows<'py>(
        &self,
        py: Python<'py>,
        days: Option<&Bound<'py, PyAny>>,
        tokens: Option<&Bound<'py, PyAny>>,
        history: Argument<i128>,
        future: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let days = required(days, "days", "positions in the panel's dates, (B,)")?;
        let tokens = required(tokens, "tokens", "what tokens() returned, (B, T) or (T,)")?;
        self.cut(py, (days, tokens), (history, future), &ArrayPool::default())
    }

    /// Return the same as ``windows``, in the memory of an earlier result that nothing refers to.
    ///
    /// Parameters
    /// ----------
    /// memory : WindowMemory
    ///     Memory of earlier calls.
    /// days, tokens, history, future
    ///     See ``windows``.
    fn _windows_in<'py>(
        &self,
        py: Python<'py>,
        memory: &Bound<'py, WindowMemory>,
        days: &Bound<'py, PyAny>,
        tokens: &Bound<'py, PyAny>,
        history: Argument<i128>,
        future: Argument<i128>,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        self.cut(py, (days, tokens), (history, future), &memory.get().0)
    }
}

impl Panel {
    /// Copies windows of the panel into an array of the pool, or a new one.
    fn cut<'py>(
        &self,
        py: Python<'py>,
        (days, tokens): (&Bound<'py, PyAny>, &Bound<'py, PyAny>),
        (history, future): (Argument<i128>, Argument<i128>),
        pool: &ArrayPool,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let panel = self.get()?;
        // Environments have the day as `(B, 1)`.
        let days = without_unit_axis(days)?;
        let days = convert::int64s(&days, "days", ErrorClass::Panel)?;
        let tokens = tokens_of(tokens, days.len())?;
        let history = count(history, "history", 0, ErrorClass::Panel)? as usize;
        let future = count(future, "future", 0, ErrorClass::Panel)? as usize;
        let per_sample = tokens.per_sample();
        let plan = panel.window_shape(days.len(), per_sample, history, future)?;

        // The arena is the largest array. If there is memory for it, there is memory for the
        // others.
        let allocator =
            Allocator { class: ErrorClass::Panel, remedy: "ask for shorter windows or fewer days" };
        let (dtype, shape) = (DType::F32, plan.arena_shape());
        let arena = pool.take().take_or_new(0, &descr(py, dtype)?, &shape);
        let mut arena = arena.map_err(|error| allocator.array_failure(py, error, dtype, &shape))?;
        let mask = PyArray3::<bool>::zeros(py, plan.mask_shape(), false);
        let tokens = tokens.of_samples(days.len(), allocator)?;
        {
            let floats = bytemuck::try_cast_slice_mut(arena.bytes_mut())
                .map_err(|error| Failure::new(ErrorClass::Panel, error))?;
            let mut flags = mask.readwrite();
            let flags =
                flags.as_slice_mut().map_err(|error| Failure::new(ErrorClass::Panel, error))?;
            py.detach(|| {
                panel.windows_into(&days, &tokens, per_sample, history, future, floats, flags)
            })?;
        }
        let arena = arena.into_array();
        pool.keep([&arena]);
        Ok(views(&arena, &mask, &plan, history)?)
    }
}

/// Reshapes days `(B, 1)`, as environments show them, to `(B,)`. Returns anything else as it is.
fn without_unit_axis<'py>(days: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match days.cast::<PyUntypedArray>() {
        Ok(array) if matches!(array.shape(), [_, 1]) => array.call_method1("reshape", (-1,)),
        _ => Ok(days.clone()),
    }
}

/// Tokens per sample, or one list for all samples.
struct Tokens {
    list: Vec<i64>,
    per_sample: usize,
    for_all: bool,
}

impl Tokens {
    /// Returns the number of tokens per sample, `T`.
    fn per_sample(&self) -> usize {
        self.per_sample
    }

    /// Returns the tokens `[B, T]` in C order.
    fn of_samples(self, batch: usize, allocator: Allocator) -> Result<Vec<i64>, Failure> {
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
fn tokens_of(value: &Bound<'_, PyAny>, batch: usize) -> Result<Tokens, Failure> {
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
fn views<'py>(
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
