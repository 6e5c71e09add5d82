//! Steps of trading environments: actions in, observations, rewards and flags out.

use backcast_core::{BatchBuffers, DType};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::argument::{read, wrong_type};
use crate::array::convert::{ShapeText, Target, array_of, descr};
use crate::array::view::{LendError, LentArrays, bytes_of};
use crate::error::{ErrorClass, Failure};
use crate::markets::callback::refuse_void;
use crate::markets::contract::results::StepArrays;
use crate::markets::trading::outcome::TradingOutcome;
use crate::markets::trading::{Stepped, TradingBatch};

/// Observation, rewards, terminations, truncations and infos.
type Step<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyDict>,
);

/// Rewards, terminations, truncations and infos.
type Advanced<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyDict>);

#[pymethods]
impl TradingBatch {
    /// Take one decision in every environment.
    ///
    /// Parameters
    /// ----------
    /// actions : array_like, shape (N, A) or (N,)
    ///     Numbers of the action scheme; the last axis may be left out if it is one. In next-step
    ///     mode the actions of an environment that is about to be reset are ignored.
    ///
    /// Returns
    /// -------
    /// (ndarray, ndarray, ndarray, ndarray, dict)
    ///     Observation, rewards float64 ``[N]``, terminations and truncations bool ``[N]``, infos.
    ///     When an episode ended, infos hold ``metrics``; in same-step mode also ``final_obs``
    ///     (object array of None or the last observation), ``final_info`` and their masks.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     If an action is out of range, or an environment has to be reset first. Nothing has
    ///     changed then. An exception of a reward written in Python is raised after the step.
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> Result<Step<'py>, Failure> {
        if is_single(actions) {
            self.act::<f32>(py, actions, Observing::Now)
        } else {
            self.act::<f64>(py, actions, Observing::Now)
        }
    }

    /// Take one decision in every environment like ``step``, without an observation.
    ///
    /// Parameters
    /// ----------
    /// actions : array_like, shape (N, A) or (N,)
    ///     Actions: see ``step``.
    ///
    /// Returns
    /// -------
    /// (ndarray, ndarray, ndarray, dict)
    ///     Results of ``step`` without the observation.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     See ``step``.
    fn advance<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> Result<Advanced<'py>, Failure> {
        let (_, rewards, terminated, truncated, infos) = if is_single(actions) {
            self.act::<f32>(py, actions, Observing::Later)
        } else {
            self.act::<f64>(py, actions, Observing::Later)
        }?;
        Ok((rewards, terminated, truncated, infos))
    }

    /// Write the current observations into arrays of the caller.
    ///
    /// Parameters
    /// ----------
    /// out : sequence of ndarray
    ///     A float32 array ``[F]`` for each environment, such as ``row["obs"]`` of reserved rows.
    ///
    /// Raises
    /// ------
    /// EnvError
    ///     Before the first reset, or if an array cannot be filled.
    fn observe_into(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> Result<(), Failure> {
        let envs = self.num_envs.unwrap_or(1);
        let wanted = format!("a sequence of {envs} float32 arrays, one for each environment");
        let given: Vec<Bound<'_, PyAny>> = read(out, "out", &wanted)?;
        if given.len() != envs {
            let message = format!("out has length {}; give {wanted}", given.len());
            return Err(Failure::new(ErrorClass::Env, message));
        }
        let float = descr(py, DType::F32)?;
        let mut arrays = Vec::with_capacity(envs);
        for (at, given) in given.iter().enumerate() {
            let array = given.cast::<PyUntypedArray>();
            let fits = |array: &&Bound<'_, PyUntypedArray>| {
                array.shape() == [self.width] && array.dtype().is_equiv_to(&float)
            };
            let Some(array) = array.ok().filter(fits) else {
                let wanted = format!("a float32 array of shape ({},)", self.width);
                return Err(wrong_type(given, &format!("out[{at}]"), &wanted));
            };
            arrays.push((array.clone(), self.width * size_of::<f32>()));
        }
        let mut lent = LentArrays::of(&arrays).map_err(|(at, why)| {
            let why = match why {
                LendError::ReadOnly => "is read-only; give an array that can be written to",
                LendError::NotContiguous => "is not C-contiguous; give a new array",
                LendError::Overlapping => "shares memory with another; give each its own",
                LendError::Size | LendError::Busy => "is in use by another call; give a new array",
            };
            Failure::new(ErrorClass::Env, format!("out[{at}] {why}"))
        })?;
        py.detach(|| {
            self.env.with(|stepped| {
                for (at, bytes) in lent.buffers().into_iter().enumerate() {
                    let row = bytemuck::try_cast_slice_mut(bytes)
                        .map_err(|error| Failure::new(ErrorClass::Env, error))?;
                    let done = stepped.env.observe_into(at, row);
                    done.map_err(|error| self.reworded(&error))?;
                }
                Ok(())
            })
        })
    }
}

/// Whether a step writes its observation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Observing {
    Now,
    Later,
}

fn is_single(actions: &Bound<'_, PyAny>) -> bool {
    actions.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().char() == b'f')
}

impl TradingBatch {
    fn act<'py, A>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
        observing: Observing,
    ) -> Result<Step<'py>, Failure>
    where
        A: bytemuck::AnyBitPattern + Into<f64> + Sync,
    {
        let dtype = if size_of::<A>() == 4 { DType::F32 } else { DType::F64 };
        let what = if self.num_envs.is_some() { "actions" } else { "action" };
        let array = array_of(actions, Target { what, class: ErrorClass::Env, dtype })?;
        let full: Vec<usize> = self.num_envs.into_iter().chain([self.action_len]).collect();
        let commands: Vec<usize>;
        let short = if self.choices.commands > 0 {
            commands = self.num_envs.into_iter().chain(self.choices.command_shape()).collect();
            &commands[..]
        } else {
            &full[..full.len() - usize::from(self.action_len == 1)]
        };
        if array.shape() != full && array.shape() != short {
            let message = format!(
                "{what}: got shape {}; give {}, one number for each {}",
                ShapeText(array.shape()),
                ShapeText(short),
                match (self.num_envs.is_some(), self.action_len == 1) {
                    (true, true) => "environment",
                    (true, false) => "environment and part of its action",
                    (false, _) => "part of the action",
                }
            );
            return Err(Failure::new(ErrorClass::Env, message));
        }
        let bytes = bytes_of(&array).unwrap_or_default();
        let Ok(actions) = bytemuck::try_cast_slice::<u8, A>(bytes) else {
            // NumPy arrays can be unaligned.
            let aligned = array.call_method0("copy")?;
            return self.act::<A>(py, &aligned, observing);
        };
        let mut results =
            self.num_envs.map(|envs| StepArrays::of(py, envs, &self.pool)).transpose()?;
        let slots = results.as_mut().map(StepArrays::slots);
        let finish = |stepped: &mut Stepped| {
            stepped.failed = stepped.has_agents() && self.raised.is_kept();
            stepped.look();
            TradingOutcome::of(&stepped.env, self.choices, slots)
        };
        let (obs, outcome) = if observing == Observing::Now {
            self.form.observe(py, |out| {
                self.env.with(|stepped| {
                    refuse_void(stepped.failed)?;
                    stepped.env.step_into(actions, out).map_err(|error| self.reworded(&error))?;
                    finish(stepped)
                })
            })?
        } else {
            let outcome = py.detach(|| {
                self.env.with(|stepped| {
                    refuse_void(stepped.failed)?;
                    stepped.env.advance(actions).map_err(|error| self.reworded(&error))?;
                    finish(stepped)
                })
            })?;
            (py.None().into_bound(py), outcome)
        };
        self.raised.raise()?;
        let infos = outcome.infos(py, self.choices, self.num_envs.is_some())?;
        let [rewards, terminated, truncated] = if let Some(results) = results {
            results.into_arrays(&self.pool)
        } else {
            let (reward, terminated, truncated) = outcome.first;
            [
                reward.into_bound_py_any(py)?,
                terminated.into_bound_py_any(py)?,
                truncated.into_bound_py_any(py)?,
            ]
        };
        Ok((obs, rewards, terminated, truncated, infos))
    }
}
