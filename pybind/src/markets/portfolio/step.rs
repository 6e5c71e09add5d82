//! Steps of portfolios: actions in, observations, rewards and flags out.

use backcast_core::DType;
use backcast_gym::PortfolioError;
use numpy::prelude::*;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::array::convert::{ShapeText, Target, array_of};
use crate::array::view::bytes_of;
use crate::error::{ErrorClass, Failure};
use crate::markets::contract::results::StepArrays;
use crate::markets::portfolio::observation::ObservationBuffers;
use crate::markets::portfolio::outcome::PortfolioOutcome;
use crate::markets::portfolio::{PortfolioBatch, Step};

impl PortfolioBatch {
    pub(super) fn act<'py, A>(
        &self,
        actions: &Bound<'py, PyAny>,
        results: Option<[&mut [u8]; 3]>,
    ) -> Result<(Bound<'py, PyAny>, PortfolioOutcome), Failure>
    where
        A: bytemuck::AnyBitPattern + Into<f64> + Sync,
    {
        let dtype = if size_of::<A>() == 4 { DType::F32 } else { DType::F64 };
        let array = array_of(actions, Target { what: "actions", class: ErrorClass::Env, dtype })?;
        let fits = match (self.num_envs, array.shape()) {
            (Some(envs), [rows, columns]) => (*rows, *columns) == (envs, self.tickers.len()),
            (None, [columns]) => *columns == self.tickers.len(),
            _ => false,
        };
        if !fits {
            let expected: Vec<usize> =
                self.num_envs.into_iter().chain([self.tickers.len()]).collect();
            let each = if self.num_envs.is_some() { "portfolio and ticker" } else { "ticker" };
            return Err(Failure::new(
                ErrorClass::Env,
                format!(
                    "actions: got shape {}; give {}, one per {each}",
                    ShapeText(array.shape()),
                    ShapeText(&expected)
                ),
            ));
        }
        let bytes = bytes_of(&array).unwrap_or_default();
        let Ok(actions) = bytemuck::try_cast_slice::<u8, A>(bytes) else {
            // NumPy arrays can be unaligned.
            let aligned = array.call_method0("copy")?;
            return self.act::<A>(&aligned, results);
        };
        self.form.observe(array.py(), |slots| self.trade(actions, slots, results))
    }

    fn trade<A: Copy + Into<f64>>(
        &self,
        actions: &[A],
        mut slots: ObservationBuffers<'_>,
        results: Option<[&mut [u8]; 3]>,
    ) -> Result<PortfolioOutcome, Failure> {
        /// Distinguishes refused actions from observations that could not be written.
        enum Stop {
            Refused(PortfolioError),
            Unfilled(Failure),
        }
        impl From<PortfolioError> for Stop {
            fn from(error: PortfolioError) -> Self {
                Self::Refused(error)
            }
        }
        self.env.with(|env| {
            env.step_in_blocks(actions, |env, of| {
                slots.fill_block(env, of).map_err(Stop::Unfilled)
            })
            .map_err(|stop| match stop {
                Stop::Refused(error) => self.reworded(error),
                Stop::Unfilled(failure) => failure,
            })?;
            slots.finish(env, true)?;
            Ok(PortfolioOutcome::of(env, results))
        })
    }

    /// Allocates arrays for rewards and flags. The single environment has none.
    pub(super) fn results<'py>(&self, py: Python<'py>) -> PyResult<Option<StepArrays<'py>>> {
        self.num_envs.map(|envs| StepArrays::of(py, envs, &self.pool)).transpose()
    }

    /// Returns rewards and flags as Python objects.
    pub(super) fn flags<'py>(
        &self,
        py: Python<'py>,
        (reward, terminated, truncated): (f64, bool, bool),
        results: Option<StepArrays<'py>>,
    ) -> PyResult<[Bound<'py, PyAny>; 3]> {
        let flag = |flag: bool| flag.into_bound_py_any(py);
        match results {
            Some(results) => Ok(results.into_arrays(&self.pool)),
            None => Ok([reward.into_bound_py_any(py)?, flag(terminated)?, flag(truncated)?]),
        }
    }

    /// Returns the results of a step as Python objects.
    pub(super) fn told<'py>(
        &self,
        obs: Bound<'py, PyAny>,
        outcome: &PortfolioOutcome,
        results: Option<StepArrays<'py>>,
    ) -> Result<Step<'py>, Failure> {
        let py = obs.py();
        let infos = outcome.infos(py, &self.form, self.num_envs.is_some())?;
        let [rewards, terminated, truncated] = self.flags(py, outcome.first, results)?;
        Ok((obs, rewards, terminated, truncated, infos))
    }
}
