//! Options of a reset: start days and mask.

use backcast_core::DType;
use numpy::PyArrayDyn;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::wrong_type;
use crate::error::{ErrorClass, Failure};
use crate::markets::contract::reset::{mask_of, per_env};

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
) -> Result<Start, Failure> {
    let mut start = Start::default();
    let options = options.cast::<PyDict>().map_err(|_| {
        let wanted = "a dict, {\"start_day\": 5}, or None";
        wrong_type(options, "options", wanted)
    })?;
    for (key, value) in options {
        match (key.extract::<&str>(), num_envs) {
            (Ok("start_day"), _) => start.day = Some(days_of(&value, num_envs)?),
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

fn days_of(value: &Bound<'_, PyAny>, num_envs: Option<usize>) -> Result<Vec<usize>, Failure> {
    let count = num_envs.unwrap_or(1);
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
