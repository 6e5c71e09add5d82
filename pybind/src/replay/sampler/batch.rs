//! Batches of a sampler as NumPy arrays over the memory that they were drawn into.

use std::sync::Arc;

use backcast_core::{Axis, Batch as CoreBatch, BatchPlan, View};
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice, PyString, PyType};

use crate::array::convert::descr;
use crate::array::nested::insert;
use crate::array::view::{LentArrays, array_over, lend_failure};
use crate::error::Failure;

/// Memory of a `Batch`, so that it can be filled again.
#[pyclass(module = "backcast._native", name = "BatchMemory", frozen)]
pub(crate) struct BatchMemory {
    plan: Arc<BatchPlan>,
    /// Whole arenas, writable even if the batch's views are not.
    arenas: Vec<Py<PyUntypedArray>>,
    /// Views by key, in the plan's order.
    views: Vec<Py<PyAny>>,
    /// Parts of the keys as Python strings, which the first use makes.
    keys: PyOnceLock<Vec<Key>>,
}

/// Key of a view: `obs/x` is `x` in the group `obs`.
struct Key {
    groups: Vec<Py<PyString>>,
    name: Py<PyString>,
}

impl BatchMemory {
    pub(crate) fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// Claims all arenas for filling.
    pub(crate) fn lend(&self, py: Python<'_>) -> Result<LentArrays, Failure> {
        self.lend_arenas(&self.arenas(py))
    }

    /// Returns the arrays to fill, in the plan's order.
    pub(crate) fn arenas<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyUntypedArray>> {
        self.arenas.iter().map(|arena| arena.bind(py).clone()).collect()
    }

    /// Returns the original array of each key, in the plan's order.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&View, &Py<PyAny>)> {
        self.plan.views().iter().zip(&self.views)
    }

    /// Returns the object that a batch now has under the key of view `at`, or `None` without one.
    /// Calls `no_group` with an object that should be a dict.
    pub(crate) fn find<'py>(
        &self,
        batch: &Bound<'py, PyDict>,
        at: usize,
        no_group: impl FnOnce(&str, &Bound<'py, PyAny>) -> Result<(), Failure>,
    ) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let py = batch.py();
        let Key { groups, name } = &self.keys.get_or_init(py, || self.keys(py))[at];
        let mut inner = batch.clone();
        for group in groups {
            let Some(found) = inner.get_item(group.bind(py))? else { return Ok(None) };
            inner = match found.cast_into::<PyDict>() {
                Ok(dict) => dict,
                Err(other) => {
                    no_group(group.bind(py).to_str()?, &other.into_inner())?;
                    return Ok(None);
                }
            };
        }
        Ok(inner.get_item(name.bind(py))?)
    }

    fn keys(&self, py: Python<'_>) -> Vec<Key> {
        let part = |part: &str| PyString::intern(py, part).unbind();
        let key = |view: &View| {
            let (groups, name) = view.key.rsplit_once('/').unwrap_or(("", &view.key));
            let groups = groups.split('/').filter(|group| !group.is_empty());
            Key { groups: groups.map(part).collect(), name: part(name) }
        };
        self.plan.views().iter().map(key).collect()
    }

    /// Claims `arenas` for filling. Some may be arrays of the caller.
    pub(crate) fn lend_arenas(
        &self,
        arenas: &[Bound<'_, PyUntypedArray>],
    ) -> Result<LentArrays, Failure> {
        let bytes = self.plan.arenas().iter().map(backcast_core::Arena::bytes);
        let arenas: Vec<_> = arenas.iter().cloned().zip(bytes).collect();
        LentArrays::of(&arenas).map_err(|(at, why)| {
            let view = self.plan.views().iter().find(|view| view.arena == at);
            lend_failure(view.map_or("?", |view| &view.key), why)
        })
    }

    /// Restores the original arrays of a batch. Keys that the caller added stay.
    pub(crate) fn restore(&self, batch: &Bound<'_, PyDict>) -> PyResult<()> {
        self.views().try_for_each(|(view, array)| insert(batch, &view.key, array))
    }
}

fn batch_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static BATCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    BATCH.import(py, "backcast._batch", "Batch")
}

/// Converts a batch to Python without a copy: every view under its key, nested at each `/`.
pub(crate) fn to_python(py: Python<'_>, batch: CoreBatch) -> PyResult<Bound<'_, PyDict>> {
    let (plan, blocks) = batch.into_blocks();
    let arenas = plan
        .arenas()
        .iter()
        .zip(blocks)
        .map(|(arena, block)| array_over(py, block, &descr(py, arena.dtype())?, arena.shape()));
    let arenas: Vec<_> = arenas.collect::<PyResult<_>>()?;
    let views = plan.views().iter().map(|view| Ok(view_of(&arenas[view.arena], view)?.unbind()));
    let views = views.collect::<PyResult<_>>()?;
    let arenas = arenas.into_iter().map(Bound::unbind).collect();
    let memory = BatchMemory { plan, arenas, views, keys: PyOnceLock::new() };
    let batch = batch_class(py)?.call0()?.cast_into::<PyDict>()?;
    memory.restore(&batch)?;
    batch.as_any().setattr(intern!(py, "_memory"), Py::new(py, memory)?)?;
    Ok(batch)
}

/// Returns the memory of a batch that a sampler made, or `None` for an object without one.
pub(crate) fn memory_of<'py>(out: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, BatchMemory>>> {
    let py = out.py();
    if !out.is_instance(batch_class(py)?)? {
        return Ok(None);
    }
    let memory = out.getattr_opt(intern!(py, "_memory"))?;
    Ok(memory.and_then(|memory| memory.cast_into().ok()))
}

/// Returns the view of an arena for a key, read-only if views of other keys overlap it.
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
