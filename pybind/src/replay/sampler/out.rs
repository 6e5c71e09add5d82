//! The `out` argument: an earlier batch or arrays of the caller, filled in place.

use std::sync::Arc;

use backcast_core::{Axis, BatchBuffers, BatchPlan, DType, View};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::{shown, text_of, wrong_type};
use crate::array::convert::{ShapeText, descr, is_masked, is_of};
use crate::array::nested::insert;
use crate::array::view::{FreshArray, LendError, LentArrays, lend_failure};
use crate::error::{ErrorClass, Failure};
use crate::replay::sampler::batch::{BatchMemory, memory_of};

/// Entry that gathering with `missing="mask"` adds to a batch. It is no part of the plan.
pub(super) const FOUND: &str = "found";

/// Memory claimed for filling, and the object that it belongs to.
pub(crate) struct Out<'py> {
    into: Bound<'py, PyDict>,
    plan: Arc<BatchPlan>,
    kind: Kinds<'py>,
}

enum Kinds<'py> {
    /// Batch of a sampler, its memory, and the views that the caller removed.
    Batch(Bound<'py, BatchMemory>, LentArrays, Vec<usize>),
    /// Dict: for each arena the caller's array, or a new one for a missing key.
    Arrays(LentArrays, Vec<Option<FreshArray<'py>>>),
}

impl<'py> Out<'py> {
    /// Checks the whole argument before anything is written.
    pub(crate) fn of(out: &Bound<'py, PyAny>, plan: &Arc<BatchPlan>) -> Result<Self, Failure> {
        let Ok(into) = out.cast::<PyDict>() else {
            return Err(wrong_type(out, "out", "a Batch, or a dict of arrays"));
        };
        let kind = if let Some(memory) = memory_of(out)? {
            plan.check_memory(memory.get().plan())?;
            batch(into, memory, plan)?
        } else {
            arrays(into, plan)?
        };
        Ok(Self { into: into.clone(), plan: Arc::clone(plan), kind })
    }

    /// Returns the buffers to fill, in the plan's order.
    pub(crate) fn buffers(&mut self) -> Vec<&mut [u8]> {
        match &mut self.kind {
            Kinds::Batch(_, lent, _) => lent.buffers(),
            Kinds::Arrays(lent, fresh) => {
                let mut lent = lent.buffers().into_iter();
                let fresh = fresh.iter_mut().map(|fresh| fresh.as_mut());
                fresh
                    .filter_map(|fresh| fresh.map(FreshArray::bytes_mut).or_else(|| lent.next()))
                    .collect()
            }
        }
    }

    /// Returns the caller's object, filled, without the entry `found` of an earlier gathering.
    pub(crate) fn finish(self) -> Result<Bound<'py, PyDict>, Failure> {
        let found = intern!(self.into.py(), FOUND);
        let is_found = |key: &str| key.split('/').next() == Some(FOUND);
        let drawn = || self.plan.views().iter().any(|view| is_found(&view.key));
        if self.into.contains(found)? && !drawn() {
            self.into.del_item(found)?;
        }
        match self.kind {
            Kinds::Batch(memory, _, gone) => {
                let views = memory.get().views().enumerate();
                for (_, (view, array)) in views.filter(|(at, _)| gone.contains(at)) {
                    insert(&self.into, &view.key, array)?;
                }
            }
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

/// Claims the arrays of a dict that has all keys, for an iterator that fills it.
pub(super) fn lend_all(into: &Bound<'_, PyDict>, plan: &BatchPlan) -> Result<LentArrays, Failure> {
    match arrays(into, plan)? {
        Kinds::Arrays(lent, fresh) if fresh.iter().all(Option::is_none) => Ok(lent),
        _ => refuse("memory of batches lacks a key that they have; give every key".to_owned()),
    }
}

fn refuse<T>(message: String) -> Result<T, Failure> {
    Err(Failure::new(ErrorClass::Sample, message))
}

/// Claims the memory of a batch that a sampler made. An array of the caller that replaces a whole
/// arena is filled instead; added keys stay as they are.
fn batch<'py>(
    into: &Bound<'py, PyDict>,
    memory: Bound<'py, BatchMemory>,
    plan: &BatchPlan,
) -> Result<Kinds<'py>, Failure> {
    let mut arenas = memory.get().arenas(into.py());
    let mut gone = Vec::new();
    for (at, (view, own)) in memory.get().views().enumerate() {
        let found = memory.get().find(into, at, |key, value| no_group(key, value))?;
        let alone = || plan.views().iter().filter(|other| other.arena == view.arena).count() == 1;
        match found {
            None => gone.push(at),
            Some(found) if found.is(own) => as_drawn(&found, view, plan)?,
            Some(found) => {
                if view.axis != Axis::Whole || !alone() {
                    return refuse(format!(
                        "out[{:?}] is not the array that the batch was drawn with, which is part \
                         of a larger one; put that back, leave the key out, or make the sampler \
                         with copy=True",
                        view.key
                    ));
                }
                arenas[view.arena] = checked(found, view, plan)?;
            }
        }
    }
    let lent = memory.get().lend_arenas(&arenas)?;
    Ok(Kinds::Batch(memory, lent, gone))
}

/// Refuses an array of a batch whose shape or dtype was changed in place.
fn as_drawn(own: &Bound<'_, PyAny>, view: &View, plan: &BatchPlan) -> Result<(), Failure> {
    let arena = &plan.arenas()[view.arena];
    let array = own.cast::<PyUntypedArray>().map_err(PyErr::from)?;
    let fits = match (view.axis, array.shape(), arena.shape()) {
        (Axis::Whole, have, whole) => have == whole,
        (Axis::Window { len, .. }, [rows, window, have @ ..], [all, _, each @ ..]) => {
            (rows, *window, have) == (all, len, each)
        }
        (Axis::At(_), [rows, have @ ..], [all, _, each @ ..]) => (rows, have) == (all, each),
        _ => false,
    };
    if fits && is_of(&array.dtype(), arena.dtype())? {
        return Ok(());
    }
    refuse(format!(
        "out[{:?}] is {} {} now, which it was not when it was drawn; undo that, or draw a new \
         batch",
        view.key,
        array.dtype(),
        ShapeText(array.shape())
    ))
}

/// Claims the arrays of a dict, and allocates one for each missing key. Refuses a plan with a view
/// that is part of a larger array.
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
            fresh.push(Some(FreshArray::allocate(into.py(), &dtype, arena.shape())?));
            continue;
        };
        let array = checked(value, view, plan)?;
        lent.push((array, arena.bytes()));
        keys.push(&view.key);
        fresh.push(None);
    }
    let lent = LentArrays::of(&lent).map_err(|(at, why)| {
        let size = why == LendError::Size;
        debug_assert!(!size, "dtype and shape were checked");
        lend_failure(keys[at], why)
    })?;
    Ok(Kinds::Arrays(lent, fresh))
}

/// Returns the array of a key if it has exactly the dtype and shape that the sampler draws.
fn checked<'py>(
    value: Bound<'py, PyAny>,
    view: &View,
    plan: &BatchPlan,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let (key, arena) = (&view.key, &plan.arenas()[view.arena]);
    if is_masked(&value)? {
        return refuse(format!(
            "out[{key:?}] is a masked array, whose mask would hide what is drawn; give a plain \
             array, such as its .data"
        ));
    }
    let array = match value.cast_into::<PyUntypedArray>() {
        Ok(array) => array,
        Err(other) => {
            let class = other.into_inner().get_type();
            let class = text_of(class.name()?.as_any())?;
            return refuse(format!(
                "out[{key:?}] is a {class}; give a NumPy array, of a torch tensor tensor.numpy()"
            ));
        }
    };
    if array.shape() == arena.shape() && is_of(&array.dtype(), arena.dtype())? {
        return Ok(array);
    }
    refuse(format!(
        "out[{key:?}] is {} {}, this sampler draws {} {}; give an array of that",
        array.dtype(),
        ShapeText(array.shape()),
        drawn_in_words(arena.dtype()),
        ShapeText(arena.shape())
    ))
}

/// Names a dtype as NumPy does. For bfloat16, adds the dtype of arrays without `ml_dtypes`.
fn drawn_in_words(dtype: DType) -> &'static str {
    if dtype == DType::BF16 { "bfloat16 (its bits as uint16 will do)" } else { dtype.name() }
}

/// Refuses keys that a batch does not have: they are probably mistakes and would never be filled.
fn check_keys(dict: &Bound<'_, PyDict>, prefix: &str, known: &[&str]) -> Result<(), Failure> {
    for (key, value) in dict {
        let key = format!("{prefix}{}", text_of(&key)?);
        let group = format!("{key}/");
        if known.iter().any(|known| known.starts_with(&group)) {
            let Ok(inner) = value.cast::<PyDict>() else {
                return no_group(&key, &value);
            };
            check_keys(inner, &group, known)?;
        } else if key != FOUND && !known.contains(&key.as_str()) {
            return refuse(format!(
                "out has a key {key:?} that batches of this sampler do not; leave it out, \
                 they have {}",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

fn find<'py>(dict: &Bound<'py, PyDict>, key: &str) -> Result<Option<Bound<'py, PyAny>>, Failure> {
    let Some((group, rest)) = key.split_once('/') else { return Ok(dict.get_item(key)?) };
    let Some(inner) = dict.get_item(group)? else { return Ok(None) };
    match inner.cast::<PyDict>() {
        Ok(inner) => find(inner, rest),
        Err(_) => no_group(group, &inner),
    }
}

fn no_group<T>(key: &str, value: &Bound<'_, PyAny>) -> Result<T, Failure> {
    let shown = shown(value)?;
    refuse(format!("out[{key:?}] is {shown}; give a dict, as batches have there"))
}
