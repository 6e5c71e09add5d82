//! Arguments of a reset that every environment has: seeds and mask.

use backcast_core::DType;
use backcast_gym::ResetSeed;
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::argument::{Argument, found, shown};
use crate::array::convert::{ShapeText, Target, array_of};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};

/// Seed of a reset, for all environments or one for each.
pub(crate) enum Seed {
    One(u64),
    Each(Vec<Option<u64>>),
}

/// Reads an int, or an int or None per environment. `num_envs` is `None` for the single
/// environment.
pub(crate) fn seed_of(value: &Bound<'_, PyAny>, num_envs: Option<usize>) -> Result<Seed, Failure> {
    let wanted = |sequence| format!("a whole number from 0 to {}{sequence}, or None", u64::MAX);
    let read = |given: Argument<i128>, what: &str, wanted: &str| {
        let seed = given.get(what, wanted)?;
        u64::try_from(seed)
            .map_err(|_| Failure::new(ErrorClass::Env, format!("{what} is {seed}; give {wanted}")))
    };
    let Ok(lone) = value.extract::<Argument<i128>>();
    let listed = match num_envs {
        Some(envs) => {
            found(value.py(), value.extract::<Vec<Option<_>>>())?.map(|seeds| (seeds, envs))
        }
        None => None,
    };
    match listed {
        Some((seeds, envs)) if seeds.len() != envs => Err(Failure::new(
            ErrorClass::Env,
            format!(
                "seed has length {}, but there are {envs} environments; give an entry for each \
                 (None goes on in its stream), or a whole number for all",
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

impl Seed {
    /// Returns the streams that a reset begins. Without a seed they continue.
    pub(crate) fn streams(given: Option<&Self>) -> ResetSeed<'_> {
        match given {
            None => ResetSeed::Keep,
            Some(Self::One(seed)) => ResetSeed::One(*seed),
            Some(Self::Each(seeds)) => ResetSeed::Each(seeds),
        }
    }
}

/// Reads the reset mask, which Gymnasium requires to be a boolean array.
pub(crate) fn mask_of(value: &Bound<'_, PyAny>, num_envs: usize) -> Result<Vec<bool>, Failure> {
    let found = match value.cast::<PyUntypedArray>() {
        Ok(mask) if mask.dtype().kind() == b'b' => None,
        Ok(mask) => Some(format!("an array of {}", mask.dtype())),
        Err(_) => Some(shown(value)?),
    };
    if let Some(found) = found {
        return Err(Failure::new(
            ErrorClass::ArgumentType,
            format!("reset_mask is {found}; give a NumPy array of {num_envs} booleans"),
        ));
    }
    let mask = per_env(value, num_envs, "reset_mask", DType::Bool)?;
    Ok(bytes_of(&mask).unwrap_or_default().iter().map(|&byte| byte != 0).collect())
}

/// Reads an array `[N]`. A single number applies to all environments; a single boolean is refused.
pub(crate) fn per_env<'py>(
    value: &Bound<'py, PyAny>,
    num_envs: usize,
    what: &str,
    dtype: DType,
) -> Result<Bound<'py, PyUntypedArray>, Failure> {
    let array = array_of(value, Target { what, class: ErrorClass::Env, dtype })?;
    let lone = array.shape().is_empty() && dtype != DType::Bool;
    if lone || array.shape() == [num_envs] {
        return Ok(array);
    }
    let (got, wanted) = (ShapeText(array.shape()), ShapeText(&[num_envs]));
    let message = format!("{what}: got shape {got}; give {wanted}, one per environment");
    Err(Failure::new(ErrorClass::Env, message))
}
