//! The arguments of an environment's reset: where its episodes begin, and their seeds.

use backcast_core::DType;
use numpy::prelude::*;
use numpy::{PyArrayDyn, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::coerce::{Target, Tuple, array_of};
use crate::error::{Failure, Kind};
use crate::given::{Given, found, of_another_type, shown};
use crate::view::bytes_of;

/// Where a reset begins.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) day: Option<Vec<usize>>,
    pub(crate) mask: Option<Vec<bool>>,
}

/// The `seed` of a reset.
pub(crate) enum Seed {
    One(u64),
    Each(Vec<Option<u64>>),
}

/// An int, or an int or None per environment. `num_envs` is `None` for the single environment.
pub(crate) fn seed_of(value: &Bound<'_, PyAny>, num_envs: Option<usize>) -> Result<Seed, Failure> {
    let wanted = |sequence| format!("a whole number from 0 to {}{sequence}, or None", u64::MAX);
    let read = |given: Given<i128>, what: &str, wanted: &str| {
        let seed = given.get(what, wanted)?;
        u64::try_from(seed)
            .map_err(|_| Failure::new(Kind::Env, format!("{what} is {seed}; give {wanted}")))
    };
    let Ok(lone) = value.extract::<Given<i128>>();
    let listed = match num_envs {
        Some(envs) => {
            found(value.py(), value.extract::<Vec<Option<_>>>())?.map(|seeds| (seeds, envs))
        }
        None => None,
    };
    match listed {
        Some((seeds, envs)) if seeds.len() != envs => Err(Failure::new(
            Kind::Env,
            format!(
                "seed has length {}, but there are {envs} environments; give an entry for each (None \
                 goes on in its stream), or a whole number for all",
                seeds.len()
            ),
        )),
        Some((seeds, _)) => {
            let each = seeds.into_iter().enumerate().map(|(at, seed)| {
                seed.map(|seed| read(seed, &format!("seed[{at}]"), &wanted(""))).transpose()
            });
            Ok(Seed::Each(each.collect::<Result<_, _>>()?))
        }
        None => {
            let sequence = if num_envs.is_some() { ", a sequence of such" } else { "" };
            Ok(Seed::One(read(lone, "seed", &wanted(sequence))?))
        }
    }
}

/// What the `options` of a reset ask for.
pub(crate) fn start_of(
    options: &Bound<'_, PyAny>,
    num_envs: Option<usize>,
) -> Result<Start, Failure> {
    let mut start = Start::default();
    let options = options.cast::<PyDict>().map_err(|_| {
        let wanted = "a dict, {\"start_day\": 5}, or None";
        of_another_type(options, "options", wanted)
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
                    Kind::Env,
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
    let days = days.as_slice().map_err(|error| Failure::new(Kind::Env, error))?;
    let days = if let [only] = days { vec![*only; count] } else { days.to_vec() };
    days.iter()
        .enumerate()
        .map(|(env, &day)| {
            usize::try_from(day).map_err(|_| {
                let of = num_envs.map_or(String::new(), |_| format!(" of environment {env}"));
                Failure::new(Kind::Env, format!("start_day{of} is {day}; days begin at 0"))
            })
        })
        .collect()
}

/// The types are Gymnasium's to the letter: nothing but a boolean array will do.
fn mask_of(value: &Bound<'_, PyAny>, num_envs: usize) -> Result<Vec<bool>, Failure> {
    let found = match value.cast::<PyUntypedArray>() {
        Ok(mask) if mask.dtype().kind() == b'b' => None,
        Ok(mask) => Some(format!("an array of {}", mask.dtype())),
        Err(_) => Some(shown(value)?),
    };
    if let Some(found) = found {
        return Err(Failure::new(
            Kind::ArgumentType,
            format!("reset_mask is {found}; give a NumPy array of {num_envs} booleans"),
        ));
    }
    let mask = per_env(value, num_envs, "reset_mask", DType::Bool)?;
    Ok(bytes_of(&mask).unwrap_or_default().iter().map(|&byte| byte != 0).collect())
}

/// An array `[N]`; a lone number stands for all.
fn per_env<'py>(
    value: &Bound<'py, PyAny>,
    num_envs: usize,
    what: &str,
    dtype: DType,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let array = array_of(value, Target { what, kind: Kind::Env, dtype })?;
    let lone = array.shape().is_empty() && dtype != DType::Bool;
    if lone || array.shape() == [num_envs] {
        return Ok(array);
    }
    let (got, wanted) = (Tuple(array.shape()), Tuple(&[num_envs]));
    let message = format!("{what}: got shape {got}; give {wanted}, one per environment");
    Err(Failure::new(Kind::Env, message))
}
