//! Options of a reset: start days and mask.

use backcast_core::DType;
use backcast_market::Panel;
use numpy::PyArrayDyn;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::wrong_type;
use crate::error::{ErrorClass, Failure};
use crate::markets::contract::reset::{mask_of, per_env};
use crate::markets::portfolio::settings::first_day_of;

/// Start days and mask of a reset.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) day: Option<Vec<usize>>,
    pub(crate) mask: Option<Vec<bool>>,
}

/// Reads the `options` of a reset.
pub(crate) fn start_of(
    options: &Bound<'_, PyAny>,
    num_envs: Option<usize>,
    panel: &Panel,
) -> Result<Start, Failure> {
    let mut start = Start::default();
    let options = options.cast::<PyDict>().map_err(|_| {
        let wanted = "a dict, {\"start_day\": 5}, or None";
        wrong_type(options, "options", wanted)
    })?;
    for (key, value) in options {
        match (key.extract::<&str>(), num_envs) {
            (Ok("start_day"), _) => start.day = Some(days_of(&value, num_envs, panel)?),
            (Ok("reset_mask"), Some(num_envs)) => start.mask = Some(mask_of(&value, num_envs)?),
            _ => {
                let known = if num_envs.is_some() {
                    "\"start_day\" and \"reset_mask\""
                } else {
                    "\"start_day\""
                };
                let key = key.repr()?;
                return Err(Failure::new(
                    ErrorClass::Env,
                    format!("options has {key}; reset knows {known}"),
                ));
            }
        }
    }
    Ok(start)
}

fn days_of(
    value: &Bound<'_, PyAny>,
    num_envs: Option<usize>,
    panel: &Panel,
) -> Result<Vec<usize>, Failure> {
    let count = num_envs.unwrap_or(1);
    let positions = positions_of(value, panel)?;
    let value = positions.as_ref().unwrap_or(value);
    let days = per_env(value, count, "start_day", DType::I64)?;
    let days = days.cast::<PyArrayDyn<i64>>().map_err(PyErr::from)?.readonly();
    let days = days.as_slice().map_err(|error| Failure::new(ErrorClass::Env, error))?;
    let days = if let [only] = days { vec![*only; count] } else { days.to_vec() };
    days.iter()
        .enumerate()
        .map(|(env, &day)| {
            usize::try_from(day).map_err(|_| {
                let of = num_envs.map_or(String::new(), |_| format!(" of environment {env}"));
                Failure::new(ErrorClass::Env, format!("start_day{of} is {day}; days begin at 0"))
            })
        })
        .collect()
}

/// Returns the positions of a date or a time, or of a sequence of them; `None` for other objects.
fn positions_of<'py>(
    value: &Bound<'py, PyAny>,
    panel: &Panel,
) -> Result<Option<Bound<'py, PyAny>>, Failure> {
    let py = value.py();
    if let Some(day) = first_day_of(value, panel, "start_day")? {
        return Ok(Some(day.into_pyobject(py).map_err(PyErr::from)?.into_any()));
    }
    // Scalars and arrays without an axis have no length.
    let is_sequence = value.len().is_ok_and(|len| len > 0);
    if !is_sequence || first_day_of(&value.get_item(0)?, panel, "start_day")?.is_none() {
        return Ok(None);
    }
    let mut days = Vec::new();
    for when in value.try_iter()? {
        let when = when?;
        let day = first_day_of(&when, panel, "start_day")?;
        days.push(day.ok_or_else(|| wrong_type(&when, "start_day", "dates alone"))?);
    }
    Ok(Some(days.into_pyobject(py)?))
}
