//! The `out` argument: an earlier batch, or arrays of the caller's own, to be filled in place.

use std::sync::Arc;

use backcast_core::{Axis, BatchPlan, Memory, View};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::{BatchMemory, insert, memory_of, not_lent};
use crate::coerce::{Tuple, descr};
use crate::error::{Failure, Kind};
use crate::given::shown;
use crate::view::{FreshArray, Lent, NotLent};

/// Memory to fill, reserved, and what it belongs to.
pub(crate) struct Out<'py> {
    into: Bound<'py, PyDict>,
    plan: Arc<BatchPlan>,
    kind: Kinds<'py>,
}

enum Kinds<'py> {
    /// A batch that a sampler made.
    Batch(Bound<'py, BatchMemory>, Lent),
    /// A dictionary: for each arena the caller's array, or a new one for a key that it lacks.
    Arrays(Lent, Vec<Option<FreshArray<'py>>>),
}

impl<'py> Out<'py> {
    /// Check everything about the argument before anything is filled.
    pub(crate) fn of(out: &Bound<'py, PyAny>, plan: &Arc<BatchPlan>) -> Result<Self, Failure> {
        let py = out.py();
        let Ok(into) = out.cast::<PyDict>() else {
            return Err(Failure::new(
                Kind::ArgumentType,
                format!("out is {}; give a Batch, or a dict of arrays", shown(out)),
            ));
        };
        let kind = if let Some(memory) = memory_of(out)? {
            plan.check_memory(memory.get().plan())?;
            let lent = memory.get().lend(py)?;
            Kinds::Batch(memory, lent)
        } else {
            arrays(into, plan)?
        };
        Ok(Self { into: into.clone(), plan: Arc::clone(plan), kind })
    }

    /// What the sampler fills, in the plan's order.
    pub(crate) fn buffers(&mut self) -> Vec<&mut [u8]> {
        match &mut self.kind {
            Kinds::Batch(_, lent) => lent.buffers(),
            Kinds::Arrays(lent, fresh) => {
                let mut lent = lent.buffers().into_iter();
                let fresh = fresh.iter_mut().map(|fresh| fresh.as_mut());
                fresh
                    .filter_map(|fresh| fresh.map(FreshArray::bytes_mut).or_else(|| lent.next()))
                    .collect()
            }
        }
    }

    /// Hand the caller's object back, filled.
    pub(crate) fn finish(self) -> Result<Bound<'py, PyDict>, Failure> {
        match self.kind {
            Kinds::Batch(memory, _) => memory.get().restore(&self.into)?,
            Kinds::Arrays(_, fresh) => {
                for (view, fresh) in self.plan.views().iter().zip(fresh) {
                    if let Some(fresh) = fresh {
                        insert(&self.into, &view.key, fresh.into_array())?;
                    }
                }
            }
        }
        Ok(self.into)
    }
}

fn refuse<T>(message: String) -> Result<T, Failure> {
    Err(Failure::new(Kind::Sample, message))
}

/// The arrays of a dictionary, one for each view of a plan without overlaps.
fn arrays<'py>(into: &Bound<'py, PyDict>, plan: &BatchPlan) -> Result<Kinds<'py>, Failure> {
    if let Some(view) = plan.views().iter().find(|view| view.axis != Axis::Whole) {
        return refuse(format!(
            "out is a dict of separate arrays, but {:?} of this sampler is part of a larger one; \
             make the sampler with copy=True, or give out a Batch that it drew",
            view.key
        ));
    }
    let known: Vec<&str> = plan.views().iter().map(|view| view.key.as_str()).collect();
    check_keys(into, "", &known)?;
    let (mut lent, mut keys, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    for view in plan.views() {
        let arena = &plan.arenas()[view.arena];
        let dtype = descr(into.py(), arena.dtype())?;
        let Some(value) = find(into, &view.key)? else {
            fresh.push(Some(FreshArray::for_filling(into.py(), &dtype, arena.shape())?));
            continue;
        };
        let array = checked(value, view, plan)?;
        lent.push((array, arena.bytes()));
        keys.push(&view.key);
        fresh.push(None);
    }
    let lent = Lent::of(&lent).map_err(|(at, why)| {
        let size = why == NotLent::Size;
        debug_assert!(!size, "dtype and shape were checked");
        not_lent(keys[at], why)
    })?;
    Ok(Kinds::Arrays(lent, fresh))
}

/// The array under a key, of exactly the dtype and shape that the sampler draws.
fn checked<'py>(
    value: Bound<'py, PyAny>,
    view: &View,
    plan: &BatchPlan,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let (key, arena) = (&view.key, &plan.arenas()[view.arena]);
    let dtype = descr(value.py(), arena.dtype())?;
    let array = match value.cast_into::<PyUntypedArray>() {
        Ok(array) => array,
        Err(other) => {
            let class = other.into_inner().get_type().name()?.to_string();
            return refuse(format!(
                "out[{key:?}] is a {class}; give a NumPy array, of a torch tensor tensor.numpy()"
            ));
        }
    };
    if array.shape() == arena.shape() && array.dtype().is_equiv_to(&dtype) {
        return Ok(array);
    }
    refuse(format!(
        "out[{key:?}] is {} {}, this sampler draws {dtype} {}; give an array of that",
        array.dtype(),
        Tuple(array.shape()),
        Tuple(arena.shape())
    ))
}

/// Refuse names that a batch does not have: they are slips, and would stay as they are.
fn check_keys(dict: &Bound<'_, PyDict>, prefix: &str, known: &[&str]) -> Result<(), Failure> {
    for (key, value) in dict {
        let key = format!("{prefix}{}", key.str()?);
        let group = format!("{key}/");
        if known.iter().any(|known| known.starts_with(&group)) {
            let Ok(inner) = value.cast::<PyDict>() else {
                return refuse(format!(
                    "out[{key:?}] is {}; give a dict, as batches have there",
                    shown(&value)
                ));
            };
            check_keys(inner, &group, known)?;
        } else if !known.contains(&key.as_str()) {
            return refuse(format!(
                "out has a key {key:?} that batches of this sampler do not; leave it out, \
                 they have {}",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

fn find<'py>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match key.split_once('/') {
        None => dict.get_item(key),
        Some((group, rest)) => match dict.get_item(group)? {
            Some(inner) => find(inner.cast::<PyDict>()?, rest),
            None => Ok(None),
        },
    }
}
