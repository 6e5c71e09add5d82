//! A sampler's batch as NumPy arrays over the memory that it was drawn into.

use std::sync::Arc;

use backcast_core::{Axis, Batch as CoreBatch, BatchPlan, View};
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice, PyString, PyType};

use crate::coerce::descr;
use crate::error::{Failure, Kind};
use crate::view::{Lent, NotLent, array_over};

/// What a `Batch` was made of, so that it can be filled again.
#[pyclass(module = "backcast._native", name = "BatchMemory", frozen)]
pub(crate) struct BatchMemory {
    plan: Arc<BatchPlan>,
    /// Whole, and writable also where the batch's own views are not.
    arenas: Vec<Py<PyUntypedArray>>,
    /// By key, as the plan has them.
    views: Vec<Py<PyAny>>,
    /// The parts of these keys, as Python has them, once they were asked for.
    keys: PyOnceLock<Vec<Key>>,
}

/// `obs/x` is `x` in what is under `obs`.
struct Key {
    groups: Vec<Py<PyString>>,
    name: Py<PyString>,
}

impl BatchMemory {
    pub(crate) fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// Reserve all of it for filling.
    pub(crate) fn lend(&self, py: Python<'_>) -> Result<Lent, Failure> {
        self.lend_arenas(&self.arenas(py))
    }

    /// The arrays to fill, in the plan's order.
    pub(crate) fn arenas<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyUntypedArray>> {
        self.arenas.iter().map(|arena| arena.bind(py).clone()).collect()
    }

    /// What the batch had under each key when it was new, in the plan's order.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&View, &Py<PyAny>)> {
        self.plan.views().iter().zip(&self.views)
    }

    /// What a batch has under the key of view number `at` now. `no_group` refuses what should be a dict.
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

    /// As [`lend`](Self::lend), with arrays of the caller's in place of some.
    pub(crate) fn lend_arenas(
        &self,
        arenas: &[Bound<'_, PyUntypedArray>],
    ) -> Result<Lent, Failure> {
        let bytes = self.plan.arenas().iter().map(backcast_core::Arena::bytes);
        let arenas: Vec<_> = arenas.iter().cloned().zip(bytes).collect();
        Lent::of(&arenas).map_err(|(at, why)| {
            let view = self.plan.views().iter().find(|view| view.arena == at);
            not_lent(view.map_or("?", |view| &view.key), why)
        })
    }

    /// The batch as it was when it was new; keys that the caller added stay.
    pub(crate) fn restore(&self, batch: &Bound<'_, PyDict>) -> PyResult<()> {
        self.views().try_for_each(|(view, array)| insert(batch, &view.key, array))
    }
}

/// Why an array of this key cannot be filled.
pub(crate) fn not_lent(key: &str, why: NotLent) -> Failure {
    let message = match why {
        NotLent::ReadOnly => "is read-only; give an array that can be written to",
        NotLent::Scattered => {
            "is not C-contiguous; give np.ascontiguousarray of it, or a new array"
        }
        NotLent::Size => "was reshaped or resized since it was drawn; draw a new batch",
        NotLent::Doubled => "shares memory with another of its arrays; give each key its own",
        NotLent::Busy => {
            "is being filled by another call or by an iterator of reused batches; \
             give every thread a batch of its own"
        }
    };
    Failure::new(Kind::Sample, format!("out[{key:?}] {message}"))
}

fn batch_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static BATCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    BATCH.import(py, "backcast._batch", "Batch")
}

/// The batch in Python: every view under its key, nested at each `/`. No copy.
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

/// What a batch that a sampler made was made of; `None` for any other object.
pub(crate) fn memory_of<'py>(out: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, BatchMemory>>> {
    let py = out.py();
    if !out.is_instance(batch_class(py)?)? {
        return Ok(None);
    }
    let memory = out.getattr_opt(intern!(py, "_memory"))?;
    Ok(memory.and_then(|memory| memory.cast_into().ok()))
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
            let inner = into.get_item(group)?.and_then(|inner| inner.cast_into::<PyDict>().ok());
            let inner = if let Some(inner) = inner {
                inner
            } else {
                let inner = PyDict::new(into.py());
                into.set_item(group, &inner)?;
                inner
            };
            insert(&inner, rest, value)
        }
    }
}
