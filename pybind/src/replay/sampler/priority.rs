//! Priorities of a sampler, and how a learner sets them.

use backcast_core::{
    Alpha, Beta, DType, Priorities, PriorityOptions, PriorityOrder, Ring, sequence_priorities,
};
use numpy::PyArrayDyn;
use numpy::prelude::*;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString, PyTuple};

use crate::argument::{Argument, FromArgument, seconds_of, whole, wrong_type};
use crate::array::convert::{self, Target, array_of};
use crate::error::{ErrorClass, Failure};
use crate::handle::Handle;

/// Default share of the maximum in the priority of a window (R2D2's eta).
const ETA: f64 = 0.9;

/// Settings of the priorities that a selector draws by.
pub(crate) struct PrioritySettings {
    pub(crate) options: PriorityOptions,
    /// Function that gives beta for the number of the batch.
    pub(super) schedule: Option<Py<PyAny>>,
}

/// Reads `beta`: a number, or a pair of a number and the batches until it is 1. Returns `None` for
/// a function.
pub(super) fn beta_of(beta: &Bound<'_, PyAny>) -> Result<Option<Beta>, Failure> {
    const WANTED: &str = "a number from 0 to 1, a pair (first, batches) that grows to 1, or a \
                          function of the number of the batch";
    if let Some(beta) = f64::read(beta.as_borrowed())? {
        return Ok(Some(Beta::Constant(beta)));
    }
    if beta.is_callable() {
        return Ok(None);
    }
    let pair = beta.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
    let Some(pair) = pair else { return Err(wrong_type(beta, "beta", WANTED)) };
    let (from, batches) = (pair.get_item(0)?, pair.get_item(1)?);
    let Some(from) = f64::read(from.as_borrowed())? else {
        return Err(wrong_type(&from, "beta[0]", "a number from 0 to 1"));
    };
    let batches = batches_of(&batches, "beta[1]")?;
    Ok(Some(Beta::Annealed { from, batches }))
}

/// Word for the exponent that the table has.
const TABLE: &str = "table";

/// Reads `alpha`: a number, or with `changes` also `"table"`, or a first and a last number and the
/// batches between them.
pub(super) fn alpha_of(alpha: &Bound<'_, PyAny>, changes: bool) -> Result<Alpha, Failure> {
    let wanted = if changes {
        "a number from 0 up, a triple (first, last, batches), or \"table\" for that of the table"
    } else {
        "a number from 0 up"
    };
    if let Some(alpha) = f64::read(alpha.as_borrowed())? {
        return Ok(Alpha::Constant(alpha));
    }
    if changes && alpha.cast::<PyString>().is_ok_and(|word| word == TABLE) {
        return Ok(Alpha::Table);
    }
    let triple = alpha.cast::<PyTuple>().ok().filter(|triple| changes && triple.len() == 3);
    let Some(triple) = triple else { return Err(wrong_type(alpha, "alpha", wanted)) };
    let number = |place: usize, what| {
        let given = triple.get_item(place)?;
        let read = f64::read(given.as_borrowed())?;
        read.ok_or_else(|| wrong_type(&given, what, "a number from 0 up"))
    };
    let (first, last) = (number(0, "alpha[0]")?, number(1, "alpha[1]")?);
    let batches = batches_of(&triple.get_item(2)?, "alpha[2]")?;
    Ok(Alpha::Annealed { first, last, batches })
}

/// Returns alpha as Python gives it.
pub(super) fn alpha_as_object(py: Python<'_>, alpha: Alpha) -> PyResult<Bound<'_, PyAny>> {
    match alpha {
        Alpha::Constant(alpha) => alpha.into_bound_py_any(py),
        Alpha::Annealed { first, last, batches } => (first, last, batches).into_bound_py_any(py),
        Alpha::Table => TABLE.into_bound_py_any(py),
    }
}

/// Reads a number of batches of a schedule.
fn batches_of(given: &Bound<'_, PyAny>, what: &'static str) -> Result<u64, Failure> {
    let Some(batches) = i128::read(given.as_borrowed())? else {
        return Err(wrong_type(given, what, "a number of batches"));
    };
    let wanted = "a whole number of batches, at least 1";
    whole(Argument::Value(batches), what, wanted, ErrorClass::Sample)
}

/// Priorities of a sampler, in a handle of their own: they can be set while the sampler draws
/// ahead.
pub(super) struct SamplerPriorities {
    pub(super) options: PriorityOptions,
    pub(super) schedule: Option<Py<PyAny>>,
    handle: Handle<Priorities>,
}

/// Arguments of `update_priorities`.
pub(super) struct Updated<'a, 'py> {
    pub(super) index: &'a Bound<'py, PyAny>,
    pub(super) priority: &'a Bound<'py, PyAny>,
    pub(super) mask: Option<&'a Bound<'py, PyAny>>,
    pub(super) eta: Option<Argument<f64>>,
    pub(super) timeout: Argument<f64>,
}

impl SamplerPriorities {
    pub(super) fn open(
        ring: &Ring,
        label: String,
        settings: PrioritySettings,
    ) -> Result<Self, Failure> {
        let PrioritySettings { options, schedule } = settings;
        let priorities = ring.priorities(&options)?;
        let handle = Handle::new(label, "call `sampler` again for another", priorities);
        Ok(Self { options, schedule, handle })
    }

    /// Returns beta as Python gave it.
    pub(super) fn beta_of<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.options.beta {
            Beta::Constant(beta) => Some(beta.into_pyobject(py)?.into_any()),
            Beta::Annealed { from, batches } => Some((from, batches).into_pyobject(py)?.into_any()),
            Beta::Function => self.schedule.as_ref().map(|of| of.bind(py).clone()),
        })
    }

    /// Sets priorities, with the interpreter released while the table is locked. Returns how many
    /// were dropped.
    pub(super) fn update(&self, py: Python<'_>, given: Updated<'_, '_>) -> Result<u64, Failure> {
        let timeout = seconds_of("timeout", given.timeout)?;
        let index = convert::row_indices(given.index)?;
        let target = Target { what: "priority", class: ErrorClass::Sample, dtype: DType::F64 };
        let values = array_of(given.priority, target)?;
        let values = values.cast::<PyArrayDyn<f64>>().map_err(PyErr::from)?;
        let shape = values.shape().to_vec();
        let values = values.readonly().as_slice().map_err(|error| target.refuse(error))?.to_vec();
        let values = match shape.as_slice() {
            [_, steps] => windows(&values, *steps, given.mask, given.eta)?,
            _ if given.mask.is_some() || given.eta.is_some() => {
                let other = if given.mask.is_some() { "mask" } else { "eta" };
                return Err(target.refuse(format!(
                    "has shape {shape:?}, and {other} is for windows; give TD errors of shape \
                     [B, H], or leave {other} out"
                )));
            }
            _ => values,
        };
        py.detach(|| {
            self.handle.with(|priorities| Ok(priorities.update_within(&index, &values, timeout)?))
        })
    }

    /// Returns the exponent: by rank that of the sampler's next batch, whose number `next_batch`
    /// returns, else the one that the table has now.
    pub(super) fn alpha(
        &self,
        next_batch: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<f64, Failure> {
        if self.options.by == PriorityOrder::Rank {
            let next = next_batch()?;
            let alpha = match self.options.alpha {
                Alpha::Constant(alpha) => Some(alpha),
                alpha => alpha.at(next),
            };
            if let Some(alpha) = alpha {
                return Ok(alpha);
            }
        }
        self.handle.with(|priorities| Ok(priorities.alpha()))
    }

    /// Changes the exponent of the table.
    pub(super) fn set_alpha(&self, py: Python<'_>, alpha: f64) -> Result<(), Failure> {
        py.detach(|| self.handle.with(|priorities| Ok(priorities.set_alpha(alpha)?)))
    }

    /// Raises the mass with which new rows enter.
    pub(super) fn raise_largest(&self, py: Python<'_>, q: f64) -> Result<(), Failure> {
        py.detach(|| self.handle.with(|priorities| Ok(priorities.raise_largest(q)?)))
    }

    /// Closes the table.
    pub(super) fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        drop(py.detach(|| self.handle.take())?);
        Ok(())
    }
}

/// Returns the priority of each window: a mix of the maximum and the mean of its TD errors.
fn windows(
    values: &[f64],
    steps: usize,
    mask: Option<&Bound<'_, PyAny>>,
    eta: Option<Argument<f64>>,
) -> Result<Vec<f64>, Failure> {
    let eta = eta.map_or(Ok(ETA), |eta| eta.get("eta", "a number from 0 to 1"))?;
    let mask = mask.map(|mask| -> Result<Vec<bool>, Failure> {
        let target = Target { what: "mask", class: ErrorClass::Sample, dtype: DType::Bool };
        let mask = array_of(mask, target)?;
        let mask = mask.cast::<PyArrayDyn<bool>>().map_err(PyErr::from)?;
        Ok(mask.readonly().as_slice().map_err(|error| target.refuse(error))?.to_vec())
    });
    let mask = mask.transpose()?;
    Ok(sequence_priorities(values, steps, mask.as_deref(), eta)?)
}

/// Returns the number that a schedule gives for a batch.
pub(super) fn scheduled(schedule: &Bound<'_, PyAny>, batch: u64) -> Result<f64, Failure> {
    let beta = schedule.call1((batch,))?;
    match f64::read(beta.as_borrowed())? {
        Some(beta) => Ok(beta),
        None => Err(wrong_type(&beta, "what the function beta returned", "a number from 0 to 1")),
    }
}
