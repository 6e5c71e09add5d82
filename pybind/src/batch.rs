//! A sampler's batch as NumPy arrays: allocate what the plan says, fill it, hand out views.

use backcast_core::{Axis, BatchPlan, View};
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice, PyType};

use crate::coerce::descr;
use crate::view::FreshArray;

/// The arenas of one batch, before anybody else sees them.
pub(crate) struct Arenas<'py>(Vec<FreshArray<'py>>);

impl<'py> Arenas<'py> {
    /// Memory for every arena. The sampler writes all of it, masked places included.
    pub(crate) fn of(py: Python<'py>, plan: &BatchPlan) -> PyResult<Self> {
        plan.arenas()
            .iter()
            .map(|arena| FreshArray::for_filling(py, &descr(py, arena.dtype())?, arena.shape()))
            .collect::<PyResult<Vec<_>>>()
            .map(Self)
    }

    /// What the sampler fills, in the plan's order.
    pub(crate) fn bytes_mut(&mut self) -> Vec<&mut [u8]> {
        self.0.iter_mut().map(FreshArray::bytes_mut).collect()
    }

    /// The batch: every view under its key, nested at each `/`.
    pub(crate) fn into_batch(
        self,
        py: Python<'py>,
        plan: &BatchPlan,
    ) -> PyResult<Bound<'py, PyDict>> {
        static BATCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let batch = BATCH.import(py, "backcast._batch", "Batch")?.call0()?.cast_into::<PyDict>()?;
        let arenas: Vec<_> = self.0.into_iter().map(FreshArray::into_array).collect();
        for view in plan.views() {
            let array = view_of(&arenas[view.arena], view)?;
            insert(&batch, &view.key, array)?;
        }
        Ok(batch)
    }
}

/// The slice of an arena that a key names; read-only where another key names some of it too.
fn view_of<'py>(arena: &Bound<'py, PyUntypedArray>, view: &View) -> PyResult<Bound<'py, PyAny>> {
    let py = arena.py();
    let all = PySlice::full(py);
    let array = match view.axis {
        Axis::Window { start, len } => {
            let (start, end) = (isize::try_from(start)?, isize::try_from(start + len)?);
            arena.get_item((all, PySlice::new(py, start, end, 1)))?
        }
        Axis::At(place) => arena.get_item((all, place))?,
        Axis::Whole => arena.as_any().clone(),
    };
    if view.shared {
        array.getattr(intern!(py, "setflags"))?.call1((false,))?;
    }
    Ok(array)
}

/// Put a value under a name such as `obs/image`, making dictionaries on the way.
pub(crate) fn insert<'py>(
    into: &Bound<'py, PyDict>,
    name: &str,
    value: impl IntoPyObject<'py>,
) -> PyResult<()> {
    match name.split_once('/') {
        None => into.set_item(name, value),
        Some((group, rest)) => {
            let inner = if let Some(inner) = into.get_item(group)? {
                inner.cast_into::<PyDict>()?
            } else {
                let inner = PyDict::new(into.py());
                into.set_item(group, &inner)?;
                inner
            };
            insert(&inner, rest, value)
        }
    }
}
